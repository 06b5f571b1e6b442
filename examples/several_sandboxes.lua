-- Several sandboxes at once: a task each, all in one thread. The whole takes as
-- long as the slowest, and each has files of its own.
local portico = require("portico")
local task = require("portico.task")

-- What one task does with its own sandbox.
local function job(name)
  local sandbox <close> = portico.sandbox()
  sandbox.fs:write("name", name)
  sandbox:exec({ "sleep", "0.3" }):check()
  return sandbox:output("echo hello from $(cat name)")
end

portico.run(function()
  local functions = {}
  for i = 1, 4 do
    functions[i] = function()
      return job("sandbox " .. i)
    end
  end
  -- Results come in the order of the functions, whoever was first.
  for _, text in ipairs(task.all(functions)) do
    print(text)
  end
end)
