-- Trees in and out, beside tar and cp, in the same directory:
--   lua5.4 spec/bench/trees.lua
-- Prints six numbers: milliseconds that a tree of 10,000 small files takes by
-- `tar c | tar x`, upload and download; MB/s of a file of 1 GiB by cp, upload
-- and download. TREES_MIB makes that file smaller.

local clock = require("bench_clock")
local P = require("portico.sync")

local MIB = tonumber(os.getenv("TREES_MIB") or "1024")

local dir = os.tmpname()
os.remove(dir)

local function sh(command)
  assert(os.execute("cd " .. dir .. " && " .. command))
end

-- Milliseconds that fn takes.
local function timed(fn, ...)
  local start = clock.now()
  fn(...)
  return (clock.now() - start) / 1e3
end

local function many_files(sandbox)
  sh([[mkdir tree && cd tree && for d in $(seq 100); do mkdir $d
    for f in $(seq 100); do echo $f > $d/$f; done; done && mkdir ../tar]])
  local tar = timed(sh, "tar c tree | tar x -C tar")
  local up = timed(sandbox.upload, sandbox, dir .. "/tree", "tree")
  local down = timed(sandbox.download, sandbox, "tree", dir .. "/down")
  return tar, up, down
end

-- MB/s of the second time that fn does it. For memory that a virtual machine
-- has not had for a while its host must look first, at a tenth of the speed;
-- what the first time wrote is removed, and the second gets that memory.
local function speed(remove, fn, ...)
  fn(...)
  remove()
  return MIB * 1.048576 * 1e3 / timed(fn, ...)
end

local function one_file(sandbox)
  sh("head -c " .. MIB .. "M /dev/urandom > big")
  local function remove()
    sh("rm -f copy")
    sandbox.fs:remove("big", { missing_ok = true })
  end
  local cp = speed(remove, sh, "cp --reflink=never big copy")
  remove()
  local up = speed(remove, sandbox.upload, sandbox, dir .. "/big", "big")
  local down = speed(function()
    sh("rm copy")
  end, sandbox.download, sandbox, "big", dir .. "/copy")
  return cp, up, down
end

assert(os.execute("mkdir " .. dir))
local sandbox <close> = P.sandbox({ backend = "local" })
local ok, text = pcall(function()
  local tar, up, down = many_files(sandbox)
  return ("%.1f %.1f %.1f %.1f %.1f %.1f"):format(tar, up, down,
    one_file(sandbox))
end)
os.execute("rm -rf " .. dir)
if not ok then
  error(text, 0)
end
print(text)
