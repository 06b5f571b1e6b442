-- The agent of a sandbox is killed while a call is on its way: the call ends
-- with a ConnectionError and what there was, the sandbox is dead and closes,
-- and nothing of it lives on.

local lfs = require("lfs")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local raises = facades.raises

-- An argv that only these tests use.
local SLEEP = { "sleep", "7717" }

local function child_of(pid)
  local tasks = ("/proc/%d/task/"):format(pid)
  for task in lfs.dir(tasks) do
    local text = env.read(tasks .. task .. "/children")
    local child = text and tonumber(text:match("%d+"))
    if child then
      return child
    end
  end
end

-- The agent of the sandbox whose first process is `pid`: that one, or the one
-- below it.
local function agent_below(pid)
  while env.read(("/proc/%d/comm"):format(pid)) ~= "portico-agent\n" do
    pid = assert(child_of(pid), "no agent below the first process")
  end
  return pid
end

-- Calls fn(sandbox, kill) with a fresh sandbox; kill(seconds, first) kills its
-- agent, or (where this account may not) its keeper, after so many seconds;
-- `first` is a signal that it gets at once.
local function with_victim(P, backend, fn)
  local before = backends.first_processes()
  facades.with_sandbox(P, { backend = backend.name }, function(sb)
    sb:exec({ "true" })
    local agent, first
    for pid in pairs(backends.first_processes()) do
      if not before[pid] then
        first, agent = pid, agent_below(pid)
      end
    end
    fn(sb, function(seconds, signal)
      local kill = "kill -%s %d 2>/dev/null || kill -%s %d"
      if signal then
        env.sh(kill:format(signal, agent, signal, first))
      end
      local last = kill:format("KILL", agent, "KILL", first)
      os.execute(("(sleep %g; %s) >/dev/null &"):format(seconds, last))
    end)
    assert.equal("dead", sb:info().state)
    raises("ConnectionError", sb.exec, sb, { "true" })
    raises("ConnectionError", sb.spawn, sb, { "true" })
    assert.is_true(sb:close())
  end)
  assert.is_true(env.eventually(20, function()
    return #env.pgrep(SLEEP) == 0
  end), "a command lives on")
end

-- Declares a test on each backend in both facades.
local function test(name, fn)
  facades.everywhere(it, name, function(P, backend)
    with_victim(P, backend, function(sb, kill)
      fn(sb, kill, P)
    end)
  end)
end

-- Its end by id takes until it is killed, since it was stopped.
facades.with(it, "local", "a destroy by id waits no longer than it may",
  function(P)
    local before = backends.first_processes()
    local sb <close> = P.sandbox({ backend = "local" })
    sb:exec({ "true" })
    for pid in pairs(backends.first_processes()) do
      if not before[pid] then
        env.sh("kill -STOP " .. agent_below(pid))
      end
    end
    local other = P.open("local")
    local err = raises("TimeoutError", other.destroy, other, sb.id,
      { timeout = 0.1 })
    assert.equal("PCO_ECALLTIMEOUT", err.code)
    other:close() -- ends when the order is carried out
    raises("ConnectionError", sb.exec, sb, { "true" })
  end)

local function gone(err)
  assert.equal("PCO_EGONE", err.code)
  assert.equal("gone", err.result.reason)
  assert.is_nil(err.result.code)
  return err.result
end

local SPEAKER = "echo partial; exec sleep 7717"

