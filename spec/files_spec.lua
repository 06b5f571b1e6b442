-- Files: names as they are, big directories, deep paths, and what is left when
-- an operation fails half-way.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local on_each = facades.on_each
local raises = facades.raises

-- Malloc keeps pieces of what 100,000 entries took, in each facade's thread: up
-- to 80 MiB, which do not become more when it is done again.
local nothing_left = leaks.frame(128)

local KIB = 1024

-- Names that were left of something unfinished.
local function leftovers(fs)
  return table.concat(fs:glob("**/.portico-*", { hidden = true }), " ")
end

describe("messages", function()
  on_each(it, "name the path, the input and the way out", function(_, sb)
    local fs = sb.fs
    fs:mkdir("a")
    fs:write("file", "")
    fs:symlink("file", "link")
    local function says(wanted, class, fn, ...)
      assert.equal(wanted, raises(class, fn, ...).message)
    end
    says("file: file already exists", "AlreadyExistsError", fs.mkdir, fs,
      "file")
    says("a: copying a directory needs recursive = true", "SystemError",
      fs.copy, fs, "a", "b")
    says("a: cannot copy a directory into itself", "InvalidArgumentError",
      fs.copy, fs, "a", "a/b", { recursive = true })
    for _, fn in ipairs({ fs.read, fs.list, fs.usage }) do
      says("link: a symbolic link is in the way, which follow = false refuses",
        "SystemError", fn, fs, "link", { follow = false })
    end
    says('the mode 755 has octal digits, but Lua reads it in decimal: write '
      .. '"755"', "InvalidArgumentError", fs.chmod, fs, "file", 755)
    says('mode must be permission bits: octal digits such as "644", or a '
      .. 'number from 0 to 4095 (got "rw-")', "InvalidArgumentError", fs.write,
      fs, "file", "", { mode = "rw-" })
    fs:chmod("file", "750")
    assert.equal(488, fs:stat("file").mode)
    local above = "; parents = true makes the directories above it"
    says("no/x: no such file or directory" .. above, "NotFoundError", fs.write,
      fs, "no/x", "")
    says("no/x: no such file or directory" .. above, "NotFoundError", fs.mkdir,
      fs, "no/x")
    says("no/x: no such file or directory" .. above, "NotFoundError",
      fs.symlink, fs, "file", "no/x")
    says("no: no such file or directory", "NotFoundError", fs.read, fs, "no")
    fs:write("other", "")
    for _, fn in ipairs({ fs.rename, fs.copy }) do
      says("other: file already exists; overwrite = true replaces it",
        "AlreadyExistsError", fn, fs, "file", "other")
    end
    says('a name in env must be a string, as in env = {NAME = "value"} (got 1)',
      "InvalidArgumentError", sb.exec, sb, { "true" }, { env = { "A=b" } })
    local process <close> = sb:spawn({ "sleep", "600" })
    says("the call did not end within 0.01 s", "TimeoutError", process.wait,
      process, { timeout = 0.01 })
  end)
end)

