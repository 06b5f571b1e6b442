-- The options that editors are told of (lua/portico/meta/types.lua) are those
-- that the C core takes: each call is made with an option that nothing is near
-- to, and the list in its error is held against the annotated fields.

local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local raises = facades.raises
local sync = require("portico.sync")

local nothing_left = leaks.frame()

local FAR = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"

-- The fields of each class of the file, those of its bases included.
local function read_classes(path)
  local classes, latest = {}, nil
  for line in io.lines(path) do
    local name, base = line:match("^%-%-%-@class portico%.(%w+):? ?(%S*)")
    local field = line:match("^%-%-%-@field ([%w_]+)")
    if name then
      latest = name
      classes[name] = {}
      for inherited in pairs(classes[base:match("portico%.(%w+)") or ""] or {})
      do
        classes[name][inherited] = true
      end
    elseif field then
      classes[latest][field] = true
    end
  end
  return classes
end

local function sorted(set)
  local names = {}
  for name in pairs(set) do
    names[#names + 1] = name
  end
  table.sort(names)
  return table.concat(names, " ")
end

-- What a call says that it takes.
local function known(fn, ...)
  local err = raises("InvalidArgumentError", fn, ...)
  local list = err.message:match("it takes (.*)$")
  assert.truthy(list, err.message)
  local set = {}
  for name in list:gmatch("[%w_]+") do
    set[name] = true
  end
  return set
end

describe("the error of a wrong option", function()
  facades.on_each(it, "names what it is in, and what would be right",
    function(_, sb)
      for text, options in pairs({
        ['unknown option "limits.memroy": did you mean "limits.memory"?'] = {
          limits = { memroy = 1 },
        },
        ['unknown option "limits.' .. FAR .. '": it takes memory, pids'] = {
          limits = { [FAR] = 1 },
        },
        ["input must be a string, or a function that returns strings (got 5)"] =
          { input = 5 },
      }) do
        local err = raises("InvalidArgumentError", sb.exec, sb, "true", options)
        assert.truthy(err.message:find(text, 1, true), err.message)
      end
    end)
end)

describe("options", function()
  local classes = read_classes("lua/portico/meta/types.lua")
  local bad = { [FAR] = 1 }
  local backend, sb, process

  lazy_setup(function()
    backend = sync.open("null")
    sb = backend:create()
    process = sb:spawn({ "sleep", "100" })
  end)

  lazy_teardown(function()
    backend:close()
  end)

  local function holds(class, name, call)
    it(("%s of %s"):format(class, name), function()
      assert.equal(sorted(classes[class]), sorted(known(call)))
    end)
  end

  holds("OpenOptions", "open", function()
    sync.open("null", nil, bad)
  end)
  holds("SandboxOptions", "sandbox", function()
    sync.sandbox(bad)
  end)
  holds("CreateOptions", "Backend:create", function()
    backend:create(bad)
  end)
  holds("Limits", "create's limits", function()
    backend:create({ limits = bad })
  end)
  holds("Mount", "create's mounts", function()
    backend:create({ mounts = { bad } })
  end)
  for _, name in ipairs({ "probe", "list", "close" }) do
    holds("CallOptions", "Backend:" .. name, function()
      backend[name](backend, bad)
    end)
  end
  holds("CallOptions", "Backend:destroy", function()
    backend:destroy("id", bad)
  end)
  holds("ExecOptions", "exec", function()
    sb:exec({ "true" }, bad)
  end)
  holds("ExecOptions", "output", function()
    sb:output({ "true" }, bad)
  end)
  holds("SpawnOptions", "spawn", function()
    sb:spawn({ "true" }, bad)
  end)
  for _, name in ipairs({ "info", "close" }) do
    holds("CallOptions", "Sandbox:" .. name, function()
      sb[name](sb, bad)
    end)
  end
  holds("ProcessesOptions", "Sandbox:processes", function()
    sb:processes(bad)
  end)
  holds("CallOptions", "Sandbox:process", function()
    sb:process(1, bad)
  end)
  for _, name in ipairs({ "read", "chunks", "close_stdin", "wait" }) do
    holds("CallOptions", "Process:" .. name, function()
      process[name](process, bad)
    end)
  end
  holds("CallOptions", "Process:wait_for", function()
    process:wait_for({ output = "x" }, bad)
  end)
  holds("Condition", "wait_for's condition", function()
    process:wait_for(bad)
  end)
  holds("LinesOptions", "Process:lines", function()
    process:lines(bad)
  end)
  holds("CallOptions", "Process:write", function()
    process:write("", bad)
  end)
  holds("CallOptions", "Process:signal", function()
    process:signal("TERM", bad)
  end)
  for _, name in ipairs({ "kill", "close" }) do
    holds("KillOptions", "Process:" .. name, function()
      process[name](process, bad)
    end)
  end
  for class, names in pairs({
    FileOptions = { "stat", "exists", "list" },
    ReadFileOptions = { "read" },
    MkdirOptions = { "mkdir" },
    RemoveOptions = { "remove" },
  }) do
    for _, name in ipairs(names) do
      holds(class, "FileSystem:" .. name, function()
        sb.fs[name](sb.fs, "/x", bad)
      end)
    end
  end
  for class, name in pairs({
    WriteFileOptions = "write", AppendFileOptions = "append",
    SymlinkOptions = "symlink",
  }) do
    holds(class, "FileSystem:" .. name, function()
      sb.fs[name](sb.fs, "/x", "y", bad)
    end)
  end
  holds("FileOptions", "FileSystem:chmod", function()
    sb.fs:chmod("/x", 0, bad)
  end)
  holds("FileOptions", "FileSystem:chown", function()
    sb.fs:chown("/x", 0, 0, bad)
  end)
  holds("FileOptions", "FileSystem:usage", function()
    sb.fs:usage("/x", bad)
  end)
  holds("CopyOptions", "FileSystem:copy", function()
    sb.fs:copy("/x", "/y", bad)
  end)
  holds("WalkOptions", "FileSystem:walk", function()
    sb.fs:walk("/x", bad)
  end)
  holds("GlobOptions", "FileSystem:glob", function()
    sb.fs:glob("/x", bad)
  end)
  holds("CallOptions", "FileSystem:readlink", function()
    sb.fs:readlink("/x", bad)
  end)
  holds("TemporaryOptions", "FileSystem:mktemp", function()
    sb.fs:mktemp(bad)
  end)
  holds("RenameOptions", "FileSystem:rename", function()
    sb.fs:rename("/x", "/y", bad)
  end)
end)

it("options leave nothing behind", nothing_left)
