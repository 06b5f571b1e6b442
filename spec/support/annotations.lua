-- Reads LuaCATS annotations out of Lua files: the block of `---` lines above
-- each function, and the classes with their fields. Knows just what this
-- project writes; whatever it does not understand is an error, so that nothing
-- slips by unread.

local env = require("spec.support.env")

local annotations = {}

local KNOWN = {
  async = true, class = true, field = true, generic = true, meta = true,
  overload = true, param = true, ["return"] = true,
}

-- "name", "name?" of a @param or @field, and what follows.
local function split_name(text)
  local name, rest = text:match("^(%S+)%s+(.+)$")
  if not name then
    return text, ""
  end
  return name, rest
end

-- Adds one `---@tag text` line to a block.
local function add_tag(block, tag, text, place)
  if not KNOWN[tag] then
    error(place .. ": unknown annotation @" .. tag, 0)
  elseif tag == "async" then
    block.async = true
  elseif tag == "param" then
    local name, rest = split_name(text)
    block.params[#block.params + 1] = { name = name, text = rest }
  elseif tag == "return" then
    block.returns[#block.returns + 1] = text
  elseif tag == "field" then
    local name, rest = split_name(text)
    block.fields[#block.fields + 1] = { name = name, text = rest }
  elseif tag == "class" then
    local name, base = text:match("^([%w._]+):?%s*(.*)$")
    block.class, block.base = name, base ~= "" and base or nil
  elseif tag == "overload" or tag == "generic" then
    block[tag] = text
  end
end

local function new_block()
  return { params = {}, returns = {}, fields = {}, doc = {}, tags = 0 }
end

-- Reads the text of a file. Returns {functions = list of blocks with `name`
-- ("Sandbox:exec"), `line` and `args` as in the source; classes = name to
-- block, `at` its line}.
function annotations.parse(text, source)
  local found = { functions = {}, classes = {} }
  local block, number = new_block(), 0
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    local place = source .. ":" .. number
    local tag, rest = line:match("^%-%-%-@(%a+)%s*(.*)$")
    local doc = line:match("^%-%-%-(.*)$")
    local name, args = line:match("^function ([%w_.:]+)%((.-)%)")
    if tag then
      add_tag(block, tag, rest, place)
      block.tags = block.tags + 1
    elseif doc then
      block.doc[#block.doc + 1] = doc
    else
      if name then
        block.name, block.args, block.line = name, args, number
        found.functions[#found.functions + 1] = block
      end
      if block.class then
        if found.classes[block.class] then
          error(place .. ": class " .. block.class .. " twice", 0)
        end
        block.at = number
        found.classes[block.class] = block
      end
      block = new_block()
    end
  end
  return found
end

function annotations.read(path)
  return annotations.parse(assert(env.read(path), path), path)
end

-- The name that the parity spec gives to a function of a facade file:
-- "Sandbox:exec" is "Sandbox.exec", "sandbox_metatable:__close" is
-- "Sandbox.__close", "portico.run" is "run".
function annotations.path(name)
  local owner, member = name:match("^([%w_]+)[.:]([%w_]+)$")
  if not owner then
    return name
  end
  local class = owner:match("^(.*)_metatable$")
  if class then
    class = class:gsub("_?(%a)(%a*)", function(first, others)
      return first:upper() .. others
    end)
    return class .. "." .. member
  elseif owner:find("^%u") then
    return owner .. "." .. member
  end
  return member
end

return annotations
