-- portico exec and its like: what is said of how it goes and of what went
-- wrong, and the exit codes for it.
--
-- Called with what exec.c offers and the module of exec_options.lua; returns
-- the functions at the end. Errors come from the library, which speaks of the
-- options of Lua calls; here they are told in those of the command line.

local host, options = ...

local OWN, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127

-- What the kernel says of a program that it does not start. For want of
-- memory, descriptors or processes it is no matter of the program.
local CANNOT_RUN = {
  ENOENT = NOT_FOUND, ENOTDIR = NOT_FOUND,
  EAGAIN = OWN, EMFILE = OWN, ENFILE = OWN, ENOMEM = OWN,
}

-- What to do, by class; false: nothing that a command line could do. For other
-- classes the hint is the one that scripts get.
local HINTS = {
  ConnectionError = false, LimitError = false,
  UnavailableError = "`portico backends` lists what is installed; --backend "
    .. "chooses another",
  UnsupportedError = "no setting changes this: --backend chooses another",
}

-- ---- the library's words, and ours -----------------------------------------

-- Options of the library that are called otherwise here.
local RENAMED = { mounts = "mount", settings = "setting" }

-- "--name" for the name of an option of the library; nil if it is none of ours.
local function our_name(name)
  local ours = RENAMED[name] or name:gsub("^limits%.", ""):gsub("_", "-")
  return options.is_option(ours) and "--" .. ours or nil
end

-- In a message names of options are in quotes, before a value, or come first.
local function translate(message)
  return (message
    :gsub("([%l_.]+) = '([^']*)'", function(name, value)
      local ours = our_name(name)
      return ours and ours .. " " .. value
    end)
    :gsub("'([%l_.]+)'", our_name)
    :gsub("limits%.[%l_]+", our_name)
    :gsub("^([%l_.]+)([: ])", function(name, behind)
      local ours = our_name(name)
      return ours and ours .. behind
    end)
    :gsub("^unknown setting %-%-workspace;.*",
      "this backend has no --workspace")
    :gsub("the setting `(%l+)` names another$",
      "--setting %1=DIR (with --backend) names another"))
end

-- What begins with a path is about that, whatever it is called.
local function told(err)
  local message, path = tostring(err.message), err.path
  if type(path) == "string" and path ~= "" and message:sub(1, #path) == path
  then
    return path .. translate(message:sub(#path + 1))
  end
  return translate(message)
end

-- ---- errors ----------------------------------------------------------------

local function hint(err)
  local errors = require("portico.errors")
  if tostring(err.message):find("the setting `%l+` names another$") then
    return nil -- it has said so
  end
  for class, text in pairs(HINTS) do
    if errors.is(err, class) then
      return text or nil
    end
  end
  return host.hint(err)
end

-- Says what an error is about, of what it came, and what to do. `about` comes
-- before all, where a path alone does not tell whose it is.
local function report(err, about)
  local lines, link = {}, err
  while type(link) == "table" and #lines < 16 do
    lines[#lines + 1] = (link == err and "" or "  for: ") .. told(link)
    link = link.cause
  end
  local advice = hint(err)
  if advice then
    lines[#lines + 1] = "hint: " .. advice
  end
  host.say((about or "")
    .. (lines[1] and table.concat(lines, "\n") or tostring(err)))
end

-- The exit code of an error of spawn: not every one is the program's. Its path
-- does not tell: of one in PATH it is whole, and a user or a directory may be
-- called as the program is. A backend without an agent has no more, though.
local function start_code(plan, err)
  local errors = require("portico.errors")
  local stage = err.stage
    or errors.is(err, "SpawnError") and err.path == plan.argv[1] and "program"
  if stage ~= "program" and stage ~= "interpreter" then
    return OWN
  end
  return CANNOT_RUN[err.code] or NOT_EXECUTABLE
end

-- Says what is worth knowing of a command that did not simply end.
local function remark(plan, result)
  if result.reason == "oom" then
    host.say(plan.argv[1] .. ": ended, for it ran out of memory (--memory)")
  elseif result.limit then
    host.say(("%s: it ran into the limit %s"):format(plan.argv[1],
      our_name(result.limit) or result.limit))
  end
end

-- A logger that says the warnings of the library.
local function remark_log(record)
  if record.level == "warning" or record.level == "error" then
    host.say(record.level .. ": " .. translate(record.message))
  end
end

-- ---- how far it is ---------------------------------------------------------

local WIDTH = 20 -- of the bar

-- On a terminal, a line of how far a copy is, which is taken away at the end:
-- two functions, the first nil elsewhere.
local function new_bar(label)
  local shown = false
  local function bar(progress)
    local total = progress.total or 0
    local part = total > 0 and math.min(progress.bytes / total, 1)
    io.stderr:write(("\r\27[K%s%s %d files, %.1f MiB"):format(label,
      part and (" [%-" .. WIDTH .. "s] %3d%%"):format(
        ("#"):rep(math.floor(part * WIDTH)), math.floor(part * 100)) or "",
      progress.files, progress.bytes / (1 << 20)))
    shown = true
  end
  return host.stdio().words and bar or nil, function()
    if shown then
      io.stderr:write("\r\27[K")
    end
  end
end

return {
  new_bar = new_bar, report = report, start_code = start_code, remark = remark,
  remark_log = remark_log,
}
