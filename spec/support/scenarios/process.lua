-- Scenarios: Process, Result and Iterator.

local env = require("spec.support.env")
local scenarios = require("spec.support.scenarios.list").new()
local add = scenarios.add
local portable = scenarios.portable

local BYTES = env.all_bytes()

portable("Process: spawn and wait", function(P, sb, t)
  local p = sb:spawn({ "echo", "hi" })
  t:note("fields", math.type(p.pid), p.argv, p.sandbox == sb, p.closed)
  t:note("class", getmetatable(p).__index == P.Process)
  local result = p:wait()
  t:note("result", result, getmetatable(result).__index == P.Result)
  t:note("again", rawequal(p:wait(), result), rawequal(p:poll(), result))
  t:note("check", rawequal(result:check(), result))
  t:note("text", tostring(result))
  local failed = sb:spawn({ "false" })
  t:raises("ExitError", nil, "check", function()
    return failed:wait():check()
  end)
  local checked = sb:spawn({ "false" }, { check = true })
  t:raises("ExitError", nil, "check option", checked.wait, checked)
  t:raises("SpawnError", "ENOENT", "missing", sb.spawn, sb,
    { "no-such-command-here" })
end)

portable("Process: spawn, bad options", function(_, sb, t)
  for label, options in pairs({
    input = { input = "x" }, on_output = { on_output = print },
    tee = { tee = true }, nearest = { timout = 1 }, stdin = { stdin = 5 },
  }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", "\1" .. label, sb.spawn, sb,
      { "true" }, options)
  end
end)

portable("Process: write, close_stdin, read", function(_, sb, t)
  local p = sb:spawn({ "cat" }, { stdin = "pipe" })
  t:try("write", p.write, p, BYTES)
  t:try("chunk", p.read, p)
  t:try("empty", p.write, p, "")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "number", p.write, p, {})
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", p.write, p)
  t:raises("TimeoutError", "PCO_ECALLTIMEOUT", "none yet", p.read, p,
    { timeout = 0.05 })
  t:try("nothing yet", p.read, p, { timeout = 0 })
  t:raises("TimeoutError", "PCO_ECALLTIMEOUT", "runs", p.wait, p,
    { timeout = 0.05 })
  t:try("close", p.close_stdin, p)
  t:try("again", p.close_stdin, p)
  t:try("write then", p.write, p, "x")
  t:try("end", p.read, p)
  t:try("end again", p.read, p)
  t:try("wait", p.wait, p)
  local silent = sb:spawn({ "true" })
  t:try("no pipe", silent.write, silent, "x")
  t:try("no pipe to close", silent.close_stdin, silent)
  silent:wait()
end)

portable("Process: chunks and lines", function(P, sb, t)
  local p = sb:spawn({ "cat" }, { stdin = "pipe" })
  p:write("one\ntwo\n\nlast")
  p:close_stdin()
  local lines = table.pack(p:lines())
  t:note("triple", lines.n, lines[2], lines[3], rawequal(lines[1], lines[4]))
  t:note("class", getmetatable(lines[1]).__index == P.Iterator,
    getmetatable(lines[1]).__name, type(tostring(lines[1])))
  for line, stream in table.unpack(lines, 1, 4) do
    t:note("line", line, stream)
  end
  t:note("result", p:wait().stdout, p:wait().stdout_bytes)
  local q = sb:spawn({ "echo", "abc" })
  local all = {}
  for chunk in q:chunks() do
    all[#all + 1] = chunk.data
    t:note("stream", chunk.stream)
  end
  t:note("all", table.concat(all))
  local it = q:chunks()
  t:note("end", it())
  t:note("close", it:close(), it:close())
  t:try("after", it)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "option", q.lines, q,
    { tiemout = 1 })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "option", q.chunks, q, 5)
  q:wait()
end)

portable("Process: break ends the reader only", function(_, sb, t)
  local p = sb:spawn({ "cat" }, { stdin = "pipe" })
  p:write("one\ntwo\nthree\n")
  p:close_stdin()
  for line in p:lines() do -- luacheck: ignore 512
    t:note("first", line)
    break
  end
  for line in p:lines() do
    t:note("then", line)
  end
  t:note("code", p:wait().code)
end)

portable("Process: two readers", function(_, sb, t)
  local p = sb:spawn({ "cat" }, { stdin = "pipe" })
  local it <close> = p:lines()
  t:raises("UsageError", "PCO_EBUSY", "second", p.lines, p)
  t:raises("UsageError", "PCO_EBUSY", "read", p.read, p)
  it:close()
  p:write("x\n")
  t:note("then", (p:read() or {}).data)
  p:kill()
end)

portable("Process: poll, signal, kill, close", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  t:note("poll", p:poll())
  t:try("signal", p.signal, p, "TERM")
  local result = p:wait()
  t:note("signalled", result.code, result.signal, result.reason, result.ok)
  t:try("signal after", p.signal, p, "SIGTERM")
  t:try("kill after", p.kill, p)
  for label, name in pairs({
    unknown = "NOPE", empty = "", number = 0, big = 1000, float = 1.5,
    table = {},
  }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", "\1" .. label, p.signal, p,
      name)
  end
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", p.signal, p)
  local q = sb:spawn({ "sleep", "30" })
  t:note("number", (q:signal(15)))
  t:note("15", q:wait().signal)
  local r = sb:spawn({ "sleep", "30" })
  result = r:kill()
  t:note("killed", result.signal, result.reason, rawequal(r:wait(), result))
  local s = sb:spawn({ "sleep", "30" })
  result = s:kill({ grace = 1 })
  t:note("with grace", result.signal, result.reason)
  t:note("close", s:close(), s:close(), s.closed)
  local u = sb:spawn({ "sleep", "30" })
  t:note("close", u:close({ grace = 0.5 }), u.closed)
  t:raises("ClosedError", "PCO_ECLOSED", "read", u.read, u)
  t:try("wait", u.wait, u)
  t:try("signal", u.signal, u, "TERM")
  t:try("lines", u.lines, u)
  t:try("kill", u.kill, u)
  local v = sb:spawn({ "sleep", "30" })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "kill option", v.kill, v,
    { garce = 1 })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "grace", v.kill, v,
    { grace = -1 })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "close option", v.close, v,
    { garce = 1 })
  t:note("alive", v:poll(), v:close())
