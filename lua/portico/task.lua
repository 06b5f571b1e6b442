-- Tasks: many things at once, none left behind.
--
-- A task is a function that runs beside others and is suspended where it
-- waits. Tasks live in scopes: a scope ends when all its tasks have, the first
-- failure cancels the rest and is raised by the scope, and whoever cancels a
-- scope cancels everything in it. lua/README.md has a picture.
--
-- Only for coroutines, so there is no sync twin. `run` and `sleep` are those
-- of the facade, here for scripts that need nothing else of it.

local core = require("portico.core").async

---@class portico.task
local task = {}

-- A function that runs beside others. `name` may be set; it is for people.
---@class portico.Task
---@field name string
local Task = core.class("Task")
local task_metatable = core.metatable("Task")
task.Task = Task

-- A group of tasks that end before the call that opened it does.
---@class portico.Scope
local Scope = core.class("Scope")
local scope_metatable = core.metatable("Scope")
task.Scope = Scope

-- Something that tasks wait for until somebody says that it is there.
---@class portico.Event
local Event = core.class("Event")
local event_metatable = core.metatable("Event")
task.Event = Event

-- A number of permits: so many tasks at once.
---@class portico.Semaphore
local Semaphore = core.class("Semaphore")
local semaphore_metatable = core.metatable("Semaphore")
task.Semaphore = Semaphore

-- A permit that was acquired. Made for `<close>` variables.
---@class portico.Permit
local Permit = core.class("Permit")
local permit_metatable = core.metatable("Permit")
task.Permit = Permit

-- Values from task to task, in order.
---@class portico.Channel
local Channel = core.class("Channel")
local channel_metatable = core.metatable("Channel")
task.Channel = Channel

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

---Lets other tasks run, and raises CancelledError if this one is cancelled. For
---loops that compute for long.
---@async
function task.checkpoint()
  return core.task_checkpoint()
end

---Opens a scope, calls fn with it, and returns its results when fn and all
---tasks that were spawned in the scope have ended. The first failure cancels
---the rest and is raised, with further ones in its field `others`. A `timeout`
---or `deadline` that passes cancels all and raises TimeoutError.
---@async
---@generic T
---@param fn fun(scope: portico.Scope): T
---@param options portico.ScopeOptions?
---@return T ... the results of fn
function task.scope(fn, options)
  return core.task_scope(fn, options)
end

---Calls fn(...) and returns its results, or raises TimeoutError when it takes
---too long: it is cancelled, and what it waits for with it.
---@async
---@generic T
---@param seconds number
---@param fn fun(...): T
---@param ... any arguments of fn
---@return T ... the results of fn
function task.timeout(seconds, fn, ...)
  return core.task_timeout(seconds, fn, ...)
end

---Calls fn(...) so that no cancellation from outside reaches it, and returns
---its results. For clean-up that must not be cut; give it a time limit.
---@async
---@generic T
---@param fn fun(...): T
---@param ... any arguments of fn
---@return T ... the results of fn
function task.shield(fn, ...)
  return core.task_shield(fn, ...)
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

---Runs all functions at the same time, a task each, and returns the results of
---the first that succeeds; the others are cancelled. When none succeeds the
---first error is raised, with the further ones in its field `others`.
---@async
---@generic T
---@param functions (fun(): T)[]
---@return T ... the results of the first
function task.first(functions)
  return core.task_first(functions)
end

---Returns the task that runs now, or nil outside of all tasks.
---@return portico.Task?
function task.current()
  return core.task_current()
end

---Lists all tasks that have not ended: those of `run` first, and below each
---(`depth`) the tasks in its scopes.
---@return portico.TaskEntry[]
function task.tasks()
  return core.task_list()
end

---Returns the time of a clock that only goes forward, in seconds: what the
---option `deadline` is compared with.
---@return number seconds
function task.now()
  return core.task_now()
end

---Makes an event that is not set.
---@return portico.Event
function task.event()
  return core.task_event()
end

---Makes a semaphore with so many permits.
---@param count integer
---@return portico.Semaphore
function task.semaphore(count)
  return core.task_semaphore(count)
end

---Makes a channel in which so many values can wait (0: each waits for its
---receiver).
---@param capacity integer?
---@return portico.Channel
function task.channel(capacity)
  return core.task_channel(capacity)
