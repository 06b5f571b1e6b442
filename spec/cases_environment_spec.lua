-- Situations 29 to 34 of the collection of cases: environment variables and
-- the working directory. (31 and 33 with a terminal: pty_spec.lua.)

local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local env = require("spec.support.env")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

-- Counts the lines of a text that match a pattern, and returns the last.
local function lines_matching(text, pattern)
  local count, last = 0, nil
  for line in text:gmatch("[^\n]+") do
    if line:find(pattern) then
      count, last = count + 1, line
    end
  end
  return count, last
end

describe("environment variables:", function()
  on_each(it, "case 29 A: env is merged into the base", function(_, sb)
    local r = sb:exec({ "env" }, { env = { FOO = "1" } })
    assert.equal(1, (lines_matching(r.stdout, "^FOO=1$")))
    assert.equal(1, (lines_matching(r.stdout, "^PATH=")))
  end)

  on_each(it, "case 29: nothing of the host comes through", function(_, sb)
    local r = sb:exec({ "/usr/bin/env" })
    local names = {}
    for name in r.stdout:gmatch("([%w_]+)=[^\n]*\n") do
      names[#names + 1] = name
    end
    table.sort(names)
    local allowed = {
      PATH = true, HOME = true, LANG = true, TMPDIR = true, USER = true,
    }
    for _, name in ipairs(names) do
      assert.truthy(allowed[name], name .. " comes from the host")
    end
    assert.are_not.equal(os.getenv("HOME"), sb:output("echo $HOME"))
  end)

  on_each(it, "case 29 B: an empty PATH finds nothing", function(_, sb)
    local err = raises("SpawnError", sb.exec, sb, { "env" },
      { env = { PATH = "" } })
    assert.equal("ENOENT", err.code)
  end)

  on_each(it, "case 29 C: the child's PATH finds argv[0]", function(_, sb)
    sb.fs:write("only/here/mytool", "#!/bin/sh\necho mine\n",
      { mode = 493, parents = true })
    local dir = sb:output("cd only/here && pwd")
    assert.equal("mine", sb:output({ "mytool" }, { env = { PATH = dir } }))
    raises("SpawnError", sb.exec, sb, { "mytool" })
  end)

  on_each(it, "case 29 D: clean_env leaves only what is given",
    function(_, sb)
      local options = { clean_env = true, env = {} }
      assert.equal("", sb:exec({ "/usr/bin/env" }, options).stdout)
      options.env = { A = "1" }
      assert.equal("A=1\n", sb:exec({ "/usr/bin/env" }, options).stdout)
    end)

  on_each(it, "case 30: one entry per key, the nearest wins",
    function(_, sb)
      local r = sb:exec({ "/usr/bin/env" }, { env = { K = "last" } })
      local count, line = lines_matching(r.stdout, "^K=")
      assert.same({ 1, "K=last" }, { count, line })
      r = sb:exec({ "/usr/bin/env" })
      count, line = lines_matching(r.stdout, "^K=")
      assert.same({ 1, "K=first" }, { count, line })
      r = sb:exec({ "/usr/bin/env" }, { env = { K = false } })
      assert.equal(0, (lines_matching(r.stdout, "^K=")))
      assert.equal("last", sb:output("printenv K", { env = { K = "last" } }))
      r = sb:exec({ "/usr/bin/env" }, { env = { HOME = "/x" } })
      count, line = lines_matching(r.stdout, "^HOME=")
      assert.same({ 1, "HOME=/x" }, { count, line })
    end, { env = { K = "first" } })

  on_each(it, "case 31: neither LINES nor COLUMNS is set", function(_, sb)
    assert.equal("none none",
      sb:output("echo ${LINES-none} ${COLUMNS-none}"))
  end)

  on_each(it, "values are bytes", function(_, sb)
    local value = env.all_bytes():sub(2)
    local r = sb:exec({ "printenv", "V" }, { env = { V = value } })
    assert.equal(value .. "\n", r.stdout)
  end)
end)

describe("working directory:", function()
  on_each(it, "case 32: a missing one is named, not the program",
    function(_, sb)
      for _, start in ipairs({ "exec", "spawn" }) do
        local err = raises("SpawnError", sb[start], sb, { "ls" },
          { cwd = "does/not/exist" })
        assert.equal("ENOENT", err.code)
        assert.equal("does/not/exist", err.path)
        assert.truthy(err.message:find("working directory", 1, true))
        assert.truthy(tostring(err):find("does/not/exist", 1, true))
      end
    end)

  on_each(it, "case 32: a file is no working directory", function(_, sb)
    sb.fs:write("file", "")
    local err = raises("SpawnError", sb.exec, sb, { "ls" }, { cwd = "file" })
    assert.equal("ENOTDIR", err.code)
  end)

  on_each(it, "case 33: it is a path of the sandbox", function(_, sb)
    local root = sb:output("pwd")
    for _, name in ipairs({ "inside", "inside/a b/ü" }) do
      sb:exec({ "mkdir", "-p", name }):check()
      assert.equal(root .. "/" .. name, sb:output({ "pwd" }, { cwd = name }))
      assert.equal(root .. "/" .. name,
        sb:output({ "pwd" }, { cwd = root .. "/" .. name }))
      local p = sb:spawn({ "pwd" }, { cwd = name })
      assert.equal(root .. "/" .. name .. "\n", p:wait().stdout)
    end
  end)

  on_each(it, "case 34: never interpreted", function(_, sb)
    local root = sb:output("pwd")
    raises("SpawnError", sb.exec, sb, { "true" },
      { cwd = "x; touch PWNED; echo " })
    assert.is_false(sb.fs:exists("PWNED"))
    for _, name in ipairs({ "-n", "$(id)", "a'b", 'a"b', "a\nb", "a;b" }) do
      local err = raises("SpawnError", sb.exec, sb, { "touch", "PWNED" },
        { cwd = name })
      assert.equal("ENOENT", err.code)
      sb.fs:mkdir(name)
      assert.equal(root .. "/" .. name .. "\n",
        sb:exec({ "pwd" }, { cwd = name }).stdout)
      assert.equal(root .. "/" .. name .. "\n",
        sb:exec("pwd", { cwd = name }).stdout)
    end
    assert.is_false(sb.fs:exists("PWNED"))
  end)

  facades.on(it, "bwrap", "case 33: cwd of the sandbox is the default",
    function(_, sb)
      assert.equal("/tmp", sb:output("pwd"))
      sb.fs:write("f", "x")
      assert.equal("x", sb.fs:read("/tmp/f"))
    end, { cwd = "/tmp" })

  facades.both(it, "case 33: and in the caller's directory [local]",
    function(P)
      local directory <close> = setmetatable({ path = env.tmpdir() }, {
        __close = function(self)
          env.rmdir(self.path)
        end,
      })
      env.sh("mkdir " .. directory.path .. "/sub")
      facades.with_sandbox(P, {
        settings = { workspace = directory.path }, cwd = "sub",
      }, function(sb)
        assert.equal(directory.path .. "/sub", sb:output("pwd"))
        sb.fs:write("f", "x")
        assert.equal("x", env.read(directory.path .. "/sub/f"))
      end)
    end)

  it("leave nothing behind", nothing_left)
end)

describe("a umask that leaves no rights:", function()
  -- An ordinary user could not use what it makes; root can.
  facades.everywhere(it, "is no matter for what is Portico's own",
    function(P, backend)
      local state <close> = setmetatable({ path = env.tmpdir() }, {
        __close = function(self)
          env.rmdir(self.path)
        end,
      })
      local output, code = env.script(([[
        local P = require(%q)
        P.run(function()
          local b <close> = P.open(%q, { state = %q })
          local sb <close> = b:create()
          print(sb:output("echo well"))
          sb.fs:write("f", "read", { mode = "600" })
          print(sb.fs:read("f"))
          local id = b:create({ detachable = true }):detach()
          local again <close> = b:attach(id)
          print(again:output("echo again"))
        end)
      ]]):format(facades.module_name(P), backend.name, state.path .. "/s"),
        "umask 0777; ")
      assert.same({ "well\nread\nagain\n", 0 }, { output, code })
    end)

  it("leaves nothing behind", nothing_left)
end)

describe("a limit of the length of files:", function()
  -- The agent's program is copied to memory, which counts as a file.
  facades.everywhere(it, "is an error, no SIGXFSZ that ends the program",
    function(P, backend)
      local output, code = env.script(([[
        local P = require(%q)
        P.run(function()
          for _ = 1, 2 do
            local ok, err = pcall(P.sandbox, { backend = %q })
            print(ok, err.code, err.message)
          end
        end)
      ]]):format(facades.module_name(P), backend.name), "ulimit -f 8; ")
      assert.same({ ("false\tEFBIG\tthe copy of portico-agent would be longer "
        .. "than files of this program may be (raise that, ulimit -f)\n")
        :rep(2), 0 }, { output, code })
    end)

  it("leaves nothing behind", nothing_left)
end)
