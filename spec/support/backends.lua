-- The backends that the suite runs on, in one list, with what differs between
-- them. A spec takes them from here and asks for what it needs; it names one
-- only if it is about that one.
--
--   name
--   programs    runs real programs; otherwise only the commands of `null`
--   isolated    neither files nor processes of the host are there inside
--   workspace   where the working directory is, if always in the same place
--   default     a script that names no backend gets this one

local env = require("spec.support.env")
local errors = require("portico.errors")
local sync = require("portico.sync")

local backends = {}

local all = {
  {
    name = "bwrap", programs = true, isolated = true, default = true,
    workspace = "/workspace",
  },
  { name = "local", programs = true, isolated = false },
  { name = "null", programs = false, isolated = true },
}

-- A run that is not about backends is done with one that runs programs. Tests
-- of one backend have it by its name, whichever that is.
local only = os.getenv("PORTICO_TEST_BACKEND")

backends.list = {}
-- Those that run real programs.
backends.real = {}

for _, backend in ipairs(all) do
  backends[backend.name] = backend
  local chosen = only == nil or only == backend.name or not backend.programs
  if chosen then
    table.insert(backends.list, backend)
  end
  if chosen and backend.programs then
    table.insert(backends.real, backend)
  end
  if backend.default then
    backends.default = backend
  end
end

local absences = {}

-- Why a backend cannot run on this machine, or nil if it can: told by itself.
-- Whatever else is wrong with it is for the tests to find.
function backends.absence(backend)
  local known = absences[backend.name]
  if known == nil then
    local ok, err = pcall(function()
      sync.sandbox({ backend = backend.name }):close()
    end)
    known = not ok and errors.is(err, "UnavailableError") and err.message
    absences[backend.name] = known
  end
  return known or nil
end

-- Declares a test, or, where its backend cannot run, a test that is skipped
-- with the reason. `it` is busted's.
function backends.it(it, backend, name, fn)
  local reason = backends.absence(backend)
  if reason then
    require("busted").pending(("%s: %s cannot run here: %s"):format(name,
      backend.name, reason:gsub("\n.*", "")))
  else
    it(name, fn)
  end
end

-- Pids, on the host, of the processes whose parent is one of ours and whose
-- name begins with portico: agents of `local`, keepers of `bwrap`.
function backends.first_processes()
  local found = {}
  local self = env.read("/proc/self/stat"):match("^%d+")
  for pid in require("lfs").dir("/proc") do
    local stat = pid:find("^%d+$") and env.read("/proc/" .. pid .. "/stat")
    if stat and stat:match("^%d+ %(portico.*%) %S (%d+)") == self then
      found[tonumber(pid)] = true
    end
  end
  return found
end

return backends
