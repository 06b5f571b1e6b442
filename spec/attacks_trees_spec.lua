-- Attack 22 for trees: names are swapped for links to the outside while trees
-- go in and out, on both sides; and what else a sandbox can do to a transfer.
-- Forged tars are in c/agent_trees_test.c.

local attacks = require("spec.support.attacks")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local heavy = require("spec.support.heavy")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local nothing_left = leaks.frame()

-- Transfers of each kind, of which each looks up or puts in place 48 names that
-- are swapped all the time: six hundred looks, and a hundred thousand with
-- PORTICO_HEAVY=100.
local ROUNDS = heavy.share(2000, 0.6)
local PAIRS = 12

local EVIL = ("evil"):rep(1111)
local OUTSIDE = [[
  set -e; mkdir -p "$1/outside/tree"; cd "$1/outside"
  printf %s "$2" > file; printf %s "$2" > evil; printf %s "$2" > tree/evil
  chmod 644 file; touch -d 2001-01-01 file evil tree .
]]
local SNAPSHOT = [[
  cd "$1/outside" && find . -printf '%p %m %U %G %T@ %C@ %s %l\n' | sort
  cat file evil tree/evil | cksum
]]

local sh = env.sh_with

-- A directory of the host: outside/ must not be touched, the rest is ours.
local function new_place()
  local path = env.tmpdir()
  sh([[chmod 755 "$1"]], path)
  sh(OUTSIDE, path, EVIL)
  local before = sh(SNAPSHOT, path)
  return {
    path = path,
    check = function(what)
      assert.equal(before, sh(SNAPSHOT, path), what)
    end,
  }
end

-- Directories and files, each with a link to the outside beside it.
local PREPARE = [[
  mkdir -p tree && cd tree && i=0; while [ $i -lt $2 ]; do
    mkdir -p d$i/deep; echo good > d$i/file; echo good > d$i/deep/f
    echo good > f$i; ln -sfn "$1/outside" D$i; ln -sfn "$1/outside/file" F$i
    i=$((i+1)); done
]]

