-- The rows of the bench, as Portico does them. Each prints its numbers:
--   lua5.4 spec/bench/portico.lua ROW FACADE BIN
-- where BIN holds the programs that are run. Times are microseconds,
-- throughputs MB/s, memory KiB.

local clock = require("bench_clock")
local timing = require("spec.bench.timing")
local time, median = timing.time, timing.median

local row, facade, bin = ...
local portico = require("portico")
local P = facade == "sync" and require("portico.sync") or portico

local TRUE = { bin .. "/true" }

local rows = {}

-- A command in a sandbox that already lives.
function rows.exec()
  local sandbox <close> = P.sandbox({ backend = "local" })
  return time(300, function()
    assert(sandbox:exec(TRUE, { stdout = "null", stderr = "null" }).ok)
  end)
end

-- The same as users write it, with both streams captured.
function rows.exec_pipes()
  local sandbox <close> = P.sandbox({ backend = "local" })
  return time(300, function()
    assert(sandbox:exec(TRUE).ok)
  end)
end

-- The same in a host that has a gigabyte of its own.
function rows.exec_1g()
  local ballast = ("x"):rep(1 << 30)
  local value = rows.exec()
  assert(#ballast == 1 << 30)
  return value
end

-- What an exec costs the host's processor, all its threads together, while 10,
-- 100 and 1000 commands live: three numbers.
function rows.exec_live()
  local sandbox <close> = P.sandbox({ backend = "local" })
  local options = { stdout = "null", stderr = "null" }
  local live, values = 0, {}
  for _, most in ipairs({ 10, 100, 1000 }) do
    while live < most do
      sandbox:spawn({ "sleep", "1000" }, options)
      live = live + 1
    end
    local samples = {}
    for i = 1, 5 do
      local start = os.clock()
      for _ = 1, 100 do
        assert(sandbox:exec(TRUE).ok)
      end
      samples[i] = (os.clock() - start) * 1e6 / 100
    end
    values[#values + 1] = median(samples)
  end
  return table.unpack(values)
end

-- A sandbox from nothing, its first command, and its end.
function rows.create()
  local backend <close> = P.open("local")
  return time(50, function()
    local sandbox <close> = backend:create()
    assert(sandbox:exec(TRUE, { stdout = "null", stderr = "null" }).ok)
  end)
end

-- A call that crosses to the portal's loop, where nothing is to be done:
-- `null` keeps its sandboxes in memory and has no agent, and the process waits
-- for input (in `sleep` it would cost a timer of the loop, too).
function rows.portal()
  local sandbox <close> = P.sandbox({ backend = "null" })
  local process <close> = sandbox:spawn({ "cat" }, { stdin = "pipe" })
  return time(20000, function()
    process:poll()
  end)
end

-- Output, chunk by chunk.
local function stream(chunk, total, ...)
  local sandbox <close> = P.sandbox({ backend = "local" })
  local start, bytes = clock.now(), 0
  local process <close> = sandbox:spawn({
    bin .. "/produce", tostring(chunk), tostring(total), ...
  })
  for piece in process:chunks() do
    bytes = bytes + #piece.data
  end
  assert(process:wait().ok and bytes == total)
  return bytes / (clock.now() - start)
end

function rows.stream_64k()
  return stream(64 << 10, 1 << 30)
end

function rows.stream_4k()
  return stream(4 << 10, 1 << 27, "packets")
end

-- Tasks that are parked: KiB for each of 10,000.
function rows.task_memory()
  local task = require("portico.task")
  local functions, before, used = {}, nil, nil
  local waiting = 0
  for i = 1, 10000 do
    functions[i] = function()
      waiting = waiting + 1
      P.sleep(0.5)
    end
  end
  functions[#functions + 1] = function()
    repeat P.sleep(0.01) until waiting == 10000
    used = clock.rss() - before
  end
  collectgarbage()
  before = clock.rss()
  task.all(functions)
  return used / 1024 / 10000
end

-- Microseconds to wake a parked task, 10,000 of which are due at once, twice.
function rows.task_wake()
  local task = require("portico.task")
  local started, woken
  task.scope(function(scope)
    for _ = 1, 10000 do
      scope:spawn(function()
        task.checkpoint()
        started = started or clock.now()
        task.checkpoint()
        woken = clock.now()
      end)
    end
  end)
  return (woken - started) / 20000
end

-- Microseconds for each of 10,000 tasks that sleep until the same moment, from
-- then to the last one's going on.
function rows.task_sleepers()
  local task = require("portico.task")
  local at, woken = task.now() + 0.5, nil
  task.scope(function(scope)
    for _ = 1, 10000 do
      scope:spawn(function()
        P.sleep(math.max(0, at - task.now()))
        woken = task.now()
      end)
    end
  end)
  return (woken - at) * 1e6 / 10000
end

-- Milliseconds for 1,000 commands at once in one sandbox.
function rows.task_commands()
  local task = require("portico.task")
  local sandbox <close> = P.sandbox({ backend = "local" })
  local jobs = {}
  for i = 1, 1000 do
    jobs[i] = function()
      return sandbox:exec(TRUE, { stdout = "null", stderr = "null" }).ok
    end
  end
  local start = clock.now()
  for _, ok in ipairs(task.all(jobs)) do
    assert(ok)
  end
  return (clock.now() - start) / 1e3
end

-- Nanoseconds that a wait costs for each level of coroutines above the task: of
-- the processor, since nothing but it is waited for, and the difference of two
-- times has the noise of both.
function rows.task_nested()
  local task = require("portico.task")
  local wrap = require("portico.coroutine").wrap
  local LEVELS, COUNT, ROUNDS = 4, 20000, 9
  local function at(level, fn)
    if level == 0 then
      return fn()
    end
    return wrap(at)(level - 1, fn)
  end
  local function waits()
    local samples = {}
    for i = 1, ROUNDS do
      local start = os.clock()
      for _ = 1, COUNT do
        task.checkpoint()
      end
      samples[i] = (os.clock() - start) * 1e9
    end
    return median(samples)
  end
  local plain, nested = waits(), at(LEVELS, waits)
  return (nested - plain) / COUNT / LEVELS
end

-- Resident KiB of a portal.
function rows.portal_memory()
  local portal = require("portico.portal")
  local first <close> = portal.open()
  local portals, count = {}, 50
  local before = clock.rss()
  for i = 1, count do
    portals[i] = portal.open()
  end
  local used = clock.rss() - before
  for i = 1, count do
    portals[i]:close()
  end
  assert(not first.closed)
  return used / 1024 / count
end

-- A small file written and read; `files_plain` is the same without a sandbox.
function rows.files_small()
  local sandbox <close> = P.sandbox({ backend = "local" })
  local fs, data = sandbox.fs, ("x"):rep(1024)
  return time(300, function()
    fs:write("f", data)
    assert(fs:read("f") == data)
  end)
end

function rows.files_plain()
  local path, data = os.tmpname(), ("x"):rep(1024)
  local value = time(300, function()
    local file <close> = assert(io.open(path, "wb"))
    file:write(data)
    file:close()
    local again <close> = assert(io.open(path, "rb"))
    assert(again:read("a") == data)
  end)
  os.remove(path)
  return value
end

-- The same as container tools copy files: in and out by tar through a pipe.
function rows.files_tar()
  local dir = os.tmpname()
  os.remove(dir)
  assert(os.execute(("mkdir -p %s/in %s/out && head -c 1024 /dev/zero >%s/f")
    :format(dir, dir, dir)))
  local value = time(30, function()
    assert(os.execute(("cd %s && tar c f | tar x -C in && tar c -C in f "
      .. "| tar x -C out"):format(dir)))
  end)
  os.execute("rm -rf " .. dir)
  return value
end

local GIB <const> = 1 << 30
local PIECE <const> = 1 << 20

-- MB/s of what fn(path, sandbox) does with a file of a gigabyte of the host;
-- `make` puts it in the sandbox first. The second time counts: for memory that
-- a virtual machine has not had for a while its host must look first, at a
-- tenth of the speed.
local function gigabyte(make, fn)
  local sandbox <close> = P.sandbox({ backend = "local" })
  local path = os.tmpname()
  sandbox:exec({ "sh", "-c", "head -c 1073741824 /dev/zero > "
    .. (make and "big" or P.quote(path)) }, { timeout = 300 })
  fn(path, sandbox)
  if make then
    os.remove(path)
  else
    sandbox.fs:remove("big", { missing_ok = true })
  end
  local start = clock.now()
  fn(path, sandbox)
  local value = GIB / (clock.now() - start)
  os.remove(path)
  return value
end

-- In and out, piece by piece, between a file of the host and one inside.
function rows.files_up()
  return gigabyte(false, function(path, sandbox)
    local from <close> = assert(io.open(path, "rb"))
    local to <close> = sandbox.fs:open("big", "w")
    for piece in from:lines(PIECE) do
      to:write(piece)
    end
  end)
end

function rows.files_down()
  return gigabyte(true, function(path, sandbox)
    local from <close> = sandbox.fs:open("big")
    local to <close> = assert(io.open(path, "wb"))
    for piece in from:lines(PIECE) do
      to:write(piece)
    end
  end)
end

-- The same between two files of the host, by io.open: what a script that moves
-- strings of a megabyte gets at best. Where pages that are new are dear (in
-- many virtual machines) that is a fraction of cp, which has none.
function rows.files_io()
  return gigabyte(false, function(path)
    local from <close> = assert(io.open(path, "rb"))
    local to <close> = assert(io.open(path .. ".copy", "wb"))
    for piece in from:lines(PIECE) do
      to:write(piece)
    end
    os.remove(path .. ".copy")
  end)
end

-- The same to a process that writes what comes out of a pipe, as an agent does.
function rows.files_cat()
  return gigabyte(false, function(path)
    local from <close> = assert(io.open(path, "rb"))
    local to <close> = assert(io.popen("cat > " .. path .. ".copy", "w"))
    for piece in from:lines(PIECE) do
      to:write(piece)
    end
    to:close()
    os.remove(path .. ".copy")
  end)
end

-- A gigabyte as strings of 256 MiB, each written whole.
function rows.files_whole()
  local sandbox <close> = P.sandbox({ backend = "local" })
  local data = ("x"):rep(GIB // 4)
  local function write()
    for _ = 1, 4 do
      sandbox.fs:write("big", data)
    end
  end
  write()
  local start = clock.now()
  write()
  return GIB / (clock.now() - start)
end

-- What cp takes for as much.
function rows.files_cp()
  return gigabyte(false, function(path)
    os.execute(("cp %s %s.copy; rm %s.copy"):format(path, path, path))
  end)
end

-- Milliseconds for a listing of 100,000 entries, beside find, which asks for
-- the same attributes.
local function listing(fn)
  local sandbox <close> = P.sandbox({ backend = "local" })
  sandbox:exec({ "sh", "-c",
    "mkdir many && cd many && seq 100000 | xargs touch" },
    { timeout = 300, check = true })
  local start = clock.now()
  fn(sandbox)
  return (clock.now() - start) / 1e3
end

function rows.files_list()
  return listing(function(sandbox)
    assert(#sandbox.fs:list("many") == 100000)
  end)
end

function rows.files_find()
  return listing(function(sandbox)
    sandbox:exec({ "find", "many", "-printf", "%f %y %s %m %U %G %T@ %l\n" },
      { max_output = 64 << 20, check = true })
  end)
end

if not rows[row] then
  io.stderr:write("no such row: ", tostring(row), "\n")
  os.exit(2)
end
local values
if facade == "sync" then
  values = { rows[row]() }
else
  values = { portico.run(rows[row]) }
end
for i, value in ipairs(values) do
  values[i] = ("%.3f"):format(value)
end
print(table.concat(values, " "))
