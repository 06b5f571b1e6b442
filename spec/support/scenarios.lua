-- What both facades are put through, and must answer in the same way.
--
-- A scenario is {name, portable, fn}: fn(P, sb, t) gets a facade, a fresh
-- sandbox and a notebook. Portable ones need no shell and run on every
-- backend, the others on `local`. The notebook:
--   t:note(label, ...)          writes values down
--   t:try(label, fn, ...)       writes down what a call gives, or raises;
--                               returns the error
--   t:raises(class, code, label, fn, ...)   the same, and insists
--   t.other                     the same objects of the other facade
--   t.backend                   name of the backend
-- What was written down is compared, in its order; labels that begin with \1
-- belong to a walk in no order, and are sorted first.

local env = require("spec.support.env")

local scenarios = {}

local function add(name, fn)
  scenarios[#scenarios + 1] = { name = name, fn = fn }
end

local function portable(name, fn)
  scenarios[#scenarios + 1] = { name = name, fn = fn, portable = true }
end

local BYTES = env.all_bytes()

-- Module members ---------------------------------------------------------

portable("module: version and classes", function(P, _, t)
  t:note("version", P.version, P._VERSION)
  t:note("classes", type(P.Backend), type(P.Sandbox), type(P.FileSystem),
    type(P.Process), type(P.Result), type(P.Iterator), type(P.errors))
end)

portable("module: backends", function(P, _, t)
  local names = {}
  for _, entry in ipairs(P.backends()) do
    names[entry.name] = true
    t:note("entry", entry.name, type(entry.path))
  end
  t:note("found", names["local"], names["null"])
end)

portable("module: quote", function(P, _, t)
  t:try("none", P.quote)
  t:try("plain", P.quote, "abc", "a b", "", "it's", "-n", 5)
  t:try("bytes", P.quote, (BYTES:gsub("%z", "")))
  t:raises("InvalidArgumentError", "PCO_EINVAL", "NUL", P.quote, "a\0b")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "table", P.quote, {})
  t:raises("InvalidArgumentError", "PCO_EINVAL", "hole", P.quote, "a", nil)
end)

portable("module: sleep", function(P, _, t)
  t:try("zero", P.sleep, 0)
  t:try("float", P.sleep, 0.01)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "negative", P.sleep, -1)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "NaN", P.sleep, 0 / 0)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "missing", P.sleep)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "string", P.sleep, "soon")
end)

portable("module: run inside", function(P, _, t)
  t:try("results", P.run, function(...)
    return select("#", ...), ...
  end, 1, nil, 1.0, nil)
  local object = {}
  local ok, err = pcall(P.run, function()
    error(object)
  end)
  t:note("same object", ok, rawequal(err, object))
  t:raises("InvalidArgumentError", "PCO_EINVAL", "no function", P.run, 5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", P.run)
end)

portable("module: set_logger", function(P, _, t)
  t:try("set", P.set_logger, function() end)
  t:try("unset", P.set_logger, nil)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "wrong", P.set_logger, 5)
end)

portable("module: open", function(P, _, t)
  local backend = P.open(t.backend)
  t:note("name", backend.name, type(backend.settings), backend.closed)
  t:note("close", backend:close(), backend.closed, backend:close())
  t:raises("NotFoundError", nil, "unknown", P.open, "no-such-backend")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "number", P.open, 5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", P.open)
  t:try("empty name", P.open, "")
  t:try("dots", P.open, "../null")
  t:try("NUL", P.open, "null\0")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "settings", P.open,
    t.backend, 5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "table setting", P.open,
    t.backend, { a = {} })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "option", P.open,
    t.backend, nil, { portl = true })
end)

