-- The backend of a script that names none: `bwrap`, and where that cannot be
-- had an error that says so, never another backend.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()
local raises = facades.raises

-- Makes a copy of the build without the plugin of the default backend, calls
-- fn(path of its portico command), and removes it.
local function without_plugin(fn)
  local build = assert(os.getenv("PORTICO_BUILD"),
    "PORTICO_BUILD is not set: run the tests by ./dev test")
  local directory = env.tmpdir()
  env.sh(("cd %s && cp -rL bin lib* share %s && rm $(find %s -name %s)"):format(
    env.quoted(build), directory, directory,
    "portico-" .. backends.default.name .. ".so"))
  local ok, err = pcall(fn, directory .. "/bin/portico")
  env.rmdir(directory)
  if not ok then
    error(err, 0)
  end
end

describe("a script that names no backend", function()
  for _, facade in ipairs(facades.list) do
    backends.it(it, backends.default, "gets the default one [" .. facade.name
      .. "]", function()
        facades.call(facade, function(P)
          for _, options in ipairs({ false, {}, { env = { A = "x" } } }) do
            local sb <close> = P.sandbox(options or nil)
            assert.equal(backends.default.name, sb.backend.name)
            assert.equal(backends.default.name, sb:info().backend)
            assert.equal(options and options.env and "x" or "",
              sb:output("echo $A"))
          end
        end)
      end)
  end

  facades.both(it, "must name it to open()", function(P)
    raises("InvalidArgumentError", P.open)
    raises("InvalidArgumentError", P.open, nil, {})
  end)

  facades.both(it, "still has its options checked", function(P)
    local err = raises("InvalidArgumentError", P.sandbox, { bakend = "local" })
    assert.truthy(err.message:find("backend", 1, true), err.message)
    raises("InvalidArgumentError", P.sandbox, { backend = false })
    raises("InvalidArgumentError", P.sandbox, "bwrap")
  end)

  it("gets an error where the plugin is not installed", function()
    without_plugin(function(command)
      for _, name in ipairs({ "portico", "portico.sync" }) do
        local output, code = env.sh(command .. " -e " .. env.quoted(([[
          local P = require(%q)
          P.run(function()
            local ok, err = pcall(P.sandbox)
            print(ok, err.code, P.errors.class_of(err).name, err.cause.code)
            print(err.message)
            P.sandbox({ backend = "local" }):close()
          end)
        ]]):format(name)) .. " 2>&1")
        assert.equal(0, code, output)
        assert.truthy(output:find(
          "^false\tPCO_EUNAVAILABLE\tUnavailableError\tENOENT\n"), output)
        assert.truthy(output:find("'bwrap'", 1, true), output)
        assert.truthy(output:find('backend = "local"', 1, true), output)
        assert.truthy(output:find("without any isolation", 1, true), output)
      end
    end)
  end)

  facades.both(it, "gets an error where bubblewrap is not installed",
    function(P)
      local err = raises("UnavailableError", P.sandbox,
        { backend_settings = { bwrap = "/no/such/bwrap" } })
      assert.equal("PCO_EUNAVAILABLE", err.code)
      local text = tostring(err)
      for _, part in ipairs({
        "/no/such/bwrap", "package bubblewrap", 'backend = "local"',
      }) do
        assert.truthy(text:find(part, 1, true), text)
      end
    end)

  it("leaves nothing behind", nothing_left)
end)
