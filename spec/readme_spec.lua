-- What the READMEs show is so: every block of Lua and shell is run, every one
-- of C and CMake compiled, the examples are the files, and the reference is
-- what the annotations say.

local annotations = require("spec.support.annotations")
local backends = require("spec.support.backends")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")
local parity = require("spec.support.parity")
local readme = require("spec.support.readme")
local reference = require("spec.support.reference")
local errors = require("portico.errors")
local sync = require("portico.sync")
local lfs = require("lfs")

local nothing_left = leaks.frame()
local top = lfs.currentdir()
local build = assert(os.getenv("PORTICO_BUILD"), "PORTICO_BUILD is not set")
local sanitized = (env.read(build .. "/CMakeCache.txt") or "")
  :find("PCO_SANITIZE:STRING=%a") ~= nil

-- ---- what blocks find there ------------------------------------------------

-- What a block of Lua may call by name, beside what it requires itself.
local function lua_environment(sandbox)
  return setmetatable({
    errors = errors, fs = sandbox.fs, print = function() end,
    sandbox = sandbox, sync = sync,
  }, { __index = _G })
end

-- Runs it in a directory of the host, and with a sandbox, in which there is
-- what the blocks name.
local function run_lua(block)
  local here = env.tmpdir()
  local _ <close> = setmetatable({}, { __close = function()
    assert(lfs.chdir(top))
    env.rmdir(here)
  end })
  assert(lfs.chdir(here))
  env.sh("mkdir src && echo 'int main(void) { return 0; }' >src/main.c")
  local sandbox <close> = sync.sandbox()
  sandbox:exec("mkdir src out && touch big.log out/main"):check()
  sandbox.fs:write("server",
    "#!/bin/sh\necho listening on 8080\nexec sleep 60\n",
    { mode = tonumber("755", 8) })
  assert(load(block.text, "=" .. block.place, "t",
    lua_environment(sandbox)))()
end

-- An installed prefix, made when the first block asks for it.
local prefix
local function installed()
  if not prefix then
    prefix = env.tmpdir()
    local output, code = env.sh(("cmake --install %s --prefix %s 2>&1"):format(
      env.quoted(build), env.quoted(prefix)))
    assert.equal(0, code, output)
  end
  return prefix
end

-- A directory with what blocks of shell find: the checkout's files, as links;
-- a script; the sources of a plugin; a cache of images.
local function new_workplace(block)
  local dir = env.tmpdir()
  if block.mark and block.mark.kind == "folder" then
    env.sh(("cp -r %s/. %s"):format(env.quoted(block.mark.argument),
      env.quoted(dir)))
    return dir
  end
  for name in lfs.dir(top) do
    if name ~= "." and name ~= ".." and name ~= "build" then
      assert(lfs.link(top .. "/" .. name, dir .. "/" .. name, true))
    end
  end
  env.sh(("mkdir -p %s/build %s/cache/images"):format(dir, dir))
  assert(lfs.link(build, dir .. "/build/dev", true))
  env.write(dir .. "/script.lua", 'assert(require("portico").version)\n')
  env.write(dir .. "/my.c", env.read("plugins/template/template.c"))
  return dir
end

-- Runs a command there; it must end well.
local function must_work(dir, command)
  local output, code = env.sh(("cd %s && { %s ; } 2>&1 </dev/null"):format(
    env.quoted(dir), command))
  assert.equal(0, code, output)
end

local function run_sh(block)
  local dir = new_workplace(block)
  local text = block.text:gsub("%f[%w]PREFIX%f[%W]", installed)
    :gsub("%f[%w]CACHE%f[%W]", dir .. "/cache")
  env.write(dir .. "/block.sh", text)
  local ok, err = pcall(must_work, dir, "sh -eu block.sh")
  env.rmdir(dir)
  assert(ok, err)
end

local C_START = [[
#include <portico/plugin.h>
#include <portico/plugin_util.h>
]]

local function compile_c(block)
  local dir = env.tmpdir()
  env.write(dir .. "/block.c", C_START .. block.text)
  local ok, err = pcall(must_work, dir, ("${CC:-cc} -std=c11 -Wall -Wextra "
    .. "-Werror -fsyntax-only -I %s block.c"):format(
      env.quoted(top .. "/runtime/include")))
  env.rmdir(dir)
  assert(ok, err)