portable("module: sandbox", function(P, _, t)
  local sb = P.sandbox({ backend = t.backend })
  t:note("fields", type(sb.id), sb.closed, sb.backend.name, sb.fs.sandbox == sb)
  t:note("class", getmetatable(sb).__index == P.Sandbox,
    getmetatable(sb.fs).__index == P.FileSystem,
    getmetatable(sb.backend).__index == P.Backend)
  local backend = sb.backend
  t:note("close", sb:close(), sb.closed, sb:close(), backend.closed)
  local open <close> = P.open(t.backend)
  local second = P.sandbox({ backend = open })
  t:note("given backend", second.backend == open)
  t:note("it stays open", second:close(), open.closed)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", P.sandbox)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "no backend", P.sandbox, {})
  t:raises("InvalidArgumentError", "PCO_EINVAL", "a string", P.sandbox,
    t.backend)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "unknown option", P.sandbox,
    { backend = t.backend, nmae = "x" })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "backend twice", P.sandbox,
    { backend = open, backend_settings = { a = "b" } })
  t:raises("NotFoundError", nil, "unknown backend", P.sandbox,
    { backend = "no-such-backend" })
  t:raises("UsageError", "PCO_EFACADE", "the other's backend", P.sandbox,
    { backend = t.other.backend })
end)

-- Backend ------------------------------------------------------------------

portable("Backend: probe", function(_, sb, t)
  t:try("probe", sb.backend.probe, sb.backend)
  t:try("with a limit", sb.backend.probe, sb.backend, { timeout = 10 })
end)

