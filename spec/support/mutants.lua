-- Damaged copies of the sync facade, one for each kind of drift between two
-- facades that are kept by hand. The parity spec must notice each, and name
-- the kind.

-- Replaces a piece of text that must be there exactly once.
local function replace(text, old, new)
  local first, last = text:find(old, 1, true)
  assert(first, "not in the facade: " .. old)
  assert(not text:find(old, last + 1, true), "twice in the facade: " .. old)
  return text:sub(1, first - 1) .. new .. text:sub(last + 1)
end

local INFO = [[
function Sandbox:info(options)
  return core.sandbox_info(self, options)
end
]]

-- `edit` changes the text of the file; `damage` changes the loaded module and
-- gets the other facade, too.
return {
  {
    name = "a member missing", kind = "missing", path = "Sandbox.info",
    edit = function(text)
      return replace(text, INFO, "")
    end,
  },
  {
    name = "a module member missing", kind = "missing", path = "quote",
    edit = function(text)
      return replace(text, "return portico\n",
        "portico.quote = nil\nreturn portico\n")
    end,
  },
  {
    name = "a class missing", kind = "missing", path = "Iterator",
    edit = function(text)
      return replace(text, "portico.Iterator = Iterator\n", "")
    end,
  },
  {
    name = "a member extra", kind = "extra", path = "Sandbox.reboot",
    edit = function(text)
      return replace(text, INFO, INFO .. [[
function Sandbox:reboot(options)
  return core.sandbox_info(self, options)
end
]])
    end,
  },
  {
    name = "a changed arity", kind = "arity", path = "Sandbox.info",
    edit = function(text)
      return replace(text, "Sandbox:info(options)", "Sandbox:info()")
    end,
  },
  {
    name = "a renamed parameter", kind = "parameter", path = "Sandbox.info",
    edit = function(text)
      return replace(text, INFO, (INFO:gsub("options", "opts")))
    end,
  },
  {
    name = "varargs", kind = "vararg", path = "Sandbox.info",
    edit = function(text)
      return replace(text, "Sandbox:info(options)",
        "Sandbox:info(options, ...)")
    end,
  },
  {
    name = "a shared, unwrapped function", kind = "shared",
    path = "Sandbox.info",
    damage = function(module, other)
      module.Sandbox.info = other.Sandbox.info
    end,
  },
  {
    name = "a C function", kind = "native", path = "quote",
    damage = function(module)
      module.quote = string.format
    end,
  },
  {
    name = "functions of a factory", kind = "place",
    path = "Sandbox.processes",
    edit = function(text)
      return replace(text, INFO, [[
local function delegate(name)
  return function(self, options)
    return core[name](self, options)
  end
end
Sandbox.info = delegate("sandbox_info")
]]):gsub("function Sandbox:processes%(options%).-\nend\n", ""):gsub(
        "return portico\n",
        'Sandbox.processes = delegate("sandbox_processes")\n%0')
    end,
  },
  {
    name = "a wrong delegate", kind = "delegate", path = "Sandbox.info",
    edit = function(text)
      return replace(text, "core.sandbox_info(", "core.sandbox_processes(")
    end,
  },
  {
    name = "a second implementation", kind = "delegate",
    path = "Process.wait",
    edit = function(text)
      return replace(text, "  return core.process_wait(self, options)\n",
        "  core.process_poll(self)\n"
          .. "  return core.process_wait(self, options)\n")
    end,
  },
  {
    name = "swapped arguments", kind = "arguments",
    path = "FileSystem.rename",
    edit = function(text)
      return replace(text, "core.fs_rename(self, source, target, options)",
        "core.fs_rename(self, target, source, options)")
    end,
  },
  {
    name = "dropped options", kind = "arguments", path = "Sandbox.info",
    edit = function(text)
      return replace(text, "core.sandbox_info(self, options)",
        "core.sandbox_info(self)")
    end,
  },
  {
    name = "dropped results", kind = "results", path = "Process.chunks",
    edit = function(text)
      return replace(text, "return core.process_chunks(self, options)",
        "return (core.process_chunks(self, options))")
    end,
  },
  {
    name = "a metamethod missing", kind = "metamethod missing",
    path = "Process.__close",
    edit = function(text)
      return replace(text, "function process_metatable:__close(err)",
        "local function _(self, err)")
    end,
  },
  {
    name = "a metamethod extra", kind = "metamethod extra",
    path = "Process.__len",
    edit = function(text)
      return replace(text, "return portico\n", [[
function process_metatable:__len()
  return core.process_poll(self)
end
return portico
]])
    end,
  },
  {
    name = "a constant 1 -> 1.0", kind = "constant", path = "level",
    both = function(module)
      module.level = 1
    end,
    damage = function(module)
      module.level = 1.0
    end,
  },
  {
    name = "another version", kind = "constant", path = "version",
    damage = function(module)
      module.version = "0.1.1"
    end,
  },
  {
    name = "a class table that is a copy", kind = "class", path = "Sandbox",
    edit = function(text)
      return replace(text, "return portico\n", [[
portico.Sandbox = {}
for name, member in pairs(Sandbox) do
  portico.Sandbox[name] = member
end
return portico
]])
    end,
  },
  {
    name = "an __index proxy", kind = "proxy", path = "",
    damage = function(module, other)
      setmetatable(module, { __index = other })
    end,
  },
  {
    name = "a sync member that yields", kind = "yields",
    path = "Sandbox.info",
    edit = function(text)
      return replace(text, "  return core.sandbox_info(self, options)\n",
        "  coroutine.yield()\n  return core.sandbox_info(self, options)\n")
    end,
  },
}
