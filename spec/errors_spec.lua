-- portico.errors: classes, is, class_of, try, text.

local errors = require("portico.errors")
local core = require("portico.core")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local NAMES = {
  "Error", "InvalidArgumentError", "NotFoundError", "AlreadyExistsError",
  "PermissionError", "ClosedError", "SpawnError", "ExitError", "TimeoutError",
  "CancelledError", "LimitError", "UnsupportedError", "UnavailableError",
  "ConnectionError", "ProtocolError", "PluginError", "BackendError",
  "DeadlockError", "UsageError", "SystemError",
}

describe("error classes", function()
  it("are these, and in the core's table", function()
    local count = 0
    for name, class in pairs(errors) do
      if type(class) == "table" then
        count = count + 1
        assert.is_true(rawequal(core.error_classes[name], class), name)
        assert.equal(name, class.name)
        assert.equal("portico." .. name, class.__name)
      end
    end
    assert.equal(#NAMES, count)
    assert.is_nil(errors.Error.base)
    for _, name in ipairs(NAMES) do
      if name ~= "Error" then
        assert.equal(errors.Error, errors[name].base)
      end
    end
  end)

  it("are there for every code of the core", function()
    local count = 0
    for code, name in pairs(core.codes()) do
      count = count + 1
      assert.truthy(errors[name], code .. ": " .. tostring(name))
    end
    assert.is_true(count > 10)
    assert.equal("NotFoundError", core.codes().ENOENT)
    assert.equal("UsageError", core.codes().PCO_ENOTASK)
  end)

  it("stay the same when the module is loaded again", function()
    package.loaded["portico.errors"] = nil
    local again = require("portico.errors")
    package.loaded["portico.errors"] = errors
    for _, name in ipairs(NAMES) do
      assert.is_true(rawequal(errors[name], again[name]), name)
    end
    local err = errors.new(errors.LimitError, { message = "m" })
    assert.is_true(again.is(err, "LimitError"))
  end)
end)

describe("errors.new", function()
  it("takes a class or its name, and says so of everything else", function()
    local err = errors.new("LimitError", { message = "m" })
    assert.is_true(rawequal(errors.LimitError, errors.class_of(err)))
    for _, bad in ipairs({
      { "LimitEror", {}, '"LimitEror"' },
      { {}, {}, "table" },
      { nil, {}, "nil" },
      { "LimitError", "m", "string" },
      { "LimitError", nil, "nil" },
    }) do
      local ok, raised = pcall(errors.new, bad[1], bad[2])
      assert.is_false(ok)
      assert.is_true(errors.is(raised, "InvalidArgumentError"),
        tostring(raised))
      assert.truthy(raised.message:find("got " .. bad[3], 1, true),
        raised.message)
    end
  end)
end)

describe("errors.is and class_of", function()
  local err = errors.new(errors.TimeoutError, { message = "m" })

  it("know a class by itself, by name, and by its base", function()
    assert.is_true(errors.is(err, errors.TimeoutError))
    assert.is_true(errors.is(err, "TimeoutError"))
    assert.is_true(errors.is(err, errors.Error))
    assert.is_true(errors.is(err, "Error"))
    assert.is_false(errors.is(err, "LimitError"))
    assert.equal(errors.TimeoutError, errors.class_of(err))
  end)

  it("take any value for no error", function()
    for _, value in ipairs({
      "x", 5, true, {}, print, setmetatable({}, {}), errors.Error,
      setmetatable({}, { name = "Error" }), setmetatable({}, { name = {} }),
      io.stdout,
    }) do
      assert.is_false(errors.is(value, "Error"))
      assert.is_nil(errors.class_of(value))
    end
    assert.is_false(errors.is(nil, "Error"))
    assert.is_nil(errors.class_of(nil))
  end)

  it("refuse a misspelt class", function()
    for _, class in ipairs({ "Timeout", {}, 5, { name = "Error" } }) do
      local ok, problem = pcall(errors.is, err, class)
      assert.is_false(ok)
      assert.is_true(errors.is(problem, "InvalidArgumentError"))
    end
    assert.is_false((pcall(errors.is, err)))
  end)
end)

describe("errors.try", function()
  it("returns results with their holes", function()
    local results = table.pack(errors.try(function(...)
      return ...
    end, nil, 1, nil))
    assert.equal(3, results.n)
    assert.equal(1, results[2])
  end)

  it("returns nil and the error", function()
    for _, name in ipairs(NAMES) do
      local err = errors.new(errors[name], { message = "m" })
      local raised = name == "UsageError" or name == "DeadlockError"
        or name == "InvalidArgumentError" or name == "CancelledError"
      local ok, a, b = pcall(errors.try, error, err)
      assert.equal(not raised, ok, name)
      assert.is_true(rawequal(err, raised and a or b), name)
      if ok then
        assert.is_nil(a)
      end
    end
  end)

  it("raises errors that are not Portico's on", function()
    for _, value in ipairs({ "x", 5, {}, false }) do
      local ok, problem = pcall(errors.try, error, value, 0)
      assert.is_false(ok)
      assert.is_true(rawequal(value, problem))
    end
  end)

  it("can wait", function()
    local thread = coroutine.wrap(function()
      return errors.try(coroutine.yield, 1)
    end)
    assert.equal(1, thread())
    assert.equal(2, thread(2))
  end)
end)

describe("the text of an error", function()
  local function new(class, fields)
    return errors.new(errors[class], fields)
  end

  it("is where: operation: Class CODE: message", function()
    local err = new("NotFoundError", {
      where = "a.lua:3", operation = "fs.read", code = "ENOENT",
      message = "no such file or directory: x",
    })
    assert.equal("a.lua:3: fs.read: NotFoundError ENOENT: "
      .. "no such file or directory: x", tostring(err))
    assert.equal("Error", tostring(new("Error", {})))
  end)

  it("has a line for each link of the chain", function()
    local err = new("ConnectionError", {
      code = "PCO_EGONE", message = "gone",
      cause = new("ProtocolError", {
        code = "PCO_EPROTO", message = "bad frame",
        cause = new("SystemError", { code = "EIO", message = "i/o error" }),
      }),
      suppressed = { new("LimitError", { code = "ENOSPC", message = "full" }) },
    })
    assert.equal("ConnectionError PCO_EGONE: gone\n"
      .. "  caused by ProtocolError PCO_EPROTO: bad frame\n"
      .. "  caused by SystemError EIO: i/o error\n"
      .. "  while cleaning up: LimitError ENOSPC: full", tostring(err))
    err.suppressed = new("LimitError", { message = "one" })
    assert.truthy(tostring(err):find("cleaning up: LimitError: one", 1, true))
  end)

  it("ends, even if the chain does not", function()
    local a = new("Error", { message = "a" })
    local b = new("Error", { message = "b", cause = a })
    a.cause = b
    assert.equal("Error: a\n  caused by Error: b", tostring(a))
    a.cause = "a string"
    assert.equal("Error: a\n  caused by a string", tostring(a))
  end)

  it("is harmless on a terminal", function()
    local function shown(text)
      return (tostring(new("Error", { message = text })):gsub("^Error: ", ""))
    end
    assert.equal("a\\nb\\x1B[31m\\x07\\x7F\\x00", shown("a\nb\27[31m\7\127\0"))
    assert.equal("ü€𝄞", shown("ü€𝄞"))
    assert.equal("\\xFF\\xC3(", shown("\xff\xc3("))
    assert.equal("\\xC2\\x9B31m", shown("\u{9b}31m"))
    assert.equal("\\xE2\\x80\\xAE", shown("\u{202e}"))
    assert.equal("\\xED\\xA0\\x80", shown("\xed\xa0\x80"))
    for _, field in ipairs({ "where", "operation", "code" }) do
      local err = new("Error", { message = "m", [field] = "\27]0;x\7" })
      assert.is_nil(tostring(err):find("[\27\7]"))
    end
  end)

  it("joins on both sides", function()
    local err = new("Error", { message = "m" })
    assert.equal("x: Error: m", "x: " .. err)
    assert.equal("Error: m!", err .. "!")
    assert.equal("Error: mError: m", err .. err)
    assert.equal("5Error: m", 5 .. err)
    local ok, problem = pcall(function()
      return err .. {}
    end)
    assert.is_false(ok)
    assert.truthy(problem:find("errors_spec.lua:%d+: attempt to concatenate "
      .. "a table value"), problem)
  end)
end)

it("errors leave nothing behind", nothing_left)
