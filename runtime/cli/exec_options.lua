-- The command lines of `portico exec` and of the commands for sandboxes that
-- outlive them (boxes.lua). What may be written, what it means for the sandbox
-- and the command, and the help.
--
-- Called with what exec.c offers; returns the functions at the end. Nothing is
-- done here but looking at files that the command line names.

local host = ...

local GRACE = 2 -- seconds from TERM to KILL

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

local function path(text, name, hint)
  local real, why = host.realpath(text)
  if not real then
    refuse("--%s: %s: %s%s", name, text, why, hint or "")
  end
  return real
end

-- SOURCE:TARGET[:ro|:rw]. The last colons count: a source may have some. A
-- target is absolute, so a last word that is not is a mode that there is not.
local function mount(text, name)
  local rest, mode = text:match("^(.*):(r[ow])$")
  local source, target = (rest or text):match("^(.+):([^:]+)$")
  local unknown = not mode and source and source:find(".:/") and target
  if not source or unknown and not unknown:find("/", 1, true) then
    refuse("--%s takes SOURCE:TARGET, and :rw behind it for a writable one "
      .. "(got '%s')", name, text)
  end
  return {
    source = path(source, name), target = target, read_only = mode ~= "rw",
  }
end

local WAYS = {
  upload = "a path of this machine and the one that it gets in the sandbox",
  download = "a path in the sandbox and the one that it gets on this machine",
}

