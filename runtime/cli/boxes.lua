-- portico create, list, rm, cp, ls and cat: sandboxes that outlive the command
-- line. Each of these programs attaches to one, does its work, and lets it go.
--
-- Called with what exec.c offers, the modules of exec_options.lua,
-- exec_words.lua and find.lua, the word of the command and its arguments;
-- returns the exit code.

local host, options, words, find = ...

local FAILED, USAGE = 1, 2
local CHUNK = 256 * 1024 -- bytes of a file at once

local fail, try = find.fail, find.try

-- Attaches to a sandbox, calls a function with it, and lets it go again.
-- Whatever comes of that, the sandbox lives on.
local function with(plan, id, fn)
  local backend <close> = find.find(plan, id)
  local sandbox = find.attach(backend, id)
  local ok, err = pcall(fn, sandbox)
  local left, why = pcall(sandbox.detach, sandbox)
  if not ok then
    error(err, 0)
  elseif not left then
    fail(why)
  end
end

-- ---- words that name files -------------------------------------------------

-- The id and the path of ID:PATH, nil for a path of this machine.
local function split(text)
  local id, path = text:match("^(%w[%w._-]*):(.*)$")
  if id and #id <= 64 then
    return id, path
  end
end

local function inside(text, command)
  local id, path = split(text)
  if not id then
    options.refuse("'%s' is not a path in a sandbox, which is written ID:PATH; "
      .. "portico %s --help", text, command)
  end
  return id, path
end

-- The last name of a path; nil where that is no name that a copy could have.
local function name_of(path)
  local name = path:match("([^/]+)/*$")
  return name ~= "." and name ~= ".." and name or nil
end

-- ---- create, list, rm ------------------------------------------------------

local run = {}

-- Prints the id of a new sandbox. If nobody can have read it the sandbox ends:
-- it would live on unknown.
local function tell_id(plan, name, id)
  local backend <close> = find.open(plan, name)
  host.begin(false) -- a reader that is gone is an error, not the end
  local written, why = host.emit(id .. "\n")
  if written then
    return
  end
  pcall(backend.destroy, backend, id)
  fail(why and {
    message = "cannot write the id to stdout, so the sandbox was ended: "
      .. why,
  })
end

function run.create(plan)
  local sandbox_options = plan.sandbox
  if plan.argv[1] then
    options.refuse("create takes no command (got '%s'); portico exec --in ID "
      .. "runs one", plan.argv[1])
  end
  sandbox_options.detachable = true
  sandbox_options.env = next(plan.command.env) and plan.command.env or nil
  sandbox_options.cwd = plan.command.cwd
  sandbox_options.user = plan.command.user
  local sandbox = try(require("portico.sync").sandbox, sandbox_options)
  for _, each in ipairs(plan.uploads) do
    local bar, done = words.new_bar("upload")
    local ok, err = pcall(try, sandbox.upload, sandbox, each.source,
      each.target, { parents = true, on_progress = not plan.quiet and bar })
    done()
    if not ok then
      pcall(sandbox.close, sandbox)
      error(err, 0)
    end
  end
  tell_id(plan, sandbox.backend.name, try(sandbox.detach, sandbox))
end

-- A moment, as people of this machine write it.
local function moment(seconds)
  return seconds and seconds > 0 and os.date("%Y-%m-%d %H:%M:%S",
    math.floor(seconds)) or "-"
end

