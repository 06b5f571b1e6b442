-- Open files: who holds them, what is left when something fails, and that none
-- of it waits for others. What each member gives is in scenarios/file.lua.

local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local env = require("spec.support.env")

local on_each = facades.on_each
local raises = facades.raises

local nothing_left = leaks.frame()

local MIB = 1024 * 1024

-- Sends a signal to the processes that do file work. Of `local` only: elsewhere
-- no command can do that. Those that run at the end are printed.
local SIGNAL = [[
  agent=$(sed -n 's/^PPid:.//p' /proc/$PPID/status); n=0
  for pid in $(cat /proc/$agent/task/$agent/children); do
    read -r name < /proc/$pid/comm
    if [ "$name" = portico-files ]; then kill -$0 $pid; n=$((n + 1)); fi
  done; echo $n
]]

-- How many there were.
local function signal_workers(sb, name)
  return tonumber(sb:output({ "sh", "-c", SIGNAL, name }))
end

describe("open files", function()
  on_each(it, "are many, up to a bound, and independent", function(_, sb)
    local fs, files = sb.fs, {}
    for i = 1, 128 do
      files[i] = fs:open("f" .. i, "w+")
      files[i]:write(i)
    end
    local err = raises("LimitError", fs.open, fs, "one more", "w")
    assert.equal("EMFILE", err.code)
    assert.truthy(err.message:find("128 files and watches are open", 1, true))
    assert.equal("3", fs:read("f3")) -- others find a worker
    assert.is_true(files[7]:close())
    local file <close> = fs:open("one more", "w")
    assert.equal("one more", file.path)
    for i = 1, 128 do
      if i ~= 7 then
        files[i]:seek("set")
        assert.equal(tostring(i), files[i]:read("a"))
        files[i]:close()
      end
    end
  end)

  on_each(it, "that nobody has are closed", function(_, sb)
    local fs = sb.fs
    for i = 1, 300 do
      fs:open("f", "w"):write(i)
      if i % 50 == 0 then
        collectgarbage()
        assert.is_true(env.eventually(30, function()
          local ok, err = pcall(fs.open, fs, "f", "r")
          return ok and err:close() or not ok and assert(err.code == "EMFILE")
            and false
        end))
      end
    end
    for _ = 1, 200 do -- what came too late to be taken, too
      pcall(fs.open, fs, "f", "r", { timeout = 0 })
    end
    collectgarbage()
    assert.is_true(env.eventually(30, function()
      return pcall(function()
        fs:open("f"):close()
      end)
    end))
  end)

  on_each(it, "have names that are bytes, and deep ones", function(_, sb)
    local fs = sb.fs
    for _, name in ipairs({
      "a\nb", "bad-\xff\xfe", ("x"):rep(255), "-rf", " ",
    }) do
      local file <close> = fs:open(name, "w")
      file:write(name)
      file:close()
      assert.equal(name, fs:read(name))
      assert.equal(name, file.path)
    end
    raises("SystemError", fs.open, fs, ("x"):rep(256), "w")
    local deep = (("d"):rep(200) .. "/"):rep(40) .. "f"
    fs:open(deep, "w", { parents = true }):write("deep"):close()
    assert.equal("deep", fs:open(deep):read("a"))
    raises("NotFoundError", fs.open, fs, deep .. "g")
  end)

  facades.in_task(it, "take one call at a time", function(P, sb)
    local file <close> = sb.fs:open("f", "w+")
    local big = ("x"):rep(8 * MIB)
    local results = require("portico.task").all({
      function()
        return pcall(file.write, file, big)
      end,
      function()
        return pcall(file.write, file, "y")
      end,
    })
    assert.is_true(results[1])
    P.sleep(0)
    assert.equal(8 * MIB, file:stat().size)
    file:seek("set")
    assert.equal(big, file:read("a"))
  end)

  on_each(it, "are not moved by a call that was cancelled", function(_, sb)
    local file <close> = sb.fs:open("f", "w+")
    local text = ("0123456789abcdef"):rep(64 * 1024)
    file:write(text)
    local at = file:seek("set", 5)
    for i = 0, 5 do
      local ok, err = pcall(file.read, file, 1000000, { timeout = i / 2000 })
      if ok then
        assert.equal(text:sub(6, 1000005), err)
        file:seek("set", 5)
      else
        assert.equal("PCO_ECALLTIMEOUT", err.code)
        assert.equal(at, file:seek())
      end
    end
    assert.equal(text:sub(6, 15), file:read(10))
  end)

  facades.on(it, "bwrap", "tell how far a write came on a full disk",
    function(_, sb)
      local file <close> = sb.fs:open("f", "w+")
      file:write("begin")
      local err = raises("LimitError", file.write, file, ("x"):rep(4 * MIB))
      assert.equal("ENOSPC", err.code)
      assert.equal("f", err.path)
      assert.is_true(err.written > 0 and err.written < 4 * MIB)
      assert.equal(5, file:seek())
      assert.equal(5 + err.written, file:stat().size)
      file:truncate(0)
      file:seek("set")
      file:write("again")
      assert.equal("again", sb.fs:read("f"))
    end, { limits = { disk = 2 * MIB } })

  on_each(it, "are refused to whom their files are", function(_, sb)
    local fs = sb.fs
    fs:write("f", "old")
    fs:chmod("f", 256)
    if sb:output({ "id", "-u" }) == "0" then
      return -- root may do everything
    end
    raises("PermissionError", fs.open, fs, "f", "w")
    raises("PermissionError", fs.open, fs, "f", "a")
    fs:chmod("f", 128)
    raises("PermissionError", fs.open, fs, "f", "r")
    fs:chmod("f", 384)
    assert.equal("old", fs:read("f"))
  end)

  facades.on(it, "bwrap", "of a read-only file system are not written",
    function(_, sb)
      local err = raises("PermissionError", sb.fs.open, sb.fs, "/usr/new", "w")
      assert.equal("/usr/new", err.path)
      local zero <close> = sb.fs:open("/dev/zero", "r")
      assert.equal(("\0"):rep(3 * MIB), zero:read(3 * MIB))
      local null <close> = sb.fs:open("/dev/null", "r+")
      null:write(("x"):rep(MIB), "y")
      assert.is_nil(null:read(1))
    end)
end)

