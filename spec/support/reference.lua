-- The reference in lua/README.md, out of the annotations: every module, class
-- and table of options with its members, their parameters in order, and the
-- first sentence about each. The types spec holds the annotations against the
-- functions, the readme spec holds this against the README.
--
-- `./dev reference` writes it there.

local annotations = require("spec.support.annotations")
local env = require("spec.support.env")

local reference = {}

local README = "lua/README.md"
local BEGIN = "<!-- reference: by ./dev reference, from the annotations -->\n"
local END = "<!-- end of reference -->\n"

-- Files in the order in which they are shown, and how a function of the
-- module itself is called there.
local MODULES = {
  { path = "lua/portico/init.lua", class = "portico",
    title = "`portico` and `portico.sync`" },
  { path = "lua/portico/errors.lua", class = "portico.errors",
    title = "`portico.errors`" },
  { path = "lua/portico/task.lua", class = "portico.task",
    title = "`portico.task`" },
  { path = "lua/portico/portal.lua", class = "portico.portal",
    title = "`portico.portal`" },
  { path = "lua/portico/coroutine.lua", class = "portico.coroutine",
    title = "`portico.coroutine`" },
  { path = "lua/portico/meta/types.lua",
    title = "Options, and plain data" },
}

-- "number? seconds" -> "number?", "seconds": a type has blanks only inside of
-- brackets and after a colon.
local function split_type(text)
  local depth, at = 0, 1
  while at <= #text do
    local c = text:sub(at, at)
    if c:find("[(<{%[]") then
      depth = depth + 1
    elseif c:find("[)>}%]]") then
      depth = depth - 1
    elseif c == " " and depth == 0 and text:sub(at - 1, at - 1) ~= ":" then
      break
    end
    at = at + 1
  end
  return text:sub(1, at - 1), text:sub(at + 1)
end

-- A type as readers know it, and as a cell of a table can hold it.
local function type_cell(text)
  return "`" .. text:gsub("portico%.sync%.", ""):gsub("portico%.(%u)", "%1")
    :gsub("|", "\\|") .. "`"
end

local function text_cell(text)
  return (text:gsub("|", "\\|"))
end

-- Up to a full stop that a new sentence follows.
local function first_sentence(doc)
  local text = table.concat(doc, " ")
  return text_cell(text:match("^(.-[^.]%.) [%u`]") or text)
end

local function short(class)
  return (class:gsub("^portico%.", ""))
end

-- One row of a function: the call, what it gives, what it does.
local function function_row(block)
  local member = block.name:match("[.:](.*)$")
  local gives, options = {}, ""
  for _, text in ipairs(block.returns) do
    gives[#gives + 1] = type_cell((split_type(text)))
  end
  for _, param in ipairs(block.params) do
    local class = param.name == "options"
      and split_type(param.text):match("^portico%.([%w.]+)%??$")
    options = class and (" (" .. class .. ")") or options
  end
  return ("| `%s(%s)` | %s | %s%s |"):format(member, block.args,
    table.concat(gives, ", "), first_sentence(block.doc), options)
end

local function field_row(field)
  local kind, text = split_type(field.text)
  return ("| `%s` | %s | %s |"):format(field.name, type_cell(kind),
    text_cell(text))
end

-- The functions of a class or module; metamethods are not called by name.
local function functions_of(parsed, owner)
  local rows = {}
  for _, block in ipairs(parsed.functions) do
    if block.name:match("^([%w_]+)[.:]") == owner then
      rows[#rows + 1] = function_row(block)
    end
  end
  return rows
end

local function fields_of(class)
  local rows = {}
  for _, field in ipairs(class.fields) do
    if not field.name:find("^__") then
      rows[#rows + 1] = field_row(field)
    end
  end
  return rows
end

local function add_table(lines, head, rows)
  if #rows > 0 then
    lines[#lines + 1] = head .. "\n|---|---|---|"
    table.move(rows, 1, #rows, #lines + 1, lines)
    lines[#lines + 1] = ""
  end
end

-- Classes of a file in the order in which they stand there.
local function in_order(classes)
  local list = {}
  for name, class in pairs(classes) do
    list[#list + 1] = { name = name, class = class }
  end
  table.sort(list, function(a, b) return a.class.at < b.class.at end)
  return list
end

local function add_class(lines, parsed, name, class)
  local members = functions_of(parsed, short(name))
  local fields = fields_of(class)
  if #members + #fields == 0 and not class.base then
    return
  end
  local base = class.base and (": all of " .. short(class.base)) or ""
  if #members + #fields > 0 and base ~= "" then
    base = base .. ", and"
  end
  lines[#lines + 1] = "**" .. short(name) .. "**" .. base .. "\n"
  add_table(lines, "| member | gives | |", members)
  add_table(lines, "| field | | |", fields)
end

local function add_module(lines, module)
  local parsed = annotations.read(module.path)
  lines[#lines + 1] = "### " .. module.title .. "\n"
  if module.class then
    local owner = module.class:match("([%w_]+)$")
    if owner == "coroutine" then
      owner = "library"
    end
    add_table(lines, "| function | gives | |", functions_of(parsed, owner))
    add_table(lines, "| field | | |", fields_of(parsed.classes[module.class]))
  end
  for _, entry in ipairs(in_order(parsed.classes)) do
    if entry.name ~= module.class then
      add_class(lines, parsed, entry.name, entry.class)
    end
  end
end

-- The whole text between the two marks.
function reference.render()
  local lines = {}
  for _, module in ipairs(MODULES) do
    add_module(lines, module)
  end
  return "\n" .. table.concat(lines, "\n") .. "\n"
end

-- What the README has, what is before it, and what is after.
function reference.split()
  local text = assert(env.read(README), README)
  local _, first = text:find(BEGIN, 1, true)
  local last = text:find(END, 1, true)
  assert(first and last, README .. " has no place for the reference")
  return text:sub(first + 1, last - 1), text:sub(1, first), text:sub(last)
end

function reference.write()
  local _, before, after = reference.split()
  env.write(README, before .. reference.render() .. after)
end

return reference