end)

portable("Process: wait_for", function(_, sb, t)
  local p = sb:spawn({ "cat" }, { stdin = "pipe" })
  t:raises("TimeoutError", "PCO_ECALLTIMEOUT", "silent", p.wait_for, p,
    { output = "x" }, { timeout = 0.05 })
  p:write("one two\nthree\n")
  t:note("all", p:wait_for({ output = "two\nt" }))
  t:note("captures", p:wait_for({ output = "(o%a+)() (%a+)" }))
  t:note("ready", p:wait_for({ output = "^one", stream = "stdout" },
    { timeout = 0 }))
  t:raises("TimeoutError", "PCO_ECALLTIMEOUT", "elsewhere", p.wait_for, p,
    { output = "one", stream = "stderr" }, { timeout = 0.05 })
  t:note("nothing taken", p:read().data)
  for label, condition in pairs({
    both = { output = "x", port = 1 }, neither = {}, text = "x",
    pattern = { output = 5 }, port = { port = 0 }, high = { port = 65536 },
    float = { port = 80.5 }, name = { outptu = "x" },
    stream = { output = "x", stream = "stdin" },
    port_stream = { port = 80, stream = "stdout" },
    malformed = { output = "[" },
  }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", "\1" .. label, p.wait_for,
      p, condition)
  end
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", p.wait_for, p)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "option", p.wait_for, p,
    { output = "x" }, { tiemout = 1 })
  local reader = p:lines()
  t:raises("UsageError", "PCO_EBUSY", "reader", p.wait_for, p,
    { output = "x" })
  reader:close()
  p:write("last")
  p:close_stdin()
  local err = t:raises("ExitError", "PCO_EEXIT", "ended", p.wait_for, p,
    { output = "more" })
  t:note("result", err.result, rawequal(p:wait(), p:poll()))
  local q = sb:spawn({ "sleep", "30" })
  q:close()
  t:raises("ClosedError", "PCO_ECLOSED", "closed", q.wait_for, q,
    { port = 80 })
end)

portable("Process: resize without a terminal", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "plain", p.resize, p, 80, 24)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "size", p.resize, p, 0, 24)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", p.resize, p)
  p:close()
  t:raises("ClosedError", "PCO_ECLOSED", "closed", p.resize, p, 80, 24)
end)

add("Process: a terminal", function(_, sb, t)
  local p = sb:spawn("stty size; read x; stty size; echo got=$x",
    { pty = { cols = 70, rows = 20, echo = false } })
  t:note("first", p:read())
  t:note("resize", p:resize(100, 30))
  t:raises("InvalidArgumentError", "PCO_EINVAL", "option", p.resize, p, 1, 1,
    { tiemout = 1 })
  p:write("word\n")
  for line, stream in p:lines() do
    t:note(stream, line)
  end
  t:note("result", p:wait())
  t:note("late", p:resize(1, 1))
  t:try("write after", p.write, p, "x")
  t:try("close_stdin after", p.close_stdin, p)
  local q = sb:spawn({ "cat" }, { pty = true })
  q:write("a\n")
  q:close_stdin()
  t:note("cat", q:wait().stdout)
  local r = sb:spawn({ "sleep", "30" }, { pty = true })
  t:note("close", r:close(), r:close())
end)

portable("Process: timeout of spawn", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" }, { timeout = 0.2, grace = 0.2 })
  local err = t:raises("TimeoutError", "PCO_ETIMEDOUT", "wait", p.wait, p)
  t:note("reason", err.result.reason)
  t:try("again", p.wait, p)
end)

add("Process: wait_for a port", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  t:raises("TimeoutError", "PCO_ECALLTIMEOUT", "none", p.wait_for, p,
    { port = 9 }, { timeout = 0.1 })
  p:signal("KILL")
  local err = t:raises("ExitError", "PCO_EEXIT", "ended", p.wait_for, p,
    { port = 9 })
  t:note("result", err.result.signal, err.result.reason)
end)

add("Process: both streams", function(_, sb, t)
  local p = sb:spawn("echo out; sleep 0.1; echo err >&2; sleep 0.1; echo end")
  for line, stream in p:lines() do
    t:note(stream, line)
  end
  local q = sb:spawn("cat; echo done", { stdin = "pipe" })
  q:write(("x"):rep(1 << 16))
  q:close_stdin()
  local count = 0
  for chunk in q:chunks({ timeout = 10 }) do
    count = count + #chunk.data
  end
  t:note("bytes", count, q:wait().stdout_bytes)
  local r = sb:spawn("exec 0<&-; sleep 0.2", { stdin = "pipe" })
  local ok, err
  repeat
    ok, err = pcall(r.write, r, ("x"):rep(1 << 20), { timeout = 5 })
  until not ok
  t:note("nobody reads", err)
  r:wait()
end)

return scenarios
