-- The error classes of Portico, and what scripts do with errors.
--
-- Everything that Portico raises is a table whose metatable is one of the
-- classes below. The C core makes these tables; it finds the classes by name
-- in `portico.core`.error_classes, a table that lives in the registry. This
-- file fills that table where it is still empty, so that loading the module a
-- second time (busted does it for every file) gives the very same classes, and
-- an `errors.is` in one file understands an error raised for another.
--
-- Both facades share this module: it never waits.

local core = require("portico.core")

-- What an error carries. Absent fields are nil.
---@class portico.Error
---@field message string what went wrong, for people
---@field code string stable name: "ENOENT", "PCO_EGONE", ...
---@field where string? "file:line" of the first Lua frame outside Portico
---@field operation string? what was called: "exec", "fs.read", ...
---@field path string? the file that it is about
---@field argv string[]? the command that it is about
---@field backend string? name of the backend
---@field sandbox string? id of the sandbox
---@field source "host"|"plugin"|"agent"|"remote"|nil who said it
---@field retryable boolean? doing the same again may work
---@field cause portico.Error? what led to it
---@field reason any what `cancel` was given (CancelledError)
---@field limit string? which limit was hit (LimitError)
---@field stage string? what was at fault, "program" and so on (SpawnError)
---@field written integer? bytes that a write had taken when it failed
---@field others portico.Error[]? errors of sibling tasks
---@field result portico.ResultFields? what a command had given so far
---@field traceback string? the stack at the call
---@field suppressed portico.Error|portico.Error[]|nil failed clean-ups

-- A class: the metatable of its errors. `name` is the plain name, `base` the
-- class it inherits from (nil for Error).
---@class portico.ErrorClass
---@field name string
---@field base portico.ErrorClass?
---@field __name string
---@field __tostring fun(self: portico.Error): string
---@field __concat fun(left: any, right: any): string

---@class portico.errors
---@field Error portico.ErrorClass base of all others
---@field InvalidArgumentError portico.ErrorClass a wrong argument or option
---@field NotFoundError portico.ErrorClass no such file, backend or process
---@field AlreadyExistsError portico.ErrorClass it is there already
---@field PermissionError portico.ErrorClass not allowed
---@field ClosedError portico.ErrorClass used after close
---@field SpawnError portico.ErrorClass a command could not be started
---@field ExitError portico.ErrorClass a command failed, and `check` was on
---@field TimeoutError portico.ErrorClass a command or a call took too long
---@field CancelledError portico.ErrorClass cancelled, or Ctrl-C
---@field LimitError portico.ErrorClass a quota or limit was in the way
---@field UnsupportedError portico.ErrorClass this backend never can
---@field UnavailableError portico.ErrorClass not on this machine now
---@field ConnectionError portico.ErrorClass the sandbox died under the call
---@field ProtocolError portico.ErrorClass the other side talks nonsense
---@field PluginError portico.ErrorClass a plugin was refused, or misbehaved
---@field BackendError portico.ErrorClass the backend failed
---@field DeadlockError portico.ErrorClass nothing can wake what waits
---@field UsageError portico.ErrorClass a bug in the script
---@field SystemError portico.ErrorClass any other errno
local errors = {}

local classes = core.error_classes

-- Bytes that a terminal might obey: C0, DEL, and whatever is above ASCII and
-- has to be looked at more closely. Written out since %c follows the locale.
local SUSPECT = "[\0-\31\127-\255]"

local SHORT_ESCAPES = { [9] = "\\t", [10] = "\\n", [13] = "\\r" }

-- Says whether a code point moves the cursor, starts a control sequence (C1)
-- or turns the direction of the text around it.
local function is_control(code_point)
  return code_point < 0x20
    or code_point >= 0x7f and code_point <= 0x9f
    or code_point >= 0x200b and code_point <= 0x200f
    or code_point >= 0x2028 and code_point <= 0x202e
    or code_point >= 0x2060 and code_point <= 0x206f
    or code_point == 0xfeff
end

