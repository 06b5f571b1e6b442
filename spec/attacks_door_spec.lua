-- Attacks on sandboxes that outlive their programs: on the directory where they
-- are written down and on their doors, by other users of the machine, and by
-- other sandboxes of the same user.

local attacks = require("spec.support.attacks")
local detached = require("spec.support.detached")
local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local WEAK = os.getenv("PORTICO_TEST_PLUGINS") .. "/portico-weak.so"
local IS_ROOT = env.is_root()
local NOBODY = "65534"

local nothing_left = leaks.frame()

-- A test that takes another user, whom only root can become.
local function as_another(name, fn)
  if IS_ROOT then
    detached.everywhere(it, name, fn)
  else
    pending(name .. ": only root can become another user")
  end
end

-- Runs an attack on the host.
local function attack(...)
  local words = { attacks.directory .. "/visit", ... }
  for i, word in ipairs(words) do
    words[i] = env.quoted(word)
  end
  local output, code = env.sh(table.concat(words, " ") .. " 2>&1")
  return code, output
end

-- A sandbox that nobody is attached to: its id, and the path of its door.
local function left_running(b, options)
  local all = { detachable = true }
  for key, value in pairs(options or {}) do
    all[key] = value
  end
  local id = b:create(all):detach()
  return id, ("%s/%s-%s.sock"):format(detached.state(), b.name, id)
end

local function lives(b, id)
  local sb <close> = b:attach(id)
  return sb:output({ "echo", "here" }) == "here"
end

