-- Finding a sandbox that outlives its program, for `portico exec --in` and the
-- commands of boxes.lua.
--
-- Called with what exec.c offers, the modules of exec_options.lua and
-- exec_words.lua; returns the functions at the end. What ends a command is
-- raised as a table: {usage=text}, {failure=err} or {signal=number}.

local host, options = ...

-- Ends the command with an error, or, without one, as a signal ends it.
local function fail(err)
  error({ failure = err, signal = not err and (host.signal() or 2) or nil })
end

-- Calls a function of the library, which a signal interrupts.
local function try(fn, ...)
  local results = table.pack(host.attempt(fn, ...))
  if results[1] == nil then
    fail()
  elseif not results[1] then
    fail(results[2])
  end
  return table.unpack(results, 2, results.n)
end

-- A handler for xpcall: what was raised so, or a traceback.
local function caught(err)
  if type(err) == "table" and (err.usage or err.failure or err.signal) then
    return err
  end
  return debug.traceback(tostring(err), 2)
end

-- The names of the backends to look in.
local function candidates(plan)
  if plan.sandbox.backend then
    return { plan.sandbox.backend }
  end
  local names = {}
  for _, each in ipairs(require("portico.sync").backends()) do
    if each.name ~= "null" then
      names[#names + 1] = each.name
    end
  end
  return names
end

-- An open backend. Settings are of one, so not for each of several.
local function open(plan, name)
  if next(plan.settings) and not plan.sandbox.backend then
    options.refuse("--setting needs --backend: it is a setting of one")
  end
  return try(require("portico.sync").open, name, plan.settings)
end

-- The backend, open, in which a sandbox is; the caller closes it.
local function find(plan, id)
  local names = candidates(plan)
  for _, name in ipairs(names) do
    local backend = open(plan, name)
    for _, info in ipairs(try(backend.list, backend)) do
      if info.id == id then
        return backend
      end
    end
    backend:close()
  end
  fail({
    message = ("there is no sandbox '%s' (in %s); portico list shows those "
      .. "that there are"):format(id, table.concat(names, ", ")),
  })
end

local PATIENCE, GLANCE = 5, 0.05 -- seconds

-- Attaches to a sandbox. Who finds another program in it waits for a while.
local function attach(backend, id)
  local waited = 0
  while true do
    local ok, sandbox = host.attempt(backend.attach, backend, id)
    if ok then
      return sandbox
    elseif ok == nil then
      fail()
    elseif sandbox.code ~= "EBUSY" or waited >= PATIENCE then
      fail(sandbox)
    end
    try(require("portico.sync").sleep, GLANCE)
    waited = waited + GLANCE
  end
end

return {
  fail = fail, try = try, caught = caught, candidates = candidates,
  open = open, find = find, attach = attach,
}
