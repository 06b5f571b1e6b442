-- Three ways to feed a command: bytes at once, a function that gives chunks,
-- and a conversation over a pipe.
local portico = require("portico")

portico.run(function()
  local sandbox <close> = portico.sandbox()

  local text = sandbox:output("sort", { input = "pear\napple\nfig\n" })
  print((text:gsub("\n", " ")))

  local left = 3
  local result = sandbox:exec({ "wc", "-c" }, {
    input = function()
      left = left - 1
      return left >= 0 and ("x"):rep(1000) or nil
    end,
  })
  print(tonumber(result.stdout) .. " bytes")

  local process <close> = sandbox:spawn({ "cat" }, { stdin = "pipe" })
  for _, word in ipairs({ "ping", "pong" }) do
    process:write(word .. "\n")
    print("echo: " .. process:read().data:gsub("\n", ""))
  end
  process:close_stdin()
  print("exit " .. process:wait().code)
end)
