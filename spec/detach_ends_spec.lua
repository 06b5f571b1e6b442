-- Who has a sandbox ends, or gives up, at any moment: what was never detached
-- ends with its program, what was stays.

local detached = require("spec.support.detached")
local env = require("spec.support.env")
local errors = require("portico.errors")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")
local portico = require("portico")
local sync = require("portico.sync")

local nothing_left = leaks.frame()
local everywhere = detached.everywhere
local find = detached.find
local raises = facades.raises

-- A script in a Lua of its own: `body` has P, b, and die(), which is a SIGKILL.
local SCRIPT = [[
local P = require(%q)
local self = io.open("/proc/self/stat"):read("n")
local function die()
  os.execute("kill -KILL " .. self)
end
local function main()
  local b = P.open(%q, { state = %q })
  %s
end
if P == require("portico") then
  P.run(main)
else
  main()
end
]]

local function script(P, backend, body)
  local output, code = env.script(SCRIPT:format(facades.module_name(P),
    backend.name, detached.state(), body))
  return (output:gsub("Killed\n$", "")), code -- by a shell around it
end

-- Waits until it is there in that state, or (nil) is not there.
local function becomes(b, id, state)
  return env.eventually(20, function()
    local info = find(b, id)
    return (info and info.state) == state
  end)
end

-- Nothing temporary is left, soon: what killed workers were at is removed by
-- processes that nobody waits for.
local function is_tidied(sb)
  return env.eventually(20, function()
    for _, entry in ipairs(sb.fs:list(".")) do
      if entry.name:find("^%.portico") then
        return false
      end
    end
    return true
  end)
end

