-- Cancellation: of scopes and tasks, by deadlines, behind shields; and that
-- `<close>` variables are closed on every way out.

local coroutine = require("portico.coroutine")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portico = require("portico")
local task = require("portico.task")
local tasks = require("spec.support.tasks")

local nothing_left = leaks.frame()
local inside, never = tasks.inside, tasks.never
local raises = facades.raises

describe("cancelling", function()
  inside(it, "a scope ends its function and its tasks", function()
    local err = raises("CancelledError", task.scope, function(scope)
      scope:spawn(function()
        task.sleep(0.01)
        assert.is_true(scope:cancel("enough"))
        assert.is_false(scope:cancel("again"))
      end)
      never()
    end)
    assert.same({ "enough", "enough", "PCO_ECANCELED" },
      { err.message, err.reason, err.code })
  end)

  inside(it, "a scope keeps the results that its function has", function()
    local seen
    local result = task.scope(function(scope)
      scope:spawn(function()
        seen = raises("CancelledError", never)
      end)
      task.checkpoint()
      scope:cancel("done with it")
      return "answer"
    end)
    assert.equal("answer", result)
    assert.equal("done with it", seen.message)
  end)

  inside(it, "gives an error as the reason as cause", function()
    local cause = errors.new(errors.LimitError, { message = "why" })
    local err = raises("CancelledError", task.scope, function(scope)
      scope:cancel(cause)
      task.sleep(0)
    end)
    assert.is_true(rawequal(cause, err.cause))
    assert.is_true(rawequal(cause, err.reason))
  end)

  inside(it, "has any value as its reason, and tells texts and numbers",
    function()
      local object = {}
      for reason, message in pairs({
        [42] = "42",
        ["a\0b"] = "a\0b",
        [object] = "the task was cancelled",
        [true] = "the task was cancelled",
      }) do
        local err = raises("CancelledError", task.scope, function(scope)
          scope:cancel(reason)
          task.sleep(0)
        end)
        assert.same({ message, reason }, { err.message, err.reason })
      end
    end)

  inside(it, "a task ends it alone", function()
    task.scope(function(scope)
      local other = scope:spawn(function()
        task.sleep(0.02)
        return "fine"
      end)
      local t = scope:spawn(never)
      task.checkpoint()
      assert.is_true(t:cancel("not needed"))
      assert.is_false(t:cancel())
      local ok, err = t:pawait()
      assert.is_false(ok)
      assert.equal("not needed", err.message)
      assert.equal("cancelled", t:status())
      assert.equal("fine", other:await())
    end)
  end)

  inside(it, "a task before it began keeps it from beginning", function()
    local ran = false
    task.scope(function(scope)
      local t = scope:spawn(function() ran = true end)
      t:cancel()
      assert.is_false(t:pawait())
    end)
    assert.is_false(ran)
  end)

  inside(it, "loses against a result that is there", function()
    task.scope(function(scope)
      local event = task.event()
      local t = scope:spawn(function()
        event:wait()
        return "got it"
      end)
      task.checkpoint()
      event:set()
      t:cancel()
      assert.equal("got it", t:await())
    end)
  end)

  inside(it, "beats a deadline", function()
    -- It has passed, and nobody has heard of it yet.
    local err = raises("CancelledError", task.scope, function(scope)
      local stop = task.now() + 0.02
      repeat until task.now() > stop
      scope:cancel("by hand")
      never()
    end, { timeout = 0.01 })
    assert.equal("by hand", err.message)
  end)

  inside(it, "itself is raised by the next wait", function()
    task.scope(function(scope)
      local t = scope:spawn(function()
        task.current():cancel("me")
        local x = 1
        return x, task.sleep(0)
      end)
      local ok, err = t:pawait()
      assert.same({ false, "me" }, { ok, err.message })
    end)
  end)

  inside(it, "reaches through scopes and tasks of tasks", function()
    local count, deepest = 0, task.event()
    local function nest(n)
      task.scope(function(scope)
        if n > 0 then
          scope:spawn(nest, n - 1)
        else
          deepest:set()
        end
        local ok = pcall(never)
        count = count + (ok and 0 or 1)
      end)
    end
    task.scope(function(scope)
      local t = scope:spawn(nest, 20)
      deepest:wait()
      task.checkpoint()
      t:cancel()
    end)
    assert.equal(21, count)
  end)

  inside(it, "ends a loop that only catches errors", function()
    local err = raises("TimeoutError", task.timeout, 0.05, function()
      while true do
        pcall(task.sleep, 1)
      end
    end)
    assert.equal("PCO_ECALLTIMEOUT", err.code)
  end)
end)

