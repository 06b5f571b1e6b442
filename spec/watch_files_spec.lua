-- Watches: nothing is lost without a word, whatever happens below them. What
-- each member gives is in scenarios/file.lua.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local leaks = require("spec.support.leaks")

local on_each = facades.on_each
local raises = facades.raises

local nothing_left = leaks.frame()

-- The events up to the one of that path: how often each path was told of, by
-- type; and whether a rescan was among them.
local function collect(watch, last)
  local seen, rescan = {}, false
  for event in watch:events({ timeout = 60 }) do
    local key = event.type .. " " .. event.path
    seen[key] = (seen[key] or 0) + 1
    rescan = rescan or event.type == "rescan"
    if event.path == last then
      break
    end
  end
  return seen, rescan
end

describe("a watch", function()
  on_each(it, "tells of all that is made in new directories, once",
    function(_, sb)
      local fs = sb.fs
      fs:mkdir("w")
      local watch <close> = fs:watch("w", { recursive = true })
      -- Made at once, moved in, unpacked: whatever comes before the watch of a
      -- directory is on.
      sb:exec([[
        for i in 1 2 3 4 5 6 7 8; do
          mkdir -p w/$i/a/b; : > w/$i/a/b/f; : > w/$i/f
        done
        mkdir -p out/deep; : > out/deep/f; mv out w/in; mkdir w/last
      ]]):check()
      local seen, rescan = collect(watch, "w/last")
      assert.is_false(rescan)
      for i = 1, 8 do
        for _, path in ipairs({ "", "/a", "/a/b", "/a/b/f", "/f" }) do
          assert.equal(1, seen["create w/" .. i .. path], path)
        end
      end
      for _, path in ipairs({ "", "/deep", "/deep/f" }) do
        assert.equal(1, seen["create w/in" .. path], path)
      end
      sb:exec(": > w/5/a/b/new; : > w/in/deep/new; mkdir w/end"):check()
      seen = collect(watch, "w/end")
      assert.equal(1, seen["create w/5/a/b/new"])
      assert.equal(1, seen["create w/in/deep/new"])
    end)

  on_each(it, "pairs the names of a rename, and follows directories",
    function(_, sb)
      local fs = sb.fs
      fs:mkdir("w/a/b/c", { parents = true })
      local watch <close> = fs:watch("w", { recursive = true })
      local from = "w/a"
      for i = 1, 20 do
        local to = "w/n" .. i
        fs:rename(from, to)
        local event = watch:next({ timeout = 30 })
        assert.same({ type = "rename", path = to, from = from }, event)
        fs:mkdir(to .. "/b/c/d")
        event = watch:next({ timeout = 30 })
        assert.same({ type = "create", path = to .. "/b/c/d" }, event)
        fs:remove(to .. "/b/c/d")
        assert.equal("remove", watch:next({ timeout = 30 }).type)
        from = to
      end
      -- Out of it, and back under another name.
      fs:rename(from, "out")
      assert.same({ type = "remove", path = from },
        watch:next({ timeout = 30 }))
      fs:rename("out", "w/back")
      local seen = collect(watch, "w/back/b/c")
      assert.equal(1, seen["create w/back"])
      -- Over what is there.
      fs:write("w/x", "")
      fs:rename("w/x", "w/y")
      seen = collect(watch, "w/y")
      assert.equal(1, seen["rename w/y"])
    end)

  -- Inside bwrap nobody may mount, and here only root.
  local text = "says so when a file system below it is unmounted"
  if env.is_root() then
    facades.both(it, text, function(P)
      facades.with_sandbox(P, {}, function(sb)
        sb.fs:mkdir("w/mnt/below", { parents = true })
        local place = sb:output("pwd") .. "/w/mnt"
        sb:exec({ "mount", "-t", "tmpfs", "none", place }):check()
        sb.fs:mkdir("w/mnt/above")
        local watch <close> = sb.fs:watch("w", { recursive = true })
        sb:exec({ "umount", place }):check()
        assert.equal("rescan", watch:next({ timeout = 30 }).type)
        sb.fs:write("w/mnt/below/f", "")
        local _, rescan = collect(watch, "w/mnt/below/f")
        assert.is_false(rescan)
      end)
    end)
  else
    pending(text .. ": only root may mount")
  end

  on_each(it, "has names that are bytes, and deep ones", function(_, sb)
    local fs = sb.fs
    fs:mkdir("w")
    local watch <close> = fs:watch("w", { recursive = true })
    for _, name in ipairs({
      "a\nb", "bad-\xff\xfe", ("x"):rep(255), "-rf", " ",
    }) do
      fs:mkdir("w/" .. name)
      assert.same({ type = "create", path = "w/" .. name },
        watch:next({ timeout = 30 }))
    end
    local deep = "w" .. ("/" .. ("d"):rep(200)):rep(30)
    fs:mkdir(deep, { parents = true })
    local seen = collect(watch, deep)
    assert.equal(1, seen["create " .. deep])
    fs:mkdir(deep .. "/last")
    assert.same({ type = "create", path = deep .. "/last" },
      watch:next({ timeout = 30 }))
  end)

  -- Nobody asks meanwhile, so neither here nor in the kernel is room for all.
  on_each(it, "says \"rescan\" when it was too much, and goes on",
    function(_, sb)
      local fs = sb.fs
      fs:mkdir("w")
      local watch <close> = fs:watch("w", { recursive = true })
      sb:exec([[
        cd w; i=0
        while [ $i -lt 20 ]; do
          mkdir d$i; i=$((i + 1)); seq -f d$i-%g 250 | xargs touch
        done; mkdir sub
      ]]):check()
      local events = {}
      while not events[1] or events[#events].type ~= "rescan" do
        events[#events + 1] = watch:next({ timeout = 60 })
      end
      -- New directories are watched though nobody was told of them.
      assert.is_true(env.eventually(60, function()
        fs:write("w/sub/probe", "x", { atomic = false })
        for _ = 1, 20000 do
          local ok, event = pcall(watch.next, watch, { timeout = 0.1 })
          if not ok then
            return false
          elseif event.path == "w/sub/probe" then
            return true
          end
        end
      end))
    end)

  on_each(it, "survives directories that are moved while it looks at them",
    function(_, sb)
      local fs = sb.fs
      fs:mkdir("w")
      local watch <close> = fs:watch("w", { recursive = true })
      sb:exec([[
        cd w; i=0
        while [ $i -lt 30 ]; do
          mkdir -p a/b/c; : > a/b/c/f; mv a/b x; mv x a/y; mv a ../out
          mv ../out b; rm -r b; i=$((i + 1))
        done; mkdir last
      ]]):check()
      collect(watch, "w/last")
      fs:mkdir("w/last/new")
      local seen = collect(watch, "w/last/new")
      assert.equal(1, seen["create w/last/new"])
    end)

  on_each(it, "loses nothing to calls that are cancelled", function(_, sb)
    local fs = sb.fs
    fs:mkdir("w")
    local watch <close> = fs:watch("w")
    for i = 1, 30 do
      local told
      fs:mkdir("w/" .. i)
      repeat
        local ok, event = pcall(watch.next, watch, { timeout = i % 5 / 5000 })
        told = ok and event
        assert.is_true(ok or event.code == "PCO_ECALLTIMEOUT")
      until told
      assert.same({ type = "create", path = "w/" .. i }, told)
    end
  end)

  on_each(it, "ends when its directory is gone, however that went",
    function(_, sb)
      local fs = sb.fs
      for _, how in ipairs({
        "rmdir w", "mv w away", "mkdir new; mv -T new w", "rm -r w",
      }) do
        fs:mkdir("w")
        for _, recursive in ipairs({ true, false }) do
          local watch <close> = fs:watch("w", {
            recursive = recursive, include = "*.c",
          })
          if how == "rm -r w" then
            fs:mkdir("w/sub.c/x", { parents = true })
          end
          sb:exec(how):check()
          local last
          for event in watch:events({ timeout = 60 }) do
            last = event
          end
          assert.same({ type = "remove", path = "w" }, last, how)
          assert.is_nil(watch:next({ timeout = 60 }))
          assert.is_nil(watch:events({ timeout = 60 })())
          assert.is_true(watch:close())
          sb:exec("rm -rf away w; mkdir w"):check()
        end
        fs:remove("w")
      end
    end)

  on_each(it, "of a file follows its name to the one in its place",
    function(_, sb)
      local fs = sb.fs
      fs:write("f", "1")
      local watch <close> = fs:watch("f")
      local function next_is(kind)
        assert.same({ type = kind, path = "f" }, watch:next({ timeout = 60 }))
      end
      for i = 1, 20 do
        fs:write("f", tostring(i)) -- another file by the same name
        next_is("modify")
        fs:append("f", "x")
        next_is("modify")
      end
      sb:exec("ln f other"):check()
      next_is("attribute")
      sb:exec("rm other"):check()
      next_is("attribute")
      sb:exec("echo > new; mv new f"):check()
      next_is("modify")
      sb:exec("ln f other; chmod 600 f; rm f"):check()
      local last
      for event in watch:events({ timeout = 60 }) do
        last = event
      end
      assert.same({ type = "remove", path = "f" }, last)
      assert.is_nil(watch:next({ timeout = 60 }))
    end)

  on_each(it, "of a file ends when no file has its name", function(_, sb)
    local fs = sb.fs
    for _, how in ipairs({
      "rm f", "mv f away", "mkdir d; mv f d; mv d f", "ln -s no x; mv x f",
    }) do
      sb:exec("rm -rf f away; echo > f"):check()
      local watch <close> = fs:watch("f")
      sb:exec(how):check()
      local last
      for event in watch:events({ timeout = 60 }) do
        last = event
      end
      assert.same({ type = "remove", path = "f" }, last, how)
    end
  end)

  -- What a directory holds that left is nobody's here.
  on_each(it, "forgets a directory that left, whatever goes on in it",
    function(_, sb)
      local fs = sb.fs
      for i = 1, 20 do
        fs:mkdir("w/a/x", { parents = true })
        local watch <close> = fs:watch("w", { recursive = true })
        sb:exec(i % 2 == 0 and "mv w/a out; mv out/x out/y; mkdir w/last"
          or "mv w/a out; mv out/x w/x; mkdir w/last"):check()
        local seen = collect(watch, "w/last")
        assert.equal(1, seen["remove w/a"])
        assert.equal(i % 2 == 1 and 1 or nil, seen["create w/x"])
        sb:exec("rm -r w out"):check()
      end
    end)

  on_each(it, "of a missing or unreadable place is refused", function(_, sb)
    local fs = sb.fs
    raises("NotFoundError", fs.watch, fs, "missing")
    fs:symlink("nowhere", "link")
    raises("NotFoundError", fs.watch, fs, "link")
    local err = raises("SystemError", fs.watch, fs, "link", { follow = false })
    assert.equal("ELOOP", err.code)
    sb:exec("mkdir d; chmod 0 d"):check()
    if sb:output({ "id", "-u" }) ~= "0" then
      raises("PermissionError", fs.watch, fs, "d")
    end
  end)

  facades.in_task(it, "is for one task at a time, and ends with its sandbox",
    function(P, sb)
      sb.fs:mkdir("w")
      local watch = sb.fs:watch("w")
      local task = require("portico.task")
      local first, second = table.unpack(task.all({
        function()
          local _, err = pcall(watch.next, watch)
          return err
        end,
        function()
          P.sleep(0)
          local _, err = pcall(watch.next, watch)
          sb:close()
          return err
        end,
      }))
      assert.equal("PCO_EBUSY", second.code)
      assert.equal("PCO_ECLOSED", first.code)
      assert.is_true(watch:close())
    end)
end)

describe("the watches", function()
  it("leave nothing behind", nothing_left)
end)
