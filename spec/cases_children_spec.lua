-- Situations 44 to 46 of the collection of cases: children that are the host's
-- own, and those that it knows nothing of.
--
-- 44, a handler of SIGCHLD, wants a host in C: spec/c/host_test.c. 45, loops in
-- many threads, is in spec/c/threads_test.c; here many sandboxes share one.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

describe("children of the host:", function()
  facades.everywhere(it, "case 44: io.popen and os.execute work beside us",
    function(P, backend)
      facades.with_sandbox(P, { backend = backend.name }, function(sb)
        for i = 1, 20 do
          local p = sb:spawn("sleep 0.02; exit " .. i)
          local pipe = io.popen("sleep 0.01; exit " .. 100 + i)
          assert.same({ nil, "exit", 100 + i }, { pipe:close() })
          assert.equal(i, p:wait().code)
          local _, kind, code = os.execute("exit " .. i)
          assert.same({ "exit", i }, { kind, code })
        end
      end)
    end)

  facades.everywhere(it, "case 45: each hears of its own, in any order",
    function(P, backend)
      local open <close> = P.open(backend.name)
      local processes = {}
      for i = 1, 8 do
        local sb = open:create()
        for j = 1, 25 do
          local code = (i * 25 + j) % 256
          processes[#processes + 1] = {
            code = code, p = sb:spawn("exit " .. code),
          }
        end
      end
      for i = #processes, 1, -1 do
        assert.equal(processes[i].code, processes[i].p:wait().code)
      end
    end)

  -- The shell of the redirection leaves its child to the host, by exec.
  facades.everywhere(it, "case 46: an unknown one dies meanwhile",
    function(P, backend)
      local path = os.tmpname()
      env.write(path, ([[
        local P = require(%q)
        P.run(function()
          local sb <close> = P.sandbox({ backend = %q })
          print(sb:exec("sleep 1; exit 7", { timeout = 20 }).code)
        end)
        print(io.read("l"))
      ]]):format(facades.module_name(P), backend.name))
      local output, code = env.sh(("bash -c 'exec timeout -k 5 %d lua5.4 %s "
        .. "< <(sleep 0.4; echo x)' 2>&1"):format(env.patience(60), path))
      os.remove(path)
      assert.same({ "7\nx\n", 0 }, { output, code })
    end)

  it("leaves nothing behind", nothing_left)
end)
