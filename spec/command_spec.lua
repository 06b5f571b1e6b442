-- The portico command: arguments, exit codes, and what it prints of errors.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

-- Runs the command with shell text behind it, and maybe before it; both
-- outputs together. Ctrl-C works also where the tests run in the background.
local function portico(rest, before)
  local program = assert(os.getenv("PORTICO_BIN"),
    "PORTICO_BIN is not set: run the tests by ./dev test")
  return env.sh(("{ %s env --default-signal=INT timeout -k 5 %d %s %s; } 2>&1")
    :format(before or "", env.patience(60), env.quoted(program), rest))
end

-- Runs it with a script in a file.
local function script(code, rest)
  local path = os.tmpname()
  env.write(path, code)
  local output, status = portico(env.quoted(path) .. " " .. (rest or ""))
  os.remove(path)
  return output, status
end

describe("the portico command", function()
  it("tells its version", function()
    local output, code = portico("--version")
    assert.equal(0, code)
    assert.truthy(output:find("^portico %d+%.%d+%.%d+ %(Lua 5%.4%.%d+%)\n$"),
      output)
  end)

  it("explains itself", function()
    local output, code = portico("--help")
    assert.equal(0, code)
    assert.truthy(output:find("usage:", 1, true))
    assert.truthy(output:find("Exit codes", 1, true))
    for line in output:gmatch("[^\n]+") do
      assert.is_true(#line <= 80, line)
    end
  end)

  it("lists the backends", function()
    local output, code = portico("backends")
    assert.equal(0, code)
    for _, backend in ipairs(backends.list) do
      assert.truthy(("\n" .. output):find("\n" .. backend.name .. "%s"),
        output)
    end
  end)

  it("refuses what it does not know, with exit code 2", function()
    for _, rest in ipairs({ "--nope", "-e", "backends x", "--" }) do
      local output, code = portico(rest)
      assert.equal(2, code, rest)
      assert.truthy(output:find("usage:", 1, true))
    end
  end)

  it("runs code with arguments", function()
    local output, code = portico(
      [[-e 'print(select("#", ...), ..., arg[0], arg[2])' a 'b c']])
    assert.same({ "2\ta\t-e\tb c\n", 0 }, { output, code })
  end)

  it("runs a script from a file and from stdin", function()
    assert.same({ "1\tx\n", 0 }, { script("print(#arg, arg[1])", "x") })
    assert.same({ "hi\n", 0 }, { portico("-", [[echo 'print("hi")' |]]) })
    assert.same({ "hi\n", 0 }, { portico("", [[echo 'print("hi")' |]]) })
  end)

  it("says when its output cannot be written", function()
    for words, failed in pairs({
      ["--version"] = 1, ["--help"] = 1, ["help exec"] = 125, backends = 1,
      ["exec --help"] = 125, ["-e 'print(1)'"] = 1,
    }) do
      for _, stdout in ipairs({ ">/dev/full", ">&-", "1</dev/null" }) do
        local output, code = portico(words .. " " .. stdout)
        assert.same({ "portico: cannot write to stdout\n", failed },
          { output, code }, words .. stdout)
      end
    end
    assert.same({ "", 0 }, { portico("-e 'local x = 1' >&-") })
  end)

  it("finds its modules without LUA_PATH", function()
    local program = env.quoted(assert(os.getenv("PORTICO_BIN")))
    local output, code = env.sh("cd / && env -u LUA_PATH -u LUA_CPATH "
      .. program .. [[ -e 'print(require("portico")._VERSION)
      print(require("portico.sync").version)' 2>&1]])
    assert.truthy(output:find("^portico %d+%.%d+%.%d+\n%d+%.%d+%.%d+\n$"),
      output)
    assert.equal(0, code)
  end)

  it("passes the exit code of os.exit on", function()
    assert.same({ "", 7 }, { portico("-e 'os.exit(7)'") })
    assert.same({ "", 0 }, { portico("-e 'os.exit(true, true)'") })
  end)

  it("runs the main chunk as lua5.4 does, not as a task", function()
    local output, code = portico(
      [[-e 'local p = require "portico"; p.sleep(0)']])
    assert.equal(1, code)
    assert.truthy(output:find("UsageError PCO_ENOTASK", 1, true), output)
    assert.truthy(output:find("hint: .*portico%.run"), output)
  end)

  it("prints the chain of an error, and what to do", function()
    local output, code = script([[
      local errors = require("portico.errors")
      error(errors.new(errors.ConnectionError, {
        code = "PCO_EGONE", message = "gone", operation = "exec",
        cause = errors.new(errors.SystemError, {
          code = "EIO", message = "i/o error\27[31m",
        }),
      }))
    ]])
    assert.equal(1, code)
    assert.truthy(output:find("exec: ConnectionError PCO_EGONE: gone\n"
      .. "  caused by SystemError EIO: i/o error\\x1B[31m", 1, true), output)
    assert.truthy(output:find("stack traceback:", 1, true))
    assert.truthy(output:find("hint: ", 1, true))
    assert.is_nil(output:find("\27"))
  end)

  it("prints any error, and ends with 1", function()
    for code, text in pairs({
      ["error('mine', 0)"] = "portico: mine\n",
      ["error({})"] = "(error object is a table value)",
      ["error()"] = "nil",
      ["x("] = "syntax error",
    }) do
      local output, status = portico("-e " .. env.quoted(code))
      assert.equal(1, status, output)
      assert.truthy(output:find(text, 1, true)
        or text == "syntax error" and output:find("near <eof>"), output)
    end
    local output, status = portico("/no/such/script.lua")
    assert.equal(1, status)
    assert.truthy(output:find("/no/such/script.lua", 1, true))
  end)

  for _, backend in ipairs(backends.real) do
    backends.it(it, backend, "ends with 130 on Ctrl-C, and ends the command in "
      .. "the sandbox [" .. backend.name .. "]", function()
      local output, code = script(([[
        local portico = require("portico.sync")
        local pid = io.open("/proc/self/stat"):read("n")
        os.execute("(sleep 1; kill -INT " .. pid .. ") &")
        local sandbox <close> = portico.sandbox({ backend = %q })
        sandbox:exec({ "sleep", "271830.5" })
      ]]):format(backend.name))
      assert.equal(130, code, output)
      assert.same({}, env.pgrep({ "sleep", "271830.5" }))
    end)
  end

  it("ends by SIGINT itself then, at which shells leave their loops", function()
    -- $$ is the pid of the shell, which the command takes the place of.
    for words, expected in pairs({
      ['-e "io.popen([[kill -INT $$]]):close() while true do end"']
        = "signal 2",
      ['-e "os.exit(130)"'] = "exit 130",
      ['exec --backend local -- sh -c "kill -INT $$; sleep 271830.6"']
        = "signal 2",
      ['exec --backend local -- sh -c "exit 130"'] = "exit 130",
      ['exec --backend local -- sh -c "kill -INT \\$\\$"'] = "exit 130",
    }) do
      local _, how, number = os.execute("exec env --default-signal=INT sh -c "
        .. env.quoted('exec "$0" ' .. words .. " 2>/dev/null") .. " "
        .. env.quoted(os.getenv("PORTICO_BIN")))
      assert.equal(expected, how .. " " .. number, words)
    end
    assert.same({}, env.pgrep({ "sleep", "271830.6" }))
  end)

  it("ends a loop without waits on Ctrl-C, too", function()
    local output, code = script([[
      local pid = io.open("/proc/self/stat"):read("n")
      os.execute("(sleep 0.3; kill -INT " .. pid .. ") &")
      while true do
      end
    ]])
    assert.equal(130, code, output)
    assert.truthy(output:find("interrupted!", 1, true), output)
  end)

  it("leaves nothing behind", nothing_left)
end)
