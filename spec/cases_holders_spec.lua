-- Situations 7 to 9 of the collection of cases: grandchildren that hold the
-- pipes open.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises, timed = facades.on_each, facades.raises, facades.timed

describe("grandchildren that hold the pipes open:", function()
  on_each(it, "case 7: a background job of a shell", function(_, sb)
    local seconds, r = timed(sb.exec, sb, "sleep 7901 & echo started",
      { timeout = 60 })
    assert.same({ 0, "started\n", false }, { r.code, r.stdout, r.eof })
    assert.is_true(seconds < 20, seconds)
    -- It was wanted: it lives as long as its sandbox.
    assert.equal(1, #env.pgrep({ "sleep", "7901" }))
    sb:close()
    assert.same({}, env.pgrep({ "sleep", "7901" }))
  end)

  on_each(it, "case 7: spawn and wait, and one that still talks",
    function(_, sb)
      local p = sb:spawn("(while :; do echo more; sleep 0.02; done) & echo one")
      local seconds, r = timed(p.wait, p)
      assert.equal("one\n", r.stdout:gsub("more\n", ""))
      assert.same({ 0, false }, { r.code, r.eof })
      assert.is_true(seconds < 20, seconds)
      p:close()
    end)

  on_each(it, "case 7: drain is how long it is listened to", function(_, sb)
    local command = "(sleep 0.3; echo late) & echo early"
    assert.equal("early\n", sb:exec(command, { drain = 0 }).stdout)
    local r = sb:exec(command, { drain = 30 })
    assert.same({ "early\nlate\n", true }, { r.stdout, r.eof })
  end)

  for way, options in pairs({ pipe = {}, terminal = { pty = true } }) do
    on_each(it, "case 7: who asks again and again, a little each time, sees "
      .. "the end of a " .. way, function(_, sb)
      local p = sb:spawn("trap '' HUP; sleep 7903 & echo one", options)
      local deadline, got = env.now() + 60, ""
      repeat
        local ok, chunk = pcall(p.read, p, { timeout = 0.02 })
        if ok and chunk then
          got = got .. chunk.data
        elseif not ok then
          assert.equal("PCO_ECALLTIMEOUT", chunk.code)
        end
        assert.is_true(env.now() < deadline, "it never ends")
      until ok and not chunk
      assert.equal("one", got:match("%w+"))
      assert.same({ 0, false }, { p:wait().code, p:wait().eof })

      local waited = sb:spawn("trap '' HUP; sleep 7903 & echo one", options)
      local done, r
      repeat
        done, r = pcall(waited.wait, waited, { timeout = 0.02 })
        assert.is_true(env.now() < deadline, "it never ends")
      until done
      assert.same({ 0, false }, { r.code, r.eof })
    end)
  end

  on_each(it, "case 8: the time limit bounds the call", function(_, sb)
    for _, command in ipairs({
      "sleep 7902 & wait", "setsid sleep 7902 & wait",
      "trap '' TERM; (trap '' TERM; sleep 7902; sleep 7902) & wait; wait",
    }) do
      local seconds, err = timed(raises, "TimeoutError", sb.exec, sb, command,
        { timeout = 0.5, grace = 0.2 })
      assert.equal("PCO_ETIMEDOUT", err.code)
      assert.is_true(seconds < 20, seconds)
      assert.same({}, env.pgrep({ "sleep", "7902" }))
    end
  end)

  on_each(it, "case 9: what is left of one call harms no other",
    function(_, sb)
      sb:exec("tail -f /dev/null &", { timeout = 5, drain = 0 })
      sb:exec("yes &", { timeout = 5, drain = 0 })
      for i = 1, 20 do
        local r = sb:exec({ "echo", i }, { timeout = 20 })
        assert.same({ i .. "\n", true }, { r.stdout, r.eof })
      end
    end)

  it("leave nothing behind", nothing_left)
end)
