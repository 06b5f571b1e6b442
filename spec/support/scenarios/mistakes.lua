-- Scenarios: the same mistakes with every member.

local scenarios = require("spec.support.scenarios.list").new()
local portable = scenarios.portable

portable("dot call instead of colon", function(_, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  local result = sb:exec({ "true" })
  local it <close> = p:lines()
  t:raises("UsageError", "PCO_EDOT", "exec", sb.exec, { "true" })
  for label, object in pairs({
    Sandbox = sb, Backend = sb.backend, FileSystem = sb.fs, Process = p,
    Result = result, Iterator = it,
  }) do
    local members = {}
    for name in pairs(getmetatable(object).__index) do
      members[#members + 1] = name
    end
    table.sort(members)
    for _, name in ipairs(members) do
      t:raises("UsageError", "PCO_EDOT", "\1" .. label .. "." .. name,
        object[name])
      t:raises("UsageError", "PCO_EDOT", "\1" .. label .. "." .. name,
        object[name], "x")
    end
  end
  t:try("another class", sb.exec, p, { "true" })
  p:kill()
end)

portable("an object of the other facade", function(P, sb, t)
  local p = sb:spawn({ "sleep", "30" })
  for label, class in pairs({
    sandbox = "Sandbox", backend = "Backend", fs = "FileSystem",
    process = "Process",
  }) do
    local members = {}
    for name in pairs(P[class]) do
      members[#members + 1] = name
    end
    table.sort(members)
    for _, name in ipairs(members) do
      t:raises("UsageError", "PCO_EFACADE", "\1" .. class .. "." .. name,
        P[class][name], t.other[label], "x", "y")
    end
  end
  p:kill()
end)

portable("names that are no members", function(P, sb, t)
  t:note("absent", sb.reboot, sb.attach, sb.snapshot, sb.backend.attach,
    P.File, P.Watch, sb.fs.copy)
  t:try("a field is no handle", P.Sandbox.exec,
    setmetatable({}, getmetatable(sb)), { "true" })
end)

return scenarios
