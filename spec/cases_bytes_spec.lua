-- Situations 20 to 22 of the collection of cases: bytes stay bytes, however
-- they are cut. And the order of merged streams.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local on_each, raises = facades.on_each, facades.raises

local function all_chunks(p, stream)
  local parts = {}
  for chunk in p:chunks() do
    if chunk.stream == (stream or "stdout") then
      parts[#parts + 1] = chunk.data
    end
  end
  return table.concat(parts)
end

describe("bytes:", function()
  on_each(it, "case 20: a character in three pieces", function(_, sb)
    local command = "printf '\\342'; sleep .05; printf '\\211'; sleep .05; "
      .. "printf '\\244\\n'"
    assert.equal("\xE2\x89\xA4\n", sb:exec(command).stdout)
    assert.equal("\xE2\x89\xA4\n", all_chunks(sb:spawn(command)))
    local lines = {}
    for line in sb:spawn(command):lines() do
      lines[#lines + 1] = line
    end
    assert.same({ "\xE2\x89\xA4" }, lines)
  end)

  on_each(it, "case 21: all of them, each way", function(_, sb)
    local all = env.all_bytes():rep(300)
    assert.equal(all, sb:exec({ "cat" }, { input = all }).stdout)
    assert.equal(all, sb:exec("cat >&2", { input = all }).stderr)
    local given = false
    assert.equal(all, sb:exec({ "cat" }, { input = function()
      given = not given
      return given and all or nil
    end }).stdout)
    sb.fs:write("b", all)
    assert.equal(all, sb.fs:read("b"))
    assert.equal(all, sb:exec({ "cat", "b" }).stdout)
    assert.equal(all, all_chunks(sb:spawn({ "cat", "b" })))
    assert.equal(all, all_chunks(sb:spawn("cat b >&2"), "stderr"))
    local seen = {}
    sb:exec({ "cat", "b" }, { on_output = function(chunk)
      seen[#seen + 1] = chunk.data
    end })
    assert.equal(all, table.concat(seen))
    local p = sb:spawn({ "cat" }, { stdin = "pipe" })
    p:write(all:sub(1, 30000))
    p:write("")
    p:write(all:sub(30001))
    p:close_stdin()
    assert.equal(all, p:wait().stdout)
    assert.equal(all .. "\0", sb:output({ "cat" }, { input = all .. "\0\n" }))
  end)

  on_each(it, "case 22: nothing depends on where a block ends",
    function(_, sb)
      for n = 8180, 8195 do
        local text = ("a"):rep(n) .. "\u{AC00}\u{B098}"
        sb.fs:write("k", text)
        assert.equal(text, sb.fs:read("k"))
        assert.equal(text, sb:exec({ "cat", "k" }).stdout)
      end
    end)

  on_each(it, "lines across the borders of chunks", function(_, sb)
    -- Lines of all lengths around a pipe's and a read's size, both streams.
    local lengths = {
      0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 0, 131072, 300000, 3,
    }
    local text = {}
    for i, n in ipairs(lengths) do
      text[i] = string.char(96 + i):rep(n)
    end
    sb.fs:write("t", table.concat(text, "\n"))
    local p = sb:spawn("cat t; cat t >&2")
    local got = { stdout = {}, stderr = {} }
    for line, stream in p:lines() do
      table.insert(got[stream], line)
    end
    assert.same(text, got.stdout)
    assert.same(text, got.stderr)
    assert.equal(0, p:wait().code)
  end)

  on_each(it, "a line that is too long is no line, and is not lost",
    function(_, sb)
      local p = sb:spawn("echo short; head -c 5000 /dev/zero; echo; echo end")
      local seen = {}
      local err = raises("LimitError", function()
        for line in p:lines({ max_line = 1000 }) do
          seen[#seen + 1] = line
        end
      end)
      assert.same({ "short" }, seen)
      assert.equal("max_line", err.limit)
      assert.equal(("\0"):rep(5000) .. "\nend\n", all_chunks(p))
    end)

  on_each(it, "merged streams come in true order", function(_, sb)
    local command = "i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; "
      .. "i=$((i+1)); done"
    local expected = {}
    for i = 0, 499 do
      expected[i + 1] = ("o%d\ne%d\n"):format(i, i)
    end
    expected = table.concat(expected)
    local merged = { stderr = "merge" }
    local r = sb:exec(command, merged)
    assert.same({ expected, "", 0 }, { r.stdout, r.stderr, r.stderr_bytes })
    assert.equal(expected, all_chunks(sb:spawn(command, merged)))
    assert.equal("", sb:exec("echo x; echo y >&2",
      { stdout = "null", stderr = "merge" }).stdout)
  end)

  it("leave nothing behind", nothing_left)
end)