describe("names", function()
  local NAMES = {
    "a b", "-rf", "a'b", 'a"b', "a;b", "a\\b", "~", "*", "a\nb", "ü", "...",
    "bad-\xff\xfe.txt", "\1\27[31m", ("x"):rep(255), " ", ".hidden",
  }

  on_each(it, "are bytes, in every call", function(_, sb)
    local fs = sb.fs
    fs:mkdir("d")
    fs:mkdir("copies")
    for _, name in ipairs(NAMES) do
      local path = "d/" .. name
      fs:write(path, name)
      assert.equal(name, fs:read(path))
      assert.equal(#name, fs:stat(path).size)
      assert.equal(name, fs:stat(path).name)
      fs:copy(path, "copies/" .. name)
      fs:rename(path, "d/moved")
      fs:rename("d/moved", path)
      fs:chmod(path, 384)
    end
    local wanted = { table.unpack(NAMES) }
    table.sort(wanted)
    for _, directory in ipairs({ "d", "copies" }) do
      local listed, walked = {}, {}
      for i, entry in ipairs(fs:list(directory)) do
        listed[i] = entry.name
      end
      for entry in fs:walk(directory) do
        walked[#walked + 1] = entry.name
        assert.equal(directory .. "/" .. entry.name, entry.path)
      end
      assert.same(wanted, listed)
      assert.same(wanted, walked)
    end
    assert.same({ "d/*" }, fs:glob("d/\\*"))
    local err = raises("NotFoundError", fs.read, fs, "d/no\xff")
    assert.equal("d/no\xff", err.path)
    fs:remove("d", { recursive = true })
    raises("SystemError", fs.write, fs, ("x"):rep(256), "")
  end)
end)

describe("directories", function()
  facades.on(it, "local", "of 100,000 entries are listed and walked",
    function(_, sb)
      local fs = sb.fs
      sb:exec("mkdir big; cd big; seq 1 100000 | xargs touch"):check()
      assert.equal(100000, #fs:list("big"))
      local n, seen = 0, {}
      for entry in fs:walk("big") do
        n = n + 1
        seen[entry.name] = true
      end
      assert.equal(100000, n)
      assert.is_true(seen["1"] and seen["100000"])
      assert.equal(11111, #fs:glob("big/9*"))
      fs:remove("big", { recursive = true })
      assert.is_false(fs:exists("big"))
    end)

  on_each(it, "are reached beyond PATH_MAX", function(_, sb)
    local fs = sb.fs
    local name = ("d"):rep(200)
    local path = name .. ("/" .. name):rep(39)
    fs:mkdir(path, { parents = true })
    fs:write(path .. "/f", "deep")
    assert.equal("deep", fs:read(path .. "/f"))
    local last, n = nil, 0
    for entry in fs:walk(name) do
      last, n = entry.path, n + 1
    end
    assert.equal(path .. "/f", last)
    assert.equal(40, n)
    assert.same({ path .. "/f" }, fs:glob(name .. "/**/f"))
    fs:copy(name, "copy", { recursive = true })
    assert.equal("deep", fs:read("copy" .. path:sub(201) .. "/f"))
    assert.equal(4, fs:usage(name).bytes)
    fs:remove(name, { recursive = true })
    raises("SystemError", fs.mkdir, fs, ("d/"):rep(300) .. "d",
      { parents = true })
    raises("SystemError", fs.read, fs, ("d/"):rep(40000))
  end)
end)

describe("a walk", function()
  facades.in_task(it, "is for one task: who shares it is told", function(P, sb)
    local task = require("portico.task")
    for i = 1, 3 do
      sb.fs:write(("d/%d/f"):format(i), "", { parents = true })
    end
    local next_entry, told = sb.fs:walk("d"), 0
    local entries = {}
    local function take()
      repeat
        local ok, entry = pcall(next_entry)
        if ok and entry then
          entries[#entries + 1] = entry.path
        elseif not ok then
          assert.equal("PCO_EBUSY", entry.code)
          assert.truthy(entry.message:find("a walk of its own", 1, true))
          told = told + 1
          P.sleep(0.01)
        end
      until ok and not entry
    end
    task.all({ take, take, take })
    assert.is_true(told > 0)
    assert.equal("d/1 d/1/f d/2 d/2/f d/3 d/3/f", table.concat(entries, " "))
    -- A call that was given up is nobody's any more.
    local again = sb.fs:walk("no", { timeout = 10 })
    raises("NotFoundError", again)
    assert.is_nil(again())
  end)
end)

describe("glob", function()
  on_each(it, "takes braces and a bracket without an end as they are",
    function(_, sb)
      for _, name in ipairs({ "{a,b}", "a", "b", "[a", "c]" }) do
        sb.fs:write(name, "")
      end
      for pattern, paths in pairs({
        ["{a,b}"] = "{a,b}", ["{a*"] = "{a,b}", ["[a"] = "[a", ["[a*"] = "[a",
        ["*]"] = "c]", ["[ab]"] = "a b", ["[!ab]"] = "", ["\\[a"] = "[a",
        ["[b-a]"] = "",
      }) do
        assert.equal(paths, table.concat(sb.fs:glob(pattern), " "), pattern)
      end
    end)
end)

describe("special files", function()
  on_each(it, "never make a call wait", function(_, sb)
    local fs = sb.fs
    sb:exec("mkfifo fifo; mkdir d; mkfifo d/fifo; ln -s fifo link"):check()
    raises("InvalidArgumentError", fs.read, fs, "fifo")
    raises("InvalidArgumentError", fs.read, fs, "link")
    raises("InvalidArgumentError", fs.write, fs, "fifo", "")
    raises("InvalidArgumentError", fs.write, fs, "fifo", "", { atomic = false })
    raises("InvalidArgumentError", fs.append, fs, "fifo", "")
    raises("InvalidArgumentError", fs.copy, fs, "fifo", "x")
    raises("InvalidArgumentError", fs.copy, fs, "d", "x", { recursive = true })
    assert.equal("other", fs:stat("fifo").type)
    assert.equal(1, fs:usage("fifo").files)
    fs:chmod("fifo", 384)
    assert.equal("", leftovers(fs))
  end)
end)

describe("a full disk", function()
  -- What is written in a sandbox of bwrap is in memory, which can be bounded.
  facades.on(it, "bwrap", "loses nothing, whatever was tried", function(_, sb)
    local fs = sb.fs
    fs:write("old", ("o"):rep(512 * KIB))
    -- The newest comes first in memory.
    fs:write("tree/b", ("b"):rep(1024 * KIB), { parents = true })
    fs:write("tree/a", ("a"):rep(256 * KIB))
    local before = fs:usage(".").bytes
    local big = ("n"):rep(4096 * KIB)
    local function full(fn, ...)
      local err = raises("LimitError", fn, fs, ...)
      assert.equal("ENOSPC", err.code)
      assert.equal("", leftovers(fs))
      return err
    end
    local err = full(fs.write, "old", big)
    assert.equal("old", err.path)
    assert.truthy(err.message:find("old: writing: ", 1, true), err.message)
    assert.equal(("o"):rep(512 * KIB), fs:read("old"))
    full(fs.write, "new", big)
    assert.is_false(fs:exists("new"))
    fs:write("filler", ("f"):rep(1536 * KIB))
    err = full(fs.copy, "tree", "copy", { recursive = true })
    assert.equal("tree/b", err.path)
    assert.is_false(fs:exists("copy"))
    fs:mkdir("copy")
    err = full(fs.copy, "tree", "copy", { recursive = true, overwrite = true })
    assert.truthy(err.message:find("1 entries were copied before", 1, true),
      err.message)
    assert.is_false(fs:exists("copy/b"))
    fs:remove("copy", { recursive = true })
    fs:remove("filler")
    full(fs.write, "old", big, { atomic = false })
    fs:write("old", ("o"):rep(512 * KIB), { atomic = false })
    assert.equal(before, fs:usage(".").bytes)
  end, { limits = { disk = 4096 * KIB } })
end)

describe("what may not be written", function()
  on_each(it, "is left as it was", function(_, sb)
    local fs = sb.fs
    fs:write("d/f", "old", { parents = true })
    fs:write("s", "new")
    sb:exec("chmod 555 d"):check()
    if sb:output({ "id", "-u" }) == "0" then
      return fs:chmod("d", 493) -- root may do everything
    end
    raises("PermissionError", fs.write, fs, "d/f", "new")
    raises("PermissionError", fs.copy, fs, "s", "d/n")
    raises("PermissionError", fs.symlink, fs, "x", "d/n")
    raises("PermissionError", fs.mktemp, fs, { parent = "d" })
    fs:write("d/f", "in place", { atomic = false })
    assert.equal("in place", fs:read("d/f"))
    sb:exec("mkdir t; echo 1 > t/a; echo 2 > t/b; chmod 0 t/b"):check()
    local err = raises("PermissionError", fs.copy, fs, "t", "u",
      { recursive = true })
    assert.equal("t/b", err.path)
    assert.is_false(fs:exists("u"))
    assert.equal("", leftovers(fs))
    fs:chmod("d", 493)
  end)
end)

describe("a call that is cancelled", function()
  on_each(it, "leaves nothing of a copy", function(_, sb)
    local fs = sb.fs
    sb:exec("mkdir t; cd t; seq 1 5000 | xargs touch"):check()
    for i = 0, 4 do
      pcall(fs.copy, fs, "t", "copy", { recursive = true, timeout = i / 200 })
      fs:remove("copy", { recursive = true, missing_ok = true })
    end
    assert.is_true(env.eventually(30, function()
      return leftovers(fs) == ""
    end))
    assert.equal(5000, #fs:list("t"))
  end)
end)

describe("a file system that hangs", function()
  -- Stops the process that does the file work, which looks the same. Of `local`
  -- only: elsewhere no command can do that.
  local STOP = [[
    agent=$(sed -n 's/^PPid:.//p' /proc/$PPID/status); found=
    for pid in $(cat /proc/$agent/task/$agent/children); do
      read -r name < /proc/$pid/comm
      if [ "$name" = portico-files ]; then kill -STOP $pid; found=1; fi
    done; [ $found ]
  ]]

  facades.on(it, "local", "delays only what is done on it", function(_, sb)
    local fs = sb.fs
    fs:write("f", "content")
    sb:exec(STOP):check()
    local err = raises("TimeoutError", fs.read, fs, "f", { timeout = 0.3 })
    assert.equal("PCO_ECALLTIMEOUT", err.code)
    assert.equal("content", fs:read("f", { timeout = 30 }))
    sb:exec(STOP):check()
    raises("TimeoutError", fs.write, fs, "big", ("x"):rep(4096 * KIB),
      { timeout = 0.3 })
    assert.equal("hello\n", sb:exec("echo hello", { timeout = 30 }).stdout)
    fs:write("g", ("x"):rep(4096 * KIB), { timeout = 30 })
    assert.equal(4096 * KIB, fs:stat("g").size)
    assert.is_false(fs:exists("big"))
    sb:exec(STOP):check()
    sb:close() -- does not wait for it
  end)

  it("lets other tasks go on", function()
    facades.call(facades.list[1], function(P)
      local sb <close> = P.sandbox({ backend = "local" })
      local fs = sb.fs
      fs:write("f", "content")
      sb:exec(STOP):check()
      local slow, quick = table.unpack(require("portico.task").all({
        function()
          return pcall(fs.read, fs, "f", { timeout = 2 })
        end,
        function()
          P.sleep(0.05)
          return fs:read("f")
        end,
      }))
      assert.is_false(slow)
      assert.equal("content", quick)
    end)
  end)
end)

describe("the files", function()
  it("leave nothing behind", nothing_left)
end)
