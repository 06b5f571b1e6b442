-- Situations 1 to 6 of the collection of cases that went wrong for users of
-- similar tools: output lost or cut at exit, and deadlocks on full pipes or on
-- stdin.

local facades = require("spec.support.facades")
local heavy = require("spec.support.heavy")
local leaks = require("spec.support.leaks")
local env = require("spec.support.env")

local nothing_left = leaks.frame()
local on_each = facades.on_each

describe("output lost or cut at exit:", function()
  -- With PORTICO_HEAVY=100 a thousand times in each facade on each backend.
  -- heavy_exits_spec.lua does it on a loaded machine.
  on_each(it, "case 1: no empty output in many runs", function(_, sb)
    for i = 1, heavy.share(1000) do
      local r = sb:exec({ "echo", "running" })
      assert(r.code == 0 and r.stdout == "running\n", i)
    end
  end)

  on_each(it, "case 2: a slow reader gets every byte", function(P, sb)
    local p = sb:spawn({ "sh", "-c", "seq 1 200000" })
    local count = 0
    for chunk in p:chunks() do
      count = count + #chunk.data
      P.sleep(0.01)
    end
    assert.equal(1288895, count)
    assert.equal(0, p:wait().code)
  end)

  on_each(it, "case 2: output of the dead is still read", function(P, sb)
    local p = sb:spawn("printf tail; exit 4")
    P.sleep(0.3)
    assert.equal("tail", p:read().data)
    assert.is_nil(p:read())
    local r = p:wait()
    assert.equal(4, r.code)
    assert.equal("", r.stdout)
    assert.equal(4, r.stdout_bytes)
  end)

  on_each(it, "case 3: streams are connected, and apart", function(_, sb)
    local command = { "sh", "-c", "echo out; echo err >&2; exit 3" }
    local r = sb:exec(command)
    assert.same({ "out\n", "err\n", 3 }, { r.stdout, r.stderr, r.code })
    r = sb:spawn(command):wait()
    assert.same({ "out\n", "err\n", 3 }, { r.stdout, r.stderr, r.code })
    assert.equal("out", sb:output(command, { check = false }))
  end)
end)

describe("deadlock on full pipes or on stdin:", function()
  on_each(it, "case 4: big stdin against big stdout", function(_, sb)
    local big = ("x"):rep(8 * 1024 * 1024)
    local r = sb:exec(
      { "sh", "-c", "head -c 8388608 /dev/zero; cat | wc -c" },
      { input = big, timeout = 20 })
    assert.equal(0, r.code)
    assert.is_true(r.stdout_bytes > 8388608)
    assert.equal("8388608\n", r.stdout:sub(-8))
  end)

  on_each(it, "case 5: the child does not read its stdin", function(_, sb)
    local before = env.read("/proc/self/status"):match("\nSigIgn:%s*(%x+)")
    local big = ("x"):rep(64 * 1024 * 1024)
    local r = sb:exec({ "sh", "-c", "echo bad flag >&2; exit 7" },
      { input = big })
    assert.equal(7, r.code)
    assert.equal("bad flag\n", r.stderr)
    local after = env.read("/proc/self/status"):match("\nSigIgn:%s*(%x+)")
    assert.equal(before, after)
  end)

  on_each(it, "case 5: nor do writes to the dead kill us", function(P, sb)
    local p = sb:spawn({ "true" }, { stdin = "pipe" })
    P.sleep(0.2)
    local err = facades.raises("SystemError", p.write, p, ("x"):rep(1 << 20))
    assert.equal("EPIPE", err.code)
    assert.equal(0, p:wait().code)
  end)

  on_each(it, "case 6: without input there is end of file", function(_, sb)
    local r = sb:exec({ "cat" }, { timeout = 5 })
    assert.same({ 0, "" }, { r.code, r.stdout })
    r = sb:exec({ "sh", "-c", "read x; echo got:$x" }, { timeout = 5 })
    assert.equal("got:\n", r.stdout)
  end)

  it("leave nothing behind", nothing_left)
end)

describe("many at once:", function()
  facades.in_task(it, "case 1: tasks do not mix their output",
    function(_, sb)
      local functions = {}
      for i = 1, 200 do
        functions[i] = function()
          return sb:output({ "echo", i })
        end
      end
      for i, text in ipairs(require("portico.task").all(functions)) do
        assert.equal(tostring(i), text)
      end
    end)

  it("leave nothing behind", nothing_left)
end)