local function names_in(dir)
  local names = {}
  for name in require("lfs").dir(dir) do
    if name ~= "." and name ~= ".." then
      names[#names + 1] = name
    end
  end
  return names
end

describe("attack 25: another user", function()
  as_another("cannot reach the door", function(_, _, b)
    local id, door = left_running(b)
    local code, text = attack(NOBODY, door)
    assert.equal(attacks.REFUSED, code, text)
    assert.falsy(text:find("turned away", 1, true)) -- not even so far
    assert.is_true(lives(b, id))
  end)

  -- The directory's mode is taken away; what is left is that the keeper asks
  -- who comes.
  as_another("is turned away at the door", function(_, _, b)
    local id, door = left_running(b)
    env.sh_with('chmod 711 "$1"; chmod 777 "$2"', detached.state(), door)
    local code, text = attack(NOBODY, door)
    env.sh_with('chmod 700 "$1"', detached.state())
    assert.equal(attacks.REFUSED, code, text)
    assert.truthy(text:find("turned away", 1, true), text)
    assert.is_true(lives(b, id))
  end)

  -- What the others are refused: the same steps as the owner.
  detached.everywhere(it, "is what the owner is not: he goes through",
    function(_, _, b)
      local id, door = left_running(b)
      local code, text = attack("-", door)
      assert.equal(attacks.THROUGH, code, text)
      assert.is_true(env.eventually(10, function()
        return detached.find(b, id).state == "detached"
      end))
      assert.is_true(lives(b, id))
    end)

  -- Everything that takes the directory must refuse it, and say why.
  local function refused(P, backend, state, why)
    local b <close> = P.open(backend.name, { state = state })
    for name, fn in pairs({
      create = function()
        b:create({ detachable = true, name = "x" })
      end,
      attach = function()
        b:attach("x")
      end,
      list = function()
        b:list()
      end,
      destroy = function()
        b:destroy("x")
      end,
      reap = function()
        b:reap()
      end,
    }) do
      local ok, err = pcall(fn)
      assert.is_false(ok, name)
      assert.is_true(errors.is(err, "UnavailableError"), name .. tostring(err))
      assert.truthy(err.message:find(state, 1, true), err.message)
      assert.truthy(err.message:find(why, 1, true), err.message)
      assert.truthy(err.message:find("`state`", 1, true), err.message)
    end
    local sb <close> = b:create() -- what needs none is not harmed
    assert.equal("", sb:output({ "true" }))
  end

  local function in_a_directory(name, fn)
    facades.everywhere(it, name, function(P, backend)
      local dir = env.tmpdir()
      local ok, err = pcall(fn, P, backend, dir)
      env.rmdir(dir)
      assert(ok, err)
    end)
  end

  in_a_directory("has made the directory before", function(P, backend, dir)
    if IS_ROOT then
      env.sh_with('mkdir "$1/s" && chmod 700 "$1/s" && chown 65534 "$1/s"', dir)
      refused(P, backend, dir .. "/s", "belongs to another user")
      assert.same({}, names_in(dir .. "/s"))
    else
      refused(P, backend, "/usr", "belongs to another user")
    end
  end)

  in_a_directory("may enter it", function(P, backend, dir)
    env.sh_with('mkdir "$1/s" && chmod 770 "$1/s"', dir)
    refused(P, backend, dir .. "/s", "other users may enter it")
    assert.same({}, names_in(dir .. "/s"))
  end)

  in_a_directory("has linked it elsewhere", function(P, backend, dir)
    env.sh_with('mkdir "$1/t" && chmod 700 "$1/t" && ln -s t "$1/s"', dir)
    refused(P, backend, dir .. "/s", "a link")
    assert.same({}, names_in(dir .. "/t"))
    env.sh_with('rmdir "$1/t"', dir)
    refused(P, backend, dir .. "/s", "a link")
    assert.same({ "s" }, names_in(dir))
  end)

  -- He cannot: the control shows that it is the check that refuses it.
  in_a_directory("has done none of that: then it is taken",
    function(P, backend, dir)
      local b <close> = P.open(backend.name, { state = dir .. "/s" })
      local id = b:create({ detachable = true }):detach()
      assert.equal(id, b:list()[1].id)
      assert.is_true(b:destroy(id))
      assert.same({}, names_in(dir .. "/s"))
    end)
end)

-- A victim: left running, with a secret and a process.
local function victim(b)
  local sb = b:create({ detachable = true, name = "victim" })
  sb.fs:write("secret", "whatever")
  local process = sb:spawn({ "sleep", "7125" })
  return sb:detach(), process.pid, detached.state() .. "/bwrap-victim.sock"
end

-- A test in both facades with a victim on bwrap.
local function test(name, fn)
  detached.everywhere(function(full, body)
    if full:find("bwrap", 1, true) then
      it(full, body)
    end
  end, name, fn)
end

describe("attack 26: another sandbox of the same user", function()
  test("finds no door, no process and no file of it", function(P, _, b)
    local id, _, door = victim(b)
    local sb <close> = P.sandbox({
      backend = "bwrap", mounts = attacks.mounts,
      backend_settings = { state = detached.state() },
    })
    local r, text = attacks.run(sb, { "visit", "-", door })
    assert.equal(attacks.REFUSED, r.code, text)
    assert.equal("", r.stderr)
    local pids = env.pgrep({ "sleep", "7125" })
    assert.equal(1, #pids)
    for _, pid in ipairs(pids) do
      r = sb:exec(("kill -0 %d; cat /proc/%d/root/workspace/secret"):format(
        pid, pid))
      assert.equal(1, r.code)
      assert.equal("", r.stdout)
    end
    r = sb:exec("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -x 712[5]")
    assert.same({ "", 1 }, { r.stdout, r.code })
    assert.equal("", sb:output("find / -path /proc -prune -o -name secret "
      .. "-print 2>/dev/null; true"))
    assert.is_true(lives(b, id))
  end)

  local function not_shown(P, state, options)
    options.backend = "bwrap"
    options.backend_settings = { state = state }
    local ok, err = pcall(P.sandbox, options)
    assert.is_false(ok)
    assert.is_true(errors.is(err, "PermissionError"), tostring(err))
    assert.truthy(err.message:find("can be reached", 1, true), err.message)
  end

  facades.with(it, "bwrap", "cannot have the directory shown to it",
    function(P)
      local dir = env.tmpdir()
      local state = dir .. "/s"
      for _ = 1, 2 do -- first where it is not there yet
        for _, source in ipairs({ dir, env.exists(state) and state or dir }) do
          for _, read_only in ipairs({ true, false }) do
            not_shown(P, state, {
              mounts = {
                { source = source, target = "/m", read_only = read_only },
              },
            })
          end
        end
        env.sh_with('mkdir -p "$1" && chmod 700 "$1"', state)
      end
      env.sh_with('mkdir "$1/usr"; ln -s s "$1/link"', dir)
      not_shown(P, state, { image = dir })
      not_shown(P, state, { mounts = { { source = dir .. "/link",
        target = "/m" } } })
      env.rmdir(dir)
    end)

  -- With the refusal of that mount taken away (as root also what makes its
  -- commands another user's).
  test("goes through where it has that", function(P, _, b)
    local _, _, door = victim(b)
    local state = detached.state()
    local weak <close> = P.open(WEAK, { state = state })
    local mounts = { attacks.mounts[1], { source = state, target = "/m" } }
    local sb <close> = weak:create({
      mounts = mounts,
      settings = { weaken = IS_ROOT and "doors,uids" or "doors" },
    })
    local r, text = attacks.run(sb, { "visit", "-", "/m/bwrap-victim.sock" })
    assert.equal(attacks.THROUGH, r.code, text)
    assert.is_true(env.exists(door))
  end)
end)

describe("attacks on doors", function()
  it("that failed have what they left ended", function()
    detached.remove(sync)
  end)

  it("leave nothing behind", nothing_left)
end)
