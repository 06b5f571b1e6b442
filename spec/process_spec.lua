-- Processes and their handles: what is kept when a handle goes, and calls on
-- what has ended.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

-- Starts a command, waits for its end, drops the object; returns the pid.
local function run_and_drop(sb, command, options)
  local p = sb:spawn(command, options)
  p:wait()
  return p.pid
end

-- Until the loop has heard of what the collector found.
local function collect(P)
  collectgarbage()
  collectgarbage()
  P.sleep(0.01)
end

describe("a closed stream", function()
  on_each(it, "fails where it is used, and nowhere else", function(_, sb)
    local r = sb:exec("cat; echo $?", { stdin = "closed" })
    assert.equal("1\n", r.stdout)
    assert.truthy(r.stderr:find("Bad file descriptor", 1, true), r.stderr)
    r = sb:exec("/bin/echo x || echo $? >&2", { stdout = "closed" })
    assert.same({ "", 0 }, { r.stdout, r.stdout_bytes })
    assert.truthy(r.stderr:find("Bad file descriptor\n1\n", 1, true), r.stderr)
    r = sb:exec("/bin/echo x >&2; echo $?", { stderr = "closed" })
    assert.same({ "1\n", "" }, { r.stdout, r.stderr })
    r = sb:exec("/bin/echo x >&2; exit $?",
      { stdout = "closed", stderr = "merge" })
    assert.equal(1, r.code)
  end)

  on_each(it, "keeps its number: no file that is opened gets it",
    function(_, sb)
      local r = sb:exec([[
        for fd in 0 1 2; do
          test "$(readlink /proc/$$/fd/$fd)" = /dev/null || exit 9
        done
        exit 4]], { stdin = "closed", stdout = "closed", stderr = "closed" })
      assert.equal(4, r.code)
    end)

  on_each(it, "is no terminal's", function(_, sb)
    local err = raises("InvalidArgumentError", sb.exec, sb, { "true" },
      { pty = true, stdin = "closed" })
    assert.truthy(err.message:find("with pty stdin is the terminal"))
  end)

  facades.on(it, "null", "is refused where commands are the backend's own",
    function(_, sandbox)
      local err = raises("UnsupportedError", sandbox.spawn, sandbox, { "true" },
        { stdout = "closed" })
      assert.truthy(err.message:find("null has no closed stdin, stdout or"))
    end)
end)

