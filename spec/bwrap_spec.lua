-- The bwrap backend by itself: what a sandbox is like inside, what create()
-- refuses and how, and what is said where it cannot work.

local lfs = require("lfs")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local raises = facades.raises
local nothing_left = leaks.frame()

-- A test in both facades with an open backend.
local function test(name, fn, settings)
  facades.with(it, "bwrap", name, function(P)
    local backend <close> = P.open("bwrap", settings)
    fn(backend, P)
  end)
end

local function has(text, words)
  assert.truthy(text:find(words, 1, true), text .. "\nlacks: " .. words)
end

-- A directory that everybody may read; removed after the test.
local function with_dir(fn)
  local dir = env.tmpdir()
  env.sh("chmod 755 " .. dir)
  local ok, err = pcall(fn, dir)
  env.rmdir(dir)
  if not ok then
    error(err, 0)
  end
end

describe("inside of bwrap", function()
  test("there is a small world", function(backend)
    local sb <close> = backend:create()
    assert.equal("sandbox", sb:output("hostname"))
    assert.equal("sandbox", sb:output("whoami"))
    assert.equal("1000:1000", sb:output("echo $(id -u):$(id -g)"))
    assert.equal("/workspace", sb:output("pwd"))
    assert.equal("/home/sandbox", sb:output("cd; pwd"))
    assert.equal("HOME LANG PATH PWD TMPDIR USER",
      sb:output("env | grep -v ^_ | cut -d= -f1 | LC_ALL=C sort | xargs"))
    assert.equal("bin dev etc home proc run sbin tmp usr var workspace",
      sb:output("ls / | grep -v ^lib | xargs"))
    assert.equal("1", sb:output("ls -d /proc/[0-9]* | grep -c /proc/1$"))
    assert.equal("lo", sb:output("ls /sys/class/net 2>/dev/null || "
      .. "sed -n 's/^ *\\([a-z0-9]*\\):.*/\\1/p' /proc/net/dev"))
    assert.equal("ok", sb:output("echo ok >/dev/stdout"))
    assert.equal("ok", sb:output("exec 3</dev/null; echo ok 2>/dev/stderr"))
  end)

  test("only four places can be written", function(backend)
    local sb <close> = backend:create()
    for _, place in ipairs({ "/workspace", "/home/sandbox", "/tmp",
      "/dev/shm", "/var/tmp" }) do
      assert.equal("x", sb:output("echo x >" .. place .. "/f; cat "
        .. place .. "/f"))
    end
    local open = sb:output([[find / -xdev \( -type d -o -type f \) -writable \
      -not -path '/proc/*' 2>/dev/null | xargs]])
    assert.equal("", open:gsub("/workspace%S*", ""):gsub("/tmp%S*", "")
      :gsub("/home/sandbox%S*", ""):gsub("/dev/shm%S*", "")
      :gsub("%s", ""))
    assert.equal(1, sb:exec("echo x >/dev/null2").code ~= 0 and 1 or 0)
  end)

  test("the host's loopback is not there", function(backend)
    local sb <close> = backend:create()
    assert.equal(7, sb:exec("exec 2>/dev/null; ip link 2>&1 | grep -q eth && "
      .. "exit 1; exit 7").code)
  end)

  test("disk bounds everything together", function(backend)
    local sb <close> = backend:create({ limits = { disk = 8 << 20 } })
    local r = sb:exec("head -c 6M /dev/zero >/tmp/a; "
      .. "head -c 6M /dev/zero >/workspace/b; stat -c %s /tmp/a")
    assert.equal(tostring(6 << 20), r.stdout:match("%d+"))
    has(r.stderr, "No space left on device")
    raises("LimitError", sb.fs.write, sb.fs, "c", ("x"):rep(6 << 20))
    assert.is_true(sb.fs:remove("/tmp/a"))
    sb.fs:write("c", "room again")
  end)

  test("list and destroy know it by its id", function(backend, P)
    local sb = backend:create({ name = "bwrap-spec", labels = { a = "b" } })
    local other <close> = P.open("bwrap")
    local info
    for _, each in ipairs(other:list()) do
      info = each.id == "bwrap-spec" and each or info
    end
    assert.equal("running", info.state)
    assert.same({ a = "b" }, info.labels)
    raises("AlreadyExistsError", backend.create, backend,
      { name = "bwrap-spec" })
    assert.is_true(other:destroy("bwrap-spec"))
    assert.is_false(other:destroy("bwrap-spec"))
    local err = raises("ConnectionError", sb.exec, sb, "true")
    assert.equal("PCO_EGONE", err.code)
    sb:close()
  end)
end)

