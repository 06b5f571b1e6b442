-- What commands write, for specs that read it piece by piece.

local output = {}

-- Reads until the text ends in a pattern.
function output.read_to(p, pattern)
  local text = ""
  while not text:find(pattern .. "$") do
    text = text .. assert(p:read({ timeout = 20 }), "the end").data
  end
  return text
end

return output
