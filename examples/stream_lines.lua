-- Reads the output of a command line by line while it runs, and stops early:
-- leaving the loop ends the reading, leaving the scope ends the command.
local portico = require("portico")

portico.run(function()
  local sandbox <close> = portico.sandbox()

  local process <close> = sandbox:spawn([[
    n=0
    while :; do
      n=$((n + 1)); echo "line $n"; echo "warning $n" >&2; sleep 0.05
    done
  ]])
  local count = { stdout = 0, stderr = 0 }
  for line, stream in process:lines({ timeout = 10 }) do
    count[stream] = count[stream] + 1
    if stream == "stdout" then
      print(line)
      if count.stdout == 5 then
        break
      end
    end
  end
  local result = process:kill()
  print("ended by " .. result.signal)
end)