portable("Backend: create and list", function(P, _, t)
  local backend <close> = P.open(t.backend)
  local a = backend:create()
  local b = backend:create({ labels = { purpose = "spec" } })
  local mine = {}
  for _, info in ipairs(backend:list()) do
    if info.id == a.id or info.id == b.id then
      mine[#mine + 1] = info
    end
  end
  t:note("list", #mine, mine[1])
  t:note("destroy", backend:destroy(a.id), backend:destroy(a.id))
  t:try("gone", a.exec, a, { "true" })
  t:note("close a", pcall(a.close, a))
  t:note("unknown id", backend:destroy("no-such-id"))
  t:note("close", b:close())
  t:raises("InvalidArgumentError", "PCO_EINVAL", "no id", backend.destroy,
    backend)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "id", backend.destroy,
    backend, {})
end)

portable("Backend: create options", function(P, _, t)
  local backend <close> = P.open(t.backend)
  for label, options in pairs({
    name = { name = 5 }, env = { env = "A=b" }, value = { env = { A = {} } },
    labels = { labels = { a = {} } }, limits = { limits = 5 },
    limit = { limits = { memroy = 1 } }, mounts = { mounts = { {} } },
    strict = { strict = "yes" }, unknown = { timout = 5 }, number = { 5 },
    timeout = { timeout = -1 }, nan = { timeout = 0 / 0 },
    settings = { settings = { no_such_setting = "x" } },
  }) do
    t:raises("InvalidArgumentError", nil, "\1" .. label, backend.create,
      backend, options)
  end
  t:try("image", backend.create, backend, { image = "alpine" })
  t:try("network", backend.create, backend, { network = "none" })
  t:try("memory", backend.create, backend,
    { limits = { memory = 1 << 26 }, strict = true })
end)

portable("Backend: closing closes sandboxes", function(P, _, t)
  local backend = P.open(t.backend)
  local sb = backend:create()
  t:note("close", backend:close(), sb.closed)
  t:raises("ClosedError", "PCO_ECLOSED", "exec", sb.exec, sb, { "true" })
  t:raises("ClosedError", "PCO_ECLOSED", "create", backend.create, backend)
  t:raises("ClosedError", "PCO_ECLOSED", "probe", backend.probe, backend)
  t:raises("ClosedError", "PCO_ECLOSED", "list", backend.list, backend)
  t:try("destroy", backend.destroy, backend, "x")
end)

-- exec -----------------------------------------------------------------------

portable("Sandbox: exec", function(_, sb, t)
  t:try("true", sb.exec, sb, { "true" })
  t:try("false", sb.exec, sb, { "false" })
  t:try("echo", sb.exec, sb, { "echo", "a", "b  c", "" })
  t:try("integer", sb.exec, sb, { "echo", 5, -1 })
  t:try("missing", sb.exec, sb, { "no-such-command-here" })
end)

portable("Sandbox: exec input", function(_, sb, t)
  t:try("bytes", sb.exec, sb, { "cat" }, { input = BYTES })
  t:try("empty", sb.exec, sb, { "cat" }, { input = "" })
  t:try("none", sb.exec, sb, { "cat" })
  local chunks = { "one\n", "two\n", BYTES }
  t:try("function", sb.exec, sb, { "cat" }, {
    input = function()
      return table.remove(chunks, 1)
    end,
  })
  local object = { "mine" }
  local ok, err = pcall(sb.exec, sb, { "cat" }, {
    input = function()
      error(object)
    end,
  })
  t:note("error in input", ok, rawequal(err, object))
  t:try("wrong chunk", sb.exec, sb, { "cat" }, {
    input = function()
      return {}
    end,
  })
end)

portable("Sandbox: exec on_output", function(_, sb, t)
  local seen = {}
  t:try("result", sb.exec, sb, { "echo", "hi" }, {
    on_output = function(chunk)
      seen[#seen + 1] = chunk
    end,
  })
  t:note("chunks", seen)
  local object = { "mine" }
  local ok, err = pcall(sb.exec, sb, { "echo", "hi" }, {
    on_output = function()
      error(object)
    end,
  })
  t:note("error in callback", ok, rawequal(err, object))
  t:try("still usable", sb.exec, sb, { "true" })
end)

portable("Sandbox: exec, bad commands", function(_, sb, t)
  for label, command in pairs({
    empty = {}, word = { "" }, hole = { "echo", nil, "x" }, float = { 1.5 },
    boolean = { true }, key = { "true", timeout = 1 }, nul = { "echo", "a\0b" },
    table = { "echo", {} }, cwd = { "pwd", cwd = "/" },
  }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", "\1" .. label, sb.exec, sb,
      command)
  end
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", sb.exec, sb)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "number", sb.exec, sb, 5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "boolean", sb.exec, sb, true)
end)

portable("Sandbox: exec, bad options", function(_, sb, t)
  for label, options in pairs({
    nearest = { timout = 1 }, far = { zzzzzz = 1 }, negative = { timeout = -1 },
    zero = { timeout = 0 }, nan = { timeout = 0 / 0 },
    type = { timeout = "5" }, grace = { grace = -1 }, env = { env = 5 },
    env_name = { env = { ["A=B"] = "c" } }, env_nul = { env = { A = "\0" } },
    env_value = { env = { A = {} } }, env_true = { env = { A = true } },
    stdin = { stdin = "tty" }, stdout = { stdout = "merge" },
    stderr = { stderr = 5 }, check = { check = "yes" }, input = { input = 5 },
    max_output = { max_output = -1 }, max_float = { max_output = 1.5 },
    on_output = { on_output = "x" }, tee = { tee = 1 }, drain = { drain = -1 },
    cwd = { cwd = 5 }, cwd_nul = { cwd = "a\0" }, clean = { clean_env = 1 },
    positional = { "x" }, user = { portal = 1 },
  }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", "\1" .. label, sb.exec, sb,
      { "true" }, options)
  end
  local ok, err = pcall(sb.exec, sb, { "true" }, { timout = 1 })
  t:note("names", ok, err.message:find("timout", 1, true) ~= nil,
    err.message:find("timeout", 1, true) ~= nil)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "number", sb.exec, sb,
    { "true" }, 5)
  t:try("infinite", sb.exec, sb, { "true" }, { timeout = math.huge })
  t:try("integer", sb.exec, sb, { "true" }, { timeout = 10 })
end)

portable("Sandbox: exec check", function(_, sb, t)
  t:try("fine", sb.exec, sb, { "true" }, { check = true })
  local err = t:raises("ExitError", nil, "false", sb.exec, sb, { "false" },
    { check = true })
  t:note("result", err.result.code, err.result.ok)
end)

portable("Sandbox: output", function(_, sb, t)
  t:try("echo", sb.output, sb, { "echo", "a" })
  t:try("newlines", sb.output, sb, { "echo", "a\n\n" })
  t:raises("ExitError", nil, "false", sb.output, sb, { "false" })
  t:try("unchecked", sb.output, sb, { "false" }, { check = false })
  t:try("binary", sb.output, sb, { "cat" }, { input = BYTES })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", sb.output, sb)
end)

portable("Sandbox: exec timeout", function(_, sb, t)
  local err = t:raises("TimeoutError", "PCO_ETIMEDOUT", "sleep", sb.exec, sb,
    { "sleep", "30" }, { timeout = 0.2, grace = 0.2 })
  t:note("reason", err.result and err.result.reason)
  t:try("still usable", sb.exec, sb, { "echo", "ok" })
end)

add("Sandbox: exec, strings and streams", function(_, sb, t)
  t:try("both", sb.exec, sb, "echo out; echo err >&2; exit 3")
  t:try("merge", sb.exec, sb, "echo out; echo err >&2", { stderr = "merge" })
  t:try("null", sb.exec, sb, "echo out; echo err >&2",
    { stdout = "null", stderr = "null" })
  t:try("signal", sb.exec, sb, "kill -TERM $$")
  t:try("empty string", sb.exec, sb, "")
  t:try("NUL in a string", sb.exec, sb, "echo a\0b")
  t:try("truncated", sb.exec, sb, "printf 0123456789",
    { max_output = 4 })
  t:try("not kept", sb.exec, sb, "printf 0123456789", { max_output = 0 })
  t:try("background", sb.exec, sb, "sleep 5 & echo started",
    { drain = 0.1 })
end)

add("Sandbox: exec, cwd and env", function(_, sb, t)
  t:try("cwd", sb.exec, sb, "mkdir -p d && cd d && pwd | sed 's,.*/,,'")
  t:try("pwd", sb.exec, sb, "pwd | sed 's,.*/,,'", { cwd = "d" })
  t:raises("SpawnError", "ENOENT", "no cwd", sb.exec, sb, { "true" },
    { cwd = "nowhere" })
  t:try("env", sb.exec, sb, "echo $A-$B", { env = { A = "x", B = 5 } })
  t:try("removed", sb.exec, sb, "echo ${HOME-none}",
    { env = { HOME = false } })
  t:try("clean", sb.exec, sb, { "/usr/bin/env" },
    { env = { A = "x" }, clean_env = true })
end)

add("Sandbox: exec, start errors", function(_, sb, t)
  sb.fs:write("text", "echo hi\n", { mode = 493 })
  sb.fs:write("plain", "#!/bin/sh\necho hi\n", { mode = 420 })
  sb.fs:write("interpreter", "#!/no/such/interpreter\n", { mode = 493 })
  sb.fs:mkdir("directory")
  t:raises("SpawnError", "ENOENT", "missing", sb.exec, sb, { "./missing" })
  t:raises("SpawnError", "EACCES", "not executable", sb.exec, sb,
    { "./plain" })
  t:raises("SpawnError", "EACCES", "directory", sb.exec, sb,
    { "./directory" })
  t:raises("SpawnError", "ENOEXEC", "no first line", sb.exec, sb, { "./text" })
  t:raises("SpawnError", "ENOENT", "interpreter", sb.exec, sb,
    { "./interpreter" })
  t:raises("SpawnError", "E2BIG", "too big", sb.exec, sb,
    { "true", ("x"):rep(1 << 18) })
end)

add("Sandbox: timeout with partial output", function(_, sb, t)
  local err = t:raises("TimeoutError", "PCO_ETIMEDOUT", "partial", sb.exec, sb,
    "echo first; sleep 30", { timeout = 0.4 })
  t:note("partial", err.result.stdout, err.result.reason, err.result.ok)
  err = t:raises("TimeoutError", "PCO_ETIMEDOUT", "trap", sb.exec, sb,
    "trap '' TERM; echo on; while :; do sleep 0.1; done",
    { timeout = 0.4, grace = 0.3 })
  t:note("killed", err.result.signal, err.result.stdout)
end)

add("Sandbox: exec closed by its own callback", function(_, sb, t)
  t:raises("ClosedError", "PCO_ECLOSED", "exec", sb.exec, sb,
    "echo hi; sleep 30", {
      on_output = function()
        t:note("close", sb:close())
      end,
    })
end)

-- Sandbox ------------------------------------------------------------------

portable("Sandbox: info, processes, tostring", function(_, sb, t)
  t:try("info", sb.info, sb)
  t:try("none", sb.processes, sb)
  local p = sb:spawn({ "sleep", "30" })
  local list = sb:processes()
  t:note("one", #list, list[1] and list[1].argv, list[1] and
    list[1].pid == p.pid)
  p:kill()
  t:note("text", tostring(sb):find(sb.id, 1, true) ~= nil,
    tostring(sb.backend):find(t.backend, 1, true) ~= nil,
    type(tostring(sb.fs)), type(tostring(p)))
  t:note("name", getmetatable(sb).__name, getmetatable(p).__name)
  t:note("text of all", tostring(sb), tostring(sb.backend), tostring(sb.fs))
end)

portable("Sandbox: process", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  local again = sb:process(p.pid)
  t:note("same", again.pid == p.pid, again.sandbox == sb)
  t:note("poll", again:poll())
  t:note("kill", again:kill().signal)
  t:note("both", p:wait().signal, again:wait().signal)
  t:raises("NotFoundError", nil, "unknown", sb.process, sb, 999999)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "string", sb.process, sb, "x")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "float", sb.process, sb, 1.5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "zero", sb.process, sb, 0)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "minus", sb.process, sb, -1)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", sb.process, sb)
