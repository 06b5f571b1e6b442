-- Scenarios: Backend.

local scenarios = require("spec.support.scenarios.list").new()
local portable = scenarios.portable

portable("Backend: probe", function(_, sb, t)
  t:try("probe", sb.backend.probe, sb.backend)
  t:try("with a limit", sb.backend.probe, sb.backend, { timeout = 10 })
end)

portable("Backend: create and list", function(P, _, t)
  local backend <close> = P.open(t.backend)
  local a = backend:create()
  local b = backend:create({ labels = { purpose = "spec" } })
  local mine = {}
  for _, info in ipairs(backend:list()) do
    if info.id == a.id or info.id == b.id then
      mine[#mine + 1] = info
    end
  end
  t:note("list", #mine, mine[1])
  t:note("destroy", backend:destroy(a.id), backend:destroy(a.id))
  t:try("gone", a.exec, a, { "true" })
  t:note("close a", pcall(a.close, a))
  t:note("unknown id", backend:destroy("no-such-id"))
  t:note("close", b:close())
  t:raises("InvalidArgumentError", "PCO_EINVAL", "no id", backend.destroy,
    backend)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "id", backend.destroy,
    backend, {})
end)

portable("Backend: create options", function(P, _, t)
  local backend <close> = P.open(t.backend)
  for label, options in pairs({
    name = { name = 5 }, env = { env = "A=b" }, value = { env = { A = {} } },
    labels = { labels = { a = {} } }, limits = { limits = 5 },
    limit = { limits = { memroy = 1 } }, mounts = { mounts = { {} } },
    strict = { strict = "yes" }, unknown = { timout = 5 }, number = { 5 },
    timeout = { timeout = -1 }, nan = { timeout = 0 / 0 },
    settings = { settings = { no_such_setting = "x" } },
  }) do
    t:raises("InvalidArgumentError", nil, "\1" .. label, backend.create,
      backend, options)
  end
  t:try("image", backend.create, backend, { image = "alpine" })
  t:try("network", backend.create, backend, { network = "none" })
  t:try("memory", backend.create, backend,
    { limits = { memory = 1 << 26 }, strict = true })
end)

portable("Backend: closing closes sandboxes", function(P, _, t)
  local backend = P.open(t.backend)
  local sb = backend:create()
  t:note("close", backend:close(), sb.closed)
  t:raises("ClosedError", "PCO_ECLOSED", "exec", sb.exec, sb, { "true" })
  t:raises("ClosedError", "PCO_ECLOSED", "create", backend.create, backend)
  t:raises("ClosedError", "PCO_ECLOSED", "probe", backend.probe, backend)
  t:raises("ClosedError", "PCO_ECLOSED", "list", backend.list, backend)
  t:try("destroy", backend.destroy, backend, "x")
end)

return scenarios
