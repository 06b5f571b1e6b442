-- `image` of bwrap as a root directory: what is shown of it, and what is
-- refused. Tars are in image_tar_spec.lua.

local lfs = require("lfs")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local images = require("spec.support.images")
local leaks = require("spec.support.leaks")

local BWRAP = backends.bwrap
local WEAK = os.getenv("PORTICO_TEST_PLUGINS") .. "/portico-weak.so"
local IS_ROOT = env.is_root()

local nothing_left = leaks.frame()
local raises = facades.raises

-- A test in both facades.
local function test(name, fn)
  facades.with(it, "bwrap", name, fn)
end

-- The same in one of them.
local function test_once(name, fn)
  backends.it(it, BWRAP, name, function()
    facades.call(facades.list[2], fn)
  end)
end

-- Makes sandboxes of an image whose entry `data` is swapped all the time for a
-- link to a directory of the host, at least 60 and until `wanted` was seen in
-- one; counts what each saw.
local function race(P, dir, options, wanted)
  local secret = dir .. "/secret"
  local image = images.make_root(dir .. "/raced")
  lfs.mkdir(secret)
  lfs.mkdir(image .. "/data")
  env.write(secret .. "/file", "of the host")
  env.write(image .. "/data/file", "of the image")
  env.sh("chmod 755 " .. env.quoted(secret))
  local racer = dir .. "/racer.lua"
  env.write(racer, ([[
    local lfs = require("lfs")
    local image, secret, stop = %q, %q, %q
    while not lfs.attributes(stop) do
      os.rename(image .. "/data", image .. "/real")
      lfs.link(secret, image .. "/data", true)
      for _ = 1, 100000 do end
      os.remove(image .. "/data")
      os.rename(image .. "/real", image .. "/data")
      for _ = 1, 100000 do end
    end
  ]]):format(image, secret, dir .. "/stop"))
  env.sh("lua5.4 " .. env.quoted(racer) .. " >/dev/null 2>&1 &")
  local seen = { host = 0, image = 0, nothing = 0, refused = 0 }
  options.image = image
  for round = 1, 600 do
    local ok, sb = pcall(P.sandbox, options)
    local what = "refused"
    if ok then
      local r = sb:exec({ "cat", "/data/file" })
      what = r.stdout:match("^of the (%a+)$") or "nothing"
      sb:close()
    end
    seen[what] = seen[what] + 1
    seen.rounds = round
    if round >= 60 and seen[wanted] > 0 then
      break
    end
  end
  env.write(dir .. "/stop", "")
  env.eventually(20, function()
    return #env.pgrep({ "lua5.4", racer }) == 0
  end)
  return seen
end

describe("an image that is a directory", function()
  local dir, root

  setup(function()
    dir = env.tmpdir() -- for us alone: what is in it is reached nevertheless
    root = images.make_root(dir .. "/root")
  end)

  teardown(function()
    env.rmdir(dir)
  end)

  test("is the whole system of a sandbox", function(P)
    local sb <close> = P.sandbox({ image = root })
    assert.equal("an image", sb:output("cat /etc/motd"))
    assert.equal("uid=1000 gid=1000 groups=1000",
      (sb:output("id"):gsub("(groups=1000).*", "%1")))
    assert.equal(root, sb:info().image)
    local names = {}
    for _, entry in ipairs(sb.fs:list("/")) do
      names[entry.name] = true
    end
    for _, name in ipairs({
      "bin", "dev", "etc", "home", "proc", "tmp", "usr", "var", "workspace",
    }) do
      assert.is_true(names[name], name)
    end
    assert.is_false(sb.fs:exists("/usr/share"))
    assert.is_false(sb.fs:exists("/etc/passwd"))
    assert.is_nil(names.image)
  end)

  test("is read-only, and what a sandbox has of its own is not", function(P)
    local sb <close> = P.sandbox({ image = root })
    for _, place in ipairs({ "/", "/usr", "/usr/bin", "/etc", "/dev" }) do
      local r = sb:exec({ "touch", place .. "/new" })
      assert.equal(1, r.code, place)
      assert.truthy(r.stderr:find("Read-only", 1, true), r.stderr)
    end
    for _, place in ipairs({
      "/workspace", "/tmp", "/home/sandbox", "/dev/shm",
    }) do
      sb:exec({ "touch", place .. "/new" }, { check = true })
    end
    assert.is_false(env.exists(root .. "/home/sandbox"))
    assert.is_false(env.exists(root .. "/workspace"))
  end)

  test("may be in a place that only we can reach", function(P)
    local private = dir .. "/private" .. tostring(P):gsub("%W", "")
    lfs.mkdir(private)
    env.sh("chmod 700 " .. env.quoted(private))
    images.make_root(private .. "/root", "private")
    local sb <close> = P.sandbox({ image = private .. "/root" })
    assert.equal("private", sb:output("cat /etc/motd"))
  end)

  test("may be named through a link, which is not followed later", function(P)
    local link = dir .. "/link" .. tostring(P):gsub("%W", "")
    lfs.link(root, link, true)
    local sb <close> = P.sandbox({ image = link })
    assert.equal("an image", sb:output("cat /etc/motd"))
    assert.equal(link, sb:info().image)
  end)

  test("takes mounts, and limits", function(P)
    env.write(dir .. "/mounted", "mounted")
    local sb <close> = P.sandbox({
      image = root, limits = { disk = 2 << 20 },
      mounts = {
        { source = dir .. "/mounted", target = "/data/file" },
        { source = dir .. "/mounted", target = "/etc/motd" },
      },
    })
    assert.equal("mounted", sb:output("cat /data/file"))
    assert.equal("mounted", sb:output("cat /etc/motd"))
    assert.equal("an image", env.read(root .. "/etc/motd"))
  end)
end)

