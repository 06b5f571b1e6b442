-- Running attacks, the programs of spec/attacks, in sandboxes.

local facades = require("spec.support.facades")

local attacks = {
  directory = os.getenv("PORTICO_BUILD") .. "/attacks",
  -- The codes that they end with.
  THROUGH = 0,
  REFUSED = 42,
  NOT_HERE = 77,
}
attacks.mounts = { { source = attacks.directory, target = "/attacks" } }

-- Runs one, a program and its arguments; returns the result, and words for a
-- failure.
function attacks.run(sandbox, words, options)
  local argv = { "/attacks/" .. words[1], table.unpack(words, 2) }
  local all = { timeout = 60 }
  for key, value in pairs(options or {}) do
    all[key] = value
  end
  local result = sandbox:exec(argv, all)
  return result, table.concat(words, " ") .. ": " .. tostring(result.signal)
    .. " " .. tostring(result.reason) .. " " .. result.stderr
end

-- Another sandbox, of the sync facade, answers within a second.
function attacks.others_are_well(other)
  local seconds = facades.timed(function()
    other:exec({ "true" }):check()
  end)
  assert(seconds < 1, "another sandbox took " .. seconds .. " s")
end

return attacks
