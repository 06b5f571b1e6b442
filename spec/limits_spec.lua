-- Limits: of a sandbox and of one command, by cgroups, by resource limits, and
-- not at all; what is asked for wrongly, and what is told when one is hit.

local attacks = require("spec.support.attacks")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local raises = facades.raises
local MIB = 1 << 20

-- Grows until somebody stops it.
local GREEDY = { "tail", "/dev/zero" }
-- Busy for a second; prints the processor's time of that, and the time before
-- and after.
local BUSY = "cat /proc/uptime; timeout 1 sh -c 'while :; do :; done'; "
  .. "times; cat /proc/uptime"

local mounts = attacks.mounts
local absent = backends.absence(backends.bwrap)
local nothing_left = leaks.frame(128) -- commands that fill it

-- ---- declaring --------------------------------------------------------------

-- Fn gets the facade.
local function both(name, fn)
  facades.with(it, "bwrap", name, fn)
end

-- Capabilities of bwrap, by name, with settings.
local function capabilities(settings)
  local backend <close> = sync.open("bwrap", settings)
  return backend:probe().capabilities
end

local has_cgroups = not absent
local why_not = absent
for _, name in ipairs(absent and {} or { "memory", "pids", "cpus" }) do
  local capability = capabilities()["limits." .. name]
  if capability.level ~= "native" then
    has_cgroups, why_not = false, capability.reason
  end
end

-- What needs cgroups.
local function native(name, fn)
  if has_cgroups then
    both(name, fn)
  else
    pending(name .. ": " .. why_not)
  end
end

-- Fn gets the facade and a sandbox of bwrap.
local function with(limits, fn)
  return function(P)
    local sandbox <close> = P.sandbox({
      backend = "bwrap", limits = limits, mounts = mounts,
    })
    return fn(P, sandbox)
  end
end

-- The same without cgroups, whatever this machine has.
local function without_cgroups(limits, fn)
  return function(P)
    local backend <close> = P.open("bwrap", { cgroup = "none" })
    local sandbox <close> = backend:create({ limits = limits, mounts = mounts })
    return fn(P, sandbox, backend)
  end
end

local function has(text, part)
  assert.truthy(text:find(part, 1, true), text .. "\nhas no " .. part)
end

-- What BUSY tells: seconds of the processor, and of a clock.
local function seconds_of(text)
  local start, user_m, user_s, system_m, system_s, finish = text:match(
    "^(%S+).*\n(%d+)m([%d.]+)s (%d+)m([%d.]+)s\n(%S+) %S+\n$")
  return user_m * 60 + user_s + system_m * 60 + system_s, finish - start
end

-- ---- hitting them -----------------------------------------------------------

local function is_out_of_memory(result)
  assert.same({ "oom", "memory", "SIGKILL", 137, false },
    { result.reason, result.limit, result.signal, result.code, result.ok })
end

local function is_fine(sandbox, options)
  local result = sandbox:exec("echo fine", options)
  assert.equal("fine\n", result.stdout)
  assert.is_nil(result.limit)
end

-- N processes can be had, and no more; the first counts.
local function allows_processes(n, sandbox, options)
  local enough = sandbox:exec({ "/attacks/bomb", "count", tostring(n - 1) },
    options)
  assert.equal(0, enough.code, enough.stderr)
  assert.is_nil(enough.limit)
  local more = sandbox:exec({ "/attacks/bomb", "count", tostring(n) }, options)
  assert.equal(42, more.code, more.stderr)
  assert.equal("exited", more.reason)
  return more
end

-- A machine with much to do gives less, never more; a period is a tenth of a
-- second, and may be met at both ends.
local function gets_a_third(sandbox, options)
  local used, passed = seconds_of(sandbox:exec(BUSY, options).stdout)
  assert(used < 0.3 * passed + 0.15, used .. " s of " .. passed)
end

