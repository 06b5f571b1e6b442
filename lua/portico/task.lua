-- Tasks of the async facade: what stands beside `portico.run`.
--
-- Only for coroutines, so there is no sync twin. `run` and `sleep` are those
-- of the facade, here for scripts that need nothing else of it.

local core = require("portico.core").async

---@class portico.task
local task = {}

---Runs fn(...) as a task, as `portico.run` does.
---@generic T
---@param fn fun(...): T
---@param ... any arguments of fn
---@return T ... the results of fn
function task.run(fn, ...)
  return core.run(fn, ...)
end

---Waits for a number of seconds; 0 lets other tasks run.
---@async
---@param seconds number
function task.sleep(seconds)
  return core.sleep(seconds)
end

---Runs all functions at the same time, a task each, and returns the first
---result of each, in the order of the functions. When one fails the others are
---cancelled; once all have ended its error is raised.
---@async
---@param functions (fun(): any)[]
---@return any[] results
function task.all(functions)
  return core.task_all(functions)
end

return task
