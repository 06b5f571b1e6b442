-- A command whose handle was dropped: nobody holds it back, and who takes it up
-- again by its pid gets the newest of its output.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local read_to = require("spec.support.output").read_to
local on_each = facades.on_each

local RING = 64 * 1024
local COUNT = "seq 1 100000; : >done; "

local function collect()
  collectgarbage()
  collectgarbage()
end

local function start(sb, command, options)
  return (sb:spawn(command, options).pid)
end

-- Starts a command and drops its handle, of which no register knows any more;
-- returns the pid.
local function drop(sb, command, options)
  local pid = start(sb, command, options)
  collect()
  return pid
end

local function done(sb)
  assert(env.eventually(20, function()
    sb:exec({ "true" })
    return sb.fs:exists("done")
  end), "it is held back")
end

local function kind(name, options)
  local newline = options.pty and "\r\n" or "\n"

  describe("a dropped command with " .. name .. ":", function()
    on_each(it, "its newest output is kept", function(_, sb)
      local pid = drop(sb, COUNT .. "sleep 1000", options)
      done(sb)
      local p = sb:process(pid)
      local text = read_to(p, "\n100000" .. newline)
      assert.is_true(#text <= RING and #text > RING // 2, #text)
      local expected = tonumber(text:match("\n(%d+)"))
      for line in text:gsub("^[^\n]*\n", ""):gmatch("(%d+)\r?\n") do
        assert(tonumber(line) == expected, line)
        expected = expected + 1
      end
      local r = p:kill()
      assert.equal("SIGKILL", r.signal)
      assert.equal(options.pty and 688895 or 588895, r.stdout_bytes)
    end)

    on_each(it, "what comes later is read, too, and its end", function(_, sb)
      local pid = drop(sb, COUNT .. "while ! test -e go; do sleep 0.01; done;"
        .. "seq 1 100000; exit 7", options)
      done(sb)
      local p = sb:process(pid)
      sb.fs:write("go", "")
      local r = p:wait({ timeout = 20 })
      assert.equal(7, r.code)
      assert.is_true(r.eof)
      local text = r.stdout
      assert.equal(newline .. "100000" .. newline, text:sub(-6 - 2 * #newline))
      assert.truthy(text:find("100000" .. newline .. "1" .. newline .. "2"
        .. newline, 1, true))
    end)

    on_each(it, "again and again", function(_, sb)
      local pid = drop(sb, "while :; do seq 1 1000; done", options)
      for _ = 1, 20 do
        local p = sb:process(pid)
        read_to(p, "\n1000" .. newline .. ".*")
        p = nil -- luacheck: ignore 311
        collect()
      end
      sb:process(pid):kill()
    end)

    on_each(it, "its input stays open", function(_, sb)
      local pid = drop(sb, "while read x; do echo got=$x; done", {
        stdin = "pipe", pty = options.pty and { echo = false },
      })
      local p = sb:process(pid)
      p:write(("a\n"):rep(5000), { timeout = 20 })
      p:write("last\n", { timeout = 20 })
      p:close_stdin()
      local text = p:wait({ timeout = 20 }).stdout
      assert.equal(5001, select(2, text:gsub("got=", "")))
      assert.truthy(text:find("got=last" .. newline .. "$"))
    end)

    on_each(it, "one that has ended is no more listed", function(P, sb)
      drop(sb, COUNT, options)
      done(sb)
      local deadline = env.now() + 20
      while #sb:processes() > 0 do
        assert(env.now() < deadline, "it is still listed")
        P.sleep(0.02) -- its output is taken meanwhile
      end
    end)
  end)
end

kind("pipes", {})
kind("a terminal", { pty = true })

describe("a dropped command with a terminal", function()
  -- Of the agent, where its memory can be seen; a limit far below the output.
  local function memory(sb)
    local status = io.open(("/proc/%s/status"):format(sb:info().pid))
    local text <close> = status
    return text and tonumber(text:read("a"):match("VmRSS:%s+(%d+)")) or 0
  end

  on_each(it, "lives, is not held back, costs no memory, is hung up at close",
    function(_, sb)
      local pid = drop(sb, "trap 'echo hup >hup; exit 5' HUP; trap '' TERM; "
        .. "head -c 200000 /dev/zero | tr '\\0' x; : >begun; "
        .. "head -c 20000000 /dev/zero | tr '\\0' x; : >done; "
        .. "while :; do sleep 0.05; done", { pty = true })
      assert.is_true(env.eventually(20, function()
        return sb.fs:exists("begun")
      end))
      local before = memory(sb)
      done(sb)
      assert.is_true(memory(sb) - before < 4096)
      assert.equal(1, #sb:processes())
      local p = sb:process(pid)
      p:close({ grace = 10 })
      assert.equal("hup\n", sb.fs:read("hup"))
      assert.equal(0, #sb:processes())
    end)
end)

describe("a dropped command", function()
  facades.with(it, "local", "goes on while no loop turns", function(P)
    local sb <close> = P.sandbox({ backend = "local" })
    drop(sb, COUNT .. "exec sleep 1000")
    local directory = sb:output("pwd")
    assert.is_true(env.eventually(20, function()
      return env.exists(directory .. "/done")
    end))
  end)
end)

it("nothing is left", nothing_left)
