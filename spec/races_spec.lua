-- Completion against cancellation, by seeded random schedules: ten thousand
-- rounds of things that wait, each cancelled at a random moment in a random
-- way. Whatever wins, it is one of the two, nothing is lost, and all can be
-- used afterwards. PORTICO_RACE_SEED repeats a run; PORTICO_RACE_ROUNDS makes
-- it shorter.

local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local ours = require("portico.coroutine")
local task = require("portico.task")

local nothing_left = leaks.frame()
local seed = tonumber(os.getenv("PORTICO_RACE_SEED") or os.time())

local ROUNDS, AT_ONCE = tonumber(os.getenv("PORTICO_RACE_ROUNDS")) or 10000, 20

-- A generator of numbers of its own: that of Lua is for everybody.
local state = seed
local function random(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % n + 1
end

-- What a round may wait for; each returns "result" if it comes to its end.
-- Those that cost a process are few.
local function works(sandbox, channel)
  local function exec()
    return sandbox:exec({ "true" }).ok and "result"
  end
  local cheap = {
    function() task.sleep(random(3) * 0.0005) return "result" end,
    function() task.sleep(0) return "result" end,
    function() task.checkpoint() return "result" end,
    function()
      channel:send("value")
      return "result"
    end,
    function()
      return channel:receive() == "value" and "result"
    end,
    function()
      local event = task.event()
      task.scope(function(scope)
        scope:spawn(function() event:set() end)
        event:wait()
      end)
      return "result"
    end,
    function()
      return task.first({
        function() task.sleep(0.001) return "result" end,
        function() task.sleep(0.001) return "result" end,
      })
    end,
    function()
      return ours.wrap(function()
        task.checkpoint()
        ours.yield("result")
        task.sleep(1)
      end)()
    end,
    function()
      return task.timeout(0.001, function()
        task.sleep(0.001)
        return "result"
      end)
    end,
    function()
      local _ <close> = setmetatable({}, {
        __close = function() task.sleep(0) end,
      })
      task.checkpoint()
      return "result"
    end,
    function()
      sandbox.fs:write("file", "text")
      return sandbox.fs:read("file") == "text" and "result"
    end,
    function() return sandbox:info().id and "result" end,
  }
  local costly = {
    exec,
    function()
      local p <close> = sandbox:spawn({ "echo", "x" })
      for line in p:lines() do
        assert(line == "x")
      end
      return p:wait().ok and "result"
    end,
  }
  return function()
    if random(20) == 1 then
      return costly[random(#costly)]
    end
    return cheap[random(#cheap)]
  end
end

-- Ways to cancel a task, or the scope that it is in.
local cancels = {
  function(t) t:cancel() end,
  function(_, scope) scope:cancel() end,
  function(t) t:cancel("twice") t:cancel() end,
  function() end,
}

local function wait_a_moment()
  local kind = random(4)
  if kind == 1 then
    return
  elseif kind == 2 then
    for _ = 1, random(5) do
      task.checkpoint()
    end
  else
    task.sleep(random(20) * 0.0001)
  end
end

local function round(choose, counts)
  local ok, result = pcall(task.scope, function(scope)
    local t = scope:spawn(choose())
    local cancel = cancels[random(#cancels)]
    wait_a_moment()
    cancel(t, scope)
    local ok, result = t:pawait()
    if not ok then
      error(result, 0)
    end
    return result
  end, random(4) == 1 and { timeout = random(20) * 0.0001 } or nil)
  if ok then
    assert(result == "result", tostring(result))
    counts.result = counts.result + 1
  elseif errors.is(result, "TimeoutError") then
    counts.timeout = counts.timeout + 1
  else
    assert(errors.is(result, "CancelledError"), tostring(result))
    counts.cancel = counts.cancel + 1
  end
end

describe("completion against cancellation", function()
  facades.in_task(it, "ends in one of the two, " .. ROUNDS .. " times",
    function(_, sandbox)
      local counts = { result = 0, timeout = 0, cancel = 0 }
      local ok, err = pcall(function()
        for _ = 1, ROUNDS // AT_ONCE do
          local channel, jobs = task.channel(2), {}
          local choose = works(sandbox, channel)
          -- Others that keep what waits at the channel going.
          local over = 0
          for i = 1, AT_ONCE do
            jobs[i] = function()
              round(choose, counts)
              over = over + 1
            end
          end
          jobs[#jobs + 1] = function()
            while over < AT_ONCE do
              pcall(channel.send, channel, "value", { timeout = 0.0005 })
              pcall(channel.receive, channel, { timeout = 0.0005 })
            end
          end
          task.all(jobs)
        end
      end)
      assert.is_true(ok, "seed " .. seed .. ": " .. tostring(err))
      assert.equal(ROUNDS, counts.result + counts.timeout + counts.cancel)
      for what, count in pairs(counts) do
        assert.is_true(count > ROUNDS / 50, what .. ": " .. count)
      end
      assert.equal("usable", sandbox:output("echo usable"))
      assert.equal(1, #task.tasks())
    end)

  it("leaves nothing behind", nothing_left)
end)