end)

portable("Sandbox: close", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  t:note("close", sb:close(), sb:close(), sb.closed)
  t:try("wait after close", p.wait, p)
  t:try("poll after close", p.poll, p)
  t:try("close after close", p.close, p)
  t:raises("ClosedError", "PCO_ECLOSED", "exec", sb.exec, sb, { "true" })
  t:raises("ClosedError", "PCO_ECLOSED", "spawn", sb.spawn, sb, { "true" })
  t:raises("ClosedError", "PCO_ECLOSED", "output", sb.output, sb, { "true" })
  t:raises("ClosedError", "PCO_ECLOSED", "processes", sb.processes, sb)
  t:raises("ClosedError", "PCO_ECLOSED", "process", sb.process, sb, 1)
  t:raises("ClosedError", "PCO_ECLOSED", "info", sb.info, sb)
  t:raises("ClosedError", "PCO_ECLOSED", "read", sb.fs.read, sb.fs, "x")
  t:raises("ClosedError", "PCO_ECLOSED", "write", sb.fs.write, sb.fs, "x", "")
  t:raises("ClosedError", "PCO_ECLOSED", "exists", sb.fs.exists, sb.fs, "x")
  t:note("text", (tostring(sb):find("closed")) ~= nil)
end)

portable("scopes close what they hold", function(P, sb, t)
  local kept, process
  do
    local backend <close> = P.open(t.backend)
    local inner <close> = backend:create()
    local p <close> = inner:spawn({ "sleep", "30" })
    kept, process = inner, p
  end
  t:note("closed", kept.closed, kept.backend.closed, process.closed)
  local object = { "mine" }
  local ok, err = pcall(function()
    local p <close> = sb:spawn({ "sleep", "30" })
    process = p
    error(object)
  end)
  t:note("error", ok, rawequal(err, object), process.closed)
end)