describe("mounts of bwrap", function()
  test("are read-only unless said", function(backend)
    with_dir(function(dir)
      env.write(dir .. "/file", "host")
      env.sh("mkdir -m 777 " .. dir .. "/open; chmod 644 " .. dir .. "/file")
      local sb <close> = backend:create({
        mounts = {
          { source = dir, target = "/mnt/deep/ro" },
          { source = dir .. "/open", target = "/rw", read_only = false },
          { source = dir .. "/file", target = "/etc/one-file" },
        },
      })
      assert.equal("host", sb:output("cat /mnt/deep/ro/file"))
      assert.equal("host", sb.fs:read("/etc/one-file"))
      local r = sb:exec("echo x >/mnt/deep/ro/open/f")
      has(r.stderr, "Read-only file system")
      sb:exec("echo out >/rw/f", { check = true })
      assert.equal("out\n", env.read(dir .. "/open/f"))
      env.sh("rm -f " .. dir .. "/open/f")
      assert.equal(0, sb:exec("test -x /mnt && test -x /mnt/deep").code)
    end)
  end)

  test("with bad sources are refused", function(backend)
    local function refused(class, source, words)
      local err = raises(class, backend.create, backend, {
        mounts = { { source = source, target = "/x" } },
      })
      has(err.message, words)
      return err
    end
    local err = refused("NotFoundError", "/no/such/dir", "/no/such/dir")
    assert.equal("/no/such/dir", err.path)
    refused("InvalidArgumentError", "relative", "absolute")
    local build = os.getenv("PORTICO_BUILD")
    for _, own in ipairs({ "/lib/portico/plugins", "/lib/portico", "/lib", "",
      "/libexec/portico", "/libexec/portico/portico-agent" }) do
      refused("PermissionError", build .. own, "Portico's own")
    end
    refused("PermissionError", "/", "put together")
    for _, stage in ipairs({ "/dev/shm", "/dev" }) do
      refused("PermissionError", stage, "put together")
    end
  end)

  -- Who could write there would write what runs outside.
  test("of the modules and the command are refused if they are writable",
    function(backend)
      local build = os.getenv("PORTICO_BUILD")
      local modules = env.sh("readlink -f " .. env.quoted(build
        .. "/share/lua/5.4/portico")):sub(1, -2)
      for _, own in ipairs({ modules, modules .. "/sync",
        modules:match("^(.*)/"), build .. "/share",
        build .. "/lib/lua/5.4/portico", build .. "/bin" }) do
        local function mount(read_only)
          return { mounts = {
            { source = own, target = "/x", read_only = read_only },
          } }
        end
        has(raises("PermissionError", backend.create, backend,
          mount(false)).message, "Portico's own")
        local sb <close> = backend:create(mount(true))
        assert.equal(0, sb:exec({ "test", "-d", "/x" }).code)
      end
    end)

  -- Nobody who reads a link that a command has made gets to see the agent.
  test("and file operations do not lead to the agent's own /proc",
    function(backend)
      local sb <close> = backend:create()
      sb:exec([[ln -s /proc/self/maps maps; ln -s /proc/1/maps maps1
        ln -s /proc/self/task/1/comm comm; ln -s /proc/1/task/1/comm comm1
        ln -s /proc/mounts mounts]], { check = true })
      for link, code in pairs({ maps = "ELOOP", maps1 = "EACCES",
        comm = "ELOOP", comm1 = "EACCES", mounts = "ELOOP" }) do
        for _, call in ipairs({ "read", "append" }) do
          local ok, err = pcall(sb.fs[call], sb.fs, link, "x")
          if call == "read" then
            ok, err = pcall(sb.fs.read, sb.fs, link)
          end
          assert.is_false(ok, link)
          assert.equal(code, err.code, link)
        end
      end
      -- A command of its own may look, and what is of others is there.
      assert.equal("portico-agent\n", sb:exec("cat comm1").stdout)
      has(sb.fs:read("/proc/cpuinfo"), "processor")
    end)

  test("that are no list, or lie in each other, are refused",
    function(backend)
      local function refused(list, words)
        has(raises("InvalidArgumentError", backend.create, backend,
          { mounts = list }).message, words)
      end
      refused({ source = "/usr", target = "/x" }, "sequence of tables")
      refused({ "/usr" }, "mounts[1]")
      refused({ { source = "/usr", target = "/x" },
        { source = "/usr", target = "/x/y" } }, "lies in that of another")
      refused({ { source = "/usr", target = "/x" },
        { source = "/usr", target = "/x" } }, "lies in that of another")
    end)

  test("with bad targets are refused", function(backend)
    for target, words in pairs({
      ["relative"] = "absolute",
      ["/"] = "absolute",
      ["/a/../b"] = "absolute",
      ["/a/./b"] = "absolute",
      ["/proc/x"] = "/proc",
      ["/dev"] = "/dev",
      ["/sys"] = "/sys",
    }) do
      has(raises("InvalidArgumentError", backend.create, backend, {
        mounts = { { source = "/usr", target = target } },
      }).message, words)
    end
    has(raises("PermissionError", backend.create, backend, {
      mounts = { { source = "/usr", target = "/usr/not-there" } },
    }).message, "has no place")
  end)
end)

