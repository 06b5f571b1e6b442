-- portico exec: runs one command in a sandbox of its own, as if it ran here.
--
-- Called with what exec.c offers and the arguments; returns the exit code.
-- Bytes are passed on by threads of the program (pump.c), from the pipes of the
-- command, which this script asks the core for; those of a terminal by this
-- script (terminal.c). The sync facade waits; signals interrupt what is called
-- by `attempt`, and nothing else (stop.c).

local host = ...

local OWN, NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT = 125, 126, 127, 124
local READER_GONE = 141 -- what SIGPIPE would be
local GRACE = 2 -- seconds from TERM to KILL
local SLICE = 0.5 -- of a wait, in seconds, after which it begins anew
local GLANCE = 0.02 -- the same while keys cannot be passed on

-- A problem of the command line: raised, and reported without a traceback.
local function refuse(format, ...)
  error({ usage = format:format(...) })
end

-- ---- values of options -----------------------------------------------------

local UNITS = { [""] = 1, k = 1 << 10, m = 1 << 20, g = 1 << 30, t = 1 << 40 }
local SPANS = { [""] = 1, s = 1, m = 60, h = 3600, d = 86400 }

-- A number with one of the units behind it, or nil.
local function measure(text, units)
  local number, unit = text:match("^(%d+%.?%d*)(%a?)$")
  local factor = unit and units[unit:lower()]
  return factor and tonumber(number) * factor
end

local function size(text, name)
  local bytes = measure(text, UNITS)
  if not bytes or bytes < 1 or bytes >= 2 ^ 63 then
    refuse("--%s takes a number such as 500, 64k, 512M or 1.5G (got '%s')",
      name, text)
  end
  return math.floor(bytes)
end

local function count(text, name)
  local number = text:find("^%d+$") and math.tointeger(tonumber(text))
  if not number or number < 1 then
    refuse("--%s takes a whole number, 1 or more, such as 100 (got '%s')", name,
      text)
  end
  return number
end

local function span(text, name)
  local seconds = measure(text, SPANS)
  if not seconds then
    refuse("--%s takes seconds such as 0.5 or 90, or 5m, 2h (got '%s')", name,
      text)
  end
  return seconds
end

local function positive_span(text, name)
  local seconds = span(text, name)
  if seconds == 0 then
    refuse("--%s must be more than 0; without it there is no limit", name)
  end
  return seconds
end

local function cpus(text, name)
  local number = text:find("^%d*%.?%d+$") and tonumber(text)
  if not number or number <= 0 then
    refuse("--%s takes a number of processors such as 2 or 0.5 (got '%s')",
      name, text)
  end
  return number
end

local function pair(text, name)
  local key, value = text:match("^([^=]+)=(.*)$")
  if not key then
    refuse("--%s takes NAME=VALUE (got '%s')", name, text)
  end
  return key, value
end

local function path(text, name)
  local real, why = host.realpath(text)
  if not real then
    refuse("--%s: %s: %s", name, text, why)
  end
  return real
end

-- SOURCE:TARGET[:ro|:rw]. The last colons count: a source may have some.
local function mount(text, name)
  local rest, mode = text:match("^(.*):(r[ow])$")
  local source, target = (rest or text):match("^(.+):([^:]+)$")
  if not source then
    refuse("--%s takes SOURCE:TARGET, and :rw behind it for a writable one "
      .. "(got '%s')", name, text)
  end
  return {
    source = path(source, name), target = target, read_only = mode ~= "rw",
  }
end

-- ---- the options -----------------------------------------------------------

