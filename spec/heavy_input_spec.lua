-- A gibibyte of stdin, to commands that read it, read it slowly, or not at all.
-- (A part of that, unless PORTICO_HEAVY=100: support/heavy.lua.)

local facades = require("spec.support.facades")
local heavy = require("spec.support.heavy")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local everywhere = facades.everywhere

local MIB = heavy.share(1024)

describe("a gibibyte of stdin", function()
  everywhere(it, "from a function", function(P, backend)
    local output = heavy.script(P, backend, ([[
      local piece, given = ("0123456789abcdef"):rep(1 << 16), 0
      local r = sb:exec("head -c 4; wc -c", {
        input = function()
          if given < %d then
            given = given + 1
            return piece
          end
        end,
      })
      assert(r.stdout == "0123" .. ((%d << 20) - 4) .. "\n", r.stdout)
      print(given, grown() < 16 or grown())
    ]]):format(MIB, MIB))
    assert.equal(MIB .. "\ttrue\n", output)
  end)

  everywhere(it, "by write, to one that reads slowly", function(P, backend)
    local output = heavy.script(P, backend, ([[
      local p <close> = sb:spawn("for i in 1 2 3; do head -c 100000 >/dev/null;"
        .. " sleep 0.1; done; exec wc -c", { stdin = "pipe" })
      local piece = ("x"):rep(1 << 20)
      for _ = 1, %d do
        p:write(piece)
      end
      p:close_stdin()
      local count = tonumber(p:wait().stdout)
      -- What head read ahead of its count is not wc's.
      assert(count <= (%d << 20) - 300000 and count > (%d << 20) - 2000000,
        count)
      print(grown() < 16 or grown())
    ]]):format(MIB, MIB, MIB))
    assert.equal("true\n", output)
  end)

  everywhere(it, "to one that never reads: it can be given up",
    function(P, backend)
      local output = heavy.script(P, backend, ([[
        local piece, given = ("x"):rep(1 << 20), 0
        local ok, err = pcall(sb.exec, sb, { "sleep", "30" }, {
          timeout = 0.3, grace = 0,
          input = function()
            given = given + 1
            return given <= %d and piece or nil
          end,
        })
        assert(not ok and err.code == "PCO_ETIMEDOUT", tostring(err))
        assert(given <= 2, given)
        local p <close> = sb:spawn({ "sleep", "30" }, { stdin = "pipe" })
        ok, err = pcall(p.write, p, piece, { timeout = 0.2 })
        assert(not ok and err.code == "PCO_ECALLTIMEOUT", tostring(err))
        assert(err.written > 0 and err.written < #piece, err.written)
        assert(p:kill().signal == "SIGKILL")
        ok, err = pcall(sb.exec, sb, { "sleep", "30" }, { input = function()
          error("enough", 0)
        end })
        assert(not ok and err == "enough", tostring(err))
        assert(#sb:processes() == 0)
        print(grown() < 16 or grown())
      ]]):format(MIB))
      assert.equal("true\n", output)
    end)

  everywhere(it, "to one that ends before: no error of exec",
    function(P, backend)
      local output = heavy.script(P, backend, ([[
        local piece, given = ("x"):rep(1 << 20), 0
        local r = sb:exec("head -c 3000000 | wc -c", {
          input = function()
            given = given + 1
            return given <= %d and piece or nil
          end,
        })
        assert(r.ok and r.stdout == "3000000\n", r.stdout)
        print(given < 10 or given, grown() < 16 or grown())
      ]]):format(MIB))
      assert.equal("true\ttrue\n", output)
    end)

  it("leaves nothing behind", nothing_left)
end)
