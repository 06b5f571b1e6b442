-- A conversation over stdin and stdout: each question is written when the
-- answer to the one before it was read.
local portico = require("portico.sync")

local sandbox <close> = portico.sandbox()

local process <close> = sandbox:spawn([[
  while read -r a operation b; do
    case $operation in
      [-+*/]) echo "$((a $operation b))" ;;
      *) echo "I do not know $operation" >&2 ;;
    esac
  done
]], { stdin = "pipe" })
local next_line = process:lines({ timeout = 30 }) -- for each line

local function ask(question)
  process:write(question .. "\n")
  local answer, stream = next_line()
  print(question, stream == "stderr" and "error: " .. answer or answer)
end

ask("6 * 7")
ask("1 - 2")
ask("2 ^ 8")

process:close_stdin()
print("exit " .. process:wait({ timeout = 30 }).code)
