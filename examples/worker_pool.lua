-- A pool of workers that take jobs from a channel. A supervisor starts a worker
-- again when it fails, so one bad job costs one worker and not the pool.
local portico = require("portico")
local task = require("portico.task")

portico.run(function()
  local sandbox <close> = portico.sandbox()
  local jobs, done = task.channel(8), {}

  local function work()
    for job in jobs:values() do
      done[job] = sandbox:output(job)
    end
  end

  local function supervise(pool, failed)
    while true do
      local ok, err = pool:spawn(work):pawait() -- the failure is ours now
      if ok then
        return -- the channel is closed and empty
      end
      failed[#failed + 1] = err
    end
  end

  local failed = {}
  task.scope(function(pool)
    for _ = 1, 3 do
      pool:spawn(supervise, pool, failed)
    end
    for i = 1, 10 do
      jobs:send(i == 5 and "exit 3" or "echo job " .. i)
    end
    jobs:close()
  end)

  local count = 0
  for _ in pairs(done) do
    count = count + 1
  end
  print(count .. " jobs done")
  for _, err in ipairs(failed) do
    print("failed with exit code " .. err.result.code)
  end
end)
