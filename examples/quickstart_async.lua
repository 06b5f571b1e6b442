-- Quick start with coroutines: run, stream and keep files in a sandbox.
local portico = require("portico")

portico.run(function()
  local sandbox <close> = portico.sandbox()

  local result = sandbox:exec({ "uname", "-s" })
  io.write("exit ", result.code, ": ", result.stdout)

  local process <close> = sandbox:spawn("for i in 1 2 3; do echo $i; done")
  for line, stream in process:lines() do
    print(stream .. ": " .. line)
  end

  sandbox.fs:write("notes/hello.txt", "hello", { parents = true })
  print(sandbox.fs:read("notes/hello.txt"))
  for _, entry in ipairs(sandbox.fs:list("notes")) do
    print(entry.name, entry.size)
  end
end)
