-- Runs a piece of test in both facades: once as a task under `portico.run`,
-- once blocking; and on each backend that can do what it needs. The piece gets
-- the facade, and never knows which one it is.

local portico = require("portico")
local sync = require("portico.sync")
local errors = require("portico.errors")
local backends = require("spec.support.backends")
local env = require("spec.support.env")

local facades = {}

facades.list = {
  { name = "async", module = portico },
  { name = "sync", module = sync },
}

-- Calls fn(P, ...) in the way of one facade and returns its results. The sync
-- facade runs in a coroutine of its own, so that a yield would be seen.
function facades.call(facade, fn, ...)
  if facade.name == "async" then
    return portico.run(fn, facade.module, ...)
  end
  local thread = coroutine.create(fn)
  local results = table.pack(coroutine.resume(thread, facade.module, ...))
  if not results[1] then
    error(results[2], 0)
  elseif coroutine.status(thread) ~= "dead" then
    error("a sync member yielded\n" .. debug.traceback(thread), 0)
  end
  return table.unpack(results, 2, results.n)
end

-- What a script writes to require the facade.
function facades.module_name(P)
  return P == portico and "portico" or "portico.sync"
end

-- Declares a test for each facade; `it` is busted's.
function facades.both(it, name, fn)
  for _, facade in ipairs(facades.list) do
    it(name .. " [" .. facade.name .. "]", function()
      facades.call(facade, fn)
    end)
  end
end

-- Declares a test for each facade of a list on one backend.
local function declare(it, backend, list, name, fn)
  for _, facade in ipairs(list) do
    backends.it(it, backend,
      ("%s [%s, %s]"):format(name, backend.name, facade.name), function()
        facades.call(facade, fn, backend)
      end)
  end
end

-- Declares a test for each facade on each backend that runs programs: fn gets
-- the facade and the entry of support/backends.lua.
function facades.everywhere(it, name, fn)
  for _, backend in ipairs(backends.real) do
    declare(it, backend, facades.list, name, fn)
  end
end

-- Opens a sandbox, of `local` unless the options say otherwise, and passes it
-- to fn; closes it whatever happens.
function facades.with_sandbox(P, options, fn)
  local all = { backend = "local" }
  for key, value in pairs(options) do
    all[key] = value
  end
  local sandbox <close> = P.sandbox(all)
  return fn(sandbox)
end

-- What calls fn(P, sandbox, backend) with a sandbox of the backend it gets.
local function in_sandbox(fn, options)
  return function(P, backend)
    local all = { backend = backend.name }
    for key, value in pairs(options or {}) do
      all[key] = value
    end
    facades.with_sandbox(P, all, function(sandbox)
      fn(P, sandbox, backend)
    end)
  end
end

-- Declares a test for each facade that gets a sandbox, on each backend that
-- runs programs.
function facades.on_each(it, name, fn, options)
  facades.everywhere(it, name, in_sandbox(fn, options))
end

-- Declares a test for each facade of what only one backend does: fn gets the
-- facade, and opens what it needs.
function facades.with(it, backend, name, fn)
  declare(it, backends[backend], facades.list, name, fn)
end

-- The same for what only tasks can do.
function facades.in_task(it, name, fn, options)
  for _, backend in ipairs(backends.real) do
    declare(it, backend, { facades.list[1] }, name, in_sandbox(fn, options))
  end
end

-- The same as on_each for what only one backend does.
function facades.on(it, backend, name, fn, options)
  declare(it, backends[backend], facades.list, name, in_sandbox(fn, options))
end

-- Calls fn, which must raise an error of the class; returns the error.
function facades.raises(class, fn, ...)
  local results = table.pack(pcall(fn, ...))
  if results[1] then
    error("expected " .. class .. ", but it returned "
      .. tostring(results[2]), 2)
  elseif not errors.is(results[2], class) then
    error("expected " .. class .. ", got " .. tostring(results[2]), 2)
  elseif errors.is(results[2], "InvalidArgumentError") then
    assert(results[2].code == "PCO_EINVAL", results[2])
  end
  return results[2]
end

-- Seconds that fn takes, and its first result.
function facades.timed(fn, ...)
  local start = env.now()
  local result = fn(...)
  return env.now() - start, result
end

return facades
