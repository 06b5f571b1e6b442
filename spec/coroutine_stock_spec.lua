-- What the file on coroutines of Lua's own test suite checks, in other words,
-- of the stock library and of ours, inside and outside of tasks. Its sections,
-- and where they are (the rest of coroutine_spec.lua is about waits):
--
--   the main thread                            here
--   arguments and results of many resumes      here, coroutine_spec.lua
--   yields in tail calls and recursions        here
--   generators, the sieve                      coroutine_spec.lua
--   to-be-closed variables, coroutine.close    coroutine_spec.lua
--   __close and pcall, who calls it            here, coroutine_spec.lua
--   yields across pcall, xpcall, handlers      here, coroutine_spec.lua
--   where none is possible: sort, gsub         coroutine_spec.lua
--   hooks of one coroutine                     coroutine_spec.lua
--   errors, and what debug says at them        here
--   coroutines as iterators                    here
--   variables of dead and collected coroutines here
--   resuming oneself, a normal one, wrap too   here, coroutine_spec.lua
--   recursion without end, too many results    coroutine_spec.lua
--   one that is left suspended                 here
--   yields in metamethods, with constants      here, coroutine_spec.lua
--   globals with metamethods                   here
--   yields in iterators of `for`               here
--   chains of pcall                            here
--   its internal C library                     not applicable: Lua is not
--                                              built for tests

local coroutines = require("spec.support.coroutines")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

-- Each is called with the library under test.
local sections = {}

function sections.main_thread(co)
  local this, is_main = co.running()
  assert.equal("thread", type(this))
  assert.equal("boolean", type(is_main))
  assert.equal("running", co.status(this))
  assert.is_false(co.resume(this))
  if is_main then
    assert.is_false(co.isyieldable())
    assert.is_false(co.isyieldable(this))
    assert.is_false(pcall(co.yield))
  end
end

function sections.many_resumes(co)
  local thread, seen
  thread = co.create(function(results, ...)
    assert.same({ thread, false }, { co.running() })
    assert.is_false(co.resume(thread))
    for _, list in ipairs({ ... }) do
      seen = table.pack(co.yield(table.unpack(list)))
    end
    return table.unpack(results)
  end)
  assert.truthy(tostring(thread):find("^thread"))
  assert.same({ true, n = 1 },
    table.pack(co.resume(thread, { 1, 2, 3 }, {}, { 1 }, { "a", "b" })))
  assert.same({ true, 1, n = 2 }, table.pack(co.resume(thread)))
  assert.same({ n = 0 }, seen)
  assert.same({ true, "a", "b", n = 3 }, table.pack(co.resume(thread, 7, nil)))
  assert.same({ 7, n = 2 }, seen)
  assert.same({ true, 1, 2, 3, n = 4 }, table.pack(co.resume(thread, "last")))
  assert.same({ "last", n = 1 }, seen)
  assert.same({ false, "cannot resume dead coroutine" },
    { co.resume(thread, "more") })
end

function sections.tail_calls_and_recursion(co)
  local function pass(value) return co.yield(value) end
  local echo = co.wrap(function()
    for i = 1, 10 do
      assert.equal(-i, pass(i))
    end
    return "end"
  end)
  assert.equal(1, echo())
  for i = 2, 10 do
    assert.equal(i, echo(1 - i))
  end
  assert.equal("end", echo(-10))
  local function products(n, i)
    co.yield(n)
    return products(n * i, i + 1)
  end
  local next_product, expected = co.wrap(products), 1
  for i = 1, 12 do
    assert.equal(expected, next_product(1, 1))
    expected = expected * i
  end
end

function sections.close_knows_its_caller(co)
  local caller, err
  local thread = co.create(function()
    return pcall(function()
      local _ <close> = setmetatable({}, { __close = function(_, e)
        caller, err = debug.getinfo(2), e
      end })
      error(43)
    end)
  end)
  assert.same({ true, false, 43 }, { co.resume(thread) })
  assert.same({ "pcall", 43 }, { caller.name, err })
end

