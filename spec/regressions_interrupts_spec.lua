-- Ctrl-C where it was missed, came twice or came too late once: in loops over
-- fast commands, around close, in coroutines. Each script is a process of its
-- own; the signal comes from a command in its sandbox, at the moment that the
-- test is about.

local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

-- Before each script: `interrupt` is the shell command that is Ctrl-C for it,
-- `show` prints what pcall returned.
local PRELUDE = [[
local P = require(%q)
local errors = require("portico.errors")
local pid = io.open("/proc/self/stat"):read("n")
local interrupt = "kill -INT " .. pid
local function show(ok, err)
  local code = errors.is(err, "CancelledError") and err.code
  print(ok, code or (tostring(err):gsub("^.*: ", "")))
end
-- As a task; blocking, in a coroutine, where only waits hear of Ctrl-C.
local function start(fn)
  return (P == require("portico") and P.run or coroutine.wrap(fn))(fn)
end
local function usable()
  return P.run(function()
    local sb <close> = P.sandbox({ backend = "local" })
    return sb:output("echo usable")
  end)
end
-- Computes until a command has sent Ctrl-C.
local function compute(sb)
  local marker = os.tmpname()
  sb:spawn("sleep 0.2; " .. interrupt .. "; echo >" .. marker)
  local seen
  repeat
    local file <close> = io.open(marker)
    seen = file:read(1)
  until seen
  os.remove(marker)
end
]]

local INTERRUPTED = "false\tPCO_EINTERRUPTED\n"

-- Runs a script with a facade; it must end in so many seconds. (What is not
-- interrupted ends by itself after five, and prints something else.)
local function check(facade, expected, seconds, code)
  local output, status, duration = env.script(PRELUDE:format(facade) .. code)
  assert.equal(expected, output)
  assert.equal(0, status)
  assert.is_true(duration < seconds, duration .. " seconds")
end

local ASYNC, SYNC = "portico", "portico.sync"

for _, facade in ipairs({ ASYNC, SYNC }) do
  local function test(name, ...)
    local args = table.pack(...)
    it(name .. " [" .. facade .. "]", function()
      check(facade, table.unpack(args))
    end)
  end

  describe("Ctrl-C ends", function()
    for _, loop in ipairs({
      "for _ in p:lines() do end",
      "for _ in p:chunks() do end",
      "while p:read() do end",
    }) do
      test(loop .. " over a fast command", INTERRUPTED .. "usable\n", 8, [[
        show(pcall(start, function()
          local sb <close> = P.sandbox({ backend = "local" })
          local p <close> = sb:spawn({ "yes" }, { timeout = 5 })
          sb:spawn("sleep 0.1; " .. interrupt)
          ]] .. loop .. [[

        end))
        print(usable())
      ]])
    end

    test("a call whose input function gives nothing but \"\"",
      INTERRUPTED .. "usable\n", 8, [[
        show(pcall(start, function()
          local sb <close> = P.sandbox({ backend = "local" })
          sb:exec("sleep 0.1; " .. interrupt .. "; sleep 5", {
            input = function()
              return ""
            end,
          })
        end))
        print(usable())
      ]])

    test("a close that waits outside of run", INTERRUPTED .. "usable\n", 8, [[
      local sb, p
      P.run(function()
        sb = P.sandbox({ backend = "local" })
        p = sb:spawn("trap '" .. interrupt .. "' TERM; echo ready;"
          .. "while :; do sleep 0.02; done")
        p:read()
      end)
      show(pcall(p.close, p, { grace = 20 }))
      sb:close()
      print(usable())
    ]])

    test("a run that is in its last close", INTERRUPTED .. "usable\n", 8, [[
      show(pcall(P.run, function()
        local sb <close> = P.sandbox({ backend = "local" })
        local p = sb:spawn("trap '" .. interrupt .. "' TERM; echo ready;"
          .. "while :; do sleep 0.02; done")
        p:read()
        p:close({ grace = 0.5 })
      end))
      print(usable())
    ]])
  end)

  describe("Ctrl-C during a computation", function()
    test("in a coroutine is raised by its next wait",
      INTERRUPTED .. "usable\n", 8, [[
        pcall(start, function()
          local sb <close> = P.sandbox({ backend = "local" })
          compute(sb)
          show(pcall(sb.exec, sb, { "sleep", "30" }))
        end)
        print(usable())
      ]])
  end)

  it("Ctrl-C ends an exec whose tee nobody takes [" .. facade .. "]",
    function()
      local dir = env.tmpdir()
      env.write(dir .. "/script", PRELUDE:format(facade) .. [[
        function print(...)
          io.stderr:write(table.concat({ tostring(...), select(2, ...) }, " "),
            "\n")
        end
        show(pcall(P.run, function()
          local sb <close> = P.sandbox({ backend = "local" })
          sb:exec("(sleep 0.5; " .. interrupt .. ") & exec yes",
            { tee = true, timeout = 30 })
        end))
        print(usable())
      ]])
      local output, code = env.sh(("cd %s; mkfifo full; exec 4<>full; "
        .. "env --default-signal=INT timeout -k 5 %d lua5.4 script "
        .. "2>&1 >&4"):format(env.quoted(dir), env.patience(20)))
      env.rmdir(dir)
      assert.same({ "false PCO_EINTERRUPTED\nusable\n", 0 }, { output, code })
    end)

  -- The agent is stopped, so that the call's clean-up has to wait for it. (The
  -- command outlasts the interrupt: one that ends first gives its result, and
  -- leaves the interrupt to Lua's own hook.)
  test("Ctrl-C is raised once by a call that is still cleaning up",
    INTERRUPTED .. "true\tnil\nusable\n", 15, [[
      local sb, agent
      P.run(function()
        sb = P.sandbox({ backend = "local" })
        agent = sb:output({ "sh", "-c", "ps -o ppid= -p $PPID" })
        os.execute("kill -STOP " .. agent)
        os.execute("(sleep 1; " .. interrupt .. "; sleep 0.5; kill -CONT "
          .. agent .. ") &")
      end)
      show(pcall(P.run, function()
        sb:exec({ "sleep", "30" })
      end))
      show(pcall(function()
        for _ = 1, 1000 do end
      end))
      print(P.run(sb.output, sb, "echo usable"))
      sb:close()
    ]])
end

describe("Ctrl-C in a task", function()
  it("that is in C for long is not lost", function()
    check(ASYNC, "closed\n" .. INTERRUPTED .. "usable\n", 15, [[
      show(pcall(P.run, function()
        io.popen(interrupt .. "; sleep 1.2"):close() -- more than a second
        print("closed")
        P.sleep(5)
      end))
      print(usable())
    ]])
  end)
end)

describe("Ctrl-C in the sync facade", function()
  it("during a computation outside of coroutines is raised at once",
    function()
      check(SYNC, "false\tinterrupted!\nusable\n", 8, [[
        local sb <close> = P.sandbox({ backend = "local" })
        show(pcall(compute, sb))
        print(sb:output("echo usable"))
      ]])
    end)

  it("leaves nothing behind", nothing_left)
end)
