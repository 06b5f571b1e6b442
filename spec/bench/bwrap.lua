-- The rows about the bwrap backend, as Portico does them:
--   lua5.4 spec/bench/bwrap.lua ROW FACADE DIR
-- where DIR/bin/true is run. Prints the numbers of the row: microseconds, KiB.

local clock = require("bench_clock")
local timing = require("spec.bench.timing")

local row, facade, dir = ...
local portico = require("portico")
local P = facade == "sync" and require("portico.sync") or portico

local TRUE = { "/bench/true" }
local QUIET = { stdout = "null", stderr = "null" }

local function options(limits)
  return { mounts = { { source = dir .. "/bin", target = "/bench" } },
    limits = limits }
end

local function run_true(sandbox)
  assert(sandbox:exec(TRUE, QUIET).ok)
end

local rows = {}

-- ---- commands ---------------------------------------------------------------

local function exec(limits)
  local backend <close> = P.open("bwrap")
  local sandbox <close> = backend:create(options(limits))
  return timing.time(300, function()
    run_true(sandbox)
  end)
end

function rows.exec()
  return exec()
end

function rows.exec_limits()
  return exec({ memory = 256 << 20, pids = 64, cpus = 1, open_files = 256 })
end

-- ---- creation ---------------------------------------------------------------

-- A sandbox from nothing and its first command; the end is not counted.
function rows.first()
  local backend <close> = P.open("bwrap")
  return timing.time(40, function()
    local start = clock.now()
    local sandbox <close> = backend:create(options())
    run_true(sandbox)
    return clock.now() - start
  end)
end

-- The same with its end.
function rows.whole()
  local backend <close> = P.open("bwrap")
  return timing.time(40, function()
    local sandbox <close> = backend:create(options())
    run_true(sandbox)
  end)
end

function rows.first_limits()
  local backend <close> = P.open("bwrap")
  local limits = { memory = 256 << 20, pids = 64, cpus = 1, open_files = 256 }
  return timing.time(40, function()
    local start = clock.now()
    local sandbox <close> = backend:create(options(limits))
    run_true(sandbox)
    return clock.now() - start
  end)
end

-- ---- what there is of it on the host ----------------------------------------

local function read_file(path)
  local file <close> = io.open(path)
  return file and file:read("a")
end

local own = read_file("/proc/self/stat"):match("^%d+")

-- All processes below this one. Each has one thread; those of a sandbox are
-- started by the main thread of this process.
local function descendants(pid, found)
  local children = read_file(("/proc/%s/task/%s/children"):format(pid, pid))
  for child in (children or ""):gmatch("%d+") do
    found[#found + 1] = child
    descendants(child, found)
  end
  return found
end

-- Their memory in KiB, a page that n share counted as an nth each time.
local function pss()
  local sum = 0
  for _, pid in ipairs(descendants(own, {})) do
    local text = read_file(("/proc/%s/smaps_rollup"):format(pid))
    sum = sum + assert(tonumber((text or ""):match("\nPss:%s*(%d+)")),
      "the memory of sandboxes can be read by root only")
  end
  return sum
end

-- KiB that processes and the kernel have taken. (What is said to be available
-- follows only in the course of a minute, on some machines.)
local function used()
  local text, sum = read_file("/proc/meminfo"), 0
  for _, what in ipairs({ "AnonPages", "Shmem", "Slab", "KernelStack",
    "PageTables", "Percpu" }) do
    sum = sum + (tonumber(text:match(what .. ":%s*(%d+)")) or 0)
  end
  return sum
end

-- What ended lately gives its memory back by and by: waits for that.
local function settle()
  local before
  repeat
    before = used()
    P.sleep(1)
  until used() > before - 256
end

local function threads()
  return tonumber(read_file("/proc/self/status"):match("Threads:%s*(%d+)"))
end

-- KiB for each of 50 idle sandboxes: after creation, after one command each,
-- and when they have rested.
function rows.memory()
  local count, sandboxes = 50, {}
  local backend <close> = P.open("bwrap")
  for i = 1, count do
    sandboxes[i] = backend:create(options())
  end
  local created = pss() / count
  for i = 1, count do
    run_true(sandboxes[i])
  end
  local busy = pss() / count
  P.sleep(6)
  return created, busy, pss() / count
end

-- 500 alive at once in one runtime: the creation of one when there are hardly
-- any (before and after, since the machine drifts), 100, and 500; KiB of the
-- machine for each, kernel included; a command in each, all at once, and the
-- end of each; what the host has for each (descriptors) and for all (threads);
-- and what is left of it afterwards.
function rows.density()
  local task = require("portico.task")
  local count, sandboxes, took = 500, {}, {}
  local backend <close> = P.open("bwrap")
  backend:create(options()):close() -- what is made once
  settle()
  local fds, n_threads, kib = clock.fds(), threads(), used()
  local function create(i)
    local start = clock.now()
    sandboxes[i] = backend:create(options())
    took[i] = clock.now() - start
  end
  for i = 1, count do
    create(i)
  end
  local function around(first, last)
    return timing.median(table.move(took, first, last, 1, {}))
  end
  kib = (used() - kib) / count

  local function all(fn)
    local functions, start = {}, clock.now()
    for i = 1, count do
      functions[i] = function()
        fn(sandboxes[i])
      end
    end
    task.all(functions)
    return (clock.now() - start) / count
  end
  local command = all(run_true)
  local host_fds = (clock.fds() - fds) / count
  local host_threads = threads() - n_threads
  local ending = all(function(sandbox)
    sandbox:close()
  end)
  local left = #descendants(own, {}) + clock.fds() - fds
  local at_100, at_500 = around(88, 112), around(476, 500)
  settle()
  for i = 26, 50 do
    create(i)
    sandboxes[i]:close()
  end
  return around(1, 50), at_100, at_500, kib, command, ending, host_fds,
    host_threads, left
end

-- ---- the program ------------------------------------------------------------

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