end

local CMAKE_START = [[
cmake_minimum_required(VERSION 3.25)
project(block LANGUAGES C)
file(WRITE my_program.c "int main(void) { return 0; }\n")
add_executable(my_program my_program.c)
]]

local function build_cmake(block)
  local dir = new_workplace({})
  local text = CMAKE_START .. block.text
  os.remove(dir .. "/CMakeLists.txt") -- a link to the checkout's
  env.write(dir .. "/CMakeLists.txt", text)
  local ok, err = pcall(must_work, dir,
    ("cmake -S . -B out -DCMAKE_PREFIX_PATH=%s && cmake --build out"):format(
      env.quoted(installed())))
  env.rmdir(dir)
  assert(ok, err)
end

-- ---- the blocks -------------------------------------------------------------

local function is_example(block)
  assert.equal(env.read(block.mark.argument), block.text)
end

local CHECKS = { lua = run_lua, sh = run_sh, c = compile_c,
  cmake = build_cmake }

-- What is linked with a sanitized library must be sanitized itself.
local function declare(block)
  local name = ("%s: %s"):format(block.place, block.language)
  local mark = block.mark or {}
  if mark.kind == "reason" then
    pending(name .. ": not run: " .. mark.argument)
  elseif mark.kind == "example" then
    it(name .. " is " .. mark.argument, function() is_example(block) end)
  elseif block.language == "cmake" and sanitized then
    pending(name .. ": nobody links a sanitized library")
  elseif block.language == "lua" then
    backends.it(it, backends.default, name .. " runs", function()
      run_lua(block)
    end)
  else
    it(name .. " works", function()
      assert(CHECKS[block.language],
        block.language .. " is a language that nobody runs here")(block)
    end)
  end
end

describe("the code of the READMEs:", function()
  teardown(function()
    if prefix then
      env.rmdir(prefix)
    end
  end)
  local count = {}
  for _, path in ipairs(readme.files()) do
    for _, block in ipairs(readme.read(path)) do
      if block.language ~= "" then
        count[block.language] = (count[block.language] or 0) + 1
        declare(block)
      end
    end
  end

  it("some is there, in each language", function()
    for language in pairs(CHECKS) do
      assert.is_true((count[language] or 0) > 0, language)
    end
  end)
end)

