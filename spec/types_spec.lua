-- The LuaCATS annotations in the facade files are held against the functions
-- that they describe, and both facades' against each other.

local annotations = require("spec.support.annotations")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")
local parity = require("spec.support.parity")
local recorder = require("spec.support.recorder")

local nothing_left = leaks.frame()

local FILES = {
  { side = "async", path = "lua/portico/init.lua" },
  { side = "sync", path = "lua/portico/sync/init.lua" },
  { side = "async", path = "lua/portico/task.lua" },
  { side = "sync", path = "lua/portico/portal.lua" },
}

-- The functions of a file by the line of their declaration.
local function functions_of(file)
  local module, core = recorder.load(file.path)
  local objects = {}
  for _, metatable in pairs(core[file.side].metatables) do
    objects[#objects + 1] = setmetatable({}, metatable)
  end
  local by_line, count = {}, 0
  local bindings = parity.discover({
    name = file.side, module = module, objects = objects,
  }).bindings
  for path, binding in pairs(bindings) do
    local info = debug.getinfo(binding.fn, "S")
    if info.source == "@" .. file.path then
      by_line[info.linedefined] = { path = path, fn = binding.fn }
      count = count + 1
    end
  end
  return by_line, count
end

-- The names of the parameters, "..." last, without the self of methods.
local function parameters(fn, block)
  local shape = parity.signature(fn)
  local names = table.move(shape.names, 1, #shape.names, 1, {})
  if block.name:find(":", 1, true) then
    assert(table.remove(names, 1) == "self")
  end
  if shape.vararg then
    names[#names + 1] = "..."
  end
  return names
end

-- All classes that annotations may speak of.
local function all_classes()
  local classes = {}
  for _, path in ipairs({
    "lua/portico/init.lua", "lua/portico/sync/init.lua",
    "lua/portico/task.lua", "lua/portico/portal.lua",
    "lua/portico/errors.lua", "lua/portico/meta/types.lua",
    "lua/portico/meta/core.lua",
  }) do
    for name, block in pairs(annotations.read(path).classes) do
      assert(not classes[name], name .. " is declared twice")
      classes[name] = block
    end
  end
  return classes
end

for _, file in ipairs(FILES) do
  describe("annotations of " .. file.path, function()
    local parsed = annotations.read(file.path)

    it("stand above every function", function()
      local by_line, count = functions_of(file)
      local annotated = 0
      for _, block in ipairs(parsed.functions) do
        if by_line[block.line] then
          annotated = annotated + 1
          assert.equal(by_line[block.line].path, annotations.path(block.name))
          assert.is_true(#block.doc > 0, block.name .. " is not described")
        end
      end
      assert.equal(count, annotated)
    end)

    it("name the parameters in their order", function()
      local by_line = functions_of(file)
      for _, block in ipairs(parsed.functions) do
        local binding = by_line[block.line]
        if binding then
          local described = {}
          for i, param in ipairs(block.params) do
            described[i] = param.name
            assert.are_not.equal("", param.text, block.name)
          end
          assert.same(parameters(binding.fn, block), described, block.name)
        end
      end
    end)

    it("begin with a verb and end with a full stop", function()
      for _, block in ipairs(parsed.functions) do
        if #block.doc > 0 then
          assert.truthy(block.doc[1]:find("^%u%l+s "), block.name)
          assert.truthy(block.doc[#block.doc]:find("%.$")
            or block.doc[#block.doc]:find("`%.$"), block.name)
        end
      end
    end)

    it("speak only of classes that exist", function()
      local classes = all_classes()
      local text = {}
      for line in env.read(file.path):gmatch("[^\n]+") do
        text[#text + 1] = line:match("^%-%-%-@%a+ (.*)$")
      end
      for name in table.concat(text, "\n"):gmatch("portico%.[%w.]*%u%w+") do
        assert.truthy(classes[name], name .. " is not declared")
      end
    end)
  end)
end

describe("the options classes", function()
  it("exist, with fields, and are named by each `options`", function()
    local classes = all_classes()
    for _, file in ipairs(FILES) do
      for _, block in ipairs(annotations.read(file.path).functions) do
        for _, param in ipairs(block.params) do
          if param.name == "options" then
            local name = param.text:match("^(portico%.%w+Options)%??")
            local class = classes[name]
            assert.truthy(class, block.name .. ": " .. param.text)
            while class.base and #class.fields == 0 do
              class = classes[class.base]
            end
            assert.is_true(#class.fields > 0, name)
          end
        end
      end
    end
  end)

  it("inherit from classes that exist, without repeating a field", function()
    local classes = all_classes()
    for name, class in pairs(classes) do
      local seen = {}
      while class do
        for _, field in ipairs(class.fields) do
          assert.is_nil(seen[field.name], name .. "." .. field.name)
          seen[field.name] = true
        end
        assert.is_true(not class.base or classes[class.base] ~= nil,
          name .. ": " .. tostring(class.base))
        class = class.base and classes[class.base]
      end
    end
  end)
end)

describe("annotations of both facades", function()
  -- A sync class is called portico.sync.X, so that editors do not take its
  -- members for waiting ones.
  local function comparable(text)
    return (text:gsub("portico%.sync%f[%W]", "portico"))
  end

  local function shapes(path)
    local list = {}
    for _, block in ipairs(annotations.read(path).functions) do
      local lines = { block.name .. "(" .. block.args .. ")" }
      for _, param in ipairs(block.params) do
        lines[#lines + 1] = "@param " .. param.name .. " " .. param.text
      end
      for _, text in ipairs(block.returns) do
        lines[#lines + 1] = "@return " .. text
      end
      lines[#lines + 1] = "@generic " .. tostring(block.generic)
      list[#list + 1] = comparable(table.concat(lines, "\n"))
    end
    return list
  end

  it("are the same but for ---@async", function()
    assert.same(shapes(FILES[1].path), shapes(FILES[2].path))
  end)

  it("declare the same classes with the same fields", function()
    local function classes(path)
      local list = {}
      for name, block in pairs(annotations.read(path).classes) do
        local lines = { tostring(block.base), tostring(block.overload) }
        for _, field in ipairs(block.fields) do
          lines[#lines + 1] = field.name .. " " .. field.text
        end
        list[comparable(name)] = comparable(table.concat(lines, "\n"))
      end
      return list
    end
    assert.same(classes(FILES[1].path), classes(FILES[2].path))
  end)
end)

it("types leave nothing behind", nothing_left)
