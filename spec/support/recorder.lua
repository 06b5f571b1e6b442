-- A core that does nothing but write down who was called with what: the parity
-- spec loads the facades against it. It knows the functions that
-- lua/portico/meta/core.lua declares, and no others.

local annotations = require("spec.support.annotations")
local env = require("spec.support.env")

local recorder = {}

-- Stands for portico.errors where that is not loaded: one table for all.
local NO_ERRORS = {}

-- Names of the operations that a facade of the core has.
function recorder.operations(facade)
  local declared = annotations.read("lua/portico/meta/core.lua").classes
  local names = {}
  for _, field in ipairs(declared["portico.core.Facade"].fields) do
    if facade == "async" or not field.text:find("async only") then
      names[field.name] = true
    end
  end
  if facade == "sync" then
    for _, field in ipairs(declared["portico.core.SyncFacade"].fields) do
      names[field.name] = true
    end
  end
  return names
end

-- One facade of the recording core. `log` gets {op, args} of each call, and
-- each call returns three results that can be told from all others.
local function new_facade(name, log)
  local classes, metatables = {}, {}
  local facade = { classes = classes, metatables = metatables }
  for operation in pairs(recorder.operations(name)) do
    facade[operation] = function(...)
      local call = {
        op = operation,
        args = table.pack(...),
        results = table.pack({}, nil, {}),
      }
      log[#log + 1] = call
      return table.unpack(call.results, 1, call.results.n)
    end
  end
  function facade.class(class)
    classes[class] = classes[class] or {}
    return classes[class]
  end
  function facade.metatable(class)
    metatables[class] = metatables[class]
      or { __index = facade.class(class), __name = "portico." .. class }
    return metatables[class]
  end
  return facade
end

function recorder.new()
  local log = {}
  return {
    version = "0.1.0",
    error_classes = {},
    codes = {},
    log = log,
    async = new_facade("async", log),
    sync = new_facade("sync", log),
  }
end

-- Loads a facade file (or changed text of it) with the recording core in the
-- place of the real one. Returns the module and the core.
function recorder.load(path, text)
  local core = recorder.new()
  local saved = package.loaded["portico.core"]
  local saved_errors = package.loaded["portico.errors"]
  package.loaded["portico.core"] = core
  package.loaded["portico.errors"] = saved_errors or NO_ERRORS
  local chunk, problem = load(text or env.read(path), "@" .. path, "t")
  local ok, module
  if chunk then
    ok, module = pcall(chunk)
  end
  package.loaded["portico.core"] = saved
  package.loaded["portico.errors"] = saved_errors
  if not ok then
    error(problem or module, 0)
  end
  return module, core
end

return recorder
