-- Every op can be cancelled: its task goes on at once, what it did is undone or
-- told, and the object that it was about can be used on.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portico = require("portico")
local task = require("portico.task")

local nothing_left = leaks.frame()
local in_task, raises = facades.in_task, facades.raises

-- Runs fn in a task and cancels that after so many seconds; returns the error.
local function cancelled(seconds, fn, ...)
  local args = table.pack(...)
  return task.scope(function(scope)
    local t = scope:spawn(function()
      return fn(table.unpack(args, 1, args.n))
    end)
    task.sleep(seconds)
    t:cancel("not needed")
    local ok, err = t:pawait()
    assert.is_false(ok)
    assert.is_true(errors.is(err, "CancelledError"), tostring(err))
    assert.equal("not needed", err.reason)
    assert.equal("not needed", err.message:sub(1, 10))
    return err
  end)
end

describe("cancelling", function()
  in_task(it, "exec kills the tree and carries the partial result",
    function(_, sandbox)
      local argv = { "sleep", "271831.5" }
      local err = cancelled(0.3, sandbox.exec, sandbox,
        "echo so far; sleep 271831.5 & sleep 271831.5")
      assert.equal("so far\n", err.result.stdout)
      assert.equal("killed", err.result.reason)
      assert.same({}, env.pgrep(argv))
      assert.equal("x", sandbox:output("echo x"))
    end)

  -- Cases 7, 8 and 13: who left the group, the session or the parent, and holds
  -- the pipes.
  in_task(it, "exec reaches those who left their parent", function(_, sandbox)
    local err = cancelled(0.5, sandbox.exec, sandbox, [[
      (setsid sleep 271835.5 &)
      (trap '' TERM HUP; sleep 271835.5 & exec sleep 271835.5) &
      echo up
      wait
    ]], { grace = 0.1 })
    assert.equal("up\n", err.result.stdout)
    assert.same({}, err.result.survivors or {})
    assert.same({}, env.pgrep({ "sleep", "271835.5" }))
    assert.equal("x", sandbox:output("echo x"))
  end)

  in_task(it, "exec waits for its end, within the grace",
    function(_, sandbox)
      local err = cancelled(0.3, sandbox.exec, sandbox,
        "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done",
        { grace = 5 })
      assert.equal("up\nbye\n", err.result.stdout)
      local seconds = facades.timed(cancelled, 0.3, sandbox.exec, sandbox,
        "trap '' TERM; while :; do sleep 0.01; done", { grace = 0.2 })
      assert.is_true(seconds < 20, seconds)
    end)

  in_task(it, "a read loses no byte", function(_, sandbox)
    local p <close> = sandbox:spawn("read x; echo $x", { stdin = "pipe" })
    cancelled(0.05, p.read, p)
    cancelled(0.05, function()
      for _ in p:lines() do
        error("there is nothing yet")
      end
    end)
    p:write("text\n")
    assert.equal("text\n", p:read().data)
    assert.equal(0, p:wait().code)
  end)

  in_task(it, "a write tells how much was taken", function(_, sandbox)
    local p <close> = sandbox:spawn("sleep 30", { stdin = "pipe" })
    local err = cancelled(0.1, p.write, p, ("x"):rep(1 << 20))
    assert.is_true(err.written > 0 and err.written < 1 << 20)
  end)

  in_task(it, "a wait leaves the command", function(_, sandbox)
    local p <close> = sandbox:spawn("read x; exit 7", { stdin = "pipe" })
    cancelled(0.05, p.wait, p)
    p:write("\n")
    assert.equal(7, p:wait().code)
  end)

  in_task(it, "spawn, files and info leave the sandbox usable",
    function(_, sandbox)
      for i = 1, 30 do
        task.scope(function(scope)
          local jobs = {
            function()
              local p <close> = sandbox:spawn({ "sleep", "271832.5" })
              p:wait()
            end,
            function()
              sandbox.fs:write("f" .. i, ("y"):rep(1 << 16))
              assert.equal(1 << 16, #sandbox.fs:read("f" .. i))
            end,
            function() sandbox.fs:list(".") end,
            function() sandbox:info() end,
          }
          for _, job in ipairs(jobs) do
            local t = scope:spawn(job)
            scope:spawn(function()
              if i % 3 > 0 then
                task.sleep(i % 5 * 0.001)
              end
              t:cancel()
              t:pawait()
            end)
          end
        end)
      end
      -- A spawn that is cancelled waits for the end of what it started.
      assert.same({}, env.pgrep({ "sleep", "271832.5" }))
      assert.same({}, sandbox:processes())
      -- What a cancelled write had begun is removed soon.
      local function has_begun()
        for _, entry in ipairs(sandbox.fs:list(".")) do
          if entry.name:find("^%.portico%-") then
            return true
          end
        end
      end
      task.timeout(10, function()
        while has_begun() do
          task.sleep(0.01)
        end
      end)
      for _, entry in ipairs(sandbox.fs:list(".")) do
        assert.truthy(entry.name:find("^f%d+$"), entry.name)
        assert.equal(1 << 16, entry.size)
      end
    end)

  in_task(it, "spawn tells what was started, and that it was killed",
    function(_, sandbox)
      local started
      for i = 0, 200 do
        task.scope(function(scope)
          local t = scope:spawn(sandbox.spawn, sandbox,
            { "sleep", "271834.5" })
          -- Runs of the loop later: before, while and after it is started.
          for _ = 1, i % 20 do
            task.checkpoint()
          end
          t:cancel("not needed")
          local ok, result = t:pawait()
          if ok then
            result:close()
          else
            assert.equal("not needed", result.reason)
          end
          started = started or not ok and result.result
        end)
        assert.same({}, env.pgrep({ "sleep", "271834.5" }))
        if started then
          break
        end
      end
      assert.equal("killed", started.reason)
      assert.equal("SIGKILL", started.signal)
    end)

  -- The loop turns while a sandbox is made; it is cancelled after none of these
  -- turns, a fortieth, two fortieths, ... The cancelled call waits until all is
  -- undone; what else would be left is found by the last test.
  for _, backend in ipairs(backends.real) do
    backends.it(it, backend, ("create leaves no sandbox, at any step [%s]")
      :format(backend.name), function()
        local before = backends.first_processes()
        local function left()
          for pid in pairs(backends.first_processes()) do
            if not before[pid] then
              return pid
            end
          end
        end
        local function create()
          local sandbox <close> = portico.sandbox({ backend = backend.name })
          return sandbox.id
        end
        local function turns(t, most)
          local n = 0
          while n < most and (t:status() == "new" or t:status() == "waiting") do
            task.checkpoint()
            n = n + 1
          end
          return n
        end
        portico.run(function()
          local undone = 0
          local all = task.scope(function(scope)
            return turns(scope:spawn(create), math.huge)
          end)
          for i = 0, 40 do
            task.scope(function(scope)
              local t = scope:spawn(create)
              turns(t, all * i // 40)
              t:cancel("not needed")
              local ok, err = t:pawait()
              if not ok then
                assert.is_true(errors.is(err, "CancelledError"), tostring(err))
                assert.equal("not needed", err.reason)
                undone = undone + 1
              end
              assert.is_nil(left())
            end)
          end
          assert.is_true(undone > 1)
        end)
      end)
  end
end)

describe("a deadline", function()
  in_task(it, "has the partial result of a command", function(_, sandbox)
    local err = raises("TimeoutError", task.timeout, 0.3, sandbox.exec, sandbox,
      "echo part; sleep 30")
    assert.equal("PCO_ECALLTIMEOUT", err.code)
    assert.equal("part\n", err.result.stdout)
  end)
end)

it("cancelling leaves nothing behind", nothing_left)
