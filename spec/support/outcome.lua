-- Turns what calls gave into text that can be compared between the facades:
-- values with their exact types, errors with class, code, message and chain.
-- What must differ from run to run (ids, pids, times, temporary paths) is
-- replaced by its kind.

local errors = require("portico.errors")
local parity = require("spec.support.parity")

local outcome = {}

-- Fields whose value is another one each time: only the type is compared.
local VOLATILE = {
  duration = true, pid = true, created = true, expires = true, mtime = true,
  id = true, sandbox = true, where = true, traceback = true, owner = true,
  survivors = true,
}

local ERROR_FIELDS = {
  "operation", "path", "argv", "backend", "sandbox", "source", "retryable",
  "limit", "result", "cause", "suppressed", "others",
}

local Writer = {}
Writer.__index = Writer

-- Takes out of a text what is another one each time.
function Writer:clean(text)
  for _, pair in ipairs(self.names) do
    local from = 1
    while pair[1] ~= "" do
      local first, last = text:find(pair[1], from, true)
      if not first then
        break
      end
      text = text:sub(1, first - 1) .. pair[2] .. text:sub(last + 1)
      from = first + #pair[2]
    end
  end
  text = text:gsub("portico%.sync", "portico")
  text = text:gsub("0x%x+", "ADDRESS")
  text = text:gsub("pid %d+", "pid N")
  return (text:gsub("/portico%-local%-[%w_.-]+", "/WORKSPACE"))
end

local function sorted_keys(t)
  local keys = {}
  for key in next, t do
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    return tostring(a) < tostring(b)
  end)
  return keys
end

function Writer:fields(t, seen)
  local parts = {}
  for _, key in ipairs(sorted_keys(t)) do
    local value = t[key]
    local shown
    if type(key) ~= "string" and type(key) ~= "number" then
      goto continue -- the private handle
    elseif VOLATILE[key] then
      shown = math.type(value) or type(value)
    else
      shown = self:value(value, seen)
    end
    parts[#parts + 1] = self:value(key, seen) .. "=" .. shown
    ::continue::
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- An error, without what tells only where this run was.
function Writer:error(err, seen)
  local class = errors.class_of(err)
  local parts = {
    class.name, tostring(err.code), ("%q"):format(self:clean(err.message)),
  }
  for _, key in ipairs(ERROR_FIELDS) do
    local value = rawget(err, key)
    if value ~= nil then
      parts[#parts + 1] = key .. "=" .. (VOLATILE[key] and type(value)
        or self:value(value, seen))
    end
  end
  return "<" .. table.concat(parts, " ") .. ">"
end

function Writer:value(value, seen)
  local kind = type(value)
  if kind == "string" then
    return ("%q"):format(self:clean(value))
  elseif math.type(value) then
    return math.type(value) .. ":" .. tostring(value)
  elseif kind ~= "table" then
    return kind == "boolean" and tostring(value) or kind
  elseif seen[value] then
    return "SEEN"
  end
  seen[value] = true
  local name = parity.class_name(value)
  local text
  if errors.class_of(value) then
    text = self:error(value, seen)
  elseif name == "Result" then
    text = "Result" .. self:fields(value, seen)
  elseif name then
    text = "<" .. name .. ">"
  else
    text = self:fields(value, seen)
  end
  seen[value] = nil
  return text
end

-- Makes a writer; `names` is a list of {text, replacement}.
function outcome.writer(names)
  return setmetatable({ names = names }, Writer)
end

-- Shows packed results.
function Writer:results(results)
  local parts = {}
  for i = 1, results.n do
    parts[i] = self:value(results[i], {})
  end
  return "(" .. table.concat(parts, ", ") .. ")"
end

return outcome
