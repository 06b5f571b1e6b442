-- The option `user` of a command. Situation 77 of the collection of cases, and
-- what a command of another user must bear like any other.
--
-- Other users are to be had on `local`, by root. Everywhere else a command has
-- one user: it may be named, and nobody else.

local backends = require("spec.support.backends")
local detached = require("spec.support.detached")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local images = require("spec.support.images")
local leaks = require("spec.support.leaks")
local users = require("spec.support.users")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises
local root = env.is_root()
local IDS = users.IDS
local SHOW = 'echo "$HOME $USER $LOGNAME $SHELL"'

local function as_root(...)
  users.as_root(it, ...)
end

-- A user that exists, and that no command of this test is otherwise; nil on
-- what root runs on `local`, where every user is to be had.
local function foreigner(backend)
  if backend.isolated then
    return "root"
  end
  return not root and "nobody" or nil
end

describe("a user that is named:", function()
  on_each(it, "the one of all commands", function(_, sb)
    local name = sb:output({ "id", "-un" })
    local uid, gid = sb:output({ "id", "-u" }), sb:output({ "id", "-g" })
    local user = assert(users.entry(sb:output({ "cat", "/etc/passwd" }), name))
    local said = ("%s %s %s %s"):format(user.home, name, name, user.shell)
    for _, spec in ipairs({ name, uid, uid .. ":" .. gid, name .. ":" .. gid })
    do
      assert.equal(uid .. "\n" .. gid,
        sb:output("id -u; id -g", { user = spec }))
      assert.equal(said, sb:output(SHOW, { user = spec }))
      assert.equal("set", sb:output("echo ${TMPDIR:+set}", { user = spec }))
      assert.equal(uid, sb:spawn({ "id", "-u" }, { user = spec }):wait()
        .stdout:match("%d+"))
    end
  end)

  on_each(it, "case 77: one that there is not", function(_, sb)
    for _, start in ipairs({ "exec", "spawn", "output" }) do
      for spec, code in pairs({
        ["no-such"] = "ENOENT", ["no-such:no-such"] = "ENOENT",
        ["12x"] = "EINVAL", ["0:"] = "EINVAL", ["4294967295"] = "EINVAL",
        ["-1"] = "ENOENT", [":0"] = "ENOENT", ["a b"] = "ENOENT",
        [("x"):rep(70000)] = "ENOENT",
      }) do
        local err = raises("SpawnError", sb[start], sb, "touch marker",
          { user = spec })
        assert.equal(code, err.code)
        assert.truthy(err.message:find("'" .. spec:sub(1, 70), 1, true),
          err.message)
      end
    end
    assert.is_false(sb.fs:exists("marker"))
  end)

  on_each(it, "case 77: one whose rights are missing", function(_, sb, backend)
    local name = foreigner(backend)
    if not name then
      return -- that is root, as which the next tests are
    end
    local uid = sb:output({ "id", "-u" })
    for _, spec in ipairs({
      name, "0", "0:0", uid .. ":0", uid .. ":12345", "12345", "nobody",
      "1:" .. sb:output({ "id", "-g" }),
    }) do
      for _, start in ipairs({ "exec", "spawn" }) do
        local err = raises("SpawnError", sb[start], sb, "touch marker",
          { user = spec })
        assert.equal("EPERM", err.code, spec)
        assert.truthy(err.message:find("user '", 1, true), err.message)
      end
    end
    assert.is_false(sb.fs:exists("marker"))
    assert.equal(uid, sb:output({ "id", "-u" }))
  end)

  on_each(it, "bad values", function(_, sb)
    for _, bad in ipairs({ "", 0, 5, true, false, {}, "a\0b" }) do
      local err = raises("InvalidArgumentError", sb.exec, sb, { "true" },
        { user = bad })
      assert.truthy(err.message:find("user", 1, true), err.message)
    end
  end)

  facades.both(it, "is told by a backend that has none [null]", function(P)
    facades.with_sandbox(P, { backend = "null" }, function(sb)
      local err = raises("UnsupportedError", sb.exec, sb, { "true" },
        { user = "root" })
      assert.truthy(err.message:find("user", 1, true))
    end)
  end)

  facades.both(it, "is a capability [local]", function(P)
    local b <close> = P.open("local")
    assert.equal(root and "native" or "missing",
      b:probe().capabilities.user.level)
  end)
end)

