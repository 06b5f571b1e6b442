-- Sandboxes that are left running, for specs: a directory of their own where
-- they are written down, so that no others are seen.

local env = require("spec.support.env")

local detached = {}

-- The directory of this spec file; made at first use, removed by remove().
function detached.state()
  if not detached.directory then
    detached.directory = env.tmpdir()
  end
  return detached.directory
end

function detached.open(P, backend)
  return P.open(backend.name, { state = detached.state() })
end

-- Options for `sandbox`, with what the spec wants beside.
function detached.options(backend, options)
  local all = {
    backend = backend.name, backend_settings = { state = detached.state() },
    detachable = true,
  }
  for key, value in pairs(options or {}) do
    all[key] = value
  end
  return all
end

-- The entry of list() with this id, or nil.
function detached.find(b, id)
  for _, info in ipairs(b:list()) do
    if info.id == id then
      return info
    end
  end
end

-- Ends all that a failed test may have left.
function detached.remove(P)
  if not detached.directory then
    return
  end
  for _, backend in ipairs(require("spec.support.backends").real) do
    local b <close> = detached.open(P, backend)
    for _, info in ipairs(b:list()) do
      b:destroy(info.id)
    end
    b:reap()
  end
  env.rmdir(detached.directory)
  detached.directory = nil
end

-- Declares fn(P, backend, b) on each backend in both facades; b is an open
-- Backend, which ends what is left.
function detached.everywhere(it, name, fn)
  require("spec.support.facades").everywhere(it, name, function(P, backend)
    local b <close> = detached.open(P, backend)
    local before = {}
    for _, info in ipairs(b:list()) do
      before[info.id] = true
    end
    local ok, err = xpcall(fn, function(e)
      return type(e) == "string" and debug.traceback(e, 2) or e
    end, P, backend, b)
    for _, info in ipairs(b:list()) do
      if not before[info.id] then
        b:destroy(info.id)
      end
    end
    if not ok then
      error(err, 0)
    end
  end)
end

return detached
