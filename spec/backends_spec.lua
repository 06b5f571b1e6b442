-- What spec/support/backends.lua says of the backends is true, and none is
-- missing from it.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local nothing_left = leaks.frame()

describe("the list of backends", function()
  it("has all that are built", function()
    local build = assert(os.getenv("PORTICO_BUILD"),
      "PORTICO_BUILD is not set: run the tests by ./dev test")
    for _, entry in ipairs(sync.backends()) do
      if entry.path and entry.path:sub(1, #build) == build then
        assert.truthy(backends[entry.name], entry.name .. " is missing")
      end
    end
  end)

  facades.on_each(it, "says where the working directory is",
    function(_, sb, backend)
      if backend.workspace then
        assert.equal(backend.workspace, sb:output("pwd"))
      end
      sb.fs:write("f", "x")
      assert.equal("x", sb:output('cat "$PWD/f"'))
    end)

  facades.on_each(it, "says which show files of the host",
    function(_, sb, backend)
      local directory <close> = setmetatable({ path = env.tmpdir() }, {
        __close = function(self)
          env.rmdir(self.path)
        end,
      })
      env.write(directory.path .. "/secret", "x")
      local secret = { "test", "-e", directory.path .. "/secret" }
      assert.equal(not backend.isolated, sb:exec(secret).ok)
      sb:exec("echo x >" .. directory.path .. "/left")
      assert.equal(not backend.isolated,
        env.exists(directory.path .. "/left"))
    end)

  facades.on_each(it, "says which show processes of the host",
    function(_, sb, backend)
      local own = env.read("/proc/self/stat"):match("^%d+")
      -- Some end while they are read.
      local lines = sb:output("cat /proc/[0-9]*/comm 2>/dev/null || true")
      assert.equal(not backend.isolated, sb:exec("grep -q '^" .. own
        .. " ' /proc/[0-9]*/stat").ok)
      -- Agent, supervisor, shell and cat.
      assert.is_true(not backend.isolated or #lines < 100, lines)
    end)

  it("leaves nothing behind", nothing_left)
end)