local function print_table(rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, text in ipairs(row) do
      widths[i] = math.max(widths[i] or 0, #text)
    end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for i, text in ipairs(row) do
      cells[i] = i < #row and ("%-" .. widths[i] .. "s"):format(text) or text
    end
    print((table.concat(cells, "  ")))
  end
end

function run.list(plan)
  local rows = { { "ID", "BACKEND", "STATE", "PID", "CREATED", "EXPIRES" } }
  if plan.argv[1] then
    options.refuse("list takes no words (got '%s')", plan.argv[1])
  end
  require("portico.sync").set_logger(words.remark_log)
  for _, name in ipairs(find.candidates(plan)) do
    local backend <close> = find.open(plan, name)
    for _, info in ipairs(try(backend.list, backend)) do
      local owner = info.owner and tostring(info.owner):match("(%d+)$")
      rows[#rows + 1] = {
        info.id, name, info.state or "-", owner or "-", moment(info.created),
        moment(info.expires),
      }
    end
  end
  if not plan.quiet then
    print_table(rows)
    return
  end
  for i = 2, #rows do
    print(rows[i][1])
  end
end

function run.rm(plan)
  local code = 0
  if not plan.argv[1] then
    options.refuse("rm takes the ids of sandboxes; portico list shows them")
  end
  for _, id in ipairs(plan.argv) do
    local ok, err = pcall(function()
      local backend <close> = find.find(plan, id)
      try(backend.destroy, backend, id)
    end)
    if not ok and (type(err) ~= "table" or not err.failure) then
      error(err, 0)
    elseif not ok then
      words.report(err.failure)
      code = FAILED
    end
  end
  return code
end

-- ---- cp --------------------------------------------------------------------

-- Where a source arrives: in a directory under its own name, unless it is one.
-- What is in "." and the like, which have none, arrives in that itself.
local function target_of(source, target, is_directory, source_is_directory)
  local into = target == "" or target:sub(-1) == "/" or target == "."
    or is_directory and not source_is_directory
  local name = into and name_of(source)
  target = target == "" and "." or target
  return name and target:gsub("/*$", "") .. "/" .. name or target
end

local function is_directory_inside(sandbox, path)
  local ok, stat = host.attempt(sandbox.fs.stat, sandbox.fs,
    path == "" and "." or path)
  return ok and stat.type == "directory"
end

local function report_skipped(result)
  for _, skipped in ipairs(result.skipped) do
    host.say(("%s: left out: %s"):format(skipped.path, skipped.message))
  end
  return #result.skipped > 0 and FAILED or 0
end

-- Copies one way; `method` is upload or download.
local function copy(plan, sandbox, method, source, target)
  local bar, done = words.new_bar(name_of(source) or source)
  local ok, result = pcall(try, sandbox[method], sandbox, source, target, {
    parents = true, on_progress = not plan.quiet and bar or nil,
    on_error = method == "download" and "skip" or nil,
  })
  done()
  if not ok then
    error(result, 0)
  end
  return report_skipped(result)
end

function run.cp(plan)
  local source, target = plan.argv[1], plan.argv[2]
  if not target or plan.argv[3] then
    options.refuse("cp takes two words: SOURCE ID:TARGET or ID:SOURCE TARGET")
  end
  local from, from_path = split(source)
  local to, to_path = split(target)
  from_path = from_path == "" and "." or from_path -- all that is there
  if (from == nil) == (to == nil) then
    options.refuse(from and "both %s and %s are in sandboxes; one has to be of "
      .. "this machine" or "neither %s nor %s is in a sandbox: ID:PATH", source,
      target)
  end
  local code
  with(plan, from or to, function(sandbox)
    if to then
      local place = target_of(source, to_path,
        is_directory_inside(sandbox, to_path), host.is_directory(source))
      code = copy(plan, sandbox, "upload", source, place)
    else
      local place = target_of(from_path, target, host.is_directory(target),
        is_directory_inside(sandbox, from_path))
      code = copy(plan, sandbox, "download", from_path, place)
    end
  end)
  return code
end

-- ---- ls, cat ---------------------------------------------------------------

local KINDS = { directory = "d", symlink = "l", file = "-" }

local function permissions(stat)
  local letters = { KINDS[stat.type] or "?" }
  for i = 8, 0, -1 do
    local has = stat.mode & (1 << i) ~= 0
    letters[#letters + 1] = has and ("xwr"):sub(i % 3 + 1, i % 3 + 1) or "-"
  end
  return table.concat(letters)
end

-- A name as it is; on a terminal without what would steer that.
local function shown(name)
  if host.stdio().terminal_out then
    return (name:gsub("[\0-\31\127]", function(byte)
      return ("\\x%02x"):format(byte:byte())
    end))
  end
  return name
end

local function row_of(stat, name)
  local target = stat.target and " -> " .. shown(stat.target) or ""
  return {
    permissions(stat), ("%d:%d"):format(stat.uid, stat.gid),
    ("%d"):format(stat.size), moment(stat.mtime), shown(name) .. target,
  }
end

local function list_one(plan, sandbox, path)
  local fs = sandbox.fs
  local stat = try(fs.stat, fs, path, { follow = not plan.long or nil })
  local entries = stat.type == "directory" and try(fs.list, fs, path)
    or { stat }
  local rows = {}
  for _, entry in ipairs(entries) do
    local name = entry == stat and path or entry.name
    if plan.long then
      rows[#rows + 1] = row_of(entry, name)
    else
      print((shown(name)))
    end
  end
  print_table(rows)
end

function run.ls(plan)
  if not plan.argv[1] then
    options.refuse("ls takes ID:[PATH]; portico list shows the ids")
  end
  for _, word in ipairs(plan.argv) do
    local id, path = inside(word, "ls")
    with(plan, id, function(sandbox)
      list_one(plan, sandbox, path == "" and "." or path)
    end)
  end
end

local function write_out(sandbox, path)
  if is_directory_inside(sandbox, path) then
    fail({ message = path .. ": it is a directory; portico ls shows what is "
      .. "in it" })
  end
  local file <close> = try(sandbox.fs.open, sandbox.fs, path, "r")
  while true do
    local data = try(file.read, file, CHUNK)
    if not data or data == "" then
      return
    end
    local written, why = host.emit(data)
    if not written then
      fail(why and { message = "cannot write to stdout: " .. why })
    end
  end
end

function run.cat(plan)
  if not plan.argv[1] then
    options.refuse("cat takes ID:PATH")
  end
  for _, word in ipairs(plan.argv) do
    local id, path = inside(word, "cat")
    if path == "" then
      options.refuse("'%s' names no file, which is written ID:PATH; portico ls "
        .. "%s: shows those that there are", word, id)
    end
    with(plan, id, function(sandbox)
      write_out(sandbox, path)
    end)
  end
end

-- ---- the beginning ---------------------------------------------------------

local function main(command, args)
  local plan = options.read(args, command)
  if plan.help then
    io.write(options.help(command))
    return 0
  end
  return run[command](plan) or 0
end

local command = select(5, ...)
local ok, code = xpcall(main, find.caught, command,
  table.pack(select(6, ...)))
if ok then
  return code
elseif type(code) ~= "table" then
  host.say(code)
  return FAILED
elseif code.usage then
  host.say(command .. ": " .. code.usage)
  return USAGE
elseif code.failure then
  words.report(code.failure)
  return FAILED
end
return 128 + code.signal
