-- Coroutines that wait inside a task; and that those of portico.coroutine are
-- otherwise as the stock library's.

local coroutines = require("spec.support.coroutines")
local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local ours = require("portico.coroutine")
local portico = require("portico")
local task = require("portico.task")

local nothing_left = leaks.frame()
local raises = facades.raises
local stock = coroutine

-- What only that does; in the portico command there is none, and whatever
-- waits cannot be resumed.
local function with_stock(name, fn)
  it(name, function()
    if stock.wrap == ours.wrap then
      pending("the stock library is not there")
    end
    fn()
  end)
end

local function collect(iterate, ...)
  local values = {}
  for value in iterate, ... do
    values[#values + 1] = value
  end
  return values
end

-- Behaviour that both libraries must share: the one under test is `co`.
local shared = {}

function shared.arguments_and_results(co)
  local thread = co.create(function(...)
    local a = table.pack(...)
    local b = table.pack(co.yield(table.unpack(a, 1, a.n)))
    return b.n, nil
  end)
  assert.same({ true, 1, nil, n = 3 }, table.pack(co.resume(thread, 1, nil)))
  assert.equal("suspended", co.status(thread))
  assert.same({ true, 3, nil, n = 3 },
    table.pack(co.resume(thread, nil, 2, nil)))
  assert.equal("dead", co.status(thread))
  assert.same({ false, "cannot resume dead coroutine" }, { co.resume(thread) })
end

function shared.states(co)
  local outer, main = nil, co.running()
  outer = co.create(function()
    assert.equal("running", co.status(outer))
    assert.is_true(co.isyieldable())
    assert.same({ outer, false }, { co.running() })
    assert.equal("normal", co.status(main))
    local inner = co.create(function()
      assert.equal("normal", co.status(outer))
      assert.same({ false, "cannot resume non-suspended coroutine" },
        { co.resume(outer) })
      local ok, err = pcall(co.close, outer)
      assert.is_false(ok)
      assert.truthy(err:find("cannot close a normal coroutine", 1, true))
    end)
    assert.same({ true }, { co.resume(inner) })
    assert.same({ false, "cannot resume non-suspended coroutine" },
      { co.resume(outer) })
    local ok, err = pcall(co.close, outer)
    assert.is_false(ok)
    assert.truthy(err:find("cannot close a running coroutine", 1, true))
  end)
  assert.same({ true }, { co.resume(outer) })
  assert.is_true(co.isyieldable(co.create(print)))
end

function shared.errors(co)
  local object = { "mine" }
  local thread = co.create(function() error(object) end)
  local ok, err = co.resume(thread)
  assert.is_false(ok)
  assert.is_true(rawequal(object, err))
  assert.equal("dead", co.status(thread))
  assert.same({ false, object }, { co.close(thread) })
  ok, err = pcall(co.wrap(function() error(object) end))
  assert.is_false(ok)
  assert.is_true(rawequal(object, err))
  ok, err = pcall(co.wrap(function() error(nil) end))
  assert.same({ false, nil }, { ok, err })
end

-- An error that is a text gets the position of the call of the wrapped
-- function; its line is told by the text.
function shared.positions(co)
  local f = co.wrap(function() error("text", 0) end)
  local line = debug.getinfo(1, "l").currentline + 1
  local ok, err = pcall(function() f() end)
  assert.is_false(ok)
  assert.equal(("spec/coroutine_spec.lua:%d: text"):format(line),
    (err:gsub("^%./", "")))
  ok, err = pcall(f)
  assert.is_false(ok)
  assert.truthy(err:find("cannot resume dead coroutine", 1, true))
  ok, err = pcall(co.create, 5)
  assert.is_false(ok)
  assert.truthy(err:find("function expected", 1, true), err)
  for _, name in ipairs({ "resume", "status", "close" }) do
    ok, err = pcall(co[name], 0)
    assert.is_false(ok)
    assert.truthy(err:find("thread expected", 1, true), err)
  end
  assert.is_false(pcall(co.wrap, 0))
  assert.is_false(pcall(co.wrap))
end

function shared.closing(co)
  local log = {}
  local function closing(name, raise)
    return setmetatable({}, {
      __close = function(_, err)
        log[#log + 1] = { name, err }
        if raise then
          error(raise, 0)
        end
      end,
    })
  end
  local thread = co.create(function()
    local _ <close> = closing("outer", 200)
    local _ <close> = closing("inner", 111)
    co.yield()
  end)
  co.resume(thread)
  assert.same({ false, 200 }, { co.close(thread) })
  assert.equal("dead", co.status(thread))
  assert.same({ { "inner" }, { "outer", 111 } }, log)
  assert.same({ true }, { co.close(thread) })
  assert.same({ true }, { co.close(co.create(print)) })
  -- wrap closes what died of an error; resume leaves it to close.
  log = {}
  pcall(co.wrap(function()
    local _ <close> = closing("wrapped")
    error("x", 0)
  end))
  assert.same({ { "wrapped", "x" } }, log)
  log = {}
  thread = co.create(function()
    local _ <close> = closing("kept")
    error("x", 0)
  end)
  co.resume(thread)
  assert.same({}, log)
  assert.same({ false, "x" }, { co.close(thread) })
  assert.same({ { "kept", "x" } }, log)
end

function shared.generators(co)
  local function numbers(limit)
    return co.wrap(function()
      for i = 2, limit do
        co.yield(i)
      end
    end)
  end
  local function filter(prime, source)
    return co.wrap(function()
      for n in source do
        if n % prime ~= 0 then
          co.yield(n)
        end
      end
    end)
  end
  local primes, source = {}, numbers(80)
  while true do
    local n = source()
    if not n then
      break
    end
    primes[#primes + 1] = n
    source = filter(n, source)
  end
  assert.equal(22, #primes)
  assert.equal(79, primes[22])
end

function shared.yields_across_pcall_and_metamethods(co)
  local magic = setmetatable({}, {
    __add = function() return (co.yield("add")) end,
    __index = function(_, key) return (co.yield(key)) end,
  })
  local f = co.wrap(function()
    local ok, x = pcall(co.yield, "pcall")
    local sum = magic + 1
    return ok, x, sum, magic.field
  end)
  assert.equal("pcall", f())
  assert.equal("add", f("x"))
  assert.equal("field", f("sum"))
  assert.same({ true, "x", "sum", "value" }, { f("value") })
end

-- Each metamethod and each iterator tells its name to the consumer.
function shared.yields_in_every_metamethod(co)
  local function told(name, value)
    return function()
      co.yield(name)
      return value
    end
  end
  local names = {
    "add", "sub", "mul", "div", "idiv", "mod", "pow", "unm", "band", "bor",
    "bxor", "shl", "shr", "bnot", "concat", "len", "index", "call", "eq", "lt",
    "le", "newindex",
  }
  local meta = {}
  for _, name in ipairs(names) do
    meta["__" .. name] = told(name, name)
  end
  local a, b = setmetatable({}, meta), setmetatable({}, meta)
  local results
  local f = co.wrap(function()
    results = {
      a + 1, 1 - a, a * b, a / 1, a // 1, a % 1, a ^ 1, -a, a & 1, 1 | a, a ~ b,
      a << 1, a >> 1, ~a, a .. "x", #a, a.key, a(), a == b, a < b, a <= b,
    }
    a.key = 1
    for _ in told("iterator") do
      error("it gave nothing")
    end
    return "end"
  end)
  for _, name in ipairs(names) do
    assert.equal(name, f())
  end
  assert.equal("iterator", f())
  assert.equal("end", f())
  for i, name in ipairs({ table.unpack(names, 1, 18) }) do
    assert.equal(name, results[i])
  end
  assert.same({ true, true, true }, { table.unpack(results, 19) })
end

function shared.hooks_and_locals(co)
  local thread = co.create(function(given)
    local kept = given
    co.yield(kept)
    return 20
  end)
  local events = {}
  debug.sethook(thread, function(event) events[#events + 1] = event end, "clr")
  assert.same({ true, 10 }, { co.resume(thread, 10) })
  assert.same({ "kept", 10 }, { debug.getlocal(thread, 1, 2) })
  assert.same({ true, 20 }, { co.resume(thread) })
  assert.same({ "call", "line", "line", "call", "return", "line", "return" },
    events)
end

-- `<close>` of an error that pcall catches in a coroutine: the last error
-- counts, and what closes may yield.
function shared.closing_in_pcall(co)
  local log = {}
  local function closing(raise)
    return setmetatable({}, {
      __close = function(_, err)
        log[#log + 1] = err
        co.yield("closing")
        error(raise, 0)
      end,
    })
  end
  local f = co.wrap(function()
    return pcall(function()
      local _ <close> = closing("second")
      local _ <close> = closing("first")
      error("body", 0)
    end)
  end)
  assert.equal("closing", f())
  assert.equal("closing", f())
  assert.same({ false, "second" }, { f() })
  assert.same({ "body", "first" }, log)
end

function shared.too_many_results(co)
  local ok, err = co.resume(co.create(function()
    return table.unpack({}, 1, 999999)
  end))
  assert.is_false(ok)
  assert.truthy(err:find("too many results", 1, true), err)
end

function shared.yields_where_none_is_possible(co)
  local f = co.wrap(function()
    assert.is_false(pcall(table.sort, { 1, 2, 3 }, co.yield))
    assert.equal("aa", (("a"):gsub(".", function(c)
      assert.is_false(co.isyieldable())
      return c .. c
    end)))
    co.yield(20)
    return 30
  end)
  assert.equal(20, f())
  assert.equal(30, f())
end

function shared.recursion(co)
  local function endless(f)
    co.wrap(f)(f)
  end
  local ok, err = pcall(endless, endless)
  assert.is_false(ok)
  assert.truthy(tostring(err):find("overflow"), err)
  local thread
  thread = co.create(function() return co.resume(thread) end)
  assert.same({ true, false, "cannot resume non-suspended coroutine" },
    { co.resume(thread) })
end

function shared.garbage(co)
  local weak = setmetatable({}, { __mode = "v" })
  do
    local f = co.wrap(function()
      local big = {}
      weak[1] = big
      co.yield(big)
    end)
    f()
    weak[2] = f
  end
  collectgarbage()
  collectgarbage()
  assert.is_nil(weak[1])
  assert.is_nil(weak[2])
end

coroutines.declare(shared)

describe("a coroutine in a task", function()
  local function generator(n, level)
    return ours.wrap(function()
      if level > 1 then
        for value in generator(n, level - 1) do
          task.checkpoint()
          ours.yield(value)
        end
      else
        for i = 1, n do
          portico.sleep(0.001)
          ours.yield(i)
        end
      end
    end)
  end

  it("may wait between its values, at any depth", function()
    portico.run(function()
      for _, level in ipairs({ 1, 2, 3, 10 }) do
        assert.same({ 1, 2, 3 }, collect(generator(3, level)))
      end
    end)
  end)

  it("may wait with the stock yield as well", function()
    portico.run(function()
      assert.same({ 1, 2 }, collect(ours.wrap(function()
        portico.sleep(0)
        stock.yield(1)
        portico.sleep(0)
        stock.yield(2)
      end)))
    end)
  end)

  it("suspends the task, not the others", function()
    portico.run(function()
      local order = {}
      task.all({
        function()
          for value in generator(3, 3) do
            order[#order + 1] = value
          end
        end,
        function()
          for _ = 1, 3 do
            portico.sleep(0)
            order[#order + 1] = "other"
          end
        end,
      })
      assert.equal(6, #order)
      assert.equal("other", order[1])
    end)
  end)

  facades.in_task(it, "may read a command's lines", function(_, sandbox)
    local function numbered(command)
      return ours.wrap(function()
        local p <close> = sandbox:spawn(command)
        local i = 0
        for line in p:lines() do
          i = i + 1
          ours.yield(i .. ":" .. line)
        end
      end)
    end
    assert.same({ "1:a", "2:b" }, collect(numbered("echo a; echo b")))
    local got = {}
    for i = 1, 3 do
      got[i] = collect(ours.wrap(function()
        ours.yield(sandbox:output({ "echo", tostring(i) }))
      end))[1]
    end
    assert.same({ "1", "2", "3" }, got)
  end)

  it("is normal to others while it waits, and cannot be resumed", function()
    portico.run(function()
      local thread
      task.all({
        function()
          thread = ours.create(function()
            portico.sleep(0.02)
            return "result"
          end)
          assert.same({ true, "result" }, { ours.resume(thread) })
        end,
        function()
          portico.sleep(0.005)
          assert.equal("normal", ours.status(thread))
          assert.same({ false, "cannot resume non-suspended coroutine" },
            { ours.resume(thread, "bogus") })
          local ok, err = pcall(ours.close, thread)
          assert.is_false(ok)
          assert.truthy(err:find("cannot close a normal coroutine", 1, true))
        end,
      })
      local root = ours.running()
      task.all({ function()
        assert.equal("normal", ours.status(root))
        assert.is_false(ours.resume(root))
      end })
    end)
  end)

  with_stock("that the stock one resumes tells both", function()
    for _, inner in ipairs({ function() portico.sleep(60) end,
      function() task.event():wait({ timeout = 60 }) end,
      function() task.scope(function() portico.sleep(60) end) end,
    }) do
      local thread, got, resumed
      portico.run(task.all, {
        function()
          thread = ours.create(inner)
          got = table.pack(ours.resume(thread))
        end,
        function()
          portico.sleep(0.01)
          resumed = table.pack(stock.resume(thread, "bogus"))
        end,
      })
      assert.same({ false, "PCO_ECOROUTINE" }, { resumed[1], resumed[2].code })
      assert.same({ false, "PCO_ECOROUTINE" }, { got[1], got[2].code })
    end
  end)

  with_stock("cannot wait when the stock one is in between", function()
    portico.run(function()
      for _, wrap in ipairs({ stock.wrap, function(fn)
        return stock.wrap(function() ours.wrap(fn)() end)
      end, function(fn)
        return ours.wrap(function() stock.wrap(fn)() end)
      end }) do
        local err = raises("UsageError", wrap(function() portico.sleep(0) end))
        assert.equal("PCO_ECOROUTINE", err.code)
        assert.truthy(err.message:find("portico.coroutine", 1, true))
      end
      local err = raises("UsageError", table.sort, { 1, 2 }, function()
        return ours.wrap(function() portico.sleep(0) end)()
      end)
      assert.equal("PCO_ENOYIELD", err.code)
      portico.sleep(0)
    end)
  end)

  it("gets errors of its waits, and passes them on", function()
    portico.run(function()
      local err = raises("TimeoutError", task.timeout, 0.02, function()
        for _ in ours.wrap(function()
          ours.yield(1)
          portico.sleep(60)
        end) do
          task.checkpoint()
        end
      end)
      assert.equal("PCO_ECALLTIMEOUT", err.code)
    end)
  end)

  it("has its stack, those around it, and the spawn in tracebacks", function()
    local err = raises("ClosedError", portico.run, function()
      local channel = task.channel()
      channel:close()
      task.scope(function(scope)
        local t = scope:spawn(function()
          local function consume(f) f() return 1 end
          local result = consume(ours.wrap(function()
            task.checkpoint()
            local function innermost() channel:send(1) return 1 end
            local result = innermost()
            return result
          end))
          return result
        end)
        t.name = "worker"
      end)
    end)
    for _, part in ipairs({
      "innermost", "in a coroutine, resumed at:", "consume",
      "worker was spawned at [^\n]*coroutine_spec.lua:%d+",
    }) do
      assert.truthy(err.traceback:find(part), part .. " in " .. err.traceback)
    end
  end)

  it("has some of those around it in tracebacks, if they are many", function()
    portico.run(function()
      local function nest(n)
        if n == 0 then
          portico.sleep("x")
        end
        return (ours.wrap(nest)(n - 1))
      end
      local function bottom()
        return (ours.wrap(nest)(60))
      end
      local err = raises("InvalidArgumentError", bottom)
      local _, n = err.traceback:gsub("\nin a coroutine, resumed at:", "")
      assert.equal(6, n, err.traceback)
      -- The last one is the task's own.
      assert.truthy(err.traceback:find("%(skipping 55 coroutines%).*'pcall'"),
        err.traceback)
    end)
  end)

  it("cannot hold a scope over a yield", function()
    portico.run(function()
      local err = raises("UsageError", ours.wrap(function()
        task.scope(function(scope)
          scope:spawn(task.sleep, 60)
          ours.yield(1)
        end)
      end))
      assert.equal("PCO_ESCOPE", err.code)
      -- By a yield that cannot raise it itself.
      err = raises("UsageError", ours.wrap(function()
        task.scope(function(scope)
          scope:spawn(task.sleep, 60)
          stock.yield(1)
        end)
      end))
      assert.equal("PCO_ESCOPE", err.code)
      err = raises("UsageError", ours.wrap(function()
        task.scope(function(scope)
          scope:spawn(task.sleep, 60)
          while true do
            stock.yield(1)
          end
        end)
      end))
      assert.equal("PCO_ESCOPE", err.code)
      -- A scope between two yields is fine.
      assert.same({ 1, 2 }, collect(ours.wrap(function()
        for i = 1, 2 do
          task.all({ function() task.sleep(0.001) end })
          ours.yield(i)
        end
      end)))
    end)
  end)

  it("can be 150 deep, and says when it is too deep", function()
    portico.run(function()
      local function nest(n)
        if n == 0 then
          portico.sleep(0)
          return "there"
        end
        return ours.wrap(nest)(n - 1)
      end
      assert.equal("there", nest(90))
      local ok, err = pcall(nest, 500)
      assert.is_false(ok)
      assert.truthy(tostring(err):find("overflow"), tostring(err))
      portico.sleep(0)
      assert.equal("there", nest(90))
    end)
  end)
end)

describe("install", function()
  local script = [[
    local portico = require("portico")
    %s
    portico.run(function()
      for v in coroutine.wrap(function()
        for i = 1, 3 do
          portico.sleep(0)
          coroutine.yield(i)
        end
      end) do
        print(v)
      end
    end)
  ]]

  local function run(program, code)
    local path = os.tmpname()
    env.write(path, code)
    local output, status = env.sh(("timeout %d %s %s 2>&1"):format(
      env.patience(60), program, path))
    os.remove(path)
    return output, status
  end

  it("makes the global table wait, for those who ask", function()
    assert.same({ "1\n2\n3\n", 0 }, { run("lua5.4",
      script:format("require('portico.coroutine').install()")) })
    local output = run("lua5.4", script:format(""))
    assert.truthy(output:find("PCO_ECOROUTINE"), output)
  end)

  it("is done in the portico command", function()
    assert.same({ "1\n2\n3\n", 0 }, { run(
      env.quoted(os.getenv("PORTICO_BIN")), script:format("")) })
  end)

  it("lets Ctrl-C end a task that computes, in the portico command", function()
    local output, status = run(env.quoted(os.getenv("PORTICO_BIN")), [[
      local portico = require("portico")
      local pid = io.open("/proc/self/stat"):read("n")
      portico.run(function()
        local sb <close> = portico.sandbox({ backend = "local" })
        sb:spawn("sleep 0.2; kill -INT " .. pid)
        while true do end
      end)
    ]])
    assert.equal(130, status, output)
  end)
end)

it("coroutines leave nothing behind", nothing_left)
