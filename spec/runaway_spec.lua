-- Tasks that compute and never wait: they are told, and Ctrl-C ends them, in a
-- plain lua5.4, too, if they make garbage, as nearly all code does. With the
-- portico command in its place, if PORTICO_TEST_LUA says so.

local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local program = os.getenv("PORTICO_TEST_LUA") or "lua5.4"

-- Runs code with these functions:
--   interrupt(seconds)  Ctrl-C, so much later
--   compute()           makes garbage for ever
local function run(code)
  local output, status = env.sh("timeout " .. env.patience(100) .. " "
    .. env.quoted(program) .. " - 2>&1 <<'END'\n" .. [[
    warn("@off")
    local portico, task = require("portico"), require("portico.task")
    local sync = require("portico.sync")
    local co = require("portico.coroutine")
    local pid = io.open("/proc/self/stat"):read("n")
    local function interrupt(seconds)
      os.execute(("(sleep %g; kill -INT %d) >/dev/null 2>&1 &"):format(seconds,
        pid))
    end
    local function compute()
      while true do
        local _ = { {} }
      end
    end
  ]] .. code .. "\nEND\n")
  return output, status
end

-- What computes in the command is ended at once, by the error that lua5.4 has
-- for that.
local function assert_interrupted(output, status)
  local plain = program == "lua5.4"
  assert.equal(plain and 1 or 130, status, output)
  assert.truthy(output:find(plain and "PCO_EINTERRUPTED" or "interrupted", 1,
    true), output)
end

describe("a task that computes", function()
  it("is ended by Ctrl-C, and cleans up", function()
    local output, status = run([[
      interrupt(0.2)
      portico.run(function()
        local _ <close> = setmetatable({}, {__close = function()
          task.sleep(0.01)
          print("closed")
        end})
        compute()
      end)
    ]])
    assert_interrupted(output, status)
    assert.truthy(output:find("^closed\n"), output)
  end)

  it("is ended whatever it catches, and the others as well", function()
    local output, status = run([[
      interrupt(0.2)
      portico.run(function()
        task.scope(function(scope)
          scope:spawn(function()
            local _ <close> = setmetatable({}, {__close = function()
              print("the other")
            end})
            task.sleep(60)
          end)
          task.checkpoint()
          while true do
            pcall(compute)
          end
        end)
      end)
    ]])
    assert_interrupted(output, status)
    assert.truthy(output:find("the other", 1, true), output)
  end)

  it("is ended in coroutines, of the stock library as well", function()
    for _, wrap in ipairs({ "co.wrap", "coroutine.wrap" }) do
      local output, status = run(([[
        interrupt(0.2)
        portico.run(function()
          %s(compute)()
        end)
      ]]):format(wrap))
      assert_interrupted(output, status)
    end
  end)

  -- Far down there is no sentinel; above it there is one again.
  it("is ended far down in a recursion, and after one", function()
    for _, body in ipairs({ "compute()", "return 1" }) do
      local output, status = run(([[
        interrupt(0.2)
        portico.run(function()
          local function down(n)
            if n == 0 then
              %s
            end
            return 1 + down(n - 1)
          end
          collectgarbage("step")
          print(down(50000))
          compute()
        end)
      ]]):format(body))
      assert_interrupted(output, status)
    end
  end)

  it("is told to the logger while it computes", function()
    local output, status = run([[
      portico.set_logger(function(record)
        print(record.level .. ": " .. record.message)
        os.exit(7)
      end)
      portico.run(function()
        task.scope(function(scope)
          scope:spawn(compute).name = "the runaway"
        end)
      end)
    ]])
    assert.equal(7, status, output)
    assert.truthy(output:find("^warning: the runaway runs for [%d.]+ s "
      .. "without waiting.*stdin:%d+"), output)
  end)

  it("keeps the hook of a debugger", function()
    local output, status = run([[
      local lines = 0
      portico.run(function()
        debug.sethook(function() lines = lines + 1 end, "l")
        local hook = debug.gethook()
        local t = os.clock() + 1.5
        while os.clock() < t do
          local _ = {}
        end
        assert(debug.gethook() == hook)
        debug.sethook()
        collectgarbage()
        collectgarbage()
        assert(debug.gethook() == nil)
      end)
      print(lines > 1000)
    ]])
    assert.same({ "true\n", 0 }, { output, status })
  end)
end)

-- Lua 5.4.9 cannot tell of one if something is to be finalized just then.
describe("a stack overflow", function()
  it("in a task or a scope is told as one, whatever is finalized", function()
    local output, status = run([[
      local function recurse() return 1 + recurse() end
      for _ = 1, 2 do
        setmetatable({}, { __gc = function() end })
        local ok, err = pcall(portico.run, function()
          local ok, err = pcall(task.scope, recurse)
          print(not ok and err:match("stack overflow"))
          recurse()
        end)
        print(not ok and err:match("stack overflow"))
      end
    ]])
    assert.same({ ("stack overflow\n"):rep(4), 0 }, { output, status })
  end)
end)

it("tasks that compute leave nothing behind", nothing_left)
