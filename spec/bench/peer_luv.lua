-- lua-luv, Debian's binding of libuv, beside Portico: a plain uv_spawn without
-- a sandbox, so what it does is less.
--   lua5.4 spec/bench/peer_luv.lua exec|stream_64k|stream_4k BIN

local uv = require("luv")
local row, bin = ...

local function spawn(program, args, stdio, on_exit)
  local handle, err
  handle, err = uv.spawn(program, { args = args, stdio = stdio }, function(code)
    handle:close()
    on_exit(code)
  end)
  assert(handle, err)
end

local function exec(count)
  local samples = {}
  for i = 1, count do
    local start = uv.hrtime()
    spawn(bin .. "/true", {}, {}, function(code)
      assert(code == 0)
    end)
    uv.run()
    samples[i] = (uv.hrtime() - start) / 1e3
  end
  table.sort(samples)
  return samples[count // 2 + 1]
end

local function stream(...)
  local pipe, bytes, start = uv.new_pipe(false), 0, uv.hrtime()
  spawn(bin .. "/produce", { ... }, { nil, pipe }, function(code)
    assert(code == 0)
  end)
  pipe:read_start(function(err, data)
    assert(not err, err)
    if data then
      bytes = bytes + #data
    else
      pipe:close()
    end
  end)
  uv.run()
  return bytes / ((uv.hrtime() - start) / 1e3)
end

local rows = {
  exec = function() return exec(300) end,
  exec_1g = function()
    local ballast = ("x"):rep(1 << 30)
    local value = exec(50)
    assert(#ballast == 1 << 30)
    return value
  end,
  stream_64k = function() return stream("65536", tostring(1 << 30)) end,
  -- luv gives the child a socketpair, which has no packets: chunks as they come
}
print(("%.3f"):format(rows[row]()))