describe("limits of a sandbox", function()
  native("memory: who takes too much is killed, and nobody else",
    with({ memory = 64 * MIB }, function(_, sandbox)
      is_out_of_memory(sandbox:exec(GREEDY))
      is_fine(sandbox)
      local process <close> = sandbox:spawn(GREEDY)
      is_out_of_memory(process:wait())
      is_fine(sandbox)
      local err = raises("ExitError", sandbox.output, sandbox, GREEDY)
      has(err.message, "limits.memory")
      is_out_of_memory(err.result)
    end))

  native("memory: a child that takes too much ends itself alone",
    with({ memory = 64 * MIB }, function(_, sandbox)
      local result = sandbox:exec("tail /dev/zero; exit 4")
      assert.same({ "exited", "memory", 4 },
        { result.reason, result.limit, result.code })
      is_fine(sandbox)
    end))

  native("memory: another SIGKILL is not taken for it",
    with({ memory = 64 * MIB }, function(_, sandbox)
      local function is_plain(result)
        assert.same({ "signaled", "SIGKILL" }, { result.reason, result.signal })
        assert.is_nil(result.limit)
      end
      is_plain(sandbox:exec("kill -9 $$"))
      sandbox:exec(GREEDY)
      is_plain(sandbox:exec("kill -9 $$"))
      sandbox:exec("tail /dev/zero")
      is_plain(sandbox:exec("kill -9 $$"))
      local process <close> = sandbox:spawn({ "sleep", "100" })
      process:signal("KILL")
      is_plain(process:wait())
      local other <close> = sandbox:spawn({ "sleep", "100" })
      local result = other:kill()
      assert.same({ "killed", "SIGKILL" }, { result.reason, result.signal })
    end))

  native("memory: a time limit that comes first is told",
    with({ memory = 64 * MIB }, function(_, sandbox)
      local err = raises("TimeoutError", sandbox.exec, sandbox,
        { "sleep", "100" }, { timeout = 0.2, grace = 0 })
      assert.equal("timeout", err.result.reason)
      assert.is_nil(err.result.limit)
    end))

  native("pids: exactly so many", with({ pids = 20 }, function(_, sandbox)
    assert.equal("pids", allows_processes(20, sandbox).limit)
    allows_processes(20, sandbox)
    is_fine(sandbox)
  end))

  native("pids: a command for which there is no room",
    with({ pids = 3 }, function(_, sandbox)
      local held = {}
      for i = 1, 3 do
        held[i] = sandbox:spawn({ "sleep", "100" })
      end
      local err = raises("SpawnError", sandbox.exec, sandbox, { "true" })
      assert.same({ "EAGAIN", "pids", true },
        { err.code, err.limit, err.retryable })
      for _, process in ipairs(held) do
        process:close()
      end
      is_fine(sandbox)
      allows_processes(3, sandbox)
    end))

  native("cpus", with({ cpus = 0.3 }, function(_, sandbox)
    gets_a_third(sandbox)
    is_fine(sandbox)
  end))

  both("open_files", with({ open_files = 20 }, function(_, sandbox)
    assert.equal("20\n20\n", sandbox:exec("ulimit -Sn; ulimit -Hn").stdout)
    local result = sandbox:exec(
      "for i in 3 4 5 6 7 8 9; do eval \"exec $i</dev/null\"; done; "
      .. "exec python3 -c 'import os\nwhile True: os.dup(0)' 2>&1")
    has(result.stdout .. result.stderr, "Too many open files")
  end))

  native("all at once", with({
    memory = 64 * MIB, pids = 20, cpus = 0.3, open_files = 50, disk = 16 * MIB,
  }, function(_, sandbox)
    is_out_of_memory(sandbox:exec(GREEDY))
    assert.equal("pids", allows_processes(20, sandbox).limit)
    gets_a_third(sandbox)
    assert.equal("50\n", sandbox:exec("ulimit -n").stdout)
  end))

  native("math.huge is none", with({
    memory = math.huge, pids = math.huge, cpus = math.huge,
    open_files = math.huge,
  }, function(_, sandbox)
    is_fine(sandbox)
    assert.is_nil(sandbox:exec("head -c 100000000 /dev/zero | tail").limit)
  end))

  native("strict, where cgroups hold them", function(P)
    local sandbox <close> = P.sandbox({
      backend = "bwrap", strict = true,
      limits = { memory = 64 * MIB, pids = 20, cpus = 1, open_files = 100 },
    })
    is_out_of_memory(sandbox:exec(GREEDY))
  end)
end)

