-- Limits, a mount and a time limit; and how the ends of commands differ.
local portico = require("portico.sync")
local errors = require("portico.errors")

local sandbox <close> = portico.sandbox({
  limits = { memory = 64 << 20, pids = 32, disk = 16 << 20 },
  mounts = { { source = "/usr/share", target = "/data" } }, -- read-only
})

local function outcome(command, seconds)
  local result, err = errors.try(sandbox.exec, sandbox, command,
    { timeout = seconds, grace = 0.2 })
  if errors.is(err, "TimeoutError") then
    return "timeout" -- err.result has what it had printed
  elseif err then
    error(err, 0) -- it could not be started, or the sandbox is gone
  elseif result.reason == "oom" then
    return "oom"
  end
  return "exit " .. result.code
end

-- What is enforced here, and how: "native", "emulated" or "missing".
local memory = sandbox.backend:probe().capabilities["limits.memory"]
print("memory:", memory.level, memory.reason)

print("reads:", outcome("ls /data >/dev/null", 10))
print("writes:", outcome("touch /data/new 2>/dev/null", 10))
print("grows:", outcome("exec tail /dev/zero 2>/dev/null", 30))
print("hangs:", outcome("sleep 60", 0.5))
