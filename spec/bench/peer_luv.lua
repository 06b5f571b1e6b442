-- lua-luv, Debian's binding of libuv, beside Portico: a plain uv_spawn without
-- a sandbox, so what it does is less.
--   lua5.4 spec/bench/peer_luv.lua exec|stream_64k|stream_4k BIN

local uv = require("luv")
local row, bin = ...

local function spawn(program, args, stdio, on_exit)
  local handle, err
  handle, err = uv.spawn(program, { args = args, stdio = stdio }, function(code)
    handle:close()
    on_exit(code)
  end)
  assert(handle, err)
end

local function exec(count)
  local samples = {}
  for i = 1, count do
    local start = uv.hrtime()
    spawn(bin .. "/true", {}, {}, function(code)
      assert(code == 0)
    end)
    uv.run()
    samples[i] = (uv.hrtime() - start) / 1e3
  end
  table.sort(samples)
  return samples[count // 2 + 1]
end

local function stream(...)
  local pipe, bytes, start = uv.new_pipe(false), 0, uv.hrtime()
  spawn(bin .. "/produce", { ... }, { nil, pipe }, function(code)
    assert(code == 0)
  end)
  pipe:read_start(function(err, data)
    assert(not err, err)
    if data then
      bytes = bytes + #data
    else
      pipe:close()
    end
  end)
  uv.run()
  return bytes / ((uv.hrtime() - start) / 1e3)
end

-- Coroutines by hand: one that waits is resumed by the callback.
local function each_of(count, body)
  for _ = 1, count do
    coroutine.wrap(body)()
  end
  uv.run()
end

local function sleep(ms)
  local thread, timer = coroutine.running(), uv.new_timer()
  timer:start(ms, 0, function()
    timer:close()
    coroutine.resume(thread)
  end)
  coroutine.yield()
end

local function task_memory()
  local waiting = 0
  collectgarbage()
  local before, used = uv.resident_set_memory(), nil
  each_of(10000, function()
    waiting = waiting + 1
    if waiting == 10000 then
      used = uv.resident_set_memory() - before
    end
    sleep(100)
  end)
  return used / 1024 / 10000
end

local function task_wake()
  local started, woken
  each_of(10000, function()
    sleep(0)
    started = started or uv.hrtime()
    sleep(0)
    woken = uv.hrtime()
  end)
  return (woken - started) / 1e3 / 20000
end

local function task_sleepers()
  local due, woken = uv.hrtime() + 500 * 1e6, nil
  each_of(10000, function()
    sleep(math.max(0, (due - uv.hrtime()) // 1000000))
    woken = uv.hrtime()
  end)
  return math.max(0, woken - due) / 1e3 / 10000
end

local function task_commands()
  local start, ended = uv.hrtime(), 0
  each_of(1000, function()
    local thread = coroutine.running()
    spawn(bin .. "/true", {}, {}, function(code)
      assert(code == 0)
      coroutine.resume(thread)
    end)
    coroutine.yield()
    ended = ended + 1
  end)
  assert(ended == 1000)
  return (uv.hrtime() - start) / 1e6
end

-- Nanoseconds of a wait, of the processor, for each level of coroutines above
-- the one that libuv's callback resumes: by hand, each level hands the yield of
-- the next one on.
local function task_nested()
  local LEVELS, COUNT, ROUNDS = 4, 20000, 9
  local idle, waiting = uv.new_idle(), nil
  idle:start(function()
    for _ = 1, 100 do
      if waiting then
        coroutine.resume(waiting)
      end
    end
  end)
  local function at(level, fn)
    if level == 0 then
      return fn()
    end
    local inner = coroutine.create(at)
    local ok, result = coroutine.resume(inner, level - 1, fn)
    while coroutine.status(inner) == "suspended" do
      coroutine.yield()
      ok, result = coroutine.resume(inner)
    end
    return assert(ok and result)
  end
  local function waits()
    local samples = {}
    for i = 1, ROUNDS do
      local start = os.clock()
      for _ = 1, COUNT do
        coroutine.yield()
      end
      samples[i] = (os.clock() - start) * 1e9
    end
    table.sort(samples)
    return samples[ROUNDS // 2 + 1]
  end
  local value
  waiting = coroutine.create(function()
    value = (at(LEVELS, waits) - waits()) / COUNT / LEVELS
    waiting = nil
    idle:close()
  end)
  uv.run()
  return value
end

local rows = {
  task_memory = task_memory,
  task_nested = task_nested,
  task_wake = task_wake,
  task_sleepers = task_sleepers,
  task_commands = task_commands,
  exec = function() return exec(300) end,
  exec_1g = function()
    local ballast = ("x"):rep(1 << 30)
    local value = exec(50)
    assert(#ballast == 1 << 30)
    return value
  end,
  stream_64k = function() return stream("65536", tostring(1 << 30)) end,
  -- luv gives the child a socketpair, which has no packets: chunks as they come
}
print(("%.3f"):format(rows[row]()))