describe("a host that is killed", function()
  everywhere(it, "before the first detach takes the sandbox along",
    function(P, backend, b)
      local output, code = script(P, backend, [[
        local sb = b:create({ detachable = true, name = "killed-first" })
        sb:spawn({ "sleep", "7741" })
        print(sb.id)
        die()
      ]])
      assert.equal("killed-first\n", output)
      assert.equal(137, code)
      assert.is_true(becomes(b, "killed-first", nil))
      assert.is_true(env.eventually(5, function()
        return #env.pgrep({ "sleep", "7741" }) == 0
      end))
    end)

  everywhere(it, "after it does not, nor does the next one",
    function(P, backend, b)
      local output = script(P, backend, [[
        local sb = b:create({ detachable = true })
        sb.fs:write("kept", "here")
        local p = sb:spawn("echo first; read x; echo $x; exec sleep 7743", {
          stdin = "pipe",
        })
        print(sb:detach(), p.pid)
        die()
      ]])
      local id, pid = output:match("^(%S+)\t(%d+)\n$")
      assert(id, output)
      assert.is_true(becomes(b, id, "detached"))
      output = script(P, backend, ([[
        local sb = b:attach(%q)
        sb.fs:write("more", "there")
        sb:process(%d):write("second\n")
        local file = sb.fs:open("half", "w")
        file:write("x")
        print(#sb:processes())
        die()
      ]]):format(id, pid))
      assert.equal("1\n", output)
      assert.is_true(becomes(b, id, "detached"))
      local sb = b:attach(id)
      assert.equal("here", sb.fs:read("kept"))
      assert.equal("there", sb.fs:read("more"))
      local p = sb:process(tonumber(pid))
      local text = ""
      while #text < 13 do
        text = text .. p:read({ timeout = 20 }).data
      end
      assert.equal("first\nsecond\n", text)
      assert.equal(1, #sb:processes())
      sb:close()
      assert.equal(0, #env.pgrep({ "sleep", "7743" }))
    end)

  everywhere(it, "amid commands, files and output leaves it usable",
    function(P, backend, b)
      local id = b:create({ detachable = true }):detach()
      for _ = 1, 3 do
        script(P, backend, ([[
          local sb = b:attach(%q)
          sb.fs:write("big", ("x"):rep(1 << 20))
          local p = sb:spawn({ "yes" })
          p:read()
          os.execute("(sleep 0.2; kill -KILL " .. self .. ") &")
          while true do
            sb.fs:write("big", ("x"):rep(1 << 20))
            sb:exec("echo x; head -c 100000 /dev/zero")
          end
        ]]):format(id))
        assert.is_true(becomes(b, id, "detached"))
      end
      local sb = b:attach(id)
      assert.equal(1 << 20, sb.fs:stat("big").size)
      assert.is_true(is_tidied(sb))
      for _, entry in ipairs(sb:processes()) do
        sb:process(entry.pid):kill()
      end
      assert.equal("x", sb:output("echo x"))
      sb:close()
    end)
end)

describe("a program that ends", function()
  everywhere(it, "without closing leaves what it was attached to",
    function(P, backend, b)
      local id = b:create({ detachable = true }):detach()
      local output, code = script(P, backend, ([[
        ATTACHED = b:attach(%q)
        OWN = b:create({ detachable = true, name = "not-left" })
        print(ATTACHED:output("echo x"))
      ]]):format(id))
      assert.equal("x\n", output)
      assert.equal(0, code)
      assert.is_true(becomes(b, id, "detached"))
      assert.is_true(becomes(b, "not-left", nil))
      output, code = script(P, backend, ([[
        local sb = b:attach(%q)
        error("it fails")
      ]]):format(id))
      assert.truthy(output:find("it fails", 1, true))
      assert.equal(1, code)
      assert.is_true(becomes(b, id, "detached"))
      output = script(P, backend, ([[
        local sb <close> = b:attach(%q)
        print(sb:output("echo y"))
      ]]):format(id))
      assert.equal("y\n", output)
      assert.is_true(becomes(b, id, nil))
    end)

end)

describe("a program that has it", function()
  everywhere(it, "is named to others, who can end the sandbox",
    function(P, backend, b)
      local id = b:create({ detachable = true }):detach()
      local directory = env.tmpdir()
      local path = directory .. "/script.lua"
      env.write(path, SCRIPT:format(facades.module_name(P), backend.name,
        detached.state(), ([[
          local sb = b:attach(%q)
          local p = sb:spawn({ "sleep", "7745" })
          io.stdout:setvbuf("no")
          print(self)
          local ok, err = pcall(p.wait, p)
          print(err.code)
        ]]):format(id)))
      env.sh(("lua5.4 %s >%s/output 2>&1 &"):format(path, directory))
      local pid = env.eventually(30, function()
        return (env.read(directory .. "/output") or ""):match("^(%d+)\n")
      end)
      assert(pid, env.read(directory .. "/output"))
      local info = find(b, id)
      assert.equal("running", info.state)
      assert.equal(pid, info.owner:match(":(%d+)$"))
      local err = raises("SystemError", b.attach, b, id)
      assert.truthy(err.message:find(pid, 1, true), err.message)
      assert.is_true(b:destroy(id))
      assert.is_true(env.eventually(20, function()
        return env.read(directory .. "/output") == pid .. "\nPCO_EGONE\n"
      end), env.read(directory .. "/output"))
      assert.is_nil(find(b, id))
      env.rmdir(directory)
    end)
end)

describe("an attach that is given up", function()
  everywhere(it, "at any moment leaves it as it was", function(_, _, b)
    local sb = b:create({ detachable = true })
    local pid = sb:spawn("while read x; do echo $x; done", {
      stdin = "pipe",
    }).pid
    local id = sb:detach()
    local done = 0
    for i = 0, 60 do
      local ok, got = pcall(b.attach, b, id, { timeout = i * 0.0001 })
      if ok then
        done = done + 1
        got:detach()
      elseif got.code ~= "EBUSY" then -- the one before is still let go
        assert.is_true(errors.is(got, "TimeoutError"), tostring(got))
      end
      local info = find(b, id)
      assert.is_not_nil(info, "it has gone")
    end
    assert.is_true(becomes(b, id, "detached"))
    sb = b:attach(id)
    sb:process(pid):write("x\n")
    assert.equal("x\n", sb:process(pid):read({ timeout = 20 }).data)
    sb:close()
  end)
end)

describe("a detach that is given up", function()
  everywhere(it, "at any moment has left it, or not", function(_, _, b)
    local sb = b:create({ detachable = true })
    for i = 0, 40 do
      local ok, err = pcall(sb.detach, sb, { timeout = i * 0.0001 })
      assert.equal(ok, sb.closed)
      if ok then
        sb = b:attach(sb.id)
      else
        assert.is_true(errors.is(err, "TimeoutError"), tostring(err))
        assert.equal("x", sb:output("echo x"))
      end
    end
    sb:close()
  end)
end)

-- Only tasks can do two things at once.
local function in_task(name, fn)
  for _, backend in ipairs(require("spec.support.backends").real) do
    require("spec.support.backends").it(it, backend,
      name .. " [" .. backend.name .. "]", function()
        portico.run(function()
          local b <close> = detached.open(portico, backend)
          fn(b, backend)
        end)
      end)
  end
end

describe("detach with everything open", function()
  in_task("tells each call that waits, and undoes what was half done",
    function(b)
      local task = require("portico.task")
      local sb = b:create({ detachable = true })
      sb.fs:write("file", ("x"):rep(1000))
      sb.fs:mkdir("tree")
      local reader = sb:spawn({ "sleep", "1000" })
      local writer = sb:spawn({ "sleep", "1000" }, { stdin = "pipe" })
      local file = sb.fs:open("file", "r+")
      local watch = sb.fs:watch("tree")
      local count, results = 0, {}
      local calls = {
        exec = function()
          sb:exec("exec sleep 1000")
        end,
        read = function()
          reader:read()
        end,
        lines = function()
          for _ in writer:lines() do
          end
        end,
        write = function()
          writer:write(("x"):rep(4 << 20))
        end,
        wait = function()
          reader:wait()
        end,
        wait_for = function()
          writer:wait_for({ port = 65535 })
        end,
        events = function()
          watch:next()
        end,
        put = function()
          while true do
            sb.fs:write("big", ("x"):rep(8 << 20))
          end
        end,
        input = function()
          sb:exec("cat >/dev/null", {
            input = function()
              portico.sleep(0.01)
              return "x"
            end,
          })
        end,
      }
      task.scope(function(scope)
        for name, fn in pairs(calls) do
          count = count + 1
          scope:spawn(function()
            local ok, err = pcall(fn)
            results[name] = ok and "it returned" or err
          end)
        end
        portico.sleep(0.2)
        sb:detach()
      end)
      for name in pairs(calls) do
        assert.is_true(errors.is(results[name], "ClosedError"),
          name .. ": " .. tostring(results[name]))
      end
      raises("ClosedError", file.read, file, 1)
      raises("ClosedError", watch.next, watch)
      sb = b:attach(sb.id)
      assert.is_true(is_tidied(sb))
      local argv = {}
      for _, entry in ipairs(sb:processes()) do
        argv[#argv + 1] = table.concat(entry.argv, " ")
      end
      table.sort(argv)
      assert.same({
        "/bin/sh -c cat >/dev/null", "/bin/sh -c exec sleep 1000",
        "sleep 1000", "sleep 1000",
      }, argv)
      sb:close()
      return count
    end)

  in_task("and a task that closes it meanwhile", function(b)
    local task = require("portico.task")
    for i = 1, 10 do
      local sb = b:create({ detachable = true })
      task.scope(function(scope)
        scope:spawn(function()
          portico.sleep(i * 0.0003)
          pcall(sb.close, sb)
        end)
        pcall(sb.detach, sb)
      end)
      assert.is_true(sb.closed)
      b:destroy(sb.id)
    end
    assert.same({}, b:list())
  end)

  in_task("and a task that is cancelled", function(b)
    local task = require("portico.task")
    for i = 1, 15 do
      local sb = b:create({ detachable = true })
      pcall(task.timeout, i * 0.0002, function()
        sb:detach()
      end)
      if not sb.closed then
        assert.equal("x", sb:output("echo x"))
        sb:close()
      else
        assert.is_true(b:destroy(sb.id))
      end
    end
    assert.same({}, b:list())
  end)
end)

it("what a failed test has left is ended", function()
  detached.remove(sync)
end)

it("leaves nothing behind", nothing_left)
