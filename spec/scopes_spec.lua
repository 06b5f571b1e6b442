-- Scopes and their tasks: who ends when, which error is raised, who gets
-- results, and that nothing is lost.

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

describe("a scope", function()
  inside(it, "gives the results of its function, with holes", function()
    local results = table.pack(task.scope(function()
      return 1, nil, 3, nil
    end))
    assert.same({ 1, nil, 3, n = 4 }, results)
  end)

  inside(it, "ends after all its tasks", function()
    local order = {}
    task.scope(function(scope)
      for i = 3, 1, -1 do
        scope:spawn(function(seconds)
          task.sleep(seconds)
          order[#order + 1] = seconds
        end, i / 100)
      end
      order[#order + 1] = 0
    end)
    -- On a busy machine a later one may begin so late that it wakes last.
    assert.equal(0, table.remove(order, 1))
    table.sort(order)
    assert.same({ 0.01, 0.02, 0.03 }, order)
  end)

  inside(it, "starts a task at the next wait, not at once", function()
    task.scope(function(scope)
      local started = false
      local t = scope:spawn(function() started = true end)
      assert.is_false(started)
      assert.equal("new", t:status())
      task.checkpoint()
      assert.is_true(started)
      assert.equal("done", t:status())
    end)
  end)

  inside(it, "raises the first failure, the same object, and cancels the rest",
    function()
      for _, object in ipairs({ { "mine" }, "text", 5, false }) do
        local seen
        local ok, err = pcall(task.scope, function(scope)
          scope:spawn(function()
            seen = raises("CancelledError", never)
            -- Level-triggered: a pcall does not swallow it.
            raises("CancelledError", task.sleep, 0)
            raises("CancelledError", task.checkpoint)
          end)
          scope:spawn(function()
            task.sleep(0.01)
            error(object, 0)
          end)
          never()
        end)
        assert.is_false(ok)
        assert.is_true(rawequal(object, err))
        assert.truthy(seen.message:find("another task of its scope failed"))
      end
    end)

  inside(it, "raises nil when that is what a task raised", function()
    local result = table.pack(pcall(task.scope, function(scope)
      scope:spawn(function() error() end)
    end))
    assert.same({ false, nil, n = 2 }, result)
  end)

  inside(it, "raises a failure of its function, after the tasks have ended",
    function()
      local ended = false
      local ok, err = pcall(task.scope, function(scope)
        scope:spawn(function()
          raises("CancelledError", never)
          ended = true
        end)
        task.checkpoint()
        error("body", 0)
      end)
      assert.same({ false, "body", true }, { ok, err, ended })
    end)

  inside(it,
    "keeps class, cause and traceback, and has the others under others",
    function()
      local function fail(text)
        error(errors.new(errors.LimitError, {
          message = text, code = "PCO_ELIMIT",
          cause = errors.new(errors.SystemError, { message = "below" }),
        }), 0)
      end
      local err = raises("LimitError", task.scope, function(scope)
        for i = 1, 3 do
          scope:spawn(function()
            pcall(task.sleep, i == 1 and 0.01 or 60)
            fail("failure " .. i)
          end)
        end
        pcall(never)
        error("a string", 0)
      end)
      assert.equal("failure 1", err.message)
      assert.equal("below", err.cause.message)
      assert.truthy(err.traceback:find("stack traceback"))
      assert.equal(3, #err.others)
      assert.equal("failure 2", err.others[1].message == "failure 2"
        and "failure 2" or err.others[2].message)
      local all = tostring(err)
      assert.truthy(all:find("failure 3", 1, true), all)
      assert.truthy(all:find("a string", 1, true), all)
    end)

  inside(it, "keeps the others that it has from a scope further in", function()
    local function failing(name)
      return setmetatable({}, {
        __close = function()
          error(errors.new(errors.SystemError, { message = name }), 0)
        end,
      })
    end
    local function wait_with(name)
      local _ <close> = failing(name)
      never()
    end
    local err = raises("SystemError", task.scope, function(outer)
      outer:spawn(wait_with, "outside")
      task.scope(function(inner)
        inner:spawn(wait_with, "inside")
        task.checkpoint()
        local _ <close> = failing("first")
      end)
    end)
    assert.equal("first", err.message)
    assert.same({ 2, "inside", "outside" },
      { #err.others, err.others[1].message, err.others[2].message })
  end)

  inside(it, "tells of a thousand others in few lines", function()
    local many = env.amount(1000)
    local err = raises("LimitError", task.scope, function(scope)
      for i = 1, many do
        scope:spawn(function()
          pcall(never)
          error(errors.new(errors.SystemError, { message = "number " .. i }), 0)
        end)
      end
      task.checkpoint()
      error(errors.new(errors.LimitError, { message = "one" }), 0)
    end)
    assert.equal(many, #err.others)
    assert.is_true(#tostring(err) < 2000)
    assert.truthy(tostring(err):find(("and %d more"):format(many - 16), 1,
      true))
  end)

  inside(it, "does not collect cancellations", function()
    local err = raises("LimitError", task.scope, function(scope)
      for _ = 1, 5 do
        scope:spawn(never)
      end
      task.sleep(0.01)
      error(errors.new(errors.LimitError, { message = "one" }), 0)
    end)
    assert.is_nil(err.others)
  end)

  inside(it, "does not list an awaited failure a second time", function()
    local object = errors.new(errors.LimitError, { message = "once" })
    local ok, err = pcall(task.scope, function(scope)
      scope:spawn(function() error(object, 0) end):await()
    end)
    assert.is_false(ok)
    assert.is_true(rawequal(object, err))
    assert.is_nil(err.others)
  end)

  it("tells the logger what no error could carry", function()
    local told = {}
    portico.set_logger(function(record)
      told[#told + 1] = record.message
    end)
    portico.run(function()
      local ok, err = pcall(task.scope, function(scope)
        scope:spawn(function()
          pcall(never)
          error("second", 0)
        end)
        scope:spawn(function()
          pcall(never)
          error(errors.new("LimitError", { message = "third" }), 0)
        end)
        task.checkpoint()
        error("first", 0)
      end)
      assert.same({ false, "first" }, { ok, err })
      task.sleep(0)
    end)
    portico.set_logger(nil)
    local all = table.concat(told, "\n")
    assert.truthy(all:find("second", 1, true))
    assert.truthy(all:find("LimitError: third", 1, true), all)
  end)

  inside(it, "can be nested, and tasks may open scopes", function()
    local depth = 0
    local function nest(n)
      task.scope(function(scope)
        if n > 0 then
          scope:spawn(nest, n - 1)
        else
          task.sleep(0.01)
        end
        depth = depth + 1
      end)
    end
    nest(200)
    assert.equal(201, depth)
  end)

  inside(it, "can be opened 200 deep in one task", function()
    local function nest(n)
      task.checkpoint()
      return n == 0 and "there" or task.scope(function()
        return nest(n - 1)
      end)
    end
    assert.equal("there", nest(200))
  end)

  inside(it, "opened without end is an error of Lua", function()
    local function nest()
      return task.scope(nest)
    end
    local ok, err = pcall(nest)
    assert.is_false(ok)
    assert.truthy(err:find("stack overflow"), err)
    task.checkpoint()
  end)

  inside(it, "cannot be used when it has ended", function()
    local scope
    task.scope(function(s) scope = s end)
    local err = raises("UsageError", scope.spawn, scope, print)
    assert.equal("PCO_ESCOPE", err.code)
    assert.is_false(scope:cancel())
    assert.truthy(tostring(scope):find("ended"))
  end)

  inside(it, "takes tasks while it waits for others", function()
    local ran = 0
    task.scope(function(scope)
      scope:spawn(function()
        task.sleep(0.01)
        scope:spawn(function()
          task.sleep(0.01)
          ran = ran + 1
        end)
      end)
    end)
    assert.equal(1, ran)
  end)

  inside(it, "checks its arguments", function()
    raises("InvalidArgumentError", task.scope)
    raises("InvalidArgumentError", task.scope, 5)
    raises("InvalidArgumentError", task.scope, print, { timout = 1 })
    raises("InvalidArgumentError", task.scope, print, { timeout = -1 })
    raises("InvalidArgumentError", task.scope, print, { deadline = "x" })
    raises("InvalidArgumentError", task.scope, print, { deadline = 0 / 0 })
    raises("InvalidArgumentError", task.scope, print, { name = 5 })
    raises("InvalidArgumentError", task.scope, print, { grace = 0 / 0 })
    task.scope(function(scope)
      local err = raises("InvalidArgumentError", scope.spawn, scope)
      assert.truthy(err.message:find("give the function itself", 1, true))
      assert.equal("PCO_EDOT", raises("UsageError", scope.spawn, print).code)
      local t = scope:spawn(function() end)
      assert.equal("PCO_EDOT", raises("UsageError", t.await).code)
      assert.equal("PCO_EDOT", raises("UsageError", t.await, {}).code)
      assert.equal("PCO_EDOT", raises("UsageError", t.await, scope).code)
      raises("InvalidArgumentError", function() t.nam = "x" end)
      raises("InvalidArgumentError", function() t.name = 5 end)
    end)
  end)
end)


describe("await", function()
  inside(it, "gives the results, to many and again", function()
    task.scope(function(scope)
      local t = scope:spawn(function()
        task.sleep(0.01)
        return 1, nil, 3
      end)
      local got = task.all({
        function() return table.pack(t:await()) end,
        function() return table.pack(t:pawait()) end,
      })
      assert.same({ 1, nil, 3, n = 3 }, got[1])
      assert.same({ true, 1, nil, 3, n = 4 }, got[2])
      assert.same({ 1, nil, 3, n = 3 }, table.pack(t:await()))
    end)
  end)

  inside(it, "pawait takes care of a failure", function()
    local object = { "mine" }
    assert.equal("went on", task.scope(function(scope)
      local t = scope:spawn(function()
        task.sleep(0.01)
        error(object)
      end)
      local ok, err = t:pawait()
      assert.is_false(ok)
      assert.is_true(rawequal(object, err))
      assert.equal("failed", t:status())
      task.sleep(0.01)
      return "went on"
    end))
  end)

  inside(it,
    "caught by pcall does not hide a failure from the scope", function()
    local ok, err = pcall(task.scope, function(scope)
      local t = scope:spawn(function() error("x", 0) end)
      assert.same({ false, "x" }, { pcall(t.await, t) })
      task.sleep(60)
    end)
    assert.same({ false, "x" }, { ok, err })
  end)

  inside(it, "of oneself, or of who waits for one, is refused", function()
    local err = raises("DeadlockError", function()
      task.current():await()
    end)
    assert.truthy(err.message:find("itself"))
    local root = task.current()
    task.scope(function(scope)
      scope:spawn(function()
        raises("DeadlockError", root.await, root)
      end)
      local a, b
      a = scope:spawn(function() b:await() end)
      b = scope:spawn(function()
        task.sleep(0.01)
        raises("DeadlockError", a.await, a)
      end)
      assert.same({}, { a:await() })
    end)
  end)

  inside(it, "outside of the scope gives what the task left", function()
    local kept
    task.scope(function(scope)
      kept = scope:spawn(function() return 7 end)
    end)
    assert.equal(7, kept:await())
  end)
end)

describe("first", function()
  inside(it, "gives the results of the first that succeeds", function()
    local cancelled
    local a, b = task.first({
      function()
        cancelled = raises("CancelledError", task.sleep, 60)
      end,
      function() error("never mind", 0) end,
      function()
        task.sleep(0.02)
        return "a", "b"
      end,
    })
    assert.same({ "a", "b" }, { a, b })
    assert.truthy(cancelled)
  end)

  inside(it, "raises the first failure when all fail", function()
    local err = raises("LimitError", task.first, {
      function()
        task.sleep(0.02)
        error(errors.new(errors.SystemError, { message = "second" }), 0)
      end,
      function()
        error(errors.new(errors.LimitError, { message = "first" }), 0)
      end,
    })
    assert.equal("second", err.others[1].message)
    raises("InvalidArgumentError", task.first, {})
    raises("InvalidArgumentError", task.first, { 5 })
  end)

  inside(it, "is cancelled with what it is in", function()
    raises("TimeoutError", task.timeout, 0.02, task.first, { never, never })
    raises("TimeoutError", task.timeout, 0.02, task.all, { never, never })
  end)
end)

it("scopes leave nothing behind", nothing_left)
