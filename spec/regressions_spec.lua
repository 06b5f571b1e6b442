-- What went wrong once and must not again: time limits that were not kept, and
-- answers that were not true. Tasks, Ctrl-C, silence and the host's stdio have
-- files of their own.

local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portico = require("portico")
local sync = require("portico.sync")
local task = require("portico.task")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

describe("a call with a short timeout", function()
  local TIMEOUTS = { 0, 1e-6, 1e-5, 5e-5, 1e-4, 3e-4, 1e-3 }

  -- Calls fn with each timeout; gives all it returned, by their text.
  local function outcomes(fn)
    local seen = {}
    for i = 1, 150 do
      local ok, value = pcall(fn, { timeout = TIMEOUTS[i % #TIMEOUTS + 1] })
      if ok or not errors.is(value, "TimeoutError")
        or value.code ~= "PCO_ECALLTIMEOUT"
      then
        seen[tostring(value)] = true
      end
    end
    return seen
  end

  on_each(it, "on files never gives a part", function(_, sb)
    local fs = sb.fs
    local big = ("0123456789abcdef"):rep(65536)
    fs:write("dir/a", "content", { parents = true })
    fs:write("dir/b", big)
    for _, case in ipairs({
      { "content", function(o) return fs:read("dir/a", o) end },
      { "true", function(o) return fs:read("dir/b", o) == big end },
      { "2", function(o) return #fs:list("dir", o) end },
      { "7", function(o) return fs:stat("dir/a", o).size end },
      { "true", function(o) return fs:exists("dir/a", o) end },
    }) do
      local seen = outcomes(case[2])
      seen[case[1]] = nil
      assert.same({}, seen)
    end
    assert.equal(big, fs:read("dir/b"))
  end)

  on_each(it, "on output loses no byte, whoever reads", function(_, sb)
    local expected = {}
    for i = 1, 20000 do
      expected[i] = "line " .. i .. "\n"
    end
    local p <close> = sb:spawn(
      "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done")
    local parts = {}
    local function add(text)
      parts[#parts + 1] = text
      return true
    end
    local function timed_read(seconds)
      return function()
        local ok, chunk = pcall(p.read, p, { timeout = seconds })
        if not ok then
          assert.equal("PCO_ECALLTIMEOUT", chunk.code)
        end
        return not ok or chunk and add(chunk.data)
      end
    end
    local turn = 0
    local ways = {
      function()
        local count = 0
        for line in p:lines() do
          add(line .. "\n")
          count = count + 1
          if count > turn * 37 % 700 then
            break
          end
        end
        return count > 0
      end,
      function()
        local iterator <close> = p:chunks()
        local chunk = iterator()
        return chunk and add(chunk.data)
      end,
      function()
        local chunk = p:read()
        return chunk and add(chunk.data)
      end,
      timed_read(0),
      timed_read(1e-5),
    }
    repeat
      turn = turn + 1
    until not ways[turn % #ways + 1]()
    local all = table.concat(expected)
    assert.is_true(table.concat(parts) == all, "bytes are lost or mixed")
    assert.equal(#all, p:wait().stdout_bytes)
  end)

  on_each(it, "on wait leaves the command and its output", function(_, sb)
    local p <close> = sb:spawn("for i in 1 2 3; do echo $i; sleep 0.05; done")
    local timeouts, result = 0, nil
    repeat
      local ok, value = pcall(p.wait, p, { timeout = 0.02 })
      if ok then
        result = value
      else
        timeouts = timeouts + 1
        assert.equal("PCO_ECALLTIMEOUT", value.code)
      end
    until ok
    assert.is_true(timeouts > 0)
    assert.same({ "1\n2\n3\n", "exited", 0 },
      { result.stdout, result.reason, result.code })
  end)

  facades.in_task(it, "that is cancelled instead gives no part either",
    function(P, sb)
      local big = ("c"):rep(2000000)
      sb.fs:write("big", big)
      for i = 1, 60 do
        local whole = true
        local ok, err = pcall(task.all, {
          function()
            local read, data = pcall(sb.fs.read, sb.fs, "big")
            whole = not read or data == big
          end,
          function()
            P.sleep(i % 30 * 1e-4)
            error("stop", 0)
          end,
        })
        assert.same({ false, "stop", true }, { ok, err, whole })
        pcall(task.all, {
          function() sb.fs:stat("big") end,
          function()
            P.sleep(i % 30 * 1e-5)
            error("stop", 0)
          end,
        })
      end
      assert.equal(2000000, sb.fs:stat("big").size)
    end)
end)

describe("reading nothing of a file", function()
  on_each(it, "gives the empty string", function(_, sb)
    local fs = sb.fs
    fs:write("empty", "")
    fs:write("f", "abc")
    assert.equal("", fs:read("empty"))
    assert.equal("", fs:read("empty", { length = 0 }))
    assert.equal("", fs:read("empty", { offset = 5 }))
    assert.equal("", fs:read("f", { length = 0 }))
    assert.equal("", fs:read("f", { offset = 1, length = 0 }))
    assert.equal("", fs:read("f", { offset = 3 }))
    assert.equal("", fs:read("f", { offset = 4, length = 5 }))
    assert.equal("c", fs:read("f", { offset = 2 }))
  end)
end)

describe("signal", function()
  on_each(it, "is true when it was sent, false after the end",
    function(_, sb)
      local p = sb:spawn({ "sleep", "30" })
      assert.is_true(p:signal("CONT"))
      assert.is_true(p:signal("TERM"))
      assert.equal("SIGTERM", p:wait().signal)
      assert.is_false(p:signal("TERM"))
      assert.is_false(p:signal(9))
    end)

  on_each(it, "is false after an end that nobody waited for",
    function(_, sb)
      local p = sb:spawn({ "true" })
      assert.is_true(env.eventually(20, function()
        sb:exec({ "true" }) -- lets the answer in
        return p:poll() ~= nil
      end))
      assert.is_false(p:signal("TERM"))
    end)
end)

describe("a command that", function()
  on_each(it, "stops its supervisor obeys its time limit", function(_, sb)
    local seconds, err = facades.timed(raises, "TimeoutError", sb.exec, sb,
      "echo hi; kill -STOP $PPID; sleep 314159.2",
      { timeout = 0.3, grace = 0.1 })
    assert.same({ "PCO_ETIMEDOUT", "timeout", "hi\n" },
      { err.code, err.result.reason, err.result.stdout })
    assert.is_true(seconds < 30, seconds)
    assert.same({}, env.pgrep({ "sleep", "314159.2" }))
  end)

  on_each(it, "stops its supervisor ends with its own code", function(_, sb)
    local seconds, r = facades.timed(sb.exec, sb,
      "echo hi; kill -STOP $PPID; exit 4")
    assert.same({ "exited", 4, "hi\n" }, { r.reason, r.code, r.stdout })
    assert.is_true(seconds < 15, seconds)
  end)

  for _, timeout in ipairs({ false, 20 }) do
    -- On `bwrap` it may not be allowed to: then there is nothing to see.
    facades.on(it, "local", "kills its supervisor ends at once, "
      .. (timeout and "with" or "without") .. " a time limit", function(_, sb)
        -- Input comes when it has started; a start that fails is another case.
        local seconds, r = facades.timed(sb.exec, sb,
          "echo hi; read x; kill -KILL $PPID; sleep 314159.3; echo more",
          { input = "\n", timeout = timeout or nil })
        assert.same({ "killed", "SIGKILL", "hi\n" },
          { r.reason, r.signal, r.stdout })
        assert.is_true(seconds < 15, seconds)
        assert.same({}, env.pgrep({ "sleep", "314159.3" }))
        assert.equal("x", sb:output("echo x"))
      end)
  end
end)

describe("tostring", function()
  on_each(it, "shows what an object is and whose", function(_, sb)
    local id = sb.id:gsub("%p", "%%%0")
    local r = sb:exec("printf abc; exit 3")
    assert.equal("portico.Result(exited 3, stdout 3, stderr 0 bytes)",
      tostring(r))
    assert.equal("portico.FileSystem(of " .. sb.id .. ")", tostring(sb.fs))
    local p <close> = sb:spawn({ "sleep", "30" })
    assert.equal(("portico.Process(%d sleep in %s)"):format(p.pid, sb.id),
      tostring(p))
    local iterator <close> = p:lines()
    assert.equal(
      ("portico.Iterator(of %d sleep in %s)"):format(p.pid, sb.id),
      tostring(iterator))
    p:kill()
    assert.truthy(tostring(p):find("sleep in " .. id .. ".*%)$"))
  end)

  on_each(it, "tells no arguments of a command", function(_, sb)
    local p <close> = sb:spawn({ "sleep", "30", "30", "42424242" })
    assert.is_nil(tostring(p):find("42424242", 1, true))
    assert.is_nil(tostring((p:chunks())):find("42424242", 1, true))
  end)

  facades.both(it, "tells what is closed", function(P)
    local sb = P.sandbox({ backend = "local" })
    local p = sb:spawn({ "sleep", "30" })
    p:close()
    assert.truthy(tostring(p):find(", closed)", 1, true))
    sb:close()
    assert.truthy(tostring(sb):find(", closed)", 1, true))
    assert.truthy(tostring(sb.fs):find(", closed)", 1, true))
  end)

  it("is the same in both facades", function()
    local shown = {}
    for i, facade in ipairs(facades.list) do
      shown[i] = facades.call(facade, function(P)
        return facades.with_sandbox(P, {}, function(sb)
          local p <close> = sb:spawn({ "true" })
          local text = ("%s %s %s %s"):format(sb:exec("true"), sb.fs, p,
            (p:lines()))
          return (text:gsub(sb.id:gsub("%p", "%%%0"), "ID"):gsub("%d+", "N"))
        end)
      end)
    end
    assert.equal(shown[1], shown[2])
    assert.are_not.equal(portico.Result, sync.Result)
  end)

  it("leaves nothing behind", nothing_left)
end)
