-- What ./dev bench runs: every row several times, the programs of a row in
-- turn (floor, Portico, peers, floor, ...), so that what the machine does
-- meanwhile hits all of them; and the median of each.
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

-- The number that a program prints, or nil if it fails.
local function measure(command)
  local output = capture(command)
  return output and tonumber((output:match("%S+")))
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
local function portico(row, facade)
  return ("LUA_CPATH=%s\"$LUA_CPATH\" %s spec/bench/portico.lua %s %s %s")
    :format(sh_quote(bin .. "/?.so;"), lua, row, facade, sh_quote(bin))
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

-- ---- the rows ---------------------------------------------------------------

-- name, what it is; unit; commands; bound: at most (time, memory) or at least
-- (throughput) this many times the floor, or the value itself where there is
-- no floor. `floor_is` says what the floor is, where it is not the same work.
local TRUE = sh_quote(bin .. "/true")
local PRODUCE = sh_quote(bin .. "/produce")
local spawn = floor("floor_spawn", "300", TRUE)
local spawn_1g = floor("floor_spawn", "300", TRUE, "1024")
local stream_64k = floor("floor_stream", "65536", PRODUCE, "65536", 1 << 30)
local stream_4k = floor("floor_stream", "65536", PRODUCE, "4096", 1 << 27,
  "packets")
local portal = floor("floor_portal", "20000")
-- Both threads on one core, and as the kernel likes: the wake-up of a sleeping
-- core costs ten times the rest, and where threads land is a matter of luck.
local have_taskset = exists("taskset -c 0 true")
local function on_one_core(command)
  if have_taskset and command then
    return "taskset -c 0 sh -c " .. sh_quote(command)
  end
  return command
end

local rows = {
  { name = "exec", what = "exec static true, local, async", unit = "us",
    floor = spawn, portico = portico("exec", "async"), most = 1.3,
    luv = luv("exec"), anyio = anyio("exec") },
  { name = "exec", what = "  sync", unit = "us",
    floor = spawn, portico = portico("exec", "sync"), most = 1.3 },
  { name = "exec", what = "  async, both streams captured", unit = "us",
    floor = spawn, portico = portico("exec_pipes", "async") },
  { name = "exec_1g", what = "exec, 1 GiB touched in the host", unit = "us",
    memory = 2 << 20, floor = spawn_1g, portico = portico("exec_1g", "async"),
    most = 1.43, luv = luv("exec_1g") },
  { name = "create", what = "create, first command, close", unit = "us",
    floor = spawn, portico = portico("create", "async") },
  { name = "create", what = "  sync (with a portal)", unit = "us",
    floor = spawn, portico = portico("create", "sync") },
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
  { name = "tasks", what = "a parked task of 10,000", unit = "KiB",
    portico = portico("task_memory", "async"), most = 1.6 },
  { name = "tasks", what = "waking it", unit = "us",
    portico = portico("task_wake", "async"), most = 2 },
  { name = "memory", what = "a portal, resident", unit = "KiB",
    portico = portico("portal_memory", "sync"), most = 100 },
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

-- Fills row.values with the medians of its columns.
local function run_row(row)
  local samples = {}
  for _ = 1, ROUNDS do
    for _, column in ipairs(COLUMNS) do
      if row[column] and samples[column] ~= false then
        samples[column] = samples[column] or {}
        local value = measure(row[column])
        if value then
          table.insert(samples[column], value)
        else
          samples[column] = false -- it does not work: do not ask again
        end
      end
    end
  end
  row.values = {}
  for _, column in ipairs(COLUMNS) do
    row.values[column] = samples[column] and median(samples[column])
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

local function print_row(row)
  local v = row.values
  local compared = v.portico
  if row.floor then
    compared = v.floor and v.portico and v.portico / v.floor
  end
  local bound, verdict = "", ""
  if row.most then
    bound = "<= " .. row.most
    verdict = compared and (compared <= row.most and "ok" or "MISSED") or "?"
  elseif row.least then
    bound = ">= " .. row.least
    verdict = compared and (compared >= row.least and "ok" or "MISSED") or "?"
  end
  print(("%-34s %-5s %9s %9s %6s %8s %-7s %8s %8s"):format(row.what, row.unit,
    number(v.floor), number(v.portico),
    row.floor and number(compared) or "", bound, verdict, number(v.luv),
    number(v.anyio)))
  if row.floor_is then
    print(("%34s floor: %s"):format("", row.floor_is))
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
print("floor: the same work by a small C program (spec/bench); the peers have")
print("no sandbox and so do less")
print("")
print(("%-34s %-5s %9s %9s %6s %8s %-7s %8s %8s"):format("row", "unit",
  "floor", "portico", "ratio", "bound", "", "lua-luv", "anyio"))
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
if not found then
  io.stderr:write("no such row; there are: exec exec_1g create portal stream ",
    "tasks memory\n")
  os.exit(2)
end
