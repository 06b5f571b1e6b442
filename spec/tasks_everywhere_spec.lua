-- The specs of tasks once more, where things may go otherwise: in the portico
-- command, whose coroutines are not the stock ones, and with a garbage
-- collector that never rests, which finds what is anchored by luck alone.

local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local busted = env.sh("command -v busted"):match("%S+")

-- Runs one spec file by a program; all its tests must pass.
local function passes(program, spec, init)
  local output, code = env.sh(("LUA_INIT_5_4=%s timeout %d %s %s "
    .. "--ignore-lua -o TAP --verbose spec/%s_spec.lua 2>&1"):format(
    env.quoted(init or ""), env.patience(250), program, env.quoted(busted),
    spec))
  local failed = {}
  for line in output:gmatch("[^\n]+") do
    if line:find("^not ok") then
      failed[#failed + 1] = line
    end
  end
  assert.same({}, failed, output)
  assert.equal(0, code, output)
  assert.truthy(output:find("\n1%.%.%d+"), output)
end

describe("the specs of tasks pass", function()
  for _, spec in ipairs({
    "scopes", "scopes_cancel", "tasks", "channel",
  }) do
    it("in the portico command: " .. spec, function()
      passes(env.quoted(os.getenv("PORTICO_BIN")), spec)
    end)
  end

  for spec, mode in pairs({
    channel = "generational", coroutine = "incremental",
    scopes_cancel = "generational",
  }) do
    it("with a restless garbage collector: " .. spec, function()
      passes("lua5.4", spec, ('collectgarbage("%s", 1, 1)'):format(mode))
    end)
  end
end)

it("the specs of tasks leave nothing behind", nothing_left)