describe("a deadline", function()
  inside(it, "raises TimeoutError, caused by the cancellation", function()
    local err = raises("TimeoutError", task.timeout, 0.02, never)
    assert.same(
      { "PCO_ECALLTIMEOUT", "task.timeout", "it did not end within 0.02 s" },
      { err.code, err.operation, err.message })
    assert.is_true(errors.is(err.cause, "CancelledError"))
  end)

  inside(it, "gives results and takes arguments", function()
    assert.same({ 1, nil, 3, n = 3 }, table.pack(
      task.timeout(5, function(...) return ... end, 1, nil, 3)))
    assert.equal(1, task.timeout(math.huge, function() return 1 end))
  end)

  inside(it, "loses against a result", function()
    assert.equal("result", task.timeout(0.01, function()
      pcall(task.sleep, 60)
      return "result"
    end))
  end)

  inside(it, "of the outer scope is the outer scope's", function()
    local inner
    local err = raises("TimeoutError", task.timeout, 0.02, function()
      inner = raises("CancelledError", task.timeout, 5, never)
      error(inner, 0)
    end)
    assert.is_true(rawequal(inner, err.cause))
  end)

  inside(it, "is a time of now()", function()
    local seconds = facades.timed(raises, "TimeoutError", task.scope, never,
      { deadline = task.now() + 0.05 })
    assert.is_true(seconds > 0.04)
    local err = raises("TimeoutError", task.scope, never,
      { deadline = task.now() - 1 })
    assert.equal("its time was over when it began", err.message)
  end)

  inside(it, "also ends tasks when the function has its result", function()
    raises("TimeoutError", task.scope, function(scope)
      scope:spawn(never)
      return 1
    end, { timeout = 0.02 })
  end)

  inside(it, "checks its arguments", function()
    for _, bad in ipairs({ "x", -1, 0 / 0, {} }) do
      raises("InvalidArgumentError", task.timeout, bad, print)
    end
    raises("InvalidArgumentError", task.timeout, 1)
    raises("InvalidArgumentError", task.timeout, nil, print)
    local err = raises("InvalidArgumentError", task.scope, print,
      { deadline = 0 / 0 })
    assert.truthy(err.message:find("no number", 1, true), err.message)
  end)
end)

describe("a shield", function()
  inside(it, "keeps cancellation out until it ends", function()
    local done
    raises("TimeoutError", task.timeout, 0.02, function()
      task.shield(function(seconds)
        task.sleep(seconds)
        done = true
      end, 0.1)
      task.sleep(0)
    end)
    assert.is_true(done)
  end)

  inside(it, "lets its own deadline through", function()
    raises("TimeoutError", task.scope, never, { shield = true, timeout = 0.02 })
  end)

  inside(it, "can be opened by a cancelled task", function()
    task.scope(function(scope)
      local t = scope:spawn(function()
        raises("CancelledError", never)
        assert.equal("cleaned", task.shield(function()
          task.sleep(0.01)
          return "cleaned"
        end))
        task.sleep(0)
      end)
      task.checkpoint()
      t:cancel()
      local _, err = t:pawait()
      assert.equal("PCO_ECANCELED", err.code)
    end)
  end)
end)

