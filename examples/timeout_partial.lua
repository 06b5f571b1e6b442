-- A command that takes too long: it is killed with all that it started, and
-- the error carries what it had printed until then.
local portico = require("portico")
local errors = require("portico.errors")

portico.run(function()
  local sandbox <close> = portico.sandbox()

  local result, err = errors.try(sandbox.exec, sandbox,
    "echo working; sleep 60 & sleep 60; echo never", { timeout = 0.5 })
  assert(result == nil and errors.is(err, errors.TimeoutError))
  print(err.code)
  print("so far: " .. err.result.stdout:gsub("\n", ""))
  print("survivors: " .. #err.result.survivors)

  -- The sandbox is as usable as before.
  print(sandbox:output({ "echo", "still here" }))
end)