function sections.close_after_a_yield(co)
  local log = {}
  local function closing(raise)
    return setmetatable({}, { __close = function(_, err)
      log[#log + 1] = err or "none"
      if raise then
        error(raise)
      end
    end })
  end
  local thread = co.create(pcall)
  assert.same({ true, 1 }, { co.resume(thread, function()
    local _ <close> = closing(20)
    local _ <close> = closing()
    local _ <close> = closing(10)
    co.yield(1)
    do
      local _ <close> = closing(2)
    end
  end) })
  assert.same({ true, false, 20 }, { co.resume(thread) })
  assert.equal("dead", co.status(thread))
  assert.same({ "none", 2, 10, 10 }, log)
end

function sections.yields_across_xpcall(co)
  local function next_one() return co.yield("more") end
  local f = co.wrap(function()
    return xpcall(pcall, print, function()
      local sum = 0
      for i in next_one do
        pcall(function() sum = sum + i end)
      end
      error({ sum })
    end)
  end)
  assert.equal("more", f())
  for i = 1, 10 do
    assert.equal("more", f(i))
  end
  local ok, caught, err = f(nil)
  assert.same({ true, false, { 55 } }, { ok, caught, err })
  -- The handler is called for an error behind a yield, too.
  f = co.wrap(function()
    co.yield(xpcall(function(a, b)
      a = co.yield(a)
      error({ a + b })
    end, function(e) return e[1] * 2 end, 10, 20))
  end)
  assert.equal(10, f())
  assert.same({ false, 240 }, { f(100) })
end

function sections.what_debug_says(co)
  local lines = {}
  local function inner()
    lines = { debug.getinfo(1).currentline, debug.getinfo(2).currentline }
    co.yield(3)
    error(lines)
  end
  local function outer() inner() end
  local inner_line = debug.getinfo(inner, "S").linedefined
  local outer_line = debug.getinfo(outer, "S").linedefined
  local f = co.wrap(outer)
  assert.equal(3, f())
  assert.same({ inner_line + 1, outer_line }, lines)
  local ok, err = pcall(f)
  assert.is_false(ok)
  assert.is_true(rawequal(lines, err))
  local thread = co.create(outer)
  assert.same({ true, 3 }, { co.resume(thread) })
  -- The stack of one that is suspended.
  assert.truthy(debug.traceback(thread):find("coroutine_stock_spec"))
  assert.equal(inner_line + 2, debug.getinfo(thread, 1, "l").currentline)
  assert.same({ false, lines }, { co.resume(thread) })
  assert.equal("dead", co.status(thread))
  assert.equal(inner_line + 3, debug.getinfo(thread, 1, "l").currentline)
end

function sections.iterators(co)
  local function fill(list, n, k)
    if k == 0 then
      co.yield(list)
      return
    end
    for i = 1, n do
      list[k] = i
      fill(list, n, k - 1)
    end
  end
  local count, sum = 0, 0
  for list in co.wrap(function() fill({}, 5, 4) end) do
    count, sum = count + 1, sum + list[1] + list[4]
  end
  assert.same({ 5 ^ 4, 6 * 5 ^ 4 }, { count, sum })
end

function sections.variables_outlive_their_coroutine(co)
  local weak = setmetatable({}, { __mode = "kv" })
  local f = co.wrap(function()
    local a = 10
    local function add() a = a + 10 return a end
    while true do
      a = a + 1
      co.yield(add)
    end
  end)
  weak[1] = f
  local add = f()
  assert.equal(21, add())
  assert.equal(32, f()())
  assert.equal(add, f())
  f = nil -- luacheck: ignore
  collectgarbage()
  collectgarbage()
  assert.is_nil(weak[1])
  assert.same({ 43, 53 }, { add(), add() })
  -- Those of one that an error has ended, whose stack is used again.
  local count
  local thread = co.create(function()
    local a = 10
    count = function() a = a + 1 return a end
    error("x")
  end)
  assert.is_false(co.resume(thread))
  assert.is_false(co.resume(thread, 1, 1, 1, 1, 1, 1, 1))
  assert.same({ 11, 12 }, { count(), count() })
end

function sections.resuming_oneself(co)
  local thread = co.create(function(self)
    assert.equal(self, (co.running()))
    assert.is_false(co.resume(self))
    co.yield(10, 20)
    assert.is_false(co.resume(self))
    return "end"
  end)
  assert.same({ true, 10, 20 }, { co.resume(thread, thread) })
  assert.same({ true, "end" }, { co.resume(thread, thread) })
  assert.is_false(co.resume(thread, thread))
  local this = co.running()
  local ok, inner = co.resume(co.create(function() return co.resume(this) end))
  assert.same({ true, false }, { ok, inner })
  local closed = false
  local wrapped
  wrapped = co.wrap(function()
    local _ <close> = setmetatable({}, { __close = function()
      closed = true
    end })
    return pcall(wrapped, 1)
  end)
  local err
  ok, err = wrapped()
  assert.is_false(ok)
  assert.truthy(err:find("non-suspended", 1, true), err)
  assert.is_true(closed)
  -- One that has resumed another.
  local outer
  outer = co.create(function()
    return co.wrap(function()
      assert.equal("normal", co.status(outer))
      assert.is_false(co.resume(outer))
      co.yield(3)
    end)()
  end)
  assert.same({ true, 3 }, { co.resume(outer) })
  assert.equal("dead", co.status(outer))
end

function sections.left_suspended(co)
  local closed = false
  local f = co.wrap(function()
    local _ <close> = setmetatable({}, { __close = function()
      closed = true
    end })
    co.yield()
  end)
  f()
  f = nil -- luacheck: ignore
  collectgarbage()
  assert.is_false(closed)
end

-- Values with all metamethods, each of which yields its name first.
local function yielding_values(co)
  local function plain(v) return type(v) == "table" and v.x or v end
  local meta = {}
  local function operator(name, fn)
    meta["__" .. name] = function(a, b)
      co.yield(nil, name)
      return fn(plain(a), plain(b))
    end
  end
  operator("add", function(a, b) return a + b end)
  operator("sub", function(a, b) return a - b end)
  operator("mul", function(a, b) return a * b end)
  operator("div", function(a, b) return a / b end)
  operator("idiv", function(a, b) return a // b end)
  operator("mod", function(a, b) return a % b end)
  operator("pow", function(a, b) return a ^ b end)
  operator("unm", function(a) return -a end)
  operator("band", function(a, b) return a & b end)
  operator("bor", function(a, b) return a | b end)
  operator("bxor", function(a, b) return a ~ b end)
  operator("shl", function(a, b) return a << b end)
  operator("shr", function(a, b) return a >> b end)
  operator("bnot", function(a) return ~a end)
  operator("concat", function(a, b) return a .. b end)
  operator("eq", function(a, b) return a == b end)
  operator("lt", function(a, b) return a < b end)
  meta.__le = function(a, b) -- one that uses another
    co.yield(nil, "le")
    return a - b <= 0
  end
  meta.__index = function(t, key)
    co.yield(nil, "index")
    return rawget(t, "fields")[key]
  end
  meta.__newindex = function(t, key, value)
    co.yield(nil, "newindex")
    rawget(t, "fields")[key] = value
  end
  return function(x)
    return setmetatable({ x = x, fields = {} }, meta)
  end
end

-- Runs fn, which must yield these names and then return that.
local function check(co, expected, names, fn)
  local f, got = co.wrap(fn), {}
  while true do
    local result, name = f()
    if not name then
      assert.equal(expected, result)
      assert.same(names, got)
      return
    end
    got[#got + 1] = name
  end
end

function sections.operators(co)
  local new = yielding_values(co)
  local a, b, c, big = new(10), new(12), new("hello"), new(1000)
  local function is(expected, names, fn)
    check(co, expected, names, fn)
  end
  is("<", { "le", "sub" }, function() return a >= b and ">=" or "<" end)
  is("<=", { "le", "sub" }, function() return a <= b and "<=" or ">" end)
  is("~=", { "eq" }, function() return a == b and "==" or "~=" end)
  is("<", { "lt" }, function() return a < b and "<" or ">=" end)
  is(2, { "add", "band" }, function() return a & b + a end)
  is(4, { "bnot", "band" }, function() return ~a & b end)
  -- Operands of each kind: small and large constants, on both sides.
  is(11, { "add" }, function() return 1 + a end)
  is(-15, { "sub" }, function() return a - 25 end)
  is(20, { "mul" }, function() return 2 * a end)
  is(100.0, { "pow" }, function() return a ^ 2 end)
  is(5.0, { "div" }, function() return a / 2 end)
  is(4, { "mod" }, function() return a % 6 end)
  is(3, { "idiv" }, function() return a // 3 end)
  is(2000, { "add" }, function() return big + 1000 end)
  is(-24000, { "sub" }, function() return big - 25000 end)
  is(20000, { "mul" }, function() return 2000 * a end)
  is(1.0, { "div" }, function() return big / 1000 end)
  is(400, { "mod" }, function() return big % 600 end)
  is(2, { "idiv" }, function() return big // 500 end)
  is(22, { "add" }, function() return a + b end)
  is(-2, { "sub" }, function() return a - b end)
  is(120, { "mul" }, function() return a * b end)
  is(10.0 ^ 12, { "pow" }, function() return a ^ b end)
  is(-10, { "unm" }, function() return -a end)
  is(8, { "band" }, function() return 10 & b end)
  is(10, { "bor" }, function() return a | 2 end)
  is(8, { "bxor" }, function() return a ~ 2 end)
  is(10 << 12, { "shl" }, function() return a << b end)
  is(2, { "shr" }, function() return a >> 2 end)
  is(1 << 10, { "shl" }, function() return 1 << a end)
  is(0, { "shr" }, function() return 1 >> a end)
  is("1012hello10", { "concat", "concat", "concat" },
    function() return a .. b .. c .. a end)
  is("ab10chello12x", { "concat", "concat", "concat" },
    function() return "a" .. "b" .. a .. "c" .. c .. b .. "x" end)
  is(print, { "newindex", "index" }, function()
    a.field = print
    return a.field
  end)
end

function sections.comparisons_with_numbers(co)
  local function plain(v) return type(v) == "table" and v.x or v end
  local function compared(x)
    return setmetatable({ x = x }, {
      __lt = function(l, r) co.yield("yield") return plain(l) < plain(r) end,
      __le = function(l, r) co.yield("yield") return plain(l) <= plain(r) end,
    })
  end
  local f = co.wrap(function()
    local one, two = compared(1), compared(2)
    return one < two, one <= two, 1 < two, 1 <= two, 2 > one, 2 >= two
  end)
  for _ = 1, 6 do
    assert.equal("yield", f())
  end
  assert.same({ true, true, true, true, true, true }, { f() })
end

function sections.globals(co)
  local env = yielding_values(co)(10)
  rawget(env, "fields").b = 10
  local f = load("a = b + 1 return a", "=globals", "t", env)
  check(co, 11, { "index", "newindex", "index" }, f)
  assert.equal(11, rawget(env, "fields").a)
end

function sections.iterators_of_for(co)
  local function every(limit, i)
    if i % 2 == 0 then
      co.yield(nil, "for")
    end
    if i < limit then
      return i + 1
    end
  end
  check(co, 10, { "for", "for", "for" }, function()
    local sum = 0
    for i in every, 4, 0 do
      sum = sum + i
    end
    return sum
  end)
end

function sections.chains_of_pcall(co)
  local f = co.wrap(function()
    return pcall(assert, pcall(pcall, pcall, pcall, pcall, pcall, error, "hi"))
  end)
  local results = table.pack(f())
  assert.equal("hi", results[results.n])
  assert.is_true(results[1])
  assert.is_false(results[results.n - 1])
end

coroutines.declare(sections)

it("coroutines leave nothing behind", nothing_left)
