-- Runs each example as a reader would: by `lua5.4`, and by the portico command.
-- What they print is known, and nothing may be on stderr.

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
  timeout_partial = [[
PCO_ETIMEDOUT
so far: working
survivors: 0
still here
]],
}

-- Runs a program with an example; returns stdout, stderr and exit code.
local function run(program, path)
  local errors_path = os.tmpname()
  local output, code = env.sh(("timeout 60 %s %s 2>%s"):format(program,
    env.quoted(path), env.quoted(errors_path)))
  local problems = env.read(errors_path)
  os.remove(errors_path)
  return output, problems, code
end

describe("the example", function()
  for name, expected in pairs(EXPECTED) do
    local path = "examples/" .. name .. ".lua"

    it(name .. " works in lua5.4", function()
      local output, problems, code = run("lua5.4", path)
      assert.same({ expected, "", 0 }, { output, problems, code })
    end)

    it(name .. " works in the portico command", function()
      local program = assert(os.getenv("PORTICO_BIN"),
        "PORTICO_BIN is not set: run the tests by ./dev test")
      local output, problems, code = run(env.quoted(program), path)
      assert.same({ expected, "", 0 }, { output, problems, code })
    end)
  end

  it("has a test, each of them", function()
    for file in lfs.dir("examples") do
      local name = file:match("^(.*)%.lua$")
      assert.truthy(not name or EXPECTED[name], file .. " has no test")
    end
  end)

  it("is in the README as it is, for the quick start", function()
    local readme = assert(env.read("README.md"), "README.md")
    for _, name in ipairs({ "quickstart_async", "quickstart_sync" }) do
      local text = env.read("examples/" .. name .. ".lua")
      assert.truthy(readme:find(text, 1, true), name)
    end
  end)

  it("leaves nothing behind", nothing_left)
end)
