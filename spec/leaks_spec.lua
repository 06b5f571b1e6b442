-- Every spec file is framed by a check for what it leaves behind, and that
-- check bites.

local lfs = require("lfs")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

-- The line of a file's last test, of whichever kind.
local function last_test(text)
  local last
  for line in text:gmatch("[^\n]+") do
    if line:find("^%s*it%(") or line:find("[%(%s]it,")
      or line:find("^%s*test%(")
    then
      last = line
    end
  end
  return last
end

-- What is wrong with the frame of a spec file, or nil.
local function problem(text)
  local name = text:match("\nlocal ([%w_]+) = leaks%.frame%(%d*%)")
  local last = last_test(text)
  if not name then
    return "leaks.frame() is not kept"
  elseif not last or not last:find(", " .. name .. ")", 1, true) then
    return "the last test is not the frame's check"
  end
end

describe("every spec file", function()
  local count = 0
  for file in lfs.dir("spec") do
    if file:find("_spec%.lua$") then
      count = count + 1
      it(file .. " looks for leaks at its end", function()
        assert.is_nil(problem(env.read("spec/" .. file)))
      end)
    end
  end

  it("is looked at", function()
    assert.is_true(count > 30)
    local good = "\nlocal left = leaks.frame()\nit('a', f)\nit('b', left)\n"
    assert.is_nil(problem(good))
    assert.truthy(problem("it('a', f)\n"))
    assert.truthy(problem(good .. "it('c', f)\n"))
    assert.truthy(problem(good .. "  facades.on_each(it, 'c', f)\n"))
    assert.truthy(problem("\nleaks.frame()\nit('b', left)\n"))
  end)
end)

describe("the check finds", function()
  -- Calls leak(), which returns what undoes it, and looks as the frame does,
  -- but without its patience.
  local function finds(kind, leak)
    local before = leaks.snapshot()
    local undo = leak()
    local found = {}
    for description in pairs(leaks.snapshot()) do
      if not before[description] then
        found[#found + 1] = description
      end
    end
    undo()
    table.sort(found)
    assert.truthy(table.concat(found, "\n"):find(kind, 1, true), kind)
    assert.same({}, leaks.since(before))
  end

  it("descriptors", function()
    finds("descriptor ", function()
      local file = assert(io.open("/dev/null"))
      return function() file:close() end
    end)
  end)

  it("processes", function()
    finds("process ", function()
      local pipe = io.popen("read x", "w")
      return function() pipe:close() end
    end)
  end)

  it("threads, and a sandbox that is open", function()
    local P = require("portico.sync")
    local sb
    local function open()
      sb = P.sandbox({ backend = "local" })
      return function() sb:close() end
    end
    finds("thread ", open)
    finds("directory ", open)
    finds("process ", open)
  end)

  it("memory", function()
    local check = leaks.frame()
    local held = { ("x"):rep(leaks.MEMORY_MIB << 20) .. "y" }
    local ok, err = pcall(check)
    assert.is_true(#held[1] > 0)
    if leaks.SANITIZED then
      assert.is_true(ok, err)
    else
      assert.is_false(ok)
      assert.truthy(tostring(err):find("MiB of memory", 1, true), err)
    end
    held = nil -- luacheck: ignore 311
    check()
  end)
end)

it("looking for leaks leaves nothing behind", nothing_left)
