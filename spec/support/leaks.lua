-- Looks for what a spec file leaves behind: descriptors, threads, processes,
-- temporary directories, cgroups and memory, compared with how it was when the
-- file began. Ends of processes and threads take a moment, so a difference
-- counts only when it stays.

local lfs = require("lfs")
local backends = require("spec.support.backends")
local env = require("spec.support.env")

local leaks = {}

-- How long leftovers may take to vanish, in seconds.
local PATIENCE = 10

-- How much more memory than before a file may leave in use, in MiB. What the
-- allocator keeps of what was freed counts, so it is not little; with a
-- sanitizer, which never gives back, it is not looked at.
leaks.MEMORY_MIB = 64
leaks.SANITIZED = env.read("/proc/self/maps"):find("lib[at]san") ~= nil

local function descriptors()
  local found = {}
  for name in lfs.dir("/proc/self/fd") do
    local target = name:find("^%d+$")
      and lfs.symlinkattributes("/proc/self/fd/" .. name, "target")
    -- The descriptor of this very listing points to the directory it lists;
    -- weakened filters are kept, one pair for each that tests ask for.
    if target and not target:find("^/proc/%d+/fd$")
      and not target:find("^/memfd:portico%-seccomp%-weak")
    then
      found["descriptor " .. name .. " -> " .. target] = true
    end
  end
  return found
end

local function threads()
  local found = {}
  for name in lfs.dir("/proc/self/task") do
    if name:find("^%d+$") then
      local comm = env.read("/proc/self/task/" .. name .. "/comm") or "?\n"
      found["thread " .. name .. " " .. comm:sub(1, -2)] = true
    end
  end
  return found
end

-- All processes as pid -> {parent, comm, state}.
local function processes()
  local all = {}
  for name in lfs.dir("/proc") do
    local stat = name:find("^%d+$") and env.read("/proc/" .. name .. "/stat")
    if stat then
      local comm, state, parent = stat:match("^%d+ %((.*)%) (%S) (%d+)")
      all[tonumber(name)] = {
        comm = comm, state = state, parent = tonumber(parent),
      }
    end
  end
  return all
end

function leaks.own_pid()
  return tonumber(env.read("/proc/self/stat"):match("^%d+"))
end

-- Whether an account is ours, or one of those that only sandboxes have.
local function is_ours(uid)
  return uid == lfs.attributes("/proc/self", "uid") or uid and uid >= 65536
end

-- Descendants of ours, and those that lost their parent. Where a spec was
-- started by hand, of these only what belongs to a sandbox can be told.
local function children()
  local all, self = processes(), leaks.own_pid()
  local found = {}
  for pid, process in pairs(all) do
    local parent, ours = process.parent, false
    while parent and parent > 1 do
      ours = ours or parent == self or parent == env.root and pid ~= self
      parent = all[parent] and all[parent].parent
    end
    local orphan = not env.root and process.parent == 1 and process.state ~= "Z"
      and (process.comm:find("^portico%-") or process.comm == "bwrap")
      and is_ours(lfs.attributes("/proc/" .. pid, "uid"))
    if ours or orphan then
      found["process " .. pid .. " " .. process.comm .. " "
        .. process.state] = true
    end
  end
  return found
end

-- Whether an agent of another test works for a directory: it was detached.
local function has_foreign_agent(directory)
  for pid in lfs.dir("/proc") do
    local words = env.root and pid:find("^%d+$")
      and env.read("/proc/" .. pid .. "/cmdline")
    if words and words:find("\0--remove\0" .. directory .. "\0", 1, true)
      and not env.is_ours(tonumber(pid))
    then
      return true
    end
  end
  return false
end

-- Workspaces of `local` whose owner is this account. Names have the pid of the
-- host; not those of other tests that are still at it.
local function directories()
  local found, self = {}, leaks.own_pid()
  local uid = lfs.attributes("/proc/self", "uid")
  local root = "/tmp" -- it does not read TMPDIR
  for name in lfs.dir(root) do
    local host = tonumber(name:match("^portico%-local%-(%d+)%-%w+$"))
    local others = host and host ~= self and env.exists("/proc/" .. host)
      and not (env.root and env.is_ours(host))
    if host and not others
      and lfs.symlinkattributes(root .. "/" .. name, "uid") == uid
      and not has_foreign_agent(root .. "/" .. name)
    then
      found["directory " .. root .. "/" .. name] = true
    end
  end
  return found
end

-- Cgroups of sandboxes that no process is in any more; their names end with
-- the pid of the host. Not those of other test runs that are still at it.
local function cgroups()
  local found, self = {}, tostring(leaks.own_pid())
  for path in env.sh("find /sys/fs/cgroup -type d -name 'portico-*' -prune "
    .. "2>/dev/null"):gmatch("[^\n]+") do
    local host = path:match("%-(%d+)$")
    local others = host and host ~= self and env.exists("/proc/" .. host)
    if not others and env.sh("cat $(find " .. env.quoted(path)
      .. " -name cgroup.procs) 2>/dev/null") == ""
    then
      found["cgroup " .. path] = true
    end
  end
  return found
end

-- Everything there is now, as a set of descriptions.
function leaks.snapshot()
  collectgarbage()
  collectgarbage()
  local all = {}
  for _, look in ipairs({
    descriptors, threads, children, directories, cgroups,
  }) do
    for description in pairs(look()) do
      all[description] = true
    end
  end
  return all
end

-- MiB of memory that nobody else has.
local function memory()
  return tonumber(env.read("/proc/self/status"):match("RssAnon:%s*(%d+)"))
    // 1024
end

-- Returns a sorted list of what is there now and was not in `before`.
function leaks.since(before)
  local found
  env.eventually(PATIENCE, function()
    found = {}
    for description in pairs(leaks.snapshot()) do
      if not before[description] then
        found[#found + 1] = description
      end
    end
    return #found == 0
  end)
  table.sort(found)
  return found
end

-- What is made once and kept (the loop, the agent's image, seccomp filters) is
-- made before the count begins. A failure here is for the tests to report.
local function warm_up()
  for _, name in ipairs({ "portico", "portico.sync" }) do
    local P = require(name)
    for _, backend in ipairs(backends.real) do
      pcall(P.run, function()
        local sandbox <close> = P.sandbox({ backend = backend.name })
        sandbox:exec({ "true" })
      end)
    end
  end
end

-- Call at the top of a spec file: returns the body of its last test,
-- `it("leaves nothing behind", check)`. memory_mib: how much may stay, where so
-- much was in use at once that malloc keeps pieces of it.
function leaks.frame(memory_mib)
  warm_up()
  local before, memory_before = leaks.snapshot(), memory()
  return function()
    local found = leaks.since(before)
    local grown = memory() - memory_before
    if grown >= (memory_mib or leaks.MEMORY_MIB) and not leaks.SANITIZED then
      found[#found + 1] = grown .. " MiB of memory"
    end
    if #found > 0 then
      error("left behind:\n  " .. table.concat(found, "\n  "), 0)
    end
  end
end

return leaks
