-- Ctrl-C in plain lua5.4: it ends what waits within half a second, with its
-- work cancelled and the sandbox usable, the second time like the first; other
-- signals change nothing. Each script is a process of its own.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

-- Before each script. `signals(how)` sends signals from a shell beside it, some
-- moments later; `attempt(fn)` sends Ctrl-C while fn waits, up to three times
-- until it was fast, since the machine may be busy. It prints how fn ended, and
-- whether the wait was over half a second after the signal.
local PRELUDE = [[
local P = require(%q)
local BACKEND = %q
local MARK = %q
local errors = require("portico.errors")
local pid = io.open("/proc/self/stat"):read("n")
local stamp = os.tmpname()
local function clock()
  return io.popen("date +%%s.%%N"):read("n")
end
local function signals(how)
  os.execute("(sleep 0.2; " .. how:gsub("kill", "date +%%%%s.%%%%N >" .. stamp
    .. "; kill"):gsub("PID", pid) .. ") &")
end
local function show(ok, err)
  local code = errors.is(err, "CancelledError") and err.code
  print(ok, code or tostring(err))
end
local function attempt(fn)
  local results, late
  for _ = 1, 3 do
    signals("kill -INT PID")
    results = table.pack(pcall(P.run, fn))
    late = clock() - io.open(stamp):read("n")
    if late < 0.5 then
      break
    end
  end
  show(table.unpack(results))
  print(late < 0.5 or late)
end
-- The commands of ours that are alive.
local function alive()
  return #require("spec.support.env").pgrep({ "sleep", MARK })
end
local sb
P.run(function()
  sb = P.sandbox({ backend = BACKEND })
end)
local function finish()
  P.run(function()
    print(alive(), sb:output("echo usable"))
    sb:close()
  end)
  os.remove(stamp)
end
]]

local INTERRUPTED = "false\tPCO_EINTERRUPTED\ntrue\n"
local number = 0

-- Lets agents go on that a script has stopped which is gone: they end.
local function wake_agents()
  for name in require("lfs").dir("/proc") do
    local stat = name:find("^%d+$") and env.read("/proc/" .. name .. "/stat")
    if stat and stat:find("^%d+ %(portico%-agent%) T")
      and env.is_ours(tonumber(name))
    then
      os.execute("kill -CONT " .. name .. " 2>/dev/null")
    end
  end
end

-- Runs a script. A signal that comes when nothing waits is lua5.4's own, which
-- lets the next one end the program: then again, if that is no matter here.
local function run(code, again)
  for _ = 1, again and 5 or 1 do
    local output, status, seconds = env.script(code)
    if output ~= "" or status == 0 then
      return output, status, seconds
    end
    wake_agents()
  end
  return "ended by late signals", 1, 0
end

-- Declares a test of each facade on each backend, or of what it is only for.
local function test(name, expected, code, only)
  only = only or {}
  for _, backend in ipairs(backends.real) do
    for _, facade in ipairs({ "portico", "portico.sync" }) do
      if (only.facade or facade) == facade
        and (only.backend or backend.name) == backend.name
      then
        backends.it(it, backend, ("%s [%s, %s]"):format(name, backend.name,
          facade), function()
          number = number + 1
          local output, status, seconds = run(PRELUDE:format(facade,
            backend.name, "161803." .. number) .. code, only.again)
          assert.equal(expected, output)
          assert.equal(0, status)
          assert.is_true(seconds < 30, seconds .. " seconds")
        end)
      end
    end
  end
end

describe("Ctrl-C", function()
  test("ends exec, again and again", INTERRUPTED:rep(3) .. "0\tusable\n", [[
    for _ = 1, 3 do
      attempt(function()
        sb:exec("sleep " .. MARK .. " & sleep " .. MARK)
      end)
    end
    finish()
  ]])

  test("ends wait and read, but not what they are about",
    INTERRUPTED:rep(2) .. "2\tusable\n", [[
      local p
      attempt(function()
        p = p or sb:spawn("sleep " .. MARK .. " & sleep " .. MARK)
        p:wait()
      end)
      attempt(function()
        p:read()
      end)
      finish()
    ]])

  test("ends a loop over lines, and its `<close>` its command",
    INTERRUPTED .. "0\tusable\n", [[
      attempt(function()
        local p <close> = sb:spawn("echo x; sleep " .. MARK)
        for _ in p:lines() do
        end
      end)
      finish()
    ]])

  test("ends sleep", INTERRUPTED:rep(2) .. "0\tusable\n", [[
    for _ = 1, 2 do
      attempt(function()
        P.sleep(50)
      end)
    end
    finish()
  ]])

  test("ends a call inside the callback of another one",
    INTERRUPTED:rep(2) .. "0\tusable\n", [[
      for _ = 1, 2 do
        attempt(function()
          sb:exec("echo x; sleep " .. MARK, {
            on_output = function()
              sb:exec("sleep " .. MARK)
            end,
          })
        end)
      end
      finish()
    ]])

  test("ends a run with all its tasks", INTERRUPTED:rep(2) .. "0\tusable\n", [[
    local task = require("portico.task")
    for _ = 1, 2 do
      attempt(function()
        local list = {}
        for i = 1, 5 do
          list[i] = function()
            if i == 5 then
              P.sleep(50)
            end
            sb:exec("sleep " .. MARK)
          end
        end
        task.all(list)
      end)
    end
    finish()
  ]], { facade = "portico" })

  -- The agent is stopped, so that the clean-up has to wait for it.
  test("again while it cleans up ends the wait for that",
    "false\tPCO_EINTERRUPTED\ntrue\n0\tusable\n", [[
      local agent
      P.run(function()
        agent = sb:output({ "sh", "-c", "ps -o ppid= -p $PPID" })
      end)
      signals("kill -INT PID; sleep 0.5; kill -INT PID")
      os.execute("kill -STOP " .. agent)
      local start = clock()
      show(pcall(P.run, function()
        sb:exec("sleep " .. MARK)
      end))
      print(clock() - start < 8) -- of ten
      os.execute("kill -CONT " .. agent)
      P.run(function()
        while alive() > 0 do
          P.sleep(0.01)
        end
      end)
      finish()
    ]], { backend = "local", again = true }) -- other agents are out of reach
end)

