-- The code blocks of the READMEs. A comment on the line before a block says
-- what becomes of it; without one it is run, or compiled, by itself:
--
--   <!-- examples/FILE -->     it is that file, which has a test of its own
--   <!-- in FOLDER -->         it is run in a copy of that folder
--   <!-- not run: REASON -->   it is not, and why
--
-- Blocks without a language are no code: trees, diagrams, usage texts.

local env = require("spec.support.env")
local lfs = require("lfs")

local readme = {}

-- Folders that are not the project's own.
local SKIPPED = { [".git"] = true, build = true, third_party = true }

local function add_files(list, folder)
  for name in lfs.dir(folder) do
    local path = folder == "." and name or folder .. "/" .. name
    if name == "README.md" then
      list[#list + 1] = path
    elseif name:sub(1, 1) ~= "." and not SKIPPED[name]
      and lfs.symlinkattributes(path, "mode") == "directory"
    then
      add_files(list, path)
    end
  end
end

-- The paths of all READMEs, below the current directory.
function readme.files()
  local list = {}
  add_files(list, ".")
  table.sort(list)
  return list
end

-- Reads a comment: what is to be done, and its argument.
local function parse_mark(line, place)
  local text = line:match("^<!%-%- (.*) %-%->$")
  if not text or text:find("^reference: ") then
    return nil
  end
  for kind, pattern in pairs({
    example = "^(examples/%S+)$", folder = "^in (%S+)$",
    reason = "^not run: (.+)$",
  }) do
    local argument = text:match(pattern)
    if argument then
      return { kind = kind, argument = argument }
    end
  end
  return nil, place .. ": nobody knows the comment: " .. text
end

-- Returns the blocks of a text as a list of {place, language, text, mark}.
-- Raises for a block without an end, and for a comment before a block that
-- means nothing.
function readme.parse(text, path)
  local blocks, block, mark, problem = {}, nil, nil, nil
  local number = 0
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    local fence = line:match("^```(.*)$")
    if block and fence then
      block.text = table.concat(block.lines, "\n") .. "\n"
      blocks[#blocks + 1], block = block, nil
    elseif block then
      block.lines[#block.lines + 1] = line
    elseif fence then
      if problem then
        error(problem, 0)
      end
      block = { place = path .. ":" .. number, path = path, language = fence,
        mark = mark, lines = {} }
    end
    mark, problem = parse_mark(line, path .. ":" .. number)
  end
  if block then
    error(block.place .. ": the block has no end", 0)
  end
  return blocks
end

function readme.read(path)
  return readme.parse(assert(env.read(path), path), path)
end

return readme
