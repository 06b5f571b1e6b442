-- What ./dev bench runs: every row several times, the programs of a row in
-- turn (floor, Portico, peers, floor, ...), so that what the machine does
-- meanwhile hits all of them. Printed are the median of each, the median of the
-- ratios of the rounds, and the lowest and highest of these.
--   lua5.4 spec/bench/run.lua BUILD [ROW...]

local build = ...
local wanted = {}
for i = 2, select("#", ...) do
  wanted[(select(i, ...))] = true
end

local bin = build .. "/bench"
local ROUNDS = tonumber(os.getenv("ROUNDS") or "7")

-- ---- running programs -------------------------------------------------------

local function capture(command)
  local pipe = assert(io.popen(command, "r"))
  local output = pipe:read("a")
  local ok = pipe:close()
  return ok and output or nil
end

-- The numbers that a program prints, or nil if it fails.
local function measure(command)
  local output = capture(command)
  local numbers = {}
  for word in (output or ""):gmatch("%S+") do
    numbers[#numbers + 1] = tonumber(word)
  end
  return output and numbers
end

local function exists(command)
  return capture(command .. " >/dev/null 2>&1 && echo yes") ~= nil
end

local function sh_quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

local lua = arg[-1] or "lua5.4"
local function floor(name, ...)
  return table.concat({ sh_quote(bin .. "/" .. name), ... }, " ")
end
local function with_clock(...)
  return ("LUA_CPATH=%s\"$LUA_CPATH\" %s %s"):format(sh_quote(bin .. "/?.so;"),
    lua, table.concat({ ... }, " "))
end
local function portico(row, facade)
  return with_clock("spec/bench/portico.lua", row, facade, sh_quote(bin))
end
-- The same where strings of a megabyte come and go: whether glibc gives each
-- one's pages back is chance otherwise, and tenfold in time where pages are
-- dear.
local function pieces(row, facade)
  return "MALLOC_TRIM_THRESHOLD_=100000000 MALLOC_MMAP_THRESHOLD_=30000000 "
    .. portico(row, facade)
end

local have_luv = exists(lua .. " -e 'require \"luv\"'")
local python
for _, candidate in ipairs({ "python3", "/usr/bin/python3" }) do
  if not python and exists(candidate .. " -c 'import anyio'") then
    python = candidate
  end
end
local function luv(row)
  return have_luv
    and ("%s spec/bench/peer_luv.lua %s %s"):format(lua, row, sh_quote(bin))
end
local function anyio(row)
  return python
    and ("%s spec/bench/peer_anyio.py %s %s"):format(python, row, sh_quote(bin))
end

-- ---- sandboxes of bubblewrap, and what else makes some ----------------------

-- A directory that other users can read, for what peer_bwrap.lua makes.
local dir = assert(capture("d=$(mktemp -d /tmp/portico-bench-XXXXXX) && "
  .. "chmod 755 $d && echo $d"):match("%S+"))
local function remove_dir()
  os.execute("rm -rf " .. sh_quote(dir))
end
local is_root = capture("id -u"):match("^0%s")
local function bwrap(row, facade)
  return with_clock("spec/bench/bwrap.lua", row, facade, dir)
end
local function launch(count, id, files, ...)
  return floor("floor_launch", count, id, dir .. "/" .. files, ...)
end
-- As root the floor is run as one of the ids that are sandboxes' by default.
local bwrap_floor = launch("40", is_root and 0x70000000 or 0, "same",
  "/usr/bin/bwrap --args 30 -- /bench/true")
-- The processes of a sandbox, each of which only starts the next.
local bwrap_chain = floor("floor_chain", "40", is_root and 0x70000000 or 0,
  dir .. "/same", dir .. "/bin/floor_chain",
  "/usr/bin/bwrap --args 30 -- /bench/floor_chain /bench/true")
local bwrap_plain = launch("40", 0, "plain", "/usr/bin/bwrap --unshare-all",
  "--ro-bind / / --proc /proc --dev /dev", dir .. "/bin/true")
-- crun refuses a machine with both versions of cgroups, so it sees one. And it
-- gives its stdio to the user of its container, /dev/null, too: it gets pipes.
local function crun(count)
  local command = launch(count, 0, "plain", "/usr/bin/crun --root",
    dir .. "/state --cgroup-manager=disabled run --bundle",
    dir .. "/bundle", "bench")
  command = "true | " .. command .. " 2>&1 | cat"
  if is_root and exists("grep -q '^cgroup2.*/unified ' /proc/mounts") then
    return "unshare -m sh -c " .. sh_quote("umount -l /sys/fs/cgroup && "
      .. "mount -t cgroup2 none /sys/fs/cgroup && " .. command)
  end
  return command
end

-- ---- the rows ---------------------------------------------------------------

-- name, what it is; unit; commands; bound: at most (time, memory) or at least
-- (throughput) this many times the floor, or the value itself where there is
-- no floor. `floor_is` says what the floor is, where it is not the same work.
-- `pick`: the command is run once for several rows, of which this one shows
-- that number (`floor_pick` for the floor). `others`: further peers by name.
local TRUE = sh_quote(bin .. "/true")
local PRODUCE = sh_quote(bin .. "/produce")
local spawn = floor("floor_spawn", "300", TRUE)
local spawn_1g = floor("floor_spawn", "300", TRUE, "1024")
local stream_64k = floor("floor_stream", "65536", PRODUCE, "65536", 1 << 30)
local stream_4k = floor("floor_stream", "65536", PRODUCE, "4096", 1 << 27,
  "packets")
local portal = floor("floor_portal", "20000")
local density = bwrap("density", "async")
local idle = bwrap("memory", "async")
local embed_create = floor("embed", "create")
local embed_frame = floor("embed", "frame")
-- Both threads on one core, and as the kernel likes: the wake-up of a sleeping
-- core costs ten times the rest, and where threads land is a matter of luck.
local have_taskset = exists("taskset -c 0 true")
local function on_one_core(command)
  if have_taskset and command then
    return "taskset -c 0 sh -c " .. sh_quote(command)
  end
  return command
end

-- A thousand commands want as many descriptors of the agent.
local function live(facade)
  return "ulimit -n $(ulimit -H -n); " .. portico("exec_live", facade)
end

local trees = with_clock("spec/bench/trees.lua")

local rows = {
  { name = "exec", what = "exec static true, local, async", unit = "us",
    floor = spawn, portico = portico("exec", "async"), most = 1.3,
    luv = luv("exec"), anyio = anyio("exec") },
  { name = "exec", what = "  sync", unit = "us",
    floor = spawn, portico = portico("exec", "sync"), most = 1.3 },
  { name = "exec", what = "  async, both streams captured", unit = "us",
    floor = spawn, portico = portico("exec_pipes", "async") },
  { name = "exec", what = "exec static true, bwrap, async", unit = "us",
    floor = spawn, portico = bwrap("exec", "async"), most = 1.3 },
  { name = "exec", what = "  sync", unit = "us",
    floor = spawn, portico = bwrap("exec", "sync"), most = 1.3 },
  { name = "exec", what = "  async, with limits (cgroup)", unit = "us",
    floor = spawn, portico = bwrap("exec_limits", "async") },
  { name = "exec_1g", what = "exec, 1 GiB touched in the host", unit = "us",
    memory = 2 << 20, floor = spawn_1g, portico = portico("exec_1g", "async"),
    most = 1.43, luv = luv("exec_1g") },
  { name = "live", what = "host CPU of an exec, 100 live, async", unit = "us",
    floor = live("async"), floor_pick = 1, floor_is = "while 10 live",
    portico = live("async"), pick = 2, most = 1.3, rounds = 3 },
  { name = "live", what = "  1000 live", unit = "us",
    floor = live("async"), floor_pick = 1, portico = live("async"), pick = 3,
    most = 1.3, rounds = 3 },
  { name = "live", what = "  100 live, sync", unit = "us",
    floor = live("sync"), floor_pick = 1, portico = live("sync"), pick = 2,
    rounds = 3 },
  { name = "live", what = "  1000 live", unit = "us",
    floor = live("sync"), floor_pick = 1, portico = live("sync"), pick = 3,
    most = 1.3, rounds = 3 },
  { name = "files", what = "1 KiB written and read, async", unit = "us",
    floor = portico("files_plain", "async"), floor_is = "io.open and close",
    portico = portico("files_small", "async"),
    others = { { "by tar, in and out", portico("files_tar", "async") } } },
  { name = "files", what = "  sync", unit = "us",
    floor = portico("files_plain", "async"),
    portico = portico("files_small", "sync") },
  { name = "files", what = "1 GiB in, 1 MiB a time, async", unit = "MB/s",
    memory = 4 << 20, rounds = 3, floor = pieces("files_io", "async"),
    floor_is = "io.open, the same pieces; upload and download: see trees",
    portico = pieces("files_up", "async"),
    others = { { "the same, to cat > copy", pieces("files_cat", "async") },
      { "cp", portico("files_cp", "async") } } },
  { name = "files", what = "  sync", unit = "MB/s", memory = 4 << 20,
    floor = pieces("files_io", "async"), rounds = 3,
    portico = pieces("files_up", "sync") },
  { name = "files", what = "1 GiB out, 1 MiB a time, async", unit = "MB/s",
    memory = 4 << 20, rounds = 3, floor = pieces("files_io", "async"),
    portico = pieces("files_down", "async") },
  { name = "files", what = "  sync", unit = "MB/s", memory = 4 << 20,
    floor = pieces("files_io", "async"), rounds = 3,
    portico = pieces("files_down", "sync") },
  { name = "files", what = "1 GiB in, 256 MiB a time, async", unit = "MB/s",
    memory = 4 << 20, rounds = 3, floor = portico("files_cp", "async"),
    floor_is = "cp", portico = portico("files_whole", "async"), least = 0.5 },
  { name = "files", what = "list 100,000 entries, async", unit = "ms",
    rounds = 3, floor = portico("files_find", "async"),
    floor_is = "find -printf of the same attributes",
    portico = portico("files_list", "async") },
  { name = "create", what = "create local, command, close", unit = "us",
    floor = spawn, portico = portico("create", "async") },
  { name = "create", what = "  sync (with a portal)", unit = "us",
    floor = spawn, portico = portico("create", "sync") },
  { name = "create", what = "create bwrap, first command", unit = "us",
    floor = bwrap_floor, floor_is = "the bwrap program, same profile and user",
    portico = bwrap("first", "async"), most = 1.3,
    others = { { "keeper, bwrap, agent, supervisor that do nothing else",
      bwrap_chain }, { "bwrap, the least", bwrap_plain },
      { "crun", crun("20") } } },
  { name = "create", what = "  sync (with a portal)", unit = "us",
    floor = bwrap_floor, portico = bwrap("first", "sync") },
  { name = "create", what = "  async, with limits (cgroup)", unit = "us",
    floor = bwrap_floor, portico = bwrap("first_limits", "async") },
  { name = "create", what = "  async, and close", unit = "us",
    floor = bwrap_floor, portico = bwrap("whole", "async") },
  { name = "density", what = "create the 100th bwrap sandbox", unit = "us",
    floor = density, floor_pick = 1, floor_is = "while there are hardly any",
    portico = density, pick = 2, most = 1.3, rounds = 3 },
  { name = "density", what = "create the 500th", unit = "us",
    floor = density, floor_pick = 1, portico = density, pick = 3, most = 1.3,
    rounds = 3 },
  { name = "density", what = "a command in each of 500 at once", unit = "us",
    portico = density, pick = 5, rounds = 3 },
  { name = "density", what = "closing 500 at once, each", unit = "us",
    portico = density, pick = 6, rounds = 3 },
  { name = "density", what = "memory for each, kernel included", unit = "KiB",
    portico = density, pick = 4, rounds = 3 },
  { name = "density", what = "descriptors of the host for each", unit = "",
    portico = density, pick = 7, rounds = 3 },
  { name = "density", what = "threads of the host for all", unit = "",
    portico = density, pick = 8, most = 0, rounds = 3 },
  { name = "density", what = "what is left after the end", unit = "",
    portico = density, pick = 9, most = 0, rounds = 3 },
  { name = "portal", what = "portal call, nothing to do", unit = "us",
    floor = on_one_core(portal), most = 1.3,
    portico = on_one_core(portico("portal", "sync")),
    anyio = on_one_core(anyio("portal")) },
  { name = "portal", what = "  threads where the kernel likes", unit = "us",
    floor = portal, portico = portico("portal", "sync"),
    anyio = anyio("portal") },
  { name = "stream", what = "output, 64 KiB chunks, async", unit = "MB/s",
    floor = stream_64k, portico = portico("stream_64k", "async"), least = 0.8,
    luv = luv("stream_64k"), anyio = anyio("stream_64k") },
  { name = "stream", what = "  sync", unit = "MB/s",
    floor = portico("stream_64k", "async"), floor_is = "async",
    portico = portico("stream_64k", "sync"), least = 0.6 },
  { name = "stream", what = "output, 4 KiB chunks, async", unit = "MB/s",
    floor = stream_4k, portico = portico("stream_4k", "async") },
  { name = "stream", what = "  sync", unit = "MB/s",
    floor = floor("floor_portal", "stream", "65536", PRODUCE, "4096", 1 << 27,
      "packets"), floor_is = "C, a crossing a chunk",
    portico = portico("stream_4k", "sync"), least = 3 },
  { name = "trees", what = "10,000 small files up", unit = "ms",
    floor = trees, floor_pick = 1, floor_is = "tar c | tar x",
    portico = trees, pick = 2, most = 2, rounds = 3 },
  { name = "trees", what = "  down", unit = "ms",
    floor = trees, floor_pick = 1, portico = trees, pick = 3, most = 2,
    rounds = 3 },
  { name = "trees", what = "a file of 1 GiB up", unit = "MB/s",
    floor = trees, floor_pick = 4, floor_is = "cp",
    portico = trees, pick = 5, least = 0.7, rounds = 3 },
  { name = "trees", what = "  down", unit = "MB/s",
    floor = trees, floor_pick = 4, portico = trees, pick = 6, least = 0.7,
    rounds = 3 },
  { name = "tasks", what = "a parked task of 10,000", unit = "KiB",
    portico = portico("task_memory", "async"), most = 1.6,
    luv = luv("task_memory"), anyio = anyio("task_memory") },
  { name = "tasks", what = "waking it", unit = "us",
    portico = portico("task_wake", "async"), most = 2,
    luv = luv("task_wake"), anyio = anyio("task_wake") },
  { name = "tasks", what = "waking 10,000 sleepers, each", unit = "us",
    portico = portico("task_sleepers", "async"),
    luv = luv("task_sleepers"), anyio = anyio("task_sleepers") },
  { name = "tasks", what = "1,000 commands at once", unit = "ms",
    portico = portico("task_commands", "async"),
    luv = luv("task_commands"), anyio = anyio("task_commands") },
  { name = "tasks", what = "a wait in a generator, each level", unit = "ns",
    portico = portico("task_nested", "async"), most = 150,
    luv = luv("task_nested"), anyio = anyio("task_nested") },
  { name = "memory", what = "a portal, resident", unit = "KiB",
    portico = portico("portal_memory", "sync"), most = 100 },
  { name = "memory", what = "an idle bwrap sandbox, PSS, new", unit = "KiB",
    portico = idle, pick = 1, most = 400, rounds = 3 },
  { name = "memory", what = "  after a command", unit = "KiB",
    portico = idle, pick = 2, rounds = 3 },
  { name = "memory", what = "  6 s later", unit = "KiB",
    portico = idle, pick = 3, most = 400, rounds = 3 },
  { name = "embed", what = "a tick with nothing to do", unit = "ns",
    floor = floor("embed", "turn"), portico = floor("embed", "tick"),
    floor_is = "a turn of a libuv loop; 500 ns where a system call is quick",
    most = 1.5 },
  { name = "embed", what = "the same, a sandbox open", unit = "ns",
    floor = floor("embed", "turn"), portico = floor("embed", "open") },
  { name = "embed", what = "a promise, until its script ran", unit = "ns",
    floor = floor("embed", "signal"), portico = floor("embed", "wake"),
    floor_is = "uv_async_send() and a turn; 2 us where a call is quick",
    most = 1.5 },
  { name = "embed", what = "a runtime with Lua, created", unit = "us",
    portico = embed_create, pick = 1, most = 200 },
  { name = "embed", what = "  its memory", unit = "KiB",
    portico = embed_create, pick = 2, most = 64 },
  { name = "embed", what = "Lua with a slice limit, times", unit = "",
    portico = floor("embed", "hooked") },
  { name = "embed", what = "60 Hz, 100 commands, p99 tick", unit = "us",
    floor = embed_frame, floor_pick = 3,
    floor_is = "2 ms of computing beside the same commands",
    portico = embed_frame, pick = 1, most = 1, rounds = 3 },
  { name = "embed", what = "  of the tick's own work", unit = "us",
    portico = embed_frame, pick = 2, most = 2500, rounds = 3 },
  { name = "embed", what = "  the longest slice", unit = "us",
    portico = embed_frame, pick = 4, rounds = 3 },
}

-- ---- measuring --------------------------------------------------------------

local function read_file(path)
  local file = io.open(path)
  local text = file and file:read("a")
  if file then
    file:close()
  end
  return text or ""
end

local function available_kib()
  return tonumber(read_file("/proc/meminfo"):match("MemAvailable:%s*(%d+)"))
end

local function median(samples)
  table.sort(samples)
  return samples[#samples // 2 + 1]
end

local COLUMNS = { "floor", "portico", "luv", "anyio" }
local PICKS = { floor = "floor_pick", portico = "pick" }

-- What commands that serve several rows have printed, by command and round.
local printed = {}

-- The number of a column in one round; nil if it does not work.
local function sample(row, column, command, round)
  local pick = row[PICKS[column]]
  if not pick then
    return (measure(command) or {})[1]
  end
  local rounds = printed[command] or {}
  printed[command] = rounds
  if rounds[round] == nil then
    rounds[round] = measure(command) or false
  end
  return rounds[round] and rounds[round][pick]
end

-- The columns of a row and its other peers, as { name, command } each.
local function programs(row)
  local found = {}
  for _, column in ipairs(COLUMNS) do
    if row[column] then
      found[#found + 1] = { column, row[column] }
    end
  end
  return table.move(row.others or {}, 1, #(row.others or {}), #found + 1, found)
end

-- Fills row.values with the medians by name, and row.ratios, sorted.
local function run_row(row)
  local samples = {}
  row.ratios = {}
  for round = 1, math.min(row.rounds or ROUNDS, ROUNDS) do
    local values = {}
    for _, program in ipairs(programs(row)) do
      local name, command = program[1], program[2]
      if samples[name] ~= false then
        samples[name] = samples[name] or {}
        values[name] = sample(row, name, command, round)
        if values[name] then
          table.insert(samples[name], values[name])
        elseif #samples[name] == 0 then
          samples[name] = false -- it does not work: do not ask again
        end
      end
    end
    if values.floor and values.portico then
      table.insert(row.ratios, values.portico / values.floor)
    end
  end
  row.values = {}
  for name, list in pairs(samples) do
    row.values[name] = list and median(list)
  end
end

local function number(value)
  if not value then
    return "-"
  elseif value >= 100 then
    return ("%.0f"):format(value)
  end
  return ("%.2f"):format(value)
end

-- The bound of a row, and whether `compared` is within it.
local function judge(row, compared)
  local bound = row.most or row.least
  if not bound then
    return "", ""
  end
  local text = (row.most and "<= " or ">= ") .. bound
  if not compared then
    return text, "?"
  elseif row.most then
    return text, compared <= bound and "ok" or "MISSED"
  end
  return text, compared >= bound and "ok" or "MISSED"
end

local LINE = "%-34s %-5s %9s %9s %6s %11s %8s %-7s %8s %8s"

local function print_row(row)
  local v, ratio, spread = row.values, "", ""
  local compared = v.portico
  if row.floor then
    compared = #row.ratios > 0 and median(row.ratios)
    ratio = number(compared)
    spread = compared and ("%.2f-%.2f"):format(row.ratios[1],
      row.ratios[#row.ratios]) or ""
  end
  local bound, verdict = judge(row, compared)
  print(LINE:format(row.what, row.unit, number(v.floor), number(v.portico),
    ratio, spread, bound, verdict, number(v.luv), number(v.anyio)))
  if row.floor_is then
    print(("%34s floor: %s"):format("", row.floor_is))
  end
  for _, peer in ipairs(row.others or {}) do
    print(("%34s peer: %s, %s"):format("", peer[1], number(v[peer[1]])))
  end
end

-- ---- the table --------------------------------------------------------------

print(("machine: %s, %s cores, Linux %s"):format(
  read_file("/proc/cpuinfo"):match("model name%s*:%s*([^\n]+)") or "unknown",
  (capture("getconf _NPROCESSORS_ONLN") or "?"):match("%S+"),
  read_file("/proc/sys/kernel/osrelease"):match("%S+") or "?"))
print(("medians of %d rounds; load before: %s"):format(ROUNDS,
  read_file("/proc/loadavg"):match("%S+") or "?"))
print(("peers: lua-luv %s, anyio %s"):format(have_luv and "is here" or
  "is missing", python and "is here" or "is missing"))
print("floor: the same work by a small C program (spec/bench); lua-luv and")
print("anyio have no sandbox and so do less")
print("")
print(LINE:format("row", "unit", "floor", "portico", "ratio", "lowest-high",
  "bound", "", "lua-luv", "anyio"))
if not exists(with_clock("spec/bench/peer_bwrap.lua", dir, sh_quote(bin))) then
  print("bwrap sandboxes cannot be made here")
end
local found = false
for _, row in ipairs(rows) do
  if next(wanted) == nil or wanted[row.name] then
    found = true
    if row.memory and (available_kib() or 0) < row.memory then
      print(("%-34s left out: too little free memory"):format(row.what))
    else
      run_row(row)
      print_row(row)
    end
    io.stdout:flush()
  end
end
remove_dir()
if not found then
  io.stderr:write("no such row; there are: exec exec_1g files create density ",
    "portal stream tasks trees memory embed\n")
  os.exit(2)
end
