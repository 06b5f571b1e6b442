-- Runs a piece of test in both facades: once as a task under `portico.run`,
-- once blocking. The piece gets the facade, and never knows which one it is.

local portico = require("portico")
local sync = require("portico.sync")
local errors = require("portico.errors")
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

-- Declares a test for each facade; `it` is busted's.
function facades.both(it, name, fn)
  for _, facade in ipairs(facades.list) do
    it(name .. " [" .. facade.name .. "]", function()
      facades.call(facade, fn)
    end)
  end
end

-- Opens a sandbox of `local` and passes it to fn; closes it whatever happens.
function facades.with_sandbox(P, options, fn)
  local all = { backend = "local" }
  for key, value in pairs(options) do
    all[key] = value
  end
  local sandbox <close> = P.sandbox(all)
  return fn(sandbox)
end

-- Declares a test for each facade that gets a sandbox of `local`.
function facades.on_local(it, name, fn, options)
  facades.both(it, name, function(P)
    facades.with_sandbox(P, options or {}, function(sandbox)
      fn(P, sandbox)
    end)
  end)
end

-- Calls fn, which must raise an error of the class; returns the error.
function facades.raises(class, fn, ...)
  local results = table.pack(pcall(fn, ...))
  if results[1] then
    error("expected " .. class .. ", but it returned "
      .. tostring(results[2]), 2)
  elseif not errors.is(results[2], class) then
    error("expected " .. class .. ", got " .. tostring(results[2]), 2)
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
