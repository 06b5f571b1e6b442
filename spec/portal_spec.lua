-- The portal under the sync facade: a thread per sandbox, from create to
-- close, that is never in the way.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local lfs = require("lfs")
local portal = require("portico.portal")
local portico = require("portico")
local sync = require("portico.sync")

local nothing_left = leaks.frame()
local raises = facades.raises

local function threads_now()
  local count = 0
  for name in lfs.dir("/proc/self/task") do
    count = count + (name:find("^%d+$") and 1 or 0)
  end
  return count
end

-- The threads that are there; for a moment after its join the kernel still
-- lists one, so an expected number has a second to come true.
local function count_threads(expected)
  local count = threads_now()
  for _ = 1, 100 do
    if not expected or count == expected then
      break
    end
    sync.sleep(0.01)
    count = threads_now()
  end
  return count
end

describe("a sync sandbox", function()
  it("has a thread from create to close", function()
    local before = count_threads()
    local a = sync.sandbox({ backend = "local" })
    assert.equal(before + 1, count_threads(before + 1))
    local b = sync.sandbox({ backend = "local" })
    assert.equal(before + 2, count_threads(before + 2))
    assert.is_true(a:close())
    assert.equal(before + 1, count_threads(before + 1))
    assert.equal("x", b:output({ "echo", "x" }))
    assert.is_true(b:close())
    assert.equal(before, count_threads(before))
    assert.is_false(b:close())
  end)

  it("has no more threads with one call or a hundred", function()
    local sb <close> = sync.sandbox({ backend = "local" })
    local before = count_threads()
    for _ = 1, 100 do
      sb:exec({ "true" })
    end
    assert.equal(before, count_threads(before))
  end)

  it("has a name of its own for the thread", function()
    local sb <close> = sync.sandbox({ backend = "local" })
    local found = false
    for name in lfs.dir("/proc/self/task") do
      local comm = env.read("/proc/self/task/" .. name .. "/comm")
      found = found or comm and comm:find("^pco%-") ~= nil
    end
    assert.is_true(found)
    assert.is_false(sb.closed)
  end)

  it("works in any coroutine, comparator, callback and finalizer", function()
    local sb <close> = sync.sandbox({ backend = "local" })
    local generator = coroutine.wrap(function()
      for i = 1, 3 do
        coroutine.yield(sb:output({ "echo", i }))
      end
    end)
    assert.same({ "1", "2", "3" }, { generator(), generator(), generator() })
    local list = { 3, 1, 2 }
    table.sort(list, function(a, b)
      return tonumber(sb:output({ "echo", a })) < b
    end)
    assert.same({ 1, 2, 3 }, list)
    assert.equal("x-x", ("a-b"):gsub("%a", function()
      return sb:output({ "echo", "x" })
    end) .. "")
    local shown = setmetatable({}, {
      __tostring = function()
        return sb:output({ "echo", "text" })
      end,
    })
    assert.equal("text", tostring(shown))
    local seen
    setmetatable({}, {
      __gc = function()
        seen = sb:output({ "echo", "gc" })
      end,
    })
    collectgarbage()
    collectgarbage()
    assert.equal("gc", seen)
  end)

  it("is refused inside a task, which names the async member", function()
    local sb <close> = sync.sandbox({ backend = "local" })
    portico.run(function()
      local err = raises("UsageError", sb.exec, sb, { "true" })
      assert.equal("PCO_ESYNC", err.code)
      assert.truthy(err.message:find("exec", 1, true))
      err = raises("UsageError", sync.sandbox, { backend = "local" })
      assert.equal("PCO_ESYNC", err.code)
      err = raises("UsageError", sync.sleep, 0)
      assert.equal("PCO_ESYNC", err.code)
    end)
    assert.equal(0, sb:exec({ "true" }).code)
  end)

  it("is allowed inside a task with allow_in_tasks", function()
    local sb <close> = sync.sandbox({
      backend = "local", allow_in_tasks = true,
    })
    portico.run(function()
      assert.equal("x", sb:output({ "echo", "x" }))
    end)
  end)

  it("keeps errors and their causes as objects", function()
    local sb <close> = sync.sandbox({ backend = "local" })
    local err = raises("NotFoundError", sb.fs.read, sb.fs, "no")
    assert.equal("ENOENT", err.code)
    assert.is_true(rawequal(debug.getmetatable(err), errors.NotFoundError))
  end)

  for _, backend in ipairs(backends.real) do
    backends.it(it, backend, "goes by itself when it is dropped ["
      .. backend.name .. "]", function()
      local before = leaks.snapshot()
      local peak = count_threads()
      for _ = 1, 60 do
        sync.sandbox({ backend = backend.name })
        collectgarbage()
        peak = math.max(peak, count_threads())
      end
      assert.is_true(peak < 40, peak .. " threads")
      assert.same({}, leaks.since(before))
    end)
  end
end)

