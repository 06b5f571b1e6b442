-- The end of a script wherever it happens, with commands running that do not
-- want to end: the program is gone within three seconds, with its code, and
-- nothing of it lives on. (Plain ends are in portal_spec.lua.)

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local number = 0

local PRELUDE = [[
local P = require(%q)
local MARK = %q
local sb
P.run(function()
  sb = P.sandbox({ backend = %q })
  -- One that ignores SIGTERM, one that has left its session and its parent.
  sb:spawn("trap '' TERM; sleep " .. MARK .. " & while :; do wait; done")
  local p = sb:spawn("(setsid sleep " .. MARK .. " &) & echo ready; exec cat",
    { stdin = "pipe" })
  p:read()
end)
io.write("on ", io.open("/proc/uptime"):read("n"), "\n")
io.flush()
]]

-- Declares a test of each facade on each backend.
local function test(name, code, expected)
  for _, backend in ipairs(backends.real) do
    for _, facade in ipairs({ "portico", "portico.sync" }) do
      backends.it(it, backend, ("%s [%s, %s]"):format(name, backend.name,
        facade), function()
        number = number + 1
        local mark = "141421." .. number
        local output, status = env.script(
          PRELUDE:format(facade, mark, backend.name) .. code)
        local start = assert(tonumber(output:match("^on (%S+)")), output)
        assert.is_true(env.now() - start < 3, output)
        assert.equal(expected, status, output)
        assert.is_true(env.eventually(20, function()
          return #env.pgrep({ "sleep", mark }) == 0
        end), "a command lives on")
      end)
    end
  end
end

describe("a script that ends", function()
  test("by falling off", "", 0)
  test("by an error", 'error("mine")', 1)
  test("by os.exit(0)", "os.exit(0)", 0)
  test("by os.exit(0, true)", "os.exit(0, true)", 0)
  test("by os.exit(5) in a callback", [[
    P.run(function()
      sb:exec("echo x; sleep " .. MARK, {
        on_output = function() os.exit(5) end,
      })
    end)
  ]], 5)
  test("by os.exit(5, true) in a callback of a callback", [[
    P.run(function()
      sb:exec("echo x; sleep " .. MARK, {
        on_output = function()
          sb:exec("echo y; sleep " .. MARK, {
            on_output = function() os.exit(5, true) end,
          })
        end,
      })
    end)
  ]], 5)
  test("by os.exit(5, true) in a loop over lines", [[
    P.run(function()
      local p <close> = sb:spawn("echo x; sleep " .. MARK)
      for _ in p:lines() do
        os.exit(5, true)
      end
    end)
  ]], 5)
  test("by os.exit(5, true) while other tasks wait", [[
    local function wait()
      sb:exec("sleep " .. MARK)
    end
    P.run(function()
      if P == require("portico.sync") then
        os.exit(5, true)
      end
      require("portico.task").all({ wait, wait, function()
        P.sleep(0.1)
        os.exit(5, true)
      end })
    end)
  ]], 5)
  test("by an error in a coroutine with a `<close>` left", [[
    local co = coroutine.create(function()
      local other <close> = sb
      coroutine.yield()
    end)
    coroutine.resume(co)
    error("mine")
  ]], 1)
  test("in a finalizer", [[
    setmetatable({}, { __gc = function()
      os.exit(pcall(P.run, sb.exec, sb, { "true" }) and 6 or 5)
    end })
  ]], 6)
end)

it("nothing is left behind", nothing_left)
