-- Scopes and tasks: who ends when, which error is raised, what cancellation
-- does, and that nothing is lost.

local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portico = require("portico")
local task = require("portico.task")

local nothing_left = leaks.frame(256) -- tens of thousands of tasks
local raises = facades.raises

-- A test in a task; whatever it spawns must end in good time.
local function inside(name, fn)
  it(name, function()
    local seconds = facades.timed(portico.run, fn)
    assert.is_true(seconds < 30, seconds)
  end)
end

local function never()
  task.event():wait()
end

describe("a scope", function()
  inside("gives the results of its function, with holes", function()
    local results = table.pack(task.scope(function()
      return 1, nil, 3, nil
    end))
    assert.same({ 1, nil, 3, n = 4 }, results)
  end)

  inside("ends after all its tasks", function()
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
    assert.same({ 0, 0.01, 0.02, 0.03 }, order)
  end)

  inside("starts a task at the next wait, not at once", function()
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

  inside("raises the first failure, the same object, and cancels the rest",
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

  inside("raises nil when that is what a task raised", function()
    local result = table.pack(pcall(task.scope, function(scope)
      scope:spawn(function() error() end)
    end))
    assert.same({ false, nil, n = 2 }, result)
  end)

  inside("raises a failure of its function, after the tasks have ended",
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

  inside("keeps class, cause and traceback, and has the others under others",
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

  inside("tells of a thousand others in few lines", function()
    local err = raises("LimitError", task.scope, function(scope)
      for i = 1, 1000 do
        scope:spawn(function()
          pcall(never)
          error(errors.new(errors.SystemError, { message = "number " .. i }), 0)
        end)
      end
      task.checkpoint()
      error(errors.new(errors.LimitError, { message = "one" }), 0)
    end)
    assert.equal(1000, #err.others)
    assert.is_true(#tostring(err) < 2000)
    assert.truthy(tostring(err):find("and 984 more", 1, true))
  end)

  inside("does not collect cancellations", function()
    local err = raises("LimitError", task.scope, function(scope)
      for _ = 1, 5 do
        scope:spawn(never)
      end
      task.sleep(0.01)
      error(errors.new(errors.LimitError, { message = "one" }), 0)
    end)
    assert.is_nil(err.others)
  end)

  inside("does not list an awaited failure a second time", function()
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
        task.checkpoint()
        error("first", 0)
      end)
      assert.same({ false, "first" }, { ok, err })
      task.sleep(0)
    end)
    portico.set_logger(nil)
    assert.truthy(table.concat(told, "\n"):find("second", 1, true))
  end)

  inside("can be nested, and tasks may open scopes", function()
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

  inside("can be opened 200 deep in one task", function()
    local function nest(n)
      task.checkpoint()
      return n == 0 and "there" or task.scope(function()
        return nest(n - 1)
      end)
    end
    assert.equal("there", nest(200))
  end)

  inside("opened without end is an error of Lua", function()
    local function nest()
      return task.scope(nest)
    end
    local ok, err = pcall(nest)
    assert.is_false(ok)
    assert.truthy(err:find("stack overflow"), err)
    task.checkpoint()
  end)

  inside("cannot be used when it has ended", function()
    local scope
    task.scope(function(s) scope = s end)
    local err = raises("UsageError", scope.spawn, scope, print)
    assert.equal("PCO_ESCOPE", err.code)
    assert.is_false(scope:cancel())
    assert.truthy(tostring(scope):find("ended"))
  end)

  inside("takes tasks while it waits for others", function()
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

  inside("checks its arguments", function()
    raises("InvalidArgumentError", task.scope)
    raises("InvalidArgumentError", task.scope, 5)
    raises("InvalidArgumentError", task.scope, print, { timout = 1 })
    raises("InvalidArgumentError", task.scope, print, { timeout = -1 })
    raises("InvalidArgumentError", task.scope, print, { deadline = "x" })
    raises("InvalidArgumentError", task.scope, print, { deadline = 0 / 0 })
    raises("InvalidArgumentError", task.scope, print, { name = 5 })
    raises("InvalidArgumentError", task.scope, print, { grace = 0 / 0 })
    task.scope(function(scope)
      raises("InvalidArgumentError", scope.spawn, scope)
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

describe("cancelling", function()
  inside("a scope ends its function and its tasks", function()
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

  inside("a scope keeps the results that its function has", function()
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

  inside("gives an error as the reason as cause", function()
    local cause = errors.new(errors.LimitError, { message = "why" })
    local err = raises("CancelledError", task.scope, function(scope)
      scope:cancel(cause)
      task.sleep(0)
    end)
    assert.is_true(rawequal(cause, err.cause))
    assert.is_true(rawequal(cause, err.reason))
  end)

  inside("a task ends it alone", function()
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

  inside("a task before it began keeps it from beginning", function()
    local ran = false
    task.scope(function(scope)
      local t = scope:spawn(function() ran = true end)
      t:cancel()
      assert.is_false(t:pawait())
    end)
    assert.is_false(ran)
  end)

  inside("loses against a result that is there", function()
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

  inside("beats a deadline", function()
    -- It has passed, and nobody has heard of it yet.
    local err = raises("CancelledError", task.scope, function(scope)
      local stop = task.now() + 0.02
      repeat until task.now() > stop
      scope:cancel("by hand")
      never()
    end, { timeout = 0.01 })
    assert.equal("by hand", err.message)
  end)

  inside("itself is raised by the next wait", function()
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

  inside("reaches through scopes and tasks of tasks", function()
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

  inside("ends a loop that only catches errors", function()
    local err = raises("TimeoutError", task.timeout, 0.05, function()
      while true do
        pcall(task.sleep, 1)
      end
    end)
    assert.equal("PCO_ECALLTIMEOUT", err.code)
  end)
end)

describe("a deadline", function()
  inside("raises TimeoutError, caused by the cancellation", function()
    local err = raises("TimeoutError", task.timeout, 0.02, never)
    assert.same({ "PCO_ECALLTIMEOUT", "task.timeout" },
      { err.code, err.operation })
    assert.is_true(errors.is(err.cause, "CancelledError"))
  end)

  inside("gives results and takes arguments", function()
    assert.same({ 1, nil, 3, n = 3 }, table.pack(
      task.timeout(5, function(...) return ... end, 1, nil, 3)))
    assert.equal(1, task.timeout(math.huge, function() return 1 end))
  end)

  inside("loses against a result", function()
    assert.equal("result", task.timeout(0.01, function()
      pcall(task.sleep, 60)
      return "result"
    end))
  end)

  inside("of the outer scope is the outer scope's", function()
    local inner
    local err = raises("TimeoutError", task.timeout, 0.02, function()
      inner = raises("CancelledError", task.timeout, 5, never)
      error(inner, 0)
    end)
    assert.is_true(rawequal(inner, err.cause))
  end)

  inside("is a time of now()", function()
    local seconds = facades.timed(raises, "TimeoutError", task.scope, never,
      { deadline = task.now() + 0.05 })
    assert.is_true(seconds > 0.04)
    raises("TimeoutError", task.scope, never, { deadline = task.now() - 1 })
  end)

  inside("also ends tasks when the function has its result", function()
    raises("TimeoutError", task.scope, function(scope)
      scope:spawn(never)
      return 1
    end, { timeout = 0.02 })
  end)

  inside("checks its arguments", function()
    for _, bad in ipairs({ "x", -1, 0 / 0, {} }) do
      raises("InvalidArgumentError", task.timeout, bad, print)
    end
    raises("InvalidArgumentError", task.timeout, 1)
    raises("InvalidArgumentError", task.timeout, nil, print)
  end)
end)

describe("a shield", function()
  inside("keeps cancellation out until it ends", function()
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

  inside("lets its own deadline through", function()
    raises("TimeoutError", task.scope, never, { shield = true, timeout = 0.02 })
  end)

  inside("can be opened by a cancelled task", function()
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
    inside("are closed, and may wait, after a " .. way, function()
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

  inside("are closed when a deadline ends them, with commands", function()
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

  inside("may wait in a function that their closing calls", function()
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

  inside("may give themselves time limits", function()
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

  inside("that never finish are cut when the grace is over", function()
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

  inside("that raise keep the first error's place, as in Lua", function()
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

describe("await", function()
  inside("gives the results, to many and again", function()
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

  inside("pawait takes care of a failure", function()
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

  inside("caught by pcall does not hide a failure from the scope", function()
    local ok, err = pcall(task.scope, function(scope)
      local t = scope:spawn(function() error("x", 0) end)
      assert.same({ false, "x" }, { pcall(t.await, t) })
      task.sleep(60)
    end)
    assert.same({ false, "x" }, { ok, err })
  end)

  inside("of oneself, or of who waits for one, is refused", function()
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

  inside("outside of the scope gives what the task left", function()
    local kept
    task.scope(function(scope)
      kept = scope:spawn(function() return 7 end)
    end)
    assert.equal(7, kept:await())
  end)
end)

describe("first", function()
  inside("gives the results of the first that succeeds", function()
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

  inside("raises the first failure when all fail", function()
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

  inside("is cancelled with what it is in", function()
    raises("TimeoutError", task.timeout, 0.02, task.first, { never, never })
    raises("TimeoutError", task.timeout, 0.02, task.all, { never, never })
  end)
end)

describe("tasks", function()
  inside("lists who waits for what, as a tree", function()
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
      assert.truthy(list[2].where:find("scopes_spec.lua:%d+"))
      assert.truthy(list[2].spawned:find("scopes_spec.lua:%d+"))
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
      "scopes_spec.lua:%d+", "since %d", "spawned at",
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
  inside("such as running out of memory are the task's", function()
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

  inside("in a traceback handler are as in Lua", function()
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

it("scopes leave nothing behind", nothing_left)