-- name, what follows it, what it does, an example; set(plan, text, name) for
-- those with a value. `plan` is the sandbox's options, the command's, and our
-- own.
local OPTIONS = {
  {
    "backend", "NAME", "which kind of sandbox; bwrap unless given",
    "portico exec --backend local -- make",
    function(plan, text)
      plan.sandbox.backend = text
    end,
  },
  {
    "setting", "NAME=VALUE", "a setting of the backend, as its README lists",
    "portico exec --setting uids=one -- id",
    function(plan, text, name)
      local key, value = pair(text, name)
      plan.settings[key] = value
    end,
  },
  {
    "workspace", "DIR", "local: work in this directory, which is kept",
    "portico exec --backend local --workspace . -- make",
    function(plan, text, name)
      plan.sandbox.settings = { workspace = path(text, name) }
    end,
  },
  {
    "image", "PATH", "a root file system: a directory or a tar of one",
    "portico exec --image alpine.tar.gz -- /bin/busybox",
    function(plan, text, name)
      plan.sandbox.image = path(text, name)
    end,
  },
  {
    "mount", "SOURCE:TARGET[:ro|:rw]",
    "show a file or directory inside, read-only unless :rw",
    "portico exec --mount .:/workspace:rw -- make",
    function(plan, text, name)
      local mounts = plan.sandbox.mounts or {}
      mounts[#mounts + 1] = mount(text, name)
      plan.sandbox.mounts = mounts
    end,
  },
  {
    "network", "NAME", "host: share the network of this machine",
    "portico exec --network host -- curl example.org",
    function(plan, text)
      plan.sandbox.network = text
    end,
  },
  {
    "user", "NAME", "whom the command runs as, inside",
    "portico exec --user sandbox -- id",
    function(plan, text)
      plan.sandbox.user = text
    end,
  },
  {
    "cwd", "DIR", "the directory inside that it starts in",
    "portico exec --cwd /tmp -- pwd",
    function(plan, text)
      plan.command.cwd = text
    end,
  },
  {
    "env", "NAME[=VALUE]", "set a variable, or pass the one of here on",
    "portico exec --env TERM --env LANG=C -- env",
    function(plan, text, name)
      if text:find("=", 1, true) then
        local key, value = pair(text, name)
        plan.command.env[key] = value
      else
        plan.command.env[text] = os.getenv(text)
      end
    end,
  },
  {
    "clean-env", nil, "begin with no variables but those of --env",
    "portico exec --clean-env --env A=1 -- /usr/bin/env",
    function(plan)
      plan.command.clean_env = true
    end,
  },
  {
    "pty", nil, "give it a terminal, also if stdin and stdout are none",
    "portico exec --pty -- ls --color",
    function(plan)
      plan.pty = true
    end,
  },
  {
    "no-pty", nil, "no terminal, though stdin and stdout are one",
    "portico exec --no-pty -- ls",
    function(plan)
      plan.pty = false
    end,
  },
  {
    "timeout", "SECONDS", "end it after that time, with exit code 124",
    "portico exec --timeout 5m -- make check",
    function(plan, text, name)
      plan.command.timeout = positive_span(text, name)
    end,
  },
  {
    "grace", "SECONDS", "from TERM to KILL when it is ended; 2 unless given",
    "portico exec --timeout 60 --grace 10 -- ./server",
    function(plan, text, name)
      plan.command.grace = span(text, name)
    end,
  },
}

-- The limits of a sandbox.
for _, limit in ipairs({
  { "memory", "SIZE", "bytes of memory; files count, too", "512M", size },
  { "pids", "N", "processes and threads at once", "100", count },
  { "cpus", "N", "processors, on the average", "0.5", cpus },
  { "disk", "SIZE", "bytes of files that it may write", "2G", size },
  { "open-files", "N", "open files of each process", "256", count },
}) do
  local name, parse = limit[1], limit[5]
  OPTIONS[#OPTIONS + 1] = {
    name, limit[2], limit[3],
    ("portico exec --%s %s -- ./a.out"):format(name, limit[4]),
    function(plan, text)
      plan.limits[name:gsub("-", "_")] = parse(text, name)
    end,
  }
end

OPTIONS[#OPTIONS + 1] = {
  "quiet", nil, "-q: no word about time and limits that ended it",
  "portico exec -q --timeout 1 -- sleep 5",
  function(plan)
    plan.quiet = true
  end,
}
OPTIONS[#OPTIONS + 1] = {
  "help", nil, "-h: this text", "portico exec --help",
  function(plan)
    plan.help = true
  end,
}

local SHORT = { ["-q"] = "--quiet", ["-h"] = "--help" }

-- ---- the help --------------------------------------------------------------

local HELP_HEAD = [[
usage: portico exec [OPTION...] [--] COMMAND [ARGUMENT...]

Runs COMMAND in a sandbox of its own, which is gone afterwards. Its stdin,
stdout and stderr are those of this program, byte for byte, and so is its exit
code; it may stand in scripts and pipes where COMMAND itself would. It sees the
programs of this machine but none of your files, no network, and an environment
of its own, unless an option says otherwise. There is no shell: for one, write
sh -c 'TEXT'.

Options:
]]

local HELP_TAIL = [[

Sizes may have k, M, G or T behind them (1024 each), times s, m, h or d.
--name VALUE and --name=VALUE are the same. --env, --mount and --setting may be
given several times.

Where stdin and stdout are a terminal the command has one, too: all keys are
its own then, Ctrl-C as well. Else Ctrl-C ends it.

stdin is read before the command asks for it, up to what a pipe holds (64 KiB):
in a loop that reads from the same file, write </dev/null.

Exit codes:
  0-255  the command's own; 128+N if it was ended by signal N
  124    --timeout ended it
  125    portico itself failed; stderr says why
  126    the command cannot be executed
  127    the command was not found in the sandbox
  128+N  this program got the signal N (INT, TERM, HUP, QUIT): the command and
         all that it started got TERM, after the grace KILL; at once with a
         second signal
]]

local function help_text()
  local lines = {}
  for _, option in ipairs(OPTIONS) do
    local head = "  --" .. option[1]
      .. (option[2] and " " .. option[2] or "")
    if #head > 24 then
      lines[#lines + 1] = head
      head = ""
    end
    lines[#lines + 1] = ("%-24s %s"):format(head, option[3])
    lines[#lines + 1] = (" "):rep(27) .. option[4]
  end
  return HELP_HEAD .. table.concat(lines, "\n") .. "\n" .. HELP_TAIL
end

-- ---- the command line ------------------------------------------------------

-- How many letters must be changed, added or left out to make one of the other.
local function distance(a, b)
  local row = {}
  for j = 0, #b do
    row[j] = j
  end
  for i = 1, #a do
    local corner = row[0]
    row[0] = i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      local best = math.min(row[j] + 1, row[j - 1] + 1,
        corner + (same and 0 or 1))
      corner, row[j] = row[j], best
    end
  end
  return row[#b]
end

local function nearest(name)
  local best, least
  for _, option in ipairs(OPTIONS) do
    local d = distance(name, option[1])
    if not least or d < least then
      best, least = option[1], d
    end
  end
  return best, least
end

local function find_option(name, word)
  for _, option in ipairs(OPTIONS) do
    if option[1] == name then
      return option
    end
  end
  local near, far = nearest(name)
  if name ~= "" and far <= math.max(2, #name // 3) then
    refuse("unknown option %s; did you mean --%s?", word, near)
  end
  refuse("unknown option %s; portico exec --help lists them", word)
end

-- Takes the option at args[i]; returns the index behind it.
local function take_option(plan, args, i)
  local word = SHORT[args[i]] or args[i]
  local name, value = word:match("^%-%-([^=]*)=(.*)$")
  name = name or word:match("^%-%-?(.*)$")
  local option = find_option(name, args[i])
  if not option[2] and value then
    refuse("--%s takes no value (got '%s')", name, value)
  elseif option[2] and not value then
    i = i + 1
    value = args[i] or refuse("--%s needs %s behind it, as in: %s", name,
      option[2], option[4])
  end
  option[5](plan, value, name)
  return i + 1
end

local function read_arguments(args)
  local plan = {
    sandbox = {}, settings = {}, limits = {},
    command = { env = {}, grace = GRACE }, argv = {},
  }
  local i = 1
  while args[i] and args[i]:find("^%-.") and args[i] ~= "--" do
    i = take_option(plan, args, i)
  end
  if args[i] == "--" then
    i = i + 1
  end
  plan.argv = table.move(args, i, #args, 1, {})
  if not plan.help and not plan.argv[1] then
    refuse("a command is missing: portico exec [OPTION...] -- COMMAND...")
  end
  if next(plan.settings) then
    plan.sandbox.backend_settings = plan.settings
  end
  if next(plan.limits) then
    plan.sandbox.limits = plan.limits
  end
  return plan
end

-- ---- what went wrong -------------------------------------------------------

local CANNOT_RUN = {
  EACCES = NOT_EXECUTABLE, ENOEXEC = NOT_EXECUTABLE, EPERM = NOT_EXECUTABLE,
  ETXTBSY = NOT_EXECUTABLE, ELOOP = NOT_EXECUTABLE,
  ENOENT = NOT_FOUND, ENOTDIR = NOT_FOUND,
}

-- Says what an error is about, of what it came, and what to do.
local function report(err)
  local lines, link = {}, err
  while type(link) == "table" and #lines < 16 do
    lines[#lines + 1] = (link == err and "" or "  for: ")
      .. tostring(link.message)
    link = link.cause
  end
  local hint = host.hint(err)
  if hint then
    lines[#lines + 1] = "hint: " .. hint
  end
  host.say(lines[1] and table.concat(lines, "\n") or tostring(err))
end

-- The exit code of an error of spawn: not every one is the program's.
local function start_code(plan, err)
  local errors = require("portico.errors")
  local about = errors.is(err, errors.SpawnError) and err.path == plan.argv[1]
  return about and CANNOT_RUN[err.code] or OWN
end

local function signal_code()
  return 128 + host.signal()
end

-- Says what is worth knowing of a command that did not simply end.
local function remark(plan, result)
  if result.reason == "oom" then
    host.say(plan.argv[1] .. ": ended, for it ran out of memory (--memory)")
  elseif result.limit then
    host.say(("%s: it ran into the limit --%s"):format(plan.argv[1],
      result.limit))
  end
end

-- ---- running ---------------------------------------------------------------

-- Ends a command: TERM, grace, KILL, the last two at once with a second signal.
local function kill(plan, process)
  local grace = host.failure() and 0 or plan.command.grace
  local ok, result = host.attempt(process.kill, process, { grace = grace })
  if ok == nil then
    ok, result = pcall(process.kill, process)
  end
  if not ok and result.code ~= "PCO_ETIMEDOUT" then
    report(result)
  end
end

-- The exit code of a command that ended by itself, or in time.
local function outcome(plan, ok, result)
  if ok then
    if not plan.quiet then
      remark(plan, result)
    end
    return result.code
  elseif result.code == "PCO_ETIMEDOUT" then
    if not plan.quiet then
      host.say(result.message)
    end
    return TIMED_OUT
  end
  report(result)
  return OWN
end

-- Waits for the end; nothing if a signal or a failure came first.
local function await_end(process)
  while true do
    local ok, result = host.attempt(process.wait, process, { timeout = SLICE })
    if ok == nil and (host.signal() or host.failure()) then
      return nil
    elseif ok or (ok == false and result.code ~= "PCO_ECALLTIMEOUT") then
      return ok, result
    end
  end
end

-- Waits for the command, then for its output to be passed on. Killed or out of
-- time it must be over some time, even if nobody reads.
local function supervise(plan, process)
  local ok, result = await_end(process)
  if ok == nil then
    kill(plan, process)
  end
  local patience = (ok and -1) or plan.command.grace
  local delivered = not host.failure() and host.finish(patience)
  if host.failure() then
    host.say(host.failure())
    return OWN
  elseif ok == nil or (not delivered and host.signal()) then
    return signal_code()
  end
  return outcome(plan, ok, result)
end

-- ---- with a terminal -------------------------------------------------------

-- Passes keys on, as far as they are taken at once; returns what is left.
local function pass_keys(process, keys)
  if keys == "" then
    keys = host.typed()
  end
  if not keys then
    if keys == false then
      pcall(process.close_stdin, process)
    end
    return ""
  end
  local ok, err = pcall(process.write, process, keys, { timeout = GLANCE })
  if ok or err.code ~= "PCO_ECALLTIMEOUT" then
    return "" -- after its end nobody wants them
  end
  return keys:sub((err.written or 0) + 1)
end

local function follow_size(process, last)
  local cols, rows = host.size()
  if cols and (cols ~= last.cols or rows ~= last.rows) then
    last.cols, last.rows = cols, rows
    pcall(process.resize, process, cols, rows)
  end
end

-- Shows output until its end. Returns true then; false and why if it cannot be
-- shown; nothing after a signal.
local function converse(process, last_size)
  local keys = ""
  while true do
    keys = pass_keys(process, keys)
    follow_size(process, last_size)
    local ok, chunk = host.attempt(process.read, process,
      { timeout = keys == "" and SLICE or GLANCE })
    if ok and not chunk then
      return true
    elseif ok == false and chunk.code ~= "PCO_ECALLTIMEOUT" then
      return true -- wait() tells the same
    elseif ok then
      local shown, why, number = host.emit(chunk.data)
      if shown == nil and why then
        return false, why, number
      end
    end
    if host.signal() then
      return nil
    end
  end
end

local EPIPE = 32

local function supervise_terminal(plan, process)
  local pty = plan.command.pty
  host.begin(plan.reads)
  local shown, why, number = converse(process,
    { cols = pty.cols, rows = pty.rows })
  local ok, result
  if shown then
    ok, result = await_end(process)
  end
  if ok == nil then
    kill(plan, process)
  end
  host.restore()
  if shown == false and number == EPIPE then
    return READER_GONE
  elseif shown == false then
    host.say("cannot write to stdout: " .. why)
    return OWN
  elseif ok == nil then
    return signal_code()
  end
  return outcome(plan, ok, result)
end

-- ---- the beginning ---------------------------------------------------------

-- What the command's stdio is, by what there is here.
local function connect_options(plan)
  local here, command = host.stdio(), plan.command
  if here.directory and here.stdin then
    refuse("stdin is a directory, which nobody can read")
  end
  plan.reads = here.stdin
  if plan.pty or (plan.pty == nil and here.terminal) then
    local cols, rows = host.size()
    command.pty = { cols = cols, rows = rows }
    command.env.TERM = command.env.TERM or os.getenv("TERM")
    return
  end
  command.stdin = here.stdin and "pipe" or "null"
  command.stdout = here.stdout and "pipe" or "null"
  command.stderr = here.one and "merge" or here.stderr and "pipe" or "null"
end

local function run_in(plan, sandbox)
  local ok, process = host.attempt(sandbox.spawn, sandbox, plan.argv,
    plan.command)
  if ok == nil then
    return signal_code()
  elseif not ok then
    report(process)
    return start_code(plan, process)
  end
  if plan.command.pty then
    return supervise_terminal(plan, process)
  end
  local core = require("portico.core").sync
  local connected, err = pcall(function()
    host.connect(core.process_pipes(process))
  end)
  if not connected then
    report(err)
    return OWN
  end
  return supervise(plan, process)
end

local function main(args)
  local plan = read_arguments(args)
  if plan.help then
    io.write(help_text())
    return 0
  end
  connect_options(plan)
  local portico = require("portico.sync")
  local ok, sandbox = host.attempt(portico.sandbox, plan.sandbox)
  if ok == nil then
    return signal_code()
  elseif not ok then
    report(sandbox)
    return OWN
  end
  local code = run_in(plan, sandbox)
  local closed, err = pcall(sandbox.close, sandbox)
  if not closed then
    report(err)
  end
  return code
end

local ok, code = xpcall(main, function(err)
  if type(err) == "table" and err.usage then
    return err
  end
  return debug.traceback(tostring(err), 2)
end, table.pack(select(2, ...)))
if ok then
  return code
end
if type(code) == "table" then
  host.say("exec: " .. code.usage)
else
  host.say(code)
end
return OWN
