-- Four gibibytes through an open file, out and in, in little memory.
-- (A part of that, unless PORTICO_HEAVY=100: support/heavy.lua.)

local facades = require("spec.support.facades")
local heavy = require("spec.support.heavy")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local everywhere = facades.everywhere

local MIB = heavy.share(4096)

describe("four gibibytes", function()
  everywhere(it, "come out of a sparse file", function(P, backend)
    local output = heavy.script(P, backend, ([[
      local file <close> = sb.fs:open("f", "w+")
      file:truncate(%d << 20)
      local n = 0
      for chunk in file:lines(1 << 20) do
        n = n + #chunk
      end
      print(n >> 20, grown() < 32 or grown())
    ]]):format(MIB))
    assert.equal(MIB .. "\ttrue\n", output)
  end)

  -- Into the same 64 MiB again and again: what matters is what is on its way.
  everywhere(it, "go in", function(P, backend)
    local output = heavy.script(P, backend, ([[
      local file <close> = sb.fs:open("f", "w+")
      local piece, n = ("0123456789abcdef"):rep(1 << 16), 0
      for i = 1, %d do
        file:write(piece)
        n = n + 1
        if i %% 64 == 0 then
          file:seek("set")
        end
      end
      file:seek("set", 5)
      assert(file:read(1 << 20) == piece:sub(6) .. piece:sub(1, 5))
      print(n, grown() < 32 or grown())
    ]]):format(MIB))
    assert.equal(MIB .. "\ttrue\n", output)
  end)
end)

describe("heavy files", function()
  it("leave nothing behind", nothing_left)
end)