-- ---- of one command ---------------------------------------------------------

describe("limits of a command", function()
  native("hold for it alone", with(nil, function(_, sandbox)
    local memory = { limits = { memory = 32 * MIB } }
    is_out_of_memory(sandbox:exec(GREEDY, memory))
    is_fine(sandbox, memory)
    assert.is_nil(sandbox:exec("head -c 100000000 /dev/zero | tail").limit)
    assert.equal("pids",
      allows_processes(10, sandbox, { limits = { pids = 10 } }).limit)
    assert.equal(0, sandbox:exec({ "/attacks/bomb", "count", "50" }).code)
    gets_a_third(sandbox, { limits = { cpus = 0.3 } })
    assert.equal("30\n",
      sandbox:exec("ulimit -n", { limits = { open_files = 30 } }).stdout)
    local process <close> = sandbox:spawn(GREEDY, memory)
    is_out_of_memory(process:wait())
    is_out_of_memory(
      raises("ExitError", sandbox.output, sandbox, GREEDY, memory).result)
  end))

  native("hold with a terminal", with(nil, function(_, sandbox)
    is_out_of_memory(sandbox:exec(GREEDY, {
      pty = true, limits = { memory = 32 * MIB },
    }))
    assert.equal("pids", allows_processes(10, sandbox,
      { pty = true, limits = { pids = 10 } }).limit)
    is_fine(sandbox)
  end))

  native("hold beside those of the sandbox", with({
    memory = 128 * MIB, pids = 20, open_files = 50,
  }, function(_, sandbox)
    local part = "head -c 60000000 /dev/zero | tail >/dev/null"
    assert.is_nil(sandbox:exec(part).limit)
    assert.equal("memory",
      sandbox:exec(part, { limits = { memory = 32 * MIB } }).limit)
    is_out_of_memory(sandbox:exec(GREEDY, { limits = { memory = 1 << 40 } }))
    allows_processes(10, sandbox, { limits = { pids = 10 } })
    allows_processes(20, sandbox, { limits = { pids = 100 } })
    assert.equal("30\n50\n",
      sandbox:exec("ulimit -n", { limits = { open_files = 30 } }).stdout
      .. sandbox:exec("ulimit -n", { limits = { open_files = 80 } }).stdout)
    is_fine(sandbox)
  end))

  native("stay with what it leaves behind", with(nil, function(_, sandbox)
    local result = sandbox:exec("(sleep 0.2; exec tail /dev/zero) "
      .. ">/dev/null 2>&1 & exit 0", { limits = { memory = 32 * MIB } })
    assert.same({ "exited", 0 }, { result.reason, result.code })
    local gone = env.eventually(10, function()
      return sandbox:exec("grep -l '^tail' /proc/[0-9]*/comm").code ~= 0
    end)
    assert.is_true(gone)
    is_fine(sandbox)
  end))

  native("leave room to start", with(nil, function(_, sandbox)
    assert.equal(0,
      sandbox:exec({ "true" }, { limits = { memory = 4 * MIB } }).code)
    is_fine(sandbox)
  end))

  native("of many at once are kept apart", function(P)
    local sandbox <close> = P.sandbox({ backend = "bwrap" })
    local processes = {}
    for i = 1, 12 do
      local greedy = i % 3 == 0
      processes[i] = sandbox:spawn(
        greedy and GREEDY or { "sh", "-c", "kill -9 $$" },
        { limits = { memory = 32 * MIB } })
    end
    for i, process in ipairs(processes) do
      local result = process:wait()
      if i % 3 == 0 then
        is_out_of_memory(result)
      else
        assert.equal("signaled", result.reason)
        assert.is_nil(result.limit)
      end
    end
  end)

  native("in a strict sandbox, too", function(P)
    local sandbox <close> = P.sandbox({ backend = "bwrap", strict = true })
    is_out_of_memory(sandbox:exec(GREEDY, { limits = { memory = 32 * MIB } }))
  end)

  both("cannot be of the disk", with(nil, function(_, sandbox)
    local err = raises("UnsupportedError", sandbox.exec, sandbox, { "true" },
      { limits = { disk = MIB } })
    has(err.message, "limits.disk")
  end))
end)

