-- Situations 72 to 74 of the collection of cases: loading plugins. (73, a host
-- that loads us with local symbols, is a program: spec/c.)
--
-- The plugins are built from spec/support/plugins into the directory that
-- PORTICO_TEST_PLUGINS names; what needs no compiler is made here.

local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local env = require("spec.support.env")

local nothing_left = leaks.frame()
local raises = facades.raises

-- A plugin of the test plugins; a missing build is a failure, not a skip.
local function plugin(name)
  local directory = assert(os.getenv("PORTICO_TEST_PLUGINS"),
    "PORTICO_TEST_PLUGINS is not set: run the tests by ./dev test")
  local path = directory .. "/" .. name .. ".so"
  assert(env.exists(path), path .. " was not built")
  return path
end

-- Makes a directory, calls fn(directory), and removes it.
local function in_tmpdir(fn)
  local directory = env.tmpdir()
  local ok, err = pcall(fn, directory)
  env.rmdir(directory)
  if not ok then
    error(err, 0)
  end
end

-- Opening must be refused, with the path and this text in the message.
local function refused(P, path, text)
  local err = raises("Error", P.open, path)
  assert.truthy(err.message:find(path, 1, true)
    or err.path == path, "no path in " .. tostring(err))
  local all = tostring(err)
  assert.truthy(all:find(text), ("no %q in %s"):format(text, all))
  return err
end

describe("loading plugins:", function()
  facades.both(it, "case 72: each failure says which file and why",
    function(P)
      local good = plugin("good")
      in_tmpdir(function(directory)
        local messages = {}
        local function check(path, text)
          local err = refused(P, path, text)
          assert.is_nil(messages[err.message], err.message)
          messages[err.message] = true
        end
        env.write(directory .. "/bad.so", "")
        check(directory .. "/bad.so", "ELF")
        env.write(directory .. "/text.so", ("no ELF "):rep(1000))
        check(directory .. "/text.so", "ELF")
        -- The 19th byte of an ELF file is its machine.
        local image = env.read(good)
        env.write(directory .. "/machine.so",
          image:sub(1, 18) .. "\xf3\0" .. image:sub(21))
        check(directory .. "/machine.so", "%l")
        check(plugin("undefined_symbol"), "undefined symbol: .*missing_fn")
        check(plugin("needs_library"), "libportico%-nope%.so")
        env.sh("mkdir " .. directory .. "/d.so")
        check(directory .. "/d.so", "directory")
        check(directory .. "/missing.so", "[Nn]o such file")
        check(plugin("no_symbol"), "pco_plugin_entry_v0")
        check(plugin("other_abi"), "ABI")
        check(plugin("wrong_minor"), "%d")
        check(plugin("wrong_size"), "%l")
        check(plugin("second_libuv"), "libuv")
        check(plugin("no_create"), "create")
        check(plugin("empty"), "%l")
        check(plugin("bad_id"), "%.%./x")
        check(plugin("twice"), "twice")
        env.write(directory .. "/open.so", image)
        env.sh("chmod 666 " .. directory .. "/open.so")
        check(directory .. "/open.so", "written by anyone")
      end)
      -- A good one can be loaded afterwards.
      local backend = P.open(good)
      assert.is_true(backend:close())
    end)

  facades.both(it, "case 72: no right to read it", function(P)
    if env.is_root() then
      return -- root may read everything; the ordinary account's run sees it
    end
    in_tmpdir(function(directory)
      env.write(directory .. "/closed.so", env.read(plugin("good")))
      env.sh("chmod 000 " .. directory .. "/closed.so")
      refused(P, directory .. "/closed.so", "[Pp]ermission denied")
    end)
  end)

  facades.both(it, "case 74: the text of a failing init comes through",
    function(P)
      local path = plugin("init_fails")
      local err = refused(P, path, "needs /dev/kvm")
      -- And again: nothing is left half registered.
      local again = refused(P, path, "needs /dev/kvm")
      assert.equal(err.message, again.message)
      for _, entry in ipairs(P.backends()) do
        assert.are_not.equal("init-fails", entry.name)
      end
    end)

  facades.both(it, "case 74: a name that is taken is refused", function(P)
    local good = P.open(plugin("good"))
    -- It offers "fresh" and then "good", which has an owner: neither counts.
    local err = refused(P, plugin("duplicate"), '"?good"?')
    assert.truthy(tostring(err):find(plugin("good"), 1, true), tostring(err))
    raises("NotFoundError", P.open, "fresh")
    assert.is_true(good:close())
    local again = P.open(plugin("good"))
    assert.is_true(again:close())
  end)

  facades.both(it, "case 74: names are checked before any file is searched",
    function(P)
      for _, name in ipairs({
        "../x", "", "a\0b", "a/b", "..", ".", "NULL", "null ", "local.so",
        "x y", ("a"):rep(33), "-", "ü",
      }) do
        local ok, err = pcall(P.open, name)
        assert.is_false(ok, name)
        assert.is_true(require("portico.errors").is(err, "Error"),
          tostring(err))
      end
    end)

  facades.both(it, "case 74: not from the current directory", function(P)
    local err = raises("NotFoundError", P.open, "no-such-backend")
    assert.truthy(err.message:find("no-such-backend", 1, true))
    assert.is_nil(err.message:find("%./portico%-no%-such"))
  end)

  it("leave nothing behind", nothing_left)
end)
