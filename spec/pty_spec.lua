-- Commands with a terminal: situations 16 to 19, 31 and 33 of the collection of
-- cases, job control, sizes, floods, ends, and who holds on to a terminal.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

local MANY = 50
local MIB = 1 << 20
local SHELL = { "bash", "--norc", "--noprofile", "-i" }
local QUIET = { PS1 = "$ ", PS2 = "", HISTFILE = false, INPUTRC = "/dev/null" }

-- Reads on after `text` until it matches; returns all of it.
local function expect(p, pattern, text)
  text = text or ""
  while not text:find(pattern) do
    local chunk = p:read({ timeout = 20 })
    if not chunk then
      error(("the end came before %q: %q"):format(pattern, text), 2)
    end
    text = text .. chunk.data
  end
  return text
end

-- Reads to the end.
local function rest(p)
  local parts = {}
  for chunk in p:chunks({ timeout = 20 }) do
    parts[#parts + 1] = chunk.data
  end
  return table.concat(parts)
end

-- A shell with job control, at its first prompt.
local function shell(sb, options)
  local all = { pty = true, env = QUIET }
  for key, value in pairs(options or {}) do
    all[key] = value
  end
  local p = sb:spawn(SHELL, all)
  expect(p, "%$ ")
  return p
end

-- Types a line; reads up to what it prints, and the prompt behind that.
local function ask(p, line, pattern)
  p:write(line .. "\n")
  return expect(p, pattern .. ".-%$ ")
end

-- Waits until a shell's command is in the foreground: what is typed before is
-- not edited by the modes that it is read in.
local function foreground(sb, p, command)
  assert(env.eventually(10, function()
    return sb:output({ "ps", "-o", "stat=,args=", "--ppid", p.pid },
      { check = false }):find("^[SR]%+ +" .. command .. "$")
  end), command)
end

-- Whether a process of the sandbox ends.
local function gone(sb, pid)
  return env.eventually(10, function()
    return sb:exec({ "kill", "-0", pid }).code ~= 0
  end)
end

local function with_text(err, text)
  assert.truthy(err.message:find(text, 1, true), err.message)
end

describe("a terminal's bytes:", function()
  on_each(it, "case 16: as the terminal gives them", function(_, sb)
    assert.equal("a\n", sb:exec({ "printf", "a\n" }).stdout)
    assert.equal("a\r\n", sb:exec({ "printf", "a\n" }, { pty = true }).stdout)
    assert.equal("a\n",
      sb:exec("stty -opost; printf 'a\n'", { pty = true }).stdout)
    local r = sb:exec("echo out; echo err >&2", { pty = true })
    assert.equal("out\r\nerr\r\n", r.stdout)
    assert.equal("", r.stderr)
    assert.equal(#r.stdout, r.stdout_bytes)
    assert.is_true(r.eof)
    assert.equal("x\r", sb:output({ "echo", "x" }, { pty = true }))
  end)

  on_each(it, "case 16: all of them, both ways, in raw mode", function(_, sb)
    local bytes = env.all_bytes()
    local p <close> = sb:spawn("stty raw -echo; echo ready; cat",
      { pty = true })
    expect(p, "ready\n")
    p:write(bytes)
    local back = ""
    while #back < #bytes do
      back = back .. p:read({ timeout = 20 }).data
    end
    assert.equal(bytes, back)
  end)

  on_each(it, "case 18: the echo is off before the start", function(_, sb)
    local command = { "sh", "-c", "sleep 0.1; read x; echo got=$x" }
    local p = sb:spawn(command, { pty = { echo = false } })
    p:write("secret\n")
    assert.equal("got=secret\r\n", p:wait().stdout)
    p = sb:spawn(command, { pty = true })
    p:write("secret\n")
    assert.equal("secret\r\ngot=secret\r\n", p:wait().stdout)
  end)

  on_each(it, "are the stream pty", function(_, sb)
    local p = sb:spawn("echo a; echo b >&2; printf c", { pty = true })
    local lines = {}
    for line, stream in p:lines() do
      lines[#lines + 1] = stream .. " " .. line
    end
    assert.same({ "pty a\r", "pty b\r", "pty c" }, lines)
    local seen = {}
    local r = sb:exec("echo a; echo b >&2", {
      pty = true,
      on_output = function(chunk)
        seen[chunk.stream] = (seen[chunk.stream] or "") .. chunk.data
      end,
    })
    assert.same({ pty = "a\r\nb\r\n" }, seen)
    assert.equal("a\r\nb\r\n", r.stdout)
  end)

  on_each(it, "come without loss, 1 MiB out of it", function(_, sb)
    local command = "stty raw -echo; head -c " .. MIB .. " /dev/zero"
    assert.equal(MIB, #sb:exec(command, { pty = true }).stdout)
    local p = sb:spawn("seq 1 100000", { pty = true })
    local n = 0
    for line in p:lines() do
      n = n + 1
      assert(line == n .. "\r", n)
    end
    assert.equal(100000, n)
  end)

  on_each(it, "come without loss, 1 MiB into it", function(_, sb)
    local p = sb:spawn("stty raw -echo; echo ready; head -c " .. MIB
      .. " | cksum", { pty = true })
    expect(p, "ready\n")
    local data = ("0123456789abcdef"):rep(MIB // 16)
    p:write(data)
    local expected = sb:output({ "cksum" }, { input = data })
    assert.truthy(rest(p):find(expected, 1, true))
    assert.equal(0, p:wait().code)
  end)

  on_each(it, "of max_output keep head and tail", function(_, sb)
    local r = sb:exec("stty raw -echo; seq 1 20000",
      { pty = true, max_output = 1000 })
    assert.equal(1000, #r.stdout)
    assert.truthy(r.stdout:find("^1\n2\n"))
    assert.truthy(r.stdout:find("20000\n$"))
    assert.equal(r.stdout_bytes - 1000, r.truncated.stdout.bytes)
  end)

  on_each(it, "are held back while nobody reads", function(P, sb)
    local p = sb:spawn("stty raw -echo; head -c 4000000 /dev/zero; : >done",
      { pty = true })
    P.sleep(0.3)
    assert.is_false(sb.fs:exists("done"))
    assert.equal(4000000, #rest(p))
    assert.equal(0, p:wait().code)
    assert.is_true(sb.fs:exists("done"))
  end)

  on_each(it, "are given, however late, after the exit", function(P, sb)
    local p = sb:spawn("stty raw -echo; head -c 3000 /dev/zero; exit 4",
      { pty = true })
    P.sleep(0.4)
    assert.equal(3000, #rest(p))
    assert.equal(4, p:wait().code)
    local q = sb:spawn("stty raw -echo; seq 1 20000; exit 5", { pty = true })
    local parts, n = {}, 0
    for chunk in q:chunks() do
      n = n + 1
      parts[n] = chunk.data
      if n < 5 then
        P.sleep(0.1)
      end
    end
    assert.truthy(table.concat(parts):find("\n20000\n$"))
    assert.equal(5, q:wait().code)
  end)
end)

describe("the input of a terminal:", function()
  on_each(it, "exec types it, and Ctrl-D behind it", function(_, sb)
    for _, text in ipairs({ "", "a\n", "a\nb", "no newline" }) do
      local r = sb:exec({ "cat" },
        { pty = { echo = false }, input = text, timeout = 20 })
      assert.equal((text:gsub("\n", "\r\n")), r.stdout)
    end
    local parts = { "one\n", "two" }
    local r = sb:exec({ "cat" }, {
      pty = { echo = false }, timeout = 20,
      input = function()
        return table.remove(parts, 1)
      end,
    })
    assert.equal("one\r\ntwo", r.stdout)
  end)

  on_each(it, "exec without input gives the end at once", function(_, sb)
    assert.equal("", sb:exec({ "cat" }, { pty = true, timeout = 20 }).stdout)
  end)

  on_each(it, "close_stdin is Ctrl-D, and one can write on", function(_, sb)
    local p = sb:spawn("cat; echo [one]; cat; echo [two]",
      { pty = { echo = false } })
    p:write("a\n")
    p:close_stdin()
    expect(p, "a\r\n%[one%]")
    p:write("unfinished")
    p:close_stdin()
    assert.truthy(rest(p):find("unfinished[two]", 1, true))
    assert.equal(0, p:wait().code)
    raises("SystemError", p.write, p, "x")
    p:close_stdin()
  end)

  on_each(it, "a program that reads nothing holds the writer", function(_, sb)
    local p <close> = sb:spawn("stty raw -echo; echo ready; sleep 1000",
      { pty = true })
    expect(p, "ready")
    local err = raises("TimeoutError", p.write, p, ("x"):rep(MIB),
      { timeout = 0.3 })
    assert.equal("PCO_ECALLTIMEOUT", err.code)
    assert.is_true(err.written > 0 and err.written < MIB)
    p:kill()
  end)

  on_each(it, "ends with the command", function(_, sb)
    local p = sb:spawn("stty raw -echo; echo ready; read x",
      { pty = true })
    expect(p, "ready")
    local ok, err
    repeat
      ok, err = pcall(p.write, p, ("x\n"):rep(100000), { timeout = 20 })
    until not ok
    assert.equal("EPIPE", err.code)
    p:wait()
  end)
end)

describe("the size of a terminal:", function()
  on_each(it, "is 80 by 24, or what was asked for", function(_, sb)
    assert.equal("24 80\r", sb:output({ "stty", "size" }, { pty = true }))
    assert.equal("40 100\r", sb:output({ "stty", "size" },
      { pty = { cols = 100, rows = 40 } }))
    assert.equal("65535 1\r", sb:output({ "stty", "size" },
      { pty = { cols = 1, rows = 65535 } }))
  end)

  on_each(it, "case 31: travels by ioctl and SIGWINCH only", function(_, sb)
    local p = sb:spawn({ "sh" }, { pty = { cols = 80, rows = 24 } })
    p:write("echo c=[$COLUMNS]l=[$LINES]t=[$TERM]\n")
    expect(p, "c=%[%]l=%[%]t=%[xterm%-256color%]")
    p:write("trap 'echo winch' WINCH; echo set'ting'\n")
    expect(p, "setting\r\n")
    assert.is_true(p:resize(120, 40))
    p:write("stty size\nexit\n")
    local text = rest(p)
    assert.truthy(text:find("40 120", 1, true), text)
    assert.truthy(text:find("winch", 1, true), text)
    p:wait()
  end)

  on_each(it, "case 17: can be set at any time", function(_, sb)
    local p = sb:spawn({ "true" }, { pty = true })
    p:wait()
    assert.is_false(p:resize(100, 30))
    for _, size in ipairs({ 0, -1, 65536, 70000, 1.5, "a", "80", false }) do
      for _, sizes in ipairs({ { size, 24 }, { 80, size } }) do
        local err = raises("InvalidArgumentError", p.resize, p,
          table.unpack(sizes))
        with_text(err, "1 to 65535")
      end
    end
    raises("InvalidArgumentError", p.resize, p, 80)
    p:close()
    raises("ClosedError", p.resize, p, 100, 30)
    raises("ClosedError", p.write, p, "x")
    local plain = sb:spawn({ "sleep", "30" })
    with_text(raises("InvalidArgumentError", plain.resize, plain, 80, 24),
      "no terminal")
    plain:kill()
  end)

  on_each(it, "reaches what runs meanwhile", function(_, sb)
    local p = sb:spawn("while :; do stty size; done",
      { pty = { echo = false } })
    expect(p, "24 80\r\n")
    assert.is_true(p:resize(33, 44))
    expect(p, "44 33\r\n")
    local r = p:kill()
    assert.equal("SIGKILL", r.signal)
    assert.is_false(p:resize(1, 1))
  end)
end)

describe("what a command with a terminal sees:", function()
  on_each(it, "a terminal of its own session", function(_, sb)
    local r = sb:exec([[tty
      test -t 0 && test -t 1 && test -t 2 && echo all
      (exec 3<>/dev/tty) && echo opened
      echo again >/dev/tty
      test "$(stat -c %u "$(tty)")" = "$(id -u)" && echo mine
      ls /proc/self/fd | wc -l
      for s in INT QUIT TSTP TTOU HUP; do
        trap "echo got $s" $s; kill -$s $$
      done]], { pty = true })
    local seen = {}
    for line in r.stdout:gmatch("[^\r\n]+") do
      seen[#seen + 1] = line
    end
    assert.truthy(seen[1]:find("^/dev/pts/%d+$"), r.stdout)
    assert.same({ "all", "opened", "again", "mine", "4", "got INT",
      "got QUIT", "got TSTP", "got TTOU", "got HUP" },
      table.move(seen, 2, #seen, 1, {}))
  end)

  on_each(it, "case 19: none without pty", function(_, sb)
    local r = sb:exec({ "sh", "-c",
      "tty; (exec 3<>/dev/tty) 2>/dev/null && echo OPENED || echo none" })
    assert.equal("not a tty\nnone\n", r.stdout)
    assert.equal("none", sb:output("echo ${TERM-none}"))
  end)

  -- script(1) gives the host one.
  if select(2, env.sh("command -v script >/dev/null")) ~= 0 then
    pending("case 19: nor with a host that has one: there is no script(1)")
  else
    facades.everywhere(it, "case 19: nor with a host that has one",
      function(P, backend)
        local path = os.tmpname()
        env.write(path, ([[
          local P = require(%q)
          P.run(function()
            local sb <close> = P.sandbox({ backend = %q })
            print(sb:output("tty; (exec 3<>/dev/tty) 2>/dev/null && echo OPENED"
              .. " || echo none"))
          end)
          print(io.open("/dev/tty") and "a terminal")
        ]]):format(facades.module_name(P), backend.name))
        local output = env.sh("script -qec " .. env.quoted("lua5.4 " .. path)
          .. " /dev/null </dev/null")
        os.remove(path)
        assert.equal("not a tty\r\nnone\r\na terminal\r\n", output)
      end)
  end

  on_each(it, "TERM, unless env says otherwise", function(_, sb)
    local function term(options)
      options.pty = true
      return sb:output("echo ${TERM-none}", options)
    end
    assert.equal("xterm-256color\r", term({}))
    assert.equal("vt100\r", term({ env = { TERM = "vt100" } }))
    assert.equal("none\r", term({ env = { TERM = false } }))
    assert.equal("none\r", term({ clean_env = true, env = {
      PATH = "/usr/bin:/bin",
    } }))
  end)

  facades.everywhere(it, "TERM of its sandbox", function(P, backend)
    facades.with_sandbox(P, { backend = backend.name, env = {
      TERM = "screen",
    } }, function(sb)
      assert.equal("screen\r", sb:output("echo $TERM", { pty = true }))
    end)
  end)

  on_each(it, "case 33: its working directory", function(_, sb)
    local root = sb:output("pwd")
    sb.fs:mkdir("inside/a b/ü", { parents = true })
    assert.equal(root .. "/inside/a b/ü\r",
      sb:output({ "pwd" }, { pty = true, cwd = "inside/a b/ü" }))
    for _, cwd in ipairs({ "missing", "/only/host" }) do
      local err = raises("SpawnError", sb.exec, sb, { "pwd" },
        { pty = true, cwd = cwd })
      assert.equal("ENOENT", err.code)
      assert.equal(cwd, err.path)
    end
    local err = raises("SpawnError", sb.spawn, sb, { "no-such-program" },
      { pty = true })
    assert.equal("ENOENT", err.code)
  end)

  facades.on(it, "bwrap", "no terminal of another sandbox", function(P, sb)
    local other <close> = P.sandbox({ backend = "bwrap" })
    local p <close> = other:spawn({ "cat" }, { pty = true })
    p:write("x\n")
    expect(p, "x\r\nx")
    assert.equal("ptmx", sb:output({ "ls", "/dev/pts" }))
    assert.equal("0  ptmx\r", sb:output({ "ls", "/dev/pts" }, { pty = true }))
    assert.equal("0\nptmx", other:output({ "ls", "/dev/pts" }))
  end)
end)

describe("job control:", function()
  on_each(it, "Ctrl-C interrupts what runs in the foreground",
    function(_, sb)
      local p <close> = shell(sb)
      p:write("sleep 1000; echo code=$?\n")
      foreground(sb, p, "sleep 1000")
      p:write("\3")
      expect(p, "%^C")
      ask(p, "echo al'ive'", "alive")
      p:write("exit 3\n")
      assert.equal(3, p:wait().code)
    end)

  on_each(it, "Ctrl-Z stops it, fg goes on with it", function(_, sb)
    local p <close> = shell(sb)
    p:write("cat\n")
    foreground(sb, p, "cat")
    p:write("one\n")
    expect(p, "one\r\n.*one\r\n")
    p:write("\26")
    expect(p, "Stopped.*%$ ")
    ask(p, "jobs", "%[1%]%+ +Stopped")
    p:write("fg\n")
    foreground(sb, p, "cat")
    p:write("two\n")
    expect(p, "two\r\n.*two\r\n")
    p:write("\4")
    ask(p, "echo code=$?", "code=0")
    p:write("exit\n")
    assert.equal(0, p:wait().code)
  end)

  on_each(it, "Ctrl-D ends a cat", function(_, sb)
    local p = sb:spawn({ "cat" }, { pty = { echo = false } })
    p:write("a\n\4")
    local r = p:wait({ timeout = 20 })
    assert.same({ "a\r\n", 0 }, { r.stdout, r.code })
  end)

  on_each(it, "Ctrl-C ends a command of exec", function(_, sb)
    local r = sb:exec({ "sleep", "1000" },
      { pty = true, input = "\3", timeout = 20 })
    assert.same({ "SIGINT", 130 }, { r.signal, r.code })
  end)
end)

describe("the end of a command with a terminal:", function()
  on_each(it, "a holder of the terminal is not waited for", function(_, sb)
    -- ignored before the fork, since the hang-up may come before the setsid
    local r = sb:exec("trap '' HUP; setsid sleep 1000 & echo x",
      { pty = true, timeout = 20 })
    assert.equal("x\r\n", r.stdout)
    assert.is_false(r.eof)
    r = sb:spawn("trap '' HUP; setsid sleep 1000 & echo y",
      { pty = true, drain = 0 }):wait({ timeout = 20 })
    assert.equal("y\r\n", r.stdout)
  end)

  on_each(it, "nor one that floods it", function(_, sb)
    local r = sb:exec("trap '' HUP; setsid yes & echo $!; sleep 0.1",
      { pty = true, drain = 0.1, timeout = 20, max_output = 1000 })
    assert.equal(0, r.code)
    assert.is_false(r.eof)
    -- the flood's terminal is gone, and with it the flood
    assert.is_true(gone(sb, r.stdout:match("%d+")))
  end)

  on_each(it, "background jobs of its session are hung up", function(_, sb)
    local r = sb:exec("sleep 1000 & echo $!", { pty = true, timeout = 20 })
    assert.is_true(r.eof)
    assert.is_true(gone(sb, r.stdout:match("%d+")))
  end)

  on_each(it, "a terminal that was closed can be opened again",
    function(_, sb)
      local r = sb:exec("exec <&- >&- 2>&-; sleep 0.1; echo back >/dev/tty",
        { pty = true, timeout = 20 })
      assert.equal("back\r\n", r.stdout)
    end)

  on_each(it, "close hangs up: a shell that ignores TERM goes at once",
    function(_, sb)
      local p = shell(sb)
      assert.is_true(facades.timed(p.close, p, { grace = 60 }) < 30)
      p = sb:spawn("trap '' TERM; trap 'echo hup >hup; exit' HUP; echo ready;"
        .. "while :; do sleep 0.01; done", { pty = true })
      expect(p, "ready")
      assert.is_true(facades.timed(p.close, p, { grace = 60 }) < 30)
      assert.equal("hup\n", sb.fs:read("hup"))
    end)

  on_each(it, "kill and time limit", function(_, sb)
    local p = sb:spawn("trap '' HUP INT TERM; echo x; sleep 1000",
      { pty = true })
    expect(p, "x")
    local r = p:kill({ grace = 0.1 })
    assert.same({ "SIGKILL", "killed" }, { r.signal, r.reason })
    local err = raises("TimeoutError", sb.exec, sb, "echo y; sleep 1000",
      { pty = true, timeout = 0.3, grace = 0.1 })
    assert.equal("PCO_ETIMEDOUT", err.code)
    assert.equal("y\r\n", err.result.stdout)
  end)

  facades.everywhere(it, "with its sandbox", function(P, backend)
    local sb = P.sandbox({ backend = backend.name })
    local p = shell(sb)
    sb:close()
    raises("ClosedError", p.read, p)
    raises("ClosedError", p.resize, p, 1, 1)
  end)

  on_each(it, "a dropped one runs on", function(_, sb)
    sb:spawn(
      "stty raw -echo; head -c 2000000 /dev/zero; : >done", { pty = true })
    collectgarbage()
    collectgarbage()
    assert.is_true(env.eventually(20, function()
      sb:exec({ "true" })
      return sb.fs:exists("done")
    end))
  end)
end)

describe("programs:", function()
  local function has(sb, command)
    return sb:exec(command .. " >/dev/null 2>&1").code == 0
  end

  on_each(it, "one that uses curses", function(_, sb)
    if not has(sb, "python3 -c 'import curses'") then
      pending("there is no python3 with curses")
    end
    local p = sb:spawn({ "python3", "-c", [[
import curses
def main(screen):
  curses.use_default_colors()
  screen.addstr(1, 2, "size %d %d" % screen.getmaxyx())
  screen.refresh()
  while True:
    key = screen.getch()
    if key == curses.KEY_RESIZE:
      screen.addstr(2, 2, "now %d %d" % screen.getmaxyx())
    elif key == curses.KEY_UP:
      screen.addstr(3, 2, "up")
    elif key == ord("q"):
      return
    screen.refresh()
curses.wrapper(main)
print("left")
]] }, { pty = true })
    expect(p, "size 24 80")
    p:resize(100, 30)
    p:write(" ") -- curses forgets to wake for a signal just before it reads
    expect(p, "now 30 100")
    p:write("\27OA")
    expect(p, "up")
    p:write("q")
    expect(p, "left")
    assert.equal(0, p:wait().code)
  end)

  on_each(it, "one that makes a terminal itself", function(_, sb)
    if not has(sb, "command -v script") then
      pending("there is no script(1)")
    end
    local r = sb:exec({ "script", "-qec", "tty; stty size", "/dev/null" },
      { pty = { cols = 70, rows = 20 }, timeout = 20 })
    assert.truthy(r.stdout:find("/dev/pts/%d+\r\n20 70\r\n"), r.stdout)
  end)
end)

describe("many terminals:", function()
  on_each(it, "at once, and none is left", function(_, sb)
    local all = {}
    for i = 1, MANY do
      all[i] = sb:spawn("read x; echo got=$x; exit " .. i % 10,
        { pty = { echo = false } })
    end
    for i = 1, MANY do
      all[i]:write(i .. "\n")
    end
    for i = 1, MANY do
      local r = all[i]:wait({ timeout = 60 })
      assert.same({ "got=" .. i .. "\r\n", i % 10, true },
        { r.stdout, r.code, r.eof })
    end
    -- the numbers of terminals are given out again from the lowest
    local name = sb:output({ "tty" }, { pty = true })
    assert.is_true(tonumber(name:match("%d+")) < MANY, name)
  end)

  on_each(it, "one after the other", function(_, sb)
    for i = 1, 200 do
      local r = sb:exec({ "echo", "running" }, { pty = true })
      assert(r.code == 0 and r.stdout == "running\r\n", i)
    end
  end)
end)

describe("pty, the option:", function()
  on_each(it, "is checked", function(_, sb)
    for text, options in pairs({
      ["pty must be true"] = { pty = 5 },
      ["did you mean \"cols\""] = { pty = { col = 5 } },
      ["pty.cols must be an integer from 1 to 65535 (got 0)"] = {
        pty = { cols = 0 },
      },
      ["pty.rows must be an integer from 1 to 65535 (got \"a\")"] = {
        pty = { rows = "a" },
      },
      ["echo must be true or false"] = { pty = { echo = 1 } },
      ["leave out stderr"] = { pty = true, stderr = "merge" },
      ["leave out stdout"] = { pty = true, stdout = "null" },
    }) do
      for _, start in ipairs({ "exec", "spawn", "output" }) do
        with_text(raises("InvalidArgumentError", sb[start], sb, { "true" },
          options), text)
      end
    end
    assert.equal("", sb:exec({ "true" }, { pty = false }).stdout)
    assert.equal("a\r\n", sb:spawn({ "echo", "a" },
      { pty = true, stdin = "pipe" }):wait().stdout)
  end)

  facades.both(it, "is not for backends that have none [null]", function(P)
    local sb <close> = P.sandbox({ backend = "null" })
    for _, start in ipairs({ "exec", "spawn" }) do
      with_text(raises("UnsupportedError", sb[start], sb, { "true" },
        { pty = true }), "pty")
    end
    assert.equal("missing", sb.backend:probe().capabilities.pty.level)
  end)
end)

it("nothing is left", nothing_left)
