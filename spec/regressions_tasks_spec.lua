-- Tasks that somebody else resumes, and readers and input functions that never
-- wait.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portico = require("portico")
local task = require("portico.task")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

local function collect(times)
  for _ = 1, times do
    collectgarbage()
  end
end

describe("a task that is resumed by somebody else", function()
  -- In the portico command nobody can: coroutine_spec.lua.
  local function it_ends(name, fn)
    it(name, function()
      if coroutine.resume == require("portico.coroutine").resume then
        pending("the stock library is not there")
      end
      fn()
    end)
  end

  -- Runs `body` as a task that another one resumes while it waits; the resume
  -- and run must tell, and run must still be usable.
  local function check(body)
    local thread, resumed
    local ok, err = pcall(portico.run, task.all, {
      function()
        thread = coroutine.running()
        body()
      end,
      function()
        portico.sleep(0.05)
        resumed = table.pack(coroutine.resume(thread, "bogus"))
        thread = nil
        -- What the dead task had is collected while its wait still goes on.
        for _ = 1, 10 do
          collect(1)
          portico.sleep(0.01)
        end
      end,
    })
    assert.is_false(resumed[2])
    assert.equal("PCO_ECOROUTINE", resumed[3].code)
    assert.is_false(ok)
    assert.equal("PCO_ECOROUTINE", err.code)
    assert.equal("x", portico.run(function()
      return facades.with_sandbox(portico, {}, function(sb)
        return sb:output("echo x")
      end)
    end))
  end

  it_ends("ends when it waits in sleep", function()
    check(function()
      portico.sleep(0.3)
    end)
  end)

  it_ends("ends when it waits in exec", function()
    check(function()
      local sb = portico.sandbox({ backend = "local" })
      sb:exec("echo hi; sleep 0.3; echo ho")
    end)
  end)

  it_ends("ends when it waits for others, and run waits for them", function()
    local thread, resumed, other
    local ok, err = pcall(portico.run, function()
      thread = coroutine.running()
      return task.all({
        function()
          portico.sleep(0.05)
          resumed = table.pack(coroutine.resume(thread))
          thread = nil
          collect(10)
          portico.sleep(0.05)
        end,
        function()
          pcall(portico.sleep, 0.3)
          other = "ended"
        end,
      })
    end)
    assert.is_false(ok)
    assert.equal("PCO_ECOROUTINE", err.code)
    assert.is_false(resumed[2])
    assert.equal("PCO_ECOROUTINE", resumed[3].code)
    assert.equal("ended", other)
    collect(10)
    assert.equal("ok", portico.run(function()
      portico.sleep(0.01)
      return "ok"
    end))
  end)
end)

describe("a task is not starved", function()
  -- Another task sleeps ten times, and then ends `body`, which gets a function
  -- that tells whether it may end.
  local function check(body)
    portico.run(function()
      facades.with_sandbox(portico, {}, function(sb)
        local over = false
        local results = task.all({
          function()
            body(sb, function() return over end)
          end,
          function()
            local start = env.now()
            for _ = 1, 10 do
              portico.sleep(0.01)
            end
            over = true
            return env.now() - start
          end,
        })
        assert.is_true(results[2] < 5 * env.SLOWER, results[2])
      end)
    end)
  end

  for _, reader in ipairs({ "lines", "chunks" }) do
    it("by a loop over " .. reader .. " of a fast command", function()
      check(function(sb, over)
        -- Its time limit ends the loop that starves.
        local p <close> = sb:spawn({ "yes" }, { timeout = 20 })
        local iterate, state, value, closer = p[reader](p)
        for _ in iterate, state, value, closer do
          if over() then
            break
          end
        end
        assert.is_true(over())
      end)
    end)
  end

  it("by an input function that gives nothing but \"\"", function()
    check(function(sb, over)
      local r = sb:exec({ "cat" }, {
        timeout = 20,
        input = function()
          return not over() and "" or nil
        end,
      })
      assert.equal(0, r.code)
      assert.is_true(over())
    end)
  end)
end)

describe("an input function that returns \"\"", function()
  on_each(it, "is asked again, and may give more", function(_, sb)
    local count = 0
    local r = sb:exec({ "cat" }, {
      input = function()
        count = count + 1
        return count < 1000 and "" or count < 1010 and "x" or nil
      end,
    })
    assert.same({ ("x"):rep(10), 1010 }, { r.stdout, count })
  end)

  on_each(it, "holds up neither the end nor the time limit", function(_, sb)
    local options = {
      input = function()
        return ""
      end,
    }
    assert.equal(3, sb:exec("exit 3", options).code)
    options.timeout = 0.2
    local seconds, err = facades.timed(raises, "TimeoutError", sb.exec, sb,
      { "sleep", "30" }, options)
    assert.equal("PCO_ETIMEDOUT", err.code)
    assert.is_true(seconds < 10)
  end)

  it("leaves nothing behind", nothing_left)
end)
