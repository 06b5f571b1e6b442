-- A generator that waits between its values: it reads a command's lines, and
-- whoever loops over it needs to know nothing of that.
local portico = require("portico")
local coroutine = require("portico.coroutine") -- the command has it built in

portico.run(function()
  local sandbox <close> = portico.sandbox()

  local function pairs_of_lines(command)
    return coroutine.wrap(function()
      local process <close> = sandbox:spawn(command)
      local first
      for line in process:lines() do
        if first then
          coroutine.yield(first, line)
          first = nil
        else
          first = line
        end
      end
    end)
  end

  for a, b in pairs_of_lines("for i in 1 2 3 4 5 6; do echo $i; done") do
    print(a, b)
  end
end)
