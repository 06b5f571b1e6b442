-- What holds of coroutines of the stock library and of portico.coroutine alike,
-- inside and outside of tasks.

local busted = require("busted")
local ours = require("portico.coroutine")
local portico = require("portico")
local task = require("portico.task")

local coroutines = {}

-- Declares the tests of each of the sections, name -> function(library).
function coroutines.declare(sections)
  for name, body in pairs(sections) do
    busted.describe("coroutines, " .. name:gsub("_", " "), function()
      busted.it("as the stock library", function()
        body(coroutine)
      end)
      busted.it("as those that can wait, outside of tasks", function()
        body(ours)
      end)
      busted.it("as those that can wait, in a task", function()
        portico.run(body, ours)
      end)
      busted.it("as those that can wait, in a coroutine that waits in a task",
        function()
          portico.run(function()
            ours.wrap(function()
              task.checkpoint()
              body(ours)
              task.checkpoint()
            end)()
          end)
        end)
    end)
  end
end

return coroutines
