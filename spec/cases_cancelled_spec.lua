-- Situations 62 to 64 of the collection of cases: calls that are given up in
-- the middle: by a timeout in both facades, by the failure of a sibling in
-- tasks.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

-- Runs fn in a task that is cancelled after some seconds.
local function cancelled_after(P, seconds, fn)
  local stop = {}
  local ok, err = pcall(require("portico.task").all, {
    fn,
    function()
      P.sleep(seconds)
      error(stop)
    end,
  })
  assert.is_false(ok)
  assert.equal(stop, err)
end

describe("given up in the middle:", function()
  on_each(it, "case 62: a read that is given up takes nothing",
    function(_, sb)
      local p = sb:spawn("read x; echo first; read x; echo second",
        { stdin = "pipe" })
      raises("TimeoutError", p.read, p, { timeout = 0.05 })
      p:write("\n")
      p:wait_for({ output = "first\n" })
      raises("TimeoutError", p.wait, p, { timeout = 0.05 })
      raises("TimeoutError", p.wait_for, p, { output = "second" },
        { timeout = 0.05 })
      p:write("\n")
      -- wait has collected what nobody had read.
      assert.equal("first\nsecond\n", p:wait().stdout)
    end)

  on_each(it, "case 62: nor do many that come just when it does",
    function(_, sb)
      local p = sb:spawn("i=0; while [ $i -lt 300 ]; do echo line $i; "
        .. "i=$((i+1)); [ $((i%10)) = 0 ] && sleep 0.005; done")
      local parts, expected = {}, {}
      repeat
        local ok, chunk = pcall(p.read, p, { timeout = 0.001 })
        if ok and chunk then
          parts[#parts + 1] = chunk.data
        end
      until ok and not chunk
      for i = 0, 299 do
        expected[i + 1] = ("line %d\n"):format(i)
      end
      assert.equal(table.concat(expected), table.concat(parts))
    end)

  facades.in_task(it, "case 62: cancelled, not timed out", function(P, sb)
    local p = sb:spawn("read x; echo first; exec sleep 30", { stdin = "pipe" })
    cancelled_after(P, 0.05, function()
      p:read()
    end)
    cancelled_after(P, 0.05, function()
      for _ in p:lines() do
        error("there is none")
      end
    end)
    cancelled_after(P, 0.05, function()
      p:wait_for({ output = "first" })
    end)
    cancelled_after(P, 0.05, function()
      p:wait_for({ port = 9 })
    end)
    cancelled_after(P, 0.05, function()
      p:wait()
    end)
    p:write("\n")
    assert.equal("first\n", p:read().data)
    p:close()
  end)

  facades.in_task(it, "case 63: at every moment of the start",
    function(P, sb)
      for i = 1, 150 do
        cancelled_after(P, i % 10 * 0.0005, function()
          if i % 2 == 0 then
            sb:exec({ "sleep", "7904" }, { grace = 0 })
          else
            local p <close> = sb:spawn({ "sleep", "7904" }, { grace = 0 })
            p:wait()
          end
        end)
      end
      assert.is_true(env.eventually(10, function()
        return #env.pgrep({ "sleep", "7904" }) == 0
      end))
      assert.is_true(env.eventually(10, function()
        P.sleep(0.01)
        return #sb:processes() == 0
      end))
    end)

  on_each(it, "case 63: by the time limit of the command", function(_, sb)
    for i = 1, 60 do
      local err = raises("TimeoutError", sb.exec, sb, { "sleep", "7904" },
        { timeout = 0.0001 + i % 10 * 0.0005, grace = 0 })
      assert.equal("timeout", err.result.reason)
    end
    assert.same({}, env.pgrep({ "sleep", "7904" }))
  end)

  facades.everywhere(it, "case 64: a sandbox that comes late is undone",
    function(P, backend)
      local before = backends.first_processes()
      local given_up = 0
      for i = 1, 20 do
        local ok, sb = pcall(P.sandbox,
          { backend = backend.name, timeout = i % 10 * 0.001 })
        if ok then
          sb:close()
        else
          assert.equal("PCO_ECALLTIMEOUT", sb.code)
          given_up = given_up + 1
        end
      end
      assert.is_true(given_up > 0)
      assert.is_true(env.eventually(10, function()
        for pid in pairs(backends.first_processes()) do
          if not before[pid] then
            return false
          end
        end
        return true
      end))
    end)

  -- Many at once, each other one given up, after more and more turns: the first
  -- before it begins, the next in the turn in which it does. On a busy machine
  -- these may have been made by then.
  for _, backend in ipairs(backends.real) do
    backends.it(it, backend, "case 64: exactly the others live ["
      .. backend.name .. "]", function()
        local P, task = require("portico"), require("portico.task")
        local before = backends.first_processes()
        local function count()
          local n = 0
          for pid in pairs(backends.first_processes()) do
            n = n + (before[pid] and 0 or 1)
          end
          return n
        end
        P.run(function()
          local made, given_up = {}, 0
          task.scope(function(scope)
            for i = 1, 24 do
              local t = scope:spawn(function()
                local sb = P.sandbox({ backend = backend.name })
                made[#made + 1] = sb
              end)
              if i == 2 then
                t:cancel()
              end
              if i % 2 == 0 then
                scope:spawn(function()
                  for _ = 3, i // 2 do
                    task.checkpoint()
                  end
                  t:cancel()
                  local ok = t:pawait()
                  given_up = given_up + (ok and 0 or 1)
                end)
              end
            end
          end)
          assert.is_true(given_up > 0)
          assert.equal(24, #made + given_up)
          assert.is_true(env.eventually(20, function()
            return count() == #made
          end), count() .. " are there, not " .. #made)
          for i, sb in ipairs(made) do
            assert.equal(tostring(i), sb:output({ "echo", i }))
            sb:close()
          end
          assert.is_true(env.eventually(20, function()
            return count() == 0
          end))
        end)
      end)
  end

  it("leaves nothing behind", nothing_left)
end)