-- Process ------------------------------------------------------------------

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

portable("Process: timeout of spawn", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" }, { timeout = 0.2, grace = 0.2 })
  local err = t:raises("TimeoutError", "PCO_ETIMEDOUT", "wait", p.wait, p)
  t:note("reason", err.result.reason)
  t:try("again", p.wait, p)
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

-- FileSystem -----------------------------------------------------------------

portable("FileSystem: write, read, append", function(_, sb, t)
  local fs = sb.fs
  t:try("write", fs.write, fs, "f", BYTES)
  t:try("read", fs.read, fs, "f")
  t:try("append", fs.append, fs, "f", "more")
  t:try("tail", fs.read, fs, "f", { offset = 250 })
  t:try("part", fs.read, fs, "f", { offset = 65, length = 3 })
  t:try("beyond", fs.read, fs, "f", { offset = 1000 })
  t:try("none", fs.read, fs, "f", { length = 0 })
  t:try("float", fs.read, fs, "f", { offset = 3.0, length = 2.0 })
  t:raises("LimitError", nil, "limit", fs.read, fs, "f", { max_size = 10 })
  t:try("empty", fs.write, fs, "e", "")
  t:try("empty", fs.read, fs, "e")
  t:try("append new", fs.append, fs, "n", "x")
  t:try("overwrite", fs.write, fs, "f", "short")
  t:try("read", fs.read, fs, "f")
  t:raises("NotFoundError", "ENOENT", "missing", fs.read, fs, "missing")
  t:raises("NotFoundError", "ENOENT", "no directory", fs.write, fs, "d/x", "")
  t:try("parents", fs.write, fs, "d/e/x", "deep", { parents = true })
  t:try("deep", fs.read, fs, "d/e/x")
  t:try("a directory", fs.read, fs, "d")
  t:try("a file above", fs.read, fs, "f/x")
  t:try("text", function()
    return type(tostring(fs)), fs.sandbox == sb
  end)
end)

portable("FileSystem: bad arguments", function(_, sb, t)
  local fs = sb.fs
  for _, name in ipairs({
    "read", "stat", "exists", "list", "mkdir", "remove",
  }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs)
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, 5.5)
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, "a\0b")
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, "")
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, "x",
      { flolow = true })
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, "x",
      "options")
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, "x",
      { timeout = -1 })
  end
  for _, name in ipairs({ "write", "append" }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, "x")
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, "x", {})
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, "x", "",
      { paernts = true })
    t:raises("InvalidArgumentError", "PCO_EINVAL", name, fs[name], fs, "x", "",
      { mode = "rw" })
  end
  t:raises("InvalidArgumentError", "PCO_EINVAL", "rename", fs.rename, fs, "x")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "rename", fs.rename, fs, "x",
    "y", { overwite = true })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "offset", fs.read, fs, "x",
    { offset = -1 })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "length", fs.read, fs, "x",
    { length = 1.5 })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "recursive", fs.remove, fs,
    "x", { recursive = 1 })
