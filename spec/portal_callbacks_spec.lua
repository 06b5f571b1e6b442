-- Callbacks of calls: they run where the call was made, may call back into the
-- facade, close what they are called by, and raise. And streams, which never
-- run far ahead of their reader.

local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portal = require("portico.portal")
local portico = require("portico")
local sync = require("portico.sync")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

describe("a callback", function()
  on_each(it, "runs in the caller's coroutine", function(_, sb)
    local caller, seen = coroutine.running(), nil
    sb:exec("echo x", {
      on_output = function()
        seen = coroutine.running()
      end,
    })
    assert.equal(caller, seen)
  end)

  -- Calls itself in its own callback, `depth` times; returns the outputs.
  local function nested(sb, depth)
    local seen = {}
    local result = sb:exec({ "echo", depth }, {
      on_output = function(chunk)
        seen = depth > 1 and nested(sb, depth - 1) or {}
        seen[#seen + 1] = chunk.data:sub(1, -2)
      end,
    })
    assert(result.stdout == depth .. "\n")
    return seen
  end

  on_each(it, "may make calls that have callbacks", function(_, sb)
    assert.same({ "1", "2", "3", "4", "5" }, nested(sb, 5))
  end)

  facades.on(it, "null", "may do so 32 deep, and hears of it then",
    function(_, sb)
      assert.equal(32, #nested(sb, 32))
      local err = raises("LimitError", nested, sb, 33)
      assert.equal("callbacks", err.limit)
      assert.truthy(err.message:find("32", 1, true))
      local depth = 0
      local function for_ever()
        depth = depth + 1
        sb:exec({ "cat" }, { input = for_ever })
      end
      assert.equal("callbacks", raises("LimitError", for_ever).limit)
      assert.equal(33, depth)
      -- What cannot go deeper may still be called there.
      local function go_down(n)
        local output
        sb:exec({ "echo", "x" }, {
          on_output = function()
            output = n > 1 and go_down(n - 1) or sb:output({ "echo", "y" })
          end,
        })
        return output
      end
      assert.equal("y", go_down(32))
      assert.equal(32, #nested(sb, 32))
    end)

  facades.with(it, "null", "is as deep as its task, not as all together",
    function(P)
      local sb <close> = P.sandbox({ backend = "null" })
      if P == sync then
        assert.equal(20, #nested(sb, 20))
        return
      end
      local all = require("portico.task").all({
        function() return nested(sb, 20) end,
        function() return nested(sb, 20) end,
      })
      assert.same({ 20, 20 }, { #all[1], #all[2] })
    end)

  on_each(it, "raises through all calls that it is in, the same object",
    function(_, sb)
      local object = { "mine" }
      local ok, err = pcall(sb.exec, sb, "echo x; exec sleep 100", {
        on_output = function()
          sb:exec("echo y; exec sleep 100", {
            on_output = function()
              error(object)
            end,
          })
        end,
      })
      assert.is_false(ok)
      assert.is_true(rawequal(object, err))
      assert.equal("z", sb:output("echo z"))
    end)

  on_each(it, "may close its sandbox from deep inside", function(_, sb)
    local closed
    local err = raises("ClosedError", sb.exec, sb, "echo x; exec sleep 100", {
      on_output = function()
        pcall(sb.exec, sb, "echo y; exec sleep 100", {
          on_output = function()
            closed = sb:close()
          end,
        })
      end,
    })
    assert.equal("PCO_ECLOSED", err.code)
    assert.is_true(closed)
    assert.is_false(sb:close())
  end)

  it("may close the portal that its call is on", function()
    local p = portal.open()
    local sb = sync.sandbox({ backend = "local", portal = p })
    local closed
    raises("ClosedError", sb.exec, sb, "echo x; exec sleep 100", {
      on_output = function()
        raises("UsageError", p.close, p)
        closed = sb:close() and p:close()
      end,
    })
    assert.is_true(closed)
    assert.is_false(p:close())
  end)

  it("of a sync call cannot yield, and may run tasks", function()
    local sb <close> = sync.sandbox({ backend = "local" })
    local ok, err = pcall(coroutine.wrap(function()
      sb:exec("echo x; exec sleep 100", { on_output = coroutine.yield })
    end))
    assert.is_false(ok)
    assert.truthy(tostring(err):find("yield", 1, true))
    local seen
    sb:exec("echo x", {
      on_output = function()
        portico.run(function()
          local other <close> = portico.sandbox({ backend = "local" })
          seen = other:output("echo y")
        end)
      end,
    })
    assert.equal("y", seen)
  end)

  it("of a sync call in a task cannot wait in the task", function()
    local sb <close> = sync.sandbox({
      backend = "local", allow_in_tasks = true,
    })
    portico.run(function()
      local other <close> = portico.sandbox({ backend = "local" })
      local err = raises("UsageError", sb.exec, sb, "echo x", {
        on_output = function()
          portico.run(other.exec, other, { "true" })
        end,
      })
      assert.equal("PCO_ENOYIELD", err.code)
      assert.equal("y", other:output("echo y"))
    end)
  end)
end)

describe("a sync call", function()
  it("works where nothing could yield", function()
    local sb <close> = sync.sandbox({ backend = "local" })
    local function output()
      return sb:output("echo x")
    end
    assert.same({ true, "x" }, { pcall(output) })
    assert.equal("x", setmetatable({}, { __index = output }).any)
    assert.is_true(setmetatable({}, {
      __lt = function() return output() == "x" end,
    }) < 1)
    local seen
    do
      local _ <close> = setmetatable({}, {
        __close = function() seen = output() end,
      })
    end
    assert.equal("x", seen)
    local _, handled = xpcall(error, output)
    assert.equal("x", handled)
  end)

  on_each(it, "keeps to what it was given when it was made", function(_, sb)
    local command = { "sh", "-c", "echo x; read y; echo $A $y" }
    local options = { env = { A = "before" }, check = true, input = "one\n" }
    options.on_output = function()
      command[3], options.env.A, options.check = "exit 9", "after", false
      options.input, options.on_output = "two\n", error
    end
    assert.equal("x\nbefore one\n", sb:exec(command, options).stdout)
  end)

  it("leaves other sandboxes of its thread alone", function()
    local a <close> = sync.sandbox({ backend = "local" })
    local b <close> = sync.sandbox({ backend = "local" })
    local p <close> = a:spawn("echo first; read x; echo second",
      { stdin = "pipe" })
    assert.equal("b", b:output("echo b"))
    assert.equal("first\n", p:read().data)
    b:close()
    p:write("go\n")
    assert.equal("second\n", p:read().data)
    assert.equal(0, p:wait().code)
  end)

  it("raises its own error, whatever is handled meanwhile", function()
    local sb <close> = sync.sandbox({ backend = "local" })
    local inner
    local _, outer = xpcall(sb.fs.read, function(err)
      inner = select(2, pcall(sb.fs.read, sb.fs, "no-such-b"))
      return err
    end, sb.fs, "no-such-a")
    assert.is_true(errors.is(outer, "NotFoundError"))
    assert.is_true(errors.is(inner, "NotFoundError"))
    assert.truthy(outer.path:find("no-such-a", 1, true))
    assert.truthy(inner.path:find("no-such-b", 1, true))
    assert.is_nil(inner.cause)
  end)
end)

describe("`<close>`", function()
  -- A portal in use cannot be closed: a close that fails.
  local function fail_to_close(err)
    local sb
    local ok, raised = pcall(function()
      local p <close> = portal.open()
      sb = sync.sandbox({ backend = "null", portal = p })
      if err then
        error(err)
      end
    end)
    sb:close()
    return not ok and raised
  end

  it("that fails is an error, but none that hides another", function()
    assert.equal("PCO_EBUSY", fail_to_close().code)
    local object = { "mine" }
    assert.is_true(rawequal(object, fail_to_close(object)))
    assert.equal("text", fail_to_close("text"):match("text$"))
    local err = raises("InvalidArgumentError", portal.open, 5)
    assert.is_true(rawequal(err, fail_to_close(err)))
    assert.equal("PCO_EBUSY", err.suppressed.code)
  end)

  it("happens at break, goto, return and coroutine.close", function()
    local list = {}
    local function open()
      list[#list + 1] = portal.open()
      return list[#list]
    end
    for _ = 1, 1 do -- luacheck: ignore 512
      local _ <close> = open()
      break
    end
    do
      local _ <close> = open()
      goto out
    end
    ::out::
    pcall(function()
      local _ <close> = open()
      return 1
    end)
    local co = coroutine.create(function()
      local _ <close> = open()
      coroutine.yield()
    end)
    coroutine.resume(co)
    assert.is_false(list[4].closed)
    coroutine.close(co)
    for i = 1, 4 do
      assert.is_true(list[i].closed)
    end
  end)
end)

describe("a stream", function()
  -- How many pieces the command has got rid of, when that changes no more.
  local function settled(P, sb)
    local last
    repeat
      local before = last
      P.sleep(0.2)
      last = tonumber(sb.fs:read("count")) or -1
    until last == before
    return last
  end

  on_each(it, "does not run far ahead of its reader", function(P, sb)
    sb.fs:write("count", "0")
    local p <close> = sb:spawn("i=0; while head -c 65536 /dev/zero; do "
      .. "i=$((i+1)); echo $i >new; mv new count; done")
    local bytes = 0
    for chunk in p:chunks() do
      bytes = bytes + #chunk.data
      if bytes >= 1000000 then
        break -- and after it nothing is read at all
      end
    end
    local ahead = settled(P, sb) * 65536 - bytes
    assert.is_true(ahead < 3 * 1024 * 1024, ahead .. " bytes ahead")
    assert.is_nil(p:poll())
    for chunk in p:chunks() do -- it goes on with its reader
      bytes = bytes + #chunk.data
      if bytes >= 4000000 then
        break
      end
    end
  end)

  on_each(it, "that on_output is slow to take holds the command",
    function(P, sb)
      sb.fs:write("count", "0")
      local bytes, ahead, enough = 0, nil, {}
      local ok, err = pcall(sb.exec, sb, "i=0; while head -c 65536 /dev/zero;"
        .. "do i=$((i+1)); echo $i >new; mv new count; done", {
          on_output = function(chunk)
            bytes = bytes + #chunk.data
            if bytes > 1000000 then
              ahead = settled(P, sb) * 65536 - bytes
              error(enough)
            end
          end,
        })
      assert.is_true(not ok and rawequal(err, enough))
      assert.is_true(ahead < 3 * 1024 * 1024, ahead .. " bytes ahead")
    end)

  it("leaves nothing behind", nothing_left)
end)
