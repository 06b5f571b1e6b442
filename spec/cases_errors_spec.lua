-- Situations 65 to 67 of the collection of cases: errors that lose their
-- cause.

local backends = require("spec.support.backends")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local env = require("spec.support.env")
local errors = require("portico.errors")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

-- Kills the sandbox that was not there before; from outside, as a crash.
local function kill_new_one(before)
  for pid in pairs(backends.first_processes()) do
    if not before[pid] then
      env.sh("kill -KILL " .. pid)
    end
  end
end

describe("errors that lose their cause:", function()
  facades.everywhere(it, "case 65: the sandbox dies while output streams",
    function(P, backend)
      local before = backends.first_processes()
      facades.with_sandbox(P, { backend = backend.name }, function(sb)
        local killed = false
        local err = raises("ConnectionError", sb.exec, sb,
          { "sh", "-c", "while :; do echo x; sleep 0.05; done" }, {
            timeout = 20,
            on_output = function()
              if not killed then
                killed = true
                kill_new_one(before)
              end
            end,
          })
        assert.equal("PCO_EGONE", err.code)
        assert.equal("exec", err.operation)
        assert.equal(sb.id, err.sandbox)
        assert.truthy(err.result.stdout:find("^x\n"))
        assert.equal("gone", err.result.reason)
        assert.truthy(tostring(err):find("ConnectionError PCO_EGONE", 1, true))
        raises("ConnectionError", sb.exec, sb, { "true" })
        raises("ConnectionError", sb.fs.read, sb.fs, "x")
        assert.equal("dead", sb:info().state)
        assert.is_true(sb:close())
        assert.is_false(sb:close())
      end)
    end)

  facades.both(it, "case 66: the creation error comes first", function(P)
    local err = raises("Error", P.sandbox, {
      backend = "local", settings = { workspace = "/proc/no/such/place" },
    })
    assert.truthy(tostring(err):find("/proc/no/such/place", 1, true))
    assert.are_not.equal("PCO_EGONE", err.code)
  end)

  facades.both(it, "case 66: a failed clean-up is a note on it", function(P)
    local plugins = os.getenv("PORTICO_TEST_PLUGINS")
    local err = raises("ConnectionError", P.sandbox, {
      backend = plugins .. "/half_made.so",
    })
    assert.truthy(err.message:find("agent", 1, true), err.message)
    local last = err
    while last.cause do
      last = last.cause
    end
    assert.equal("half-1 could not be removed", last.message)
    assert.equal("plugin", last.source)
  end)

  on_each(it, "case 67: one shape through all layers", function(P, sb)
    local function check(err)
      assert.equal("table", type(err))
      assert.is_true(errors.is(err, errors.NotFoundError))
      assert.equal("ENOENT", err.code)
      assert.equal("no/file", err.path)
      assert.equal("fs.read", err.operation)
      assert.truthy(tostring(err):find("no/file", 1, true))
      assert.truthy(err.where:find("cases_errors_spec.lua:%d+"), err.where)
      assert.truthy(err.traceback:find("cases_errors_spec", 1, true))
    end
    local function read()
      local data = sb.fs:read("no/file")
      return data
    end
    local ok, err = pcall(read)
    assert.is_false(ok)
    check(err)
    local _, again = pcall(error, err)
    assert.is_true(rawequal(err, again))
    _, again = pcall(P.run, function()
      error(err, 0)
    end)
    assert.is_true(rawequal(err, again))
    _, again = errors.try(read)
    check(again)
    _, again = xpcall(read, function(e)
      return e
    end)
    check(again)
    -- The same object crosses a coroutine of the sync facade, and a callback.
    _, again = pcall(sb.exec, sb, { "echo", "x" }, {
      on_output = function()
        error(err, 0)
      end,
    })
    assert.is_true(rawequal(err, again))
    assert.equal("x: " .. tostring(err), "x: " .. err)
  end)

  facades.in_task(it, "case 67: from a task that another one waits for",
    function(P, sb)
      local own
      local ok, err = pcall(require("portico.task").all, {
        function()
          local _, problem = pcall(sb.fs.read, sb.fs, "no/file")
          own = problem
          error(problem, 0)
        end,
        function()
          P.sleep(10)
        end,
      })
      assert.is_false(ok)
      assert.is_true(rawequal(own, err))
      assert.equal("ENOENT", err.code)
    end)

  -- What an ExitError says of how a command ended, both when it is asked to be
  -- raised and when its Result is checked.
  on_each(it, "an ExitError has the last line of stderr", function(_, sb)
    local function says(expected, command)
      local function strip(err)
        return err.message:match("^.-the command (.*)$")
      end
      assert.equal(expected, strip(raises("ExitError", sb.exec, sb, command,
        { check = true })))
      local result = sb:exec(command)
      assert.equal(expected, strip(raises("ExitError", result.check, result)))
    end
    says("exited with code 3: last", "echo first >&2; echo last >&2; exit 3")
    says("exited with code 3", "echo out; exit 3")
    says("exited with code 1: no end",
      "printf 'a\\n\\nno end\\n \\n' >&2; exit 1")
    says("exited with code 1: 100%: full",
      "printf '5%%\\r100%%: full' >&2; exit 1")
    says("was ended by SIGTERM: bye", "echo bye >&2; kill -TERM $$")
    says("exited with code 1: \\x1B[2J\\xFFä\\xE2\\x80\\xAE\\x00.",
      "printf '\\033[2J\\377\\303\\244\\342\\200\\256\\0.' >&2; "
      .. "exit 1")
    says("exited with code 1: " .. ("x"):rep(200),
      "printf '%0200d' 0 | tr 0 x >&2; exit 1")
    says("exited with code 1: " .. ("x"):rep(197) .. "...",
      "printf '%0201d' 0 | tr 0 x >&2; exit 1")
    says("exited with code 1: " .. ("ä"):rep(98) .. "...",
      "printf '%0201d' 0 | sed 's/0/ä/g' >&2; exit 1")
    says("exited with code 1: end",
      "head -c 20000000 /dev/zero >&2; echo >&2; echo end >&2; exit 1")
  end)

  it("leave nothing behind", nothing_left)
end)