-- ---- without cgroups --------------------------------------------------------

describe("limits without a cgroup", function()
  both("memory is of each process", without_cgroups({ memory = 64 * MIB },
    function(_, sandbox)
      assert.equal("65536\n", sandbox:output("ulimit -v") .. "\n")
      local result = sandbox:exec(GREEDY)
      assert.same({ "exited", 1 }, { result.reason, result.code })
      is_fine(sandbox)
    end))

  both("pids are counted by the user", without_cgroups({ pids = 20 },
    function(_, sandbox)
      allows_processes(20, sandbox)
      is_fine(sandbox)
    end))

  both("open_files as ever", without_cgroups({ open_files = 20 },
    function(_, sandbox)
      assert.equal("20", sandbox:output("ulimit -n"))
    end))

  both("of a command", without_cgroups(nil, function(_, sandbox)
    local memory = { limits = { memory = 64 * MIB } }
    assert.equal("65536", sandbox:output("ulimit -v", memory))
    assert.equal("exited", sandbox:exec(GREEDY, memory).reason)
    assert.equal("unlimited", sandbox:output("ulimit -v"))
    allows_processes(20, sandbox, { limits = { pids = 20 } })
    local err = raises("UnavailableError", sandbox.exec, sandbox, { "true" },
      { limits = { cpus = 0.5 } })
    has(err.message, "limits.cpus")
    has(err.message, 'setting cgroup is "none"')
    has(err.message, "DIRECTORY")
    assert.equal("cpus", err.limit)
    is_fine(sandbox)
  end))

  both("cpus cannot be had", without_cgroups(nil, function(_, _, backend)
    local err = raises("UnavailableError", backend.create, backend,
      { limits = { cpus = 0.5 } })
    has(err.message, "limits.cpus")
    has(err.message, 'setting cgroup is "none"')
    has(err.message, "DIRECTORY")
  end))

  both("strict refuses to emulate", without_cgroups(nil,
    function(_, _, backend)
      for _, name in ipairs({ "memory", "pids" }) do
        local err = raises("UnavailableError", backend.create, backend,
          { strict = true, limits = { [name] = 64 * MIB } })
        has(err.message, "limits." .. name)
        has(err.message, "strict")
      end
      local sandbox <close> = backend:create({
        strict = true, limits = { open_files = 20, disk = 16 * MIB },
      })
      assert.equal("20", sandbox:output("ulimit -n"))
      for _, name in ipairs({ "memory", "pids" }) do
        local err = raises("UnavailableError", sandbox.exec, sandbox,
          { "true" }, { limits = { [name] = 64 * MIB } })
        has(err.message, "limits." .. name)
        assert.equal(name, err.limit)
      end
      is_fine(sandbox)
    end))

  backends.it(it, backends.bwrap, "probe tells which, and why", function()
    local caps = capabilities({ cgroup = "none" })
    for name, level in pairs({
      memory = "emulated", pids = "emulated", cpus = "missing",
      disk = "native", open_files = "native",
    }) do
      assert.equal(level, caps["limits." .. name].level, name)
    end
    has(caps["limits.memory"].reason, 'the setting cgroup is "none"')
    has(caps["limits.cpus"].reason, 'the setting cgroup is "none"')
    caps = capabilities({ cgroup = "/nowhere" })
    assert.equal("emulated", caps["limits.memory"].level)
    has(caps["limits.memory"].reason, "/nowhere")
    if env.is_root() then
      return
    end
    caps = capabilities()
    if caps["limits.memory"].level == "emulated" then
      has(caps["limits.memory"].reason, "/sys/fs/cgroup")
    end
  end)
end)

