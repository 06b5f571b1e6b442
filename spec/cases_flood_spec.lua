-- Situations 23 to 28 of the collection of cases: huge output, many processes,
-- descriptors that leak into commands.
--
-- 26, pipes of one start that leak into another thread's, needs threads: it is
-- in spec/c/threads_test.c. What 25 asks of an option that kills at the cap is
-- here what the cap always does: the rest is dropped, and the command ends at
-- its time limit.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

-- Runs the body of a script that has `P` and `sb`, and `grown()`: MiB that its
-- memory has grown by at most since the sandbox was there, or 0 where a
-- sanitizer's own memory hides it. It must print what is expected.
local function check(P, backend, expected, body, prefix)
  local output, code, seconds = env.script(([[
    local P = require(%q)
    local errors = P.errors
    local function status(name)
      return tonumber(io.open("/proc/self/status"):read("a")
        :match(name .. ":%%s*(%%d+)"))
    end
    local sanitized = io.open("/proc/self/maps"):read("a"):find("lib[at]san")
    P.run(function()
      local sb <close> = P.sandbox({ backend = %q })
      sb:exec({ "true" })
      local before = status("VmHWM")
      local function grown()
        return sanitized and 0 or (status("VmHWM") - before) // 1024
      end
      %s
    end)
  ]]):format(facades.module_name(P), backend.name, body), prefix)
  assert.equal(expected, output)
  assert.equal(0, code)
  return seconds
end

describe("huge output:", function()
  facades.everywhere(it, "case 23: endless output within the time limit",
    function(P, backend)
      check(P, backend, "PCO_ETIMEDOUT\ttrue\ttrue\ttrue\n", [[
        local ok, err = pcall(sb.exec, sb, { "yes" },
          { timeout = 1, max_output = 1024 * 1024 })
        local r = err.result
        assert(not ok and #r.stdout <= 1024 * 1024, #r.stdout)
        print(err.code, r.truncated.stdout.bytes > 0,
          r.stdout_bytes > 1024 * 1024, grown() < 50 or grown())
      ]])
    end)

  facades.everywhere(it, "case 23: there is a cap without asking for one",
    function(P, backend)
      check(P, backend, "true\ttrue\n", [[
        local r = sb:exec("yes | head -c 200000000")
        print(#r.stdout <= 16 * 1024 * 1024 and r.stdout_bytes == 200000000,
          grown() < 100 or grown())
      ]])
    end)

  facades.everywhere(it, "case 24: a stream that nobody reads",
    function(P, backend)
      check(P, backend, "true\tnil\n38888896\t0\tEND\n", [[
        local p = sb:spawn("seq 1 5000000; echo END >&2")
        P.sleep(0.5)
        print(grown() < 10 or grown(), p:poll())
        local count, last = 0, nil
        for chunk in p:chunks() do
          if chunk.stream == "stdout" then
            count = count + #chunk.data
          else
            last = chunk.data:sub(1, 3)
          end
        end
        print(count, p:wait().code, last)
      ]])
    end)

  on_each(it, "case 24: and one that nobody wants", function(_, sb)
    local r = sb:exec("yes | head -c 100000000; echo END >&2",
      { stdout = "null", timeout = 20 })
    assert.same({ "", "END\n", 0 }, { r.stdout, r.stderr, r.code })
  end)

  facades.everywhere(it, "case 25: a child that goes on after the cap",
    function(P, backend)
      local seconds = check(P, backend, "PCO_ETIMEDOUT\tSIGKILL\ttrue\ttrue\n",
        [[
          local ok, err = pcall(sb.exec, sb, { "sh", "-c", "trap '' TERM PIPE; "
            .. "while :; do head -c 1000000 /dev/zero || exit 9; done" },
            { max_output = 1000000, timeout = 0.5, grace = 0.5 })
          local r = err.result
          assert(not ok and #r.stdout <= 1000000, #r.stdout)
          print(err.code, r.signal, r.truncated and true, grown() < 50
            or grown())
        ]])
      assert.is_true(seconds < 30, seconds .. " seconds")
    end)
end)

describe("descriptors:", function()
  facades.everywhere(it, "case 27: the host's do not leak", function(P, backend)
    -- The shell leaves 7 and 9 open for the script, without close-on-exec.
    check(P, backend, "0\n1\n2\n3\n0\n1\n2\n3\n127.0.0.1 localhost\n", [[
      io.write(sb:exec({ "ls", "/proc/self/fd" }).stdout)
      local p = sb:spawn({ "ls", "/proc/self/fd" }, { stdin = "pipe" })
      io.write(p:wait().stdout)
      -- The host's own are as they were.
      print(io.open("/proc/self/fd/7"):read("l"))
    ]], "printf '127.0.0.1 localhost\\n' >/tmp/$$; exec 7</tmp/$$ "
      .. "9>>/tmp/$$; rm /tmp/$$; ")
  end)

  facades.everywhere(it, "case 27: nor into what stands around the sandbox",
    function(P, backend)
      local path = os.tmpname()
      local file <close> = assert(io.open(path, "w"))
      os.remove(path)
      local before = backends.first_processes()
      facades.with_sandbox(P, { backend = backend.name }, function(sb)
        sb:exec({ "true" })
        local looked = 0
        for pid in pairs(backends.first_processes()) do
          if not before[pid] then
            looked = looked + 1
            local links = env.sh("ls -l /proc/" .. pid .. "/fd 2>/dev/null")
            assert.is_nil(links:find(path, 1, true), links)
          end
        end
        assert.equal(1, looked)
      end)
      file:write("x")
    end)
end)

describe("many processes:", function()
  facades.in_task(it, "case 28: a thousand starts do not freeze the loop",
    function(P, sb)
      local jobs, running, late = {}, 1000, 0
      jobs[1] = function()
        while running > 0 do
          local before = env.own_time()
          P.sleep(0.01)
          late = math.max(late, env.own_time() - before)
        end
      end
      for i = 2, 1001 do
        jobs[i] = function()
          assert.equal(0, sb:exec({ "true" }).code)
          running = running - 1
        end
      end
      require("portico.task").all(jobs)
      -- Far above the tenth of a second that it takes, far below what a fork
      -- for each, or waiting for each, would.
      assert.is_true(late < 0.5 * env.SLOWER, late .. " seconds")
      assert.same({}, sb:processes())
    end)

  facades.in_task(it, "case 28: nor do starts that all fail",
    function(_, sb)
      local jobs = {}
      for i = 1, 300 do
        jobs[i] = function()
          return raises("SpawnError", sb.exec, sb, { "no-such-tool" }).code
        end
      end
      for _, code in ipairs(require("portico.task").all(jobs)) do
        assert.equal("ENOENT", code)
      end
    end)

  it("leaves nothing behind", nothing_left)
end)
