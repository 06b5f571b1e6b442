-- Attacks that take more than there is for them: processes, memory, files.
-- Small programs (spec/attacks/bomb.c, fill.c) run in sandboxes with limits,
-- and again in a build of the backend without the protection in question
-- ("weaken"), where they must get what they want. 42 is refused, 0 went
-- through; who wanted too much memory was killed instead, by the kernel.

local attacks = require("spec.support.attacks")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local ids = require("spec.support.ids")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local REFUSED, THROUGH = attacks.REFUSED, attacks.THROUGH
local attack = attacks.run
local MIB = 1 << 20

local mounts = attacks.mounts
local weak_plugin = os.getenv("PORTICO_TEST_PLUGINS") .. "/portico-weak.so"
local absent = backends.absence(backends.bwrap)
local skips = 0

local nothing_left = leaks.frame()
local other, weak_backend

-- What enforces a limit here: "native" is a cgroup.
local function level(name)
  local backend <close> = sync.open("bwrap")
  return backend:probe().capabilities["limits." .. name].level
end
local has_cgroups = not absent and level("memory") == "native"
  and level("pids") == "native"

setup(function()
  if not absent then
    other = sync.sandbox({ backend = "bwrap", mounts = mounts,
      allow_in_tasks = true })
    weak_backend = sync.open(weak_plugin, nil, { allow_in_tasks = true })
  end
end)

teardown(function()
  print("# tests of attacks that were skipped: " .. skips)
end)

-- ---- declaring --------------------------------------------------------------

local function skip(name, why)
  skips = skips + 1
  pending(name .. ": " .. why)
end

-- Fn gets the facade.
local function both(name, fn)
  facades.with(it, "bwrap", name, fn)
end

local function once(name, fn)
  backends.it(it, backends.bwrap, name, fn)
end

-- ---- sandboxes --------------------------------------------------------------

local function options(extra)
  local all = { backend = "bwrap", mounts = mounts }
  for key, value in pairs(extra or {}) do
    all[key] = value
  end
  return all
end

-- A sandbox with limits, but without the protections.
local function weakened(weaken, limits, fn)
  local sandbox <close> = weak_backend:create({
    mounts = mounts, limits = limits, settings = { weaken = weaken },
  })
  return fn(sandbox)
end

local function goes_through(weaken, limits, words)
  weakened(weaken, limits, function(sandbox)
    local result, text = attack(sandbox, words)
    assert.equal(THROUGH, result.code, text)
  end)
end

local function others_are_well()
  attacks.others_are_well(other)
end

-- ---- 11: a bomb, and a time limit -------------------------------------------

describe("attack: a fork bomb", function()
  for _, kind in ipairs({ "moving", "growing" }) do
    both(kind .. " ends with its time limit", function(P)
      -- The bound is for the machine that this runs on.
      local sandbox <close> = P.sandbox(options({ limits = { pids = 500 } }))
      local seconds, err = facades.timed(function()
        return facades.raises("TimeoutError", sandbox.exec, sandbox,
          { "/attacks/bomb", kind }, { timeout = 1, grace = 1 })
      end)
      assert(seconds < 30, "it took " .. seconds .. " s")
      assert.same({}, err.result.survivors)
      local left = sandbox:exec("grep -l bomb /proc/[0-9]*/comm 2>/dev/null")
      assert.equal("", left.stdout)
      others_are_well()
    end)
  end

  -- Up to 1024 processes that want the processors: the agent hardly gets any.
  once("of whom nobody limited ends with its time limit", function()
    local sandbox <close> = sync.sandbox(options())
    local err = facades.raises("TimeoutError", sandbox.exec, sandbox,
      { "/attacks/bomb", "growing" }, { timeout = 1, grace = 0.1 })
    assert.same({}, err.result.survivors)
    sandbox:exec({ "true" }):check()
  end)

  -- Everything is stopped for a moment while a bomb is killed.
  both("ends, and another command goes on", function(P)
    local sandbox <close> = P.sandbox(options({ limits = { pids = 200 } }))
    local neighbour <close> = sandbox:spawn(
      "while read -r line; do echo $line; done", { stdin = "pipe" })
    facades.raises("TimeoutError", sandbox.exec, sandbox,
      { "/attacks/bomb", "growing" }, { timeout = 0.5, grace = 0 })
    neighbour:write("here\n")
    assert.equal("here\n", neighbour:read({ timeout = 20 }).data)
    neighbour:close_stdin()
    assert.equal(0, neighbour:wait({ timeout = 20 }).code)
  end)

  once("outlives who kills its children one by one", function()
    local sandbox <close> = sync.sandbox(options({ limits = { pids = 500 } }))
    local result, text = attack(sandbox, { "bomb", "naive" })
    assert.equal(THROUGH, result.code, text)
  end)

  both("ends with its sandbox", function(P)
    local sandbox = P.sandbox(options({ limits = { pids = 500 } }))
    sandbox:spawn({ "/attacks/bomb", "moving" })
    sandbox:exec({ "sleep", "0.3" })
    local seconds = facades.timed(function()
      sandbox:close()
    end)
    assert(seconds < 30, "it took " .. seconds .. " s")
  end)
end)