describe("a process that holds an open file", function()
  facades.on(it, "local", "delays only that file when it is stopped",
    function(_, sb)
      local fs = sb.fs
      local file <close> = fs:open("f", "w+")
      file:write("content")
      file:seek("set")
      assert.is_true(signal_workers(sb, "STOP") >= 1)
      raises("TimeoutError", file.read, file, "a", { timeout = 0.2 })
      raises("TimeoutError", file.sync, file, { timeout = 0.2 })
      fs:write("g", ("g"):rep(MIB), { timeout = 30 })
      local other <close> = fs:open("f", "r", { timeout = 30 })
      assert.equal("content", other:read("a"))
      assert.equal("hello\n", sb:exec("echo hello", { timeout = 30 }).stdout)
      signal_workers(sb, "CONT")
      assert.equal("content", file:read("a", { timeout = 30 }))
      -- What cannot be closed is given up after some seconds.
      signal_workers(sb, "STOP")
      assert.is_true(file:close({ timeout = 30 }))
      assert.is_true(other:close({ timeout = 30 }))
      assert.is_true(signal_workers(sb, "CONT") <= 2)
    end)

  facades.on(it, "local", "loses that file when it is killed", function(_, sb)
    local fs = sb.fs
    local file <close> = fs:open("f", "w+")
    file:write("content")
    signal_workers(sb, "KILL")
    local err = raises("SystemError", file.read, file, "a", { timeout = 30 })
    assert.is_true(err.code == "EBADF" or err.code == "EIO", err.code)
    err = raises("SystemError", file.write, file, ("x"):rep(MIB))
    assert.equal("EBADF", err.code)
    assert.truthy(err.message:find("is gone", 1, true), err.message)
    assert.equal("content", fs:read("f"))
    assert.is_true(file:close())
  end)

  facades.on(it, "local", "does not hold up the end of its sandbox",
    function(P)
      local sb <close> = P.sandbox({ backend = "local" })
      local file = sb.fs:open("f", "w+")
      signal_workers(sb, "STOP")
      local seconds = facades.timed(sb.close, sb)
      assert.is_true(seconds < 30, seconds)
      assert.is_true(file:close())
    end)

  facades.in_task(it, "ends when a large read is cancelled", function(_, sb)
    local fs = sb.fs
    local size = env.amount(16 * MIB)
    fs:write("big", ("x"):rep(size))
    local task = require("portico.task")
    for i = 1, 20 do
      pcall(task.timeout, i / 2000, fs.read, fs, "big")
      pcall(task.timeout, i / 2000, fs.write, fs, "new", ("y"):rep(size))
    end
    assert.equal(size, #fs:read("big"))
    assert.is_true(env.eventually(30, function()
      return #fs:glob("**/.portico-*", { hidden = true }) == 0
    end))
    if fs:exists("new") then -- the whole of it or nothing
      assert.equal(("y"):rep(size), fs:read("new"))
    end
  end)
end)

describe("the open files", function()
  -- A line that comes in pieces is looked through once, and from its beginning
  -- after each way to get somewhere else.
  on_each(it, "give lines of any length, wherever reads begin and end",
    function(_, sb)
      local lines = {}
      for i, length in ipairs({ 0, 131071, 131072, 131073, 3000000, 1, 0 }) do
        lines[i] = ("%d"):format(i):rep(length)
      end
      sb.fs:write("f", table.concat(lines, "\n"))
      local file <close> = sb.fs:open("f")
      for i = 1, 6 do
        assert.is_true(lines[i] == file:read(), "line " .. i)
      end
      assert.is_nil(file:read())
      file:seek("set", 1 + 131072 + 131073)
      assert.equal("4444", file:read(4))
      local err = raises("LimitError", file.read, file, "l",
        { max_size = 100000 })
      assert.equal("max_size", err.limit)
      assert.is_true(lines[4]:sub(5) == file:read())
      assert.equal("5", file:read(1))
      file:seek("set", 0)
      -- What lies behind the line does not count, what it is part of does.
      assert.equal("", file:read("l", { max_size = 10 }))
      err = raises("LimitError", file.read, file, "l", { max_size = 131070 })
      assert.equal("f: a line is longer than max_size = 131070 bytes; read(n) "
        .. "gives it", err.message)
      assert.is_true(lines[2] == file:read("l", { max_size = 131071 }))
      file:seek("set", 1)
      assert.is_true(lines[2] .. "\n" == file:read("L"))
      err = raises("LimitError", file.read, file, "a", { max_size = 10 })
      assert.equal("f: there is more than max_size = 10 bytes", err.message)
    end)

  it("leave nothing behind", nothing_left)
end)
