-- Tars that mean harm, given to `image` of bwrap: each becomes a harmless tree
-- or an error, nothing outside of the cache is touched, and after an error
-- nothing is left in it.

local lfs = require("lfs")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local images = require("spec.support.images")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local BWRAP = backends.bwrap

local nothing_left = leaks.frame()
local raises = facades.raises

local dir, outside
local number = 0

local function new_cache()
  number = number + 1
  return dir .. "/cache" .. number
end

-- Everything that is outside, with what would show that it was touched.
local function look_outside()
  return env.sh(("find %s -printf '%%p %%y %%m %%U %%n %%s %%l\\n' | sort; "
    .. "cat %s/victim"):format(env.quoted(outside), env.quoted(outside)))
end

local function create(image, cache, settings)
  local all = { cache = cache }
  for key, value in pairs(settings or {}) do
    all[key] = value
  end
  return sync.sandbox({ image = image, backend_settings = all })
end

local function assert_clean(cache)
  assert.is_true(env.eventually(10, function()
    return #images.names(cache, "making") == 0
  end), "work is left in the cache")
end

setup(function()
  dir = env.tmpdir()
  outside = dir .. "/outside"
  lfs.mkdir(outside)
  env.write(outside .. "/victim", "untouched")
end)

teardown(function()
  env.rmdir(dir)
end)

-- tar may end before a bound is reached, or not; both are refusals.
local EITHER = "InvalidArgumentError or LimitError"

local function refused(class, ...)
  local ok, err = pcall(...)
  assert.is_false(ok, "it was taken for an image")
  assert.truthy(class:find(errors.class_of(err).name, 1, true),
    "expected " .. class .. ", got " .. tostring(err))
  return err
end

