-- Scenarios: exec and output, the members of Sandbox that run a command to its
-- end.

local env = require("spec.support.env")
local scenarios = require("spec.support.scenarios.list").new()
local add = scenarios.add
local portable = scenarios.portable

local BYTES = env.all_bytes()

portable("Sandbox: exec", function(_, sb, t)
  t:try("true", sb.exec, sb, { "true" })
  t:try("false", sb.exec, sb, { "false" })
  t:try("echo", sb.exec, sb, { "echo", "a", "b  c", "" })
  t:try("integer", sb.exec, sb, { "echo", 5, -1 })
  t:try("missing", sb.exec, sb, { "no-such-command-here" })
end)

portable("Sandbox: exec input", function(_, sb, t)
  t:try("bytes", sb.exec, sb, { "cat" }, { input = BYTES })
  t:try("empty", sb.exec, sb, { "cat" }, { input = "" })
  t:try("none", sb.exec, sb, { "cat" })
  local chunks = { "one\n", "two\n", BYTES }
  t:try("function", sb.exec, sb, { "cat" }, {
    input = function()
      return table.remove(chunks, 1)
    end,
  })
  local object = { "mine" }
  local ok, err = pcall(sb.exec, sb, { "cat" }, {
    input = function()
      error(object)
    end,
  })
  t:note("error in input", ok, rawequal(err, object))
  t:try("wrong chunk", sb.exec, sb, { "cat" }, {
    input = function()
      return {}
    end,
  })
end)

