-- What leads the robots. Each has a program in a sandbox, its brain, which may
-- be written by anybody and in any language: it reads where its robot is, "X Y"
-- a line, and answers with where to go. A team shares a sandbox.
--
-- `game` is what the game offers to scripts; see scripts.c.
local portico = require("portico")
local task = require("portico.task")
local game = game -- luacheck: globals game

local wanderer = [[
  while read -r x y; do
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    echo "$((seed / 65536 % width)) $((96 + seed / 1024 % (height - 96)))"
  done
]]

-- Walks around the place where it was.
local guard = [[
  corner=0
  while read -r x y; do
    case $corner in
      0) echo "$((x + 40)) $y" ;;
      1) echo "$x $((y + 40))" ;;
      2) echo "$((x - 40)) $y" ;;
      3) echo "$x $((y - 40))" ;;
    esac
    corner=$(((corner + 1) % 4))
  done
]]

local brains = { wanderer, guard, wanderer, guard } -- of the teams

local function lead(id, sandbox, brain)
  local program <close> = sandbox:spawn(brain, {
    stdin = "pipe",
    env = { seed = id * 7919, width = game.width, height = game.height },
  })
  local answers = program:lines()
  while true do
    program:write(("%d %d\n"):format(game.place(id)))
    local answer = answers()
    if not answer then
      return -- the brain has ended: the robot stays where it is
    end
    local x, y = answer:match("^(%-?%d+) (%-?%d+)$")
    if x then -- who knows what a brain says
      game.walk(id, tonumber(x), tonumber(y))
    end
  end
end

task.scope(function(teams)
  for team = 1, game.teams do
    teams:spawn(function()
      local sandbox <close> = portico.sandbox({ backend = game.backend })
      task.scope(function(robots)
        for id = team, game.robots, game.teams do
          robots:spawn(lead, id, sandbox, brains[team])
        end
      end)
    end)
  end
end)
