-- Users of this machine and what `id` says of them, for specs about the option
-- `user`; and tests that become another user.

local env = require("spec.support.env")
local facades = require("spec.support.facades")
local luassert = require("luassert")

local users = {}

-- What says uid, gid and groups, a line each.
users.IDS = "id -u; id -g; id -G"

-- Declares a test with a sandbox on `local` that only root can do, or skips it.
function users.as_root(it, name, fn, options)
  if env.is_root() then
    facades.on(it, "local", name, fn, options)
  else
    require("busted").pending(name .. ": only root can become another user")
  end
end

-- What a text of the form of /etc/passwd says of a user.
function users.entry(text, name)
  for line in text:gmatch("[^\n]+") do
    local fields = {}
    for field in line:gmatch("([^:]*):?") do
      fields[#fields + 1] = field
    end
    if fields[1] == name then
      return {
        uid = fields[3], gid = fields[4], home = fields[6], shell = fields[7],
      }
    end
  end
end

function users.nobody()
  return assert(users.entry(env.read("/etc/passwd"), "nobody"))
end

function users.gid_of(group)
  return users.entry(env.read("/etc/group"), group).uid
end

-- The numbers of what `id` has said.
function users.sorted_ids(text)
  local list = {}
  for id in text:gmatch("%d+") do
    list[#list + 1] = tonumber(id)
  end
  table.sort(list)
  return list
end

-- Checks that a command has the ids of this entry alone, all four of each, and
-- no capability; `options` are the command's.
function users.check_status(sb, entry, options)
  local status = sb:output("grep -E '^(Uid|Gid|Groups|Cap)' "
    .. "/proc/self/status", options)
  for name, id in pairs({ Uid = entry.uid, Gid = entry.gid }) do
    luassert.truthy(status:find(name .. ":" .. ("\t" .. id):rep(4) .. "\n", 1,
      true), status)
  end
  luassert.truthy(status:find("Groups:\t" .. entry.gid .. " ?\n"), status)
  for _, set in ipairs({ "Inh", "Prm", "Eff", "Amb" }) do
    luassert.truthy(status:find("Cap" .. set .. ":\t0+%f[%X]"), status)
  end
end

return users
