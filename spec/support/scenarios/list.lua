-- A list of scenarios that a file adds to.

local list = {}

-- Returns an empty one, with the functions that add to it: portable(name, fn)
-- for every backend, add(name, fn) for those that run real programs.
function list.new()
  local scenarios = {}

  function scenarios.add(name, fn)
    scenarios[#scenarios + 1] = { name = name, fn = fn }
  end

  function scenarios.portable(name, fn)
    scenarios[#scenarios + 1] = { name = name, fn = fn, portable = true }
  end

  return scenarios
end

return list
