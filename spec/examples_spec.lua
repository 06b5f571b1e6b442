-- Runs each example as a reader would: by `lua5.4`, and by the portico command,
-- on the default backend; and on every other that runs programs. What they
-- print is known, and nothing may be on stderr.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")
local lfs = require("lfs")

local nothing_left = leaks.frame()

local QUICK_START = [[
exit 0: Linux
stdout: 1
stdout: 2
stdout: 3
hello
hello.txt	5
]]

local EXPECTED = {
  quickstart_async = QUICK_START,
  quickstart_sync = QUICK_START,
  stream_lines = [[
line 1
line 2
line 3
line 4
line 5
ended by SIGKILL
]],
  several_sandboxes = [[
hello from sandbox 1
hello from sandbox 2
hello from sandbox 3
hello from sandbox 4
]],
  feed_stdin = [[
apple fig pear
3000 bytes
echo: ping
echo: pong
exit 0
]],
  conversation = [[
6 * 7	42
1 - 2	-1
2 ^ 8	error: I do not know ^
exit 0
]],
  terminal_program = [[
Name: Ada
Password:
Welcome, Ada, on a terminal of 30x100.
exit 0
]],
  server_inside = [[
hello from inside
ended by SIGTERM
]],
  four_at_a_time = [[
1 4 9 16 25 36 49 64 81 100 121 144 169 196 225 256 289 324 361 400
at once: 4
]],
  first_answer = [[
answered: fast
still running: 0
]],
  worker_pool = [[
9 jobs done
failed with exit code 3
]],
  generator = [[
1	2
3	4
5	6
]],
  graceful_shutdown = [[
serving
state: saved
ended: PCO_EINTERRUPTED
]],
  left_running = [[
3: hello you
]],
  timeout_partial = [[
PCO_ETIMEDOUT
so far: working
survivors: 0
still here
]],
}

-- The examples name no backend: this makes lua5.4 take another one.
local OTHER_BACKEND = [[
  for _, name in ipairs({ "portico", "portico.sync" }) do
    local P = require(name)
    local sandbox = P.sandbox
    function P.sandbox(options)
      options = options or {}
      options.backend = options.backend or %q
      return sandbox(options)
    end
  end
]]

-- What an example needs inside, if not every machine has it.
local NEEDS = { server_inside = "/usr/bin/python3" }

-- What is about isolation has tests of its own.
local OWN_TESTS = { strangers_script = true, limits_and_mounts = true }

-- Runs a program with an example; returns stdout, stderr and exit code.
local function run(program, path, init)
  local errors_path = os.tmpname()
  local output, code = env.sh(("LUA_INIT=%s timeout %d %s %s 2>%s"):format(
    env.quoted(init or ""), env.patience(60), program, env.quoted(path),
    env.quoted(errors_path)))
  local problems = env.read(errors_path)
  os.remove(errors_path)
  return output, problems, code
end

describe("the example", function()
  local function has_test(name, expected)
    local path = "examples/" .. name .. ".lua"

    local function works(program, init)
      local output, problems, code = run(program, path, init)
      assert.same({ expected, "", 0 }, { output, problems, code })
    end

    for _, backend in ipairs(backends.real) do
      backends.it(it, backend, ("%s works in lua5.4 [%s]"):format(name,
        backend.name), function()
        works("lua5.4", not backend.default
          and OTHER_BACKEND:format(backend.name))
      end)
    end

    backends.it(it, backends.default, name .. " works in the portico command",
      function()
        works(env.quoted(assert(os.getenv("PORTICO_BIN"),
          "PORTICO_BIN is not set: run the tests by ./dev test")))
      end)
  end

  for name, expected in pairs(EXPECTED) do
    local needed = NEEDS[name]
    if needed and not env.exists(needed) then
      pending(("%s is not tested: there is no %s"):format(name, needed))
    else
      has_test(name, expected)
    end
  end

  -- How a limit makes itself felt depends on whether there is a cgroup for it.
  backends.it(it, backends.bwrap, "strangers_script tells results apart",
    function()
      local backend <close> = require("portico.sync").open("bwrap")
      local capabilities = backend:probe().capabilities
      local function native(limit)
        return capabilities["limits." .. limit].level == "native"
      end
      local output, problems, code = run("lua5.4",
        "examples/strangers_script.lua")
      assert.same({ "", 0 }, { problems, code })
      local found, name = {}, nil
      for line in output:gmatch("[^\n]+") do
        local printed = line:match("^ +| (.*)$")
        if printed then
          found[name][#found[name] + 1] = printed
        else
          local what
          name, what = line:match("^([%a ]+):%s+(.*)$")
          found[name] = { what }
        end
      end
      assert.same({ "ok", "42" }, found["works"])
      assert.same({ "exit 3", "never mind" }, found["fails"])
      assert.same({ "timeout", "busy" }, found["loops"])
      assert.equal(native("memory") and "oom" or "exit 1",
        found["eats memory"][1])
      assert.truthy(found["forks"][1]:find("^exit 2"), output)
      assert.equal(native("pids"),
        found["forks"][1] == "exit 2, after it hit the limit of pids")
      assert.equal("ok", found["fills the disk"][1])
      assert.is_true(tonumber(found["fills the disk"][3]) <= 16 << 20)
      assert.equal("exit 1", found["looks around"][1])
      assert.same({ "/home:", "sandbox", "/workspace:", "script.sh" },
        table.move(found["looks around"], 2, 5, 1, {}))
      assert.same({ "ok", "lo" }, found["calls home"])
    end)

  backends.it(it, backends.bwrap, "limits_and_mounts tells ends apart",
    function()
      local output, problems, code = run("lua5.4",
        "examples/limits_and_mounts.lua")
      assert.same({ "", 0 }, { problems, code })
      local level = output:match("^memory:\t(%a+)\t")
      assert.truthy(level == "native" or level == "emulated", output)
      assert.equal("reads:\texit 0\nwrites:\texit 1\ngrows:\t"
        .. (level == "native" and "oom" or "exit 1") .. "\nhangs:\ttimeout\n",
        output:match("\n(.*)$"))
    end)

  it("has a test, each of them", function()
    for file in lfs.dir("examples") do
      local name = file:match("^(.*)%.lua$")
      assert.truthy(not name or EXPECTED[name] or OWN_TESTS[name],
        file .. " has no test")
    end
  end)

  it("leaves nothing behind", nothing_left)
end)