describe("what is no image", function()
  local dir

  setup(function()
    dir = env.tmpdir()
    env.sh("mkfifo " .. env.quoted(dir .. "/fifo"))
    for _, name in ipairs({ "empty", "other", "other/lib", "secret" }) do
      lfs.mkdir(dir .. "/" .. name)
    end
    lfs.mkdir(dir .. "/many")
    lfs.mkdir(dir .. "/many/usr")
    for i = 1, 300 do
      env.write(dir .. "/many/" .. i, "")
    end
    env.sh("chmod 0 " .. env.quoted(dir .. "/secret"))
  end)

  teardown(function()
    env.rmdir(dir)
  end)

  local function refused(name, class, image, text)
    test("is refused: " .. name, function(P)
      local path = image:gsub("^DIR", dir)
      local err = raises(class, P.sandbox, { image = path })
      local all = tostring(err)
      assert.truthy(all:find(text, 1, true), all)
      assert.truthy(all:find(path, 1, true), all)
    end)
  end

  refused("nothing", "NotFoundError", "DIR/missing", "no such file")
  refused("nothing below a file", "SystemError", "DIR/many/1/x", "directory")
  refused("a relative path", "InvalidArgumentError", "usr", "not an absolute")
  refused("a pipe", "InvalidArgumentError", "DIR/fifo",
    "neither a directory nor a file")
  refused("a device", "InvalidArgumentError", "/dev/zero",
    "neither a directory nor a file")
  refused("a directory of nothing", "InvalidArgumentError", "DIR/empty",
    "neither usr nor bin")
  refused("a directory of something else", "InvalidArgumentError",
    "DIR/other", "not a root directory")
  refused("a heap of files", "InvalidArgumentError", "DIR/many",
    "more than 256")
  refused("this machine's own root", "PermissionError", "/",
    "directory of Portico's own")
  refused("a link to it", "PermissionError", "/proc/self/root",
    "directory of Portico's own")
  refused("a file that is no tar", "InvalidArgumentError", "/etc/passwd",
    "neither a directory nor a tar")
  refused("an empty file", "InvalidArgumentError", "DIR/many/1",
    "neither a directory nor a tar")

  if IS_ROOT then
    pending("is refused: what we may not read: root reads everything")
  else
    refused("a directory that we may not read", "PermissionError",
      "DIR/secret", "permission denied")
    refused("a file that we may not read", "PermissionError", "/etc/shadow",
      "permission denied")
  end

  test("names the path of what is missing", function(P)
    local err = raises("NotFoundError", P.sandbox,
      { image = dir .. "/missing" })
    assert.equal("ENOENT", err.code)
    assert.equal(dir .. "/missing", err.path)
  end)
end)