-- Makes text from inside a sandbox harmless to print. Readable UTF-8 stays as
-- it is; control characters and bytes that are not UTF-8 become \n or \xNN.
local function escape(text)
  text = tostring(text)
  if not text:find(SUSPECT) then
    return text
  end
  local parts, position = {}, 1
  while position <= #text do
    local width, safe = 1, false
    if utf8.len(text, position, position) then
      local code_point = utf8.codepoint(text, position)
      width = #utf8.char(code_point)
      safe = not is_control(code_point)
    end
    if safe then
      parts[#parts + 1] = text:sub(position, position + width - 1)
    else
      for i = position, position + width - 1 do
        local byte = text:byte(i)
        parts[#parts + 1] = SHORT_ESCAPES[byte]
          or string.format("\\x%02X", byte)
      end
    end
    position = position + width
  end
  return table.concat(parts)
end

-- Deeper chains than this are a mistake of somebody, and must not flood; nor
-- must the errors of a thousand tasks.
local MAX_LINKS = 16

-- A host may give its scripts no debug library; no class of ours hides its
-- metatable.
local get_metatable = debug and debug.getmetatable or getmetatable

---Returns the class of an error of Portico, and nil for every other value:
---strings, tables of the script's own, the class tables themselves.
---@param value any
---@return portico.ErrorClass? class
function errors.class_of(value)
  local metatable = type(value) == "table" and get_metatable(value)
  local name = metatable and rawget(metatable, "name")
  if name ~= nil and classes[name] == metatable then
    return metatable
  end
  return nil
end

-- "Class CODE: message" of one link of a chain.
local function describe(err)
  local class = errors.class_of(err)
  if not class then
    return escape(err)
  end
  local text = class.name
  if err.code then
    text = text .. " " .. escape(err.code)
  end
  if err.message then
    text = text .. ": " .. escape(err.message)
  end
  return text
end

-- Appends one line per cause, then what failed while cleaning up and in
-- sibling tasks. A chain that bites its tail is cut.
local function append_chain(lines, err)
  local seen = { [err] = true }
  local link, count = err.cause, 0
  while link ~= nil and not seen[link] and count < MAX_LINKS do
    seen[link], count = true, count + 1
    lines[#lines + 1] = "  caused by " .. describe(link)
    link = errors.class_of(link) and link.cause
  end
  local suppressed = err.suppressed
  if errors.class_of(suppressed) or type(suppressed) == "string" then
    suppressed = { suppressed }
  end
  for _, other in ipairs(suppressed or {}) do
    lines[#lines + 1] = "  while cleaning up: " .. describe(other)
  end
  local others = err.others or {}
  for i = 1, math.min(#others, MAX_LINKS) do
    lines[#lines + 1] = "  also: " .. describe(others[i])
  end
  if #others > MAX_LINKS then
    lines[#lines + 1] = ("  and %d more"):format(#others - MAX_LINKS)
  end
end

-- `where: operation: Class CODE: message`, and one line per link of the chain.
local function to_string(self)
  local head = describe(self)
  if self.operation then
    head = escape(self.operation) .. ": " .. head
  end
  if self.where then
    head = escape(self.where) .. ": " .. head
  end
  local lines = { head }
  append_chain(lines, self)
  return table.concat(lines, "\n")
end

-- One operand of `..`: what strings can be joined with, and our errors. For
-- the rest the message is the one that Lua itself would give.
local function operand(value)
  local kind = type(value)
  if kind == "string" or kind == "number" then
    return value
  elseif errors.class_of(value) then
    return to_string(value)
  end
  error("attempt to concatenate a " .. kind .. " value", 3)
end

local function concat(left, right)
  return operand(left) .. operand(right)
end

-- Gives a class its name and behaviour, unless an earlier load of this module
-- made it already.
local function define(name, base)
  if not classes[name] then
    classes[name] = {
      name = name,
      base = base,
      __name = "portico." .. name,
      __tostring = to_string,
      __concat = concat,
    }
  end
  return classes[name]
end

errors.Error = define("Error", nil)
errors.InvalidArgumentError = define("InvalidArgumentError", errors.Error)
errors.NotFoundError = define("NotFoundError", errors.Error)
errors.AlreadyExistsError = define("AlreadyExistsError", errors.Error)
errors.PermissionError = define("PermissionError", errors.Error)
errors.ClosedError = define("ClosedError", errors.Error)
errors.SpawnError = define("SpawnError", errors.Error)
errors.ExitError = define("ExitError", errors.Error)
errors.TimeoutError = define("TimeoutError", errors.Error)
errors.CancelledError = define("CancelledError", errors.Error)
errors.LimitError = define("LimitError", errors.Error)
errors.UnsupportedError = define("UnsupportedError", errors.Error)
errors.UnavailableError = define("UnavailableError", errors.Error)
errors.ConnectionError = define("ConnectionError", errors.Error)
errors.ProtocolError = define("ProtocolError", errors.Error)
errors.PluginError = define("PluginError", errors.Error)
errors.BackendError = define("BackendError", errors.Error)
errors.DeadlockError = define("DeadlockError", errors.Error)
errors.UsageError = define("UsageError", errors.Error)
errors.SystemError = define("SystemError", errors.Error)

-- What `try` raises on: a bug in the script is mended, not handled; and a
-- cancellation that is swallowed leaves a task running that should end.
local NOT_FOR_TRY = {
  [errors.UsageError] = true,
  [errors.InvalidArgumentError] = true,
  [errors.CancelledError] = true,
  [errors.DeadlockError] = true,
}

-- Raises what is wrong with an argument.
local function bad_argument(operation, message)
  error(setmetatable({
    code = "PCO_EINVAL",
    operation = operation,
    message = message,
  }, errors.InvalidArgumentError), 0)
end

-- Finds a class by itself or by its name; a misspelt name is a bug, which
-- must not just say "no".
local function resolve(class, operation)
  if type(class) == "string" and classes[class] then
    return classes[class]
  elseif type(class) == "table" and classes[class.name] == class then
    return class
  end
  local shown = type(class) == "string" and ("%q"):format(class) or type(class)
  return bad_argument(operation, "bad argument 'class' (an error class or its "
    .. "name expected, got " .. shown .. ")")
end

---Makes an error of a class, without raising it: `error(errors.new(...), 0)`.
---For modules of Portico that are written in Lua, and for tests.
---@param class portico.ErrorClass|string the class, or its name
---@param fields table the fields of the error; `message` should be there
---@return portico.Error
function errors.new(class, fields)
  local found = resolve(class, "errors.new")
  if type(fields) ~= "table" then
    bad_argument("errors.new", "bad argument 'fields' (a table such as "
      .. "{message = \"...\"} expected, got " .. type(fields) .. ")")
  end
  local copy = {}
  for name, value in pairs(fields) do
    copy[name] = value
  end
  return setmetatable(copy, found)
end

---Says whether a value is an error of a class or of one that inherits from
---it. `errors.is(e, errors.Error)` asks for any error of Portico. Values of
---every other kind are no errors: false, never a failure.
---@param value any
---@param class portico.ErrorClass|string the class, or its name
---@return boolean
function errors.is(value, class)
  local wanted = resolve(class, "errors.is")
  local current = errors.class_of(value)
  while current do
    if current == wanted then
      return true
    end
    current = current.base
  end
  return false
end

-- Takes apart what pcall returned, with holes and trailing nils kept.
local function results_or_error(ok, ...)
  if ok then
    return ...
  end
  local err = ...
  local class = errors.class_of(err)
  if not class or NOT_FOR_TRY[class] then
    error(err, 0)
  end
  return nil, err
end

---Calls fn and returns its results, or nil and the error, for those who like
---the habit of `io.open`. Bugs (UsageError, InvalidArgumentError),
---CancelledError, DeadlockError and errors that are not Portico's are raised
---on, the same object. fn may wait.
---@generic T
---@param fn fun(...): T
---@param ... any arguments of fn
---@return T? result the results of fn, or nil
---@return portico.Error? err
function errors.try(fn, ...)
  return results_or_error(pcall(fn, ...))
end

return errors
