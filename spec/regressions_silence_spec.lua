-- Agents and supervisors that are stopped and stay so. Such silence is borne
-- for some seconds, so all scripts run at the same time, each in a process of
-- its own; then the tests look at what they printed.

local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local FACADES = { "portico", "portico.sync" }

local SCRIPTS = {
  interrupt = [[
    local pid = io.open("/proc/self/stat"):read("n")
    local sb, agent
    P.run(function()
      sb = P.sandbox({ backend = "local" })
      agent = sb:output({ "sh", "-c", "ps -o ppid= -p $PPID" })
    end)
    os.execute("kill -STOP " .. agent)
    os.execute("(sleep 1; kill -INT " .. pid .. ") &")
    local ok, err = pcall(P.run, function()
      sb:exec({ "true" })
    end)
    print(ok, errors.is(err, "CancelledError"), err.code)
    print(pcall(function()
      for _ = 1, 1000 do end
    end))
    os.execute("kill -CONT " .. agent)
    sb:close()
  ]],
  supervisor = [[
    P.run(function()
      local sb <close> = P.sandbox({ backend = "local" })
      local ok, err = pcall(sb.exec, sb,
        "echo hi; while kill -STOP $PPID; do sleep 0.01; done",
        { timeout = 0.3, grace = 0.1 })
      print(ok, errors.is(err, "TimeoutError"), err.code)
      print(err.result.reason, err.result.stdout)
      print(sb:output("echo usable"))
    end)
  ]],
}

describe("when all is silent,", function()
  local outputs, seconds = {}, nil

  setup(function()
    local dir = env.tmpdir()
    local commands = {}
    for name, code in pairs(SCRIPTS) do
      for _, facade in ipairs(FACADES) do
        local path = ("%s/%s.%s"):format(dir, name, facade)
        env.write(path, ("local P = require(%q)\nlocal errors = P.errors\n")
          :format(facade) .. code)
        commands[#commands + 1] = ("env --default-signal=INT timeout -k 5 %d "
          .. "lua5.4 %s >%s.out 2>&1 &"):format(env.patience(60), path, path)
      end
    end
    local start = env.now()
    env.sh(table.concat(commands, " ") .. " wait")
    seconds = env.now() - start
    for name in pairs(SCRIPTS) do
      for _, facade in ipairs(FACADES) do
        outputs[name .. facade] =
          env.read(("%s/%s.%s.out"):format(dir, name, facade))
      end
    end
    env.rmdir(dir)
  end)

  for _, facade in ipairs(FACADES) do
    it("Ctrl-C is raised once, after the time for clean-ups [" .. facade
      .. "]", function()
        assert.equal("false\ttrue\tPCO_EINTERRUPTED\ntrue\n",
          outputs["interrupt" .. facade])
      end)

    it("a command that keeps its supervisor stopped obeys its time limit ["
      .. facade .. "]", function()
        assert.equal("false\ttrue\tPCO_ETIMEDOUT\ntimeout\thi\n\nusable\n",
          outputs["supervisor" .. facade])
      end)
  end

  it("nothing waits for ever", function()
    assert.is_true(seconds < 30, seconds .. " seconds")
  end)

  it("nothing is left behind", nothing_left)
end)