-- ---- 12: as many processes as one may have ----------------------------------

-- With and without a cgroup, where there is the choice.
local ways = { { name = "no cgroup", settings = { cgroup = "none" } } }
if has_cgroups then
  ways[#ways + 1] = { name = "a cgroup", settings = {} }
end

describe("attack: processes", function()
  local limits = { pids = 64 }

  for _, way in ipairs(ways) do
    both("are bounded with " .. way.name .. ", for this sandbox alone",
      function(P)
        local backend <close> = P.open("bwrap", way.settings)
        local bounded <close> = backend:create({
          mounts = mounts, limits = limits,
        })
        local free <close> = backend:create({ mounts = mounts })
        local held <close> = bounded:spawn({ "/attacks/bomb", "hold", "1000" },
          { stdin = "pipe" })
        local amount = tonumber(held:read({ timeout = 20 }).data)
        assert(amount <= 64 and amount >= 50, amount .. " processes")
        local result, text = attack(free, { "bomb", "count", "100" })
        assert.equal(THROUGH, result.code, text)
        others_are_well()
        held:close_stdin()
        held:wait()
        result, text = attack(bounded, { "bomb", "count", "100" })
        assert.equal(REFUSED, result.code, text)
        assert.equal("exited", result.reason)
      end)
  end

  once("are not, without the limit", function()
    goes_through("cgroup", limits, { "bomb", "count", "100" })
  end)

  -- Without a limit there are 1024; the agent has some of its own.
  both("are bounded if nobody asked for it", function(P)
    local sandbox <close> = P.sandbox(options())
    local held <close> = sandbox:spawn({ "/attacks/bomb", "hold", "1500" },
      { stdin = "pipe" })
    local amount = tonumber(held:read({ timeout = 60 }).data)
    assert(amount <= 1024 and amount >= 1000, amount .. " processes")
    -- There may be room for one more, which then is the bomb itself.
    local ok, got = pcall(sandbox.exec, sandbox,
      { "/attacks/bomb", "count", "10" })
    assert.truthy(ok and got.code == REFUSED or got.limit == "pids",
      tostring(got))
    sandbox.fs:write("/workspace/file", "the agent works on")
    others_are_well()
    held:close_stdin()
    held:wait()
    sandbox:exec({ "true" }):check()
  end)

  once("are not, without that bound", function()
    goes_through("processes", nil, { "bomb", "count", "1500" })
  end)

  for _, way in ipairs(ways) do
    once("may be more than that, with a limit that says so, " .. way.name,
      function()
        local backend <close> = sync.open("bwrap", way.settings)
        local sandbox <close> = backend:create({
          mounts = mounts, limits = { pids = 1600 },
        })
        local result, text = attack(sandbox, { "bomb", "count", "1500" })
        assert.equal(THROUGH, result.code, text)
      end)
  end
end)

-- ---- 13: everything that can be filled --------------------------------------

describe("attack: bytes", function()
  local disk = { disk = 16 * MIB }
  local much = tostring(64 * MIB)

  local dirs = { "/tmp", "/workspace", "/dev/shm", "/home/sandbox" }
  for _, dir in ipairs(dirs) do
    both("in " .. dir .. " are bounded", function(P)
      local sandbox <close> = P.sandbox(options({ limits = disk }))
      local result, text = attack(sandbox, { "fill", "bytes", much, dir })
      assert.equal(REFUSED, result.code, text)
      others_are_well()
    end)
    once("in " .. dir .. " are not, without a bound", function()
      goes_through("tmpfs", disk, { "fill", "bytes", much, dir })
    end)
  end

  both("of all directories together are bounded", function(P)
    local sandbox <close> = P.sandbox(options({ limits = disk }))
    local total = 0
    for _, dir in ipairs(dirs) do
      attack(sandbox, { "fill", "bytes", much, dir })
      total = total + tonumber(sandbox:output("stat -c %s " .. dir .. "/fill"))
    end
    assert(total <= 16 * MIB, total)
  end)

  for _, dir in ipairs({ "/", "/dev", "/usr", "/etc" }) do
    once("in " .. dir .. " cannot be", function()
      local result, text = attack(other, { "fill", "bytes", "1", dir })
      assert.equal(REFUSED, result.code, text)
    end)
  end
  for _, dir in ipairs({ "/", "/dev" }) do
    if ids.two then
      -- There even the first process may not write what is not its own.
      skip("bytes in " .. dir .. " can be where it is not read-only",
        "with two uids they belong to neither")
    else
      once("in " .. dir .. " can be where it is not read-only", function()
        goes_through("readonly", nil, { "fill", "bytes", "1", dir })
      end)
    end
  end

  once("of message queues are bounded by the kernel", function()
    local result, text = attack(other, { "fill", "queues", much })
    assert.equal(REFUSED, result.code, text)
  end)
  both("of System V shared memory are bounded", function(P)
    local sandbox <close> = P.sandbox(options())
    local result, text = attack(sandbox, { "fill", "shm", tostring(96 * MIB) })
    assert.equal(REFUSED, result.code, text)
    others_are_well()
  end)
  once("of System V shared memory are not, without a bound", function()
    goes_through("sysvipc", nil, { "fill", "shm", tostring(96 * MIB) })
  end)
end)

-- ---- 13 and 15: memory ------------------------------------------------------

-- What processes and files in memory take. (MemAvailable would say the same,
-- but for pages that the kernel keeps for each processor once they were freed,
-- and uses again first.)
local function used()
  local text, sum = env.read("/proc/meminfo"), 0
  for _, name in ipairs({ "AnonPages", "Shmem" }) do
    sum = sum + tonumber(text:match(name .. ":%s+(%d+)")) * 1024
  end
  return sum
end

-- How much more of the host's memory is used while an attack runs, until it has
-- ended, or has all that it wants and holds it. Other programs take and give
-- meanwhile, so there are some tries for what `is_right` is to say of it.
local function takes(sandbox, kind, amount, is_right)
  local taken
  for _ = 1, 8 do
    local start, highest = used(), 0
    local process <close> = sandbox:spawn(
      { "/attacks/fill", kind, amount, "hold" },
      { stdin = "pipe", timeout = 60 })
    repeat
      highest = math.max(highest, used())
      local ok = pcall(process.read, process, { timeout = 0 })
    until ok -- it holds it all, or has ended
    highest = math.max(highest, used())
    taken = highest - start
    if is_right(taken) then
      return
    end
  end
  error(kind .. ": " .. taken .. " bytes of the host", 2)
end

describe("attack: memory", function()
  local limits = { memory = 64 * MIB }
  local much = tostring(300 * MIB)
  local kinds = { "memory", "memfd" }

  if has_cgroups then
    for _, kind in ipairs(kinds) do
      both("as " .. kind .. " is bounded", function(P)
        local sandbox <close> = P.sandbox(options({ limits = limits }))
        local result, text = attack(sandbox, { "fill", kind, much })
        assert.equal("oom", result.reason, text)
        assert.equal("memory", result.limit)
        assert.equal("SIGKILL", result.signal)
        assert.equal("here", sandbox:output({ "echo", "here" }))
        others_are_well()
      end)
      once("as " .. kind .. " is not, without the limit", function()
        goes_through("cgroup", limits, { "fill", kind, much })
      end)
    end

    once("in files counts, too", function()
      local sandbox <close> = sync.sandbox(options({ limits = limits }))
      local result, text = attack(sandbox, { "fill", "bytes", much, "/tmp" })
      assert.equal("oom", result.reason, text)
      -- What fills it can be removed, though no command has room to start.
      sandbox.fs:remove("/tmp/fill")
      assert.equal("here", sandbox:output({ "echo", "here" }))
    end)

    once("of the host stays where it is", function()
      local sandbox <close> = sync.sandbox(options({ limits = limits }))
      for _, kind in ipairs(kinds) do
        takes(sandbox, kind, much, function(bytes)
          return bytes <= (64 + 64) * MIB
        end)
      end
    end)

    once("of the host does not, without the limit", function()
      weakened("cgroup", limits, function(sandbox)
        takes(sandbox, "memory", much, function(bytes)
          return bytes > 200 * MIB
        end)
      end)
    end)

    both("is no excuse for other deaths", function(P)
      local sandbox <close> = P.sandbox(options({ limits = limits }))
      local die = { "sh", "-c", "kill -9 $$" }
      local function plain()
        local result = sandbox:exec(die)
        assert.equal("signaled", result.reason)
        assert.equal("SIGKILL", result.signal)
        assert.is_nil(result.limit)
      end
      plain()
      assert.equal("oom", attack(sandbox, { "fill", "memory", much }).reason)
      plain()
      local result = sandbox:exec("/attacks/fill memory " .. much .. "; exit 3")
      assert.equal("exited", result.reason)
      assert.equal(3, result.code)
      assert.equal("memory", result.limit)
      plain()
    end)
  else
    for _, kind in ipairs(kinds) do
      skip("memory as " .. kind .. " is bounded", "no cgroup here")
    end
    once("is listed as emulated without a cgroup", function()
      assert.equal("emulated", level("memory"))
    end)
  end

  both("of a process is bounded without a cgroup", function(P)
    local backend <close> = P.open("bwrap", { cgroup = "none" })
    local sandbox <close> = backend:create({ mounts = mounts, limits = limits })
    local result, text = attack(sandbox, { "fill", "memory", much })
    assert.equal(REFUSED, result.code, text)
    assert.equal("exited", result.reason)
  end)
  once("of a process is not, without the limit", function()
    goes_through("cgroup", limits, { "fill", "memory", much })
  end)
end)

-- ---- 14: files --------------------------------------------------------------

describe("attack: files", function()
  local disk = { disk = 16 * MIB }

  both("are bounded, and go quickly", function(P)
    local sandbox = P.sandbox(options())
    local result, text = attack(sandbox,
      { "fill", "files", "1000000", "/workspace" })
    assert.equal(REFUSED, result.code, text)
    others_are_well()
    local seconds = facades.timed(function()
      sandbox:close()
    end)
    assert(seconds < 30, "close took " .. seconds .. " s")
  end)

  both("are bounded by the disk", function(P)
    local sandbox <close> = P.sandbox(options({ limits = disk }))
    local result, text = attack(sandbox, { "fill", "files", "20000", "/tmp" })
    assert.equal(REFUSED, result.code, text)
  end)

  once("are not, without a bound", function()
    goes_through("inodes", disk, { "fill", "files", "20000", "/tmp" })
  end)
end)

it("attacks leave the others so that they can be closed", function()
  for _, object in ipairs({ other, weak_backend }) do
    assert.is_true(object:close())
  end
end)

it("attacks leave nothing behind", nothing_left)
