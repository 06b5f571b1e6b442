-- What only the async facade has: run, tasks, where a wait may stand.

local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portico = require("portico")
local task = require("portico.task")

local nothing_left = leaks.frame()
local in_task, raises = facades.in_task, facades.raises

describe("run", function()
  it("returns the results, with their holes", function()
    local results = table.pack(portico.run(function(...)
      portico.sleep(0)
      return ...
    end, 1, nil, 2.0, nil))
    assert.equal(4, results.n)
    assert.equal(1, results[1])
    assert.equal("float", math.type(results[3]))
  end)

  it("raises the error of its function, the same object", function()
    for _, value in ipairs({ "text", { "mine" }, 5, false }) do
      local ok, err = pcall(portico.run, function()
        portico.sleep(0)
        error(value, 0)
      end)
      assert.is_false(ok)
      assert.is_true(rawequal(value, err))
    end
  end)

  it("just calls its function inside a task", function()
    portico.run(function()
      local outer = coroutine.running()
      portico.run(function()
        assert.equal(outer, coroutine.running())
        portico.sleep(0)
      end)
    end)
  end)

  it("can be called again, and needs no sandbox", function()
    for i = 1, 100 do
      assert.equal(i, portico.run(function()
        return i
      end))
    end
  end)

  it("ends at once when nothing is left to do", function()
    local seconds = facades.timed(portico.run, function()
      facades.with_sandbox(portico, {}, function(sb)
        assert.equal(0, sb:exec({ "true" }, { timeout = 30, grace = 10 }).code)
      end)
    end)
    assert.is_true(seconds < 9, seconds)
  end)

  it("lets a sandbox live from one run to the next", function()
    local sb = portico.run(portico.sandbox, { backend = "local" })
    assert.equal("x", portico.run(sb.output, sb, { "echo", "x" }))
    assert.is_true(sb:close())
  end)
end)

