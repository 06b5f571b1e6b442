-- One list of scenarios, run by both facades on each backend: results, error
-- classes, codes and messages must be the same. And the list is complete: each
-- member of each class is called by some scenario.

local backends = require("spec.support.backends")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local notebook = require("spec.support.notebook")
local parity = require("spec.support.parity")
local scenarios = require("spec.support.scenarios")

local nothing_left = leaks.frame()

local async, sync = facades.list[1], facades.list[2]

-- The first difference of two texts, with the lines before it.
local function difference(a, b)
  local left, right = a:gmatch("[^\n]*"), b:gmatch("[^\n]*")
  local number = 0
  repeat
    local x, y = left(), right()
    number = number + 1
    if x ~= y then
      return ("line %d\n  async: %s\n  sync:  %s"):format(number,
        x or "(end)", y or "(end)")
    end
  until not x
end

local counts = { async = {}, sync = {} }

-- Runs fn while calls of a facade's members are counted.
local function counted(facade, objects, fn, ...)
  local seen, restore = parity.count_calls({
    name = facade.name, module = facade.module, objects = objects.all,
  })
  local results = table.pack(pcall(fn, ...))
  restore()
  for path, count in pairs(seen) do
    counts[facade.name][path] = (counts[facade.name][path] or 0) + count
  end
  if not results[1] then
    error(results[2], 0)
  end
  return table.unpack(results, 2, results.n)
end

-- What is wrong with a scenario on a backend, as text; "" if nothing is.
local function problems_of(scenario, backend)
  local problems
  notebook.with_objects(async, backend, function(a)
    notebook.with_objects(sync, backend, function(b)
      local left, left_wrong = counted(async, a, notebook.run, async,
        scenario, backend, b)
      local right, right_wrong = counted(sync, b, notebook.run, sync,
        scenario, backend, a)
      problems = { difference(left, right) }
      local last = left:match("the scenario: raised ([^\n]*)")
      problems[#problems + 1] = last and "it raised " .. last
      table.move(left_wrong, 1, #left_wrong, #problems + 1, problems)
      if #left_wrong == 0 then
        table.move(right_wrong, 1, #right_wrong, #problems + 1, problems)
      end
    end)
  end)
  return table.concat(problems, "\n")
end

for _, backend in ipairs(backends.list) do
  describe("both facades on " .. backend.name .. " agree:", function()
    for _, scenario in ipairs(scenarios) do
      if backend.programs or scenario.portable then
        backends.it(it, backend, scenario.name, function()
          assert.equal("", problems_of(scenario, backend.name))
        end)
      end
    end
  end)
end

describe("the scenarios", function()
  for _, facade in ipairs(facades.list) do
    it("call every member [" .. facade.name .. "]", function()
      local missing = {}
      for path, count in pairs(counts[facade.name]) do
        -- errors is a module of its own, with a spec of its own.
        if count == 0 and not path:find("^errors%.") then
          missing[#missing + 1] = path
        end
      end
      table.sort(missing)
      assert.equal("", table.concat(missing, ", "))
      assert.truthy(next(counts[facade.name]))
    end)
  end

  it("that failed have what they left ended", function()
    require("spec.support.detached").remove(sync.module)
  end)

  it("leave nothing behind", nothing_left)
end)
