-- portico exec: runs one command in a sandbox of its own, as if it ran here.
--
-- Called with what exec.c offers, the modules of exec_options.lua,
-- exec_words.lua and find.lua, and the arguments; returns the exit code.
-- Bytes are passed on by threads of the program (pump.c), from the pipes of the
-- command, which this script asks the core for; those of a terminal by this
-- script (terminal.c), and those of a command in a sandbox that lives on, whose
-- pipes stay there. The sync facade waits; signals interrupt what is called
-- by `attempt`, and nothing else (stop.c).

local host, options, words, find = ...

local OWN, TIMED_OUT = 125, 124
local READER_GONE = 141 -- what SIGPIPE would be
local SLICE = 0.5 -- of a wait, in seconds, after which it begins anew
local GLANCE = 0.02 -- the same while keys cannot be passed on

local function signal_code()
  return 128 + host.signal()
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
    words.report(result)
  end
end

-- The exit code of a command that ended by itself, or in time.
local function outcome(plan, ok, result)
  if ok then
    if not plan.quiet then
      words.remark(plan, result)
    end
    return result.code
  elseif result.code == "PCO_ETIMEDOUT" then
    if not plan.quiet then
      host.say(result.message)
    end
    return TIMED_OUT
  end
  words.report(result)
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

-- ---- with a terminal, or from afar ------------------------------------------

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
    if last_size then
      follow_size(process, last_size)
    end
    local ok, chunk = host.attempt(process.read, process,
      { timeout = keys == "" and SLICE or GLANCE })
    if ok and not chunk then
      return true
    elseif ok == false and chunk.code ~= "PCO_ECALLTIMEOUT" then
      return true -- wait() tells the same
    elseif ok then
      local shown, why, number = host.emit(chunk.data,
        chunk.stream == "stderr" and 2 or 1)
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

local function supervise_here(plan, process)
  local pty = plan.command.pty
  host.begin(plan.reads, pty ~= nil)
  local shown, why, number = converse(process,
    pty and { cols = pty.cols, rows = pty.rows })
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
  plan.reads = here.stdin == "pipe"
  if here.directory and plan.reads then
    options.refuse("stdin is a directory, which nobody can read")
  end
  if plan.pty or (plan.pty == nil and here.terminal) then
    local cols, rows = host.size()
    command.pty = { cols = cols, rows = rows }
    command.env.TERM = command.env.TERM or os.getenv("TERM")
    return
  end
  command.stdin, command.stdout = here.stdin, here.stdout
  command.stderr = here.one and "merge" or here.stderr
end

-- Copies what a list says; the exit code if that failed.
local function copy_all(plan, sandbox, name, list)
  for _, each in ipairs(list) do
    local bar, done = words.new_bar(name)
    local ok, result = host.attempt(sandbox[name], sandbox, each.source,
      each.target, {
        parents = true, on_progress = not plan.quiet and bar or nil,
        on_error = name == "download" and "skip" or nil,
      })
    done()
    if ok == nil then
      return signal_code()
    elseif not ok then
      words.report(result, ("--%s %s:%s: "):format(name, each.source,
        each.target))
      return OWN
    end
    for _, skipped in ipairs(result.skipped) do
      host.say(("%s: left out: %s"):format(skipped.path, skipped.message))
    end
  end
end

local function run_in(plan, sandbox)
  local ok, process = host.attempt(sandbox.spawn, sandbox, plan.argv,
    plan.command)
  if ok == nil then
    return signal_code()
  elseif not ok then
    words.report(process)
    return words.start_code(plan, process)
  end
  if plan.command.pty or plan.id then
    return supervise_here(plan, process)
  end
  local core = require("portico.core").sync
  local connected, err = pcall(function()
    host.connect(core.process_pipes(process))
  end)
  if not connected then
    words.report(err)
    return OWN
  end
  return supervise(plan, process)
end

-- The exit code of the command, or of a copy before or after it that failed.
local function run_with_copies(plan, sandbox)
  local code = copy_all(plan, sandbox, "upload", plan.uploads)
  if code then
    return code
  end
  code = run_in(plan, sandbox)
  local failed = not host.signal()
    and copy_all(plan, sandbox, "download", plan.downloads)
  return code == 0 and failed or code
end

-- In a sandbox that was there before, and lives on.
local function run_in_another(plan)
  local backend <close> = find.find(plan, plan.id)
  local sandbox = find.attach(backend, plan.id)
  local code = run_with_copies(plan, sandbox)
  local left, err = pcall(sandbox.detach, sandbox)
  if not left then
    words.report(err)
  end
  return code
end

local function main(args)
  local plan = options.read(args, "exec")
  if plan.help then
    io.write(options.help("exec"))
    return 0
  end
  connect_options(plan)
  if plan.id then
    return run_in_another(plan)
  end
  local portico = require("portico.sync")
  local ok, sandbox = host.attempt(portico.sandbox, plan.sandbox)
  if ok == nil then
    return signal_code()
  elseif not ok then
    words.report(sandbox)
    return OWN
  end
  local code = run_with_copies(plan, sandbox)
  local closed, err = pcall(sandbox.close, sandbox)
  if not closed then
    words.report(err)
  end
  return code
end

local ok, code = xpcall(main, find.caught, table.pack(select(5, ...)))
if ok then
  return code
end
if type(code) ~= "table" then
  host.say(code)
elseif code.usage then
  host.say("exec: " .. code.usage)
elseif code.failure then
  words.report(code.failure)
else
  return 128 + code.signal
end
return OWN