describe("a sync backend", function()
  it("has a thread from open to close", function()
    local before = count_threads()
    local backend = sync.open("local")
    assert.equal(before + 1, count_threads(before + 1))
    local sb = backend:create()
    assert.equal(before + 2, count_threads(before + 2))
    assert.is_true(backend:close())
    assert.is_true(sb.closed)
    assert.equal(before, count_threads(before))
  end)
end)

describe("a portal by hand", function()
  for _, each in ipairs(backends.real) do
    backends.it(it, each, "is one thread for several sandboxes [" .. each.name
      .. "]", function()
      local before = count_threads()
      local shared <close> = portal.open()
      assert.equal(before + 1, count_threads(before + 1))
      local a <close> = sync.sandbox({ backend = each.name, portal = shared })
      local b <close> = sync.sandbox({ backend = each.name, portal = shared })
      local backend <close> = sync.open(each.name, nil, { portal = shared })
      local c <close> = backend:create({ portal = shared })
      assert.equal(before + 1, count_threads(before + 1))
      assert.equal("1 2 3", table.concat({
        a:output("echo 1"), b:output("echo 2"), c:output("echo 3"),
      }, " "))
    end)
  end

  it("cannot be closed while it is used", function()
    local shared = portal.open()
    local sb = sync.sandbox({ backend = "local", portal = shared })
    local err = raises("UsageError", shared.close, shared)
    assert.equal("PCO_EBUSY", err.code)
    assert.is_false(shared.closed)
    assert.equal("x", sb:output("echo x"))
    assert.is_true(sb:close())
    assert.is_true(shared:close())
    assert.is_false(shared:close())
    assert.is_true(shared.closed)
    err = raises("ClosedError", sync.sandbox,
      { backend = "local", portal = shared })
    assert.equal("PCO_ECLOSED", err.code)
  end)

  it("is closed by its scope, and shown as text", function()
    local kept
    do
      local shared <close> = portal.open()
      kept = shared
      assert.truthy(tostring(shared):find("[Pp]ortal"))
      assert.is_true(rawequal(getmetatable(shared).__index, portal.Portal))
    end
    assert.is_true(kept.closed)
  end)

  it("checks its arguments", function()
    raises("InvalidArgumentError", portal.open, 5)
    raises("InvalidArgumentError", portal.open, { tmeout = 1 })
    raises("InvalidArgumentError", sync.sandbox,
      { backend = "local", portal = {} })
    local shared <close> = portal.open()
    local err = raises("UsageError", shared.close)
    assert.equal("PCO_EDOT", err.code)
  end)

  it("is accepted and ignored by the async facade", function()
    local shared <close> = portal.open()
    portico.run(function()
      local sb <close> = portico.sandbox({
        backend = "local", portal = shared, allow_in_tasks = true,
      })
      assert.equal("x", sb:output("echo x"))
    end)
  end)

  it("opens and closes a thousand times", function()
    local before = leaks.snapshot()
    for _ = 1, 1000 do
      assert(portal.open():close())
    end
    assert.same({}, leaks.since(before))
  end)
end)

describe("without room for it", function()
  local function check(backend)
    for limit = 12, 28 do -- with fewer, the shell fails
      local output, code = env.script(([[
        local sync = require("portico.sync")
        local errors = require("portico.errors")
        local function fds()
          local n = 0
          for i = 0, 63 do
            local f = io.open("/proc/self/fdinfo/" .. i)
            if f then
              f:close()
              n = n + 1
            end
          end
          return n
        end
        local function try()
          local ok, sb = pcall(sync.sandbox, { backend = %q })
          if ok then
            sb:close()
          else
            assert(errors.is(sb, errors.LimitError), tostring(sb))
            assert(sb.code == "EMFILE" or sb.code == "ENFILE", tostring(sb))
          end
          collectgarbage()
          collectgarbage()
          return ok and "opened" or "refused"
        end
        -- The first time some things are made that the process keeps.
        local first, before = try(), fds()
        assert(try() == first and try() == first)
        assert(fds() == before, before .. " to " .. fds())
        print(first)
      ]]):format(backend), "ulimit -n " .. limit .. "; ")
      assert.truthy(output == "opened\n" or output == "refused\n",
        ("ulimit -n %d: %d: %s"):format(limit, code, output))
      assert.equal(0, code)
    end
  end

  for _, backend in ipairs(backends.real) do
    backends.it(it, backend, "creation fails with a typed error, and leaves "
      .. "nothing [" .. backend.name .. "]", function()
      check(backend.name)
    end)
  end
end)

