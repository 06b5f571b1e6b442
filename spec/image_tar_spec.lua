-- `image` of bwrap as a tar: it becomes a root directory in the cache, once.
-- Tars that mean harm are in image_hostile_spec.lua.

local lfs = require("lfs")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local images = require("spec.support.images")
local leaks = require("spec.support.leaks")
local task = require("portico.task")

local BWRAP = backends.bwrap
local WEAK = os.getenv("PORTICO_TEST_PLUGINS") .. "/portico-weak.so"
local IS_ROOT = env.is_root()

-- The filters of a plugin are made once and kept.
pcall(function()
  require("portico.sync").sandbox({ backend = WEAK }):close()
end)

local nothing_left = leaks.frame()
local raises = facades.raises

-- A test in both facades.
local function test(name, fn)
  facades.with(it, "bwrap", name, fn)
end

-- The same in one of them: 1 is async, 2 is sync.
local function test_in(which, name, fn)
  backends.it(it, BWRAP, name, function()
    facades.call(facades.list[which], fn)
  end)
end

local dir, root
local number = 0

-- The path of a cache that is not there yet.
local function new_cache()
  number = number + 1
  return dir .. "/cache" .. number
end

-- A sandbox with a cache.
local function create(P, image, cache, options)
  local all = { image = image, backend_settings = { cache = cache } }
  for key, value in pairs(options or {}) do
    all[key] = value
  end
  return P.sandbox(all)
end

