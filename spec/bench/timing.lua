-- What the rows of the bench share: medians, and timing a function.

local clock = require("bench_clock")

local timing = { now = clock.now }

-- Sorts the samples.
function timing.median(samples)
  table.sort(samples)
  return samples[#samples // 2 + 1]
end

-- Median microseconds of count calls of fn, or of what fn says that it took.
function timing.time(count, fn)
  for _ = 1, count // 10 + 1 do
    fn()
  end
  local samples = {}
  for i = 1, count do
    local start = clock.now()
    local took = fn()
    samples[i] = took or clock.now() - start
  end
  return timing.median(samples)
end

return timing
