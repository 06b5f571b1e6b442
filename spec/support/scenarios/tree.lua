-- Scenarios: trees, from the host into the sandbox and back.

local env = require("spec.support.env")
local scenarios = require("spec.support.scenarios.list").new()
local add = scenarios.add
local portable = scenarios.portable

-- Runs fn with a directory of the host that has a small tree in it.
local function with_tree(fn)
  local path = env.tmpdir()
  env.sh("cd " .. env.quoted(path) .. " && mkdir -p t/d t/e && echo 1 > t/a"
    .. " && echo 22 > t/d/b && ln -s a t/l")
  local results = table.pack(pcall(fn, path))
  env.rmdir(path)
  if not results[1] then
    error(results[2], 0)
  end
end

-- The same on every run, though the directory is another one.
local function try(t, label, path, fn, ...)
  local results = table.pack(pcall(fn, ...))
  if results[1] then
    t:note(label, table.unpack(results, 2, results.n))
  else
    local err = results[2]
    t:note(label, getmetatable(err).__name, err.code, err.operation,
      (tostring(err.path):gsub(path, "DIR", 1)),
      (err.message:gsub(path, "DIR", 1)), err.limit)
  end
end

add("Sandbox: upload, download", function(_, sb, t)
  with_tree(function(path)
    local tree = path .. "/t"
    try(t, "up", path, sb.upload, sb, tree, "t")
    try(t, "there", path, sb.fs.read, sb.fs, "t/d/b")
    try(t, "again", path, sb.upload, sb, tree, "t", { only_changed = true })
    try(t, "down", path, sb.download, sb, "t", path .. "/u")
    t:note("file", env.read(path .. "/u/d/b"))
    try(t, "a file", path, sb.download, sb, "t/a", path .. "/a")
    try(t, "onto", path, sb.upload, sb, path .. "/a", "t")
    try(t, "missing", path, sb.upload, sb, path .. "/x", "x")
    try(t, "missing inside", path, sb.download, sb, "x", path .. "/x")
    try(t, "no parent", path, sb.upload, sb, tree, "p/t")
    try(t, "parents", path, sb.upload, sb, tree, "p/t", { parents = true })
    try(t, "limit", path, sb.download, sb, "t", path .. "/v",
      { max_entries = 2 })
    try(t, "refused", path, sb.download, sb, "t", path .. "/v",
      { symlinks = "refuse" })
    try(t, "skipped", path, sb.download, sb, "t", path .. "/v",
      { symlinks = "refuse", on_error = "skip", exclude = { "d/" } })
    local last
    sb:download("t", path .. "/w", { on_progress = function(progress)
      last = progress
    end })
    t:note("progress", last.bytes, last.files, last.total)
  end)
end)

portable("Sandbox: bad arguments of trees", function(_, sb, t)
  for _, name in ipairs({ "upload", "download" }) do
    local function bad(label, ...)
      t:raises("InvalidArgumentError", "PCO_EINVAL", name .. " " .. label,
        sb[name], sb, ...)
    end
    bad("nothing")
    bad("no target", "x")
    bad("a number", 5, "x")
    bad("NUL", "x\0", "x")
    bad("empty", "x", "")
    bad("unknown", "x", "y", { exlude = "*" })
    bad("symlinks", "x", "y", { symlinks = "mabye" })
    bad("on_error", "x", "y", { on_error = "ignore" })
    bad("pattern", "x", "y", { include = 5 })
    bad("patterns", "x", "y", { exclude = { "a", 5 } })
    bad("an empty one", "x", "y", { exclude = "" })
    bad("with keys", "x", "y", { exclude = { a = "b" } })
    bad("checksum", "x", "y", { checksum = true })
    bad("progress", "x", "y", { on_progress = 1 })
    bad("entries", "x", "y", { max_entries = -1 })
    bad("timeout", "x", "y", { timeout = "x" })
  end
end)

return scenarios
