-- Process:wait_for: it sees all that comes, takes nothing, and ends.

local backends = require("spec.support.backends")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

-- Reads to the end; what each stream had.
local function read_all(p)
  local all = { stdout = {}, stderr = {} }
  for chunk in p:chunks() do
    table.insert(all[chunk.stream], chunk.data)
  end
  return table.concat(all.stdout), table.concat(all.stderr)
end

describe("wait_for output", function()
  on_each(it, "sees a match that comes in pieces, and takes nothing",
    function(_, sb)
      local p <close> = sb:spawn([[
        printf 'star'; sleep 0.05; printf 'ting\nrea'; sleep 0.05
        echo 'dy 8080'; echo problem >&2; sleep 0.05; echo end
      ]])
      assert.equal("8080", p:wait_for({ output = "ready (%d+)" }))
      assert.equal("starting", p:wait_for({ output = "^%a+" }))
      assert.equal("problem", p:wait_for({ output = "problem" }))
      local out, err = read_all(p)
      assert.equal("starting\nready 8080\nend\n", out)
      assert.equal("problem\n", err)
      assert.equal(#out, p:wait().stdout_bytes)
    end)

  on_each(it, "sees what was read over, not what was read", function(_, sb)
    local p <close> = sb:spawn("echo one; sleep 0.1; echo two; exec sleep 30")
    assert.equal("one\n", p:read().data)
    local err = raises("TimeoutError", p.wait_for, p, { output = "one" },
      { timeout = 0.2 })
    assert.equal("PCO_ECALLTIMEOUT", err.code)
    assert.equal("two", p:wait_for({ output = "%a+" }))
  end)

  on_each(it, "finds the last words of the dead", function(P, sb)
    local p <close> = sb:spawn("echo ready; exit 3")
    P.sleep(0.1)
    assert.equal("ready", p:wait_for({ output = "ready" }))
    local err = raises("ExitError", p.wait_for, p, { output = "steady" })
    assert.equal(3, err.result.code)
    assert.equal("ready\n", err.result.stdout)
    assert.truthy(err.message:find("steady", 1, true), err.message)
    assert.equal("ready\n", p:wait().stdout)
  end)

  on_each(it, "raises what wait would", function(_, sb)
    local p <close> = sb:spawn("echo x; exec sleep 30",
      { timeout = 1, grace = 0 })
    local err = raises("TimeoutError", p.wait_for, p, { output = "never" })
    assert.same({ "PCO_ETIMEDOUT", "x\n" }, { err.code, err.result.stdout })
  end)

  on_each(it, "keeps no more than a bound, and loses nothing of it",
    function(_, sb)
      local p <close> = sb:spawn("seq 1 1000000; echo END >&2")
      for _, stream in ipairs({ "stdout", "stderr" }) do
        local err = raises("LimitError", p.wait_for, p,
          { output = "END", stream = stream }, { timeout = 20 })
        assert.equal("output", err.limit)
      end
      local out, err = read_all(p)
      assert.equal(6888896, #out)
      assert.equal("999999\n1000000\n", out:sub(-15))
      assert.equal("END\n", err)
    end)

  on_each(it, "sees over the borders of pieces, far into the output",
    function(_, sb)
      local pieces = [[
        printf '%40000sx' ''; sleep 0.02; printf 'word'; sleep 0.02
        printf 's: on'; sleep 0.02; printf 'e'; sleep 0.02; exec sleep 30
      ]]
      for _, pattern in ipairs({ "s: one", "xwords: one", "xword%a: one",
        "x%f[^x]words: one$", "^ +xwords: one" }) do
        local p <close> = sb:spawn(pieces)
        assert.equal("one", p:wait_for({ output = pattern }):sub(-3))
        assert.is_nil(p:poll(), pattern) -- it was not its end that told
      end
      -- A word begins at the x, not where it is looked for again.
      local p <close> = sb:spawn("printf '%20000s' '' | tr ' ' x; "
        .. "sleep 0.02; printf ' END'; sleep 0.02")
      assert.equal(20000, #p:wait_for({ output = "%f[x]x+%f[ ]" }))
    end)

  -- Matching all again at each piece would be quadratic. string.match tells how
  -- much it was given.
  local function given(fn)
    local match, calls, bytes = string.match, 0, 0
    local back <close> = setmetatable({}, { __close = function()
      rawset(string, "match", match)
    end })
    rawset(string, "match", function(s, ...)
      calls, bytes = calls + 1, bytes + #s
      return match(s, ...)
    end)
    fn()
    return calls, bytes, back
  end

  local TRICKLE = "i=0; while [ $i -lt 250 ]; do printf '%3999d\n' $i; "
    .. "i=$((i + 1)); done; echo END; "

  on_each(it, "looks at what is new, not at all of it again", function(_, sb)
    -- A busy machine may bring it in few pieces, which shows nothing.
    local calls, bytes, p
    local tries = 0
    repeat
      tries = tries + 1
      if p then p:close() end
      p = sb:spawn(TRICKLE .. "exec sleep 60")
      calls, bytes = given(function()
        assert.equal("END", p:wait_for({ output = "E[N]D" }))
      end)
      -- The last call is the one for the captures, of all there is.
      assert.is_true(bytes <= 2 * 1000004 + (4 << 20)
        + calls * (16 * 1024 + 1), bytes)
    until calls >= 10 or tries == 20
    assert.is_true(calls >= 10, calls)
    calls, bytes = given(function()
      assert.equal("END", p:wait_for({ output = "END" }))
    end)
    assert.same({ 1, 1000004 }, { calls, bytes })
    p:close()
  end)

  on_each(it, "finds a match longer than what it looks back at the end",
    function(_, sb)
      local p <close> = sb:spawn(TRICKLE)
      assert.equal(1000003, #p:wait_for({ output = "^.*\nEND" }))
    end)

  on_each(it, "takes any bytes, as patterns do", function(_, sb)
    local p <close> = sb:spawn("printf 'a\\0b\\377c\\n'; exec sleep 30")
    assert.equal("a\0b\xffc", p:wait_for({ output = "a\0b.c" }))
  end)

  facades.in_task(it, "keeps its output from a wait beside it",
    function(_, sb)
      local p <close> = sb:spawn("echo one; sleep 0.1; echo two; sleep 0.1")
      local found, result
      require("portico.task").all({
        function() result = p:wait() end,
        function() found = p:wait_for({ output = "one\ntwo" }) end,
        function() assert.equal("two", p:wait_for({ output = "two" })) end,
      })
      assert.equal("one\ntwo", found)
      assert.equal("one\ntwo\n", result.stdout)
    end)

  on_each(it, "ends when the process is killed or its sandbox closed",
    function(_, sb)
      local p = sb:spawn("echo x; exec sleep 30", { timeout = 0.3, grace = 0 })
      raises("TimeoutError", p.wait_for, p, { port = 9 })
      sb:close()
      raises("ClosedError", p.wait_for, p, { output = "y" })
    end)
end)

describe("wait_for a port", function()
  local SERVER = [[
import socket, sys, time
time.sleep(0.2)
kind = socket.AF_INET6 if sys.argv[1] == "::1" else socket.AF_INET
s = socket.socket(kind)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen(1)
print(len(s.accept()[0].recv(5)))
]]

  local function has(sb, program)
    return sb:exec("command -v " .. program).ok
  end

  for i, address in ipairs({ "127.0.0.1", "::1", "0.0.0.0" }) do
    on_each(it, "that is listened on at " .. address, function(_, sb)
      if not has(sb, "python3") then
        pending("python3 is not here")
        return
      end
      -- Some backends share the machine's network.
      local port = 20000 + 3 * (leaks.own_pid() % 3000) + i
      local p <close> = sb:spawn({ "python3", "-c", SERVER, address, port })
      local ok, err = pcall(p.wait_for, p, { port = port }, { timeout = 20 })
      if not ok and err.result and err.result.stderr:find("Cannot assign") then
        pending("no " .. address .. " here")
        return
      end
      assert(ok, err)
      assert.equal(port, err)
      -- Nobody was connected to: the server's only client is this one.
      assert.equal(0, sb:exec({ "python3", "-c",
        "import socket, sys\n"
        .. "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        .. "s.send(b'hello')", address == "0.0.0.0" and "127.0.0.1" or address,
        port }).code)
      assert.equal("5\n", p:wait().stdout)
    end)
  end

  on_each(it, "that never is: the command's end is told", function(_, sb)
    local p <close> = sb:spawn("echo why; exit 4")
    local err = raises("ExitError", p.wait_for, p, { port = 9 })
    assert.same({ 4, "why\n" }, { err.result.code, err.result.stdout })
    assert.truthy(err.message:find("port 9 ", 1, true), err.message)
  end)

  it("is not for backends without an agent", function()
    facades.with_sandbox(require("portico.sync"),
      { backend = backends.null.name }, function(sb)
        local p <close> = sb:spawn({ "sleep", "100" })
        raises("UnsupportedError", p.wait_for, p, { port = 80 })
      end)
  end)

  it("leaves nothing behind", nothing_left)
end)