describe("<close> variables", function()
  -- A variable whose closing waits.
  local function closing(log, seconds, name)
    return setmetatable({}, {
      __close = function()
        task.sleep(seconds)
        log[#log + 1] = name
      end,
    })
  end

  -- Each way to leave a block.
  local ways = {
    result = function() return 1 end,
    error = function() error("x", 0) end,
    cancellation = function() never() end,
    ["break"] = function()
      for i in pairs({ 1, 2 }) do
        if i == 1 then
          break
        end
      end
    end,
  }
  for way, leave in pairs(ways) do
    inside(it, "are closed, and may wait, after a " .. way, function()
      local log = {}
      task.scope(function(scope)
        local t = scope:spawn(function()
          local _ <close> = closing(log, 0.01, "outer")
          local _ <close> = closing(log, 0.01, "inner")
          return leave()
        end)
        task.sleep(0.005)
        t:cancel()
        t:pawait()
      end)
      assert.same({ "inner", "outer" }, log)
    end)
  end

  inside(it, "are closed when a deadline ends them, with commands", function()
    facades.with_sandbox(portico, {}, function(sandbox)
      local text
      raises("TimeoutError", task.timeout, 0.05, function()
        local _ <close> = setmetatable({}, {
          __close = function()
            text = sandbox:output("echo cleaned")
          end,
        })
        never()
      end)
      assert.equal("cleaned", text)
    end)
  end)

  inside(it, "may wait in a function that their closing calls", function()
    local log = {}
    raises("TimeoutError", task.timeout, 0.02, function()
      local _ <close> = setmetatable({}, {
        __close = function()
          local wrap = require("portico.coroutine").wrap
          for i in wrap(function()
            task.sleep(0.01)
            coroutine.yield(1)
            task.sleep(0.01)
            coroutine.yield(2)
          end) do
            log[#log + 1] = i
          end
        end,
      })
      error((select(2, pcall(never))), 0)
    end)
    assert.same({ 1, 2 }, log)
  end)

  inside(it, "may give themselves time limits", function()
    local inner
    local function limited()
      return setmetatable({}, {
        __close = function()
          inner = raises("TimeoutError", task.timeout, 0.02, never)
        end,
      })
    end
    do
      local _ <close> = limited()
    end
    assert.truthy(inner)
    for _, leave in ipairs({ never, function()
      error((select(2, pcall(never))), 0)
    end }) do
      inner = nil
      local seconds = facades.timed(raises, "TimeoutError", task.scope,
        function()
          local _ <close> = limited()
          leave()
        end, { timeout = 0.02, grace = 60 })
      assert.is_true(seconds < 20, seconds)
      assert.truthy(inner)
    end
  end)

  -- Cancels a task that waits with a `<close>` variable of this function.
  local function cancel_closing(grace, fn)
    return task.scope(function(scope)
      local t = scope:spawn(function()
        local _ <close> = setmetatable({}, { __close = fn })
        never()
      end)
      task.checkpoint()
      t:cancel("enough")
      return select(2, t:pawait())
    end, { grace = grace })
  end

  inside(it, "may give themselves time limits in a task that was cancelled",
    function()
      local inner
      cancel_closing(60, function()
        inner = raises("TimeoutError", task.timeout, 0.02, never)
      end)
      assert.truthy(inner)
    end)

  inside(it, "may wait in tasks of their own", function()
    local log = {}
    local function note(what)
      return function()
        task.sleep(0.01)
        log[#log + 1] = what
      end
    end
    local err = cancel_closing(60, function()
      task.all({ note("all"), function()
        coroutine.wrap(function()
          task.scope(function(scope)
            scope:spawn(task.all, { note("deeper") })
          end)
        end)()
      end })
      note("after")()
    end)
    assert.equal("enough", err.message)
    assert.same({ "all", "deeper", "after" }, log)
  end)

  inside(it, "end their own tasks when the grace is over", function()
    local cut, deeper
    local seconds = facades.timed(cancel_closing, 0.05, function()
      cut = raises("CancelledError", task.all, { function()
        task.scope(function(scope)
          scope:spawn(function()
            deeper = raises("CancelledError", never)
            error(deeper, 0)
          end)
        end)
      end })
    end)
    assert.is_true(seconds < 20, seconds)
    assert.truthy(cut and deeper)
  end)

  inside(it, "do not excuse what they did not begin", function()
    local closed, other
    local began = task.event()
    local err = task.scope(function(scope)
      local t = scope:spawn(function()
        task.scope(function(inner)
          inner:spawn(function()
            began:set()
            other = raises("CancelledError", never)
          end)
          local _ <close> = setmetatable({}, {
            __close = function()
              raises("CancelledError", task.scope, function(own)
                own:spawn(never)
                task.checkpoint()
                own:cancel("by itself")
                never()
              end)
              task.sleep(0.01)
              closed = true
            end,
          })
          never()
        end)
      end)
      began:wait()
      t:cancel("enough")
      return select(2, t:pawait())
    end, { grace = 60 })
    assert.equal("enough", err.message)
    assert.truthy(closed and other)
  end)

  inside(it, "that never finish are cut when the grace is over", function()
    local cut
    local seconds = facades.timed(raises, "TimeoutError", task.scope,
      function()
        local _ <close> = setmetatable({}, {
          __close = function()
            cut = raises("CancelledError", never)
          end,
        })
        never()
      end, { timeout = 0.02, grace = 0.05 })
    assert.is_true(seconds > 0.06 and seconds < 5, seconds)
    assert.truthy(cut)
  end)

  inside(it, "that raise keep the first error's place, as in Lua", function()
    local ok, err = pcall(task.scope, function(scope)
      scope:spawn(function()
        local _ <close> = setmetatable({}, {
          __close = function()
            task.sleep(0)
            error("closing", 0)
          end,
        })
        error("body", 0)
      end)
    end)
    assert.same({ false, "closing" }, { ok, err })
  end)
end)

it("cancelled scopes leave nothing behind", nothing_left)
