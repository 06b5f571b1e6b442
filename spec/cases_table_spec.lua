-- The table of cases in spec/README.md says what the files say: each case from
-- 1 to 46 and 62 to 67 is there, each file named is, each spec named has the
-- case in the name of a test, and no test of a case is in a file not named.

local env = require("spec.support.env")
local leaks = require("spec.support.leaks")
local lfs = require("lfs")

local nothing_left = leaks.frame()

local NAMED = {} -- case -> set of files

local function cases_of(text)
  local first, last = text:match("^(%d+) to (%d+)$")
  local cases = {}
  for number in text:gmatch("%d+") do
    cases[#cases + 1] = math.tointeger(tonumber(number))
  end
  for number = (first or 1) + 1, (last or 1) - 1 do
    cases[#cases + 1] = math.tointeger(number)
  end
  return cases
end

local table_text = assert(env.read("spec/README.md")
  :match("\n## What went wrong.-\n## "))
for numbers, files in table_text:gmatch("\n| ([%d, to]+) | [^|]* | ([^|]*) |")
do
  for _, case in ipairs(cases_of(numbers)) do
    NAMED[case] = NAMED[case] or {}
    for file in files:gmatch("`([%w_/]+)`") do
      NAMED[case][file] = true
    end
  end
end

-- Files of specs by the cases that names of their tests begin with.
local function tested()
  local found = {}
  for file in lfs.dir("spec") do
    local name = file:match("^(.*)_spec%.lua$")
    for case in (name and env.read("spec/" .. file) or "")
      :gmatch("\"case (%d+)[: ]") do
      found[name .. " " .. case] = true
    end
  end
  return found
end

describe("the table of cases", function()
  it("has each, and files that are there", function()
    for case = 1, 67 do
      if case <= 46 or case >= 62 then
        assert.truthy(NAMED[case] and next(NAMED[case]), "case " .. case)
      end
    end
    for case, files in pairs(NAMED) do
      for file in pairs(files) do
        assert.is_true(env.exists("spec/" .. file .. "_spec.lua")
          or env.exists("spec/" .. file .. "_test.c"), case .. " " .. file)
      end
    end
  end)

  it("names the files that tests of a case are in", function()
    local found = tested()
    assert.is_true(next(found) ~= nil)
    for key in pairs(found) do
      local name, case = key:match("^(%S+) (%d+)$")
      local files = NAMED[tonumber(case)]
      assert.is_true(files ~= nil and files[name] == true, key)
    end
    for case, files in pairs(NAMED) do
      for file in pairs(files) do
        if file:find("^cases_") or file == "pty" then
          assert.is_true(found[file .. " " .. case], file .. " " .. case)
        end
      end
    end
  end)

  it("leaves nothing behind", nothing_left)
end)
