-- A file system that gets stuck: only what is done on it waits, it can be
-- cancelled, and nothing is left. It is FUSE, whose server does not answer
-- (support/stuck_fs.py); a process that waits for it cannot even be killed.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local task = require("portico.task")
local raises = facades.raises

local nothing_left = leaks.frame()

local SERVER = "spec/support/stuck_fs.py"

-- Mounts it on a directory; an object to close, or nil and why it cannot be.
local function mount(path)
  local status = os.tmpname()
  local pipe = assert(io.popen(("exec python3 %s %s >%s 2>&1"):format(SERVER,
    env.quoted(path), status), "w"))
  -- It says something in any case, if only the shell that there is none.
  env.eventually(200, function()
    return env.read(status):find("\n$") ~= nil
  end)
  local said = env.read(status):match("([^\n]*)\n$") or "its server is silent"
  os.remove(status)
  if said ~= "mounted" then
    pipe:close()
    return nil, said
  end
  return setmetatable({}, {
    __close = function()
      pipe:close()
    end,
  })
end

local function absence()
  local path = env.tmpdir()
  local mounted, why = mount(path)
  if mounted then
    local _ <close> = mounted
  end
  env.rmdir(path)
  return why
end

local reason = absence()

describe("a file system that is stuck", function()
  -- Runs fn(sandbox) with it in the workspace, as fs/.
  local function with_stuck(sb, fn)
    sb.fs:mkdir("fs")
    local place = sb:exec("pwd").stdout:sub(1, -2)
    do
      local _ <close> = assert(mount(place .. "/fs"))
      assert.equal("good\n", sb.fs:read("fs/good"))
      fn(sb)
    end
    if sb.closed then -- what is mounted is not removed
      env.rmdir(place:match("(.*)/"))
    end
  end

  local function on_stuck(name, fn)
    if reason then
      pending(name .. ": no FUSE here: " .. reason)
      return
    end
    facades.on(it, "local", name, function(_, sb)
      with_stuck(sb, fn)
    end)
  end

  -- What is elsewhere, or on it and answered, goes on.
  local function others_go_on(sb)
    local fs = sb.fs
    fs:write("f", ("x"):rep(1 << 20), { timeout = 30 })
    assert.equal(1 << 20, #fs:read("f", { timeout = 30 }))
    assert.equal("good\n", fs:read("fs/good", { timeout = 30 }))
    assert.equal("hello\n", sb:exec("echo hello", { timeout = 30 }).stdout)
  end

  on_stuck("delays what is done on it, time limits hold", function(sb)
    local fs = sb.fs
    for _ = 1, 5 do -- 10 of them: more than there are workers
      raises("TimeoutError", fs.read, fs, "fs/stuck", { timeout = 0.2 })
      raises("TimeoutError", fs.stat, fs, "fs/dead", { timeout = 0.2 })
      others_go_on(sb)
    end
  end)

  on_stuck("holds up the files that are open on it alone", function(sb)
    local fs = sb.fs
    local file <close> = fs:open("fs/stuck")
    raises("TimeoutError", file.read, file, 5, { timeout = 0.2 })
    local other <close> = fs:open("fs/good")
    assert.equal("good\n", other:read("a", { timeout = 30 }))
    others_go_on(sb)
    assert.is_true(file:close({ timeout = 30 }))
  end)

  on_stuck("does not hold up a download for ever", function(sb)
    local path = env.tmpdir()
    raises("TimeoutError", sb.download, sb, "fs/stuck", path .. "/f",
      { timeout = 0.5 })
    assert.is_false(env.exists(path .. "/f"))
    others_go_on(sb)
    env.rmdir(path)
  end)

  on_stuck("does not hold up others that run meanwhile", function(sb)
    local function read()
      return sb.fs:read("fs/stuck")
    end
    if not task.current() then -- the sync facade has one at a time
      raises("TimeoutError", sb.fs.read, sb.fs, "fs/stuck", { timeout = 0.2 })
      return others_go_on(sb)
    end
    task.scope(function(scope)
      for _ = 1, 4 do
        scope:spawn(read)
      end
      others_go_on(sb)
      scope:cancel()
    end)
  end)

  on_stuck("lets its sandbox end", function(sb)
    raises("TimeoutError", sb.fs.read, sb.fs, "fs/stuck", { timeout = 0.2 })
    local seconds = facades.timed(sb.close, sb)
    assert.is_true(seconds < 60, seconds)
  end)

  it("leaves nothing behind", nothing_left)
end)
