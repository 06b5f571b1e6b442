-- A server in a sandbox: waited for until it says where it listens, asked by
-- another command in the same sandbox, and ended.
local portico = require("portico.sync")

local sandbox <close> = portico.sandbox()
sandbox.fs:write("site/hello.txt", "hello from inside", { parents = true })

local server <close> = sandbox:spawn({
  "python3", "-u", "-m", "http.server", "--bind", "127.0.0.1",
  "--directory", "site", "0",
})
-- What the pattern captures is returned. Where the port is known before,
-- { port = 8000 } waits until it is listened on.
local port = server:wait_for({ output = "port (%d+)" }, { timeout = 30 })

print(sandbox:output({ "python3", "-c", [[
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1]).read().decode())
]], ("http://127.0.0.1:%s/hello.txt"):format(port) }, { timeout = 30 }))

print("ended by " .. server:kill({ grace = 5 }).signal)
