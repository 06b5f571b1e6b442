-- Situations 10 to 15 of the collection of cases: time limits that leave
-- orphans, and killing the whole tree. What is dead is looked for from outside
-- the sandbox, by command lines that nobody else has.
--
-- 14 has a second part in spec/c/threads_test.c: a thread that creates a
-- sandbox and ends.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

-- A number that no other test uses, nor another run of this one beside it.
local count = 0
local function unique_number()
  count = count + 1
  return ("1%s.%d"):format(env.read("/proc/self/stat"):match("^%d+"), count)
end

local function unique_sleep()
  return { "sleep", "10" .. unique_number() }
end

local function is_gone(argv)
  return env.eventually(20, function()
    return #env.pgrep(argv) == 0
  end)
end

describe("time limits that leave orphans:", function()
  on_each(it, "case 10: the limit acts where the program lives",
    function(_, sb)
      local argv = { "sh", "-c", "while :; do :; done; : " .. unique_number() }
      for _ = 1, 5 do
        local err = raises("TimeoutError", sb.exec, sb, argv,
          { timeout = 0.2, grace = 0.5 })
        assert.equal("PCO_ETIMEDOUT", err.code)
        assert.same({}, err.result.survivors)
      end
      assert.same({}, sb:processes())
      assert.same({}, env.pgrep(argv))
      -- And as seen from inside.
      local found = sb:output("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'")
      assert.is_nil(found:find(argv[3], 1, true))
    end)

  on_each(it, "case 11: a program that ignores SIGTERM is killed",
    function(_, sb)
      local seconds, err = facades.timed(raises, "TimeoutError", sb.exec, sb,
        { "sh", "-c", "trap '' TERM; echo on; sleep 60; echo done" },
        { timeout = 1, grace = 0.5 })
      assert.same({ "timeout", "SIGKILL", false, "on\n" }, {
        err.result.reason, err.result.signal, err.result.ok, err.result.stdout,
      })
      assert.is_true(seconds < 30, seconds .. " seconds")
    end)

  facades.everywhere(it, "case 12: no timer outlives its call",
    function(P, backend)
      -- In a process of its own, whose loop must have nothing left to do.
      local output, code, seconds = env.script(([[
        local P = require(%q)
        P.run(function()
          local sb <close> = P.sandbox({ backend = %q })
          assert(sb:exec({ "true" }, { timeout = 60, grace = 60 }).code == 0)
        end)
      ]]):format(facades.module_name(P), backend.name))
      assert.same({ "", 0 }, { output, code })
      assert.is_true(seconds < 30, seconds .. " seconds")
    end)
end)

describe("killing the whole tree:", function()
  on_each(it, "case 13: a shell and its child", function(_, sb)
    local argv = unique_sleep()
    local p = sb:spawn({ "sh", "-c", table.concat(argv, " ") .. "; sleep 322" })
    assert.truthy(env.eventually(20, function()
      return #env.pgrep(argv) == 1
    end))
    assert.equal("SIGKILL", p:kill().signal)
    assert.same({}, env.pgrep(argv))
  end)

  on_each(it, "case 13: a child that left group, session and parent",
    function(_, sb)
      local argv = unique_sleep()
      local p = sb:spawn("setsid sh -c '" .. table.concat(argv, " ")
        .. " & setsid sleep 322 & exit' & sleep 323")
      assert.truthy(env.eventually(20, function()
        return #env.pgrep(argv) == 1
      end))
      assert.same({}, p:kill().survivors)
      assert.same({}, env.pgrep(argv))
      assert.same({}, sb:processes())
    end)

  facades.everywhere(it, "case 14: threads that come and go kill nothing",
    function(P, backend)
      local sb <close> = P.sandbox({ backend = backend.name })
      local p = sb:spawn({ "sleep", "1.5" })
      for _ = 1, 5 do
        -- In the sync facade each has a thread, which ends with it.
        local other = P.sandbox({ backend = backend.name })
        assert.equal(0, other:exec({ "true" }).code)
        other:close()
        collectgarbage()
      end
      assert.equal(0, p:wait().code)
      assert.equal("x", sb:output("echo x"))
    end)

  on_each(it, "case 15: a kill at once hits neither too little nor the host",
    function(_, sb)
      local argv = unique_sleep()
      for _ = 1, 30 do
        local result = sb:spawn(argv):kill()
        assert.equal("SIGKILL", result.signal)
      end
      assert.is_true(is_gone(argv))
    end)

  -- The host of this one is started by others and leads no process group.
  facades.everywhere(it, "case 15: the host's own group is left alone",
    function(P, backend)
      local argv = unique_sleep()
      local output, code = env.script(([[
        local P = require(%q)
        P.run(function()
          local sb <close> = P.sandbox({ backend = %q })
          local p = sb:spawn("sh -c 'while :; do :; done' & %s & wait")
          P.sleep(0.2)
          print(p:kill().signal, #sb:processes())
          p = sb:spawn({ "true" })
          p:wait()
          p:kill() -- its pid is gone, and may be anybody's
        end)
        print("alive")
      ]]):format(facades.module_name(P), backend.name,
        table.concat(argv, " ")))
      assert.same({ "SIGKILL\t0\nalive\n", 0 }, { output, code })
      assert.is_true(is_gone(argv))
    end)

  it("leaves nothing behind", nothing_left)
end)

-- What isolation adds: not even by asking does a command reach outside.
describe("killing from inside", function()
  for _, facade in ipairs(facades.list) do
    backends.it(it, backends.bwrap, "reaches neither host nor agent [bwrap, "
      .. facade.name .. "]", function()
        facades.call(facade, function(P)
          local victim = unique_sleep()
          local pid = tonumber((env.sh(table.concat(victim, " ")
            .. " >/dev/null 2>&1 & echo $!")))
          facades.with_sandbox(P, { backend = "bwrap" }, function(sb)
            -- Where all have one uid this takes its own supervisor along,
            -- maybe before that could say that the command has started.
            pcall(sb.exec, sb, "kill -KILL " .. pid .. "; kill -KILL 1; "
              .. "kill -KILL -- -1 $PPID; true", { timeout = 10 })
            assert.equal("x", sb:output("echo x"))
          end)
          local found = env.pgrep(victim)
          env.sh("kill " .. pid)
          assert.same({ pid }, found)
        end)
      end)
  end

  it("leaves nothing behind", nothing_left)
end)
