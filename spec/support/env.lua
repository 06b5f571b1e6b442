-- What specs need from the machine: temporary directories, shell commands of
-- the host, time. Everything works for root and for an ordinary user, in any
-- tree, with the project's root as the current directory.

local lfs = require("lfs")

local env = {}

-- Quotes a word for the host's shell.
local function quoted(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end
env.quoted = quoted

-- Runs a command with the host's shell; returns its output, and its code.
function env.sh(command)
  local pipe = assert(io.popen(command, "r"))
  local output = pipe:read("a")
  local _, kind, code = pipe:close()
  if kind == "signal" then
    code = 128 + code
  end
  return output, code
end

-- Runs a script of the host's shell with arguments; returns its output. Raises
-- unless it ends with 0.
function env.sh_with(script, ...)
  local words = { "sh", "-c", quoted(script), "sh" }
  for _, word in ipairs({ ... }) do
    words[#words + 1] = quoted(tostring(word))
  end
  local pipe = assert(io.popen(table.concat(words, " ")))
  local text = pipe:read("a")
  assert(pipe:close())
  return text
end

-- Makes a temporary directory that only we can read; the caller removes it.
function env.tmpdir()
  local name = os.tmpname()
  os.remove(name)
  assert(lfs.mkdir(name))
  env.sh("chmod 700 " .. quoted(name))
  return name
end

-- Removes a directory of tmpdir(), also when rights in it were taken away.
function env.rmdir(path)
  assert(path:find("^/tmp/[^/]+"), "not a temporary directory")
  env.sh("chmod -R u+rwX " .. quoted(path) .. " 2>/dev/null; rm -rf "
    .. quoted(path))
end

function env.write(path, data)
  local file = assert(io.open(path, "wb"))
  assert(file:write(data))
  assert(file:close())
end

function env.read(path)
  local file = io.open(path, "rb")
  if not file then
    return nil
  end
  local data = file:read("a")
  file:close()
  return data
end

function env.exists(path)
  return lfs.symlinkattributes(path, "mode") ~= nil
end

-- Seconds since some moment in the past; unlike os.time with fractions.
function env.now()
  return tonumber((env.read("/proc/uptime"):match("^(%S+)")))
end

-- Seconds that go on only while the main thread has a processor, or waits for
-- anything but one: a machine that is busy with others is not in them.
function env.own_time()
  local waited = env.read("/proc/self/schedstat"):match("^%d+ (%d+)")
  return env.now() - waited / 1e9
end

-- The process that has all of this test's below it, also those that lost their
-- parents; nil where a spec was started by hand (alone.c).
env.root = tonumber(os.getenv("PORTICO_TEST_ROOT"))

-- Whether a process is one of this test's. By hand, all are taken for that.
function env.is_ours(pid)
  local at = env.root and pid
  while at and at > 1 and at ~= env.root do
    local stat = env.read("/proc/" .. at .. "/stat")
    local parent = tonumber(stat and stat:match("^%d+ %(.*%) %S (%d+)"))
    -- One that ended meanwhile has left its children to somebody else.
    at = parent or at ~= pid and pid or nil
  end
  return not env.root or at == env.root
end

-- Looks, outside of all sandboxes, for processes of this test with exactly this
-- argv.
function env.pgrep(argv)
  local wanted = table.concat(argv, "\0") .. "\0"
  local found = {}
  for name in lfs.dir("/proc") do
    if name:find("^%d+$") and env.read("/proc/" .. name .. "/cmdline") == wanted
      and env.is_ours(tonumber(name))
    then
      found[#found + 1] = tonumber(name)
    end
  end
  return found
end

-- A time that only what hangs takes, in whole seconds: with a sanitizer all
-- takes longer, and spec/CMakeLists.txt says by how much.
env.SLOWER = tonumber(os.getenv("PORTICO_TEST_SLOWER") or 1)
function env.patience(seconds)
  return math.ceil(seconds * env.SLOWER)
end

-- How many there are of what is no different for being many: fewer with a
-- sanitizer, where an error costs more the more there were before.
function env.amount(n)
  return math.ceil(n / env.SLOWER)
end

-- Asks again and again until the function gives something true, or the time is
-- over; returns what it gave last.
function env.eventually(seconds, fn)
  local deadline = env.now() + env.patience(seconds)
  local value = fn()
  while not value and env.now() < deadline do
    env.sh("sleep 0.02")
    value = fn()
  end
  return value
end

-- Runs a script in a lua5.4 of its own, with both outputs together. `prefix`
-- is shell text before it ("ulimit -n 20; "); after `limit` seconds (patience),
-- 120 unless given, it is killed. Returns output, code, seconds.
function env.script(code, prefix, limit)
  local path = os.tmpname()
  env.write(path, code)
  local start = env.now()
  -- A shell starts background jobs with SIGINT ignored; scripts that test
  -- Ctrl-C must not inherit that from us.
  local output, status = env.sh((prefix or "")
    .. "env --default-signal=INT timeout -k 5 " .. env.patience(limit or 120)
    .. " lua5.4 " .. quoted(path)
    .. " 2>&1")
  os.remove(path)
  return output, status, env.now() - start
end

-- All 256 bytes.
function env.all_bytes()
  local bytes = {}
  for i = 0, 255 do
    bytes[#bytes + 1] = string.char(i)
  end
  return table.concat(bytes)
end

function env.is_root()
  return env.read("/proc/self/status"):match("\nUid:%s+%d+%s+(%d+)") == "0"
end

return env
