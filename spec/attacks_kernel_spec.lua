-- Attacks on the kernel and on the processes of a sandbox, as small programs
-- (spec/attacks/*.c) that run inside: 42 is refused, 0 went through, anything
-- else is a mistake of the test. Each runs in the profile that every script
-- gets, and then as its own control: in a build of the backend that leaves out
-- exactly the protection in question ("weaken"), where it must go through; or,
-- where no such build would do, against something that is not protected.
-- After each attack another sandbox must still run a command within a second.

local attacks = require("spec.support.attacks")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local ids = require("spec.support.ids")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local REFUSED, THROUGH = attacks.REFUSED, attacks.THROUGH

local directory = attacks.directory
local weak_plugin = os.getenv("PORTICO_TEST_PLUGINS") .. "/portico-weak.so"
local reason = backends.absence(backends.bwrap)

-- ---- sandboxes --------------------------------------------------------------

local mounts = attacks.mounts
local strict, other, weak_backend
local nothing_left = leaks.frame()
local before = leaks.snapshot()
local skips = 0

setup(function()
  if not reason then
    strict = sync.sandbox({ backend = "bwrap", mounts = mounts })
    other = sync.sandbox({ backend = "bwrap", allow_in_tasks = true })
    weak_backend = sync.open(weak_plugin)
  end
end)

teardown(function()
  for _, object in ipairs({ strict, other, weak_backend }) do
    object:close()
  end
  print("# tests of attacks that were skipped: " .. skips)
end)

-- Runs an attack; returns its exit code, and words for a failure.
local function attack(sandbox, words)
  local result, text = attacks.run(sandbox, words)
  return result.code, text
end

local function others_are_well()
  attacks.others_are_well(other)
end

-- What this machine does not have at all, as 32-bit system calls, is skipped.
local function skip_if_not_here(code, text)
  if code == attacks.NOT_HERE then
    skips = skips + 1
    pending("this machine has no such thing: " .. text)
  end
end

local function refuses(words)
  local code, text = attack(strict, words)
  skip_if_not_here(code, text)
  assert.equal(REFUSED, code, text)
  others_are_well()
end

-- A sandbox without the protections, as an argument of fn.
local function weakened(weaken, fn)
  local sandbox <close> = weak_backend:create({
    mounts = mounts, settings = { weaken = weaken },
  })
  return fn(sandbox)
end

local function goes_through(words, weaken)
  local code, text = weakened(weaken, function(sandbox)
    return attack(sandbox, words)
  end)
  skip_if_not_here(code, text)
  assert.equal(THROUGH, code, text)
end

-- ---- declaring --------------------------------------------------------------

-- Declares a test that cannot be.
local function skip(name, why)
  skips = skips + 1
  pending(name .. ": " .. why)
end

local function test(name, fn)
  backends.it(it, backends.bwrap, name, fn)
end

-- An attack that is refused, and goes through without the protections.
local function pair(words, weaken)
  local name = table.concat(words, " ")
  test(name .. " is refused", function()
    refuses(words)
  end)
  test(name .. " goes through without " .. weaken, function()
    goes_through(words, weaken)
  end)
end

-- An attack that the kernel refuses as well if there are two uids.
local function pair_of_one_uid(words, weaken)
  if not ids.two then
    return pair(words, weaken)
  end
  local name = table.concat(words, " ")
  test(name .. " is refused", function()
    refuses(words)
  end)
  skip(name .. " goes through without " .. weaken,
    "with two uids the kernel refuses it too")
end

-- Attacks that are refused, and the same on what is not protected.
local function against(program, ways, control)
  for _, way in ipairs(ways) do
    test(program .. " " .. way .. " is refused", function()
      refuses({ program, way })
    end)
  end
  test(program .. " " .. control .. " goes through", function()
    local code, text = attack(strict, { program, control })
    assert.equal(THROUGH, code, text)
  end)
end

-- ---- system calls -----------------------------------------------------------

describe("attack: system call", function()
  local lines, code = env.sh(env.quoted(directory .. "/calls") .. " list")
  assert(code == 0 and #lines > 0, "no list of calls")
  for name, weaken in lines:gmatch("(%S+) (%S+)\n") do
    if weaken == "-" then
      test("calls " .. name .. " is refused", function()
        refuses({ "calls", name })
      end)
      skip("calls " .. name .. " goes through",
        "the kernel itself refuses it, or does not have it")
    else
      pair({ "calls", name }, weaken)
    end
  end

  test("with the rights of a user namespace, still refused by name",
    function()
      weakened("unshare", function(sandbox)
        for _, name in ipairs({ "fsopen", "fspick", "pivot_root", "reboot",
          "sethostname" }) do
          assert.equal(REFUSED, (attack(sandbox, { "calls", name })), name)
        end
      end)
    end)

  pair({ "walk" }, "default")
  pair({ "namespaces", "unshare" }, "unshare")
  pair({ "namespaces", "clone" }, "clone")
  pair({ "namespaces", "clone-high" }, "clone")
  pair({ "namespaces", "clone3" }, "clone3")
  pair({ "foreign", "int80" }, "arch")
  pair({ "foreign", "x32" }, "arch")

  test("all of them go through without seccomp", function()
    weakened("seccomp", function(sandbox)
      for _, words in ipairs({ { "walk" }, { "foreign", "x32" },
        { "namespaces", "clone3" }, { "calls", "setns" } }) do
        local got, text = attack(sandbox, words)
        assert.equal(THROUGH, got, text)
      end
    end)
  end)
end)

-- ---- files ------------------------------------------------------------------

describe("attack: files", function()
  local list, code = env.sh(env.quoted(directory .. "/setid") .. " list")
  assert(code == 0 and #list > 0, "no list of ways")
  for way in list:gmatch("%S+") do
    pair({ "setid", way }, "setid")
  end

  test("a mode that does not count is let through", function()
    local got, text = attack(strict, { "setid", "nothing" })
    assert.equal(THROUGH, got, text)
  end)

  -- A file of the host, in a read-only mount: whether a program of the host
  -- that writes it has to wait for who reads it inside.
  local function is_held_up(create)
    local dir <close> = setmetatable({ path = env.tmpdir() }, {
      __close = function(self)
        env.rmdir(self.path)
      end,
    })
    env.sh("chmod 755 " .. dir.path)
    env.write(dir.path .. "/file", "content")
    local sandbox <close> = create({
      mounts[1], { source = dir.path, target = "/held" },
    })
    local process <close> = sandbox:spawn({ "/attacks/lease", "/held/file" },
      { stdin = "pipe", stderr = "null" })
    local said = process:read({ timeout = 20 }).data
    -- dd opens without waiting, which is refused at once if it would wait.
    local output, status = env.sh(("dd oflag=nonblock,append conv=notrunc "
      .. "if=/dev/null of=%s/file 2>&1"):format(env.quoted(dir.path)))
    return said, status ~= 0 and output or false
  end

  test("a lease on a file of a mount holds up nobody", function()
    local said, held_up = is_held_up(function(all)
      return sync.sandbox({ backend = "bwrap", mounts = all })
    end)
    assert.equal("not held\n", said)
    assert.is_false(held_up)
  end)

  local name = "a lease on a file of a mount holds up without fcntl"
  if ids.two then
    skip(name, "with two uids the kernel refuses it too")
  else
    test(name, function()
      local said, held_up = is_held_up(function(all)
        return weak_backend:create({
          mounts = all, settings = { weaken = "fcntl" },
        })
      end)
      assert.equal("held\n", said)
      assert.truthy(held_up:find("temporarily unavailable", 1, true), held_up)
    end)
  end
end)

-- ---- other processes --------------------------------------------------------

describe("attack: process", function()
  pair({ "others", "ptrace" }, "ptrace")
  pair({ "others", "own-filter" }, "ptrace")
  pair({ "others", "memory" }, "process_vm_writev")
  pair({ "others", "memory" }, "process_vm_readv")
  pair({ "others", "descriptor" }, "pidfd_getfd")
  against("others", { "init-proc", "supervisor-proc" }, "child-proc")
  test("others init-calls is refused", function()
    refuses({ "others", "init-calls" })
  end)
  test("others init-calls is refused without the filter's part", function()
    weakened("ptrace,process_vm_readv,kcmp,pidfd_getfd,setns",
      function(sandbox)
        local code, text = attack(sandbox, { "others", "init-calls" })
        assert.equal(REFUSED, code, text)
      end)
  end)
  pair_of_one_uid({ "others", "init-limits" }, "prlimit64")
  pair_of_one_uid({ "others", "init-priority" }, "priority")
end)

-- ---- signals to the agent ---------------------------------------------------

describe("attack: signals to PID 1:", function()
  against("kill_init", { "each", "threads", "descriptor", "flood" }, "child")

  test("after them the agent answers", function()
    assert.equal("here", strict:output({ "echo", "here" }))
  end)

  -- The supervisor goes too, where it is of the same user: then the command is
  -- told as killed, or as not started if that was quicker.
  local name = "kill_init everybody leaves an agent that answers"
  facades.both(test, name, function(P)
    local sandbox <close> = P.sandbox({ backend = "bwrap", mounts = mounts })
    for _ = 1, 10 do
      local ok, result = pcall(sandbox.exec, sandbox,
        { "/attacks/kill_init", "everybody" }, { timeout = 20 })
      if ok then
        assert.truthy(result.code == REFUSED or result.signal == "SIGKILL",
          result.stderr)
      else
        assert.equal("EAGAIN", result.code)
      end
      assert.equal("here", sandbox:output({ "echo", "here" }))
    end
    others_are_well()
  end)
end)

-- ---- descriptors ------------------------------------------------------------

describe("attack: descriptors", function()
  -- What a command can get for its standard descriptors.
  local starts = {
    { name = "no input" },
    { name = "input", options = { input = "bytes" } },
    { name = "much input", options = { input = ("x"):rep(1 << 20) } },
    { name = "merged", options = { stderr = "merge" } },
    { name = "nowhere", options = { stdout = "null", stderr = "null" } },
    { name = "a terminal", options = { pty = true }, terminal = true },
  }
  for _, start in ipairs(starts) do
    local ways = { "count", start.terminal and "terminal" or "reopen" }
    for _, way in ipairs(ways) do
      local name = ("descriptors %s, %s, is refused"):format(way, start.name)
      facades.both(test, name, function(P)
        local options = { backend = "bwrap", mounts = mounts }
        local sandbox <close> = P.sandbox(options)
        local result = sandbox:exec({ "/attacks/descriptors", way },
          start.options)
        assert.equal(REFUSED, result.code, result.stderr)
      end)
    end
  end

  test("descriptors count goes through where there is one more", function()
    assert.equal(THROUGH,
      strict:exec("/attacks/descriptors count 5</; exit $?").code)
  end)

  test("descriptors reopen goes through with a directory or a file", function()
    for _, name in ipairs({ "/usr", "/usr/bin/env" }) do
      assert.equal(THROUGH, strict:exec(
        "/attacks/descriptors reopen <" .. name .. "; exit $?").code, name)
    end
  end)

  test("descriptors terminal goes through with a file", function()
    assert.equal(THROUGH, strict:exec(
      "/attacks/descriptors terminal </usr/bin/env; exit $?",
      { pty = true }).code)
  end)
end)

-- ---- terminals --------------------------------------------------------------

describe("attack: terminal", function()
  for _, way in ipairs({ "type", "type-high", "console", "console-high",
    "setd" }) do
    pair({ "terminal", way }, "ioctl")
  end
  against("terminal", { "name" }, "own")
  test("terminal cons is refused", function()
    refuses({ "terminal", "cons" })
  end)
  skip("terminal cons goes through", "the kernel itself refuses it")

  -- A command that has a terminal beside the attack, in its sandbox or another.
  local function beside(sandbox, fn)
    local p <close> = sandbox:spawn("echo here; read x; exit 3",
      { pty = { echo = false } })
    assert.equal("here", p:wait_for({ output = "here" }, { timeout = 20 }))
    fn(p)
    p:write("x\n")
    assert.equal(3, p:wait({ timeout = 20 }).code)
  end

  test("terminal name, of another sandbox's command, is refused", function()
    beside(other, function()
      refuses({ "terminal", "name" })
    end)
  end)
  test("terminal steal, of a command beside it, is refused", function()
    beside(strict, function()
      refuses({ "terminal", "steal" })
    end)
  end)
  test("terminal masters is refused", function()
    beside(strict, function()
      refuses({ "terminal", "masters" })
    end)
  end)
  test("terminal own-master goes through", function()
    assert.equal(THROUGH, (attack(strict, { "terminal", "own-master" })))
  end)
  -- Commands of one sandbox are one user: their terminals are no secret.
  test("terminal write, to a command beside it, goes through", function()
    beside(strict, function(p)
      local code, text = attack(strict, { "terminal", "write" })
      assert.equal(THROUGH, code, text)
      p:wait_for({ output = "boo" }, { timeout = 20 })
    end)
  end)

  -- A script that has a terminal, which `script` gives it, shares nothing of
  -- it with a sandbox.
  local program = [[
    local P = require("%s")
    P.run(function()
      local sandbox <close> = P.sandbox({
        backend = "bwrap", mounts = { { source = "%s", target = "/attacks" } },
      })
      for _, way in ipairs({ "name", "type" }) do
        local result = sandbox:exec({ "/attacks/terminal", way })
        print("[" .. way .. " " .. result.code .. result.stderr .. "]")
      end
    end)
    print(io.open("/dev/tty") and "[a terminal]")
  ]]
  if select(2, env.sh("command -v script >/dev/null")) ~= 0 then
    skip("terminal name, from a host with one", "there is no script(1)")
  else
    for _, facade in ipairs(facades.list) do
      test("terminal name, from a host with one, is refused [" .. facade.name
        .. "]", function()
        local dir = env.tmpdir()
        env.write(dir .. "/script.lua", program:format(
          facades.module_name(facade.module), directory))
        local output = env.sh(("script -qec %s /dev/null </dev/null"):format(
          env.quoted("lua5.4 " .. dir .. "/script.lua")))
        env.rmdir(dir)
        assert.truthy(output:find("[name 42]", 1, true), output)
        assert.truthy(output:find("[type 42]", 1, true), output)
        assert.truthy(output:find("[a terminal]", 1, true), output)
      end)
    end
  end
end)

-- ---- the machine ------------------------------------------------------------

describe("attack: the machine:", function()
  against("machine", { "write", "read", "device" }, "own")
end)

-- ---- what the kernel counts for each user -----------------------------------

describe("attack: hoarding", function()
  local ways = { "signals", "inotify", "pipes", "queues", "locking" }

  -- Takes all there is in one sandbox, and looks who else gets something.
  local function hoard(way)
    local sandbox <close> = sync.sandbox({ backend = "bwrap", mounts = mounts })
    local process <close> = sandbox:spawn({ "/attacks/hoard", way },
      { stdin = "pipe" })
    local amount = tonumber(process:read({ timeout = 20 }).data)
    assert(amount > 0, "the attack got nothing")
    others_are_well()
    local new <close> = sync.sandbox({ backend = "bwrap" })
    new:exec({ "true" }):check()
    local left = env.sh(env.quoted(directory .. "/hoard") .. " " .. way
      .. " 1 </dev/null")
    assert(tonumber(left) > 0, "the host gets no more " .. way)
  end

  for _, way in ipairs(ways) do
    test(way .. " hurts nobody else", function()
      hoard(way)
    end)
  end

  -- With one uid the kernel counts them for all sandboxes of a user; what
  -- commands may open is less there than what the host may.
  test("descriptors in flight hurts nobody else", function()
    hoard("flight")
  end)
end)

-- ---- sockets of the host ----------------------------------------------------

describe("attack: sockets of the host:", function()
  local dir, name, path, stop, ports

  -- Where the host can be met: itself, and the addresses it has.
  local function addresses()
    local all = { { "127.0.0.1", ports[1] }, { "::1", ports[2] } }
    for address in env.sh("hostname -I 2>/dev/null"):gmatch("%S+") do
      if not address:find("^fe80:") then -- would need a scope
        all[#all + 1] = { address, ports[address:find(":") and 2 or 1] }
      end
    end
    return all
  end

  local function each_way()
    local ways = {
      { "reach", "abstract", name }, { "reach", "path", path },
    }
    for _, at in ipairs(addresses()) do
      if at[2] ~= "0" then
        ways[#ways + 1] = { "reach", "tcp", at[1], at[2] }
      end
    end
    return ways
  end

  -- The listener lives until its standard input, a FIFO, is closed.
  setup(function()
    dir = env.tmpdir()
    path = dir .. "/socket"
    name = "portico-attack-" .. dir:match("[^/]+$")
    env.sh("mkfifo " .. dir .. "/in")
    os.execute(("%s %s %s <%s/in >%s/out 2>&1 &"):format(
      env.quoted(directory .. "/listener"), name, path, dir, dir))
    stop = assert(io.open(dir .. "/in", "w"))
    ports = assert(env.eventually(20, function()
      local output = env.read(dir .. "/out") or ""
      local four, six = output:match("^(%d+) (%d+)\n")
      return four and { four, six }
    end), "the listener did not start")
  end)

  teardown(function()
    stop:close()
    env.rmdir(dir)
  end)

  test("none is reached", function()
    for _, words in ipairs(each_way()) do
      refuses(words)
    end
  end)

  test("all but the path are without a network of its own", function()
    weakened("network", function(sandbox)
      for _, words in ipairs(each_way()) do
        local code, text = attack(sandbox, words)
        assert.equal(words[2] == "path" and REFUSED or THROUGH, code, text)
      end
    end)
  end)

  test("a path that is mounted is reached: nobody said that it is not",
    function()
      local sandbox <close> = sync.sandbox({ backend = "bwrap", mounts = {
        mounts[1], { source = dir, target = dir },
      } })
      local code, text = attack(sandbox, { "reach", "path", path })
      -- The directory is its owner's alone, who is somebody else inside.
      assert.equal(ids.two and REFUSED or THROUGH, code, text)
    end)
end)

-- ---- the end ----------------------------------------------------------------

describe("attacks", function()
  test("leave nothing behind", function()
    for _, object in ipairs({ strict, other, weak_backend }) do
      object:close()
    end
    local found = {}
    for _, what in ipairs(leaks.since(before)) do
      -- Weakened filters are made once and kept too.
      if not what:find("/memfd:portico-seccomp-weak", 1, true) then
        found[#found + 1] = what
      end
    end
    assert.same({}, found)
  end)
end)

it("attacks leave nothing behind", nothing_left)
