-- Tasks as such: who waits for what, those that wait for each other, that never
-- wait, that somebody ends from outside, and errors of Lua in them.

local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portico = require("portico")
local task = require("portico.task")
local tasks = require("spec.support.tasks")

local nothing_left = leaks.frame(256)
local inside, never = tasks.inside, tasks.never
local raises = facades.raises
local wrap = require("portico.coroutine").wrap

describe("tasks", function()
  inside(it, "lists who waits for what, as a tree", function()
    task.scope(function(scope)
      local event = task.event()
      local t = scope:spawn(function()
        task.scope(function(inner)
          inner:spawn(task.sleep, 60).name = "sleeper"
          event:wait()
        end, { name = "group" })
      end)
      t.name = "parent"
      task.sleep(0.01)
      local list = task.tasks()
      t:cancel()
      assert.equal(3, #list)
      assert.equal("running", list[1].state)
      assert.same({ "parent", 1, "waiting" },
        { list[2].name, list[2].depth, list[2].state })
      assert.truthy(list[2].waits_for:find("^event"))
      assert.truthy(list[2].where:find("tasks_spec.lua:%d+"))
      assert.truthy(list[2].spawned:find("tasks_spec.lua:%d+"))
      assert.same({ "sleeper", 2, "sleep", "group" }, {
        list[3].name, list[3].depth, list[3].waits_for, list[3].scope,
      })
      assert.is_true(list[3].seconds >= 0)
      assert.is_true(rawequal(t, list[2].task))
    end)
    assert.is_nil(task.current().nothing)
  end)

  it("is empty outside of run", function()
    assert.same({}, task.tasks())
    assert.is_nil(task.current())
  end)
end)

describe("a deadlock", function()
  it("raises DeadlockError that says who waits for what, and where", function()
    local err = raises("DeadlockError", portico.run, function()
      local event = task.event()
      task.scope(function(scope)
        local t = scope:spawn(function() event:wait() end)
        t.name = "forgotten"
        scope:spawn(function() t:await() end)
      end)
    end)
    assert.equal("PCO_EDEADLOCK", err.code)
    assert.is_nil(err.others)
    for _, part in ipairs({
      "3 tasks", "forgotten", "waits for event", "await of forgotten",
      "tasks_spec.lua:%d+", "since %d", "spawned at",
    }) do
      assert.truthy(err.message:find(part), part .. " in " .. err.message)
    end
    assert.equal(1, portico.run(function() task.sleep(0) return 1 end))
  end)

  it("is found behind a shield and in a clean-up", function()
    local err = raises("DeadlockError", portico.run, task.shield, never)
    assert.truthy(err.message:find("waits for event"), err.message)
    raises("DeadlockError", portico.run, task.scope, function()
      local _ <close> = setmetatable({}, { __close = never })
    end, { grace = 0.05 })
  end)

  it("is none while something outside may end a wait", function()
    portico.run(function()
      local event = task.event()
      task.all({
        function() event:wait() end,
        function()
          facades.with_sandbox(portico, {}, function(sandbox)
            sandbox:exec("sleep 0.1")
          end)
          event:set()
        end,
      })
      raises("TimeoutError", event.wait, task.event(), { timeout = 0.02 })
    end)
  end)
end)

describe("a coroutine that somebody closes under its task", function()
  it("is told, and nothing hangs", function()
    for _, body in ipairs({
      function() task.sleep(60) end,
      never,
      function() task.channel():receive() end,
      function() task.channel():send(1) end,
      function()
        task.scope(function(scope) scope:spawn(task.sleep, 0.02) end)
      end,
    }) do
      local thread
      local err = raises("UsageError", portico.run, task.all, {
        function()
          thread = coroutine.running()
          body()
        end,
        function()
          task.sleep(0.01)
          -- The coroutine library of the portico command refuses at once.
          local closed, why = pcall(coroutine.close, thread)
          assert(closed or why:find("cannot close a normal coroutine", 1, true),
            why)
          thread = nil
          collectgarbage()
          collectgarbage()
          task.sleep(0.05)
          error(errors.new(errors.UsageError, {
            message = "so that all ends", code = "PCO_ECOROUTINE",
          }), 0)
        end,
      })
      assert.equal("PCO_ECOROUTINE", err.code)
      assert.equal(1, portico.run(function() task.sleep(0) return 1 end))
      assert.same({}, task.tasks())
    end
  end)
end)

describe("a task that never waits", function()
  it("is reported, and lets others run at checkpoints", function()
    local told = {}
    portico.set_logger(function(record)
      told[#told + 1] = record.message
    end)
    portico.run(function()
      local stop, ticks = false, 0
      task.all({
        function()
          task.current().name = "busy"
          local start = env.now()
          repeat until env.now() - start > 1.2
          while not stop do
            task.checkpoint()
          end
        end,
        function()
          for _ = 1, 10 do
            task.sleep(0.001)
            ticks = ticks + 1
          end
          stop = true
        end,
      })
      assert.equal(10, ticks)
    end)
    portico.set_logger(nil)
    local text = table.concat(told, "\n")
    assert.truthy(text:find("busy r[ua]ns? for %d.%d s without waiting"), text)
  end)
end)

describe("errors of Lua inside tasks", function()
  inside(it, "such as running out of memory are the task's", function()
    local ok, err = pcall(task.scope, function(scope)
      scope:spawn(function()
        task.sleep(0)
        return ("x"):rep(1 << 60)
      end)
    end)
    assert.is_false(ok)
    assert.truthy(tostring(err):find("memory") or tostring(err):find("large"))
    task.sleep(0)
  end)

  inside(it, "in a traceback handler are as in Lua", function()
    local ok, err = xpcall(function()
      task.sleep(0)
      error("x")
    end, function() error("y") end)
    assert.is_false(ok)
    assert.truthy(err)
    task.sleep(0)
  end)

  it("when the stack overflows leave the rest running", function()
    local ok, err = pcall(portico.run, function()
      local function recurse() return 1 + recurse() end
      task.scope(function(scope)
        scope:spawn(recurse)
      end)
    end)
    assert.is_false(ok)
    assert.truthy(err:find("stack overflow"), err)
    assert.equal(1, portico.run(function() return 1 end))
  end)

  -- Each of them has a traceback. They are caught in coroutines: to catch one,
  -- Lua itself looks at the whole stack.
  inside(it, "are no dearer far down in a recursion", function()
    local err
    local function down(n, times)
      if n > 0 then
        return 1 + down(n - 1, times)
      end
      for _ = 1, times do
        wrap(function()
          err = raises("InvalidArgumentError", task.sleep, "x")
        end)()
      end
      return 1
    end
    down(100000, env.amount(500))
    assert.truthy(err.traceback:find("\n\t...\t(more than 2000 levels)", 1,
      true), err.traceback)
    local _, lines = err.traceback:gsub("\n", "")
    assert.is_true(lines < 40, err.traceback)
    -- A stack that is less deep is told from both ends.
    down(100, 1)
    assert.truthy(err.traceback:find("%(skipping %d+ levels%).*tasks_spec"),
      err.traceback)
  end)

  it("yielding by hand at the root of a task", function()
    local err = raises("UsageError", portico.run, coroutine.yield, 1)
    assert.equal("PCO_ECOROUTINE", err.code)
    err = raises("UsageError", portico.run, task.scope, function(scope)
      scope:spawn(coroutine.yield)
    end)
    assert.equal("PCO_ECOROUTINE", err.code)
    err = raises("UsageError", portico.run,
      require("portico.coroutine").yield, 1)
    assert.equal("PCO_ECOROUTINE", err.code)
  end)
end)

it("tasks leave nothing behind", nothing_left)
