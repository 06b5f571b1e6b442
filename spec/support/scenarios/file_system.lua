-- Scenarios: FileSystem.

local env = require("spec.support.env")
local scenarios = require("spec.support.scenarios.list").new()
local add = scenarios.add
local portable = scenarios.portable

local BYTES = env.all_bytes()

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

return scenarios
