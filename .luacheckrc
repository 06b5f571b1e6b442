-- Settings of luacheck: 5.4, and no globals of our own.
std = "lua54"
max_line_length = 80
-- A method keeps its `self`, and __call its varargs, for the parity spec.
self = false
include_files = {
  "lua/**/*.lua", "runtime/cli/*.lua", "spec/**/*.lua", "examples/**/*.lua",
  ".luacheckrc", ".busted",
}
exclude_files = { "build", "lua/portico/meta" }
files["spec"] = { std = "lua54+busted" }
