-- Much of everything: portals until there are no descriptors, sandboxes that
-- nobody closes, and what may not grow with the number of them.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local PRELUDE = [[
local lfs = require("lfs")
local errors = require("portico.errors")
local portal = require("portico.portal")
local sync = require("portico.sync")
local function entries(path)
  local n = 0
  for _ in lfs.dir(path) do
    n = n + 1
  end
  return n
end
-- A sanitizer's own memory hides ours.
local maps <close> = io.open("/proc/self/maps")
local sanitized = maps:read("a"):find("lib[at]san")
local function kilobytes()
  local status <close> = io.open("/proc/self/status")
  return sanitized and 0
    or tonumber(status:read("a"):match("VmRSS:%s+(%d+)"))
end
local function fails(fn, ...)
  local ok, err = pcall(fn, ...)
  return not ok and errors.is(err, "Error") and err.code or tostring(err)
end
]]

-- Runs a script with so many descriptors; it must print what is expected.
local function check(expected, descriptors, code)
  local output, status = env.script(PRELUDE .. code,
    "ulimit -n " .. descriptors .. "; ")
  assert.equal(expected, output)
  assert.equal(0, status)
end

describe("with 1024 descriptors", function()
  it("portals open until there are none, and again after that", function()
    check("EMFILE\tLimitError\tEMFILE\nEMFILE\nok\n", 1024, [[
      local function fill()
        local list = {}
        while true do
          local ok, p = pcall(portal.open)
          if not ok then
            return p, list
          end
          list[#list + 1] = p
        end
      end
      for _ = 1, 2 do
        local err, list = fill()
        assert(#list > 200 and err.retryable ~= nil)
        io.write(err.code)
        if errors.is(err, "LimitError") and _ == 1 then
          io.write("\tLimitError\t",
            fails(sync.sandbox, { backend = "local" }))
        end
        io.write("\n")
        for _, p in ipairs(list) do
          p:close()
        end
      end
      local sb <close> = sync.sandbox({ backend = "local" })
      print(sb:output("echo ok"))
    ]])
  end)

  for _, each in ipairs(backends.real) do
    backends.it(it, each, "sandboxes do, and those that are there go on ["
      .. each.name .. "]", function()
      check("LimitError\tok\nok\n", 200, ([[
        local list, err = {}, nil
        repeat
          local ok, sb = pcall(sync.sandbox, { backend = %q })
          if ok then
            list[#list + 1] = sb
          else
            err = sb
          end
        until not ok
        assert(#list > 2 and err.code == "EMFILE", tostring(err))
        table.remove(list):close()
        print(errors.class_of(err).name, list[1]:output("echo ok"))
        for _, sb in ipairs(list) do
          sb:close()
        end
        local sb <close> = sync.sandbox({ backend = %q })
        print(sb:output("echo ok"))
      ]]):format(each.name, each.name))
    end)

    backends.it(it, each, "calls fail when there are none, and work after ["
      .. each.name .. "]", function()
      check("EMFILE\nEMFILE\ny\nok\n", 64, ([[
        for _, P in ipairs({ sync, (require("portico")) }) do
          P.run(function()
            local sb <close> = P.sandbox({ backend = %q })
            sb:exec({ "true" })
            sb.fs:write("x", "y")
            local files = {}
            repeat
              files[#files + 1] = io.open("/dev/null")
              local more = io.open("/dev/null")
              if more then
                more:close()
              end
            until not more
            print(fails(sb.exec, sb, { "true" }))
            assert(sb.fs:read("x") == "y") -- needs none
            for _, f in ipairs(files) do
              f:close()
            end
            assert(sb:output("echo ok") == "ok")
            if P ~= sync then
              print(sb.fs:read("x"))
              print(sb:output("echo ok"))
            end
          end)
        end
      ]]):format(each.name))
    end)
  end
end)

describe("sandboxes that nobody closes", function()
  -- With a big heap Lua's collector would come round once in a thousand.
  for _, facade in ipairs({ "portico", "portico.sync" }) do
    it("are collected, however big the heap is [" .. facade .. "]", function()
      check("true\ttrue\n", 400, ([[
        local P = require(%q)
        local heap = {}
        for i = 1, 300000 do
          heap[i] = { i }
        end
        collectgarbage()
        P.run(function()
          local most, threads = 0, 0
          for _ = 1, 200 do
            P.sandbox({ backend = "local" })
            most = math.max(most, entries("/proc/self/fd"))
            threads = math.max(threads, entries("/proc/self/task"))
          end
          print(most < 350 or most, threads < 40 or threads)
        end)
        assert(#heap == 300000)
      ]]):format(facade))
    end)

    it("and those in use are not [" .. facade .. "]", function()
      check("40\n", 1024, ([[
        local P = require(%q)
        P.run(function()
          local list, good = {}, 0
          for i = 1, 40 do
            list[i] = P.sandbox({ backend = "null" })
          end
          for _, sb in ipairs(list) do
            good = good + (sb:output({ "echo", "x" }) == "x" and 1 or 0)
            sb:close()
          end
          print(good)
        end)
      ]]):format(facade))
    end)

    it("leave nothing after 500 of them [" .. facade .. "]", function()
      check("true\ttrue\ttrue\n", 1024, ([[
        local P = require(%q)
        local function make(n)
          P.run(function()
            for _ = 1, n do
              P.sandbox({ backend = "local" })
            end
          end)
        end
        -- The last ones end in the background; gives the fewest there were.
        local function settle(wanted_fds, wanted_threads)
          local fds, threads = math.huge, math.huge
          for _ = 1, wanted_fds and 1000 or 100 do
            collectgarbage()
            P.run(P.sleep, 0.01)
            fds = math.min(fds, entries("/proc/self/fd"))
            threads = math.min(threads, entries("/proc/self/task"))
            if wanted_fds and fds <= wanted_fds and threads <= wanted_threads
            then
              break
            end
          end
          return fds, threads
        end
        make(100)
        local fds, threads = settle()
        local before = kilobytes()
        make(500)
        local fds_then, threads_then = settle(fds, threads)
        local grown = kilobytes() - before
        print(fds_then <= fds or fds_then, threads_then <= threads
          or threads_then, grown < 1000 or grown)
      ]]):format(facade))
    end)
  end
end)

describe("portals", function()
  it("leave nothing after 1000 of them", function()
    check("true\ttrue\ttrue\n", 64, [[
      local function make(n)
        for _ = 1, n do
          assert(portal.open():close())
        end
      end
      make(100)
      local fds = entries("/proc/self/fd")
      local threads = entries("/proc/self/task")
      local before = kilobytes()
      make(1000)
      local grown = kilobytes() - before
      print(entries("/proc/self/fd") == fds, entries("/proc/self/task")
        == threads, grown < 1000 or grown)
    ]])
  end)

  it("that nobody closes are collected, too", function()
    check("true\n", 400, [[
      for _ = 1, 1000 do
        portal.open()
      end
      print(true)
    ]])
  end)
end)

it("nothing is left behind", nothing_left)