end)

portable("FileSystem: stat, exists, list", function(_, sb, t)
  local fs = sb.fs
  fs:write("b", "12345", { mode = 384 })
  fs:write("a", "")
  fs:write("B", "")
  fs:mkdir("dir")
  t:note("stat", fs:stat("b").type, fs:stat("b").size, fs:stat("b").name,
    math.type(fs:stat("b").size), math.type(fs:stat("b").mode))
  t:note("mode", fs:stat("b").mode, fs:stat("dir").type)
  t:note("exists", fs:exists("a"), fs:exists("dir"), fs:exists("no"),
    fs:exists("no/no"))
  for _, entry in ipairs(fs:list(".")) do
    t:note("entry", entry.name, entry.type, entry.type == "file" and entry.size)
  end
  t:try("empty", fs.list, fs, "dir")
  t:raises("NotFoundError", "ENOENT", "stat", fs.stat, fs, "no")
  t:raises("NotFoundError", "ENOENT", "list", fs.list, fs, "no")
  t:try("list a file", fs.list, fs, "a")
end)

portable("FileSystem: mkdir, remove, rename", function(_, sb, t)
  local fs = sb.fs
  t:try("mkdir", fs.mkdir, fs, "d")
  t:raises("AlreadyExistsError", "EEXIST", "again", fs.mkdir, fs, "d")
  t:try("parents", fs.mkdir, fs, "d", { parents = true })
  t:raises("NotFoundError", "ENOENT", "deep", fs.mkdir, fs, "a/b/c")
  t:try("deep", fs.mkdir, fs, "a/b/c", { parents = true })
  fs:write("a/b/f", "x")
  t:try("not empty", fs.remove, fs, "a")
  t:try("recursive", fs.remove, fs, "a", { recursive = true })
  t:note("gone", fs:exists("a"))
  t:raises("NotFoundError", "ENOENT", "remove", fs.remove, fs, "a")
  t:try("missing_ok", fs.remove, fs, "a", { missing_ok = true })
  fs:write("one", "1")
  fs:write("two", "2")
  t:raises("AlreadyExistsError", "EEXIST", "rename", fs.rename, fs, "one",
    "two")
  t:note("kept", fs:read("one"), fs:read("two"))
  t:try("overwrite", fs.rename, fs, "one", "two", { overwrite = true })
  t:note("moved", fs:exists("one"), fs:read("two"))
  t:raises("NotFoundError", "ENOENT", "rename", fs.rename, fs, "one", "x")
  t:try("directory", fs.rename, fs, "d", "e")
  t:try("empty directory", fs.remove, fs, "e")
end)

