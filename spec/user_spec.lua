-- The option `user` of a command, and of a sandbox. Situation 77 of the
-- collection of cases, and what a command of another user must bear like any
-- other.
--
-- Other users are to be had on `local`, by root. Everywhere else a command has
-- one user: it may be named, and nobody else.

local backends = require("spec.support.backends")
local detached = require("spec.support.detached")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local images = require("spec.support.images")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises
local root = env.is_root()

-- Declares a test on `local` that only root can do, or skips it.
local function as_root(name, fn, options)
  if root then
    facades.on(it, "local", name, fn, options)
  else
    pending(name .. ": only root can become another user")
  end
end

-- A user that exists, and that no command of this test is otherwise; nil on
-- what root runs on `local`, where every user is to be had.
local function foreigner(backend)
  if backend.isolated then
    return "root"
  end
  return not root and "nobody" or nil
end

-- What a text of the form of /etc/passwd says of a user.
local function entry(text, name)
  for line in text:gmatch("[^\n]+") do
    local fields = {}
    for field in line:gmatch("([^:]*):?") do
      fields[#fields + 1] = field
    end
    if fields[1] == name then
      return {
        uid = fields[3], gid = fields[4], home = fields[6], shell = fields[7],
      }
    end
  end
end

-- The numbers of what `id` has said.
local function sorted_ids(text)
  local list = {}
  for id in text:gmatch("%d+") do
    list[#list + 1] = tonumber(id)
  end
  table.sort(list)
  return list
end

local SHOW = 'echo "$HOME $USER $LOGNAME $SHELL"'
local IDS = "id -u; id -g; id -G"

describe("a user that is named:", function()
  on_each(it, "the one of all commands", function(_, sb)
    local name = sb:output({ "id", "-un" })
    local uid, gid = sb:output({ "id", "-u" }), sb:output({ "id", "-g" })
    local user = assert(entry(sb:output({ "cat", "/etc/passwd" }), name))
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
      local nobody = assert(entry(env.read("/etc/passwd"), "nobody"))
      local options = { user = "nobody" }
      assert.equal(("%s\n%s\n%s"):format(nobody.uid, nobody.gid, nobody.gid),
        sb:output(IDS, options))
      local status = sb:output("grep -E '^(Uid|Gid|Groups|Cap)' "
        .. "/proc/self/status", options)
      assert.truthy(status:find(("Uid:%s\n"):format(("\t" .. nobody.uid)
        :rep(4)), 1, true), status)
      assert.truthy(status:find(("Gid:%s\n"):format(("\t" .. nobody.gid)
        :rep(4)), 1, true), status)
      assert.truthy(status:find("Groups:\t" .. nobody.gid .. " ?\n"), status)
      for _, set in ipairs({ "Inh", "Prm", "Eff", "Amb" }) do
        assert.truthy(status:find("Cap" .. set .. ":\t0+%f[%X]"), status)
      end
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
      local expected = sorted_ids((env.sh("id -G " .. name)))
      groups = math.max(groups, #expected)
      assert.same(expected, sorted_ids(sb:output("id -G", { user = name })))
    end
    print("# most groups of a user of this machine: " .. groups)
  end)

  as_root("has the group that is given, and no other", function(_, sb)
    local gid = entry(env.read("/etc/group"), "daemon").uid
    local uid = entry(env.read("/etc/passwd"), "nobody").uid
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
      assert.equal(tonumber(entry(env.read("/etc/passwd"), "nobody").uid),
        sb.fs:stat("f").uid)
    end)
    env.rmdir(dir)
  end)
end)

-- A test of a sandbox whose commands and files are those of `nobody`: fn gets
-- the facade, the sandbox, and the line of /etc/passwd.
local function of_nobody(name, fn, options)
  local all = { user = "nobody" }
  for key, value in pairs(options or {}) do
    all[key] = value
  end
  as_root(name, function(P, sb)
    fn(P, sb, assert(entry(env.read("/etc/passwd"), "nobody")))
  end, all)
end

-- Calls fn(dir) with a directory of root's that has this mode.
local function with_dir(mode, fn)
  local dir = env.tmpdir()
  env.sh(("chmod %s %s"):format(mode, dir))
  local ok, err = pcall(fn, dir)
  env.rmdir(dir)
  assert(ok, err)
end

local function is_empty(dir)
  return env.sh("ls -A " .. dir) == ""
end

-- Runs `body`, which has P, in a Lua of its own; returns output and code.
local function in_script(P, body, prefix)
  local main = ("local P = require(%q)\nlocal function main()\n%s\nend\n")
    :format(facades.module_name(P), body)
  return env.script(main .. 'if P == require("portico") then P.run(main) '
    .. "else main() end", prefix)
end

describe("a sandbox of another user:", function()
  of_nobody("case 77: ids, groups, home and name; none of root's",
    function(_, sb, nobody)
      assert.equal(("%s\n%s\n%s"):format(nobody.uid, nobody.gid,
        env.sh("id -G nobody"):match("[^\n]+")), sb:output(IDS))
      local status = sb:output("grep -E '^(Uid|Gid|Groups|Cap)' "
        .. "/proc/self/status")
      for name, id in pairs({ Uid = nobody.uid, Gid = nobody.gid }) do
        assert.truthy(status:find(name .. ":" .. ("\t" .. id):rep(4) .. "\n",
          1, true), status)
      end
      assert.truthy(status:find("Groups:\t" .. nobody.gid .. " ?\n"), status)
      for _, set in ipairs({ "Inh", "Prm", "Eff", "Amb" }) do
        assert.truthy(status:find("Cap" .. set .. ":\t0+%f[%X]"), status)
      end
      local home = sb:output("pwd")
      assert.equal(home .. " nobody nobody " .. home:gsub("workspace$", "tmp"),
        sb:output('echo "$HOME $USER $LOGNAME $TMPDIR"'))
      assert.equal(nobody.uid, sb:output("stat -c %u . .. $TMPDIR | uniq"))
      assert.equal("700", sb:output("stat -c %a . .. $TMPDIR | uniq"))
    end)

  of_nobody("case 77: what its file calls make is that user's",
    function(_, sb, nobody)
      sb.fs:write("written", "x")
      sb.fs:write("written", "again")
      sb.fs:mkdir("made/below", { parents = true })
      local file <close> = sb.fs:open("opened", "w")
      file:write("x")
      file:close()
      sb:upload("spec/support", "sent")
      sb.fs:copy("written", "copied")
      local found = sb:output("find . -printf '%U:%G\n' | sort -u")
      assert.equal(nobody.uid .. ":" .. nobody.gid, found)
      local err = raises("PermissionError", sb.fs.chown, sb.fs, "written", 0)
      assert.equal("EPERM", err.code)
    end)

  of_nobody("case 77: its file calls may not do what root may",
    function(_, sb)
      with_dir("711", function(dir)
        env.write(dir .. "/own", "secret")
        env.write(dir .. "/group", "secret")
        env.sh(("cd %s; chown 0:0 own group; chmod 600 own; chmod 040 group")
          :format(dir))
        for _, name in ipairs({ "/own", "/group" }) do
          local path = dir .. name
          raises("PermissionError", sb.fs.read, sb.fs, path)
          raises("PermissionError", sb.fs.open, sb.fs, path, "r")
          raises("PermissionError", sb.fs.copy, sb.fs, path, sb:output("pwd")
            .. "/copy")
          raises("PermissionError", sb.download, sb, path, dir .. "/down")
        end
        raises("PermissionError", sb.fs.write, sb.fs, dir .. "/new", "x")
        raises("PermissionError", sb.fs.remove, sb.fs, dir .. "/own")
        raises("PermissionError", sb.upload, sb, "README.md", dir .. "/up")
        assert.equal("group\nown\n", (env.sh("ls -A " .. dir)))
      end)
      raises("PermissionError", sb.fs.write, sb.fs, "/root/x", "x")
      -- These ask for the effective user, not for that of files.
      local name = "/proc/sys/kernel/domainname"
      if env.sh("test -w " .. name .. " && echo yes") == "yes\n" then
        local was = env.read(name)
        assert.is_false((pcall(function()
          local file <close> = sb.fs:open(name, "r+")
          file:write(was)
          file:close()
        end)))
      end
    end, { settings = { root = "/" } })

  of_nobody("case 77: has no commands of others", function(_, sb, nobody)
    for _, spec in ipairs({ "root", "0", "0:0", "nobody:0", "12345" }) do
      for _, start in ipairs({ "exec", "spawn" }) do
        local err = raises("SpawnError", sb[start], sb, "touch marker",
          { user = spec })
        assert.equal("EPERM", err.code, spec)
      end
    end
    assert.is_false(sb.fs:exists("marker"))
    local groups = sb:output("id -G")
    for _, spec in ipairs({ "nobody", nobody.uid,
      nobody.uid .. ":" .. nobody.gid })
    do
      assert.equal(("%s\n%s\n%s"):format(nobody.uid, nobody.gid, groups),
        sb:output(IDS, { user = spec }))
      assert.equal("set", sb:output("echo ${TMPDIR:+set}", { user = spec }))
    end
  end)

  of_nobody("opens its streams and its terminal", function(_, sb)
    local r = sb:exec("cat >/proc/self/fd/1; echo problem >/proc/self/fd/2",
      { input = "text" })
    assert.same({ "text", "problem\n", 0 }, { r.stdout, r.stderr, r.code })
    local p <close> = sb:spawn("stat -c %U $(tty); : <$(tty); echo $?",
      { pty = true })
    assert.equal("nobody\r\n0\r\n", p:wait().stdout)
  end)

  of_nobody("is killed to the last process, but kills nothing of its agent",
    function(_, sb)
      local agent = sb:info().pid
      local r = sb:exec(("kill -9 %d $PPID || echo refused"):format(agent))
      assert.equal("refused\n", r.stdout)
      local err = raises("TimeoutError", sb.exec, sb,
        "setsid sh -c 'trap \"\" TERM; sleep 73' & trap '' TERM; sleep 73",
        { timeout = 0.3, grace = 0.2 })
      assert.same({}, err.result.survivors)
      assert.same({}, env.pgrep({ "sleep", "73" }))
      assert.equal(agent, sb:info().pid)
    end)

  as_root("has the groups that the system gives, or the one that is named",
    function(P)
      local most, groups = "nobody", "" -- of whom, and which
      for line in io.lines("/etc/passwd") do
        local name = line:match("^([%w_][%w_-]*):")
        local has = (env.sh("id -G " .. name)):match("[^\n]*")
        if select(2, has:gsub(" ", "")) > select(2, groups:gsub(" ", "")) then
          most, groups = name, has
        end
      end
      groups = groups ~= "" and groups or (env.sh("id -G nobody")):match("%d+")
      facades.with_sandbox(P, { user = most }, function(sb)
        assert.same(sorted_ids(groups), sorted_ids(sb:output("id -G")))
      end)
      local nobody = entry(env.read("/etc/passwd"), "nobody")
      local daemon = entry(env.read("/etc/group"), "daemon").uid
      for spec, ids in pairs({
        ["nobody:daemon"] = nobody.uid .. " " .. daemon,
        [nobody.uid .. ":" .. daemon] = nobody.uid .. " " .. daemon,
        ["23456:34567"] = "23456 34567",
        ["23456"] = "23456 23456",
        ["root:daemon"] = "0 " .. daemon,
      }) do
        facades.with_sandbox(P, { user = spec }, function(sb)
          local uid, gid = ids:match("(%d+) (%d+)")
          assert.equal(("%s\n%s\n%s"):format(uid, gid, gid), sb:output(IDS))
          assert.equal(uid ~= "0", sb:output("grep CapEff /proc/self/status")
            :find("\t0+$") ~= nil)
          sb.fs:write("f", "x")
          local st = sb.fs:stat("f")
          assert.same({ tonumber(uid), tonumber(gid) }, { st.uid, st.gid })
        end)
      end
    end)

  as_root("has no group of the program that makes it", function(P)
    with_dir("711", function(dir)
      env.write(dir .. "/f", "secret")
      env.sh(("chown 0:daemon %s/f; chmod 060 %s/f"):format(dir, dir))
      local output = in_script(P, ([[
        local b <close> = P.open("local")
        local sb <close> = b:create({
          user = "nobody", settings = { root = "/" },
        })
        local _, err = pcall(sb.fs.read, sb.fs, %q)
        print(err)
        print(sb:output("id -G"))
      ]]):format(dir .. "/f"), "chroot --groups=daemon --skip-chdir / ")
      assert.truthy(output:find("PermissionError", 1, true), output)
      assert.truthy(output:find("\n" .. env.sh("id -G nobody"), 1, true),
        output)
    end)
  end)

  as_root("case 77: that there is not", function(P)
    with_dir("711", function(dir)
      local b <close> = P.open("local", { tmpdir = dir })
      for _, spec in ipairs({
        "no-such", "no-such:daemon", "nobody:no-such", "nobody:", ":", ":0",
        "12x", "-1", "4294967295", ("x"):rep(5000), "a b",
      }) do
        local err = raises("InvalidArgumentError", b.create, b,
          { user = spec })
        assert.truthy(err.message:find("'" .. spec:sub(1, 60), 1, true),
          err.message)
      end
      assert.is_true(is_empty(dir))
    end)
  end)

  -- A directory in which only root may do anything: it goes by what was open.
  for _, mode in ipairs({ "700", "711", "1777" }) do
    as_root("leaves nothing in a directory of root's (" .. mode .. ")",
      function(P)
        with_dir(mode, function(dir)
          local options = {
            user = "nobody", backend_settings = { tmpdir = dir },
          }
          facades.with_sandbox(P, options, function(sb)
            sb:output("mkdir -p a/b; echo x >a/b/c; chmod 0 a")
            sb.fs:write("f", "x")
            assert.equal("x", sb.fs:read("f"))
            assert.is_false(is_empty(dir))
          end)
          assert.is_true(is_empty(dir))
          facades.with_sandbox(P, options, function(sb)
            sb:output("mkdir -p a/b; echo x >a/b/c; chmod 0 a")
            env.sh("kill -9 " .. sb:info().pid)
            raises("ConnectionError", sb.exec, sb, { "sleep", "74" })
          end)
          assert.is_true(is_empty(dir))
        end)
      end)
  end

  as_root("leaves nothing where the program is killed", function(P)
    with_dir("700", function(dir)
      local output, code = in_script(P, ([[
        local b = P.open("local", { tmpdir = %q })
        local sb = b:create({ user = "nobody" })
        sb:output("mkdir a; echo x >a/b; chmod 0 a")
        print("made")
        os.execute("kill -KILL " .. io.open("/proc/self/stat"):read("n"))
      ]]):format(dir))
      assert.same({ "made\n", 137 }, { (output:gsub("Killed\n$", "")), code })
      assert.is_true(env.eventually(20, function()
        return is_empty(dir)
      end))
    end)
  end)

  as_root("follows no link that is put in the place of its directory",
    function(P)
      with_dir("1777", function(dir)
        env.sh(("mkdir %s/victim; touch %s/victim/file"):format(dir, dir))
        local options = {
          user = "nobody", backend_settings = { tmpdir = dir },
        }
        facades.with_sandbox(P, options, function(sb)
          sb:output("cd ../..; mv portico-local-* moved; "
            .. "ln -s victim $(dirname $HOME)")
        end)
        assert.equal("moved\nvictim\n", (env.sh("ls -A " .. dir)))
        assert.is_true(env.exists(dir .. "/victim/file"))
      end)
    end)

  as_root("works in a directory that is given, which stays whose it was",
    function(P)
      with_dir("777", function(dir)
        facades.with_sandbox(P, {
          user = "nobody", settings = { workspace = dir },
        }, function(sb)
          sb:output("echo mine >f")
          sb.fs:write("g", "x")
        end)
        assert.equal("root nobody nobody\n", (env.sh(
          ("stat -c %%U %s %s/f %s/g | xargs"):format(dir, dir, dir))))
      end)
    end)

  as_root("is left, taken over, ended and cleared up after", function(P)
    with_dir("711", function(dir)
      local settings = { tmpdir = dir, state = detached.state() }
      local b <close> = P.open("local", settings)
      local options = { user = "nobody", detachable = true }
      local id = b:create(options):detach()
      local sb = b:attach(id)
      sb.fs:write("f", "x")
      local r = sb:exec("cat >/proc/self/fd/1; stat -c %U f >/proc/self/fd/2",
        { input = "text" })
      assert.same({ "text", "nobody\n" }, { r.stdout, r.stderr })
      raises("SpawnError", sb.exec, sb, { "true" }, { user = "root" })
      sb:detach()
      b:destroy(id)
      assert.is_true(is_empty(dir))
      assert.is_nil(detached.find(b, id))
      sb = b:create(options)
      local agent = sb:info().pid
      sb.fs:write("f", "x")
      id = sb:detach()
      env.sh("kill -9 " .. agent)
      assert.same({ id }, env.eventually(20, function()
        local found = b:reap()
        return #found > 0 and found
      end))
      assert.is_true(is_empty(dir))
      sb = b:create(options)
      assert.is_true(sb:close())
      assert.is_true(is_empty(dir))
      assert.equal("", (env.sh("ls -A " .. detached.state() .. "/local-*"
        .. " 2>/dev/null")))
    end)
  end)

  facades.both(it, "is refused to who is not root [local]", function(P)
    local b <close> = P.open("local")
    local own = (env.sh("id -un")):match("%S+")
    for _, spec in ipairs({ own, (env.sh("id -u")):match("%d+") }) do
      local sb <close> = b:create({ user = spec })
      assert.equal(own, sb:output({ "id", "-un" }))
    end
    if not root then
      for _, spec in ipairs({ "root", "nobody", "0", "no-such" }) do
        local err = raises("UnsupportedError", b.create, b, { user = spec })
        assert.truthy(err.message:find("'" .. spec .. "'", 1, true),
          err.message)
        assert.truthy(err.message:find("root", 1, true))
      end
    end
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
