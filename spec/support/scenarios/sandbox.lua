-- Scenarios: the rest of Sandbox.

local scenarios = require("spec.support.scenarios.list").new()
local portable = scenarios.portable

portable("Sandbox: info, processes, tostring", function(_, sb, t)
  t:try("info", sb.info, sb)
  t:try("none", sb.processes, sb)
  local p = sb:spawn({ "sleep", "30" })
  local list = sb:processes()
  t:note("one", #list, list[1] and list[1].argv, list[1] and
    list[1].pid == p.pid)
  t:note("running", list[1] and list[1].state, list[1] and list[1].code)
  p:kill()
  t:note("over", #sb:processes(), #sb:processes({ all = false }))
  local ended = sb:processes({ all = true })
  t:note("all", #ended, ended[1] and ended[1].state, ended[1] and
    ended[1].code, ended[1] and ended[1].signal, ended[1] and
    ended[1].pid == p.pid)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "all", sb.processes, sb,
    { all = 1 })
  t:note("text", tostring(sb):find(sb.id, 1, true) ~= nil,
    tostring(sb.backend):find(t.backend, 1, true) ~= nil,
    type(tostring(sb.fs)), type(tostring(p)))
  t:note("name", getmetatable(sb).__name, getmetatable(p).__name)
  t:note("text of all", tostring(sb), tostring(sb.backend), tostring(sb.fs))
end)

portable("Sandbox: process", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  local again = sb:process(p.pid)
  t:note("same", again.pid == p.pid, again.sandbox == sb)
  t:note("poll", again:poll())
  t:note("kill", again:kill().signal)
  t:note("both", p:wait().signal, again:wait().signal)
  t:raises("NotFoundError", nil, "unknown", sb.process, sb, 999999)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "string", sb.process, sb, "x")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "float", sb.process, sb, 1.5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "zero", sb.process, sb, 0)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "minus", sb.process, sb, -1)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", sb.process, sb)
end)

portable("Sandbox: process that has ended", function(_, sb, t)
  local pid
  do
    local p <close> = sb:spawn({ "false" })
    t:note("code", p:wait().code)
    pid = p.pid
  end
  collectgarbage()
  collectgarbage()
  local again = sb:process(pid)
  t:note("kept", again:wait(), again:poll().code, again.argv)
  t:note("read", again:read(), (again:signal("TERM")), again:kill().code)
  t:try("write", again.write, again, "x")
  t:note("close", again:close(), sb:process(pid):wait().code)
end)

portable("Sandbox: close", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  t:note("close", sb:close(), sb:close(), sb.closed)
  t:try("wait after close", p.wait, p)
  t:try("poll after close", p.poll, p)
  t:try("close after close", p.close, p)
  t:raises("ClosedError", "PCO_ECLOSED", "exec", sb.exec, sb, { "true" })
  t:raises("ClosedError", "PCO_ECLOSED", "spawn", sb.spawn, sb, { "true" })
  t:raises("ClosedError", "PCO_ECLOSED", "output", sb.output, sb, { "true" })
  t:raises("ClosedError", "PCO_ECLOSED", "processes", sb.processes, sb)
  t:raises("ClosedError", "PCO_ECLOSED", "process", sb.process, sb, 1)
  t:raises("ClosedError", "PCO_ECLOSED", "info", sb.info, sb)
  t:raises("ClosedError", "PCO_ECLOSED", "read", sb.fs.read, sb.fs, "x")
  t:raises("ClosedError", "PCO_ECLOSED", "write", sb.fs.write, sb.fs, "x", "")
  t:raises("ClosedError", "PCO_ECLOSED", "exists", sb.fs.exists, sb.fs, "x")
  t:note("text", (tostring(sb):find("closed")) ~= nil)
end)

portable("scopes close what they hold", function(P, sb, t)
  local kept, process
  do
    local backend <close> = P.open(t.backend)
    local inner <close> = backend:create()
    local p <close> = inner:spawn({ "sleep", "30" })
    kept, process = inner, p
  end
  t:note("closed", kept.closed, kept.backend.closed, process.closed)
  local object = { "mine" }
  local ok, err = pcall(function()
    local p <close> = sb:spawn({ "sleep", "30" })
    process = p
    error(object)
  end)
  t:note("error", ok, rawequal(err, object), process.closed)
end)

return scenarios