describe("links in an image", function()
  local dir, secret

  setup(function()
    dir = env.tmpdir()
    secret = dir .. "/secret"
    lfs.mkdir(secret)
    env.write(secret .. "/file", "of the host")
    env.sh("chmod -R a+rX " .. env.quoted(dir))
  end)

  teardown(function()
    env.rmdir(dir)
  end)

  test_once("lead to places in the sandbox", function(P)
    local root = images.make_root(dir .. "/root")
    local links = {
      abs = secret, up = "../../../../.." .. secret,
      oldroot = "/oldroot" .. secret, oldup = "../oldroot" .. secret,
      cwd = "/proc/self/cwd", host = "/", etc2 = "/etc", fd = "/proc/self/fd",
      magic = "/proc/1/root" .. secret,
    }
    for name, to in pairs(links) do
      lfs.link(to, root .. "/" .. name, true)
      lfs.link(to, root .. "/usr/" .. name, true)
    end
    local sb <close> = P.sandbox({ image = root })
    for name in pairs(links) do
      for _, path in ipairs({ "/" .. name, "/usr/" .. name }) do
        assert.is_false((pcall(sb.fs.read, sb.fs, path .. "/file")), path)
        assert.not_equal("of the host",
          sb:exec({ "cat", path .. "/file" }).stdout, path)
      end
    end
    assert.equal("'/host' -> '/'", sb:output("stat -c %N /host"))
    assert.equal("an image", sb.fs:read("/etc2/motd"))
    assert.equal("an image", sb.fs:read("/host/usr/host/etc/motd"))
  end)

  test_once("may stand for usr, and show the image only", function(P)
    for i, to in ipairs({ "/etc", "/", "../../..", secret }) do
      local root = dir .. "/usr" .. i
      images.make_root(root)
      env.sh(("cd %s && rm bin && mv usr/bin bin && rm -r usr"):format(root))
      lfs.link(to, root .. "/usr", true)
      local sb <close> = P.sandbox({ image = root })
      local listed = sb:exec({ "/bin/ls", "/usr/" })
      local there = to == "/etc" and "motd\n" or to == secret and ""
        or "bin\ndev\netc\nhome\nproc\ntmp\nusr\nvar\nworkspace\n"
      assert.equal(to == secret, listed.code ~= 0)
      assert.equal(there, (listed.stdout:gsub("lib%d*\n", "")))
    end
  end)

  test("are no way for mounts", function(P)
    local root = dir .. "/mounts" .. tostring(P):gsub("%W", "")
    images.make_root(root)
    local outside = root .. ".outside"
    lfs.mkdir(outside)
    for name, to in pairs({
      opt = outside, old = "/oldroot" .. outside, srv = "var",
    }) do
      lfs.link(to, root .. "/" .. name, true)
      lfs.link(to, root .. "/var/" .. name, true)
    end
    for _, target in ipairs({
      "/opt/made", "/old/made", "/srv/made", "/var/opt/made",
      "/var/old/made", "/opt", "/var/old", "//old/made",
    }) do
      local err = raises("InvalidArgumentError", P.sandbox, {
        image = root, mounts = { { source = secret, target = target } },
      })
      assert.truthy(err.message:find("a link in the image", 1, true),
        err.message)
    end
    assert.same({}, images.names(outside, "."))
    assert.is_false(env.exists(root .. "/var/made"))
  end)

  -- Between the look at an image and its mounts somebody who can write it may
  -- put a link in the place of a directory.
  test_once("that were directories a moment before show nothing", function(P)
    lfs.mkdir(dir .. "/strong")
    lfs.mkdir(dir .. "/weak")
    local seen = race(P, dir .. "/strong", {}, "image")
    local control = race(P, dir .. "/weak",
      { backend = WEAK, settings = { weaken = "image_links" } }, "host")
    print(("# entries of an image swapped for links: %d of %d followed,"
      .. " %d refused; naive control: %d of %d followed"):format(seen.host,
      seen.rounds, seen.refused, control.host, control.rounds))
    assert.equal(0, seen.host)
    assert.is_true(seen.image > 0, "the image was never seen")
    assert.is_true(control.host > 0, "the control was never won")
  end)
end)

it("images of directories leave nothing behind", nothing_left)
