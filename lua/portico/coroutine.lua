-- Coroutines that can wait: the stock library's functions, with one addition.
--
-- When a coroutine that runs inside a task waits (for a command, a timer,
-- another task), the whole task is suspended and not just the coroutine, so a
-- generator may wait between two values and its consumer never notices. All
-- else is as the manual of Lua says it, errors and their positions included.
--
-- The command `portico` has these in place of the stock ones. Elsewhere take
-- them from here, or call `install()`: it puts them into the global table
-- `coroutine`, for all code of this Lua state that has not kept the old ones.

local core = require("portico.core").coroutines

---@class portico.coroutine
local library = {}

library.close = core.close
library.create = core.create
library.isyieldable = core.isyieldable
library.resume = core.resume
library.running = core.running
library.status = core.status
library.wrap = core.wrap
library.yield = core.yield

local NAMES = {
  "close", "create", "isyieldable", "resume", "running", "status", "wrap",
  "yield",
}

---Puts these functions into the global table `coroutine`.
function library.install()
  for _, name in ipairs(NAMES) do
    coroutine[name] = core[name] -- luacheck: ignore 122
  end
end

return library
