-- Hosts whose stdin, stdout and stderr are not what they use to be: closed, as
-- those of a daemon, or non-blocking, as those of an event loop.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local FACADES = { "portico", "portico.sync" }

local CLOSED = {
  "", "0<&-", "1>&-", "2>&-", "0<&- 1>&-", "0<&- 2>&-", "1>&- 2>&-",
  "0<&- 1>&- 2>&-",
}

-- Runs a script once with each combination of closed descriptors. It is told
-- the facade, the backend and a file for what it has to say, which it opens at
-- its end: a file that was open earlier would be one of the three.
local function with_closed(facade, backend, body)
  local dir = env.tmpdir()
  env.write(dir .. "/script", [[
    local facade, backend, path = ...
    local P = require(facade)
    local ok, err = pcall(P.run, function()
      local sb <close> = P.sandbox({ backend = backend })
      ]] .. body .. [[

    end)
    local file = assert(io.open(path, "w"))
    file:write(ok and "fine" or tostring(err))
    file:close()
  ]])
  local wrong = {}
  for i, closed in ipairs(CLOSED) do
    local path = dir .. "/" .. i
    local output, code = env.sh(
      ("timeout -k 5 %d lua5.4 %s/script %s %s %s >/dev/null 2>&1 %s")
        :format(env.patience(30), dir, facade, backend, path, closed))
    local said = env.read(path)
    if output ~= "" or code ~= 0 or said ~= "fine" then
      wrong[#wrong + 1] = ("with %s: %d: %s"):format(closed, code,
        tostring(said))
    end
  end
  env.rmdir(dir)
  assert.same({}, wrong)
end

describe("whatever is closed of stdin, stdout and stderr,", function()
  -- Declares a test of each facade on each backend.
  local function test(name, body)
    for _, backend in ipairs(backends.real) do
      for _, facade in ipairs(FACADES) do
        backends.it(it, backend, ("%s [%s, %s]"):format(name, backend.name,
          facade), function()
          with_closed(facade, backend.name, body)
        end)
      end
    end
  end

  test("commands and files work", [[
    local command = "cat; echo out; echo err >&2; exit 3"
    local r = sb:exec(command, { input = "in " })
    assert(r.stdout == "in out\n" and r.stderr == "err\n" and r.code == 3)
    assert(sb:exec("cat").stdout == "")
    local p <close> = sb:spawn("cat", { stdin = "pipe" })
    p:write("abc")
    p:close_stdin()
    assert(p:wait().stdout == "abc")
    sb.fs:write("a", "b")
    assert(sb.fs:read("a") == "b")
    local other <close> = P.sandbox({ backend = backend })
    assert(other:output("echo x") == "x")
  ]])

  test("output of the host harms nothing", [[
    for _ = 1, 3 do
      print("text")
      io.stdout:flush()
      io.stderr:write("text\n")
      assert(sb:exec({ "echo", "x" }).stdout == "x\n")
    end
  ]])

  test("output that is copied to it harms nothing", [[
    for _ = 1, 3 do
      local r = sb:exec("echo out; echo err >&2", { tee = true })
      assert(r.stdout == "out\n" and r.stderr == "err\n")
    end
  ]])
end)

describe("a non-blocking stdout", function()
  for _, facade in ipairs(FACADES) do
    it("gets all that is copied to it [" .. facade .. "]", function()
      local path = os.tmpname()
      env.write(path, ([[
        local P = require(%q)
        local flags = io.open("/proc/self/fdinfo/1"):read("a")
          :match("flags:%%s*(%%d+)")
        assert(tonumber(flags, 8) & tonumber("4000", 8) ~= 0, "it blocks")
        P.run(function()
          local sb <close> = P.sandbox({ backend = "local" })
          local r = sb:exec("yes | head -c 1000000", { tee = true })
          assert(r.stdout_bytes == 1000000)
        end)
      ]]):format(facade))
      -- dd leaves its stdout, which the script gets, non-blocking.
      local output = env.sh(("{ dd if=/dev/null oflag=nonblock 2>/dev/null; "
        .. "timeout -k 5 %d lua5.4 %s; echo $? >%s; } | { sleep 0.2; wc -c; }")
        :format(env.patience(30), path, path))
      assert.same({ 1000000, "0\n" }, { tonumber(output), env.read(path) })
      os.remove(path)
    end)
  end

  it("leaves nothing behind", nothing_left)
end)
