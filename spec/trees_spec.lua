-- Trees: upload and download, in both facades, on each backend. What the
-- sandbox may not do to the host with them is in attacks_trees_spec.lua.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local lfs = require("lfs")
local sync = require("portico.sync")

local on_each = facades.on_each
local raises = facades.raises

local nothing_left = leaks.frame()

local KIB, MIB = 1024, 1024 * 1024

-- What find says of a tree; directories' sizes and blocks are the file
-- system's affair.
local LOOK = [[cd "$0" && find . \( -type d -printf '%p d %m %T@\n' \) -o \
  -printf '%p %y %m %T@ %s %l\n' | LC_ALL=C sort]]

local function sh(script, ...)
  local words = { "sh", "-c", sync.quote(script) }
  for _, word in ipairs({ ... }) do
    words[#words + 1] = sync.quote(word)
  end
  local output, code = env.sh(table.concat(words, " ") .. " 2>&1")
  assert(code == 0, output)
  return output
end

local function inside(sb, script, ...)
  return sb:exec({ "sh", "-c", script, ... }, { check = true }).stdout
end

-- Runs fn with a directory of the host, which is removed.
local function with_directory(fn)
  local path = env.tmpdir()
  local results = table.pack(pcall(fn, path))
  env.rmdir(path)
  if not results[1] then
    error(results[2], 0)
  end
end

-- Declares a test that gets a sandbox and a directory of the host, with a tree
-- in it.
local function on_tree(name, fn, options)
  on_each(it, name, function(P, sb, backend)
    with_directory(function(path)
      fn(P, sb, path, backend)
    end)
  end, options)
end

local MAKE = [[
  cd "$0" && mkdir -p t/src/deep t/empty t/ro && cd t
  echo one > src/one.c; echo two > src/two.h; echo three > src/deep/three.c
  printf 'a\nb' > "$(printf 'new\nline')"; : > nothing; echo x > -dash
  : > "$(printf 'not-utf8-\377')"
  head -c 300000 /dev/urandom > big; truncate -s 3M holes; echo end >> holes
  ln -s src/one.c link; ln -s ../../src src/deep/up; ln -s missing dangling
  chmod 600 src/one.c; chmod 755 src/two.h; chmod 555 ro; chmod 711 empty
  touch -d '2001-02-03 04:05:06.123456789' src/one.c
  touch -h -d '2002-02-03 04:05:06.5' link; touch -d '1960-01-01' src/two.h
  touch -d '2003-02-03 04:05:06.75' src/deep src empty
]]

local function leftovers(sb, path)
  return sh([[find "$0" -name '.portico-*']], path)
    .. table.concat(sb.fs:glob("**/.portico-*", { hidden = true }), " ")
end

describe("a tree", function()
  on_tree("is the same, there and back", function(_, sb, path)
    sh(MAKE, path)
    local up = sb:upload(path .. "/t", "t")
    assert.same({ 12, 5, {} }, { up.files, up.directories, up.skipped })
    local wanted = sh(LOOK, path .. "/t")
    assert.equal(wanted, inside(sb, LOOK, "t"))
    local down = sb:download("t", path .. "/back")
    assert.same({ up.files, up.directories, up.bytes },
      { down.files, down.directories, down.bytes })
    assert.equal(wanted, sh(LOOK, path .. "/back"))
    sh([[cd "$0" && diff -r --no-dereference t back && cmp t/big back/big]],
      path)
    assert.is_true(lfs.attributes(path .. "/back/holes", "blocks") < 1000)
    assert.is_true(down.bytes < MIB)
    assert.equal("", leftovers(sb, path))
  end)

  on_tree("may be one file", function(_, sb, path)
    env.write(path .. "/f", "text")
    sh([[chmod 640 "$0/f"]], path)
    assert.equal(1, sb:upload(path .. "/f", "f").files)
    assert.equal("text", sb.fs:read("f"))
    assert.equal(tonumber("640", 8), sb.fs:stat("f").mode)
    sb.fs:write("f", "other")
    sb:download("f", path .. "/f")
    assert.equal("other", env.read(path .. "/f"))
    sb:upload(path .. "/f", "a/b/f", { parents = true })
    sb:download("a/b/f", path .. "/c/d/f", { parents = true })
    assert.equal("other", env.read(path .. "/c/d/f"))
    local err = raises("NotFoundError", sb.upload, sb, path .. "/f", "x/y")
    assert.equal("x/y: no such file or directory; parents = true makes the "
      .. "directories above it", err.message)
    err = raises("NotFoundError", sb.download, sb, "f", path .. "/x/y")
    assert.truthy(err.message:find("; parents = true makes", 1, true))
    err = raises("NotFoundError", sb.upload, sb, path .. "/f", "x/y",
      { parents = false, on_error = "skip" })
    assert.equal("ENOENT", err.code)
    err = raises("SystemError", sb.upload, sb, path .. "/f", "a")
    assert.equal("EISDIR", err.code)
    assert.truthy(err.message:find("name the file", 1, true))
    err = raises("SystemError", sb.upload, sb, path .. "/c", "f")
    assert.equal("ENOTDIR", err.code)
    raises("NotFoundError", sb.download, sb, "missing", path .. "/m")
    raises("NotFoundError", sb.upload, sb, path .. "/missing", "m")
  end)

  on_tree("goes into a directory that is there", function(_, sb, path)
    sh(MAKE, path)
    sb:upload(path .. "/t", "t")
    inside(sb, [[cd t && echo mine > own && echo old > src/one.c && rm link &&
      chmod 700 src && echo mine > src/deep/own]])
    sb:upload(path .. "/t", "t")
    assert.equal("mine\n", sb.fs:read("t/own"))
    assert.equal("mine\n", sb.fs:read("t/src/deep/own"))
    assert.equal("one\n", sb.fs:read("t/src/one.c"))
    assert.equal("src/one.c", sb.fs:readlink("t/link"))
    -- What is there keeps its mode.
    assert.equal(tonumber("700", 8), sb.fs:stat("t/src").mode)
    sb.fs:remove("t/src", { recursive = true })
    sb.fs:write("t/src", "a file")
    local err = raises("SystemError", sb.upload, sb, path .. "/t", "t")
    assert.equal("ENOTDIR", err.code)
    assert.equal("t/src", err.path)
    assert.truthy(err.message:find("put in place before", 1, true))
    assert.equal("", leftovers(sb, path))
  end)

  on_tree("of nothing but itself", function(_, sb, path)
    lfs.mkdir(path .. "/e")
    assert.equal(1, sb:upload(path .. "/e", "e").directories)
    assert.same({}, sb.fs:list("e"))
    assert.equal(0, sb:download("e", path .. "/e2").files)
    assert.equal("directory", lfs.attributes(path .. "/e2", "mode"))
  end)

  on_tree("has names of 255 bytes and is 200 deep", function(_, sb, path)
    sh([[cd "$0"; mkdir t; cd t; i=0; while [ $i -lt 200 ]; do
      mkdir ]] .. ("d"):rep(200) .. [[ && cd -P ]] .. ("d"):rep(200)
      .. [[ || exit 1; i=$((i+1)); done; echo deep > ]] .. ("f"):rep(255), path)
    local up = sb:upload(path .. "/t", "t")
    assert.same({ 1, 201 }, { up.files, up.directories })
    local down = sb:download("t", path .. "/back")
    assert.same({ 1, 201 }, { down.files, down.directories })
    assert.equal("1\n", sh([[cd "$0/back" && find . -name 'f*' | wc -l]], path))
    sb.fs:remove("t", { recursive = true })
  end)
end)

describe("patterns", function()
  local function names(text)
    local found = {}
    for name in text:gmatch("%./(%S+)") do
      found[#found + 1] = name
    end
    return table.concat(found, " ")
  end

  on_tree("say what is left out, and what is taken", function(_, sb, path)
    sh([[cd "$0" && mkdir -p t/src/deep t/build/x t/empty && cd t &&
      touch src/a.c src/a.o src/deep/b.c src/deep/b.o build/x/c.o build/c.c
      touch top.c]], path)
    local function taken(options)
      sb.fs:remove("t", { recursive = true, missing_ok = true })
      sb:upload(path .. "/t", "t", options)
      return names(inside(sb, "cd t && find . | LC_ALL=C sort"))
    end
    assert.equal("empty src src/a.c src/deep src/deep/b.c top.c",
      taken({ exclude = { "*.o", "build/" } }))
    assert.equal("build build/c.c src src/a.c src/deep src/deep/b.c top.c",
      taken({ include = "*.c" }))
    assert.equal("src src/deep src/deep/b.c src/deep/b.o",
      taken({ include = "src/deep" }))
    assert.equal("src src/deep src/deep/b.c",
      taken({ include = "src/**/*.c", exclude = "src/*.c" }))
    assert.equal("", taken({ include = "nothing" }))
    -- The same out of the sandbox.
    taken()
    sb:download("t", path .. "/o", { include = "src/", exclude = "*.o" })
    assert.equal("src src/a.c src/deep src/deep/b.c",
      names(sh([[cd "$0/o" && find . | LC_ALL=C sort]], path)))
  end)
end)

describe("links", function()
  on_tree("are kept, followed inside, or refused", function(_, sb, path)
    sh([[cd "$0" && mkdir -p t/d && echo in > t/d/f && echo out > secret
      ln -s d/f t/file; ln -s d t/dir; ln -s ../../secret t/d/away
      ln -s "$0/secret" t/absolute]], path)
    sb:upload(path .. "/t", "kept")
    assert.equal("../../secret", sb.fs:readlink("kept/d/away"))
    local err = raises("SystemError", sb.upload, sb, path .. "/t", "x",
      { symlinks = "inside" })
    assert.equal("ELOOP", err.code)
    assert.equal(path .. "/t/absolute", err.path)
    err = raises("SystemError", sb.upload, sb, path .. "/t", "x",
      { symlinks = "refuse" })
    assert.equal("ELOOP", err.code)
    raises("SystemError", sb.upload, sb, path .. "/t", "x",
      { symlinks = "follow" })
    assert.is_false(sb.fs:exists("x"))
    local done = sb:upload(path .. "/t", "followed",
      { symlinks = "follow", on_error = "skip" })
    local left_out = {}
    for i, skipped in ipairs(done.skipped) do
      left_out[i] = skipped.path .. " " .. tostring(skipped.code)
      assert.truthy(skipped.message:find("leads out", 1, true))
    end
    assert.same({ "absolute EXDEV", "d/away EXDEV", "dir/away EXDEV" },
      left_out)
    assert.equal("file", sb.fs:stat("followed/file", { follow = false }).type)
    assert.equal("in\n", sb.fs:read("followed/dir/f"))
    assert.equal("directory",
      sb.fs:stat("followed/dir", { follow = false }).type)
  end)

  on_tree("that lead out do not come out, unless asked for",
    function(_, sb, path)
      inside(sb, [[mkdir -p t/d && echo in > t/f && ln -s ../f t/d/in &&
        ln -s /etc/passwd t/passwd && ln -s ../../x t/d/x]])
      local err = raises("SystemError", sb.download, sb, "t", path .. "/t")
      assert.equal("ELOOP", err.code)
      assert.is_false(env.exists(path .. "/t"))
      local done = sb:download("t", path .. "/t", { on_error = "skip" })
      assert.equal(2, #done.skipped)
      assert.equal("../f", lfs.symlinkattributes(path .. "/t/d/in", "target"))
      assert.is_false(env.exists(path .. "/t/passwd"))
      sb:download("t", path .. "/all", { symlinks = "keep" })
      assert.equal("/etc/passwd",
        lfs.symlinkattributes(path .. "/all/passwd", "target"))
      assert.equal("", leftovers(sb, path))
    end)

  on_tree("that go round are told", function(_, sb, path)
    sh([[mkdir -p "$0/t/d" && ln -s .. "$0/t/d/up" && ln -s me "$0/t/me"]],
      path)
    local err = raises("SystemError", sb.upload, sb, path .. "/t", "t",
      { symlinks = "follow" })
    assert.equal("ELOOP", err.code)
    assert.equal(1, sb:upload(path .. "/t", "t",
      { symlinks = "follow", on_error = "skip", exclude = "me" }).directories
      - 1)
  end)
end)

describe("what cannot be copied", function()
  on_tree("is an error that names it, or is left out and listed",
    function(_, sb, path)
      sh([[cd "$0" && mkdir t && echo 1 > t/a && mkfifo t/b && echo 3 > t/c]],
        path)
      local err = raises("InvalidArgumentError", sb.upload, sb, path .. "/t",
        "t")
      assert.equal(path .. "/t/b", err.path)
      assert.is_false(sb.fs:exists("t"))
      local done = sb:upload(path .. "/t", "t", { on_error = "skip" })
      assert.equal(2, done.files)
      assert.same({ {
        path = "b", code = "EINVAL",
        message = "it is no file, directory or link",
      } }, done.skipped)
      assert.equal("3\n", sb.fs:read("t/c"))
      inside(sb, "mkfifo t/fifo")
      err = raises("InvalidArgumentError", sb.download, sb, "t", path .. "/o")
      assert.equal("t/fifo", err.path)
      assert.is_false(env.exists(path .. "/o"))
      done = sb:download("t", path .. "/o", { on_error = "skip" })
      assert.equal("fifo", done.skipped[1].path)
      assert.equal("3\n", env.read(path .. "/o/c"))
      raises("InvalidArgumentError", sb.download, sb, "t/fifo", path .. "/f")
      raises("InvalidArgumentError", sb.upload, sb, path .. "/t/a", "t/fifo")
      assert.equal("", leftovers(sb, path))
    end)

  on_tree("as it may not be read", function(_, sb, path)
    sh([[cd "$0" && mkdir -p t/d && echo 1 > t/a && echo 2 > t/b &&
      echo 3 > t/c && chmod 0 t/b t/d]], path)
    if env.is_root() then
      return -- root may read all; the run as an ordinary user tests it
    end
    local err = raises("PermissionError", sb.upload, sb, path .. "/t", "t")
    assert.equal(path .. "/t/b", err.path)
    assert.is_false(sb.fs:exists("t"))
    local done = sb:upload(path .. "/t", "t", { on_error = "skip" })
    assert.equal(2, #done.skipped)
    assert.equal("b", done.skipped[1].path)
    assert.equal("EACCES", done.skipped[1].code)
    assert.equal("d", done.skipped[2].path)
    assert.equal("3\n", sb.fs:read("t/c"))
  end)

  facades.on(it, "bwrap", "as there is no room", function(_, sb)
    with_directory(function(path)
      sh([[cd "$0" && mkdir t && head -c 300000 /dev/zero > t/a &&
        head -c 30000000 /dev/urandom > t/b]], path)
      local err = raises("LimitError", sb.upload, sb, path .. "/t", "t")
      assert.equal("ENOSPC", err.code)
      assert.equal("t/b", err.path)
      raises("LimitError", sb.upload, sb, path .. "/t", "t",
        { on_error = "skip" })
      assert.same({}, sb.fs:list("."))
      sb:upload(path .. "/t", "t", { exclude = "b" })
      assert.equal(300000, sb.fs:stat("t/a").size)
    end)
  end, { limits = { disk = 16 * MIB } })

  on_tree("as the target may not be written", function(_, sb, path, backend)
    sh([[mkdir "$0/t" && echo x > "$0/t/f"]], path)
    local target = backend.isolated and "/usr/t" or "/t"
    local err = raises("PermissionError", sb.upload, sb, path .. "/t", target)
    assert.truthy(err.code == "EROFS" or err.code == "EACCES", tostring(err))
    if not env.is_root() then
      sh([[mkdir "$0/ro" && chmod 555 "$0/ro"]], path)
      sb.fs:write("f", "")
      raises("PermissionError", sb.download, sb, "f", path .. "/ro/f")
    end
  end)
end)

describe("only_changed", function()
  on_tree("copies what is not there, both ways", function(_, sb, path)
    sh(MAKE, path)
    local source = path .. "/t"
    assert.equal(12, sb:upload(source, "t", { only_changed = true }).files)
    assert.equal(0, sb:upload(source, "t", { only_changed = true }).files)
    sh([[echo new > "$0/src/one.c"; chmod 700 "$0/nothing"; ln -sf x "$0/link"
      rm "$0/big"; echo add > "$0/src/added"]], source)
    local up = sb:upload(source, "t", { only_changed = true })
    assert.equal(4, up.files)
    assert.equal("new\n", sb.fs:read("t/src/one.c"))
    assert.equal("x", sb.fs:readlink("t/link"))
    assert.equal("add\n", sb.fs:read("t/src/added"))
    assert.is_true(sb.fs:exists("t/big")) -- nothing is removed
    local back = path .. "/back"
    assert.equal(13, sb:download("t", back, { only_changed = true }).files)
    assert.equal(0, sb:download("t", back, { only_changed = true }).files)
  end)

  on_tree("goes by time, or by content", function(_, sb, path)
    local file = path .. "/f"
    sh([[printf aaa > "$0"; touch -d 2001-01-01 "$0"]], file)
    sb:upload(file, "f")
    sh([[printf bbb > "$0"; touch -d 2001-01-01 "$0"]], file)
    assert.equal(0, sb:upload(file, "f", { only_changed = true }).files)
    local checked = { only_changed = true, checksum = true }
    assert.equal(1, sb:upload(file, "f", checked).files)
    assert.equal("bbb", sb.fs:read("f"))
    sh([[touch "$0"]], file)
    assert.equal(0, sb:upload(file, "f", checked).files)
    assert.equal(0, sb:download("f", file, checked).files)
    assert.equal(1, sb:download("f", file, { only_changed = true }).files)
    local err = raises("InvalidArgumentError", sb.upload, sb, file, "f",
      { checksum = true })
    assert.truthy(err.message:find("only_changed", 1, true))
  end)
end)

describe("progress", function()
  on_tree("tells how far it is, and the end", function(_, sb, path)
    sh([[mkdir "$0/t" && cd "$0/t" && for i in 1 2 3 4; do
      head -c 8000000 /dev/zero > $i; done]], path)
    for _, move in ipairs({
      function(options)
        return sb:upload(path .. "/t", "t", options)
      end,
      function(options)
        return sb:download("t", path .. "/back", options)
      end,
    }) do
      local seen = {}
      move({ on_progress = function(progress)
        seen[#seen + 1] = progress
      end })
      assert.is_true(#seen >= 1)
      for i, progress in ipairs(seen) do
        assert.equal(32000000, progress.total)
        assert.equal("string", type(progress.path))
        assert.is_true(progress.path ~= "" or i == 1)
        assert.is_true(progress.bytes >= (i > 1 and seen[i - 1].bytes or 0))
        assert.is_true(progress.bytes <= progress.total)
      end
      assert.equal(32000000, seen[#seen].bytes)
      assert.equal(4, seen[#seen].files)
    end
  end)

  on_tree("may wait, call, and raise", function(P, sb, path)
    sh([[head -c 20000000 /dev/zero > "$0/f"]], path)
    local calls = 0
    sb:upload(path .. "/f", "f", { on_progress = function()
      calls = calls + 1
      P.sleep(0.001)
      assert(sb:exec({ "true" }).ok)
    end })
    assert.is_true(calls >= 1)
    local object = { "mine" }
    local ok, err = pcall(sb.download, sb, "f", path .. "/g",
      { on_progress = function()
        error(object)
      end })
    assert.is_false(ok)
    assert.is_true(rawequal(object, err))
    raises("InvalidArgumentError", sb.upload, sb, path .. "/f", "f",
      { on_progress = true })
  end)
end)

describe("a transfer that ends early", function()
  -- So much that it takes far longer than its time.
  local MUCH = [[mkdir -p "$0" && cd "$0" && truncate -s 1M zero &&
    dd if=/dev/zero of=big bs=1M count=200 2>/dev/null]]

  on_tree("by its time limit leaves nothing", function(_, sb, path)
    sh(MUCH, path .. "/t")
    local err = raises("TimeoutError", sb.upload, sb, path .. "/t", "t",
      { timeout = 0.02 })
    assert.equal("PCO_ECALLTIMEOUT", err.code)
    assert.is_true(env.eventually(20, function()
      return leftovers(sb, path) == ""
    end))
    assert.is_false(sb.fs:exists("t"))
    inside(sb, MUCH, "u")
    raises("TimeoutError", sb.download, sb, "u", path .. "/u",
      { timeout = 0.02 })
    assert.is_false(env.exists(path .. "/u"))
    assert.equal("", sh([[find "$0" -name '.portico-*']], path))
    assert.equal(200 * MIB, sb:download("u/big", path .. "/b").bytes)
  end)

  on_tree("by the end of its sandbox", function(P, _, path, backend)
    sh(MUCH, path .. "/t")
    local sb <close> = P.sandbox({ backend = backend.name })
    local closed
    local ok, err = pcall(sb.upload, sb, path .. "/t", "t", {
      on_progress = function()
        closed = closed or sb:close()
      end,
    })
    -- It may have been over with the first call.
    assert.is_true(closed)
    if not ok then
      assert.is_true(errors.is(err, "ClosedError"), tostring(err))
    end
    assert.equal("", sh([[find "$0" -name '.portico-*']], path))
    err = raises("ClosedError", sb.upload, sb, path .. "/t", "t")
    assert.equal("PCO_ECLOSED", err.code)
  end)

  facades.in_task(it, "by the cancellation of its task", function(P, sb)
    local task = require("portico.task")
    with_directory(function(path)
      sh(MUCH, path .. "/t")
      local ok = pcall(task.scope, function(scope)
        local job = scope:spawn(function()
          sb:upload(path .. "/t", "t")
        end)
        P.sleep(0.02)
        job:cancel()
        job:pawait()
      end)
      assert.is_boolean(ok)
      assert.is_true(env.eventually(20, function()
        return leftovers(sb, path) == ""
      end))
    end)
  end)

  on_tree("as there is too much", function(_, sb, path)
    inside(sb, [[mkdir t; cd t; for i in 1 2 3 4 5; do echo $i > $i; done;
      truncate -s 1M holes]])
    local function limited(options, limit)
      local err = raises("LimitError", sb.download, sb, "t", path .. "/t",
        options)
      assert.equal("PCO_ELIMIT", err.code)
      assert.equal(limit, err.limit)
      assert.is_false(env.exists(path .. "/t"))
    end
    limited({ max_entries = 6 }, "max_entries")
    limited({ max_bytes = MIB + 9 }, "max_bytes")
    sb:download("t", path .. "/t", { max_entries = 7, max_bytes = MIB + 10 })
    assert.equal("", leftovers(sb, path))
  end)
end)

describe("many at once", function()
  facades.in_task(it, "do not stand in each other's way", function(_, sb)
    local task = require("portico.task")
    with_directory(function(path)
      sh([[cd "$0"; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do mkdir $i;
        head -c 100000 /dev/zero > $i/f; done]], path)
      local jobs = {}
      for i = 1, 12 do
        jobs[i] = function()
          sb:upload(path .. "/" .. i, "up" .. i)
          return sb:download("up" .. i, path .. "/down" .. i).files
        end
      end
      for _, files in ipairs(task.all(jobs)) do
        assert.equal(1, files)
      end
    end)
  end)
end)

describe("without an agent", function()
  facades.on(it, "null", "it is told that the backend cannot",
    function(_, sb)
      local err = raises("UnsupportedError", sb.upload, sb, "README.md", "r")
      assert.truthy(err.message:find("bwrap and local do", 1, true))
      raises("UnsupportedError", sb.download, sb, "r", "/nonexistent/r")
    end)
end)

describe("the helper", function()
  it("needs no more memory for more", function()
    if backends.absence(backends.default) then
      return
    end
    with_directory(function(path)
      local sb <close> = sync.sandbox({ backend = "local" })
      sh([[truncate -s 4G "$0/holes"; head -c 50000000 /dev/zero > "$0/f"]],
        path)
      local function resident()
        return tonumber(env.read("/proc/self/status"):match("VmRSS:%s+(%d+)"))
      end
      sb:upload(path .. "/f", "f")
      local before = resident()
      sb:upload(path .. "/holes", "holes")
      assert.equal(4 * 1024 * MIB, sb.fs:stat("holes").size)
      for _ = 1, 5 do
        sb:upload(path .. "/f", "f")
        sb:download("f", path .. "/g")
      end
      assert.is_true(resident() - before < 4 * KIB, resident() - before)
    end)
  end)

  it("leaves nothing behind", nothing_left)
end)