describe("the agent is killed during", function()
  test("exec", function(sb, kill)
    local err = raises("ConnectionError", sb.exec, sb, SPEAKER, {
      on_output = function()
        kill(0)
      end,
    })
    assert.equal("partial\n", gone(err).stdout)
  end)

  test("exec with input that nobody reads", function(sb, kill)
    local err = raises("ConnectionError", sb.exec, sb, SPEAKER, {
      input = ("x"):rep(4 << 20),
      on_output = function()
        kill(0)
      end,
    })
    assert.equal("partial\n", gone(err).stdout)
  end)

  test("read", function(sb, kill)
    local p = sb:spawn(SPEAKER)
    assert.equal("partial\n", p:read().data)
    kill(0.2)
    local err = raises("ConnectionError", p.read, p)
    assert.equal("PCO_EGONE", err.code)
    gone(raises("ConnectionError", p.wait, p))
  end)

  test("lines", function(sb, kill)
    local p = sb:spawn("echo one; printf two; exec sleep 7717")
    local lines = {}
    raises("ConnectionError", function()
      for line in p:lines() do
        lines[#lines + 1] = line
        kill(0.1)
      end
    end)
    assert.equal("one", lines[1])
  end)

  test("write", function(sb, kill)
    local p = sb:spawn(SLEEP, { stdin = "pipe" })
    kill(0.2)
    local ok, err = pcall(p.write, p, ("x"):rep(4 << 20))
    -- The command dies with its agent, so its pipe may break first.
    assert.is_false(ok)
    assert.truthy(errors.is(err, "ConnectionError") or err.code == "EPIPE", err)
    assert.is_true(err.written < 4 << 20, err.written)
    gone(raises("ConnectionError", p.wait, p))
  end)

  test("wait, with all that lay in the pipe", function(sb, kill)
    local p = sb:spawn("head -c 60000 /dev/zero; echo x >&2; exec sleep 7717")
    p:wait_for({ output = "x", stream = "stderr" })
    kill(0.2)
    local r = gone(raises("ConnectionError", p.wait, p))
    assert.same({ 60000, "x\n" }, { #r.stdout, r.stderr })
    gone(raises("ConnectionError", p.poll, p))
  end)

  test("wait_for", function(sb, kill)
    local p = sb:spawn(SPEAKER)
    kill(0.2)
    local err = raises("ConnectionError", p.wait_for, p, { output = "never" })
    assert.equal("partial\n", gone(err).stdout)
    gone(raises("ConnectionError", p.wait_for, p, { port = 9 }))
  end)

  test("wait_for a port", function(sb, kill)
    local p = sb:spawn(SPEAKER)
    kill(0.2)
    raises("ConnectionError", p.wait_for, p, { port = 9 })
  end)

  -- What the agent has to answer is on its way while it is stopped.
  test("spawn", function(sb, kill)
    kill(0.2, "STOP")
    local err = raises("ConnectionError", sb.spawn, sb, SLEEP)
    assert.same(SLEEP, err.argv)
  end)

  test("signal", function(sb, kill)
    local p = sb:spawn(SLEEP)
    kill(0.2, "STOP")
    raises("ConnectionError", p.signal, p, "TERM")
  end)

  test("kill", function(sb, kill)
    local p = sb:spawn(SPEAKER)
    p:wait_for({ output = "partial" })
    kill(0.2, "STOP")
    assert.equal("partial\n", gone(raises("ConnectionError", p.kill, p)).stdout)
    assert.is_true(p:close())
  end)

  test("close of a process", function(sb, kill)
    local p = sb:spawn(SLEEP)
    kill(0.2, "STOP")
    assert.is_true(p:close())
  end)

  test("work on files", function(sb, kill)
    sb.fs:write("f", ("x"):rep(1 << 20))
    kill(0.2, "STOP")
    raises("ConnectionError", sb.fs.write, sb.fs, "g", ("x"):rep(8 << 20))
    raises("ConnectionError", sb.fs.read, sb.fs, "f")
  end)

  test("a file that is open, and a watch", function(sb, kill)
    local file <close> = sb.fs:open("f", "w+")
    local watch <close> = sb.fs:watch(".")
    file:write("x")
    assert.equal("f", watch:next({ timeout = 20 }).path)
    kill(0.2, "STOP")
    raises("ConnectionError", file.write, file, ("x"):rep(8 << 20))
    raises("ConnectionError", watch.next, watch)
    raises("ConnectionError", sb.fs.open, sb.fs, "f")
  end)

  test("the wait for an event", function(sb, kill)
    local watch <close> = sb.fs:watch(".")
    kill(0.2)
    raises("ConnectionError", watch.next, watch)
  end)

  test("trees on their way, which leave nothing on the host",
    function(sb, kill)
      local dir = env.tmpdir()
      env.write(dir .. "/up", ("x"):rep(1 << 20))
      sb.fs:write("down", ("x"):rep(1 << 20))
      kill(0.2, "STOP")
      raises("ConnectionError", sb.upload, sb, dir .. "/up", "up")
      raises("ConnectionError", sb.download, sb, "down", dir .. "/down")
      local names = env.sh("ls -A " .. dir)
      env.rmdir(dir)
      assert.equal("up\n", names)
    end)

  test("commands with a terminal", function(sb, kill)
    local p = sb:spawn(SPEAKER, { pty = true })
    assert.equal("partial\r\n", p:read().data)
    kill(0.2, "STOP")
    raises("ConnectionError", p.write, p, ("x"):rep(8 << 20))
    raises("ConnectionError", p.resize, p, 100, 30)
    raises("ConnectionError", p.read, p)
    gone(raises("ConnectionError", p.wait, p))
  end)

  test("exec with a terminal, and a resize on its way", function(sb, kill)
    local p = sb:spawn(SLEEP, { pty = true })
    kill(0.2, "STOP")
    raises("ConnectionError", p.resize, p, 100, 30)
    raises("ConnectionError", sb.exec, sb, SPEAKER, { pty = true })
  end)

  test("exec with a terminal, with what it had said", function(sb, kill)
    local err = raises("ConnectionError", sb.exec, sb, SPEAKER, {
      pty = true, on_output = function()
        kill(0)
      end,
    })
    assert.equal("partial\r\n", gone(err).stdout)
  end)

  facades.everywhere(it, "many calls at once", function(P, backend)
    if facades.module_name(P) ~= "portico" then
      return -- one call at a time is above
    end
    with_victim(P, backend, function(sb, kill)
      local jobs, waiting = {}, 30
      local function spoken()
        waiting = waiting - 1
        if waiting == 0 then
          kill(0)
        end
      end
      for i = 1, waiting do
        jobs[i] = function()
          local err = raises("ConnectionError", sb.exec, sb, SPEAKER,
            { on_output = spoken })
          assert.equal("partial\n", gone(err).stdout)
        end
      end
      require("portico.task").all(jobs)
    end)
  end)

  it("leaves nothing behind", nothing_left)
end)
