-- Both facades offer the same, in both directions, and delegate the same.
--
-- Everything is found by looking (spec/support/parity.lua), nothing is listed.
-- The checker is checked as well: damaged copies of a facade must make it fail
-- with the right kind of finding.

local annotations = require("spec.support.annotations")
local env = require("spec.support.env")
local mutants = require("spec.support.mutants")
local parity = require("spec.support.parity")
local recorder = require("spec.support.recorder")

local ASYNC_FILE = "lua/portico/init.lua"
local SYNC_FILE = "lua/portico/sync/init.lua"

-- What may differ, and why. An exception that is not needed is a failure.
local EXCEPTIONS = {
  {
    path = "errors", kind = "shared",
    reason = "error classes are the same on both sides, by identity",
  },
}
local TRACE_EXCEPTIONS = {
  {
    path = "Iterator.__call", kind = "arguments",
    reason = "what a generic for passes to its iterator means nothing to it",
  },
}

-- Loads a facade against the recorder; its objects are empty tables with the
-- metatables that the facade filled.
local function recorded(name, path, text)
  local module, core = recorder.load(path, text)
  local objects = {}
  for _, metatable in pairs(core[name].metatables) do
    objects[#objects + 1] = setmetatable({}, metatable)
  end
  return { name = name, module = module, objects = objects }, core.log
end

-- Compares two recorded sides in all ways.
local function check(left, left_log, right, right_log)
  local found = parity.except(parity.compare(left, right), EXCEPTIONS)
  local traces = parity.except(
    parity.compare_traces(left, right, left_log, right_log),
    TRACE_EXCEPTIONS)
  table.move(traces, 1, #traces, #found + 1, found)
  return found
end

describe("the facade files", function()
  it("offer the same members and delegate the same", function()
    local left, left_log = recorded("async", ASYNC_FILE)
    local right, right_log = recorded("sync", SYNC_FILE)
    assert.equal("", parity.report(check(left, left_log, right, right_log)))
  end)

  it("delegate to every operation that the core declares", function()
    for name, path in pairs({ async = ASYNC_FILE, sync = SYNC_FILE }) do
      local side, log = recorded(name, path)
      -- process_pipes is for `portico exec`; scripts have read and write.
      local used = { class = true, metatable = true, process_pipes = true }
      for _, op in pairs(parity.trace({}, side, log)) do
        used[op] = true
      end
      local extra, extra_log = recorded(name, name == "async"
        and "lua/portico/task.lua" or "lua/portico/portal.lua")
      for _, op in pairs(parity.trace({}, extra, extra_log)) do
        used[op] = true
      end
      for op in pairs(recorder.operations(name)) do
        assert.truthy(used[op], name .. " does not use " .. op)
      end
    end
  end)

  it("have a class behind every member of every object", function()
    local side = recorded("sync", SYNC_FILE)
    local count = 0
    for _ in pairs(parity.discover(side).bindings) do
      count = count + 1
    end
    -- A checker that finds nothing would report no difference either.
    assert.is_true(count >= 50, count .. " bindings found")
  end)

  for _, extra in ipairs({
    { name = "async", path = "lua/portico/task.lua" },
    { name = "sync", path = "lua/portico/portal.lua" },
  }) do
    it("beside them delegate, too: " .. extra.path, function()
      local side, log = recorded(extra.name, extra.path)
      local found = {}
      parity.trace(found, side, log)
      assert.equal("", parity.report(found))
    end)
  end
end)

describe("the parity checker notices", function()
  for _, mutant in ipairs(mutants) do
    it(mutant.name, function()
      local left, left_log = recorded("async", ASYNC_FILE)
      local text = env.read(SYNC_FILE)
      if mutant.edit then
        local edited = mutant.edit(text)
        assert.are_not.equal(text, edited)
        text = edited
      end
      local right, right_log = recorded("sync", SYNC_FILE, text)
      if mutant.both then
        mutant.both(left.module)
        mutant.both(right.module)
        assert.equal("",
          parity.report(check(left, left_log, right, right_log)))
      end
      if mutant.damage then
        mutant.damage(right.module, left.module)
      end
      local found = check(left, left_log, right, right_log)
      local caught = false
      for _, each in ipairs(found) do
        caught = caught
          or each.kind == mutant.kind and each.path == mutant.path
      end
      assert.is_true(caught, "not noticed; found only:\n"
        .. parity.report(found))
    end)
  end

  it("an exception that excepts nothing, or has no reason", function()
    local found = parity.except(
      { { kind = "extra", path = "a", text = "" } },
      { { kind = "extra", path = "a" }, { kind = "extra", path = "b" } })
    assert.equal(2, #found)
    assert.equal("exception", found[1].kind)
    assert.equal("exception", found[2].kind)
  end)
end)

-- The facades as they are, with the real core and objects of real calls.

local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local notebook = require("spec.support.notebook")
local errors = require("portico.errors")
local core = require("portico.core")

local nothing_left = leaks.frame()

-- The bindings of a file that are marked ---@async: path to true.
local function marked_async(path)
  local found = {}
  for _, block in ipairs(annotations.read(path).functions) do
    if block.async then
      found[annotations.path(block.name)] = true
    end
  end
  return found
end

-- A good argument for a parameter of this name.
local function argument(name, objects)
  local good = {
    path = "f", source = "f", target = "g", data = "x", id = "no-such-id",
    name = "null", command = { "true" }, pid = objects.process.pid,
    seconds = 0, fn = function() end, functions = {}, err = nil,
    mode = 384, user = 0, pattern = "*",
    settings = nil, options = nil, condition = { output = "x" },
  }
  return good[name]
end

-- Calls a binding outside of any task with good arguments.
local function call(path, fn, objects)
  local shape, args = parity.signature(fn), {}
  for i, name in ipairs(shape.names) do
    args[i] = argument(name, objects)
    if name == "self" then
      local class = path:match("^(%u%w*)%.")
      for _, object in ipairs(objects.all) do
        if parity.class_name(object) == class then
          args[i] = object
        end
      end
    end
  end
  if path == "sandbox" then
    args[1] = { backend = "null" }
  elseif path == "Process.signal" then
    args[2] = "TERM"
  elseif path == "Process.resize" then
    args[2], args[3] = 80, 24
  elseif path == "File.truncate" then
    args[2] = 0
  elseif path == "FileSystem.open" then
    args[3] = "r"
  end
  local ok, result = pcall(fn, table.unpack(args, 1, shape.nparams))
  -- An open reader would be in the way of the next one.
  if parity.class_name(result) == "Iterator" and not path:find("^Iterator") then
    result:close()
  end
  return ok, result
end

describe("the live facades", function()
  local async, sync = facades.list[1], facades.list[2]

  it("offer the same, and their objects use the module's classes", function()
    notebook.with_objects(async, "local", function(a)
      notebook.with_objects(sync, "local", function(b)
        local found = parity.compare(
          { name = "async", module = async.module, objects = a.all },
          { name = "sync", module = sync.module, objects = b.all })
        assert.equal("", parity.report(parity.except(found, EXCEPTIONS)))
      end)
    end)
  end)

  it("have the operations that the core's types declare", function()
    for _, name in ipairs({ "async", "sync" }) do
      local declared = recorder.operations(name)
      for op in pairs(core[name]) do
        assert.truthy(declared[op], name .. ": undeclared " .. op)
      end
      for op in pairs(declared) do
        assert.equal("function", type(core[name][op]), name .. "." .. op)
      end
    end
  end)

  it("wait only in tasks: PCO_ENOTASK where marked ---@async", function()
    local waiting = marked_async(ASYNC_FILE)
    notebook.with_objects(async, "local", function(objects)
      local bindings = parity.discover({
        name = "async", module = async.module, objects = objects.all,
      }).bindings
      local wrong, count = {}, 0
      for path, binding in pairs(bindings) do
        if not path:find("close$") and not path:find("^errors%.") then
          local ok, err = call(path, binding.fn, objects)
          local refused = not ok and errors.is(err, "UsageError")
            and err.code == "PCO_ENOTASK"
          count = count + (waiting[path] and 1 or 0)
          if refused ~= (waiting[path] or false) then
            wrong[#wrong + 1] = path .. ": " .. tostring(err)
          end
        end
      end
      table.sort(wrong)
      assert.equal("", table.concat(wrong, "\n"))
      assert.is_true(count >= 20)
    end)
  end)

  it("wait only in tasks: portico.task", function()
    local task = require("portico.task")
    local waiting = marked_async("lua/portico/task.lua")
    local function nothing() end
    local objects = {
      Event = task.event(), Semaphore = task.semaphore(1),
      Channel = task.channel(1),
    }
    task.run(task.scope, function(scope)
      objects.Scope, objects.Task = scope, task.current()
      local permit = objects.Semaphore:acquire()
      objects.Permit = permit
    end)
    local args = {
      all = { { nothing } }, first = { { nothing } }, semaphore = { 1 },
      channel = { 1 }, sleep = { 0 }, timeout = { 1, nothing },
      ["Channel.send"] = { 1 },
    }
    local count = 0
    local function try(path, fn, object)
      local given = args[path] or { not object and nothing or nil }
      local ok, err
      if object then
        ok, err = pcall(fn, object, table.unpack(given))
      else
        ok, err = pcall(fn, table.unpack(given))
      end
      local refused = not ok and errors.is(err, "UsageError")
        and err.code == "PCO_ENOTASK"
      assert.equal(waiting[path] or false, refused,
        path .. ": " .. tostring(err))
      count = count + 1
    end
    for name, member in pairs(task) do
      if type(member) == "function" then
        try(name, member)
      elseif name ~= "Channel" then
        for method, fn in pairs(member) do
          try(name .. "." .. method, fn, objects[name])
        end
      end
    end
    for _, method in ipairs({ "send", "receive", "values", "close" }) do
      try("Channel." .. method, task.Channel[method], objects.Channel)
    end
    assert.is_true(count >= 30, count)
  end)

  it("close outside of tasks", function()
    notebook.with_objects(async, "local", function(objects)
      assert.is_true(objects.iterator:close())
      assert.is_true(objects.process:close())
      assert.is_true(objects.sandbox:close())
      assert.is_false(objects.sandbox:close())
      objects.backend:close()
    end)
  end)

  it("have the same classes when they are loaded again", function()
    local names = {
      "portico", "portico.sync", "portico.errors", "portico.task",
      "portico.portal", "portico.core",
    }
    local saved = {}
    for _, name in ipairs(names) do
      saved[name], package.loaded[name] = package.loaded[name], nil
    end
    local again, again_sync = require("portico"), require("portico.sync")
    local classes = require("portico.errors")
    for _, name in ipairs(names) do
      package.loaded[name] = saved[name]
    end
    assert.are_not.equal(async.module, again)
    for _, pair in ipairs({
      { async.module, again }, { sync.module, again_sync },
    }) do
      for name, value in pairs(pair[1]) do
        if name:find("^%u") then
          assert.is_true(rawequal(value, pair[2][name]), name)
        end
      end
    end
    for name, class in pairs(errors) do
      if name:find("^%u") then
        assert.is_true(rawequal(class, classes[name]), name)
      end
    end
  end)

end)

describe("annotations", function()
  it("of the sync facade mark nothing ---@async", function()
    assert.same({}, marked_async(SYNC_FILE))
  end)
end)

it("looking at facades leaves nothing behind", nothing_left)
