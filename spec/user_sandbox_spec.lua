-- The option `user` of a sandbox: whose its commands and files are. Situation
-- 77 of the collection of cases. Only `local` has it, and only for root.

local detached = require("spec.support.detached")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local users = require("spec.support.users")

local nothing_left = leaks.frame()
local raises = facades.raises
local root = env.is_root()
local IDS = users.IDS

local function as_root(...)
  users.as_root(it, ...)
end

-- A test of a sandbox whose commands and files are those of `nobody`: fn gets
-- the facade, the sandbox, and the line of /etc/passwd.
local function of_nobody(name, fn, options)
  local all = { user = "nobody" }
  for key, value in pairs(options or {}) do
    all[key] = value
  end
  as_root(name, function(P, sb)
    fn(P, sb, users.nobody())
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
      users.check_status(sb, nobody)
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
        assert.same(users.sorted_ids(groups),
          users.sorted_ids(sb:output("id -G")))
      end)
      local nobody = users.nobody()
      local daemon = users.gid_of("daemon")
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

describe("users of sandboxes", function()
  facades.both(it, "leave no sandboxes", function(P)
    detached.remove(P)
  end)

  it("leave nothing behind", nothing_left)
end)
