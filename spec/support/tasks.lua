-- What the specs of tasks share.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local portico = require("portico")
local task = require("portico.task")

local tasks = {}

-- Declares a test that runs in a task; whatever it spawns must end in good
-- time. `it` is busted's.
function tasks.inside(it, name, fn)
  it(name, function()
    local seconds = facades.timed(portico.run, fn)
    assert(seconds < env.patience(30), seconds)
  end)
end

-- Waits for what does not come.
function tasks.never()
  task.event():wait()
end

return tasks
