-- Very many processes at once, too few descriptors, bombs, and the host's
-- death amid all that. (A part of that, unless PORTICO_HEAVY=100:
-- support/heavy.lua.)

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local heavy = require("spec.support.heavy")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local everywhere, on_each = facades.everywhere, facades.on_each
local raises = facades.raises

local THOUSAND = heavy.share(1000)

describe("a thousand processes at once", function()
  -- A thousand run when the first is told to end.
  everywhere(it, "give a thousand right results", function(P, backend)
    local output = heavy.script(P, backend, ([[
      local most = %d
      local held = {}
      for i = 1, most do
        held[i] = sb:spawn({ "sh", "-c", "read x; printf %%s $x; exit "
          .. i %% 256 }, { stdin = "pipe", stderr = "merge" })
      end
      assert(#sb:processes() == most, #sb:processes())
      for i = most, 1, -1 do
        held[i]:write(("%%d.\n"):format(i))
      end
      local wrong = 0
      for i = 1, most do
        local r = held[i]:wait({ timeout = 250 })
        if r.code ~= i %% 256 or r.stdout ~= i .. "." then
          wrong = wrong + 1
        end
      end
      print(wrong, #sb:processes(), grown() < 64 or grown())
    ]]):format(THOUSAND), "ulimit -n $(ulimit -H -n); ")
    assert.equal("0\t0\ttrue\n", output)
  end)

  facades.in_task(it, "by as many tasks", function(_, sb)
    local jobs = {}
    for i = 1, math.min(THOUSAND, 250) do
      jobs[i] = function()
        return sb:exec({ "sh", "-c", "echo $1; exit $2", "-", i, i % 256 })
      end
    end
    for i, r in ipairs(require("portico.task").all(jobs)) do
      assert.same({ i .. "\n", i % 256 }, { r.stdout, r.code })
    end
  end)
end)

describe("no descriptors left:", function()
  everywhere(it, "a clear error, and it goes on afterwards",
    function(P, backend)
      local output = heavy.script(P, backend, [[
        local held, err = {}, nil
        repeat
          local ok, p = pcall(sb.spawn, sb, { "cat" }, { stdin = "pipe" })
          if ok then
            held[#held + 1] = p
          else
            err = p
          end
        until err
        print(errors.class_of(err).name, err.code, err.retryable,
          err.limit, err.message:match("too many open files.*"))
        local function fails(...)
          local ok, again = pcall(...)
          print(ok, again.code, errors.class_of(again).name, again.limit)
        end
        fails(sb.exec, sb, { "cat" }, { input = "" })
        fails(P.sandbox, { backend = sb.backend.name })
        -- Those that run are none the worse.
        for i, p in ipairs(held) do
          p:write(i .. "\n")
          p:close_stdin()
        end
        for i, p in ipairs(held) do
          assert(p:wait().stdout == i .. "\n", i)
          p:close()
        end
        held = nil
        for i = 1, 50 do
          assert(sb:output({ "echo", i }) == tostring(i))
        end
        local other <close> = P.sandbox({ backend = sb.backend.name })
        print(other:output({ "echo", "well" }), #sb:processes())
      ]], "ulimit -n 100; ")
      assert.equal("LimitError\tEMFILE\ttrue\topen_files\t"
        .. "too many open files (this program may have 100: close what is not "
        .. "needed, or raise that, ulimit -n)\n"
        .. ("false\tEMFILE\tLimitError\topen_files\n"):rep(2)
        .. "well\t0\n", output)
    end)

  -- Terminals are the agent's: the host has no descriptor of them.
  everywhere(it, "in the agent: neither it nor a command is harmed",
    function(P, backend)
      local output = heavy.script(P, backend, [[
        local held, err = {}, nil
        repeat
          local ok, p = pcall(sb.spawn, sb, "read x; echo $x; exit 7",
            { pty = { echo = false } })
          if ok then
            held[#held + 1] = p
          else
            err = p
          end
        until err
        print(#held > 5, errors.class_of(err).name, err.code, err.source,
          err.retryable, err.limit, err.message:find("may have 64: ", 1, true)
          and true)
        -- It has no room for what is sent along, however little is missing.
        local refused = 0
        for _ = 1, 2 do
          local more = {}
          repeat
            local ok, p = pcall(sb.spawn, sb, { "cat" }, { stdin = "pipe" })
            more[#more + 1] = ok and p or nil
          until not ok
          for _, options in ipairs({ {}, { stdout = "null", stderr = "null" },
            { stdout = "null" }, { stdin = "pipe" } }) do
            local ok, p = pcall(sb.spawn, sb, { "true" }, options)
            if ok then
              assert(p:wait().ok)
              p:close()
            else
              assert(p.code == "EMFILE" and p.source == "agent", p)
              refused = refused + 1
            end
          end
          for _, p in ipairs(more) do
            p:write("x")
            p:close_stdin()
            assert(p:wait().stdout == "x")
            p:close()
          end
          held[#held]:kill()
          table.remove(held):close()
          assert(sb:exec({ "true" }).ok)
          held[#held + 1] = sb:spawn("read x; echo $x; exit 7",
            { pty = { echo = false } })
        end
        for i, p in ipairs(held) do
          p:write(i .. "\n")
          local r = p:wait()
          assert(r.code == 7 and r.stdout == i .. "\r\n", r.stdout)
          p:close()
        end
        print(refused > 0, sb:output({ "echo", "well" }), #sb:processes())
      ]], "ulimit -n 64; ")
      assert.equal("true\tLimitError\tEMFILE\tagent\ttrue\topen_files\t"
        .. "true\ntrue\twell\t0\n", output)
    end)
end)

describe("two commands at once:", function()
  on_each(it, "one is timed out, the other is untouched", function(_, sb)
    -- Each has a child, one that left its session, and one that left its
    -- parent.
    local family = "sleep %d & (setsid sleep %d & ) ; (sh -c 'sleep %d' &) ; "
      .. "read x; echo $x"
    local function names(n)
      return { "sleep", tostring(n) }
    end
    local other <close> = sb:spawn(family:format(7801, 7802, 7803),
      { stdin = "pipe", drain = 0 })
    local p <close> = sb:spawn(family:format(7811, 7812, 7813),
      { stdin = "pipe", timeout = 0.7, grace = 0.1 })
    assert.is_true(env.eventually(10, function()
      return #env.pgrep(names(7802)) == 1 and #env.pgrep(names(7803)) == 1
    end))
    local err = raises("TimeoutError", p.wait, p)
    assert.same({}, err.result.survivors)
    for _, n in ipairs({ 7811, 7812, 7813 }) do
      assert.same({}, env.pgrep(names(n)))
    end
    for _, n in ipairs({ 7801, 7802, 7803 }) do
      assert.equal(1, #env.pgrep(names(n)))
    end
    assert.is_nil(other:poll())
    other:write("fine\n")
    assert.equal("fine\n", other:wait().stdout)
    other:close()
    for _, n in ipairs({ 7801, 7802, 7803 }) do
      assert.same({}, env.pgrep(names(n)))
    end
  end)
end)

describe("a fork bomb under a pids limit", function()
  facades.with(it, "bwrap", "is ended by its time limit, and nothing else",
    function(P)
      facades.with_sandbox(P, {
        backend = "bwrap", limits = { pids = 100 },
      }, function(sb)
        local other <close> = sb:spawn("read x; exit 3", { stdin = "pipe" })
        for _ = 1, 3 do
          local err = raises("TimeoutError", sb.exec, sb,
            "b() { b | b & }; b; sleep 30", { timeout = 0.7, grace = 0.1 })
          assert.equal("timeout", err.result.reason)
          assert.same({}, err.result.survivors)
        end
        assert.is_nil(other:poll())
        assert.equal(1, #sb:processes())
        other:write("x\n")
        assert.equal(3, other:wait().code)
        assert.equal("fine\n", sb:exec({ "echo", "fine" }).stdout)
      end)
    end)
end)

describe("the host is killed by SIGKILL:", function()
  -- Escapers, many commands and unread output among what it leaves.
  local SCRIPT = [[
    local P = require(%q)
    P.run(function()
      local sb = P.sandbox({ backend = %q })
      local held = {}
      for i = 1, 20 do
        held[i] = sb:spawn("(setsid sleep 7821 &); sleep 7822 & exec yes")
      end
      for i = 1, 20 do
        held[i]:read()
      end
      local list = sb:output("while ! pgrep -x -f 'sleep 7821' >/dev/null; do "
        .. "sleep 0.01; done; echo ready")
      print(list)
      io.stdout:flush()
      sb:exec({ "sleep", "7823" })
    end)
  ]]

  local function left()
    return #env.pgrep({ "sleep", "7821" }) + #env.pgrep({ "sleep", "7822" })
      + #env.pgrep({ "sleep", "7823" }) + #env.pgrep({ "yes" })
  end

  everywhere(it, "all is gone at once", function(P, backend)
    local before = left() -- of others' tests
    local path = os.tmpname()
    env.write(path, SCRIPT:format(facades.module_name(P), backend.name))
    local pipe = io.popen("timeout -s KILL 60 sh -c 'echo $$; exec lua5.4 "
      .. path .. "' 2>&1")
    local pid = pipe:read("l")
    assert.equal("ready", pipe:read("l"))
    assert.is_true(left() > before)
    local start = env.now()
    env.sh("kill -KILL " .. pid)
    local gone = env.eventually(20, function()
      return left() <= before
    end)
    local seconds = env.now() - start
    pipe:close()
    os.remove(path)
    assert.is_true(gone, "commands live on")
    -- A second on a quiet machine; this one may be busy.
    assert.is_true(seconds < 10, seconds)
    assert.same({}, backends.first_processes())
  end)

  it("leaves nothing behind", nothing_left)
end)
