-- A service that ends well when it is told to: by Ctrl-C, or, so that this
-- example ends by itself, by a signal from one of its own commands.
local portico = require("portico")
local errors = require("portico.errors")
local task = require("portico.task")

local function serve(sandbox)
  local process <close> = sandbox:spawn("while :; do sleep 0.05; done")
  local _ <close> = setmetatable({}, {
    -- Runs however this ends, and may wait: the cancellation stays outside.
    __close = function()
      sandbox.fs:write("state", "saved")
      print("state: " .. sandbox.fs:read("state"))
    end,
  })
  print("serving")
  process:wait()
end

local function interrupt_myself(sandbox)
  local stat = assert(io.open("/proc/self/stat"))
  local pid = stat:read("n")
  stat:close()
  task.sleep(0.3)
  sandbox:exec({ "kill", "-INT", tostring(pid) })
end

local ok, err = pcall(portico.run, function()
  -- `local`: a command in there may signal this program.
  local sandbox <close> = portico.sandbox({ backend = "local" })
  task.scope(function(scope)
    scope:spawn(serve, sandbox)
    scope:spawn(interrupt_myself, sandbox)
  end)
end)

assert(not ok and errors.is(err, errors.CancelledError), err)
print("ended: " .. err.code)
