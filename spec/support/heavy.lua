-- What heavy specs share: how much they do, the machine's load, memory.
--
-- They do a quarter of the whole, and a twentieth with sanitizers, so that a
-- run of all tests stays short. PORTICO_HEAVY=100, a number of percent, asks
-- for the whole: ten thousand runs, a gibibyte. A spec may do less than a
-- quarter of it by itself.

local env = require("spec.support.env")
local facades = require("spec.support.facades")

local heavy = {}

local SANITIZED = env.read("/proc/self/maps"):find("lib[at]san") ~= nil
local PERCENT = tonumber(os.getenv("PORTICO_HEAVY"))

-- The part of n that is asked for, at least 1; `percent` of it (25) if nobody
-- asked.
function heavy.share(n, percent)
  percent = PERCENT or (percent or 25) / (SANITIZED and 5 or 1)
  return math.max(1, n * percent // 100 | 0)
end

-- Runs as many busy processes as the machine has processors; returns an object
-- to close, which ends them. They end by themselves if we do.
function heavy.load()
  local cores = tonumber((env.sh("getconf _NPROCESSORS_ONLN")))
  local pipes = {}
  for i = 1, cores do
    pipes[i] = assert(io.popen("exec lua5.4 -e 'local d = os.time() + 100; "
      .. "while os.time() < d do for _ = 1, 1000000 do end end'"
      .. " & read x; kill $!", "w"))
  end
  return setmetatable({}, {
    __close = function()
      for _, pipe in ipairs(pipes) do
        pipe:close()
      end
    end,
  })
end

-- Runs the body of a script that has `P`, `errors`, `sb` and `grown()`: MiB
-- that its memory has grown by at most (VmHWM) since the sandbox was there, 0
-- where a sanitizer's own memory hides it. Returns what it printed; its code
-- must be 0. `prefix` is shell text before it.
function heavy.script(P, backend, body, prefix)
  local output, code, seconds = env.script(([[
    local P = require(%q)
    local errors = P.errors
    local function status(name)
      return tonumber(io.open("/proc/self/status"):read("a")
        :match(name .. ":%%s*(%%d+)"))
    end
    local sanitized = io.open("/proc/self/maps"):read("a"):find("lib[at]san")
    P.run(function()
      local sb <close> = P.sandbox({ backend = %q })
      sb:exec({ "true" })
      local before = status("VmHWM")
      local function grown()
        return sanitized and 0 or (status("VmHWM") - before) // 1024
      end
      %s
    end)
  ]]):format(facades.module_name(P), backend.name, body), prefix, 300)
  assert(code == 0, output)
  return output, seconds
end

return heavy