describe("create of bwrap refuses", function()
  test("what it cannot do, by name", function(backend)
    for option, value in pairs({
      network = "bridge", user = "root",
    }) do
      has(raises("UnsupportedError", backend.create, backend,
        { [option] = value }).message, option)
    end
  end)

  test("nonsense", function(backend)
    has(raises("InvalidArgumentError", backend.create, backend,
      { name = "../x" }).message, "../x")
    has(raises("InvalidArgumentError", backend.create, backend,
      { limits = { disk = 4096 } }).message, "disk")
    has(raises("InvalidArgumentError", backend.create, backend,
      { limits = { memory = 1000 } }).message, "memory")
    has(raises("InvalidArgumentError", backend.create, backend,
      { settings = { weaken = "seccomp" } }).message, "weaken")
    local err = raises("InvalidArgumentError", backend.create, backend,
      { settings = { uids = "one" } })
    has(err.message, "backend_settings = {uids")
  end)

  test("a cwd that is none", function(backend)
    for cwd, code in pairs({
      ["/no/such"] = "ENOENT", ["a\nb"] = "ENOENT",
      ["/etc/passwd"] = "ENOTDIR", [("a"):rep(300)] = "ENAMETOOLONG",
      [("a/"):rep(4000)] = "ENAMETOOLONG",
    }) do
      local _, err = pcall(backend.create, backend, { cwd = cwd })
      assert.equal(code, err.code, tostring(err))
      has(err.message, "cwd")
      has(err.message, cwd:sub(1, 50))
    end
  end)

  test("a mount that has no place", function(backend)
    local dir = "/usr/share"
    for target, expected in pairs({
      ["/usr/no-such/x"] = "EROFS /usr/no-such",
      ["/etc/passwd/x"] = "ENOTDIR /etc/passwd",
      ["/usr/bin/env"] = "ENOTDIR /usr/bin/env",
      ["/" .. ("a"):rep(300)] = "ENAMETOOLONG /aaaa",
      ["/usr/" .. ("namespace/"):rep(60) .. "x"] = "EROFS /usr/namespace",
      [("/a"):rep(3000)] = "ENAMETOOLONG /a/a",
    }) do
      local _, err = pcall(backend.create, backend,
        { mounts = { { source = dir, target = target } } })
      local code, component = expected:match("(%S+) (%S+)")
      assert.equal(code, err.code, tostring(err))
      has(err.message, component)
    end
    local _, err = pcall(backend.create, backend,
      { mounts = { { source = "/etc/passwd", target = "/usr" } } })
    assert.equal("EISDIR", err.code, tostring(err))
  end)

  test("an environment that is too large", function(backend)
    local large = { LARGE = ("x"):rep(200000) }
    local _, err = pcall(backend.create, backend, { env = large })
    assert.equal("E2BIG", err.code, tostring(err))
    has(err.message, "environment")
    local sb <close> = backend:create()
    err = raises("SpawnError", sb.exec, sb, { "true" }, { env = large })
    assert.equal("E2BIG", err.code)
    has(err.message, "environment (200")
    for i = 1, 300 do
      large["N" .. i] = ("x"):rep(100000)
    end
    err = raises("SpawnError", sb.exec, sb, { "true" }, { env = large })
    assert.equal("E2BIG", err.code)
    has(err.message, "environment (30")
    assert.equal("fine", sb:output("echo fine"))
  end)

  it("settings that are none", function()
    local sync = require("portico.sync")
    for settings, words in pairs({
      [{ uids = "three" }] = "three",
      [{ bwrap = "bwrap" }] = "absolute",
      [{ cache = "x" }] = "absolute",
      [{ cgroup = "x" }] = "absolute",
      [{ uid = "two" }] = "did you mean 'uids'",
    }) do
      has(raises("InvalidArgumentError", sync.open, "bwrap", settings).message,
        words)
    end
    for _, range in ipairs({ "4294967292:8", "-5:10", "0:10", "5", "5:1",
      "5:10x" }) do
      local backend <close> = sync.open("bwrap", { id_range = range })
      has(raises(env.is_root() and "InvalidArgumentError" or "UnsupportedError",
        backend.create, backend).message, "id_range")
    end
    if env.is_root() then
      local backend <close> = sync.open("bwrap", { uids = "one" })
      has(raises("UnsupportedError", backend.create, backend).message, "root")
    end
  end)
end)

