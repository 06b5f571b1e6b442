-- A program that insists on a terminal, driven by a script: it waits for each
-- question before it types the answer.
local portico = require("portico.sync")

local sandbox <close> = portico.sandbox()

local process <close> = sandbox:spawn([[
  test -t 0 || { echo "not a terminal"; exit 1; }
  printf 'Name: '; read -r name
  stty -echo; printf 'Password:'; read -r password; stty echo; echo
  echo "Welcome, $name, on a terminal of $(stty size | tr ' ' x)."
]], { pty = { cols = 100, rows = 30 } })

local function answer(question, text)
  process:wait_for({ output = question }, { timeout = 30 })
  process:write(text .. "\n")
end

answer("Name: ", "Ada")
answer("Password:", "secret")

-- wait_for only looks: all that was shown is in the result, as the terminal
-- gives it, with \r\n, and with what was typed while there was an echo.
local result = process:wait({ timeout = 30 })
io.write((result.stdout:gsub("\r", "")))
print("exit " .. result.code)
