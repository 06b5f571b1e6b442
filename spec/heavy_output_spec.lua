-- A gibibyte of output in each way there is: nothing lost, memory flat.
-- (A part of that, unless PORTICO_HEAVY=100: support/heavy.lua.)

local facades = require("spec.support.facades")
local heavy = require("spec.support.heavy")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local everywhere = facades.everywhere

local BYTES = heavy.share(1024) << 20

-- Prints HEAD, zeros, TAIL: BYTES in all.
local FLOOD = ("printf HEAD; head -c %d /dev/zero; printf TAIL")
  :format(BYTES - 8)

describe("a gibibyte of output", function()
  everywhere(it, "by exec: head and tail are kept", function(P, backend)
    local output = heavy.script(P, backend, ([[
      local r = sb:exec(%q, { max_output = 1 << 20 })
      assert(r.code == 0 and #r.stdout == 1 << 20, #r.stdout)
      assert(r.stdout_bytes == %d, r.stdout_bytes)
      assert(r.stdout:sub(1, 4) == "HEAD" and r.stdout:sub(-4) == "TAIL")
      assert(not r.stdout:sub(5, -5):find("[^\0]"))
      local gap = r.truncated.stdout
      assert(gap.offset == 1 << 19 and gap.bytes == %d - (1 << 20))
      print(grown() < 16 or grown())
    ]]):format(FLOOD, BYTES, BYTES))
    assert.equal("true\n", output)
  end)

  everywhere(it, "by chunks: every byte", function(P, backend)
    local output = heavy.script(P, backend, ([[
      local p <close> = sb:spawn(%q)
      local count, first, last = 0, nil, ""
      for chunk in p:chunks() do
        first = first or chunk.data:sub(1, 4)
        count = count + #chunk.data
        last = (last .. chunk.data:sub(-4)):sub(-4)
      end
      local r = p:wait()
      assert(count == %d and first == "HEAD" and last == "TAIL", count)
      assert(r.code == 0 and r.stdout_bytes == count and r.stdout == "")
      print(grown() < 16 or grown())
    ]]):format(FLOOD, BYTES))
    assert.equal("true\n", output)
  end)

  -- While nobody reads the command stands still: what it has written so far
  -- does not change.
  everywhere(it, "by a reader that pauses", function(P, backend)
    local output = heavy.script(P, backend, ([[
      local p <close> = sb:spawn(%q)
      local count, pauses = 0, 0
      local function written()
        return tonumber(sb:output("awk '/wchar/ { print $2 }' /proc/"
          .. sb:output({ "cat", "/proc/" .. p.pid .. "/task/" .. p.pid
          .. "/children" }):match("%%d+") .. "/io"))
      end
      for chunk in p:chunks() do
        count = count + #chunk.data
        if count > (pauses + 1) * %d // 4 and pauses < 3 then
          pauses = pauses + 1
          local one, again = written(), nil
          repeat -- until its pipe is full
            again, one = one, written()
          until one == again
          P.sleep(0.2)
          assert(written() == one, "it went on")
          assert(one - count < 4 << 20, one - count)
          assert(not p:poll(), "it ended")
        end
      end
      assert(count == %d and pauses == 3 and p:wait().code == 0, count)
      print(grown() < 16 or grown())
    ]]):format(FLOOD, BYTES, BYTES))
    assert.equal("true\n", output)
  end)

  everywhere(it, "by on_output, which is slower", function(P, backend)
    local output = heavy.script(P, backend, ([[
      local count = 0
      local r = sb:exec(%q, {
        max_output = 1 << 20,
        on_output = function(chunk)
          count = count + #chunk.data
          if count %% 256 == 0 then
            P.sleep(0)
          end
        end,
      })
      assert(count == %d and r.stdout_bytes == count, count)
      print(grown() < 16 or grown())
    ]]):format(FLOOD, BYTES))
    assert.equal("true\n", output)
  end)

  it("leaves nothing behind", nothing_left)
end)
