-- Scenarios: the members of the module itself.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local scenarios = require("spec.support.scenarios.list").new()
local portable = scenarios.portable

local BYTES = env.all_bytes()

portable("module: version and classes", function(P, _, t)
  t:note("version", P.version, P._VERSION)
  t:note("classes", type(P.Backend), type(P.Sandbox), type(P.FileSystem),
    type(P.Process), type(P.Result), type(P.Iterator), type(P.errors))
end)

portable("module: backends", function(P, _, t)
  local names = {}
  for _, entry in ipairs(P.backends()) do
    names[entry.name] = true
    t:note("entry", entry.name, type(entry.path))
  end
  for _, backend in ipairs(backends.list) do
    t:note(backend.name, names[backend.name])
  end
end)

portable("module: quote", function(P, _, t)
  t:try("none", P.quote)
  t:try("plain", P.quote, "abc", "a b", "", "it's", "-n", 5)
  t:try("bytes", P.quote, (BYTES:gsub("%z", "")))
  t:raises("InvalidArgumentError", "PCO_EINVAL", "NUL", P.quote, "a\0b")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "table", P.quote, {})
  t:raises("InvalidArgumentError", "PCO_EINVAL", "hole", P.quote, "a", nil)
end)

portable("module: sleep", function(P, _, t)
  t:try("zero", P.sleep, 0)
  t:try("float", P.sleep, 0.01)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "negative", P.sleep, -1)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "NaN", P.sleep, 0 / 0)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "missing", P.sleep)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "string", P.sleep, "soon")
end)

portable("module: run inside", function(P, _, t)
  t:try("results", P.run, function(...)
    return select("#", ...), ...
  end, 1, nil, 1.0, nil)
  local object = {}
  local ok, err = pcall(P.run, function()
    error(object)
  end)
  t:note("same object", ok, rawequal(err, object))
  t:raises("InvalidArgumentError", "PCO_EINVAL", "no function", P.run, 5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", P.run)
end)

portable("module: set_logger", function(P, _, t)
  t:try("set", P.set_logger, function() end)
  t:try("unset", P.set_logger, nil)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "wrong", P.set_logger, 5)
end)

portable("module: open", function(P, _, t)
  local backend = P.open(t.backend)
  t:note("name", backend.name, type(backend.settings), backend.closed)
  t:note("close", backend:close(), backend.closed, backend:close())
  t:raises("NotFoundError", nil, "unknown", P.open, "no-such-backend")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "number", P.open, 5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", P.open)
  t:try("empty name", P.open, "")
  t:try("dots", P.open, "../null")
  t:try("NUL", P.open, "null\0")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "settings", P.open,
    t.backend, 5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "table setting", P.open,
    t.backend, { a = {} })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "option", P.open,
    t.backend, nil, { portl = true })
end)

portable("module: sandbox", function(P, _, t)
  local sb = P.sandbox({ backend = t.backend })
  t:note("fields", type(sb.id), sb.closed, sb.backend.name, sb.fs.sandbox == sb)
  t:note("class", getmetatable(sb).__index == P.Sandbox,
    getmetatable(sb.fs).__index == P.FileSystem,
    getmetatable(sb.backend).__index == P.Backend)
  local backend = sb.backend
  t:note("close", sb:close(), sb.closed, sb:close(), backend.closed)
  local open <close> = P.open(t.backend)
  local second = P.sandbox({ backend = open })
  t:note("given backend", second.backend == open)
  t:note("it stays open", second:close(), open.closed)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "no name", P.sandbox,
    { backend = false })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "a string", P.sandbox,
    t.backend)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "unknown option", P.sandbox,
    { backend = t.backend, nmae = "x" })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "backend twice", P.sandbox,
    { backend = open, backend_settings = { a = "b" } })
  t:raises("NotFoundError", nil, "unknown backend", P.sandbox,
    { backend = "no-such-backend" })
  t:raises("UsageError", "PCO_EFACADE", "the other's backend", P.sandbox,
    { backend = t.other.backend })
end)

return scenarios
