-- What tasks pass to each other: channels, events, semaphores.

local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portico = require("portico")
local task = require("portico.task")

local nothing_left = leaks.frame()
local raises = facades.raises

local function inside(name, fn)
  it(name, function()
    local seconds = facades.timed(portico.run, fn)
    assert.is_true(seconds < 30, seconds)
  end)
end

local function collect(channel)
  local values = {}
  for value in channel:values() do
    values[#values + 1] = value
  end
  return values
end

describe("a channel", function()
  for _, capacity in ipairs({ 0, 1, 3, 1000 }) do
    inside("of capacity " .. capacity .. " keeps the order", function()
      local channel, sent = task.channel(capacity), {}
      local results = task.all({
        function()
          for i = 1, 300 do
            channel:send(i)
            sent[i] = i
          end
          assert.is_true(channel:close())
          assert.is_false(channel:close())
        end,
        function() return collect(channel) end,
      })
      assert.same(sent, results[2])
      assert.is_nil(channel:receive())
    end)
  end

  inside("holds the sender back when it is full", function()
    local channel, sent = task.channel(2), 0
    task.scope(function(scope)
      scope:spawn(function()
        for i = 1, 5 do
          channel:send(i)
          sent = i
        end
      end)
      task.checkpoint()
      task.checkpoint()
      assert.equal(2, sent)
      assert.truthy(tostring(channel):find("2 of 2", 1, true))
      assert.equal(1, channel:receive())
      task.checkpoint()
      assert.equal(3, sent)
      for i = 2, 5 do
        assert.equal(i, channel:receive())
      end
    end)
  end)

  inside("gives each value to one of many", function()
    local channel, seen, senders = task.channel(1), {}, 5
    local jobs = {}
    for i = 1, 5 do
      jobs[i] = function()
        for value in channel:values() do
          seen[value] = (seen[value] or 0) + 1
          task.sleep(0)
        end
      end
      jobs[i + 5] = function()
        for j = 1, 20 do
          channel:send(i * 100 + j)
        end
        senders = senders - 1
        if senders == 0 then
          channel:close()
        end
      end
    end
    task.all(jobs)
    local count = 0
    for _, times in pairs(seen) do
      assert.equal(1, times)
      count = count + 1
    end
    assert.equal(100, count)
  end)

  inside("does not send what a cancelled task wanted to", function()
    local channel = task.channel()
    task.scope(function(scope)
      local t = scope:spawn(function() channel:send("never") end)
      scope:spawn(function()
        task.checkpoint()
        channel:send("sent")
      end)
      task.checkpoint()
      t:cancel()
      assert.is_false(t:pawait())
      assert.equal("sent", channel:receive())
      raises("TimeoutError", channel.receive, channel, { timeout = 0.01 })
      raises("TimeoutError", channel.send, channel, 1, { timeout = 0.01 })
      -- Whoever sent that is gone, and with it what it wanted to send.
      channel:close()
      assert.is_nil(channel:receive())
    end)
  end)

  inside("loses nothing that was handed to a task before it was cancelled",
    function()
      local channel = task.channel()
      task.scope(function(scope)
        local got
        local t = scope:spawn(function() got = channel:receive() end)
        task.checkpoint()
        channel:send("handed")
        t:cancel()
        t:pawait()
        assert.equal("handed", got)
      end)
    end)

  inside("raises ClosedError for those who send, at once and later", function()
    local channel = task.channel(1)
    channel:send(1)
    task.all({
      function() raises("ClosedError", channel.send, channel, 2) end,
      function() channel:close() end,
    })
    raises("ClosedError", channel.send, channel, 3)
    assert.same({ 1 }, collect(channel))
    local empty = task.channel()
    task.all({
      function() assert.is_nil(empty:receive()) end,
      function() empty:close() end,
    })
  end)

  inside("of a task that only sends and receives starves nobody", function()
    local channel, over, ticks = task.channel(1), false, 0
    task.all({
      function()
        repeat
          channel:send(1)
          channel:receive()
        until over
      end,
      function()
        for _ = 1, 5 do
          task.sleep(0.001)
          ticks = ticks + 1
        end
        over = true
      end,
    })
    assert.equal(5, ticks)
  end)

  inside("checks its arguments", function()
    for _, bad in ipairs({ -1, 0.5, "x", "1", false, {}, math.huge }) do
      raises("InvalidArgumentError", task.channel, bad)
    end
    local channel = task.channel(1)
    raises("InvalidArgumentError", channel.send, channel, nil)
    raises("InvalidArgumentError", channel.send, channel, 1, { timout = 1 })
    raises("InvalidArgumentError", channel.receive, channel, { timeout = -1 })
    assert.equal("PCO_EDOT", raises("UsageError", channel.send, 1).code)
    assert.equal("PCO_EDOT", raises("UsageError", channel.values).code)
    channel:send(false)
    assert.is_false(channel:receive())
  end)

  it("is closed at the end of a block, and by nobody else", function()
    local kept
    portico.run(function()
      local channel <close> = task.channel()
      kept = channel
    end)
    assert.is_false(kept:close())
  end)
end)

describe("an event", function()
  inside("wakes all who wait, and lets later ones through", function()
    local event, woken = task.event(), 0
    local jobs = {}
    for i = 1, 5 do
      jobs[i] = function()
        event:wait()
        woken = woken + 1
      end
    end
    jobs[6] = function()
      assert.is_false(event:is_set())
      task.checkpoint()
      assert.equal(0, woken)
      assert.is_true(event:set())
      assert.is_false(event:set())
    end
    task.all(jobs)
    assert.equal(5, woken)
    event:wait()
    assert.is_true(event:clear())
    assert.is_false(event:clear())
    raises("TimeoutError", event.wait, event, { timeout = 0.01 })
    assert.truthy(tostring(event):find("not set"))
  end)
end)

describe("a semaphore", function()
  inside("lets so many in at once, in the order of asking", function()
    local semaphore, inside_now, most, order = task.semaphore(3), 0, 0, {}
    local jobs = {}
    for i = 1, 12 do
      jobs[i] = function()
        local _ <close> = semaphore:acquire()
        inside_now = inside_now + 1
        most = math.max(most, inside_now)
        order[#order + 1] = i
        task.sleep(0.002)
        inside_now = inside_now - 1
      end
    end
    task.all(jobs)
    assert.equal(3, most)
    for i = 1, 12 do
      assert.equal(i, order[i])
    end
    assert.truthy(tostring(semaphore):find("3 free"))
  end)

  inside("gets permits back after errors, cancellations, and when dropped",
    function()
      local semaphore = task.semaphore(1)
      for _ = 1, 3 do
        pcall(task.timeout, 0.005, function()
          local _ <close> = semaphore:acquire()
          task.sleep(60)
        end)
        pcall(function()
          local _ <close> = semaphore:acquire()
          error("x")
        end)
      end
      raises("TimeoutError", function()
        local _ <close> = semaphore:acquire()
        semaphore:acquire({ timeout = 0.01 })
      end)
      semaphore:acquire()
      collectgarbage()
      collectgarbage()
      local permit = semaphore:acquire({ timeout = 1 })
      assert.is_true(permit:close())
      assert.is_false(permit:close())
      assert.truthy(tostring(semaphore):find("1 free"))
    end)

  it("checks its arguments", function()
    for _, bad in ipairs({ 0, -1, 0.5, "x", "1", {}, math.huge }) do
      raises("InvalidArgumentError", task.semaphore, bad)
    end
    raises("InvalidArgumentError", task.semaphore)
  end)
end)

describe("a time limit that ends a wait", function()
  inside("is told with its length", function()
    local channel, event = task.channel(), task.event()
    local semaphore = task.semaphore(1)
    local _ <close> = semaphore:acquire()
    for operation, wait in pairs({
      ["channel.receive"] = function(limit) channel:receive(limit) end,
      ["channel.send"] = function(limit) channel:send(1, limit) end,
      ["event.wait"] = function(limit) event:wait(limit) end,
      ["semaphore.acquire"] = function(limit) semaphore:acquire(limit) end,
    }) do
      local err = raises("TimeoutError", wait, { timeout = 0.015625 })
      assert.same({ operation, "PCO_ECALLTIMEOUT",
        "the call did not end within 0.015625 s" },
        { err.operation, err.code, err.message })
      err = raises("TimeoutError", wait, { timeout = 0 })
      assert.equal("the call ran out of time", err.message)
    end
  end)
end)

it("channels leave nothing behind", nothing_left)
