-- Compares two facades: the same members, parameters, metamethods, constants,
-- and the same delegation. Works on any pair, so that the spec can also hand
-- it damaged copies and see that each kind of damage is noticed.
--
-- A side is {name, module, objects}: the table that `require` gave, and live
-- objects of every class. Nothing is taken from lists: members are found by
-- walking the module and the metatables of the objects. Differences are
-- returned as findings {kind, path, text}.

local parity = {}

local function finding(found, kind, path, text)
  found[#found + 1] = { kind = kind, path = path, text = text }
end

-- All keys of two tables, sorted.
local function union(a, b)
  local keys, seen = {}, {}
  for _, t in ipairs({ a, b }) do
    for key in next, t do
      if not seen[key] then
        seen[key] = true
        keys[#keys + 1] = key
      end
    end
  end
  table.sort(keys, function(x, y)
    return tostring(x) < tostring(y)
  end)
  return keys
end

-- The class name of a live object ("Sandbox"), or nil.
local function class_name(value)
  local metatable = type(value) == "table" and debug.getmetatable(value)
  local name = metatable and rawget(metatable, "__name")
  return type(name) == "string" and name:match("^portico%.(%u%w*)$")
    or nil, metatable
end
parity.class_name = class_name

local function is_error(value)
  local metatable = debug.getmetatable(value)
  return metatable and rawget(metatable, "base") ~= nil
end

-- Objects that can be reached from the given ones through their fields, by
-- class name; the first of each class stands for it.
local function reach(objects)
  local by_class, queue, seen = {}, {}, {}
  for _, object in ipairs(objects) do
    queue[#queue + 1] = object
  end
  while #queue > 0 do
    local object = table.remove(queue, 1)
    if not seen[object] then
      seen[object] = true
      local name = class_name(object)
      if name and not is_error(object) then
        by_class[name] = by_class[name] or object
        for _, value in next, object do
          if class_name(value) then
            queue[#queue + 1] = value
          end
        end
      end
    end
  end
  return by_class
end

-- Walks a table of the module; functions are bindings, tables are walked, the
-- rest are constants.
local function walk(side, found, path, t)
  if found.tables[t] then
    return
  end
  found.tables[t] = path
  if debug.getmetatable(t) and path ~= "errors" then
    finding(found.findings, "proxy", path,
      "has a metatable, so its members cannot be seen")
  end
  for key, value in next, t do
    local where = path == "" and tostring(key)
      or path .. "." .. tostring(key)
    if type(value) == "function" then
      found.bindings[where] = { fn = value, owner = t, key = key }
    elseif type(value) == "table" then
      found.values[where] = value
      if not side.shared or side.shared[where] ~= value then
        walk(side, found, where, value)
      end
    else
      found.constants[where] = value
    end
  end
end

-- Adds what the metatable of a class's objects holds.
local function walk_object(side, found, name, object)
  local _, metatable = class_name(object)
  local index = rawget(metatable, "__index")
  if type(index) ~= "table" then
    finding(found.findings, "proxy", name, "__index is no table")
  elseif index ~= rawget(side.module, name) then
    finding(found.findings, "class", name,
      "the class of live objects is not the module's member " .. name)
    walk(side, found, name .. " (live)", index)
  end
  for key, value in next, metatable do
    local where = name .. "." .. tostring(key)
    if type(value) == "function" then
      found.bindings[where] = { fn = value, owner = metatable, key = key }
    elseif key ~= "__index" then
      found.constants[where] = value
    end
  end
  for key, value in next, object do
    if type(key) == "string" then
      found.fields[name .. "." .. key] = math.type(value) or type(value)
    end
  end
end

-- Finds everything that a side offers.
function parity.discover(side)
  local found = {
    bindings = {}, constants = {}, values = {}, tables = {}, fields = {},
    findings = {}, classes = {},
  }
  walk(side, found, "", side.module)
  for name, object in pairs(reach(side.objects)) do
    found.classes[name] = object
    walk_object(side, found, name, object)
  end
  for key, value in next, side.module do
    if type(value) == "table" and tostring(key):find("^%u")
      and not found.classes[key]
    then
      finding(found.findings, "unreached", tostring(key),
        "no live object of this class was reached")
    end
  end
  for _, each in ipairs(found.findings) do
    each.text = side.name .. ": " .. each.text
  end
  return found
end

-- {nparams, vararg, names, place} of a Lua function.
local function signature(fn)
  local info = debug.getinfo(fn, "uS")
  local names = {}
  for i = 1, info.nparams do
    names[i] = debug.getlocal(fn, i) or "?"
  end
  return {
    lua = info.what == "Lua",
    nparams = info.nparams,
    vararg = info.isvararg,
    names = names,
    place = info.source .. ":" .. info.linedefined,
  }
end
parity.signature = signature

-- Compares one binding that both sides have.
local function compare_binding(found, path, a, b)
  if a == b then
    return finding(found, "shared", path,
      "one function for both sides: nothing is wrapped")
  end
  local left, right = signature(a), signature(b)
  if not left.lua or not right.lua then
    return finding(found, "native", path, "is no Lua function")
  end
  if left.nparams ~= right.nparams then
    finding(found, "arity", path, ("%d and %d parameters")
      :format(left.nparams, right.nparams))
  end
  if left.vararg ~= right.vararg then
    finding(found, "vararg", path, "only one side takes varargs")
  end
  for i = 1, math.min(left.nparams, right.nparams) do
    if left.names[i] ~= right.names[i] then
      finding(found, "parameter", path, ("parameter %d is %s and %s")
        :format(i, left.names[i], right.names[i]))
    end
  end
end

local function compare_bindings(found, a, b)
  for _, path in ipairs(union(a.bindings, b.bindings)) do
    local left, right = a.bindings[path], b.bindings[path]
    local kind = path:find("%.__") and "metamethod " or ""
    if not right then
      finding(found, kind .. "missing", path, "only on the first side")
    elseif not left then
      finding(found, kind .. "extra", path, "only on the second side")
    else
      compare_binding(found, path, left.fn, right.fn)
    end
  end
end

local function compare_constants(found, a, b)
  for _, path in ipairs(union(a.constants, b.constants)) do
    local left, right = a.constants[path], b.constants[path]
    if left ~= right or type(left) ~= type(right)
      or math.type(left) ~= math.type(right)
    then
      finding(found, "constant", path, ("%s (%s) and %s (%s)"):format(
        tostring(left), math.type(left) or type(left),
        tostring(right), math.type(right) or type(right)))
    end
  end
end

local function compare_values(found, a, b)
  for _, path in ipairs(union(a.values, b.values)) do
    local left, right = a.values[path], b.values[path]
    if not right then
      finding(found, "missing", path, "only on the first side")
    elseif not left then
      finding(found, "extra", path, "only on the second side")
    elseif left == right then
      finding(found, "shared", path, "one table for both sides")
    end
  end
end

local function compare_objects(found, a, b)
  for _, name in ipairs(union(a.classes, b.classes)) do
    if not a.classes[name] or not b.classes[name] then
      finding(found, "unreached", name, "objects of one side only")
    end
  end
  for _, path in ipairs(union(a.fields, b.fields)) do
    if a.fields[path] ~= b.fields[path] then
      finding(found, "field", path, ("%s and %s"):format(
        tostring(a.fields[path]), tostring(b.fields[path])))
    end
  end
end

-- Every binding stands at a place of its own: a function made by a factory, or
-- one that two members share, has the place of another.
local function compare_places(found, sides)
  local seen = {}
  for _, each in ipairs(sides) do
    for _, path in ipairs(union(each.bindings, {})) do
      local place = signature(each.bindings[path].fn).place
      if seen[place] then
        finding(found, "place", path, "is declared at the same place as "
          .. seen[place] .. " (" .. place .. ")")
      end
      seen[place] = path
    end
  end
end

-- Compares what two sides offer.
function parity.compare(left, right)
  -- A table that both modules hold is noticed as such, and not walked.
  local shared = {}
  for key, value in next, left.module do
    if type(value) == "table" and rawequal(rawget(right.module, key), value)
    then
      shared[key] = value
    end
  end
  left.shared, right.shared = shared, shared
  local a, b = parity.discover(left), parity.discover(right)
  local found = {}
  table.move(a.findings, 1, #a.findings, 1, found)
  table.move(b.findings, 1, #b.findings, #found + 1, found)
  compare_bindings(found, a, b)
  compare_constants(found, a, b)
  compare_values(found, a, b)
  compare_objects(found, a, b)
  compare_places(found, { a, b })
  return found
end

-- Marked arguments for a function: one for each parameter, and three for the
-- varargs with a hole, which must come through as it is.
local function marked(fn)
  local shape = signature(fn)
  local args = {}
  for i = 1, shape.nparams do
    args[i] = setmetatable({}, { __name = shape.names[i] })
  end
  local n = shape.nparams
  if shape.vararg then
    args[n + 1], args[n + 3] = { "vararg" }, { "vararg" }
    n = n + 3
  end
  args.n = n
  return args
end

local function same(a, b)
  if a.n ~= b.n then
    return false
  end
  for i = 1, a.n do
    if not rawequal(a[i], b[i]) then
      return false
    end
  end
  return true
end

-- Calls one binding with marked arguments, in a coroutine. Returns the name of
-- the operation that it delegated to.
local function trace(found, side, path, fn, log)
  for i = #log, 1, -1 do
    log[i] = nil
  end
  local args = marked(fn)
  local thread = coroutine.create(fn)
  local results = table.pack(
    coroutine.resume(thread, table.unpack(args, 1, args.n)))
  if coroutine.status(thread) ~= "dead" then
    finding(found, "yields", path, side.name .. ": yields by itself")
    return nil
  elseif not results[1] then
    finding(found, "fails", path, side.name .. ": " .. tostring(results[2]))
    return nil
  elseif #log ~= 1 then
    finding(found, "delegate", path, ("%s: %d operations called")
      :format(side.name, #log))
    return nil
  end
  local call = log[1]
  if not same(args, call.args) then
    finding(found, "arguments", path, side.name .. ": " .. call.op
      .. " does not get the arguments as they were given")
  end
  local got = table.pack(table.unpack(results, 2, results.n))
  if not same(got, call.results) then
    finding(found, "results", path, side.name .. ": the results of " .. call.op
      .. " are not returned as they are")
  end
  return call.op
end

-- Finds out what each binding of a side delegates to: path to operation.
function parity.trace(found, side, log)
  local operations, users = {}, {}
  local bindings = parity.discover(side).bindings
  for _, path in ipairs(union(bindings, {})) do
    local op = trace(found, side, path, bindings[path].fn, log)
    operations[path] = op
    if op and not path:find("%.__") then
      if users[op] then
        finding(found, "delegate", path, side.name .. ": " .. op
          .. " is what " .. users[op] .. " calls")
      end
      users[op] = path
    end
  end
  return operations
end

-- Compares what the bindings of two recorded sides delegate to.
function parity.compare_traces(left, right, left_log, right_log)
  local found = {}
  local a = parity.trace(found, left, left_log)
  local b = parity.trace(found, right, right_log)
  for _, path in ipairs(union(a, b)) do
    if a[path] and b[path] and a[path] ~= b[path] then
      finding(found, "delegate", path, ("%s and %s"):format(a[path], b[path]))
    end
  end
  return found
end

-- Takes the excepted findings away. An exception is {path, kind, reason}; one
-- without a reason, or that excepts nothing, is a finding itself.
function parity.except(findings, exceptions)
  local rest, used = {}, {}
  for _, each in ipairs(findings) do
    local excepted = false
    for i, exception in ipairs(exceptions) do
      if exception.path == each.path and exception.kind == each.kind then
        excepted, used[i] = true, true
      end
    end
    if not excepted then
      rest[#rest + 1] = each
    end
  end
  for i, exception in ipairs(exceptions) do
    if not used[i] then
      finding(rest, "exception", exception.path,
        "excepts nothing (" .. exception.kind .. ")")
    elseif not exception.reason or exception.reason == "" then
      finding(rest, "exception", exception.path, "gives no reason")
    end
  end
  return rest
end

-- Findings as text, one a line.
function parity.report(findings)
  local lines = {}
  for _, each in ipairs(findings) do
    lines[#lines + 1] = ("%s: %s: %s"):format(each.kind, each.path, each.text)
  end
  return table.concat(lines, "\n")
end

-- Replaces each binding of a side by one that counts its calls; returns the
-- counts and a function that puts everything back. The counting function is
-- left by a tail call, so it does not stand in tracebacks.
function parity.count_calls(side)
  local counts, undo = {}, {}
  for path, binding in pairs(parity.discover(side).bindings) do
    local fn = binding.fn
    counts[path] = 0
    rawset(binding.owner, binding.key, function(...)
      counts[path] = counts[path] + 1
      return fn(...)
    end)
    undo[#undo + 1] = binding
  end
  return counts, function()
    for _, binding in ipairs(undo) do
      rawset(binding.owner, binding.key, binding.fn)
    end
  end
end

return parity
