-- Ten thousand runs of a command that prints and exits at once, without one
-- lost byte, while the machine is loaded by as many busy processes as it has
-- processors. (A part of that, unless PORTICO_HEAVY=100: support/heavy.lua.)

local facades = require("spec.support.facades")
local heavy = require("spec.support.heavy")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

-- On each of two backends: 4000 by tasks, 1000 blocking.
local BY_TASKS, BLOCKING, TASKS = 4000, 1000, 8

-- Texts of all lengths up to beyond a page.
local function text_of(i)
  return ("%d:"):format(i) .. ("x"):rep(i * 37 % 5000)
end

local function check(i, name, got, text)
  if got ~= text then
    error(("run %d: %d of %d bytes of %s"):format(i, #got, #text, name))
  end
end

-- The runs are of three kinds, most of the first: one stream,
local function plain(sb, i)
  local text = text_of(i)
  local r = sb:exec({ "printf", "%s", text })
  check(i, "stdout", r.stdout, text)
  assert(r.ok and r.eof, i)
end

-- both streams and a code,
local function both(sb, i)
  local text, code = text_of(i), i % 256
  local r = sb:exec({
    "sh", "-c", "printf %s \"$1\"; printf %s \"$1\" >&2; exit " .. code, "-",
    text,
  })
  check(i, "stdout", r.stdout, text)
  check(i, "stderr", r.stderr, text)
  assert(r.code == code and r.eof, i)
end

-- and through a reader.
local function read(sb, i)
  local text, parts = text_of(i), {}
  local p <close> = sb:spawn({ "printf", "%s", text })
  for chunk in p:chunks() do
    parts[#parts + 1] = chunk.data
  end
  check(i, "stdout", table.concat(parts), text)
  assert(p:wait().ok, i)
end

local function run(sb, i)
  local one = i % 8 == 0 and both or i % 8 == 4 and read or plain
  one(sb, i)
end

describe("print and exit, on a loaded machine:", function()
  facades.in_task(it, "by tasks, eight at once", function(_, sb)
    local load <close> = heavy.load() -- luacheck: ignore 211
    local next_run, most = 0, heavy.share(BY_TASKS)
    local jobs = {}
    for task = 1, TASKS do
      jobs[task] = function()
        while next_run < most do
          next_run = next_run + 1
          run(sb, next_run)
        end
      end
    end
    require("portico.task").all(jobs)
    assert.equal(most, next_run)
    assert.same({}, sb:processes())
  end)

  facades.on_each(it, "one after the other", function(P, sb)
    if facades.module_name(P) == "portico" then
      return -- by tasks, above
    end
    local load <close> = heavy.load() -- luacheck: ignore 211
    for i = 1, heavy.share(BLOCKING) do
      run(sb, i)
    end
  end)

  it("leave nothing behind", nothing_left)
end)
