-- Attack 22 and its like: a process inside swaps a directory, or a file, for a
-- link to the outside while file operations go through that name. Whatever is
-- met, nothing outside is read, changed, made or removed.
--
-- The agent does the work for both facades, so one of them is enough here.

local attacks = require("spec.support.attacks")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local errors = require("portico.errors")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local nothing_left = leaks.frame()

-- How often each operation is done while names are swapped: some thousands for
-- each backend.
local ROUNDS = 200

-- What the outside holds; no file inside is of these sizes or has these names.
local EVIL = ("evil"):rep(1111)
local OUTSIDE = [[
  set -e; mkdir -p "$1/outside/tree/deep"; cd "$1/outside"
  printf %s "$2" > file; printf %s "$2" > evil; printf %s "$2" > tree/deep/evil
  ln -s evil link; chmod 600 file; touch -d 2001-01-01 file evil link tree .
]]
local SNAPSHOT = [[
  cd "$1/outside" && find . -printf '%p %m %U %G %T@ %C@ %s %l\n' | sort
  cat file evil tree/deep/evil | cksum
]]

local sh = env.sh_with

-- Fails if a value holds something of the outside.
local function check(value, what)
  if type(value) == "table" then
    for key, each in pairs(value) do
      assert(key ~= "size" and key ~= "bytes" or each ~= #EVIL, what)
      check(each, what)
    end
  elseif type(value) == "string" then
    assert(not value:find("evil", 1, true), what .. " gave: " .. value)
  end
end

local function walked(fs, path)
  local found = {}
  for entry in fs:walk(path, { on_error = "skip" }) do
    found[#found + 1] = entry.path
  end
  return found
end

-- Operations on a name that is swapped, or below one: `dir` is a directory or
-- the link, `leaf` a file or the link.
local OPERATIONS = {
  read = function(fs, dir, leaf)
    return { fs:read(dir .. "/file") }, fs:read(leaf)
  end,
  stat = function(fs, dir, leaf)
    return { size = fs:stat(dir .. "/file").size }, fs:stat(leaf)
  end,
  exists = function(fs, dir)
    assert(not fs:exists(dir .. "/evil"), "exists told of the outside")
  end,
  list = function(fs, dir)
    return fs:list(dir)
  end,
  walk = function(fs, dir)
    return walked(fs, dir)
  end,
  glob = function(fs, dir)
    return fs:glob(dir .. "/**")
  end,
  usage = function(fs, dir, leaf)
    local usage = fs:usage(dir)
    assert(usage.bytes < #EVIL, "usage counted the outside")
    return fs:usage(leaf)
  end,
  readlink = function(fs, dir)
    return fs:readlink(dir .. "/link")
  end,
  write = function(fs, dir, leaf)
    fs:write(dir .. "/new", "x")
    fs:write(leaf, "x")
  end,
  ["write in place"] = function(fs, dir, leaf)
    fs:write(dir .. "/file", "x", { atomic = false, mode = 416 })
    fs:write(leaf, "x", { atomic = false })
  end,
  append = function(fs, dir, leaf)
    fs:append(dir .. "/file", "x")
    fs:append(leaf, "x")
  end,
  open = function(fs, dir, leaf)
    local file <close> = fs:open(dir .. "/file", "r+")
    file:write("x")
    file:seek("set")
    local text = file:read("a")
    local other <close> = fs:open(leaf, "a+", { mode = 511 })
    other:write("x")
    other:seek("set")
    return text, other:read("a"), { size = other:stat().size }
  end,
  ["open a new one"] = function(fs, dir, leaf)
    fs:open(dir .. "/new", "w"):write("x"):close()
    fs:open(leaf, "w"):close()
  end,
  watch = function(fs, dir)
    local watch <close> = fs:watch(dir, { recursive = true })
    local _, event = pcall(watch.next, watch, { timeout = 0 })
    return event
  end,
  mkdir = function(fs, dir)
    fs:mkdir(dir .. "/made/deep", { parents = true })
  end,
  remove = function(fs, dir)
    fs:remove(dir .. "/file")
  end,
  ["remove a tree"] = function(fs, dir)
    fs:remove(dir .. "/tree", { recursive = true })
  end,
  rename = function(fs, dir)
    fs:rename(dir .. "/file", dir .. "/moved", { overwrite = true })
  end,
  ["rename out"] = function(fs, dir)
    fs:rename(dir .. "/file", "moved", { overwrite = true })
    return fs:read("moved")
  end,
  chmod = function(fs, dir, leaf)
    fs:chmod(dir .. "/file", 511)
    fs:chmod(leaf, 511)
  end,
  chown = function(fs, dir, leaf)
    local own = fs:stat("own")
    fs:chown(dir .. "/file", own.uid, own.gid)
    fs:chown(leaf, own.uid, own.gid)
  end,
  symlink = function(fs, dir)
    fs:symlink("x", dir .. "/new link")
  end,
  mktemp = function(fs, dir)
    return fs:mktemp({ parent = dir })
  end,
  ["copy in"] = function(fs, dir, leaf)
    fs:copy("own", leaf, { overwrite = true })
    fs:copy("own", dir .. "/file", { overwrite = true })
  end,
  ["copy a tree in"] = function(fs, dir)
    fs:copy("own tree", dir .. "/tree", { recursive = true, overwrite = true })
  end,
  ["copy out"] = function(fs, dir, leaf)
    fs:copy(leaf, "copy", { overwrite = true })
    check(fs:read("copy"), "copy")
    fs:copy(dir .. "/file", "copy", { overwrite = true })
    return fs:read("copy")
  end,
  ["copy a tree out"] = function(fs, dir)
    fs:remove("copies", { recursive = true, missing_ok = true })
    fs:copy(dir, "copies", { recursive = true })
    return walked(fs, "copies")
  end,
}

local NAMES = {}
for name in pairs(OPERATIONS) do
  NAMES[#NAMES + 1] = name
end
table.sort(NAMES)

-- What is swapped: a directory with the link, a file with the link.
local PREPARE = [[
  rm -rf dir other leaf leaflink; mkdir -p dir/tree/deep; echo good > dir/file
  echo good > dir/tree/deep/f; ln -s good dir/link; echo good > leaf
  ln -s "$1/outside" other; ln -s "$1/outside/file" leaflink
  echo good > own; mkdir -p "own tree/deep"; echo good > "own tree/deep/f"
]]

-- Does an operation in rounds; returns how often it went well, and was refused.
local function rounds(sb, name, operation, place)
  local fs, good, refused = sb.fs, 0, 0
  for i = 1, ROUNDS do
    local results = table.pack(pcall(operation, fs, "dir", "leaf"))
    if results[1] then
      good = good + 1
      check({ table.unpack(results, 2, results.n) }, name)
    elseif errors.is(results[2], "Error") then
      refused = refused + 1
    else
      error(results[2], 0)
    end
    if i % 20 == 0 then
      -- What was removed or renamed is to be there again.
      fs:mkdir("again/tree/deep", { parents = true })
      fs:write("again/file", "good")
      pcall(fs.copy, fs, "again", "dir", { recursive = true, overwrite = true })
    end
  end
  assert.equal("", place.changed(), name)
  return good, refused
end

-- A directory of the host with what must not be reached.
local function new_place()
  local path = env.tmpdir()
  sh(OUTSIDE, path, EVIL)
  local before = sh(SNAPSHOT, path)
  return {
    path = path,
    changed = function()
      local now = sh(SNAPSHOT, path)
      return now == before and "" or now
    end,
  }
end

for _, backend in ipairs(backends.real) do
  local program = backend.isolated and "/attacks/swap"
    or attacks.directory .. "/swap"

  describe("attack 22 on " .. backend.name .. ":", function()
    local place, sb, swapper

    lazy_setup(function()
      if backends.absence(backend) then
        return
      end
      place = new_place()
      sb = sync.sandbox({
        backend = backend.name,
        mounts = backend.isolated and attacks.mounts or nil,
      })
      sb:exec({ "sh", "-c", PREPARE, "sh", place.path }):check()
      swapper = sb:spawn({ program, "dir", "other", "leaf", "leaflink" },
        { stderr = "merge" })
      local chunk = swapper:read({ timeout = 30 })
      assert.equal("swapping\n", chunk.data)
    end)

    lazy_teardown(function()
      if sb then
        sb:close()
        env.rmdir(place.path)
      end
    end)

    for _, name in ipairs(NAMES) do
      local operation = OPERATIONS[name]
      backends.it(it, backend, name .. " reaches nothing outside", function()
        local good, refused = rounds(sb, name, operation, place)
        assert.equal(ROUNDS, good + refused)
      end)
    end

    backends.it(it, backend, "the race is real", function()
      assert.is_nil(swapper:poll())
      local seen = { directory = 0, symlink = 0 }
      assert.is_true(env.eventually(60, function()
        local kind = sb.fs:stat("dir", { follow = false }).type
        seen[kind] = seen[kind] + 1
        return seen.directory > 20 and seen.symlink > 20
      end), ("%d directories, %d links"):format(seen.directory, seen.symlink))
      if not backend.isolated then
        -- Who follows links by name is led out.
        local path = sb:output({ "pwd" }) .. "/dir/evil"
        assert.is_true(env.eventually(60, function()
          return env.read(path) == EVIL
        end))
      end
      assert.equal("", place.changed())
    end)
  end)
end

describe("the attacks on files", function()
  it("leave nothing behind", nothing_left)
end)