describe("another user:", function()
  as_root("case 77: ids, groups, home and name; none of root's",
    function(_, sb)
      local nobody = users.nobody()
      local options = { user = "nobody" }
      assert.equal(("%s\n%s\n%s"):format(nobody.uid, nobody.gid, nobody.gid),
        sb:output(IDS, options))
      users.check_status(sb, nobody, options)
      assert.equal(nobody.home .. " nobody nobody " .. nobody.shell,
        sb:output(SHOW, options))
    end)

  as_root("case 77: may not do what root may", function(_, sb)
    local dir = env.tmpdir()
    env.sh("chmod 700 " .. dir .. "; chown 0:0 " .. dir)
    local r = sb:exec({ "touch", dir .. "/x" }, { user = "nobody" })
    local made = env.exists(dir .. "/x")
    local own = sb:exec({ "touch", dir .. "/x" })
    env.rmdir(dir)
    assert.are_not.equal(0, r.code)
    assert.is_false(made)
    assert.is_true(own.ok)
  end)

  as_root("has the groups that the system gives", function(_, sb)
    local groups = 0
    for line in io.lines("/etc/passwd") do
      local name = line:match("^([%w_][%w_-]*):")
      local expected = users.sorted_ids((env.sh("id -G " .. name)))
      groups = math.max(groups, #expected)
      assert.same(expected,
        users.sorted_ids(sb:output("id -G", { user = name })))
    end
    print("# most groups of a user of this machine: " .. groups)
  end)

  as_root("has the group that is given, and no other", function(_, sb)
    local gid = users.gid_of("daemon")
    local uid = users.nobody().uid
    for _, spec in ipairs({ "nobody:daemon", "nobody:" .. gid, uid .. ":"
      .. gid, uid .. ":daemon" }) do
      assert.equal(("%s\n%s\n%s"):format(uid, gid, gid),
        sb:output(IDS, { user = spec }))
    end
    assert.equal("23456\n34567\n34567", sb:output(IDS,
      { user = "23456:34567" }))
    assert.equal("/ 23456 23456 /bin/sh", sb:output(SHOW, { user = "23456" }))
  end)

  as_root("what the call's env sets stays", function(_, sb)
    local options = {
      user = "nobody",
      env = { HOME = "/h", USER = "u", LOGNAME = false, TMPDIR = "/t" },
    }
    assert.equal("/h u none /t",
      sb:output("echo $HOME $USER ${LOGNAME-none} $TMPDIR", options))
    assert.equal("none", sb:output("echo ${TMPDIR-none}", { user = "nobody" }))
    assert.equal("nobody", sb:output("echo $USER", { user = "nobody" }))
    assert.equal("A=1\n", sb:exec({ "/usr/bin/env" }, {
      user = "nobody", clean_env = true, env = { A = "1" },
    }).stdout)
  end, { env = { USER = "mine", HOME = "/mine" } })

  as_root("enters only directories that are open to it", function(_, sb)
    sb.fs:mkdir("sub", { mode = "755" })
    local err = raises("SpawnError", sb.exec, sb, { "true" },
      { user = "nobody", cwd = "sub" })
    assert.same({ "EACCES", "sub" }, { err.code, err.path })
    assert.equal("/", sb:output("pwd", { user = "nobody", cwd = "/" }))
  end)

  as_root("can open its own output, and reads its input", function(_, sb)
    local r = sb:exec("cat >/proc/self/fd/1; echo problem >/proc/self/fd/2",
      { user = "nobody", input = "text" })
    assert.same({ "text", "problem\n", 0 }, { r.stdout, r.stderr, r.code })
  end)

  as_root("and in a sandbox that may be left", function(P)
    local sb <close> = P.sandbox(detached.options(backends["local"]))
    local r = sb:exec("cat >/proc/self/fd/1; id -un >/proc/self/fd/2",
      { user = "nobody", input = "text" })
    assert.same({ "text", "nobody\n" }, { r.stdout, r.stderr })
  end)

  as_root("has a terminal of its own", function(_, sb)
    local p <close> = sb:spawn("stat -c '%U %a' $(tty); : <$(tty); echo $?; "
      .. "read x; stty size", { user = "nobody", pty = true })
    p:wait_for({ output = "\n0\r\n" })
    p:resize(101, 33)
    p:write("\n")
    local output = p:wait().stdout
    assert.truthy(output:find("^nobody %d+\r\n0\r\n"), output)
    assert.truthy(output:find("33 101", 1, true), output)
  end)

  as_root("is signalled, killed and timed out", function(_, sb)
    local p <close> = sb:spawn("trap 'echo got' USR1; echo up; "
      .. "while :; do sleep 0.05; done", { user = "nobody" })
    p:wait_for({ output = "up" })
    p:signal("USR1")
    p:wait_for({ output = "got" })
    local r = p:kill()
    assert.same({ "SIGKILL", {} }, { r.signal, r.survivors })
    local err = raises("TimeoutError", sb.exec, sb,
      "setsid sh -c 'trap \"\" TERM; sleep 71' & trap '' TERM; sleep 71",
      { user = "nobody", timeout = 0.3, grace = 0.2 })
    assert.same({}, err.result.survivors)
    assert.same({}, env.pgrep({ "sleep", "71" }))
  end)

  as_root("has limits", function(_, sb)
    assert.equal("33", sb:output("ulimit -n",
      { user = "nobody", limits = { open_files = 33 } }))
  end)

  as_root("is nobody that files of the sandbox belong to", function(_, sb)
    sb:exec({ "true" }, { user = "nobody" })
    sb.fs:write("f", "x")
    assert.equal(0, sb.fs:stat("f").uid)
    assert.equal("0", sb:output("id -u"))
  end)

  as_root("works in a directory of its own", function(P)
    local dir = env.tmpdir()
    env.sh("chown nobody " .. dir)
    facades.with_sandbox(P, { settings = { workspace = dir } }, function(sb)
      sb:output("echo mine >f", { user = "nobody" })
      assert.equal("mine\n", sb.fs:read("f"))
      assert.equal(tonumber(users.nobody().uid),
        sb.fs:stat("f").uid)
    end)
    env.rmdir(dir)
  end)
end)

describe("the users of an image", function()
  local base

  setup(function()
    base = env.tmpdir()
  end)

  teardown(function()
    env.rmdir(base)
  end)

  -- A sandbox with an image that has these two files.
  local function with_image(P, passwd, group, fn)
    local dir = images.make_root(base .. "/" .. env.now())
    if passwd then
      env.write(dir .. "/etc/passwd", passwd)
      env.write(dir .. "/etc/group", group)
      env.sh("chmod 644 " .. dir .. "/etc/*")
    end
    facades.with_sandbox(P, { backend = "bwrap", image = dir }, fn)
  end

  facades.with(it, "bwrap", "are known by the usual name all the same",
    function(P)
      with_image(P, nil, nil, function(sb)
        for _, spec in ipairs({ "sandbox", "1000", "1000:1000" }) do
          assert.equal("1000", sb:output({ "id", "-u" }, { user = spec }))
        end
        raises("SpawnError", sb.exec, sb, { "true" }, { user = "root" })
      end)
    end)

  facades.with(it, "bwrap", "give no ids and no groups", function(P)
    local passwd = "sandbox:x:1000:1000::/h:/s\n1000:x:0:0::/:/bin/sh\n"
      .. "twin:x:1000:1000::/twin:\nzero:x:1000:0::/:\n"
    with_image(P, passwd, "root:x:0:sandbox,twin,1000\n", function(sb)
      local usual = sb:output("id -G")
      assert.equal(usual, sb:output("id -G", { user = "sandbox" }))
      assert.equal(usual, sb:output("id -G", { user = "twin" }))
      assert.equal("/twin twin twin /bin/sh", sb:output(SHOW,
        { user = "twin" }))
      for _, spec in ipairs({ "1000", "1000:1000", "zero", "sandbox:root" }) do
        local err = raises("SpawnError", sb.exec, sb, { "true" },
          { user = spec })
        assert.equal("EPERM", err.code)
      end
      assert.equal("1000", sb:output({ "id", "-u" }))
    end)
  end)
end)

describe("portico exec --user", function()
  local BIN = assert(os.getenv("PORTICO_BIN"))

  for _, backend in ipairs(backends.real) do
    backends.it(it, backend, "runs as it, or says why not [" .. backend.name
      .. "]", function()
      local command = ("%s exec --backend %s --user %%s -- %%s 2>&1")
        :format(BIN, backend.name)
      local own = env.sh(("%s exec --backend %s -- id -un"):format(BIN,
        backend.name)):match("%S+")
      assert.equal(own .. "\n", (env.sh(command:format(own, "id -un"))))
      local output, code = env.sh(command:format("no-such", "id"))
      assert.equal(125, code)
      assert.truthy(output:find("no-such", 1, true), output)
      local other = foreigner(backend)
      output, code = env.sh(command:format(other or "nobody", "id -un"))
      if other then
        assert.equal(125, code)
        assert.truthy(output:find(other, 1, true), output)
      else
        assert.equal("nobody\n", output)
      end
    end)
  end
end)

describe("users", function()
  facades.both(it, "leave no sandboxes", function(P)
    detached.remove(P)
  end)

  it("leave nothing behind", nothing_left)
end)
