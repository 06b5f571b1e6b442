-- Shell scripts around `portico exec`, for the specs of the command.

local luassert = require("luassert")
local backends = require("spec.support.backends")
local env = require("spec.support.env")

local exec_command = {}

local BIN = assert(os.getenv("PORTICO_BIN"),
  "PORTICO_BIN is not set: run the tests by ./dev test")

-- Shell text that is put before every script: $exec is `portico exec`, with the
-- signals as a program in the foreground has them, $dir an empty directory
-- with the fifos a and b. Whatever hangs is ended after five minutes: where a
-- hundred others want the processor, a second takes a minute.
local PRELUDE = [[
exec="env --default-signal=INT,TERM,HUP,QUIT,PIPE portico exec --backend %s"
dir=%s; cd "$dir"; mkfifo a b
]]

-- Runs a script of the host's shell; both outputs together, but for what it
-- sends elsewhere. Returns output and code.
function exec_command.sh(backend, script, ...)
  local dir = env.tmpdir()
  env.write(dir .. "/script", PRELUDE:format(backend.name, env.quoted(dir))
    .. script:format(...))
  local path = env.quoted(BIN:match("^(.*)/"))
  local output, code = env.sh(("PATH=%s:$PATH timeout -k 5 %d sh %s "
    .. "</dev/null 2>&1"):format(path, env.patience(300),
    env.quoted(dir .. "/script")))
  env.rmdir(dir)
  return output, code
end

-- Declares a test of a script: what it must print, on every real backend.
function exec_command.prints(it, name, expected, script, ...)
  local args = table.pack(...)
  for _, backend in ipairs(backends.real) do
    backends.it(it, backend, name .. " [" .. backend.name .. "]", function()
      luassert.equal(expected,
        (exec_command.sh(backend, script, table.unpack(args, 1, args.n))))
    end)
  end
end

return exec_command
