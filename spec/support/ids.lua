-- Whose ids the sandboxes of the attacks have. Root's have two, an ordinary
-- user's one; with PORTICO_TEST_UIDS=two in the environment his have two as
-- well, from his range in /etc/subuid: then every sandbox and backend that this
-- process makes is made so. Where that cannot be, `backends.absence` says why.

local env = require("spec.support.env")
local portico = require("portico")
local sync = require("portico.sync")

local ids = {}

local asked = os.getenv("PORTICO_TEST_UIDS") == "two"

-- Agent and commands have different ids.
ids.two = env.is_root() or asked

local function parted(settings)
  local all = { uids = "two" }
  for key, value in pairs(settings or {}) do
    all[key] = value
  end
  return all
end

local function part(module)
  local open, sandbox = module.open, module.sandbox
  function module.open(name, settings, options)
    return open(name, parted(settings), options)
  end
  function module.sandbox(options)
    local all = {}
    for key, value in pairs(options or {}) do
      all[key] = value
    end
    if type(all.backend) ~= "table" then
      all.backend_settings = parted(all.backend_settings)
    end
    return sandbox(all)
  end
end

if asked then
  part(portico)
  part(sync)
end

return ids