add("FileSystem: links and the outside", function(_, sb, t)
  local fs = sb.fs
  sb:exec("ln -s target link; echo inside > target; ln -s / root; "
    .. "ln -s nowhere dangling; ln -s ../../../../../../etc/passwd up"):check()
  t:try("follow", fs.read, fs, "link")
  t:try("refuse", fs.read, fs, "link", { follow = false })
  t:note("lstat", fs:stat("link", { follow = false }).type,
    fs:stat("link", { follow = false }).target, fs:stat("link").type)
  t:try("outside", fs.read, fs, "/etc/hostname")
  t:try("up", fs.read, fs, "../../../../../../etc/passwd")
  t:try("up link", fs.read, fs, "up")
  t:try("root link", fs.read, fs, "root/etc/passwd")
  t:try("dangling", fs.exists, fs, "dangling")
  t:try("write through", fs.write, fs, "link", "new\n")
  t:note("target", fs:read("target"))
end)

-- The same mistakes with every member ----------------------------------------

portable("dot call instead of colon", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  local result = sb:exec({ "true" })
  local it <close> = p:lines()
  t:raises("UsageError", "PCO_EDOT", "exec", sb.exec, { "true" })
  for label, object in pairs({
    Sandbox = sb, Backend = sb.backend, FileSystem = sb.fs, Process = p,
    Result = result, Iterator = it,
  }) do
    local members = {}
    for name in pairs(getmetatable(object).__index) do
      members[#members + 1] = name
    end
    table.sort(members)
    for _, name in ipairs(members) do
      t:raises("UsageError", "PCO_EDOT", "\1" .. label .. "." .. name,
        object[name])
      t:raises("UsageError", "PCO_EDOT", "\1" .. label .. "." .. name,
        object[name], "x")
    end
  end
  t:try("another class", sb.exec, p, { "true" })
  p:kill()
end)

portable("an object of the other facade", function(P, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  for label, class in pairs({
    sandbox = "Sandbox", backend = "Backend", fs = "FileSystem",
    process = "Process",
  }) do
    local members = {}
    for name in pairs(P[class]) do
      members[#members + 1] = name
    end
    table.sort(members)
    for _, name in ipairs(members) do
      t:raises("UsageError", "PCO_EFACADE", "\1" .. class .. "." .. name,
        P[class][name], t.other[label], "x", "y")
    end
  end
  p:kill()
end)

portable("names that are no members", function(P, sb, t)
  t:note("absent", sb.reboot, sb.attach, sb.snapshot, sb.backend.attach,
    P.File, P.Watch, sb.fs.copy)
  t:try("a field is no handle", P.Sandbox.exec,
    setmetatable({}, getmetatable(sb)), { "true" })
end)

return scenarios
