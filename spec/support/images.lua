-- Images for specs: a small root directory out of this machine's programs, and
-- tars, written by hand so that they can be what no tar program would write.

local lfs = require("lfs")
local env = require("spec.support.env")

local images = {}

-- Programs of the small root, with the libraries that they are linked with.
local PROGRAMS = { "sh", "cat", "ls", "id", "stat", "touch" }

-- Makes a root directory in `dir`, which must not exist: /etc/motd is `motd`.
function images.make_root(dir, motd)
  local lines = {
    "set -e", "umask 022", "d=" .. env.quoted(dir),
    "mkdir $d $d/usr $d/usr/bin $d/etc $d/dev $d/home $d/var",
    "ln -s usr/bin $d/bin",
    "printf %s " .. env.quoted(motd or "an image") .. " >$d/etc/motd",
  }
  for _, name in ipairs(PROGRAMS) do
    lines[#lines + 1] = ([[
      p=$(PATH=/usr/bin:/bin command -v %s)
      cp -L $p $d/usr/bin/%s
      for l in $(ldd $p | grep -o '/[^ ]*'); do
        mkdir -p $d${l%%/*}
        test -e $d$l || cp -L $l $d$l
      done]]):format(name, name)
  end
  local output, code = env.sh("(" .. table.concat(lines, "\n") .. ") 2>&1")
  assert(code == 0, output)
  return dir
end

-- Packs a directory with the system's tar; `options` go to that.
function images.pack(dir, path, options)
  local output, code = env.sh(("tar -C %s %s -cf %s . 2>&1"):format(
    env.quoted(dir), options or "", env.quoted(path)))
  assert(code == 0, output)
  return path
end

local function octal(number, width)
  return ("%0" .. width - 1 .. "o\0"):format(number)
end

-- One header of the format `ustar`.
local function header(e, name)
  local size = e.size or #(e.data or "")
  local text = ("%s%s%s%s%s%s%s%s%s"):format(
    name .. ("\0"):rep(100 - #name), octal(e.mode or 420, 8),
    octal(e.uid or 0, 8), octal(e.gid or 0, 8), octal(size, 12),
    octal(e.mtime or 0, 12), (" "):rep(8), e.type or "0",
    (e.link or "") .. ("\0"):rep(100 - #(e.link or "")))
  text = text .. "ustar\0" .. "00" .. ("\0"):rep(64)
    .. octal(e.major or 0, 8) .. octal(e.minor or 0, 8)
  text = text .. ("\0"):rep(512 - #text)
  local sum = 0
  for i = 1, #text do
    sum = sum + text:byte(i)
  end
  return text:sub(1, 148) .. ("%06o\0 "):format(sum) .. text:sub(157)
end

local function padded(data)
  return data .. ("\0"):rep(-#data % 512)
end

-- A tar of entries {name=, type=, mode=, link=, data=, size=, major=, minor=}.
function images.archive(entries)
  local parts = {}
  for _, e in ipairs(entries) do
    local name = e.name
    if #name > 100 then -- GNU: an entry with the name as its content
      parts[#parts + 1] = header({ type = "L", size = #name + 1 },
        "././@LongLink") .. padded(name .. "\0")
      name = name:sub(1, 100)
    end
    parts[#parts + 1] = header(e, name) .. padded(e.data or "")
  end
  return table.concat(parts) .. ("\0"):rep(1024)
end

-- Entries of a root that nothing runs in, and others after them.
function images.with_root(entries)
  local all = {
    { name = "usr/", type = "5", mode = 493 },
    { name = "usr/file", data = "harmless" },
  }
  table.move(entries, 1, #entries, #all + 1, all)
  return all
end

-- A file that is as if it had been there for long: a fresh one is read again
-- for each sandbox.
function images.settle(path)
  env.sh("sleep 3.1; test -e " .. env.quoted(path))
end

-- The names in a directory of a cache.
function images.names(cache, part)
  local found = {}
  if env.exists(cache .. "/" .. part) then
    for name in lfs.dir(cache .. "/" .. part) do
      if name ~= "." and name ~= ".." then
        found[#found + 1] = name
      end
    end
  end
  table.sort(found)
  return found
end

-- What is in a tree that a shared image must not have: set-id and sticky bits,
-- others' write permission, devices, pipes, sockets, other owners.
function images.dirt(tree)
  return (env.sh(("find %s \\( -perm /7022 ! -type l -o ! -uid %s -o "
    .. "! -type d ! -type f ! -type l \\) -printf '%%P\\n' 2>&1"):format(
    env.quoted(tree), env.sh("id -u"):sub(1, -2))))
end

return images