local function pairs_of(prefix)
  local words = {}
  for i = 0, PAIRS - 1 do
    for _, name in ipairs({ "d", "D", "f", "F" }) do
      words[#words + 1] = prefix .. name .. i
    end
  end
  return words
end

local function start_swapping(sb, backend, prefix)
  local program = backend.isolated and "/attacks/swap"
    or attacks.directory .. "/swap"
  local swapper = sb:spawn({ program, table.unpack(pairs_of(prefix)) },
    { stderr = "merge" })
  assert.equal("swapping\n", swapper:read({ timeout = 30 }).data)
  return swapper
end

-- What came out holds nothing of the outside.
local function nothing_evil(path)
  assert.equal("", sh([[grep -rl evil "$1" 2>/dev/null || true]], path))
  assert.equal("", sh([[find "$1" -name 'evil*']], path))
end

for _, backend in ipairs(backends.real) do
  describe("swapped names inside, on " .. backend.name .. ":", function()
    local place, sb, swapper, mine

    lazy_setup(function()
      if backends.absence(backend) then
        return
      end
      place = new_place()
      mine = place.path .. "/mine"
      sb = sync.sandbox({
        backend = backend.name,
        mounts = backend.isolated and attacks.mounts or nil,
      })
      sb:exec({ "sh", "-c", PREPARE, "sh", place.path, PAIRS }):check()
      swapper = start_swapping(sb, backend, "tree/")
    end)

    lazy_teardown(function()
      if sb then
        sb:close()
        env.rmdir(place.path)
      end
    end)

    -- Does a transfer in rounds, with a name of its own for what it may make;
    -- how often it went well, and was refused.
    local function rounds(what, move)
      local good, refused = 0, 0
      sh([[rm -rf "$1"; mkdir "$1"]], mine)
      for i = 1, ROUNDS do
        local ok, err = pcall(move, mine .. "/" .. i)
        if ok then
          good = good + 1
        elseif errors.is(err, "Error") then
          refused = refused + 1
        else
          error(err, 0)
        end
      end
      place.check(what)
      return good, refused
    end

    for _, symlinks in ipairs({ "keep", "inside", "follow", "refuse" }) do
      backends.it(it, backend, "a download reads nothing outside, links: "
        .. symlinks, function()
          local options = { symlinks = symlinks, on_error = "skip" }
          local good, refused = rounds("download", function(target)
            sb:download("tree", target, options)
          end)
          assert.equal(ROUNDS, good, refused)
          -- A link that was kept leads where it says.
          sh([[find "$1" -type l -delete]], mine)
          nothing_evil(mine)
        end)
    end

    backends.it(it, backend, "a download of what is swapped itself", function()
      local good, refused = rounds("download", function(target)
        sb:download("tree/d0", target, { on_error = "skip" })
      end)
      nothing_evil(mine)
      assert.equal(ROUNDS, good + refused)
      good, refused = rounds("download", function(target)
        sb:download("tree/f0", target)
      end)
      nothing_evil(mine)
      assert.equal(ROUNDS, good + refused)
    end)

    backends.it(it, backend, "an upload writes nothing outside", function()
      local from = place.path .. "/from"
      sh([[mkdir "$1"; cd "$1"; i=0; while [ $i -lt $2 ]; do
        mkdir d$i D$i; echo new > d$i/file; echo new > d$i/evil
        echo new > D$i/file; echo new > D$i/evil
        echo new > f$i; i=$((i+1)); done]], from, PAIRS)
      local good, refused = rounds("upload", function()
        sb:upload(from, "tree", { on_error = "skip" })
      end)
      assert.equal(ROUNDS, good, refused)
      good, refused = rounds("upload", function()
        sb:upload(from, "tree/d0")
      end)
      assert.equal(ROUNDS, good + refused)
      good, refused = rounds("upload", function()
        sb:upload(from .. "/f0", "tree/f0")
      end)
      assert.equal(ROUNDS, good + refused)
    end)

    backends.it(it, backend, "the race is real", function()
      assert.is_nil(swapper:poll())
      local seen = { directory = 0, symlink = 0 }
      assert.is_true(env.eventually(60, function()
        local kind = sb.fs:stat("tree/d1", { follow = false }).type
        seen[kind] = (seen[kind] or 0) + 1
        return seen.directory > 10 and seen.symlink > 10
      end))
      place.check("the race")
    end)
  end)
end

-- The target is a directory of the host that the sandbox may write, too.
describe("swapped names in the target:", function()
  local backend = backends.bwrap
  local place, sb

  lazy_setup(function()
    if backends.absence(backend) then
      return
    end
    place = new_place()
    sh([[mkdir "$1/shared" && chmod 777 "$1/shared"]], place.path)
    sb = sync.sandbox({
      backend = "bwrap",
      mounts = {
        { source = attacks.directory, target = "/attacks" },
        { source = place.path .. "/shared", target = "/shared",
          read_only = false },
      },
    })
    -- Who can be led out by absolute links is the host alone.
    sb:exec({ "sh", "-c", "umask 0; cd /shared && " .. PREPARE
      .. "\nln -sfn ../../outside D0; ln -sfn ../../outside/file F0",
      "sh", place.path, PAIRS }):check()
    sb:exec({ "sh", "-c", [[mkdir -p out && cd out && i=0
      while [ $i -lt $1 ]; do mkdir -p d$i D$i; echo new > d$i/evil
      echo new > d$i/file; echo new > D$i/evil; echo new > f$i; echo new > F$i
      i=$((i+1)); done]], "sh", PAIRS }):check()
  end)

  lazy_teardown(function()
    if sb then
      -- What the sandbox's user made may be removed by it alone.
      sb:exec({ "sh", "-c", "rm -rf /shared/tree /shared/.p*" })
      sb:close()
      env.rmdir(place.path)
    end
  end)

  -- Puts links in the place of what is being unpacked, where it can.
  local MEDDLE = [[
    echo meddling; while :; do for s in /shared/tree/.portico-*; do
      mv "$s/root/d0" "$s/root/gone"; ln -s "$1/outside" "$s/root/d0"
      ln -s "$1/outside" "$s/root/D1"; mv "$s" /shared/away
      ln -s "$1/outside" "$s"; rm -rf /shared/away; done 2>/dev/null; done
  ]]

  local function race(what, argv, said, count)
    local attacker = sb:spawn(argv, { stderr = "null" })
    assert.equal(said, attacker:read({ timeout = 30 }).data)
    local done = 0
    for _ = 1, count do
      local ok, err = pcall(sb.download, sb, "out",
        place.path .. "/shared/tree", { on_error = "skip" })
      if ok then
        done = done + 1
      elseif not errors.is(err, "Error") then
        error(err, 0)
      end
    end
    assert.is_nil(attacker:poll())
    attacker:kill()
    place.check(what)
    return done
  end

  backends.it(it, backend, "a download writes nothing outside", function()
    local done = race("swapping",
      { "/attacks/swap", table.unpack(pairs_of("/shared/tree/")) },
      "swapping\n", ROUNDS)
    assert.is_true(done > 0)
  end)

  backends.it(it, backend, "also if what is unpacked is moved", function()
    race("meddling", { "sh", "-c", MEDDLE, "sh", place.path }, "meddling\n",
      ROUNDS)
  end)

  backends.it(it, backend, "who trusts names is led out", function()
    sb:exec({ "sh", "-c", [[rm -rf /shared/tree; mkdir -m 777 /shared/tree
      ln -s "$1/outside" /shared/tree/d0]], "sh", place.path }):check()
    assert.equal("", sh([[cp "$1/outside/evil" "$1/shared/tree/d0/led"
      ls "$1/outside" | grep -c led >/dev/null && rm "$1/outside/led"
      touch -d 2001-01-01 "$1/outside"]], place.path))
  end)
end)

describe("a sandbox", function()
  -- Signals the file workers of this sandbox's own agent.
  local SIGNAL = [[n=0; for p in /proc/[0-9]*; do
    read -r name < $p/comm && [ "$name" = portico-files ] || continue
    [ "$(sed 's/.*) . \([0-9]*\) .*/\1/' $p/stat)" = "$2" ] || continue
    kill -"$1" ${p#/proc/} && n=$((n+1)); done 2>/dev/null; echo $n]]

  local function signal_worker(sb, signal)
    return sb:exec({ "sh", "-c", SIGNAL, "sh", signal, sb:info().pid },
      { check = true }).stdout
  end

  facades.on(it, "local", "that stops or kills its worker holds nobody up",
    function(_, sb)
      local path = env.tmpdir()
      env.sh("head -c 6000000 /dev/zero > " .. path .. "/f")
      sb:upload(path .. "/f", "f")
      -- The one that did this waits for more, and gets the next request.
      assert.not_equal("0\n", signal_worker(sb, "STOP"))
      local err = facades.raises("TimeoutError", sb.download, sb, "f",
        path .. "/g", { timeout = 1 })
      assert.equal("PCO_ECALLTIMEOUT", err.code)
      assert.is_false(env.exists(path .. "/g"))
      assert.is_true(sb:exec({ "true" }).ok)
      assert.equal(6000000, sb:download("f", path .. "/g").bytes)
      assert.not_equal("0\n", signal_worker(sb, "STOP"))
      local killer = sb:spawn({ "sh", "-c", "read -r word; " .. SIGNAL, "sh",
        "KILL", sb:info().pid }, { stdin = "pipe" })
      local ok
      ok, err = pcall(sb.upload, sb, path .. "/f", "h", {
        on_progress = function()
          killer:write("go\n")
        end,
      })
      assert.is_false(ok)
      assert.is_true(errors.is(err, "Error"))
      assert.is_false(sb.fs:exists("h"))
      assert.equal("", sh([[find "$1" -name '.portico-*']], path))
      env.rmdir(path)
    end)
end)

describe("the helper", function()
  facades.on_each(it, "may be killed", function(_, sb)
    local path = env.tmpdir()
    -- So many files that it is not over when the first progress is told.
    sb:exec({ "sh", "-c", "mkdir t && cd t && seq 10000 | xargs touch" })
      :check()
    local helper = { "portico-agent", "--confine", "--fd", "3" }
    local self = env.read("/proc/self/stat"):match("^%d+")
    local killed
    local ok, err = pcall(sb.download, sb, "t", path .. "/g", {
      on_progress = function()
        for _, pid in ipairs(killed and {} or env.pgrep(helper)) do
          local stat = env.read("/proc/" .. pid .. "/stat") or ""
          if stat:match("%) %S (%d+)") == self then
            killed = pid
            env.sh("kill -KILL " .. pid)
          end
        end
      end,
    })
    assert.is_truthy(killed)
    if not ok then -- else it was over with the first call
      assert.is_true(errors.is(err, "BackendError"), tostring(err))
      assert.truthy(err.message:find("was killed", 1, true))
      assert.is_false(env.exists(path .. "/g"))
    end
    assert.is_true(sb:exec({ "true" }).ok)
    env.rmdir(path)
  end)

  it("leaves nothing behind", nothing_left)
end)
