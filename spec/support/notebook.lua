-- Runs scenarios and writes down what comes of it: see scenarios/.

local errors = require("portico.errors")
local facades = require("spec.support.facades")
local outcome = require("spec.support.outcome")

local notebook = {}

local Notebook = {}
Notebook.__index = Notebook

function Notebook:add(label, text)
  local lines = label:find("^\1") and self.unordered or self.lines
  lines[#lines + 1] = label:gsub("^\1", "") .. ": " .. text
end

function Notebook:note(label, ...)
  self:add(label, self.writer:results(table.pack(...)))
end

-- Writes down what a call gives; returns the error, if it raised one.
function Notebook:try(label, fn, ...)
  local results = table.pack(pcall(fn, ...))
  if results[1] then
    self:add(label, "returned "
      .. self.writer:results(table.pack(table.unpack(results, 2, results.n))))
    return nil
  end
  self:add(label, "raised " .. self.writer:value(results[2], {}))
  if errors.is(results[2], "InvalidArgumentError")
    and results[2].code ~= "PCO_EINVAL"
  then
    self.wrong[#self.wrong + 1] = label .. ": an InvalidArgumentError by "
      .. "the code " .. tostring(results[2].code)
  end
  return results[2]
end

-- The same, and the error must be of this class and, unless nil, code.
function Notebook:raises(class, code, label, fn, ...)
  local err = self:try(label, fn, ...)
  local lines = label:find("^\1") and self.unordered or self.lines
  if not errors.is(err, class) or code and err.code ~= code then
    self.wrong[#self.wrong + 1] = ("expected %s %s in %s"):format(class,
      code or "", lines[#lines])
  end
  return errors.is(err, "Error") and err or {}
end

local function new(facade, backend, sandbox, other)
  return setmetatable({
    facade = facade.name, backend = backend, other = other,
    lines = {}, unordered = {}, wrong = {},
    writer = outcome.writer({
      { sandbox.id, "ID" }, { other.sandbox.id, "OTHER" },
    }),
  }, Notebook)
end

function Notebook:text()
  table.sort(self.unordered)
  return table.concat(self.lines, "\n") .. "\n"
    .. table.concat(self.unordered, "\n")
end

-- Objects of one facade: backend, sandbox, fs, process (a cat with a pipe that
-- nobody reads), result, iterator (over the lines of another process), file,
-- watch where there is one, and a list of all.
local function make_objects(P, backend)
  local sandbox = P.sandbox({ backend = backend })
  local process = sandbox:spawn({ "cat" }, { stdin = "pipe" })
  local objects = {
    sandbox = sandbox, backend = sandbox.backend, fs = sandbox.fs,
    process = process, result = sandbox:exec({ "true" }),
    iterator = sandbox:spawn({ "cat" }, { stdin = "pipe" }):lines(),
    file = sandbox.fs:open(".file of the notebook", "w+"),
    watch = backend ~= "null" and sandbox.fs:watch(".") or nil,
  }
  objects.all = {
    objects.sandbox, objects.backend, objects.fs, objects.process,
    objects.result, objects.iterator, objects.file, objects.watch,
  }
  return objects
end

-- Makes objects of a facade and passes them to fn outside of any task; closes
-- them whatever happens.
function notebook.with_objects(facade, backend, fn)
  local objects = facades.call(facade, make_objects, backend)
  local ok, err = xpcall(fn, function(problem)
    return type(problem) == "string" and debug.traceback(problem, 2)
      or problem
  end, objects)
  objects.sandbox:close()
  if not ok then
    error(err, 0)
  end
end

-- Runs one scenario in one facade on one backend. Returns the text of what
-- came of it, and a list of what was not as the scenario insists.
function notebook.run(facade, scenario, backend, other)
  return facades.call(facade, function(P)
    local sandbox <close> = P.sandbox({ backend = backend })
    local notes = new(facade, backend, sandbox, other)
    notes:try("the scenario", scenario.fn, P, sandbox, notes)
    return notes:text(), notes.wrong
  end)
end

return notebook
