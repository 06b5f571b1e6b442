-- Portals by hand: one thread for several sync sandboxes.
--
-- A sync Sandbox owns its portal, a thread with an event loop. Many sandboxes
-- that are used in turn can share one instead: open it here and pass it as
-- `portal` to `open`, `sandbox` or `create` of `portico.sync`. It is never
-- shared behind the caller's back.

local core = require("portico.core").sync

---@class portico.portal
local portal = {}

-- `closed` turns true with close().
---@class portico.Portal
---@field closed boolean
local Portal = core.class("Portal")
local portal_metatable = core.metatable("Portal")
portal.Portal = Portal

---Starts a portal. Raises LimitError when there is no room for another thread
---or its descriptors.
---@param options portico.CallOptions?
---@return portico.Portal portal
function portal.open(options)
  return core.portal_open(options)
end

---Ends the thread. Raises UsageError (PCO_EBUSY) while sandboxes or backends
---use it. Returns whether this call did it.
---@param options portico.CallOptions?
---@return boolean closed
function Portal:close(options)
  return core.portal_close(self, options)
end

---Describes the portal: its state.
---@return string
function portal_metatable:__tostring()
  return core.tostring(self)
end

---Closes the portal at the end of a `<close>` variable's scope.
---@param err any the error in flight, or nil
function portal_metatable:__close(err)
  return core.close_scope(self, err)
end

return portal
