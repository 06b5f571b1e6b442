-- Runs the scripts of strangers: each in a sandbox of its own, with bounded
-- memory, processes, disk and time, without network, and with nothing of this
-- machine to see but its programs. What came of each is told by its result.
local portico = require("portico.sync")
local errors = require("portico.errors")

local LIMITS = { memory = 64 << 20, pids = 32, disk = 16 << 20 }

-- Returns what happened, in a word or two, and what the script had printed.
local function run_stranger(script)
  local sandbox <close> = portico.sandbox({ limits = LIMITS, network = "none" })
  sandbox.fs:write("script.sh", script)
  local result, err = errors.try(sandbox.exec, sandbox, { "sh", "script.sh" },
    { timeout = 10, grace = 0.2, max_output = 1000, stderr = "merge" })
  if errors.is(err, "TimeoutError") then
    return "timeout", err.result.stdout -- with all that it started
  elseif err then
    error(err, 0) -- not the script's fault
  elseif result.reason == "oom" then
    return "oom", result.stdout -- killed by the kernel, which counts that
  end
  local what = result.ok and "ok" or "exit " .. result.code
  if result.limit then
    what = what .. ", after it hit the limit of " .. result.limit
  end
  return what, result.stdout
end

local STRANGERS = {
  { "works", "echo 6 7 | (read a b; echo $((a * b)))" },
  { "fails", "echo never mind; exit 3" },
  { "loops", "echo busy; while :; do :; done" },
  { "eats memory", "exec tail /dev/zero" },
  { "forks", "i=0; while [ $i -lt 100 ]; do sleep 60 & i=$((i + 1)); done" },
  { "fills the disk", "head -c 100000000 /dev/zero >big || wc -c <big" },
  { "looks around", "ls /home /workspace; cat /etc/hostname /etc/shadow" },
  { "calls home", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '" },
}

for _, stranger in ipairs(STRANGERS) do
  local what, output = run_stranger(stranger[2])
  print(("%-15s %s"):format(stranger[1] .. ":", what))
  for line in output:gmatch("[^\n]+") do
    print("                | " .. line)
  end
end