describe("reading a README", function()
  local function parse(...)
    return readme.parse(table.concat({ ... }, "\n"), "x")
  end

  it("finds blocks and what is said about them", function()
    local blocks = parse("<!-- not run: too slow -->", "```sh", "a", "b", "```",
      "", "<!-- examples/x.lua -->", "", "```", "tree", "```")
    assert.equal(2, #blocks)
    assert.same({ "x:2", "sh", "a\nb\n", "reason", "too slow" }, {
      blocks[1].place, blocks[1].language, blocks[1].text,
      blocks[1].mark.kind, blocks[1].mark.argument,
    })
    assert.same({ "", "tree\n" }, { blocks[2].language, blocks[2].text })
    assert.is_nil(blocks[2].mark)
  end)

  it("refuses what would slip by", function()
    assert.same({ false, "x:1: the block has no end" },
      { pcall(parse, "```lua", "x()") })
    assert.same({ false, "x:1: nobody knows the comment: never" },
      { pcall(parse, "<!-- never -->", "```lua", "```") })
  end)

  it("notices a block that fails", function()
    for _, block in ipairs({
      { "c", "int f(pco_nothing *p);\n" }, { "sh", "false\n" },
      { "sh", "no-such-command | true\nexit 3\n" },
    }) do
      assert.has_error(function()
        CHECKS[block[1]]({ text = block[2], place = "x:1" })
      end)
    end
  end)
end)

-- ---- the reference ----------------------------------------------------------

describe("the codes of errors in lua/README.md", function()
  local text = assert(env.read("lua/README.md"))
  local classes = {}
  local list = env.read("runtime/src/error.c"):match("own_codes%[%] = (%b{})")
  for code, class in list:gmatch('"(PCO_E%u+)",%s*"(%u%a+)"') do
    classes[code] = class
  end

  it("are all that there are, with their classes", function()
    assert.equal("UsageError", classes.PCO_EBUSY)
    for code, class in pairs(classes) do
      local named = text:match("| `" .. code .. "` | (%u%a+) |")
      assert.truthy(named == class
        or (not named and text:find("`" .. code .. "`", 1, true)
          and class == "UsageError"), code)
    end
  end)

  it("are no more than that", function()
    for code in text:gmatch("| `(PCO_E%u+)` |") do
      assert.truthy(classes[code], code)
    end
  end)
end)

describe("the reference in lua/README.md", function()
  it("is what the annotations say", function()
    assert.equal(reference.render(), (reference.split()),
      "write it anew by ./dev reference")
  end)

  it("has every function of both facades with its parameters", function()
    local text = reference.split()
    for _, path in ipairs({ "lua/portico/init.lua", "lua/portico/task.lua",
      "lua/portico/sync/init.lua", "lua/portico/portal.lua",
      "lua/portico/errors.lua", "lua/portico/coroutine.lua" }) do
      for _, block in ipairs(annotations.read(path).functions) do
        local owner, member = block.name:match("^([%w_]+)[.:](.*)$")
        if not owner:find("_metatable$") then
          assert.truthy(text:find(("\n| `%s(%s)` |"):format(member, block.args),
            1, true), path .. ": " .. block.name)
        end
      end
    end
  end)
end)

-- The facades, task and portal are looked at by the types spec.
describe("the annotations of", function()
  local function are_those_of(path, module, others)
    local seen = {}
    for _, block in ipairs(annotations.read(path).functions) do
      local name = block.name:match("^[%w_]+[.:](.*)$")
      local names = {}
      for i, param in ipairs(block.params) do
        names[i] = param.name
      end
      local shape = parity.signature(assert(module[name], block.name))
      local real = table.move(shape.names, 1, #shape.names, 1, {})
      if shape.vararg then
        real[#real + 1] = "..."
      end
      assert.same(real, names, block.name)
      assert.is_true(#block.doc > 0, block.name .. " is not described")
      seen[name] = true
    end
    for name, value in pairs(module) do
      assert.truthy(type(value) ~= "function" or seen[name] or others[name],
        name .. " has no annotation")
    end
  end

  it("portico.errors are those of its functions and classes", function()
    are_those_of("lua/portico/errors.lua", errors, {})
    local declared = {}
    local class = annotations.read("lua/portico/errors.lua")
      .classes["portico.errors"]
    for _, field in ipairs(class.fields) do
      declared[field.name] = "table"
    end
    local real = {}
    for name, value in pairs(errors) do
      real[name] = name:find("Error$") and type(value) or nil
    end
    assert.same(real, declared)
  end)

  -- The rest are the stock library's.
  it("portico.coroutine are those of its functions", function()
    are_those_of("lua/portico/coroutine.lua", require("portico.coroutine"),
      coroutine)
  end)
end)

describe("the headers for programs in C", function()
  -- Names of functions without a comment right above, and how many there are.
  local function look_at(text)
    local bare, count, above = {}, 0, ""
    for line in text:gmatch("[^\n]*") do
      local name = line:match("^PCO_API.-(pco_[%w_]+)%(")
      if name then
        count = count + 1
        bare[#bare + 1] = not above:find("%*/$") and name or nil
      end
      above = line
    end
    return bare, count
  end

  for _, name in ipairs({ "portico.h", "sandbox.h" }) do
    it(name .. " says of every function what it does", function()
      local text = env.read("runtime/include/portico/" .. name)
      local bare, count = look_at(text)
      assert.is_true(count > 30, "only " .. count)
      assert.same({}, bare)
    end)
  end

  it("would tell of one without a word", function()
    assert.same({ "pco_b" }, (look_at("/* A. */\nPCO_API int pco_a(int);\n\n"
      .. "PCO_API const char *pco_b(void);\n")))
  end)
end)

it("the READMEs leave nothing behind", nothing_left)