end

---Starts a task that calls fn(...), at the next wait of this one. It ends
---before the scope does. Raises UsageError if that has ended.
---@param fn fun(...): any
---@param ... any arguments of fn
---@return portico.Task
function Scope:spawn(fn, ...)
  return core.scope_spawn(self, fn, ...)
end

---Cancels everything in the scope: each wait raises CancelledError, now and
---from now on. Returns whether this call did it. A text as reason becomes the
---message of the errors, an error their cause.
---@param reason any
---@return boolean cancelled
function Scope:cancel(reason)
  return core.scope_cancel(self, reason)
end

---Describes the scope: its name, state and number of tasks.
---@return string
function scope_metatable:__tostring()
  return core.scope_tostring(self)
end

---Waits for the task and returns its results, or raises its error; by many, and
---again. A failure is the scope's as well, caught here or not.
---@async
---@return any ... the results of its function
function Task:await()
  return core.task_await(self)
end

---Waits for the task and returns true and its results, or false and its error.
---A failure that this call gets is taken care of: the scope goes on.
---@async
---@return boolean ok
---@return any ... the results of its function, or the error
function Task:pawait()
  return core.task_pawait(self)
end

---Cancels the task: each wait raises CancelledError, now and from now on; one
---that has not begun never does. Does not wait. Returns whether this call did
---it. A text as reason becomes the message of the errors, an error their cause.
---@param reason any
---@return boolean cancelled
function Task:cancel(reason)
  return core.task_cancel(self, reason)
end

---Says where the task is: "new", "running", "waiting", "done", "failed",
---"cancelled".
---@return string status
function Task:status()
  return core.task_status(self)
end

---Describes the task: its name and status.
---@return string
function task_metatable:__tostring()
  return core.task_tostring(self)
end

---Sets the event, which wakes who waits for it. Returns false if it was set.
---@return boolean changed
function Event:set()
  return core.event_set(self)
end

---Clears the event. Returns false if it was not set.
---@return boolean changed
function Event:clear()
  return core.event_clear(self)
end

---Says whether the event is set.
---@return boolean
function Event:is_set()
  return core.event_is_set(self)
end

---Waits until the event is set; returns at once if it is.
---@async
---@param options portico.CallOptions?
function Event:wait(options)
  return core.event_wait(self, options)
end

---Describes the event: whether it is set.
---@return string
function event_metatable:__tostring()
  return core.event_tostring(self)
end

---Waits for a permit: `local permit <close> = semaphore:acquire()`. They are
---given in the order in which tasks ask.
---@async
---@param options portico.CallOptions?
---@return portico.Permit
function Semaphore:acquire(options)
  return core.semaphore_acquire(self, options)
end

---Describes the semaphore: how many permits are free.
---@return string
function semaphore_metatable:__tostring()
  return core.semaphore_tostring(self)
end

---Gives the permit back. Returns false if it was given back before.
---@return boolean released
function Permit:close()
  return core.permit_close(self)
end

---Gives the permit back at the end of a `<close>` variable's scope.
---@param err any the error in flight, or nil
function permit_metatable:__close(err)
  return core.permit_close(self, err)
end

---Sends a value, which must not be nil; waits while the channel is full. Raises
---ClosedError if it is closed.
---@async
---@param value any
---@param options portico.CallOptions?
function Channel:send(value, options)
  return core.channel_send(self, value, options)
end

---Receives the next value; waits for one. Returns nil when the channel is
---closed and empty.
---@async
---@param options portico.CallOptions?
---@return any value
function Channel:receive(options)
  return core.channel_receive(self, options)
end

---Iterates over the values until the channel is closed and empty.
---@return fun(): any
---@return portico.Channel
function Channel:values()
  return core.channel_values(self)
end

---Closes the channel: what was sent is still received, then nil; nothing more
---can be sent. Returns false if it was closed before.
---@return boolean closed
function Channel:close()
  return core.channel_close(self)
end

---Closes the channel at the end of a `<close>` variable's scope.
---@param err any the error in flight, or nil
function channel_metatable:__close(err)
  return core.channel_close(self, err)
end

---Describes the channel: how many values wait in it.
---@return string
function channel_metatable:__tostring()
  return core.channel_tostring(self)
end

return task