-- A cancelled call ends when what it had begun has ended. Only a second Ctrl-C
-- leaves it earlier, and what was lent to it has been given back then.
describe("a cancelled call", function()
  -- The first process of the sandbox is stopped as soon as it is there; if the
  -- sandbox was faster, again.
  test("is undone before create ends, whoever does not answer",
    "false\tPCO_EINTERRUPTED\ntrue\n0\n0\tusable\n", [[
      local first_processes = require("spec.support.backends").first_processes
      local known = first_processes()
      local function added()
        local n = 0
        for child in pairs(first_processes()) do
          n = n + (known[child] and 0 or 1)
        end
        return n
      end
      local stop_it = ([=[
        n=0
        while [ $n -lt 5000 ]; do
          n=$((n + 1))
          for list in /proc/%d/task/*/children; do
            read -r children <$list || :
            for p in $children; do
              read -r name </proc/$p/comm || continue
              case "$p $name" in
              KNOWN\ *) ;;
              *\ portico*) kill -STOP $p; kill -INT %d; exit ;;
              esac
            done
          done
        done 2>/dev/null
      ]=]):format(pid, pid):gsub("KNOWN", (next(known)))
      local ok, err, start, made
      local function try()
        local stopper <close> = io.popen(stop_it) -- waits for its end
        start = clock()
        ok, err = pcall(P.run, function()
          made = P.sandbox({ backend = BACKEND })
          made:close()
        end)
      end
      for _ = 1, 30 do
        ok, made = nil, nil
        pcall(try) -- the signal may come late, or hit no wait
        if ok == false and not made and errors.is(err, "CancelledError") then
          break
        end
        for child in pairs(first_processes()) do
          if not known[child] then
            os.execute("kill -CONT " .. child .. " 2>/dev/null")
          end
        end
        P.run(function()
          return made and made:close()
        end)
      end
      show(ok, err)
      print(clock() - start < 8) -- of ten
      print(added())
      finish()
    ]], { backend = "local", again = true }) -- bwrap's keeper ends the rest

  -- The agent is stopped meanwhile. What was lent becomes garbage after the
  -- call; all of it may be there in the end, or a part, or nothing, but nothing
  -- else. A call about files does not wait for an agent that is silent.
  local function given_up(name, signals, call, left)
    test(name, "false\tPCO_EINTERRUPTED\ntrue\n0\n0\tusable\n", ([[
      local agent
      P.run(function()
        agent = sb:output({ "sh", "-c", "ps -o ppid= -p $PPID" })
      end)
      local bytes = ("x"):rep(1 << 22)
      os.execute("kill -STOP " .. agent)
      local start = clock()
      signals("sleep 0.3; kill -INT PID%s")
      show(pcall(P.run, function()
        %s
      end))
      print(clock() - start < 8) -- of ten
      bytes = nil
      collectgarbage()
      local others = {}
      for i = 1, 4 do
        others[i] = ("y"):rep(1 << 22)
      end
      os.execute("kill -CONT " .. agent)
      P.run(function()
        while #sb:processes() > 0 or sb:output("ls -A"):find(".portico", 1,
          true) do
          P.sleep(0.01)
        end
        print(sb:output("cat big 2>/dev/null | tr -d x | wc -c"))
        %s
      end)
      finish()
    ]]):format(signals, call, left or ""), { backend = "local", again = true })
  end
  given_up("of write has its bytes no more", "", 'sb.fs:write("big", bytes)',
    'assert(not sb.fs:exists("big") or sb.fs:stat("big").size == 1 << 22)')
  given_up("of append has its bytes no more", "", 'sb.fs:append("big", bytes)')
  given_up("of exec that is given up has its input no more",
    "; sleep 1.5; kill -INT PID", 'sb:exec("cat >big", { input = bytes })')
end)

describe("other signals", function()
  test("end no wait, and stopping none", "whole\n0\tusable\n", [[
    signals("kill -WINCH PID; kill -CHLD PID; sleep 0.1; kill -CONT PID; "
      .. "kill -STOP PID; sleep 0.2; kill -CONT PID; kill -URG PID")
    P.run(function()
      print(sb:output("sleep 0.8; echo whole"))
      P.sleep(0.1)
    end)
    finish()
  ]])
end)

it("nothing is left behind", nothing_left)
