-- Situations 35 to 40 of the collection of cases: commands that cannot be
-- started, and arguments.

local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local env = require("spec.support.env")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

describe("start errors:", function()
  on_each(it, "case 35: a missing command", function(_, sb)
    for _, start in ipairs({ "exec", "spawn", "output" }) do
      local err = raises("SpawnError", sb[start], sb, { "no-such-tool", "x" })
      assert.equal("ENOENT", err.code)
      assert.same({ "no-such-tool", "x" }, err.argv)
      assert.truthy(tostring(err):find("no-such-tool", 1, true))
    end
    assert.equal(127, sb:exec({ "sh", "-c", "no-such-tool" }).code)
    assert.equal(127, sb:exec("no-such-tool").code)
    raises("InvalidArgumentError", sb.exec, sb, {})
    raises("InvalidArgumentError", sb.exec, sb, { "" })
  end)

  on_each(it, "case 36: PATH with a directory that is closed to us",
    function(_, sb)
      sb:exec([[
        mkdir p0 p1 p2
        printf '#!/bin/sh\nexit 0\n' > p2/mytrue; chmod 755 p2/mytrue
        printf '#!/bin/sh\nexit 1\n' > p1/mytrue; chmod 644 p1/mytrue
        printf '#!/bin/sh\n' > p1/refused; chmod 644 p1/refused
        chmod 000 p0
      ]]):check()
      local root = sb:output("pwd")
      local path = ("%s/p0:%s/p1:%s/p2"):format(root, root, root)
      assert.equal(0, sb:exec({ "mytrue" }, { env = { PATH = path } }).code)
      local err = raises("SpawnError", sb.exec, sb, { "nosuch" },
        { env = { PATH = path } })
      assert.equal("ENOENT", err.code)
      assert.truthy(err.message:find("nosuch", 1, true))
      err = raises("SpawnError", sb.exec, sb, { "refused" },
        { env = { PATH = path } })
      assert.equal("EACCES", err.code)
      sb:exec("chmod 700 p0"):check()
    end)

  on_each(it, "case 37: text without a first line", function(_, sb)
    sb.fs:write("n", "echo hi\n", { mode = 493 })
    local err = raises("SpawnError", sb.exec, sb, { "./n" })
    assert.equal("ENOEXEC", err.code)
  end)

  on_each(it, "what was wrong is a field of its own, whatever the names",
    function(_, sb)
      sb:exec("printf '#!/no/such\n' >alone; chmod 755 alone; >plain"):check()
      local here = { PATH = sb:output("pwd") }
      for _, case in ipairs({
        { "program", "ENOENT", { "word" } },
        { "program", "ENOENT", { "word/x" } },
        { "program", "EACCES", { "plain" }, { env = here } },
        { "program", "EACCES", { "./plain" } },
        { "interpreter", "ENOENT", { "alone" }, { env = here } },
        { "interpreter", "ENOENT", { "./alone" } },
        { "program", "E2BIG", { "echo", ("x"):rep(1 << 18) } },
        { "cwd", "ENOENT", { "word" }, { cwd = "word" } },
        { "cwd", "ENOTDIR", { "plain" }, { cwd = "plain" } },
        { "user", "ENOENT", { "word" }, { user = "word" } },
      }) do
        local err = raises("SpawnError", sb.exec, sb, case[3], case[4])
        assert.same({ case[1], case[2] }, { err.stage, err.code })
      end
    end)

  on_each(it, "case 37: a missing interpreter is told apart",
    function(_, sb)
      sb.fs:write("n", "#!/no/such/interpreter\n", { mode = 493 })
      local err = raises("SpawnError", sb.exec, sb, { "./n" })
      assert.equal("ENOENT", err.code)
      assert.truthy(err.message:find("interpreter", 1, true), err.message)
    end)

  on_each(it, "case 37: directory, and not executable", function(_, sb)
    sb.fs:mkdir("d")
    sb.fs:write("plain", "#!/bin/sh\n", { mode = 420 })
    local err = raises("SpawnError", sb.exec, sb, { "./d" })
    assert.equal("EACCES", err.code)
    err = raises("SpawnError", sb.exec, sb, { "./plain" })
    assert.equal("EACCES", err.code)
  end)

  on_each(it, "case 37: a file that is being written", function(_, sb)
    sb:exec("cp /bin/true busy; chmod 755 busy"):check()
    local writer = sb:spawn("exec 3>>busy; echo open; exec sleep 30")
    assert.equal("open\n", writer:read().data)
    local err = raises("SpawnError", sb.exec, sb, { "./busy" })
    assert.equal("ETXTBSY", err.code)
    writer:kill()
    assert.equal(0, sb:exec({ "./busy" }).code)
  end)
end)

describe("arguments:", function()
  on_each(it, "case 38: argv is a list and stays one", function(_, sb)
    local r = sb:exec({
      "printf", "[%s]", "There are  two  blanks", "\nfoo", "a'b", "$HOME",
      "*", ";id", "",
    })
    assert.equal("[There are  two  blanks][\nfoo][a'b][$HOME][*][;id][]",
      r.stdout)
    local bytes = env.all_bytes():sub(2)
    assert.equal(bytes, sb:exec({ "printf", "%s", bytes }).stdout)
  end)

  on_each(it, "case 38: quote() makes one word of anything",
    function(P, sb)
      local words = {
        "a b", "a'b", 'a"b', "$HOME", "*", ";id", "", "-n", "a\nb", "\\",
        "~", "!", "ü", env.all_bytes():sub(2),
      }
      local expected = "[" .. table.concat(words, "][") .. "]"
      local line = "printf '[%s]' " .. P.quote(table.unpack(words))
      assert.equal(expected, sb:exec(line).stdout)
    end)

  on_each(it, "case 39: here-documents, set -e, exit", function(_, sb)
    local limit = { timeout = 5 }
    local r = sb:exec({
      "sh", "-c", "cat <<'EOF' >t\nhello\nEOF\nprintf done",
    }, limit)
    assert.equal("done", r.stdout)
    assert.equal("hello\n", sb.fs:read("t"))
    assert.equal(1, sb:exec("set -e; false; echo no", limit).code)
    assert.equal(3, sb:exec("exit 3", limit).code)
    assert.are_not.equal(0, sb:exec("echo 'unbalanced", limit).code)
    assert.equal("ok\n", sb:exec({ "echo", "ok" }).stdout)
  end)

  on_each(it, "case 40: file names are data", function(_, sb)
    local names = {
      "a b", "-rf", "a'b", 'a"b', "a;b", "a\\b", "~", "*", "a\nb", "ü",
    }
    for _, name in ipairs(names) do
      sb.fs:write("d/" .. name, name, { parents = true })
      assert.equal(name, sb.fs:read("d/" .. name))
      assert.equal(#name, sb.fs:stat("d/" .. name).size)
    end
    assert.equal(10, #sb.fs:list("d"))
    for _, name in ipairs(names) do
      sb.fs:rename("d/" .. name, "d/" .. name .. "2")
      sb.fs:remove("d/" .. name .. "2")
    end
    assert.equal(0, #sb.fs:list("d"))
  end)

  on_each(it, "case 40: names in byte order", function(_, sb)
    for _, name in ipairs({ "b", "B", "a", "\xff", "ü", "_" }) do
      sb.fs:write(name, "")
    end
    local found = {}
    for i, entry in ipairs(sb.fs:list(".")) do
      found[i] = entry.name
    end
    assert.same({ "B", "_", "a", "b", "ü", "\xff" }, found)
  end)

  it("leave nothing behind", nothing_left)
end)