portable("Sandbox: exec on_output", function(_, sb, t)
  local seen = {}
  t:try("result", sb.exec, sb, { "echo", "hi" }, {
    on_output = function(chunk)
      seen[#seen + 1] = chunk
    end,
  })
  t:note("chunks", seen)
  local object = { "mine" }
  local ok, err = pcall(sb.exec, sb, { "echo", "hi" }, {
    on_output = function()
      error(object)
    end,
  })
  t:note("error in callback", ok, rawequal(err, object))
  t:try("still usable", sb.exec, sb, { "true" })
end)

portable("Sandbox: exec, bad commands", function(_, sb, t)
  for label, command in pairs({
    empty = {}, word = { "" }, hole = { "echo", nil, "x" }, float = { 1.5 },
    boolean = { true }, key = { "true", timeout = 1 }, nul = { "echo", "a\0b" },
    table = { "echo", {} }, cwd = { "pwd", cwd = "/" },
  }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", "\1" .. label, sb.exec, sb,
      command)
  end
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", sb.exec, sb)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "number", sb.exec, sb, 5)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "boolean", sb.exec, sb, true)
end)

portable("Sandbox: exec, bad options", function(_, sb, t)
  for label, options in pairs({
    nearest = { timout = 1 }, far = { zzzzzz = 1 }, negative = { timeout = -1 },
    zero = { timeout = 0 }, nan = { timeout = 0 / 0 },
    type = { timeout = "5" }, grace = { grace = -1 }, env = { env = 5 },
    env_name = { env = { ["A=B"] = "c" } }, env_nul = { env = { A = "\0" } },
    env_value = { env = { A = {} } }, env_true = { env = { A = true } },
    stdin = { stdin = "tty" }, stdout = { stdout = "merge" },
    stderr = { stderr = 5 }, check = { check = "yes" }, input = { input = 5 },
    max_output = { max_output = -1 }, max_float = { max_output = 1.5 },
    on_output = { on_output = "x" }, tee = { tee = 1 }, drain = { drain = -1 },
    cwd = { cwd = 5 }, cwd_nul = { cwd = "a\0" }, clean = { clean_env = 1 },
    positional = { "x" }, user = { portal = 1 }, pty = { pty = 5 },
    pty_key = { pty = { width = 5 } }, pty_cols = { pty = { cols = 0 } },
    pty_rows = { pty = { rows = 1.5 } }, pty_echo = { pty = { echo = 0 } },
    pty_stdout = { pty = true, stdout = "null" },
    pty_stderr = { pty = {}, stderr = "merge" }, user_empty = { user = "" },
    user_number = { user = 0 }, user_nul = { user = "a\0" },
  }) do
    t:raises("InvalidArgumentError", "PCO_EINVAL", "\1" .. label, sb.exec, sb,
      { "true" }, options)
  end
  local ok, err = pcall(sb.exec, sb, { "true" }, { timout = 1 })
  t:note("names", ok, err.message:find("timout", 1, true) ~= nil,
    err.message:find("timeout", 1, true) ~= nil)
  t:raises("InvalidArgumentError", "PCO_EINVAL", "number", sb.exec, sb,
    { "true" }, 5)
  t:try("infinite", sb.exec, sb, { "true" }, { timeout = math.huge })
  t:try("integer", sb.exec, sb, { "true" }, { timeout = 10 })
end)

portable("Sandbox: exec check", function(_, sb, t)
  t:try("fine", sb.exec, sb, { "true" }, { check = true })
  local err = t:raises("ExitError", nil, "false", sb.exec, sb, { "false" },
    { check = true })
  t:note("result", err.result.code, err.result.ok)
end)

portable("Sandbox: output", function(_, sb, t)
  t:try("echo", sb.output, sb, { "echo", "a" })
  t:try("newlines", sb.output, sb, { "echo", "a\n\n" })
  t:raises("ExitError", nil, "false", sb.output, sb, { "false" })
  t:try("unchecked", sb.output, sb, { "false" }, { check = false })
  t:try("binary", sb.output, sb, { "cat" }, { input = BYTES })
  t:raises("InvalidArgumentError", "PCO_EINVAL", "nothing", sb.output, sb)
end)

portable("Sandbox: exec timeout", function(_, sb, t)
  local err = t:raises("TimeoutError", "PCO_ETIMEDOUT", "sleep", sb.exec, sb,
    { "sleep", "30" }, { timeout = 0.2, grace = 0.2 })
  t:note("reason", err.result and err.result.reason)
  t:try("still usable", sb.exec, sb, { "echo", "ok" })
end)

add("Sandbox: exec user", function(_, sb, t)
  local own = sb:output({ "id", "-un" })
  t:try("own", sb.output, sb, "id; echo $HOME $USER $LOGNAME $SHELL",
    { user = own })
  t:try("group", sb.output, sb, "id", { user = own .. ":" .. own })
  t:raises("SpawnError", "ENOENT", "unknown", sb.exec, sb, { "true" },
    { user = "no-such" })
  t:raises("SpawnError", "EINVAL", "no number", sb.spawn, sb, { "true" },
    { user = "12x" })
end)

add("Sandbox: exec, strings and streams", function(_, sb, t)
  t:try("both", sb.exec, sb, "echo out; echo err >&2; exit 3")
  t:try("merge", sb.exec, sb, "echo out; echo err >&2", { stderr = "merge" })
  t:try("null", sb.exec, sb, "echo out; echo err >&2",
    { stdout = "null", stderr = "null" })
  t:try("signal", sb.exec, sb, "kill -TERM $$")
  t:try("empty string", sb.exec, sb, "")
  t:try("NUL in a string", sb.exec, sb, "echo a\0b")
  t:try("truncated", sb.exec, sb, "printf 0123456789",
    { max_output = 4 })
  t:try("not kept", sb.exec, sb, "printf 0123456789", { max_output = 0 })
  t:try("background", sb.exec, sb, "sleep 5 & echo started",
    { drain = 0.1 })
end)

add("Sandbox: exec, cwd and env", function(_, sb, t)
  t:try("cwd", sb.exec, sb, "mkdir -p d && cd d && pwd | sed 's,.*/,,'")
  t:try("pwd", sb.exec, sb, "pwd | sed 's,.*/,,'", { cwd = "d" })
  t:raises("SpawnError", "ENOENT", "no cwd", sb.exec, sb, { "true" },
    { cwd = "nowhere" })
  t:try("env", sb.exec, sb, "echo $A-$B", { env = { A = "x", B = 5 } })
  t:try("removed", sb.exec, sb, "echo ${HOME-none}",
    { env = { HOME = false } })
  t:try("clean", sb.exec, sb, { "/usr/bin/env" },
    { env = { A = "x" }, clean_env = true })
end)

add("Sandbox: exec, start errors", function(_, sb, t)
  sb.fs:write("text", "echo hi\n", { mode = 493 })
  sb.fs:write("plain", "#!/bin/sh\necho hi\n", { mode = 420 })
  sb.fs:write("interpreter", "#!/no/such/interpreter\n", { mode = 493 })
  sb.fs:mkdir("directory")
  t:raises("SpawnError", "ENOENT", "missing", sb.exec, sb, { "./missing" })
  t:raises("SpawnError", "EACCES", "not executable", sb.exec, sb,
    { "./plain" })
  t:raises("SpawnError", "EACCES", "directory", sb.exec, sb,
    { "./directory" })
  t:raises("SpawnError", "ENOEXEC", "no first line", sb.exec, sb, { "./text" })
  t:raises("SpawnError", "ENOENT", "interpreter", sb.exec, sb,
    { "./interpreter" })
  t:raises("SpawnError", "E2BIG", "too big", sb.exec, sb,
    { "true", ("x"):rep(1 << 18) })
end)

add("Sandbox: timeout with partial output", function(_, sb, t)
  local err = t:raises("TimeoutError", "PCO_ETIMEDOUT", "partial", sb.exec, sb,
    "echo first; sleep 30", { timeout = 0.4 })
  t:note("partial", err.result.stdout, err.result.reason, err.result.ok)
  err = t:raises("TimeoutError", "PCO_ETIMEDOUT", "trap", sb.exec, sb,
    "trap '' TERM; echo on; while :; do sleep 0.1; done",
    { timeout = 0.4, grace = 0.3 })
  t:note("killed", err.result.signal, err.result.stdout)
end)

add("Sandbox: exec closed by its own callback", function(_, sb, t)
  t:raises("ClosedError", "PCO_ECLOSED", "exec", sb.exec, sb,
    "echo hi; sleep 30", {
      on_output = function()
        t:note("close", sb:close())
      end,
    })
end)

return scenarios