-- Nothing but these numbers of things is in a cache, now or soon.
local function assert_holds(cache, n_images, n_index)
  assert.is_true(env.eventually(10, function()
    return #images.names(cache, "making") == 0
  end), "work is left in the cache")
  assert.equal(n_images, #images.names(cache, "images"))
  if n_index then
    assert.equal(n_index, #images.names(cache, "index"))
  end
end

-- A tar that takes some time: it has a file of zeros, well compressed.
local function make_slow(path, megabytes)
  local size = megabytes << 20
  local head = images.archive(images.with_root({
    { name = "usr/zeros", size = size },
  })):sub(1, -1025)
  env.write(path .. ".head", head)
  env.sh(([[
    cd %s && gzip -c slow.head >slow.gz && head -c 16777216 /dev/zero |
    gzip >slow.one && i=0 && while [ $i -lt %d ]; do
      cat slow.one >>slow.gz; i=$((i + 1)); done
    head -c 1024 /dev/zero | gzip >>slow.gz; mv slow.gz %s
    rm slow.one slow.head]]):format(env.quoted(dir), megabytes // 16,
    env.quoted(path)))
end

setup(function()
  dir = env.tmpdir()
  root = images.make_root(dir .. "/root")
  images.pack(root, dir .. "/root.tar")
  make_slow(dir .. "/slow", 2048)
end)

teardown(function()
  env.rmdir(dir)
end)

describe("an image that is a tar", function()
  test("is the whole system of a sandbox, read-only", function(P)
    local cache = new_cache()
    local sb <close> = create(P, dir .. "/root.tar", cache)
    assert.equal("an image", sb:output("cat /etc/motd"))
    assert.equal(dir .. "/root.tar", sb:info().image)
    assert.equal(1, sb:exec({ "touch", "/etc/new" }).code)
    sb:exec({ "touch", "/tmp/new", "/workspace/new", "/home/sandbox/new" },
      { check = true })
    assert_holds(cache, 1)
    assert.equal("", images.dirt(cache))
  end)

  for _, program in ipairs({ "gzip", "bzip2", "xz", "zstd" }) do
    local path = env.sh("command -v " .. program):sub(1, -2)
    if not path:find("^/usr/bin/") and not path:find("^/bin/") then
      pending("may be compressed: there is no " .. program .. " here")
    else
      test_in(2, "may be compressed by " .. program .. ", whatever its name",
        function(P)
          local cache, image = new_cache(), dir .. "/" .. program .. ".tar"
          env.sh(("%s <%s >%s"):format(program, env.quoted(dir .. "/root.tar"),
            env.quoted(image)))
          local sb <close> = create(P, image, cache)
          assert.equal("an image", sb:output("cat /etc/motd"))
          assert_holds(cache, 1)
        end)
    end
  end

  local two = not IS_ROOT and pcall(function()
    require("portico.sync").sandbox({ backend_settings = { uids = "two" } })
      :close()
  end)
  if two then
    test_in(2, "is ours with two ids, too", function(P)
      local cache = new_cache()
      local sb <close> = P.sandbox({
        image = dir .. "/root.tar",
        backend_settings = { cache = cache, uids = "two" },
      })
      assert.equal("an image", sb:output("cat /etc/motd"))
      assert.equal("", images.dirt(cache))
    end)
  else
    pending("is ours with two ids, too: only an ordinary user with a range in "
      .. "/etc/subuid has the choice")
  end

  test_in(2, "is not unpacked again", function(P)
    local cache = new_cache()
    images.settle(dir .. "/root.tar")
    create(P, dir .. "/root.tar", cache):close()
    assert_holds(cache, 1, 1)
    local key = images.names(cache, "images")[1]
    assert.equal(env.sh("sha256sum " .. env.quoted(dir .. "/root.tar"))
      :match("^%x+"), key)
    local inode = lfs.attributes(cache .. "/images/" .. key, "ino")
    -- Another name, another file: the same contents.
    env.sh(("cd %s && cp root.tar copy.tar"):format(env.quoted(dir)))
    create(P, dir .. "/copy.tar", cache):close()
    -- The index alone is asked: nothing is started that could read the tar.
    local before = env.now()
    for _ = 1, 5 do
      create(P, dir .. "/root.tar", cache):close()
    end
    assert.is_true(env.now() - before < 5)
    assert_holds(cache, 1)
    assert.equal(inode, lfs.attributes(cache .. "/images/" .. key, "ino"))
  end)

  test_in(2, "whose bytes have changed is another one (attack 23)",
    function(P)
      local cache, image = new_cache(), dir .. "/changing.tar"
      local stamp = dir .. "/stamp"
      env.write(stamp, "")
      for i, settled in ipairs({ false, false, true, true }) do
        -- As long as before, and as old, as far as a file can say so itself.
        local changed = images.make_root(dir .. "/changed" .. i,
          "version " .. i)
        images.pack(changed, dir .. "/next.tar", "--mtime=@0")
        env.sh(("cat %s/next.tar >%s; touch -r %s %s"):format(
          env.quoted(dir), env.quoted(image), env.quoted(stamp),
          env.quoted(image)))
        if settled then
          images.settle(image)
        end
        for _ = 1, 2 do
          local sb <close> = create(P, image, cache)
          assert.equal("version " .. i, sb:output("cat /etc/motd"))
        end
        assert_holds(cache, i)
      end
      assert.equal(1, #images.names(cache, "index"))
    end)

  test_in(2, "becomes ours: no set-id bits, devices, owners (attack 23)",
    function(P)
      local entries = images.with_root({
        { name = "./" , type = "5", mode = 511, uid = 12, gid = 34 },
        { name = "usr/setuid", mode = 2541, uid = 0, data = "x" },
        { name = "usr/setgid", mode = 1517, uid = 33, data = "x" },
        { name = "usr/sticky", type = "5", mode = 1023, uid = 33 },
        { name = "usr/writable", mode = 438, uid = 7, data = "x" },
        { name = "usr/pipe", type = "6", mode = 438 },
        { name = "usr/link", type = "2", link = "/etc/shadow", uid = 7 },
        { name = "usr/hard", type = "1", link = "usr/setuid" },
        { name = "usr/closed", mode = 0, data = "x" },
        { name = "usr/closed.d/", type = "5", mode = 0 },
        { name = "usr/readonly.d/", type = "5", mode = 365 },
        { name = "usr/readonly.d/file", mode = 292, data = "x" },
        { name = "dev/sda", type = "4", major = 8, mode = 438 },
        { name = "./dev/null", type = "3", major = 1, minor = 3, mode = 438 },
        { name = "proc/version", data = "x" },
      })
      local image = dir .. "/dirty.tar"
      env.write(image, images.archive(entries))
      local cache = new_cache()
      create(P, image, cache):close()
      assert_holds(cache, 1)
      assert.equal("", images.dirt(cache))
      local tree = cache .. "/images/" .. images.names(cache, "images")[1]
      assert.equal("file", lfs.attributes(tree .. "/usr/setuid", "mode"))
      assert.is_false(env.exists(tree .. "/usr/pipe"))
      assert.is_false(env.exists(tree .. "/dev"))
      assert.equal("rwx------",
        lfs.attributes(cache, "permissions"))

      -- Without that step it is as bad as it looks.
      local weak = new_cache()
      P.sandbox({
        backend = WEAK, image = image, backend_settings = { cache = weak },
        settings = { weaken = "seal" },
      }):close()
      local dirt = images.dirt(weak)
      assert.truthy(dirt:find("usr/pipe\n", 1, true), dirt)
      if IS_ROOT then
        assert.truthy(dirt:find("usr/file\n", 1, true), dirt)
      end
    end)
end)

describe("many sandboxes of one tar", function()
  test_in(1, "at once get one image", function(P)
    local cache = new_cache()
    local backend <close> = P.open("bwrap", { cache = cache })
    local jobs = {}
    for i = 1, 8 do
      jobs[i] = function()
        local sb <close> = backend:create({ image = dir .. "/root.tar" })
        assert.equal("an image", sb:output("cat /etc/motd"))
      end
    end
    task.all(jobs)
    assert_holds(cache, 1)
  end)

  test_in(2, "in several processes get one image", function()
    local cache = new_cache()
    local script = dir .. "/several.lua"
    env.write(script, ([[
      local P = require("portico")
      local task = require("portico.task")
      P.run(function()
        local function job()
          local sb <close> = P.sandbox({
            image = %q, backend_settings = { cache = %q },
          })
          assert(sb:output("cat /etc/motd") == "an image")
        end
        task.all({ job, job, job })
      end)
      print("right")
    ]]):format(dir .. "/root.tar", cache))
    local output = env.sh(("for i in 1 2 3 4; do lua5.4 %s 2>&1 & done; wait")
      :format(env.quoted(script)))
    assert.equal(("right\n"):rep(4), output)
    assert_holds(cache, 1)
    assert.equal("", images.dirt(cache))
  end)

  test_in(1, "do not lose it if one of them is cancelled", function(P)
    local cache = new_cache()
    local backend <close> = P.open("bwrap", { cache = cache })
    local function patient()
      local sb <close> = backend:create({ image = dir .. "/root.tar" })
      assert.equal("an image", sb:output("cat /etc/motd"))
    end
    local function impatient()
      local err = raises("TimeoutError", backend.create, backend,
        { image = dir .. "/root.tar", timeout = 0.02 })
      assert.equal("PCO_ECALLTIMEOUT", err.code)
      assert.same({}, images.names(cache, "images"))
    end
    task.all({ patient, impatient, patient, impatient })
    assert_holds(cache, 1)
  end)
end)

describe("an unpacking that is not waited for", function()
  test("is ended and removed: at its time limit", function(P)
    local cache = new_cache()
    for _, timeout in ipairs({ 0.001, 0.05, 0.1, 0.3, 0.7 }) do
      local seconds = facades.timed(raises, "TimeoutError", create, P,
        dir .. "/slow", cache, { timeout = timeout })
      assert.is_true(seconds < 10, seconds .. " seconds")
      assert.same({}, images.names(cache, "making"))
      assert.same({}, images.names(cache, "images"))
    end
  end)

  test_in(1, "is ended and removed: cancelled", function(P)
    local cache = new_cache()
    local ok, err = pcall(task.all, {
      function()
        create(P, dir .. "/slow", cache)
      end,
      function()
        P.sleep(0.3)
        error("stop it", 0)
      end,
    })
    assert.is_false(ok)
    assert.truthy(tostring(err):find("stop it", 1, true), tostring(err))
    assert.same({}, images.names(cache, "making"))
    assert.same({}, images.names(cache, "images"))
  end)

  test_in(1, "is ended and removed: its backend closed", function(P)
    local cache = new_cache()
    local backend = P.open("bwrap", { cache = cache })
    local ok, err
    task.all({
      function()
        ok, err = pcall(backend.create, backend, { image = dir .. "/slow" })
      end,
      function()
        P.sleep(0.3)
        backend:close()
        assert.same({}, images.names(cache, "making"))
      end,
    })
    assert.is_false(ok)
    assert.truthy(tostring(err):find("ancel", 1, true)
      or tostring(err):find("closed", 1, true), tostring(err))
    assert_holds(cache, 0, 0)
  end)

  -- By the backend that makes it, and by another one.
  for _, whose in ipairs({ "its own", "another" }) do
    test_in(1, "is ended and removed: by id, of " .. whose .. " backend",
      function(P)
        local cache = new_cache()
        local backend <close> = P.open("bwrap", { cache = cache })
        local other <close> = P.open("bwrap")
        local ok, err
        task.all({
          function()
            ok, err = pcall(backend.create, backend,
              { image = dir .. "/slow", name = "ended-by-id" })
          end,
          function()
            P.sleep(0.3)
            local ending = whose == "another" and other or backend
            assert.is_true(ending:destroy("ended-by-id"))
            assert.is_false(ending:destroy("ended-by-id"))
          end,
        })
        assert.is_false(ok)
        assert.is_true(require("portico.errors").is(err, "ConnectionError"),
          tostring(err))
        assert.truthy(err.message:find("by its id", 1, true), err.message)
        assert_holds(cache, 0, 0)
      end)
  end

  -- The sync facade makes it on a thread of its own.
  test_in(1, "is ended and removed: by id, from another thread", function(P)
    local cache = new_cache()
    local sync = require("portico.sync")
    local other <close> = sync.open("bwrap", nil, { allow_in_tasks = true })
    local ok, err
    task.all({
      function()
        ok, err = pcall(create, P, dir .. "/slow", cache,
          { name = "ended-by-id" })
      end,
      function()
        P.sleep(0.3)
        -- It blocks this thread, on which the sandbox is made: it must wait no
        -- longer than it may.
        local seconds, why = facades.timed(raises, "TimeoutError",
          other.destroy, other, "ended-by-id", { timeout = 1 })
        assert.equal("PCO_ECALLTIMEOUT", why.code)
        assert.is_true(seconds < 15, seconds .. " seconds")
      end,
    })
    assert.is_false(ok)
    assert.truthy(err.message:find("by its id", 1, true), err.message)
    assert_holds(cache, 0, 0)
  end)

  test_in(1, "leaves the loop to others meanwhile", function(P)
    local cache = new_cache()
    task.all({
      function()
        raises("TimeoutError", create, P, dir .. "/slow", cache,
          { timeout = 0.6 })
      end,
      function()
        local longest, last = 0, env.now()
        for _ = 1, 25 do
          P.sleep(0.02)
          longest = math.max(longest, env.now() - last)
          last = env.now()
        end
        -- All of it would take some seconds.
        assert.is_true(longest < 2, longest .. " seconds of silence")
      end,
    })
  end)

  test_in(2, "is not taken for an image when it was killed", function(P)
    for _, moment in ipairs({ 0, 0.05, 0.2, 0.5 }) do
      local cache = new_cache()
      local script = dir .. "/killed.lua"
      env.write(script, ([[
        require("portico.sync").sandbox({
          image = %q, backend_settings = { cache = %q },
        })
      ]]):format(dir .. "/slow", cache))
      local pid = env.sh(("lua5.4 %s >/dev/null 2>&1 & echo $!"):format(
        env.quoted(script)))
      assert.is_true(env.eventually(20, function()
        return #images.names(cache, "making") > 0
      end), "nothing was begun")
      env.sh(("sleep %s; kill -KILL %s"):format(moment, pid))
      assert.equal(1, #images.names(cache, "making"))
      assert.same({}, images.names(cache, "images"))
      -- While it dies what it has is still its own.
      assert.is_true(env.eventually(20, function()
        return not env.exists("/proc/" .. pid:sub(1, -2))
      end))
      local sb <close> = create(P, dir .. "/root.tar", cache)
      assert.equal("an image", sb:output("cat /etc/motd"))
      assert_holds(cache, 1)
    end
  end)
end)

describe("a cache", function()
  local function refused(name, prepare, text)
    test_in(2, "is refused if it " .. name, function(P)
      local cache = new_cache()
      cache = prepare(cache) or cache
      local err = raises("PermissionError", create, P, dir .. "/root.tar",
        cache)
      for _, part in ipairs({ text, "the setting 'cache'", dir }) do
        assert.truthy(err.message:find(part, 1, true), err.message)
      end
    end)
  end

  refused("is open to others", function(cache)
    lfs.mkdir(cache)
    env.sh("chmod 755 " .. env.quoted(cache))
  end, "is open to others (chmod 700)")

  refused("is a link", function(cache)
    lfs.mkdir(cache .. ".to")
    env.sh("chmod 700 " .. env.quoted(cache .. ".to"))
    lfs.link(cache .. ".to", cache, true)
  end, "is a link")

  refused("is behind a link", function(cache)
    lfs.mkdir(cache .. ".to")
    lfs.link(cache .. ".to", cache, true)
    return cache .. "/cache"
  end, "is a link")

  refused("is where others can put another one", function(cache)
    lfs.mkdir(cache)
    env.sh("chmod 777 " .. env.quoted(cache))
    return cache .. "/cache"
  end, "can be written by others")

  refused("is a file", function(cache)
    env.write(cache, "")
  end, "is not a directory")

  if IS_ROOT then
    refused("belongs to another", function(cache)
      lfs.mkdir(cache)
      env.sh(("chmod 700 %s; chown 65534 %s"):format(cache, cache))
    end, "belongs to another user")
  else
    pending("is refused if it belongs to another: only root can make one")
  end

  test_in(2, "is refused if its path is odd, or leads nowhere", function(P)
    raises("InvalidArgumentError", create, P, dir .. "/root.tar",
      dir .. "/../cache")
    raises("InvalidArgumentError", create, P, dir .. "/root.tar", "cache")
    raises("NotFoundError", create, P, dir .. "/root.tar",
      dir .. "/missing/cache")
  end)

  test_in(2, "is no place for mounts", function(P)
    local cache = new_cache()
    create(P, dir .. "/root.tar", cache):close()
    for _, source in ipairs({
      cache, cache .. "/images", dir,
      cache .. "/images/" .. images.names(cache, "images")[1],
    }) do
      local err = raises("PermissionError", create, P, root, cache,
        { mounts = { { source = source, target = "/mnt" } } })
      assert.truthy(err.message:find("Portico's own", 1, true), err.message)
    end
  end)

  test_in(2, "is not needed, nor made, for directories", function(P)
    local cache = new_cache()
    create(P, root, cache):close()
    assert.is_false(env.exists(cache))
  end)

  -- What is needed may not be there. Root can hide a program, from itself only.
  if IS_ROOT then
    test_in(2, "gets nothing from a program that is missing, which is named",
      function()
        for _, program in ipairs({ "gzip", "tar", "sha256sum" }) do
          local cache = new_cache()
          local script = dir .. "/missing.lua"
          env.sh(("cd %s; gzip <root.tar >root.tgz"):format(env.quoted(dir)))
          env.write(script, ([[
            local P = require("portico.sync")
            local ok, err = pcall(P.sandbox, {
              image = %q, backend_settings = { cache = %q },
            })
            print(ok, P.errors.class_of(err).name, err.message)
          ]]):format(dir .. "/root.tgz", cache))
          local output = env.sh(([[
            unshare -m sh -c 'mount --bind /dev/null $(readlink -f %s) &&
              lua5.4 %s' 2>&1]]):format(
            env.sh("PATH=/usr/bin:/bin command -v " .. program):sub(1, -2),
            script))
          assert.truthy(output:find("^false\tUnavailableError\t"), output)
          assert.truthy(output:find(program, 1, true), output)
          assert_holds(cache, 0, 0)
        end
      end)
  else
    pending("gets nothing from a missing program: only root can hide one")
  end
end)

-- The command that the README gives, on a cache.
local function sweep(cache)
  local readme = assert(env.read("plugins/bwrap/README.md"))
  local command = assert(readme:match("```sh\n(find CACHE.-)```"))
  env.sh((command:gsub("CACHE", (env.quoted(cache):gsub("%%", "%%%%")))))
end

describe("a cache of images", function()
  test("is swept by age since the last use", function(P)
    local cache = new_cache()
    local tars = {}
    for i = 1, 2 do
      tars[i] = dir .. "/aged" .. i .. ".tar"
      env.write(tars[i], images.archive(images.with_root({
        { name = "usr/which", data = tostring(i) },
        { name = "usr/closed/", type = "5", mode = 365 },
      })))
    end
    images.settle(tars[2])
    local function use(i)
      -- Nothing can run in it, but that it was made is enough.
      local ok, err = pcall(create, P, tars[i], cache)
      if ok then
        err:close()
      else
        assert.falsy(tostring(err):find("image", 1, true), tostring(err))
      end
    end
    use(1)
    use(2)
    assert_holds(cache, 2)
    env.sh("touch -d '40 days ago' " .. cache .. "/images/*")
    use(1)
    sweep(cache)
    local left = images.names(cache, "images")
    assert.equal(1, #left)
    assert.equal("1", env.read(("%s/images/%s/usr/which"):format(cache,
      left[1])))
    use(2) -- is unpacked again
    assert_holds(cache, 2)
  end)
end)

it("tars leave nothing behind", nothing_left)