-- SOURCE:TARGET, added to a list of the plan. The last colon counts.
local function transfer(plan, list, text, name)
  local source, target = text:match("^(.+):([^:]+)$")
  if not source then
    refuse("--%s takes SOURCE:TARGET, %s (got '%s')", name, WAYS[name], text)
  end
  local all = plan[list]
  all[#all + 1] = { source = source, target = target }
end

-- ---- the options -----------------------------------------------------------

-- Which commands have an option; those of `portico exec` unless it says more.
local MAKERS = { exec = true, create = true }
local ALL = {
  exec = true, create = true, list = true, rm = true, cp = true, ls = true,
  cat = true,
}

-- name, what follows it, what it does, an example; set(plan, text, name) for
-- those with a value; on: which commands have it. `plan` is the sandbox's
-- options, the command's, and our own.
local OPTIONS = {
  {
    "backend", "NAME", "which kind of sandbox; a new one is a bwrap",
    "portico exec --backend local -- make",
    function(plan, text)
      plan.sandbox.backend = text
    end,
    on = ALL,
  },
  {
    "setting", "NAME=VALUE", "a setting of the backend, as its README lists",
    "portico exec --setting uids=one -- id",
    function(plan, text, name)
      local key, value = pair(text, name)
      plan.settings[key] = value
    end,
    on = ALL,
  },
  {
    "workspace", "DIR", "local: work in this directory, which is kept",
    "portico exec --backend local --workspace . -- make",
    function(plan, text, name)
      plan.sandbox.settings = { workspace = path(text, name) }
    end,
    on = MAKERS,
  },
  {
    "image", "PATH", "a root file system: a directory or a tar of one",
    "portico exec --image alpine.tar.gz -- /bin/busybox",
    function(plan, text, name)
      plan.sandbox.image = path(text, name,
        "; it takes a directory or a tar of one, not the name of an image")
    end,
    on = MAKERS,
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
    on = MAKERS,
  },
  {
    "upload", "SOURCE:TARGET", "copy a file or directory in, before it starts",
    "portico exec --upload src:src -- make -C src",
    function(plan, text, name)
      transfer(plan, "uploads", text, name)
    end,
    on = MAKERS,
  },
  {
    "download", "SOURCE:TARGET", "copy one out, when it has ended",
    "portico exec --download now:now -- sh -c 'date > now'",
    function(plan, text, name)
      transfer(plan, "downloads", text, name)
    end,
  },
  {
    "network", "NAME", "host: share the network of this machine",
    "portico exec --network host -- curl example.org",
    function(plan, text)
      plan.sandbox.network = text
    end,
    on = MAKERS,
  },
  {
    "user", "NAME", "whom the command runs as, inside",
    "portico exec --user sandbox -- id",
    function(plan, text)
      plan.command.user = text
    end,
    on = MAKERS,
  },
  {
    "cwd", "DIR", "the directory inside that it starts in",
    "portico exec --cwd /tmp -- pwd",
    function(plan, text)
      plan.command.cwd = text
    end,
    on = MAKERS,
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
    on = MAKERS,
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
    on = MAKERS,
  }
end

-- What only sandboxes have that outlive the command line.
for _, option in ipairs({
  {
    "in", "ID", "in a sandbox of `portico create`, which lives on",
    "portico exec --in box -- make",
    function(plan, text)
      plan.id = text
    end,
  },
  {
    "name", "NAME", "the id that it gets",
    "portico create --name box",
    function(plan, text)
      plan.sandbox.name = text
    end,
    on = { create = true },
  },
  {
    "ttl", "SECONDS", "end it after that time, whatever runs in it",
    "portico create --ttl 1h",
    function(plan, text, name)
      plan.sandbox.ttl = positive_span(text, name)
    end,
    on = { create = true },
  },
  {
    "label", "NAME=VALUE", "something to remember with it",
    "portico create --label for=tests",
    function(plan, text, name)
      local key, value = pair(text, name)
      plan.sandbox.labels = plan.sandbox.labels or {}
      plan.sandbox.labels[key] = value
    end,
    on = { create = true },
  },
  {
    "long", nil, "-l: permissions, size and time, too",
    "portico ls -l box:",
    function(plan)
      plan.long = true
    end,
    on = { ls = true },
  },
}) do
  OPTIONS[#OPTIONS + 1] = option
end

for command, text in pairs({
  exec = "-q: no word about time and limits that ended it",
  create = "-q: no progress", cp = "-q: no progress",
  list = "-q: the ids only",
}) do
  OPTIONS[#OPTIONS + 1] = {
    "quiet", nil, text, "portico " .. command .. " -q"
      .. (command == "exec" and " --timeout 1 -- sleep 5" or ""),
    function(plan)
      plan.quiet = true
    end,
    on = { [command] = true },
  }
end
OPTIONS[#OPTIONS + 1] = {
  "help", nil, "-h: this text", "portico exec --help",
  function(plan)
    plan.help = true
  end,
  on = ALL,
}

local SHORT = { ["-q"] = "--quiet", ["-h"] = "--help", ["-l"] = "--long" }

-- Whether a command has an option.
local function has(command, option)
  return option.on and option.on[command] or not option.on and command == "exec"
end

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
--name VALUE and --name=VALUE are the same. --env, --mount, --setting, --upload
and --download may be given several times.

--upload and --download name what is copied by its new name, and make missing
directories above it; the last colon parts the two. A path in the sandbox that
does not begin with / is below the directory that commands start in without
--cwd. What the command leaves is copied out whatever its exit
code is, but not after a signal; links that lead out of it are left out.

Where stdin and stdout are a terminal the command has one, too: all keys are
its own then, Ctrl-C as well. Else Ctrl-C ends it.

stdin is read before the command asks for it, up to what a pipe holds (64 KiB):
in a loop that reads from the same file, write </dev/null.

Exit codes:
  0-255  the command's own; 128+N if it was ended by signal N
  124    --timeout ended it
  125    portico itself failed, for want of the --cwd or --user, too; stderr
         says why
  126    the command cannot be executed
  127    the command was not found in the sandbox
  128+N  this program got the signal N (INT, TERM, HUP, QUIT): the command and
         all that it started got TERM, after the grace KILL; at once with a
         second signal
]]

-- The others: what they are called with, and what they do.
local OTHERS = {
  create = {
    "[OPTION...]", [[
Makes a sandbox that lives on when this program has ended, and prints its id.
It ends by `portico rm`, after --ttl, or with this machine.
]],
  },
  list = {
    "[OPTION...]", [[
Lists the sandboxes of this user that outlive their programs: id, backend, state
(running: a program is attached to it; detached; dead: its keeper was killed,
and `portico rm` removes what is left), that program's pid, when it was made and
when it ends by itself.
]],
  },
  rm = {
    "[OPTION...] ID...", [[
Ends sandboxes and all that runs in them, whoever is attached.
]],
  },
  cp = {
    "[OPTION...] SOURCE ID:TARGET\n"
      .. "       portico cp [OPTION...] ID:SOURCE TARGET", [[
Copies a file or a directory into a sandbox or out of one. TARGET is its new
name; in a directory that is there, or with a / at its end, a file keeps its
name. The names of a directory go into the one that is there. Directories that
are missing above TARGET are made. A path in the sandbox that does not begin
with / is below the directory that commands start in; one of this machine that
has a colon is written ./a:b.
]],
  },
  ls = {
    "[OPTION...] ID:[PATH]...", [[
Lists what is in a directory of a sandbox, a name a line.
]],
  },
  cat = {
    "[OPTION...] ID:PATH...", [[
Writes files of a sandbox to stdout.
]],
  },
}

local OTHERS_TAIL = [[

--name VALUE and --name=VALUE are the same. Without --backend an ID is looked
for in all backends.

Exit codes: 0; 1, it failed, and stderr says why; 2, wrong usage; 128+N, this
program got the signal N.
]]

local function option_lines(command)
  local lines = {}
  for _, option in ipairs(OPTIONS) do
    if has(command, option) then
      local head = "  --" .. option[1]
        .. (option[2] and " " .. option[2] or "")
      if #head > 24 then
        lines[#lines + 1] = head
        head = ""
      end
      lines[#lines + 1] = ("%-24s %s"):format(head, option[3])
      if option[4]:find("portico " .. command .. " ", 1, true) then
        lines[#lines + 1] = (" "):rep(27) .. option[4]
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

local function help_text(command)
  if command == "exec" then
    return HELP_HEAD .. option_lines(command) .. HELP_TAIL
  end
  local other = OTHERS[command]
  return ("usage: portico %s %s\n\n%s\nOptions:\n%s%s"):format(command,
    other[1], other[2], option_lines(command), OTHERS_TAIL)
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

local function nearest(name, command)
  local best, least
  for _, option in ipairs(OPTIONS) do
    local d = has(command, option) and distance(name, option[1])
    if d and (not least or d < least) then
      best, least = option[1], d
    end
  end
  return best, least
end

-- What `docker run` calls otherwise, or has beside.
local ELSEWHERE = {
  v = "--mount", volume = "--mount", w = "--cwd", workdir = "--cwd",
  e = "--env", m = "--memory", ["pids-limit"] = "--pids", u = "--user",
  net = "--network", t = "--pty", tty = "--pty",
  rm = "nothing: the sandbox is always gone afterwards",
  i = "nothing: stdin is always the command's",
  interactive = "nothing: stdin is always the command's",
  it = "nothing: on a terminal the command has one, too",
  ti = "nothing: on a terminal the command has one, too",
}

local function find_option(name, word, command)
  for _, option in ipairs(OPTIONS) do
    if option[1] == name and has(command, option) then
      return option
    end
  end
  if command == "exec" and ELSEWHERE[name] then
    refuse("unknown option %s; here that is %s", word, ELSEWHERE[name])
  end
  local near, far = nearest(name, command)
  if name ~= "" and far <= math.max(2, #name // 3) then
    refuse("unknown option %s; did you mean --%s?", word, near)
  end
  refuse("unknown option %s; portico %s --help lists them", word, command)
end

-- Takes the option at args[i]; returns the index behind it.
local function take_option(plan, args, i, command)
  local word = SHORT[args[i]] or args[i]
  local name, value = word:match("^%-%-([^=]*)=(.*)$")
  name = name or word:match("^%-%-?(.*)$")
  local option = find_option(name, args[i], command)
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

-- A sandbox that lives already cannot be given what a new one can.
local function check_in(plan)
  local given = next(plan.limits)
  for key in pairs(plan.sandbox) do
    given = key ~= "backend" and key or given
  end
  local names = { mounts = "mount", settings = "workspace" }
  if plan.id and given then
    refuse("--in takes a sandbox as it is; --%s belongs to portico create",
      names[given] or given:gsub("_", "-"))
  end
end

-- Reads the arguments of a command: options, then words, which are the command
-- of exec.
local function read_arguments(args, command)
  local plan = {
    sandbox = {}, settings = {}, limits = {},
    command = { env = {}, grace = GRACE },
    uploads = {}, downloads = {},
  }
  local i = 1
  while args[i] and args[i]:find("^%-.") and args[i] ~= "--" do
    i = take_option(plan, args, i, command)
  end
  if args[i] == "--" then
    i = i + 1
  end
  plan.argv = table.move(args, i, #args, 1, {})
  check_in(plan)
  if command == "exec" and not plan.help and not plan.argv[1] then
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

-- True for the name of an option, without --.
local function is_option(name)
  for _, option in ipairs(OPTIONS) do
    if option[1] == name then
      return true
    end
  end
  return false
end

return {
  read = read_arguments, help = help_text, refuse = refuse,
  is_option = is_option,
}
