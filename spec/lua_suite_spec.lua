-- The file on coroutines of Lua's own test suite, run with the functions of
-- portico.coroutine in place of the stock library's. The suite is not part of
-- Portico, and no package has it, of Debian neither (its sources of lua5.4 come
-- without): PORTICO_LUA_SUITE names its folder (lua-5.4.x-tests, from the home
-- page of Lua), else this is skipped. What it checks is always checked by
-- coroutine_stock_spec.lua and coroutine_spec.lua, in other words; the former
-- lists its sections.
--
-- Not applicable: its parts that need Lua's internal library T, which it leaves
-- out by itself; and, in a task, that the code runs in the main thread.

local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local suite = os.getenv("PORTICO_LUA_SUITE")
local file = suite and suite .. "/coroutine.lua"
local why_not = "PORTICO_LUA_SUITE names no folder of Lua's test suite"

-- The file without its claims of the main thread, which do not hold in a task.
local IN_TASK = [[
  require("portico.coroutine").install()
  local name = os.getenv("PORTICO_LUA_SUITE") .. "/coroutine.lua"
  local source = assert(io.open(name)):read("a")
  for _, claim in ipairs({
    " and ismain",
    "assert(not coroutine.isyieldable(main) and not coroutine.isyieldable())",
  }) do
    local from, to = source:find(claim, 1, true)
    source = source:sub(1, from - 1) .. source:sub(to + 1)
  end
  require("portico").run(assert(load(source, "=suite")))
]]

local function passes(command)
  local output, code = env.sh(command .. " 2>&1")
  assert.equal(0, code, output)
  assert.truthy(output:find("OK%s*$"), output)
end

describe("the Lua test suite's coroutine.lua passes", function()
  local function test(name, ...)
    local command = table.concat({ ... }, " ")
    it(name, function()
      if not file then
        pending(why_not)
      end
      passes(command)
    end)
  end
  local path = env.quoted(file or "")

  test("with the stock library", "lua5.4", path)
  test("after install()", "lua5.4 -e",
    env.quoted('require("portico.coroutine").install()'), path)
  test("in the portico command", env.quoted(os.getenv("PORTICO_BIN")), path)
  test("in a task", "lua5.4 -e", env.quoted(IN_TASK))
end)

it("the suite leaves nothing behind", nothing_left)
