-- Prepares what bubblewrap and crun, without Portico, are measured with:
--   lua5.4 spec/bench/peer_bwrap.lua DIR BIN
--
-- What the plugin gives to bubblewrap is caught by a script that stands in for
-- it once: its words, and the files that they speak of. So the peer's profile
-- is the plugin's own, whatever that becomes. In the words only what Portico's
-- keeper would have prepared is replaced: the directories of its one tmpfs by
-- four tmpfs of that size, its namespace of two ids by --unshare-user (the
-- floor becomes one of the two ids before, as root).
--
-- Makes DIR/same (files by the numbers of descriptors, the words in 30),
-- DIR/plain (empty), DIR/bundle (for crun) and DIR/bin.

local dir, bin = ...
local portico = require("portico")

local function read_file(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

local function write_file(path, text)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
end

local function run(format, ...)
  assert(os.execute(format:format(...)))
end

local function split(text)
  local words = {}
  for word in text:gmatch("([^\0]*)\0") do
    words[#words + 1] = word
  end
  return words
end

local DISK = 1 << 30

-- ---- catching the plugin's words --------------------------------------------

local STAND_IN = [[#!/bin/sh
umask 022
out=${0%/*}
printf '%s\0' "$@" >"$out/words"
for n in 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  if [ -f "/proc/self/fd/$n" ]; then cat "/proc/self/fd/$n" >"$out/$n"; fi
done
exit 1
]]

local function catch()
  run("mkdir -p %s/same %s/plain %s/bin && chmod 1777 %s/same", dir, dir, dir,
    dir)
  run("cp %s/true %s/floor_chain %s/bin", bin, bin, dir)
  write_file(dir .. "/same/bwrap", STAND_IN)
  run("chmod 755 %s/same/bwrap", dir)
  portico.run(function()
    local backend <close> = portico.open("bwrap",
      { bwrap = dir .. "/same/bwrap" })
    assert(not pcall(backend.create, backend,
      { mounts = { { source = dir .. "/bin", target = "/bench" } } }))
  end)
  local words = split(read_file(dir .. "/same/words"))
  assert(words[1] == "--args" and words[3] == "--", "unknown words")
  local args = split(read_file(dir .. "/same/" .. words[2]))
  os.remove(dir .. "/same/8") -- the agent
  return args
end

-- ---- the same profile for bubblewrap alone ----------------------------------

-- Options whose words are not copied: how many follow, and what comes instead.
local replaced = {
  ["--info-fd"] = function()
    return 1, {}
  end,
  ["--cap-drop"] = function()
    return 1, { "--unshare-user", "--uid", "1000", "--gid", "1000" }
  end,
  ["--cap-add"] = function()
    return 1, {}
  end,
  ["--bind"] = function(source, target)
    if source:match("^/dev/shm/%a+$") then
      local mode = (source:match("tmp") or source:match("shm$")) and "1777"
        or "0755"
      return 2, { "--perms", mode, "--size", tostring(DISK), "--tmpfs", target }
    end
  end,
  ["--ro-bind"] = function(source, target)
    if source:match("^/dev/shm/mount") then
      return 2, { "--ro-bind", dir .. "/bin", target }
    end
  end,
}

local function without_keeper(args)
  local result, i = {}, 1
  while args[i] do
    local count, instead
    if replaced[args[i]] then
      count, instead = replaced[args[i]](args[i + 1], args[i + 2])
    end
    for _, word in ipairs(instead or { args[i] }) do
      result[#result + 1] = word
    end
    i = i + 1 + (count or 0)
  end
  return result
end

-- ---- a bundle for crun ------------------------------------------------------

local function json(value)
  if type(value) ~= "table" then
    return type(value) == "string" and ("%q"):format(value) or tostring(value)
  end
  local items = {}
  for _, item in ipairs(value) do
    items[#items + 1] = json(item)
  end
  if #items > 0 then
    return "[" .. table.concat(items, ",") .. "]"
  end
  for key, item in pairs(value) do
    items[#items + 1] = ("%q:%s"):format(key, json(item))
  end
  return "{" .. table.concat(items, ",") .. "}"
end

local function tmpfs(target, mode)
  return { destination = target, type = "tmpfs", source = "tmpfs",
    options = { "nosuid", "nodev", "mode=" .. mode, "size=" .. DISK } }
end

-- The root directory is made once, so crun has less to do than bubblewrap.
local function make_root(args, root)
  run("mkdir -p %s", root)
  local mounts = {
    { destination = "/proc", type = "proc", source = "proc" },
    tmpfs("/dev", "755"),
    { destination = "/dev/pts", type = "devpts", source = "devpts",
      options = { "nosuid", "noexec", "newinstance", "ptmxmode=0666" } },
    tmpfs("/dev/shm", "1777"), tmpfs("/workspace", "777"),
    tmpfs("/home/sandbox", "777"), tmpfs("/tmp", "1777"),
  }
  run("mkdir -p %s/proc %s/dev %s/workspace %s/home/sandbox %s/tmp", root, root,
    root, root, root)
  for i, word in ipairs(args) do
    local a, b = args[i + 1], args[i + 2]
    if word == "--symlink" then
      run("mkdir -p %s%s && rmdir %s%s && ln -s %s %s%s", root, b, root, b, a,
        root, b)
    elseif word == "--dir" then
      run("mkdir -p %s%s", root, a)
    elseif word == "--file" then
      run("cp %s/same/%s %s%s", dir, a, root, b)
    elseif word:match("^%-%-ro%-bind") then
      run("mkdir -p %s%s; [ -d %s ] || { rmdir %s%s && : >%s%s; }", root, b,
        a, root, b, root, b)
      mounts[#mounts + 1] = { destination = b, type = "none", source = a,
        options = { "bind", "ro", "nosuid", "nodev" } }
    end
  end
  return mounts
end

local function own_id()
  local pipe <close> = assert(io.popen("id -u"))
  return pipe:read("n")
end

local function make_bundle(args)
  local root = own_id() == 0
  local ids = root and { { containerID = 0, hostID = 0x70000000, size = 1 },
    { containerID = 1000, hostID = 0x70000001, size = 1 } }
    or { { containerID = 0, hostID = own_id(), size = 1 } }
  local namespaces = {}
  for _, name in ipairs({ "pid", "network", "ipc", "uts", "mount", "cgroup",
    "user" }) do
    namespaces[#namespaces + 1] = { type = name }
  end
  local id = root and 1000 or 0
  write_file(dir .. "/bundle/config.json", json({
    ociVersion = "1.0.0",
    hostname = "sandbox",
    root = { path = "rootfs", readonly = true },
    process = { terminal = false, noNewPrivileges = true, cwd = "/workspace",
      user = { uid = id, gid = id }, args = { "/bench/true" },
      env = { "PATH=/usr/bin:/bin" } },
    mounts = make_root(args, dir .. "/bundle/rootfs"),
    linux = { namespaces = namespaces, uidMappings = ids, gidMappings = ids },
  }))
end

local args = without_keeper(catch())
write_file(dir .. "/same/30", table.concat(args, "\0") .. "\0")
make_bundle(args)
