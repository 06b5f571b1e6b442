-- Commands of a sandbox that is left and taken over: they run on, the newest of
-- what they write is kept, and how they ended can be asked for.

local detached = require("spec.support.detached")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local nothing_left = leaks.frame()
local read_to = require("spec.support.output").read_to
local everywhere = detached.everywhere
local raises = facades.raises

local RING = 64 * 1024

local function create(b)
  return b:create({ detachable = true })
end

-- Leaves the sandbox and takes it over.
local function again(b, sb)
  return b:attach(sb:detach())
end

-- Waits until a file is there, which a command makes.
local function wait_for_file(sb, path)
  local deadline = env.now() + 30
  while not sb.fs:exists(path) do
    assert(env.now() < deadline, path .. " never came")
    sb:exec({ "sleep", "0.02" })
  end
end

-- The entry of a command that has ended, once it has.
local function ended(sb, pid)
  local deadline = env.now() + 30
  while true do
    for _, entry in ipairs(sb:processes({ all = true })) do
      if entry.pid == pid and entry.state == "exited" then
        return entry
      end
    end
    assert(env.now() < deadline, "it never ended")
    sb:exec({ "sleep", "0.02" })
  end
end

local function kind(name, options)
  local newline = options.pty and "\r\n" or "\n"

  describe("a command with " .. name .. ",", function()
    everywhere(it, "of which nobody reads, writes on", function(_, _, b)
      local sb = create(b)
      local pid = sb:spawn("while ! test -e go; do sleep 0.01; done;"
        .. "seq 1 100000; : >done; sleep 1000", options).pid
      sb:exec(": >go")
      sb = again(b, sb)
      wait_for_file(sb, "done")
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
      sb:close()
    end)

    everywhere(it, "has its last words and its exit status kept",
      function(_, _, b)
        local sb = create(b)
        local pid = sb:spawn("while ! test -e go; do sleep 0.01; done;"
          .. "echo last words; exit 7", options).pid
        sb = again(b, sb)
        sb.fs:write("go", "")
        sb:detach()
        sb = b:attach(sb.id)
        local entry = ended(sb, pid)
        assert.equal(7, entry.code)
        sb = again(b, sb)
        local r = sb:process(pid):wait({ timeout = 20 })
        assert.equal(7, r.code)
        assert.equal("exited", r.reason)
        assert.equal("last words" .. newline, r.stdout)
        assert.is_true(r.eof)
        sb = again(b, sb)
        r = sb:process(pid):wait({ timeout = 20 })
        assert.equal(7, r.code)
        assert.equal("", r.stdout) -- somebody had it
        sb:close()
      end)

    everywhere(it, "is read on where it was left, and much comes",
      function(_, _, b)
        local sb = create(b)
        local p = sb:spawn("echo small; read x; echo $x; read x; seq 1 100000;"
            .. "exit 3",
          { stdin = "pipe", pty = options.pty and { echo = false } })
        local pid = p.pid
        assert.equal("small" .. newline, read_to(p, "small" .. newline))
        sb = again(b, sb)
        p = sb:process(pid)
        p:write("again\n")
        -- From here on it is held back: before, only the newest is kept.
        assert.equal("again" .. newline, read_to(p, "again" .. newline))
        p:write("much\n")
        local text = {}
        for chunk in p:chunks({ timeout = 20 }) do
          text[#text + 1] = chunk.data
        end
        text = table.concat(text)
        local rest = options.pty and 688895 or 588895
        assert.equal("1" .. newline, text:sub(1, 1 + #newline))
        assert.equal(rest, #text)
        assert.equal(3, p:wait().code)
        sb:close()
      end)

    everywhere(it, "is given its input by whoever is there", function(_, _, b)
      local sb = create(b)
      local p = sb:spawn("while read x; do echo got=$x; done", {
        stdin = "pipe", pty = options.pty and { echo = false },
      })
      local pid = p.pid
      for i = 1, 5 do
        p:write("a" .. i .. "\n")
        sb = again(b, sb)
        p = sb:process(pid)
      end
      p:write(("a\n"):rep(5000), { timeout = 20 })
      p:close_stdin()
      local r = p:wait({ timeout = 20 })
      assert.equal(0, r.code)
      assert.equal(5005, select(2, r.stdout:gsub("got=", "")))
      assert.truthy(r.stdout:find("got=a1" .. newline .. "got=a2", 1, true))
      sb:close()
    end)

    everywhere(it, "is signalled, waited for and killed", function(_, _, b)
      local sb = create(b)
      local function start(command)
        return sb:spawn(command, options).pid
      end
      local trapped = start("trap 'exit 9' USR1; echo ready;"
        .. "while :; do sleep 0.01; done")
      read_to(sb:process(trapped), "ready" .. newline)
      local child = start("sleep 7735 & wait")
      local stubborn = start("trap '' TERM; echo ready;"
        .. "while :; do sleep 0.01; done")
      read_to(sb:process(stubborn), "ready" .. newline)
      sb = again(b, sb)
      assert.is_true(sb:process(trapped):signal("USR1"))
      assert.equal(9, sb:process(trapped):wait({ timeout = 20 }).code)
      assert.is_false(sb:process(trapped):signal("USR1"))
      assert.equal("SIGKILL", sb:process(child):kill().signal)
      assert.equal(0, #env.pgrep({ "sleep", "7735" }))
      assert.is_true(sb:process(stubborn):close())
      assert.same({}, sb:processes())
      sb:close()
    end)
  end)
end

kind("pipes", {})
kind("a terminal", { pty = true })

describe("commands", function()
  everywhere(it, "keep their terminal's size and get a new one",
    function(_, _, b)
      local sb = create(b)
      local pid = sb:spawn("trap 'stty size' WINCH; echo ready;"
        .. "while :; do sleep 0.01; done", {
        pty = { cols = 91, rows = 17 },
      }).pid
      sb = again(b, sb)
      local p = sb:process(pid)
      read_to(p, "ready\r\n")
      assert.is_true(p:resize(101, 31))
      assert.equal("31 101\r\n", read_to(p, "\r\n"))
      sb:close()
    end)

  everywhere(it, "of exec run on, too, and are not kept once it has ended",
    function(_, _, b)
      local sb = create(b)
      for _ = 1, 5 do
        sb:exec({ "true" })
      end
      local pid = sb:spawn({ "true" }).pid
      ended(sb, pid)
      local err = raises("ClosedError", sb.exec, sb, "echo ready; exec sleep "
        .. "7737", {
        on_output = function()
          sb:detach()
        end,
      })
      assert.equal("ready\n", err.result and err.result.stdout or "ready\n")
      sb = b:attach(sb.id)
      local list = sb:processes({ all = true })
      assert.equal(2, #list)
      local running = sb:processes()
      assert.equal(1, #running)
      assert.same({ "/bin/sh", "-c", "echo ready; exec sleep 7737" },
        running[1].argv)
      sb:process(running[1].pid):kill()
      sb:close()
    end)

  everywhere(it, "have their time limit when nobody is there", function(_, _, b)
    local sb = create(b)
    local pid = sb:spawn("echo so far; exec sleep 7739", { timeout = 0.5 }).pid
    sb = again(b, sb)
    ended(sb, pid)
    local err = raises("TimeoutError", function()
      sb:process(pid):wait({ timeout = 20 })
    end)
    assert.equal("PCO_ETIMEDOUT", err.code)
    assert.equal("so far\n", err.result.stdout)
    sb:close()
  end)

  everywhere(it, "that have ended are known up to the last 256",
    function(_, _, b)
      local sb = create(b)
      local pids = {}
      for i = 1, 270 do
        local p <close> = sb:spawn("exit " .. i % 200)
        pids[i] = p.pid
        p:wait()
      end
      sb = again(b, sb)
      local list = sb:processes({ all = true })
      assert.equal(256, #list)
      for i, entry in ipairs(list) do
        assert.equal(pids[14 + i], entry.pid)
        assert.equal((14 + i) % 200, entry.code)
      end
      assert.equal(70, sb:process(pids[270]):wait().code)
      raises("NotFoundError", sb.process, sb, pids[1])
      sb:close()
    end)

  everywhere(it, "are many", function(_, _, b)
    local sb = create(b)
    local pids = {}
    for i = 1, 60 do
      pids[i] = sb:spawn("echo " .. i .. "; read x; echo $x; exit " .. i, {
        stdin = "pipe",
      }).pid
    end
    sb = again(b, sb)
    assert.equal(60, #sb:processes())
    -- Of one that is dropped after its end the output is thrown away.
    local held = {}
    for i = 1, 60 do
      held[i] = sb:process(pids[i])
      held[i]:write("x" .. i .. "\n")
    end
    sb = again(b, sb)
    for i = 1, 60 do
      local r = sb:process(pids[i]):wait({ timeout = 20 })
      assert.equal(i, r.code)
      assert.equal(i .. "\nx" .. i .. "\n", r.stdout)
    end
    sb:close()
  end)

  everywhere(it, "that write without an end hold nobody up", function(_, _, b)
    local sb = create(b)
    local pid = sb:spawn({ "yes" }).pid
    for _ = 1, 10 do
      sb = again(b, sb)
      local p = sb:process(pid)
      assert.truthy(p:read({ timeout = 20 }).data:find("y\n", 1, true))
      assert.equal("x", sb:output("echo x"))
    end
    sb:process(pid):kill()
    sb:close()
  end)
end)

it("what a failed test has left is ended", function()
  detached.remove(sync)
end)

it("leaves nothing behind", nothing_left)
