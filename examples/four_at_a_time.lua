-- Twenty commands, at most four at a time; a failure would end them all.
local portico = require("portico")
local task = require("portico.task")

portico.run(function()
  local sandbox <close> = portico.sandbox()
  local permits = task.semaphore(4)
  local jobs, running, most = {}, 0, 0

  for i = 1, 20 do
    jobs[i] = function()
      local _ <close> = permits:acquire() -- given back at the end
      running = running + 1
      most = math.max(most, running)
      local text = sandbox:output("echo $((" .. i .. " * " .. i .. "))")
      running = running - 1
      return text
    end
  end

  print(table.concat(task.all(jobs), " "))
  print("at once: " .. most)
end)