-- How a script may end while a command runs in a sandbox; each in a process of
-- its own, and with a command line that nobody else has.
describe("the end of a script", function()
  local number = 0

  local function next_seconds()
    number = number + 1
    return ("271828.%d"):format(number)
  end

  -- Declares a test of each facade on each backend.
  local function test(name, fn)
    for _, backend in ipairs(backends.real) do
      for _, facade in ipairs({ "portico", "portico.sync" }) do
        backends.it(it, backend, ("%s [%s, %s]"):format(name, backend.name,
          facade), function()
          fn(facade, backend.name)
        end)
      end
    end
  end

  local function check(facade, backend, ending, expected_code)
    local seconds = next_seconds()
    local output, code, duration = env.script(([[
      local P = require(%q)
      local sb
      P.run(function()
        sb = P.sandbox({ backend = %q })
        sb:spawn({ "sleep", %q })
        sb:exec({ "true" })
      end)
      io.write("on ")
      io.flush()
      %s
    ]]):format(facade, backend, seconds, ending))
    assert.truthy(output:find("^on "), output)
    assert.equal(expected_code, code, output)
    assert.is_true(duration < 5, duration .. " seconds")
    assert.is_true(env.eventually(20, function()
      return #env.pgrep({ "sleep", seconds }) == 0
    end), "the command lives on")
    return output
  end

  test("by falling off", function(facade, backend)
    check(facade, backend, "", 0)
  end)
  test("by an error", function(facade, backend)
    local output = check(facade, backend, 'error("mine")', 1)
    assert.truthy(output:find("mine", 1, true))
  end)
  test("by os.exit", function(facade, backend)
    check(facade, backend, "os.exit(7)", 7)
  end)
  test("by os.exit that closes the state", function(facade, backend)
    check(facade, backend, "os.exit(7, true)", 7)
  end)
  test("by SIGKILL", function(facade, backend)
    check(facade, backend, [[
      local pid = io.open("/proc/self/stat"):read("n")
      os.execute("kill -KILL " .. pid)
    ]], 137)
  end)
  test("by Ctrl-C in a wait", function(facade, backend)
    local seconds = next_seconds()
    local output, code, duration = env.script(([[
      local P = require(%q)
      local errors = require("portico.errors")
      local pid = io.open("/proc/self/stat"):read("n")
      os.execute("(sleep 1; kill -INT " .. pid .. ") &")
      local ok, err = pcall(P.run, function()
        local sb <close> = P.sandbox({ backend = %q })
        sb:exec({ "sleep", %q })
      end)
      print(ok, errors.is(err, "CancelledError"), err.code)
      P.run(function()
        local sb <close> = P.sandbox({ backend = %q })
        print(sb:output("echo usable"))
      end)
    ]]):format(facade, backend, seconds, backend))
    assert.equal("false\ttrue\tPCO_EINTERRUPTED\nusable\n", output)
    assert.equal(0, code)
    assert.is_true(duration < 8, duration .. " seconds")
    assert.same({}, env.pgrep({ "sleep", seconds }))
  end)
  test("not by a harmless signal in a wait", function(facade, backend)
    local output = env.script(([[
      local P = require(%q)
      local pid = io.open("/proc/self/stat"):read("n")
      os.execute("(for i in 1 2 3; do sleep 0.1; kill -WINCH " .. pid
        .. "; done) &")
      P.run(function()
        local sb <close> = P.sandbox({ backend = %q })
        print(sb:output("sleep 0.6; echo whole"))
      end)
    ]]):format(facade, backend))
    assert.equal("whole\n", output)
  end)

  it("leaves nothing behind", nothing_left)
end)
