#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds plugins/template as its README says, in a directory of its own and with
# nothing but the public headers, then has a look at the result.
#
#   template_test.sh SOURCE_DIR
set -eu
src=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cp "$src/plugins/template/template.c" "$out/"
cd "$out"
n=0
ok() { n=$((n + 1)); echo "ok $n - $1"; }

for std in c11 c17; do
  ${CC:-cc} -std=$std -Wall -Wextra -Wpedantic -Werror -fPIC \
    -fvisibility=hidden -shared -Wl,-z,defs -I "$src/runtime/include" \
    template.c -o portico-template.so
  ok "it builds as $std with the public headers alone"
done

symbols=$(nm -D --defined-only portico-template.so | awk '{print $3}')
[ "$symbols" = pco_plugin_entry_v0 ] || {
  echo "not ok $((n + 1)) - it exports: $symbols"
  exit 1
}
ok "it exports the entry and nothing else"

# In plain Lua: what it does not do is refused, and nothing crashes.
LUA_PATH="$src/lua/?.lua;$src/lua/?/init.lua;;" lua5.4 - ./portico-template.so <<'LUA'
for _, name in ipairs({ "portico", "portico.sync" }) do
  local P = require(name)
  P.run(function()
    local backend <close> = P.open(arg[1])
    local sb = backend:create()
    for _, call in ipairs({
      function() sb:exec({ "true" }) end,
      function() sb:spawn({ "true" }) end,
      function() sb.fs:read("x") end,
    }) do
      local ok, err = pcall(call)
      assert(not ok and err.code == "PCO_EUNSUPPORTED", tostring(err))
    end
    assert(sb:close())
  end)
end
LUA
ok "its sandboxes can do nothing, and say so"
echo "1..$n"
