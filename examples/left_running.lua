-- A sandbox is left running, with a command in it, and taken over again; the
-- second half could as well be another program.
local portico = require("portico.sync")

local sandbox = portico.sandbox({ detachable = true, ttl = 600 })
local pid = sandbox:spawn("read name; echo hello $name; exit 3", {
  stdin = "pipe",
}).pid
local id = sandbox:detach()

local backend <close> = portico.open(sandbox.backend.name)
local again <close> = backend:attach(id)
local process = again:process(pid)
process:write("you\n")
local result = process:wait()
io.write(result.code, ": ", result.stdout)
