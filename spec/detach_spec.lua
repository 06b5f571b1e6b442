-- A sandbox is left running and taken over again: what of it is there, what is
-- told of it, who may have it, and how it ends.

local detached = require("spec.support.detached")
local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local nothing_left = leaks.frame()
local everywhere = detached.everywhere
local find = detached.find
local raises = facades.raises

local function create(b, options)
  local all = { detachable = true }
  for key, value in pairs(options or {}) do
    all[key] = value
  end
  return b:create(all)
end

describe("a sandbox that was detached", function()
  everywhere(it, "is as it was when somebody attaches", function(_, _, b)
    local sb = create(b, { labels = { purpose = "spec" } })
    sb.fs:write("kept", "here")
    local pid = sb:spawn({ "sleep", "1000" }).pid
    local info = sb:info()
    assert.equal(sb.id, sb:detach())
    local again <close> = b:attach(sb.id)
    assert.equal(sb.id, again.id)
    assert.equal(b, again.backend)
    assert.equal("here", again.fs:read("kept"))
    local list = again:processes()
    assert.equal(1, #list)
    assert.equal(pid, list[1].pid)
    assert.same({ "sleep", "1000" }, list[1].argv)
    assert.equal("running", list[1].state)
    assert.is_true(math.abs(list[1].started - info.created) < 60)
    local later = again:info()
    assert.is_true(math.abs(info.created - later.created) < 0.001)
    info.created = later.created
    assert.same(info, later)
    assert.equal("SIGKILL", again:process(pid):kill().signal)
    assert.equal("new\n", again:exec("echo new").stdout)
  end)

  everywhere(it, "is closed for who has left it", function(_, _, b)
    local sb = create(b)
    local p = sb:spawn({ "sleep", "1000" })
    sb.fs:write("kept", "here")
    local file = sb.fs:open("kept", "r")
    sb:detach()
    assert.is_true(sb.closed)
    raises("ClosedError", sb.detach, sb)
    raises("ClosedError", sb.exec, sb, { "true" })
    raises("ClosedError", p.wait, p)
    raises("ClosedError", sb.fs.read, sb.fs, "kept")
    raises("ClosedError", file.read, file, 1)
    assert.is_false(sb:close())
    assert.equal("detached", find(b, sb.id).state)
    assert.is_true(b:destroy(sb.id))
  end)

  everywhere(it, "is listed with what is known of it", function(P, backend, b)
    local id = "detach-spec-" .. P._VERSION:gsub("%W", "") .. backend.name
    local sb = create(b, {
      name = id, labels = { purpose = "spec" }, ttl = 1000,
    })
    local made = os.time()
    local function check(state, owned)
      local info = find(b, id)
      assert.equal(state, info.state)
      assert.equal(id, info.name)
      assert.equal(backend.name, info.backend)
      assert.same({ purpose = "spec" }, info.labels)
      assert.is_true(math.abs(info.created - made) < 60, info.created)
      assert.is_true(math.abs(info.expires - made - 1000) < 60, info.expires)
      local pid = info.owner and info.owner:match(":(%d+)$")
      assert.equal(owned and tostring(leaks.own_pid()) or nil, pid)
    end
    check("running", true)
    sb:detach()
    check("detached", false)
    local again = b:attach(id)
    check("running", true)
    assert.equal(id, again:info().name)
    assert.equal(find(b, id).expires, again:info().expires)
    assert.is_true(again:close())
    assert.is_false(again:close())
    assert.is_nil(find(b, id))
    raises("NotFoundError", b.attach, b, id)
    assert.is_false(b:destroy(id))
  end)

  everywhere(it, "can be had by one at a time", function(P, backend, b)
    local sb = create(b)
    local other <close> = detached.open(P, backend)
    for _, where in ipairs({ b, other }) do
      local err = raises("SystemError", where.attach, where, sb.id)
      assert.equal("EBUSY", err.code)
      assert.is_true(err.retryable)
      assert.truthy(err.message:find(tostring(leaks.own_pid()), 1, true),
        err.message)
    end
    sb:exec({ "true" })
    sb:detach()
    local again = other:attach(sb.id)
    raises("SystemError", b.attach, b, sb.id)
    again:detach()
    b:attach(sb.id):close()
  end)

  everywhere(it, "keeps its name", function(_, backend, b)
    local name = "detach-name-" .. backend.name
    local sb = create(b, { name = name })
    sb:detach()
    raises("AlreadyExistsError", create, b, { name = name })
    assert.is_true(b:destroy(name))
    create(b, { name = name }):close()
  end)

  everywhere(it, "is left and taken again and again", function(_, _, b)
    local sb = create(b)
    local pid = sb:spawn("while read x; do echo $x; done", {
      stdin = "pipe",
    }).pid
    for i = 1, 20 do
      sb:detach()
      sb = b:attach(sb.id)
      local p = sb:process(pid)
      p:write(i .. "\n")
      assert.equal(i .. "\n", p:read({ timeout = 20 }).data)
      assert.equal("x", sb:output("echo x"))
    end
    sb:close()
  end)

  everywhere(it, "is ended by the close of a backend that has it",
    function(P, backend, b)
      local sb = create(b)
      sb:detach()
      local other = detached.open(P, backend)
      local again = other:attach(sb.id)
      other:close()
      assert.is_true(again.closed)
      assert.is_nil(find(b, sb.id))
    end)

  everywhere(it, "is not ended by the close of one that has left it",
    function(P, backend, b)
      local other = detached.open(P, backend)
      local sb = create(other)
      sb:detach()
      other:close()
      assert.equal("detached", find(b, sb.id).state)
      b:attach(sb.id):close()
    end)

  everywhere(it, "lets the backend go that sandbox() has opened",
    function(P, backend, b)
      local sb = P.sandbox(detached.options(backend))
      local own = sb.backend
      local id = sb:detach()
      assert.is_true(own.closed)
      assert.is_true(b:destroy(id))
    end)

  everywhere(it, "is left when its object is dropped", function(_, _, b)
    local id = create(b):detach()
    local function drop()
      local again = b:attach(id)
      again:exec({ "true" })
    end
    drop()
    collectgarbage()
    collectgarbage()
    assert.is_true(env.eventually(20, function()
      return find(b, id).state == "detached"
    end))
    b:attach(id):close()
  end)

  everywhere(it, "is one of many", function(_, _, b)
    local ids = {}
    for i = 1, 12 do
      ids[i] = create(b):detach()
    end
    for i = 1, 12 do
      assert.equal("detached", find(b, ids[i]).state)
    end
    local boxes = {}
    for i = 1, 12, 2 do
      boxes[#boxes + 1] = b:attach(ids[i])
    end
    for i, sb in ipairs(boxes) do
      assert.equal(tostring(i), sb:output({ "echo", i }))
      sb:close()
    end
    for i = 2, 12, 2 do
      assert.is_true(b:destroy(ids[i]))
    end
    for i = 1, 12 do
      assert.is_nil(find(b, ids[i]))
    end
  end)
end)

describe("what is refused:", function()
  everywhere(it, "detach of one that was not made for it", function(P, backend)
    local sb <close> = P.sandbox(detached.options(backend, {
      detachable = false,
    }))
    local err = raises("UnsupportedError", sb.detach, sb)
    assert.truthy(err.message:find("detachable = true", 1, true), err.message)
    assert.is_false(sb.closed)
    assert.equal("x", sb:output("echo x"))
  end)

  everywhere(it, "a ttl without detachable, and what is no ttl",
    function(P, backend)
      for _, options in ipairs({
        { detachable = false, ttl = 5 }, { ttl = 0 }, { ttl = -1 },
        { ttl = "x" }, { ttl = 0 / 0 }, { detachable = "yes" },
      }) do
        raises("InvalidArgumentError", P.sandbox,
          detached.options(backend, options))
      end
    end)

  everywhere(it, "an id that is none", function(_, _, b)
    raises("NotFoundError", b.attach, b, "no-such-sandbox")
    for _, id in ipairs({ "", "a/b", "../x", "a\0b", 5, {} }) do
      local ok, err = pcall(b.attach, b, id)
      assert.is_false(ok)
      assert.is_true(errors.is(err, "InvalidArgumentError")
        or errors.is(err, "NotFoundError"), tostring(err))
    end
    raises("InvalidArgumentError", b.attach, b, "x", { timout = 1 })
  end)
end)

describe("the end", function()
  everywhere(it, "by its id, detached or not", function(P, backend, b)
    local sb = create(b)
    sb:spawn({ "sleep", "7731" })
    sb:detach()
    assert.is_true(b:destroy(sb.id))
    assert.is_false(b:destroy(sb.id))
    local other <close> = detached.open(P, backend)
    sb = create(b)
    sb:spawn({ "sleep", "7731" })
    assert.is_true(other:destroy(sb.id))
    raises("ConnectionError", sb.exec, sb, { "true" })
    raises("ConnectionError", sb.detach, sb)
    sb:close()
    assert.is_true(env.eventually(20, function()
      return #env.pgrep({ "sleep", "7731" }) == 0
    end), "a command lives on")
  end)

  everywhere(it, "by its ttl, detached or not", function(_, _, b)
    local sb = create(b, { ttl = 1 })
    sb:spawn({ "sleep", "7733" })
    local id = sb:detach()
    assert.is_true(env.eventually(20, function()
      return not find(b, id)
    end), "it is still there")
    sb = create(b, { ttl = 1 })
    local err = raises("ConnectionError", sb.exec, sb, { "sleep", "7733" })
    local text = tostring(err)
    assert.truthy(text:find("ttl", 1, true) or text:find("time", 1, true), text)
    sb:close()
    assert.equal(0, #env.pgrep({ "sleep", "7733" }))
  end)

  everywhere(it, "of its keeper, which reap tidies up after",
    function(_, backend, b)
      local backends = require("spec.support.backends")
      assert.same({}, b:reap())
      local before = backends.first_processes()
      local id = create(b, { name = "reaped-" .. backend.name }):detach()
      for pid in pairs(backends.first_processes()) do
        if not before[pid] then
          env.sh("kill -KILL " .. pid)
        end
      end
      local ids = env.eventually(20, function()
        local found = b:reap()
        return #found > 0 and found
      end)
      assert.same({ id }, ids)
      assert.same({}, b:reap())
      assert.is_nil(find(b, id))
      create(b, { name = id }):close()
    end)
end)

it("what a failed test has left is ended", function()
  detached.remove(sync)
end)

it("leaves nothing behind", nothing_left)
