-- Situations 41 to 43 of the collection of cases: signals and exit codes; and
-- commands that stop themselves.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

local function how(r)
  return { r.code, r.signal or "none", r.reason, r.ok }
end

describe("signals and exit codes:", function()
  on_each(it, "case 41: killed, or told of a kill", function(_, sb)
    assert.same({ 137, "SIGKILL", "signaled", false },
      how(sb:exec("kill -9 $$")))
    assert.same({ 143, "SIGTERM", "signaled", false },
      how(sb:exec("kill -TERM $$")))
    assert.same({ 137, "none", "exited", false },
      how(sb:exec("sh -c 'kill -9 $$'; exit $?")))
    assert.same({ 255, "none", "exited", false }, how(sb:exec("exit 255")))
    assert.same({ 0, "none", "exited", true }, how(sb:exec({ "true" })))
    local p = sb:spawn({ "sleep", "30" })
    assert.same({ 137, "SIGKILL", "killed", false }, how(p:kill()))
    local err = raises("ExitError", sb.exec, sb, "kill -9 $$", { check = true })
    assert.equal("SIGKILL", err.result.signal)
  end)

  on_each(it, "case 41: each signal has its name", function(_, sb)
    for _, name in ipairs({
      "HUP", "INT", "QUIT", "ABRT", "USR1", "USR2", "PIPE", "ALRM", "TERM",
      "XCPU",
    }) do
      local p = sb:spawn({ "sleep", "30" })
      assert.is_true(p:signal(name))
      assert.equal("SIG" .. name, p:wait().signal)
    end
  end)

  on_each(it, "case 42: no mask and no ignored signal is inherited",
    function(_, sb)
      for _, name in ipairs({ "TERM", "INT", "HUP", "PIPE", "CHLD" }) do
        local p = sb:spawn({ "sleep", "30" })
        p:signal(name)
        if name == "CHLD" then
          assert.is_nil(p:poll())
          p:kill()
        else
          assert.equal("SIG" .. name, p:wait({ timeout = 20 }).signal)
        end
      end
      local status = sb:output({ "cat", "/proc/self/status" })
      assert.equal("0000000000000000", status:match("SigBlk:%s*(%x+)"))
      assert.equal("0000000000000000", status:match("SigIgn:%s*(%x+)"))
    end)

  -- The host that has signals blocked and ignored, as nohup does.
  facades.everywhere(it, "case 42: whatever the host has",
    function(P, backend)
      local output = env.script(([[
        local P = require(%q)
        P.run(function()
          local sb <close> = P.sandbox({ backend = %q })
          local s = sb:output({ "cat", "/proc/self/status" })
          print(s:match("SigBlk:%%s*(%%x+)"), s:match("SigIgn:%%s*(%%x+)"))
          local p = sb:spawn({ "sleep", "30" })
          p:signal("HUP")
          print(p:wait().signal)
        end)
      ]]):format(facades.module_name(P), backend.name),
        "trap '' HUP TERM PIPE USR1; ")
      assert.equal("0000000000000000\t0000000000000000\nSIGHUP\n", output)
    end)

  facades.on(it, "bwrap", "case 43: killed by the memory limit",
    function(_, sb)
      local r = sb:exec(
        "x=$(head -c 150000000 /dev/zero | tr '\\0' x); echo ${#x}")
      -- By a cgroup it is killed, by rlimits it is refused the memory; either
      -- way it did not get it, and the sandbox is usable.
      assert.is_false(r.ok)
      assert.is_nil(r.stdout:find("150000000", 1, true))
      assert.equal("fine\n", sb:exec({ "echo", "fine" }).stdout)
    end, { limits = { memory = 48 << 20 } })

  on_each(it, "a command that stops itself is still ended", function(_, sb)
    local err = raises("TimeoutError", sb.exec, sb, "echo hi; kill -STOP $$",
      { timeout = 0.5, grace = 0.2 })
    assert.equal("hi\n", err.result.stdout)
    assert.same({}, err.result.survivors)
    local p = sb:spawn("echo hi; kill -STOP $$; echo on; exec sleep 30")
    p:wait_for({ output = "hi" })
    raises("TimeoutError", p.wait_for, p, { output = "on" }, { timeout = 0.2 })
    assert.is_true(p:signal("CONT"))
    p:wait_for({ output = "on" })
    p:signal("STOP")
    assert.equal("SIGKILL", p:kill().signal)
    local q = sb:spawn("kill -STOP $$")
    assert.is_true(q:close())
    -- TERM reaches it once it goes on, which is seen to.
    local r = sb:spawn("trap 'exit 5' TERM; echo hi; kill -STOP $$; sleep 30")
    r:wait_for({ output = "hi" })
    assert.equal(5, r:kill({ grace = 20 }).code)
  end)

  on_each(it, "its sandbox is closed inside a callback", function(_, sb)
    local closed
    local err = raises("ClosedError", sb.exec, sb,
      "echo x; sleep 7903", { on_output = function()
        closed = sb:close()
      end })
    assert.equal("PCO_ECLOSED", err.code)
    assert.is_true(closed)
    assert.same({}, env.pgrep({ "sleep", "7903" }))
  end)

  it("leave nothing behind", nothing_left)
end)