describe("where bwrap cannot work", function()
  local function with_program(text, fn)
    with_dir(function(dir)
      local program = dir .. "/bwrap"
      env.write(program, text)
      env.sh("chmod 755 " .. program)
      fn(program)
    end)
  end

  -- create() and probe() with a bubblewrap that is none.
  local function without(P, program, words)
    local backend <close> = P.open("bwrap", { bwrap = program })
    local err = raises("UnavailableError", backend.create, backend)
    for _, word in ipairs(words) do
      has(err.message, word)
    end
    has(err.message, 'backend = "local"')
    local isolation = backend:probe().capabilities.isolation
    assert.equal("missing", isolation.level)
    has(isolation.reason, words[1])
    has(backend:probe().detail, words[1])
  end

  facades.both(it, "it says which package is missing", function(P)
    without(P, "/no/such/bwrap", { "/no/such/bwrap", "package bubblewrap" })
  end)

  facades.both(it, "it says that the program is another", function(P)
    for _, text in ipairs({
      "exit 0", "exit 1", "echo 'usage: x' >&2; exit 2",
    }) do
      with_program("#!/bin/sh\n" .. text .. "\n", function(program)
        without(P, program, { "not bubblewrap", program })
      end)
    end
  end)

  facades.both(it, "it says that bubblewrap is too old", function(P)
    with_program("#!/bin/sh\necho 'bwrap: Unknown option --clearenv' >&2\n"
      .. "exit 1\n", function(program)
      without(P, program, { "too old", "0.8" })
    end)
  end)

  facades.both(it, "it says what the kernel forbids", function(P)
    with_program("#!/bin/sh\necho 'bwrap: No permissions to create new "
      .. "namespace, likely because ...' >&2\nexit 1\n", function(program)
      without(P, program, { "new namespace" })
    end)
  end)

  facades.both(it, "it says that the program cannot be run", function(P)
    with_program("no program", function(program)
      without(P, program, { "cannot execute", program })
    end)
  end)

  facades.both(it, "a launcher that hangs ends with its caller", function(P)
    with_program("#!/bin/sh\nexec sleep 600\n", function(program)
      local backend <close> = P.open("bwrap", { bwrap = program })
      local err = raises("TimeoutError", backend.create, backend,
        { timeout = 0.3 })
      assert.equal("PCO_ECALLTIMEOUT", err.code)
    end)
  end)

  facades.both(it, "a launcher that talks without an end is heard to its end",
    function(P)
      with_program("#!/bin/sh\nyes bla | head -c 1000000 >&2\n"
        .. "echo last words >&2\nexit 3\n", function(program)
        local backend <close> = P.open("bwrap", { bwrap = program })
        local err = raises("ConnectionError", backend.create, backend)
        has(err.message, "last words")
      end)
    end)
end)

describe("probe of bwrap", function()
  test("tells what works", function(backend)
    local probe = backend:probe()
    has(probe.detail, "bwrap")
    local caps = probe.capabilities
    for _, name in ipairs({ "isolation", "network.none", "limits.disk",
      "limits.open_files", "image", "mounts", "signals", "pty" }) do
      assert.equal("native", caps[name].level, name)
    end
    assert.truthy(caps["limits.memory"].reason)
    local ids = caps.isolation.reason
    has(ids, env.is_root() and "two ids" or "share your id")
  end)

  if not env.is_root() and lfs.attributes("/usr/bin/newuidmap") then
    test("two ids where the user has a range", function(backend)
      local caps = backend:probe().capabilities
      if caps.isolation.level == "missing" then
        pending("no two ids here: " .. caps.isolation.reason)
      end
      local sb <close> = backend:create()
      has(caps.isolation.reason, "two ids")
      assert.equal("2", sb:output("wc -l </proc/self/uid_map"):match("%d+"))
      assert.equal("sandbox", sb:output("whoami"))
      sb.fs:write("f", "x")
      assert.equal("sandbox\nx", sb:output("stat -c %U f; cat f"))
      assert.equal("ok", sb:output("echo ok >/dev/stdout"))
    end, { uids = "two" })
  end
end)

it("nothing is left", nothing_left)