-- ---- a directory that was handed over ---------------------------------------

-- As an administrator would do it: one directory in each hierarchy, owned by
-- the user. Only root can try that.
local function hand_over(uid, name)
  local made = {}
  for _, controller in ipairs({ "memory", "pids", "cpu" }) do
    local path = "/sys/fs/cgroup/" .. controller .. "/" .. name
    if select(2, env.sh("mkdir " .. path .. " 2>/dev/null && chown -R " .. uid
      .. " " .. path)) == 0 then
      made[#made + 1] = path
    end
  end
  return made
end

local DELEGATED = [[
  local P = require("portico.sync")
  local backend <close> = P.open("bwrap", { cgroup = arg[1] })
  for _, name in ipairs({ "memory", "pids", "cpus" }) do
    local capability = backend:probe().capabilities["limits." .. name]
    print(name, capability.level, capability.reason)
  end
  local sandbox <close> = backend:create({
    strict = true, limits = { memory = 64 << 20, pids = 20, cpus = 1 },
  })
  local result = sandbox:exec({ "tail", "/dev/zero" })
  print(result.reason, result.limit)
  result = sandbox:exec({ "tail", "/dev/zero" },
    { limits = { memory = 32 << 20 } })
  print(result.reason, result.limit)
  print(sandbox:output("id -u"))
  print(sandbox:exec("for i in $(seq 30); do sleep 1 & done").limit)
]]

describe("a directory that was handed over", function()
  backends.it(it, backends.bwrap, "gives an ordinary user limits", function()
    local uid, name = "54321", "portico-spec-" .. env.read("/proc/self/stat")
      :match("^%d+")
    if not env.is_root() then
      pending("only root can hand one over")
      return
    elseif select(2, env.sh("command -v setpriv >/dev/null")) ~= 0
      or select(2, env.sh(("setpriv --reuid %s --clear-groups test -x %s")
        :format(uid, env.quoted(os.getenv("PORTICO_BIN"))))) ~= 0
    then
      pending("an ordinary user cannot read what is tested here")
      return
    end
    local made = hand_over(uid, name)
    if #made < 3 then
      env.sh("rmdir " .. table.concat(made, " "))
      pending("no three hierarchies of cgroup v1 here")
      return
    end
    local script = os.tmpname()
    env.write(script, DELEGATED)
    env.sh("chmod 644 " .. script)
    local output = env.sh(("cd / && setpriv --reuid %s --regid %s "
      .. "--clear-groups env HOME=/tmp lua5.4 %s %s 2>&1"):format(uid, uid,
      script, made[2]))
    os.remove(script)
    local left = env.sh("rmdir " .. table.concat(made, " ") .. " 2>&1")
    assert.equal("memory\tnative\ta cgroup\npids\tnative\ta cgroup; "
      .. "1024 processes if nothing is asked for\n"
      .. "cpus\tnative\ta cgroup\noom\tmemory\noom\tmemory\n1000\npids\n",
      output)
    assert.equal("", left)
  end)
end)

-- ---- backends that have none ------------------------------------------------

describe("limits on other backends:", function()
  local ENOUGH = {
    memory = 64 * MIB, pids = 1000, cpus = 1000, open_files = 1000,
  }

  facades.on(it, "local", "a command has open_files", function(_, sandbox)
    assert.equal("30", sandbox:output("ulimit -n",
      { limits = { open_files = 30 } }))
    assert.is_true(tonumber(sandbox:output("ulimit -n")) > 30)
  end)

  facades.on(it, "local", "the rest is refused, by name", function(_, sandbox)
    for _, name in ipairs({ "memory", "pids", "cpus" }) do
      for _, method in ipairs({ "exec", "output", "spawn" }) do
        local err = raises("UnsupportedError", sandbox[method], sandbox,
          { "true" }, { limits = { [name] = ENOUGH[name] } })
        has(err.message, "limits." .. name)
        has(err.message, "bwrap")
        assert.equal(name, err.limit)
      end
    end
    assert.equal(0, sandbox:exec({ "true" }).code)
  end)

  facades.on(it, "null", "all are refused, by name", function(_, sandbox)
    for _, name in ipairs({ "memory", "pids", "cpus", "open_files" }) do
      local err = raises("UnsupportedError", sandbox.exec, sandbox,
        { "true" }, { limits = { [name] = ENOUGH[name] } })
      has(err.message, "limits." .. name)
      has(err.message, "bwrap")
    end
    assert.equal(0, sandbox:exec({ "true" }, { limits = {} }).code)
    assert.equal(0,
      sandbox:exec({ "true" }, { limits = { memory = math.huge } }).code)
  end)

  for _, name in ipairs({ "local", "null" }) do
    for _, facade in ipairs(facades.list) do
      it("a sandbox has none [" .. name .. ", " .. facade.name .. "]",
        function()
          facades.call(facade, function(P)
            for _, limit in ipairs({ "memory", "pids", "cpus", "disk",
              "open_files" }) do
              local err = raises("UnsupportedError", P.sandbox,
                { backend = name, limits = { [limit] = 1000 } })
              has(err.message, "limits." .. limit)
            end
          end)
        end)
    end
  end
end)

-- ---- nonsense ---------------------------------------------------------------

describe("limits that are none", function()
  facades.on_each(it, "memory of a command that nothing starts in",
    function(_, sandbox)
      for _, bytes in ipairs({ 1, 4 * MIB - 1 }) do
        local err = raises("InvalidArgumentError", sandbox.exec, sandbox,
          { "true" }, { limits = { memory = bytes } })
        has(err.message, "limits.memory")
        has(err.message, "4 MiB")
        has(err.message, tostring(bytes))
      end
    end)

  facades.everywhere(it, "a disk without an end", function(P, backend)
    local err = raises("InvalidArgumentError", P.sandbox,
      { backend = backend.name, limits = { disk = math.huge } })
    has(err.message, "limits.disk")
    has(err.message, "bound")
  end)

  local nonsense = {
    memory = { 0, -1, 0.5, 0 / 0, -math.huge, "64M", "100", true, {} },
    pids = { 0, -1, 0.5, 0 / 0, -math.huge, "10", true, {} },
    open_files = { 0, -1, 0.5, 0 / 0, -math.huge, "10", true, {} },
    cpus = { 0, -1, 0.0001, 0 / 0, -math.huge, "1", true, {} },
    disk = { 0, -1, 0.5, 0 / 0, -math.huge, "1", true, {} },
  }

  -- Every call that takes limits.
  local function calls(P, sandbox)
    return {
      function(limits)
        return P.sandbox({ backend = "null", limits = limits })
      end,
      function(limits)
        return sandbox:exec({ "true" }, { limits = limits })
      end,
      function(limits)
        return sandbox:output({ "true" }, { limits = limits })
      end,
      function(limits)
        return sandbox:spawn({ "true" }, { limits = limits })
      end,
    }
  end

  facades.on(it, "null", "are refused, with their name", function(P, sandbox)
    for _, call in ipairs(calls(P, sandbox)) do
      for name, values in pairs(nonsense) do
        for _, value in ipairs(values) do
          local err = raises("InvalidArgumentError", call, { [name] = value })
          has(err.message, "limits." .. name)
        end
      end
    end
  end)

  facades.on(it, "null", "have another name", function(P, sandbox)
    for _, call in ipairs(calls(P, sandbox)) do
      local err = raises("InvalidArgumentError", call, { memroy = 1000 })
      has(err.message, "memroy")
      has(err.message, "memory")
      has(raises("InvalidArgumentError", call, { 1000 }).message, "name")
      has(raises("InvalidArgumentError", call, 1000).message, "limits")
      has(raises("InvalidArgumentError", call, "1G").message, "limits")
    end
  end)
end)

it("limits leave nothing behind", nothing_left)
