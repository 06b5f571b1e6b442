-- Scenarios: File and Watch.

local env = require("spec.support.env")
local scenarios = require("spec.support.scenarios.list").new()
local add = scenarios.add
local portable = scenarios.portable

local BYTES = env.all_bytes()

portable("File: read and lines", function(_, sb, t)
  local fs = sb.fs
  fs:write("f", "one\ntwo\n\nlast")
  local file <close> = fs:open("f")
  t:note("fields", file.path, file.closed, file.sandbox == sb)
  t:note("text", tostring(file):find("f in", 1, true) ~= nil)
  t:try("line", file.read, file)
  t:try("line", file.read, file, "L")
  t:try("position", file.seek, file)
  t:try("empty line", file.read, file, "l")
  t:try("count", file.read, file, 2)
  t:try("nothing", file.read, file, 0)
  t:try("rest", file.read, file, "a")
  t:try("end", file.read, file, "a")
  t:try("end", file.read, file, "l")
  t:try("end", file.read, file, 1)
  t:try("end", file.read, file, 0)
  t:try("back", file.seek, file, "set", 1)
  for line in file:lines() do
    t:note("a line", line)
  end
  file:seek("set")
  for line in file:lines("L") do
    t:note("with its end", line)
    if line == "one\n" then
      break -- which leaves the file open
    end
  end
  for chunk in file:lines(5) do
    t:note("a chunk", chunk)
  end
  t:try("from the end", file.seek, file, "end", -3)
  t:try("more than there is", file.read, file, 100)
  t:try("here", file.seek, file, "cur", -1)
  t:try("last", file.read, file, 1)
  t:try("before", file.seek, file, "set", -1)
  t:try("beyond", file.seek, file, "end", 10)
  t:try("nothing there", file.read, file, 1)
  t:raises("SystemError", "EBADF", "write", file.write, file, "x")
  t:raises("SystemError", "EBADF", "truncate", file.truncate, file, 0)
  fs:write("f", "other")
  t:note("a new file", fs:read("f"))
end)

portable("File: write, truncate, stat", function(_, sb, t)
  local fs = sb.fs
  local file <close> = fs:open("d/new", "w+", { parents = true, mode = 384 })
  t:note("itself", file:write("a", 1, 2.5, "") == file)
  t:note("nothing", file:write() == file)
  file:write(BYTES)
  t:try("position", file.seek, file)
  local stat = file:stat({ timeout = 30 })
  t:note("stat", stat.name, stat.type, stat.size, stat.mode)
  file:seek("set", 1)
  file:write("X")
  t:try("follows", file.read, file, 3)
  file:seek("set", 300)
  file:write("far")
  file:sync()
  t:try("hole", fs.read, fs, "d/new", { offset = 258 })
  file:truncate(2, { timeout = 30 })
  t:try("short", fs.read, fs, "d/new")
  file:truncate(4)
  t:try("long", fs.read, fs, "d/new")
  t:try("position", file.seek, file)
  t:try("close", file.close, file)
  t:try("close", file.close, file)
  t:note("closed", file.closed)
  for _, name in ipairs({ "read", "write", "seek", "sync", "stat", "lines" }) do
    t:raises("ClosedError", nil, name, file[name], file)
  end
end)

portable("File: modes", function(_, sb, t)
  local fs = sb.fs
  fs:write("f", "old")
  fs:mkdir("d")
  local function use(mode)
    local file <close> = fs:open("f", mode)
    t:note(mode .. " is at", file:seek())
    t:try(mode .. " reads", file.read, file, "a")
    t:note(mode .. " writes", pcall(file.write, file, "+" .. mode))
    t:note(mode .. " is at", file:seek())
    t:note(mode, fs:read("f"))
  end
  for _, mode in ipairs({ "r", "r+", "a", "a+", "w", "w+", "rb", "w+b" }) do
    use(mode)
  end
  t:raises("AlreadyExistsError", "EEXIST", "wx", fs.open, fs, "f", "wx")
  fs:open("n", "wx"):write("new"):close()
  t:note("new", fs:read("n"))
  t:raises("NotFoundError", "ENOENT", "r", fs.open, fs, "missing")
  t:raises("NotFoundError", "ENOENT", "r+", fs.open, fs, "missing", "r+")
  t:raises("NotFoundError", "ENOENT", "w", fs.open, fs, "no/x", "w")
  t:raises("SystemError", "EISDIR", "d", fs.open, fs, "d")
  t:raises("SystemError", "EISDIR", "d", fs.open, fs, "d", "w")
end)