describe("exit status", function()
  on_each(it, "is kept when the object is gone", function(P, sb)
    local pid = run_and_drop(sb, "echo gone; exit 7")
    collect(P)
    local r = sb:process(pid):wait()
    assert.same({ 7, "exited", 5 }, { r.code, r.reason, r.stdout_bytes })
    assert.same({ "", false, true }, { r.stdout, r.truncated, r.eof })
    collect(P)
    assert.equal(7, sb:process(pid):poll().code)
  end)

  on_each(it, "is kept of those that nobody waited for", function(P, sb)
    local pid = sb:spawn("exec >&-; read x; kill -9 $$", { stdin = "pipe" }).pid
    collect(P)
    local r
    sb:process(pid):kill()
    collect(P)
    r = sb:process(pid):wait({ timeout = 10 })
    assert.same({ "SIGKILL", 137 }, { r.signal, r.code })
    -- One that ends after its object is gone.
    pid = sb:spawn("sleep 0.1; exit 9").pid
    collect(P)
    P.sleep(0.3)
    assert.equal(9, sb:process(pid):wait({ timeout = 10 }).code)
  end)

  on_each(it, "tells a time limit as before", function(P, sb)
    local pid
    do
      local p = sb:spawn({ "sleep", "30" }, { timeout = 0.1, grace = 0 })
      raises("TimeoutError", p.wait, p)
      pid = p.pid
    end
    collect(P)
    local p = sb:process(pid)
    local err = raises("TimeoutError", p.wait, p)
    assert.equal("timeout", err.result.reason)
  end)

  on_each(it, "is kept within a bound, the oldest goes first",
    function(P, sb)
      local pids = {}
      for i = 1, 300 do
        pids[i] = run_and_drop(sb, { "sh", "-c", "exit " .. i % 200 })
      end
      collect(P)
      local kept = sb:processes({ all = true })
      assert.is_true(#kept <= 257, #kept)
      for i = 60, 300 do
        assert.equal(i % 200, sb:process(pids[i]):wait().code)
      end
      raises("NotFoundError", sb.process, sb, pids[1])
    end)

  on_each(it, "is not kept for long command lines without end",
    function(P, sb)
      local long = ("x"):rep(100000)
      for _ = 1, 20 do
        run_and_drop(sb, { "true", long })
      end
      collect(P)
      local bytes = 0
      for _, entry in ipairs(sb:processes({ all = true })) do
        bytes = bytes + #table.concat(entry.argv)
      end
      assert.is_true(bytes > 0 and bytes <= 1200000, bytes)
    end)

  on_each(it, "is not kept of exec", function(_, sb)
    for i = 1, 5 do
      sb:exec("exit " .. i)
    end
    assert.same({}, sb:processes({ all = true }))
  end)

  on_each(it, "is listed beside what runs", function(_, sb)
    local running <close> = sb:spawn({ "sleep", "30" })
    local held = sb:spawn("exit 3")
    held:wait()
    local states = {}
    for _, entry in ipairs(sb:processes({ all = true })) do
      states[entry.pid] = entry
    end
    assert.equal("running", states[running.pid].state)
    assert.is_nil(states[running.pid].code)
    assert.same({ "exited", 3 },
      { states[held.pid].state, states[held.pid].code })
    assert.equal(1, #sb:processes())
    held:close()
  end)
end)

describe("a pid that can be none", function()
  on_each(it, "is refused as it was given", function(_, sb)
    for bad, got in pairs({
      [0] = "0", [-1] = "-1", [1.5] = "1.5", ["12"] = '"12"',
    }) do
      local ok, err = pcall(sb.process, sb, bad)
      assert.is_false(ok)
      assert.equal("PCO_EINVAL", err.code)
      assert.truthy(err.message:find("(got " .. got .. ")", 1, true),
        err.message)
    end
  end)
end)

describe("a second object of a process", function()
  on_each(it, "may go without taking the output with it", function(P, sb)
    local p <close> = sb:spawn("read x; echo $x", { stdin = "pipe" })
    do
      local again = sb:process(p.pid)
      assert.is_nil(again:poll())
    end
    collect(P)
    p:write("still here\n")
    assert.equal("still here\n", p:read().data)
    assert.equal(0, p:wait().code)
  end)

  on_each(it, "gives the same result", function(_, sb)
    local p <close> = sb:spawn("echo x; exit 5")
    local again = sb:process(p.pid)
    assert.equal(5, again:wait().code)
    assert.equal("x\n", p:wait().stdout)
  end)
end)

describe("a write to what has no stdin", function()
  on_each(it, "is a bug of the script", function(_, sb)
    local p <close> = sb:spawn({ "sleep", "30" })
    local err = raises("InvalidArgumentError", p.write, p, "x")
    assert.truthy(err.message:find('stdin = "pipe"', 1, true), err.message)
  end)
end)

describe("after the end", function()
  on_each(it, "each call has a defined, harmless answer", function(_, sb)
    local p = sb:spawn({ "cat" }, { stdin = "pipe" })
    p:kill()
    for _ = 1, 2 do
      assert.equal("EPIPE", raises("SystemError", p.write, p, "x").code)
      p:close_stdin()
      assert.is_false(p:signal("TERM"))
      assert.is_nil(p:read())
      assert.is_nil((p:chunks()()))
      assert.is_nil((p:lines()()))
      assert.equal("SIGKILL", p:wait().signal)
      assert.equal("SIGKILL", p:poll().signal)
      assert.equal("SIGKILL", p:kill().signal)
    end
    assert.is_true(p:close())
    assert.is_false(p:close())
    raises("ClosedError", p.write, p, "x")
  end)

  -- A number that belongs to another file now must not be written to.
  facades.everywhere(it, "an iterator says what was closed under it",
    function(P, backend)
      for what, expected in pairs({
        process = "the process is closed", sandbox = "the sandbox is closed",
      }) do
        for _, way in ipairs({ "chunks", "lines" }) do
          local sb = P.sandbox({ backend = backend.name })
          local p = sb:spawn("echo one; sleep 271.3; echo two")
          local iterator = p[way](p)
          iterator();
          ({ process = p, sandbox = sb })[what]:close()
          local err = raises("ClosedError", iterator)
          assert.same({ "iterator.next", expected },
            { err.operation, err.message })
          iterator:close()
          assert.is_nil(iterator())
          sb:close()
        end
      end
    end)

  on_each(it, "descriptors that were used again are left alone",
    function(_, sb)
      local p = sb:spawn({ "true" }, { stdin = "pipe" })
      p:wait()
      local path = os.tmpname()
      local files = {}
      for i = 1, 20 do
        files[i] = assert(io.open(path, "a"))
      end
      pcall(p.write, p, "x")
      p:close()
      for _, file in ipairs(files) do
        file:close()
      end
      assert.equal("", env.read(path))
      os.remove(path)
    end)
end)

describe("bad input:", function()
  local function message(class, fn, ...)
    return raises(class, fn, ...).message
  end

  on_each(it, "signals, with the nearest", function(_, sb)
    local p <close> = sb:spawn({ "sleep", "30" })
    for wrong, right in pairs({
      TREM = "TERM", SIGKIL = "SIGKILL", term = "TERM", sigint = "SIGINT",
      STOPP = "STOP",
    }) do
      local text = message("InvalidArgumentError", p.signal, p, wrong)
      assert.truthy(text:find('"' .. wrong .. '"', 1, true), text)
      assert.truthy(text:find('"' .. right .. '"?', 1, true), text)
    end
    for _, wrong in ipairs({ "", "XXXXXXXX", ("T"):rep(100), 65, -1, 0 / 0 }) do
      assert.truthy(message("InvalidArgumentError", p.signal, p, wrong)
        :find("from 1 to 64", 1, true))
    end
    assert.is_nil(p:poll())
  end)

  on_each(it, "times", function(_, sb)
    local p <close> = sb:spawn({ "sleep", "30" })
    for _, wrong in ipairs({ -1, -math.huge, 0 / 0, "1", {}, true }) do
      for _, key in ipairs({ "timeout", "grace", "drain" }) do
        local text = message("InvalidArgumentError", sb.exec, sb, { "true" },
          { [key] = wrong })
        assert.truthy(text:find(key, 1, true), text)
      end
      message("InvalidArgumentError", p.wait, p, { timeout = wrong })
      message("InvalidArgumentError", p.kill, p, { grace = wrong })
    end
    message("InvalidArgumentError", sb.exec, sb, { "true" }, { timeout = 0 })
    assert.is_nil(p:poll())
    local r = sb:exec({ "true" },
      { timeout = math.huge, grace = math.huge, drain = math.huge })
    assert.equal(0, r.code)
    r = sb:exec({ "true" }, { timeout = 1e300, grace = 1e300, drain = 1e300 })
    assert.equal(0, r.code)
    assert.equal(0, sb:spawn({ "true" }):wait({ timeout = math.huge }).code)
  end)

  on_each(it, "names and values of env", function(_, sb)
    for label, wrong in pairs({
      ["=' in the name"] = { ["A=B"] = "x" }, empty = { [""] = "x" },
      zero = { ["A\0B"] = "x" }, ["zero in the value"] = { A = "x\0y" },
      number = { "A=x" }, ["true"] = { A = true }, float = { A = 1.5 },
      table = { A = {} },
    }) do
      local text = message("InvalidArgumentError", sb.exec, sb, { "true" },
        { env = wrong })
      assert.truthy(text:find("env", 1, true), label .. ": " .. text)
    end
    message("InvalidArgumentError", sb.exec, sb, { "true" }, { env = "A=x" })
    assert.equal("1 -2 []\n",
      sb:exec("echo $A $B [$C]", { env = { A = 1, B = -2, C = "" } }).stdout)
  end)

  on_each(it, "words, cwd and streams", function(_, sb)
    for _, wrong in ipairs({
      { {} }, { { "true", {} } }, { { "a\0b" } }, { { "true", nil, "x" } },
      { { "true", cwd = "/" } }, { 5 }, { "" }, { { "true" }, { cwd = "" } },
      { { "true" }, { cwd = "a\0b" } }, { { "true" }, { stdin = "inherit" } },
      { { "true" }, { stdout = "merge" } }, { { "true" }, { stderr = 1 } },
      { { "true" }, { max_output = -1 } }, { { "true" }, { max_output = 1.5 } },
      { { "true" }, { input = 5 } }, { { "true" }, { stdin = "pipe" } },
      { { "true" }, { check = 1 } }, { { "true" }, "check" },
    }) do
      message("InvalidArgumentError", sb.exec, sb, table.unpack(wrong))
    end
  end)
end)

describe("too much for a start:", function()
  local function env_of(total)
    local big = {}
    for i = 1, total // 65536 do
      big["V" .. i] = ("x"):rep(65536 - 8)
    end
    return big
  end

  on_each(it, "a big environment arrives whole", function(_, sb)
    local r = sb:exec("env | wc -c", { env = env_of(1024 * 1024) })
    assert.is_true(tonumber(r.stdout) > 1024 * 1024 - 256, r.stdout)
  end)

  -- As much as the system takes is taken; more is E2BIG, never a cut.
  on_each(it, "2 MiB of environment and more", function(_, sb)
    for _, mib in ipairs({ 2, 3, 8 }) do
      for _, start in ipairs({ "exec", "spawn" }) do
        local err = raises("SpawnError", sb[start], sb, { "true" },
          { env = env_of(mib * 1024 * 1024) })
        assert.equal("E2BIG", err.code)
        assert.truthy(err.message:find("too", 1, true), err.message)
      end
    end
    local err = raises("SpawnError", sb.exec, sb, { "true" },
      { env = { A = ("x"):rep(200000) } })
    assert.equal("E2BIG", err.code)
    assert.equal(0, sb:exec({ "true" }).code)
  end)

  on_each(it, "arguments", function(_, sb)
    local err = raises("SpawnError", sb.exec, sb,
      { "true", ("x"):rep(1 << 17) })
    assert.equal("E2BIG", err.code)
    local words = { "true" }
    for i = 2, 300000 do
      words[i] = "12345678"
    end
    err = raises("SpawnError", sb.exec, sb, words)
    assert.equal("E2BIG", err.code)
    local some = table.move(words, 1, 10000, 1, {})
    assert.equal(0, sb:exec(some).code)
  end)

  it("leaves nothing behind", nothing_left)
end)
