-- The first answer wins; the other commands are killed.
local portico = require("portico")
local task = require("portico.task")

portico.run(function()
  local sandbox <close> = portico.sandbox()

  local function ask(name, seconds)
    return function()
      sandbox:exec({ "sleep", tostring(seconds) })
      return name
    end
  end

  print("answered: " .. task.first({
    ask("slow", 60),
    ask("fast", 0.1),
    function() error("this one fails, and nobody minds") end,
  }))
  print("still running: " .. #sandbox:processes())
end)