portable("File: large contents", function(_, sb, t)
  local fs = sb.fs
  local big = BYTES:rep(4096)
  local file <close> = fs:open("f", "w+")
  for _ = 1, 3 do
    file:write(big)
  end
  file:seek("set", 7)
  t:note("parts", file:read(#big) == big:sub(8) .. big:sub(1, 7))
  t:note("line", #file:read("L"))
  t:note("position", file:seek())
  t:note("rest", #file:read("a"))
  file:seek("set")
  t:note("all", file:read("a") == big:rep(3))
  t:note("read", fs:read("f") == big:rep(3))
  fs:write("g", big)
  t:note("write", fs:read("g") == big)
  t:note("range", fs:read("f", { offset = 5, length = #big }) ==
    big:sub(6) .. big:sub(1, 5))
  t:raises("LimitError", nil, "too much", fs.read, fs, "f",
    { max_size = 3 * #big - 1 })
  file:seek("set")
  t:raises("LimitError", nil, "too much", file.read, file, "a",
    { max_size = 1000 })
  t:note("stays", file:seek() == 0 and file:read("a", { max_size = 3 * #big })
    == big:rep(3))
  file:truncate(0)
  file:seek("set")
  file:write(("x"):rep(1000), "\n")
  file:seek("set")
  t:raises("LimitError", nil, "too long", file.read, file, "l",
    { max_size = 999 })
  t:note("stays", #file:read("l"))
end)

portable("File: bad arguments", function(_, sb, t)
  local fs = sb.fs
  local file <close> = fs:open("f", "w+")
  local function bad(label, fn, ...)
    t:raises("InvalidArgumentError", "PCO_EINVAL", label, fn, ...)
  end
  bad("no path", fs.open, fs)
  for _, mode in ipairs({ "", "q", "rw", "r++", "rx", "rb+", 5, true }) do
    bad("mode", fs.open, fs, "f", mode)
  end
  bad("option", fs.open, fs, "f", "r", { paernts = true })
  bad("option", fs.open, fs, "f", "r", { mode = 4096 })
  for _, format in ipairs({ "n", "x", "", 1.5, -1, true, {} }) do
    bad("format", file.read, file, format)
    bad("format", file.lines, file, format)
  end
  bad("option", file.read, file, "a", { maxsize = 1 })
  bad("nil", file.write, file, nil)
  bad("table", file.write, file, "x", {})
  bad("whence", file.seek, file, "here")
  bad("whence", file.seek, file, 5)
  bad("offset", file.seek, file, "set", 1.5)
  bad("offset", file.seek, file, "set", "1")
  bad("size", file.truncate, file)
  bad("size", file.truncate, file, -1)
  bad("size", file.truncate, file, 1.5)
  bad("option", file.sync, file, { tiemout = 1 })
  bad("option", file.stat, file, { follow = true })
  bad("option", file.close, file, { grace = 1 })
  t:note("untouched", file.closed, fs:read("f"))
  t:raises("UsageError", "PCO_EDOT", "dot", file.read)
  t:raises("UsageError", "PCO_EFACADE", "facade", file.read, t.other.file)
end)

portable("File: is closed with its sandbox", function(P, _, t)
  local sandbox = P.sandbox({ backend = t.backend })
  local file = sandbox.fs:open("f", "w")
  sandbox:close()
  t:raises("ClosedError", nil, "write", file.write, file, "x")
  t:try("close", file.close, file)
  t:try("close", file.close, file)
end)

add("File: follows the file, not its name", function(_, sb, t)
  local fs = sb.fs
  fs:write("f", "old")
  local file <close> = fs:open("f", "r+")
  fs:rename("f", "g")
  fs:write("f", "new")
  file:write("OLD")
  t:note("names", fs:read("f"), fs:read("g"))
  fs:remove("g")
  file:seek("set")
  t:note("removed", file:read("a"), file:stat().size)
end)

add("File: links and special files", function(_, sb, t)
  local fs = sb.fs
  sb:exec("echo in > f; ln -s f link; ln -s / root; mkfifo fifo"):check()
  t:note("link", fs:open("link"):read("a"))
  t:raises("SystemError", "ELOOP", "link", fs.open, fs, "link", "r",
    { follow = false })
  t:raises("SystemError", "ELOOP", "link", fs.open, fs, "link", "w",
    { follow = false })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "fifo", fs.open, fs, "fifo")
  t:raises("InvalidArgumentError", "PCO_EINVAL", "fifo", fs.open, fs, "fifo",
    "a")
  t:try("outside", fs.open, fs, "/nowhere/f", "w")
  t:note("kept", fs:read("f"))
end)

-- What happens, one line each, up to an event of that path. What is in a
-- directory when it appears comes in any order, and what goes from it before
-- it was looked at never comes: a scenario waits for a new directory's event
-- before it changes what is in it.
local function seen(watch, last)
  local lines = {}
  for event in watch:events({ timeout = 30 }) do
    lines[#lines + 1] = event.type .. " " .. event.path
      .. (event.from and " from " .. event.from or "")
    if event.path == last then
      break
    end
  end
  return table.concat(lines, ", ")
end

add("Watch: what happens", function(_, sb, t)
  local fs = sb.fs
  fs:mkdir("w/sub", { parents = true })
  fs:write("w/sub/f", "x")
  local watch <close> = fs:watch("w", { recursive = true })
  t:note("fields", watch.path, watch.closed, watch.sandbox == sb)
  t:note("text", tostring(watch):find("w in", 1, true) ~= nil)
  sb:exec("mkdir w/new"):check()
  t:note("new", seen(watch, "w/new"))
  sb:exec("cd w; mv sub/f new/g; chmod 600 new/g; rm new/g; mkdir z"):check()
  t:note("events", seen(watch, "w/z"))
  sb:exec("cd w; mv new z/old; : > z/old/f; mv z/old ..; mv ../old back")
    :check()
  t:note("moved", seen(watch, "w/back/f"))
  sb:exec(": > w/back/n; mkdir w/last"):check()
  t:note("back", seen(watch, "w/last"))
  t:raises("TimeoutError", nil, "nothing", watch.next, watch,
    { timeout = 0.01 })
  sb:exec("echo x > 'w/a\nb'"):check()
  local event = watch:next()
  t:note("next", event.type, event.path, event.from)
  t:try("close", watch.close, watch)
  t:try("close", watch.close, watch)
  t:raises("ClosedError", nil, "next", watch.next, watch)
  t:raises("ClosedError", nil, "events", watch.events, watch)
end)

add("Watch: patterns, files, one level", function(_, sb, t)
  local fs = sb.fs
  sb:exec("mkdir -p w/skip w/src/deep; echo x > one"):check()
  local watch <close> = fs:watch("w", {
    recursive = true, exclude = { "*.o", "skip" }, include = "src",
  })
  sb:exec("cd w; mkdir a b.c; mkdir skip/x src/a.o src/b src/deep/c; "
    .. "mv src/b b; mv b src/e; mkdir src/z"):check()
  t:note("patterns", seen(watch, "w/src/z"))
  local flat <close> = fs:watch("w")
  sb:exec("mkdir w/src/no w/yes"):check()
  t:note("one level", seen(flat, "w/yes"))
  local one <close> = fs:watch("one")
  fs:append("one", "y")
  local event = one:next()
  t:note("a file", event.type, event.path)
  t:raises("NotFoundError", "ENOENT", "missing", fs.watch, fs, "missing")
  t:raises("UsageError", "PCO_EFACADE", "facade", one.next, t.other.watch)
  for _, bad in ipairs({
    { include = 5 }, { exclude = { "" } }, { exclude = { "/x" } },
    { exclude = { 1 } }, { include = { x = "y" } }, { recurse = true },
  }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", "bad", fs.watch, fs, "w",
      bad)
  end
end)

portable("Watch: where there is none", function(_, sb, t)
  if t.backend == "null" then
    t:raises("UnsupportedError", nil, "watch", sb.fs.watch, sb.fs, ".")
  end
end)

return scenarios
