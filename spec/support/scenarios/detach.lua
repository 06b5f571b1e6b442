-- Scenarios: sandboxes that are left running and taken over.

local detached = require("spec.support.detached")

local scenarios = require("spec.support.scenarios.list").new()
local add, portable = scenarios.add, scenarios.portable

add("Backend: attach, Sandbox: detach", function(P, _, t)
  local backend <close> = P.open(t.backend, { state = detached.state() })
  local sb = backend:create({
    detachable = true, name = "scenario", labels = { purpose = "spec" },
    ttl = 600,
  })
  local p = sb:spawn("read x; echo $x; exit 5", { stdin = "pipe" })
  sb.fs:write("file", "text")
  t:note("busy", pcall(backend.attach, backend, "scenario"))
  t:note("detach", sb:detach(), sb.closed, tostring(sb))
  t:raises("ClosedError", "PCO_ECLOSED", "again", sb.detach, sb)
  t:raises("ClosedError", "PCO_ECLOSED", "exec", sb.exec, sb, { "true" })
  t:raises("ClosedError", "PCO_ECLOSED", "wait", p.wait, p)
  t:note("close", sb:close())
  local list = backend:list()
  t:note("list", #list, list[1].id, list[1].name, list[1].state,
    list[1].labels, list[1].owner)
  local again = backend:attach("scenario", { timeout = 30 })
  t:note("attached", again.id, again.closed, again.backend == backend,
    again:info().labels, again:info().state, again.fs:read("file"))
  local processes = again:processes()
  t:note("processes", #processes, processes[1].argv, processes[1].state)
  local same = again:process(processes[1].pid)
  same:write("word\n")
  t:note("result", same:wait())
  t:note("end", again:close(), again:close(), backend:destroy("scenario"))
  t:note("reap", backend:reap())
end)

add("Backend: attach and detach refused", function(P, sb, t)
  t:raises("UnsupportedError", "PCO_EUNSUPPORTED", "not made for it",
    sb.detach, sb)
  t:note("open", sb.closed, sb:exec({ "true" }).code)
  local backend <close> = P.open(t.backend, { state = detached.state() })
  t:raises("NotFoundError", nil, "unknown", backend.attach, backend, "none")
end)

portable("Backend: attach, reap and detach with bad arguments",
  function(_, sb, t)
    local backend = sb.backend
    for label, id in pairs({ number = 5, table = {}, empty = "", nul = "a\0" })
    do
      t:raises("InvalidArgumentError", "PCO_EINVAL", "\1" .. label,
        backend.attach, backend, id)
    end
    t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", backend.attach,
      backend)
    t:raises("InvalidArgumentError", "PCO_EINVAL", "attach option",
      backend.attach, backend, "x", { timout = 1 })
    t:raises("InvalidArgumentError", "PCO_EINVAL", "reap option", backend.reap,
      backend, { timout = 1 })
    t:raises("InvalidArgumentError", "PCO_EINVAL", "detach option", sb.detach,
      sb, { timout = 1 })
    for label, options in pairs({
      alone = { ttl = 5 }, zero = { detachable = true, ttl = 0 },
      word = { detachable = true, ttl = "x" }, flag = { detachable = 1 },
    }) do
      t:raises("InvalidArgumentError", "PCO_EINVAL", "\1" .. label,
        backend.create, backend, options)
    end
  end)

return scenarios