-- Declares a test: `make(path)` writes the tar, or gives its entries beside
-- those of a root. `class` is of the error, or nil if it becomes an image, at
-- which `look(tree, sandbox)` may look.
local function hostile(name, class, make, look, settings)
  backends.it(it, BWRAP, name, function()
    local image, cache = dir .. "/tar", new_cache()
    local entries = make(image)
    if entries then
      env.write(image, images.archive(images.with_root(entries)))
    end
    local before = look_outside()
    if class then
      local err = refused(class, create, image, cache, settings)
      assert.truthy(err.message:find(image, 1, true), err.message)
      assert.same({}, images.names(cache, "images"))
      assert.same({}, images.names(cache, "index"))
      assert.same({}, images.names(cache, "making"))
      if type(look) == "string" then
        assert.truthy(err.message:find(look, 1, true), err.message)
      end
    else
      local sb <close> = create(image, cache, settings)
      assert.equal(1, #images.names(cache, "images"))
      local tree = cache .. "/images/" .. images.names(cache, "images")[1]
      assert.equal("harmless", sb.fs:read("/usr/file"))
      assert.equal("", images.dirt(tree))
      if look then
        look(tree, sb)
      end
    end
    assert_clean(cache)
    assert.equal(before, look_outside())
  end)
end

describe("a tar that wants out:", function()
  hostile("by an absolute name", nil, function()
    return { { name = outside .. "/made", data = "x" } }
  end, function(tree)
    assert.equal("x", env.read(tree .. outside .. "/made"))
  end)

  hostile("by the absolute name of what is there", nil, function()
    return { { name = outside .. "/victim", data = "x" } }
  end)

  hostile("by ..", "InvalidArgumentError", function()
    return { { name = "../../../../../../../../" .. outside .. "/made",
      data = "x" } }
  end, "'..'")

  hostile("by .. in the middle", "InvalidArgumentError", function()
    return { { name = "usr/../../../made", data = "x" } }
  end, "'..'")

  hostile("by .. into the cache", "InvalidArgumentError", function()
    return { { name = "../../copy/sum", data = ("0"):rep(64) } }
  end)

  hostile("through an absolute link", "InvalidArgumentError", function()
    return {
      { name = "way", type = "2", link = outside },
      { name = "way/made", data = "x" },
    }
  end)

  hostile("through a relative link", "InvalidArgumentError", function()
    return {
      { name = "way", type = "2", link = ("../"):rep(20) .. outside },
      { name = "way/made", data = "x" },
    }
  end)

  hostile("through a link over a directory", nil, function()
    return {
      { name = "way/", type = "5", mode = 493 },
      { name = "way", type = "2", link = outside },
    }
  end)

  hostile("by a file in the place of a link", nil, function()
    return {
      { name = "way", type = "2", link = outside .. "/victim" },
      { name = "way", data = "x" },
    }
  end, function(_, sb)
    -- tar may find its own placeholder of the link again, and make the link;
    -- it leads to nothing, inside.
    local ok, data = pcall(sb.fs.read, sb.fs, "/way")
    assert.is_true(not ok or data == "x")
  end)

  hostile("through links of links", "InvalidArgumentError", function()
    return {
      { name = "one", type = "2", link = "usr" },
      { name = "one/two", type = "2", link = "../.." },
      { name = "usr/two/three", type = "2", link = "../../.." },
      { name = "one/two/three/made", data = "x" },
    }
  end)

  hostile("by a hard link to an absolute name", "InvalidArgumentError",
    function()
      return { { name = "way", type = "1", link = outside .. "/victim" } }
    end)

  hostile("by a hard link with ..", "InvalidArgumentError", function()
    return {
      { name = "way", type = "1",
        link = ("../"):rep(20) .. outside .. "/victim" },
    }
  end)

  hostile("by a hard link through a link", "InvalidArgumentError", function()
    return {
      { name = "way", type = "2", link = outside .. "/victim" },
      { name = "hard", type = "1", link = "way" },
      { name = "hard", data = "x" },
      { name = "hard/x", data = "x" },
    }
  end)

  hostile("by links, which lead nowhere", nil, function()
    return {
      { name = "to", type = "2", link = outside .. "/victim" },
      { name = "usr/up", type = "2", link = ("../"):rep(20) .. outside },
      { name = "etc", type = "2", link = "/etc" },
      { name = "proc", type = "2", link = outside },
      { name = "dev", type = "2", link = outside },
      { name = "workspace", type = "2", link = outside },
      { name = "tmp", type = "2", link = outside },
      { name = "home", type = "2", link = outside },
    }
  end, function(_, sb)
    for _, path in ipairs({ "/to", "/usr/up/victim" }) do
      assert.is_false(sb.fs:exists(path))
    end
    for _, path in ipairs({ "/tmp", "/workspace", "/home/sandbox" }) do
      sb.fs:write(path .. "/made", "x")
    end
  end)
end)

describe("a tar that wants more than it should:", function()
  hostile("devices where they would be seen", "InvalidArgumentError",
    function()
      return { { name = "usr/sda", type = "4", major = 8, mode = 438 } }
    end)

  hostile("devices where they would not", nil, function()
    return {
      { name = "dev/sda", type = "4", major = 8, mode = 438 },
      { name = "./dev/mem", type = "3", major = 1, minor = 1, mode = 438 },
    }
  end)

  hostile("set-id files, pipes and other owners", nil, function()
    return {
      { name = "usr/root", mode = 3565, uid = 0, gid = 0, data = "x" },
      { name = "usr/pipe", type = "6", mode = 511 },
      { name = "usr/nobody", mode = 511, uid = 65534, data = "x" },
      { name = "./", type = "5", mode = 1023, uid = 65534 },
    }
  end)

  hostile("names that terminals obey", nil, function()
    return {
      { name = "usr/\27[2J\nmade\1", data = "x" },
      { name = "usr/--checkpoint-action=exec=sh", data = "x" },
      { name = "-C", data = "x" },
      { name = "usr/\255\254", data = "x" },
    }
  end)

  hostile("a name that is too long", "InvalidArgumentError", function()
    return { { name = "usr/" .. ("x"):rep(300), data = "x" } }
  end, "cannot be unpacked")

  hostile("a path that is too long", "InvalidArgumentError", function()
    return { { name = "usr" .. ("/xxxxxxxxx"):rep(500), data = "x" } }
  end)

  hostile("more levels than anybody needs", "InvalidArgumentError",
    function()
      return { { name = "usr" .. ("/d"):rep(300), data = "x" } }
    end, "directories in each other")

  hostile("many levels, as somebody might need", nil, function()
    return { { name = "usr" .. ("/d"):rep(200), data = "x" } }
  end)

  hostile("more at its top than a system has", "InvalidArgumentError",
    function()
      local entries = {}
      for i = 1, 300 do
        entries[i] = { name = "top" .. i, data = "x" }
      end
      return entries
    end, "more than 256")
end)

describe("a bomb:", function()
  local BOUND = { image_max = 16 << 20 } -- and so 4097 entries

  hostile("zeros that are no tar", EITHER, function(path)
    env.sh(("head -c 200000000 /dev/zero | gzip >%s"):format(
      env.quoted(path)))
  end, nil, BOUND)

  hostile("10 GB of zeros", EITHER, function(path)
    env.sh(([[
      cd %s && head -c 100000000 /dev/zero | gzip >one && : >ten && i=0 &&
      while [ $i -lt 100 ]; do cat one >>ten; i=$((i + 1)); done; mv ten %s
      ]]):format(env.quoted(dir), env.quoted(path)))
  end, nil, BOUND)

  hostile("a file of zeros", "LimitError", function(path)
    local head = images.archive(images.with_root({
      { name = "usr/zeros", size = 200000000 },
    }))
    env.write(path .. ".head", head:sub(1, -1025))
    env.sh(("(cat %s; head -c 200000000 /dev/zero) | gzip >%s"):format(
      env.quoted(path .. ".head"), env.quoted(path)))
  end, "image_max", BOUND)

  hostile("a file larger than the bound, not compressed", "LimitError",
    function(path)
      env.sh(("truncate -s 20000000 %s"):format(env.quoted(path)))
      local file = assert(io.open(path, "r+b"))
      file:write(images.archive(images.with_root({})))
      file:close()
    end, "is more than image_max", BOUND)

  hostile("a file of nothing, of a terabyte", "LimitError", function(path)
    local tree = dir .. "/sparse"
    env.sh(("mkdir -p %s/usr && cd %s && truncate -s 1T usr/hole && "
      .. "tar -S -cf %s usr; rm -r %s"):format(tree, tree, path, tree))
  end, nil, BOUND)

  hostile("many files of nothing", "LimitError", function(path)
    local tree = dir .. "/sparse"
    env.sh(([[mkdir -p %s/usr && cd %s/usr && truncate -s 10M a b c d &&
      tar -C .. -S -cf %s usr; rm -r %s]]):format(tree, tree, path, tree))
  end, "image_max", BOUND)

  hostile("many links to one file, which is no bomb", nil, function()
    local entries = { { name = "usr/big", data = ("x"):rep(4 << 20) } }
    for i = 1, 20 do
      entries[i + 1] = { name = "usr/big" .. i, type = "1", link = "usr/big" }
    end
    return entries
  end, nil, BOUND)

  hostile("a multitude of files", "LimitError", function()
    local entries = {}
    for i = 1, 5000 do
      entries[i] = { name = "usr/" .. i }
    end
    return entries
  end, "4097 files and directories", BOUND)

  hostile("a multitude of directories in long names", "LimitError",
    function()
      local entries = {}
      for i = 1, 60 do
        entries[i] = { name = "usr/" .. i .. ("/d"):rep(150) }
      end
      return entries
    end, "4097 files and directories", BOUND)

  hostile("as many files as may be", nil, function()
    local entries = {}
    for i = 1, 4000 do
      entries[i] = { name = "usr/" .. i }
    end
    return entries
  end, nil, BOUND)
end)

describe("what is no good tar:", function()
  local function broken(name, command, text)
    hostile(name, "InvalidArgumentError", function(path)
      local tar = dir .. "/good"
      env.write(tar, images.archive(images.with_root({
        { name = "usr/data", data = ("0123456789"):rep(100000) },
      })))
      env.sh(("cd %s && %s"):format(env.quoted(dir),
        command:gsub("OUT", env.quoted(path))))
    end, text)
  end

  broken("cut off", "head -c 500000 good >OUT", "Unexpected EOF")
  broken("cut off, compressed", "gzip <good | head -c 1000 >OUT",
    "cannot be unpacked")
  broken("damaged, compressed",
    "gzip <good >OUT && printf XXXX | dd of=OUT bs=1 seek=900 conv=notrunc "
      .. "2>/dev/null", "cannot be unpacked")
  broken("text, compressed", "echo hello | gzip >OUT", "tar archive")
  broken("nothing, compressed", "gzip </dev/null >OUT", "cannot be unpacked")
  broken("an empty tar", "head -c 10240 /dev/zero >OUT",
    "neither usr nor bin")
  broken("a tar of something else", "tar -cf OUT outside",
    "neither usr nor bin")
  broken("a tar in a tar", "tar -cf OUT good", "not a root directory")
  broken("a magic number and no more", "printf '\\037\\213' >OUT",
    "cannot be unpacked")

  backends.it(it, BWRAP, "nonsense for image_max", function()
    for _, value in ipairs({ "0", "-1", "x", "1k", "", 1.5, true }) do
      local err = raises("InvalidArgumentError", sync.open, "bwrap",
        { image_max = value })
      assert.truthy(err.message:find("image_max", 1, true), err.message)
    end
    sync.open("bwrap", { image_max = 1 << 40 }):close()
  end)

  backends.it(it, BWRAP, "a file that is written while it is read",
    function()
      local image, cache = dir .. "/written", new_cache()
      local good = images.archive(images.with_root({
        { name = "usr/data", data = ("0123456789"):rep(3000000) },
      }))
      env.write(image, good)
      local writer = dir .. "/writer.lua"
      env.write(writer, ([[
        local lfs = require("lfs")
        local file = io.open(%q, "r+b")
        while not lfs.attributes(%q) do
          file:seek("set", 1536)
          file:write(math.random(1000000000, 9999999999))
          file:flush()
        end
      ]]):format(image, dir .. "/stop"))
      env.sh("lua5.4 " .. env.quoted(writer) .. " >/dev/null 2>&1 &")
      env.sh("sleep 0.2")
      local err = raises("SystemError", create, image, cache)
      env.write(dir .. "/stop", "")
      assert.equal("EBUSY", err.code)
      assert.truthy(err.message:find("changed while it was read", 1, true))
      assert.same({}, images.names(cache, "images"))
      env.eventually(20, function()
        return #env.pgrep({ "lua5.4", writer }) == 0
      end)
    end)
end)

-- What makes a tree our own changes nothing until it has seen all of it.
describe("a tree that is to be sealed", function()
  local AGENT = os.getenv("PORTICO_BUILD") .. "/libexec/portico/portico-agent"
  local tree, uid

  before_each(function()
    tree = dir .. "/tree"
    uid = tonumber((env.sh("id -u")))
    env.sh(([[
      t=%s; chmod -R u+rwX $t 2>/dev/null; rm -rf $t
      mkdir -p $t/usr/closed $t/run; cd $t
      echo x >usr/suid; chmod 4777 usr/suid; echo x >usr/none; chmod 0 usr/none
      mkfifo run/pipe; ln usr/suid usr/hard; ln -s %s/victim way
      chmod 0 usr/closed]]):format(tree, outside))
  end)

  local function seal(first, last, bytes, entries)
    local _, code = env.sh(("%s --seal %s %d %d %d %d 2>&1"):format(AGENT,
      tree, first, last, bytes or 1000, entries or 100))
    return code
  end

  it("loses what it must not have, and no link is followed", function()
    env.sh("chmod 777 " .. outside .. "/victim")
    assert.equal(0, seal(uid, uid))
    assert.equal("", images.dirt(tree))
    assert.equal("rwxrwxrwx",
      lfs.attributes(outside .. "/victim", "permissions"))
    env.sh("chmod 644 " .. outside .. "/victim")
    assert.is_false(env.exists(tree .. "/run/pipe"))
    assert.equal("rwxr-xr-x", lfs.attributes(tree .. "/usr/hard",
      "permissions"))
    assert.equal("rwx------", lfs.attributes(tree .. "/usr/closed",
      "permissions"))
    assert.equal(0, seal(uid, uid))
  end)

  it("is refused untouched if something in it is another's", function()
    local before = env.sh("find " .. tree .. "/usr -printf '%P %m %U\\n'")
    assert.equal(20, seal(uid + 1, uid + 2))
    assert.equal(before, env.sh("find " .. tree
      .. "/usr -printf '%P %m %U\\n'"))
    assert.is_true(env.exists(tree .. "/run/pipe"))
  end)

  it("is refused if it is too much", function()
    assert.equal(22, seal(uid, uid, 1))
    assert.equal(23, seal(uid, uid, 1000, 5))
    env.sh(("mkdir -p %s/usr%s"):format(tree, ("/d"):rep(300)))
    assert.equal(21, seal(uid, uid, 1000, 1000))
    assert.is_true(env.exists(tree .. "/run/pipe"))
  end)

  it("must be a directory, and no link to one", function()
    lfs.link(tree, dir .. "/to-tree", true)
    tree = dir .. "/to-tree"
    assert.equal(1, seal(uid, uid))
    tree = "tree"
    assert.equal(2, seal(uid, uid))
    os.remove(dir .. "/to-tree")
  end)
end)

describe("what unpacks", function()
  -- The agent's program with a "tar" that says how it is bounded.
  backends.it(it, BWRAP, "is bounded in memory, processes and files", function()
    local bin = dir .. "/bin"
    lfs.mkdir(bin)
    env.sh(("cp %s %s/agent && chmod 755 %s %s/agent"):format(
      env.quoted(os.getenv("PORTICO_BUILD")
      .. "/libexec/portico/portico-agent"), bin, dir, bin))
    env.write(bin .. "/tar", "#!/bin/sh\ncat /proc/self/limits >&2\n")
    env.sh("chmod 755 " .. bin .. "/tar")
    local sb <close> = sync.sandbox({ mounts = {
      { source = bin, target = "/bound" },
    } })
    local r = sb:exec({ "/bound/agent", "--unpack", "none", "0", "5000", "5" },
      { input = "", env = { PATH = "/bound:/usr/bin:/bin" } })
    assert.equal(0, r.code, r.stderr)
    for name, bound in pairs({ ["Max processes"] = 64,
      ["Max address space"] = 2 << 30, ["Max file size"] = 5000,
      ["Max core file size"] = 0 }) do
      local soft, hard = r.stderr:match(name .. "%s+(%S+)%s+(%S+)")
      assert.same({ bound, bound }, { tonumber(soft), tonumber(hard) }, name)
    end
  end)
end)

it("hostile tars leave nothing behind", nothing_left)