describe("a wait", function()
  local function refused(code, fn, ...)
    local err = raises("UsageError", fn, ...)
    assert.equal(code, err.code, tostring(err))
    return err
  end

  it("outside of run is refused, and says what to write", function()
    local err = refused("PCO_ENOTASK", portico.sleep, 0)
    assert.truthy(err.message:find("run", 1, true))
  end)

  it("inside sort, gsub, tostring is refused, and works after", function()
    portico.run(function()
      refused("PCO_ENOYIELD", table.sort, { 1, 2 }, function()
        portico.sleep(0)
      end)
      refused("PCO_ENOYIELD", string.gsub, "a", "a", function()
        portico.sleep(0)
      end)
      refused("PCO_ENOYIELD", tostring, setmetatable({}, {
        __tostring = function()
          portico.sleep(0)
        end,
      }))
      portico.sleep(0)
    end)
  end)

  it("inside a stock coroutine is refused, and works after", function()
    portico.run(function()
      refused("PCO_ECOROUTINE", coroutine.wrap(function()
        portico.sleep(0)
      end))
      local values = {}
      for value in coroutine.wrap(function()
        coroutine.yield(1)
        coroutine.yield(2)
      end) do
        values[#values + 1] = value
      end
      assert.same({ 1, 2 }, values)
      portico.sleep(0)
    end)
  end)

  it("works in pcall, metamethods, iterators and close", function()
    portico.run(function()
      facades.with_sandbox(portico, {}, function(sb)
        local function echo(text)
          return sb:output({ "echo", text })
        end
        local ok, text = pcall(echo, "a")
        assert.same({ true, "a" }, { ok, text })
        ok, text = xpcall(echo, debug.traceback, "b")
        assert.same({ true, "b" }, { ok, text })
        local magic = setmetatable({}, {
          __index = function(_, key)
            return echo(key)
          end,
          __add = function()
            return echo("sum")
          end,
        })
        assert.equal("key", magic.key)
        assert.equal("sum", magic + 1)
        local closed
        do
          local _ <close> = setmetatable({}, {
            __close = function()
              closed = echo("closed")
            end,
          })
        end
        assert.equal("closed", closed)
        pcall(function()
          local _ <close> = setmetatable({}, {
            __close = function()
              closed = echo("after an error")
            end,
          })
          error("x")
        end)
        assert.equal("after an error", closed)
      end)
    end)
  end)

  it("is not ended by a foreign resume", function()
    local thread, got
    local ok, err = pcall(portico.run, task.all, {
      function()
        thread = coroutine.running()
        got = table.pack(pcall(portico.sleep, 0.3))
      end,
      function()
        portico.sleep(0.05)
        return coroutine.resume(thread, "bogus")
      end,
    })
    -- Nobody may take "bogus" for a result, and it does not go unsaid.
    assert.is_false(got[1])
    assert.equal("PCO_ECOROUTINE", got[2].code)
    assert.is_false(ok)
    assert.equal("PCO_ECOROUTINE", err.code)
    assert.equal(1, portico.run(function()
      portico.sleep(0)
      return 1
    end))
  end)
end)

describe("sleep", function()
  it("ends when its time is over, not with the next event", function()
    local seconds = facades.timed(portico.run, function()
      for _ = 1, 10 do
        portico.sleep(0.01)
      end
    end)
    assert.is_true(seconds > 0.09 and seconds < 10, seconds)
  end)
end)

describe("all", function()
  it("runs at the same time, and keeps the order", function()
    local ended = {}
    local function ends(i)
      ended[#ended + 1] = i
      return i
    end
    local results = portico.run(task.all, {
      function() portico.sleep(0.4) return ends(1) end,
      function() portico.sleep(0.2) return ends(2) end,
      function() return ends(3) end,
    })
    assert.same({ 1, 2, 3 }, results)
    assert.same({ 3, 2, 1 }, ended)
  end)

  it("takes an empty list, and checks its argument", function()
    portico.run(function()
      assert.same({}, task.all({}))
      raises("InvalidArgumentError", task.all)
      raises("InvalidArgumentError", task.all, 5)
      raises("InvalidArgumentError", task.all, { 5 })
      raises("InvalidArgumentError", task.all, { function() end, x = 1 })
    end)
  end)

  it("cancels the others when one fails, and waits for them", function()
    local object, ended = { "mine" }, nil
    local seconds = facades.timed(function()
      local ok, err = pcall(portico.run, task.all, {
        function()
          portico.sleep(0.1)
          error(object)
        end,
        function()
          local ok, err = pcall(portico.sleep, 30)
          ended = { ok, errors.is(err, "CancelledError"), err.code }
          -- Cancelled once, cancelled at every wait.
          raises("CancelledError", portico.sleep, 30)
        end,
      })
      assert.is_false(ok)
      assert.is_true(rawequal(object, err))
    end)
    assert.same({ false, true, "PCO_ECANCELED" }, ended)
    assert.is_true(seconds < 20, seconds)
  end)

  in_task(it, "ends many commands that are cancelled as they end",
    function(_, sb)
      for _ = 1, 20 do
        local jobs = {}
        for i = 1, 20 do
          jobs[i] = function()
            sb:exec({ "true" })
            assert(i ~= 7, "stop")
          end
        end
        assert.is_false(pcall(task.all, jobs))
      end
      assert.same({}, sb:processes())
    end)

  in_task(it, "kills a cancelled command", function(P, sb)
    local argv = { "sleep", "271829.5" }
    local ok, err = pcall(task.all, {
      function()
        sb:exec(argv)
      end,
      function()
        P.sleep(0.2)
        assert.equal(1, #env.pgrep(argv))
        error("stop", 0)
      end,
    })
    assert.same({ false, "stop" }, { ok, err })
    assert.same({}, env.pgrep(argv))
    assert.equal("x", sb:output("echo x"))
  end)

  in_task(it, "shares a wait among tasks", function(_, sb)
    local p = sb:spawn("sleep 0.2; exit 3")
    local results = task.all({
      function() return p:wait() end,
      function() return p:wait() end,
      function() return p:wait() end,
    })
    assert.equal(3, results[1].code)
    assert.is_true(rawequal(results[1], results[2]))
    assert.is_true(rawequal(results[1], results[3]))
  end)

  in_task(it, "ends calls that wait when their sandbox is closed",
    function(P, sb)
      local results = task.all({
        function()
          return raises("ClosedError", sb.exec, sb, { "sleep", "30" }).code
        end,
        function()
          P.sleep(0.2)
          return sb:close()
        end,
      })
      assert.same({ "PCO_ECLOSED", true }, results)
    end)

  in_task(it, "is fair: a busy stream does not starve a timer", function(P, sb)
    local p <close> = sb:spawn({ "yes" })
    local stop = false
    local results = task.all({
      function()
        local count = 0
        while not stop do
          count = count + #p:read().data
        end
        return count
      end,
      function()
        local start = env.now()
        for _ = 1, 10 do
          P.sleep(0.01)
        end
        stop = true
        return env.now() - start
      end,
    })
    assert.is_true(results[1] > 0)
    assert.is_true(results[2] < 3, results[2])
  end)

  it("leaves nothing behind", nothing_left)
end)
