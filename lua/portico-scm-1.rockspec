-- SPDX-License-Identifier: MIT
--
-- Portico as a rock, from a checkout:
--
--   luarocks --lua-version 5.4 make lua/portico-scm-1.rockspec
--
-- The modules and the command go where the tree has such; all else (the
-- library, plugins, agent, headers) stays in the rock's own directory, which
-- they find by relative paths, so a tree can be moved. lua/rock.sh does it.
rockspec_format = "3.0"
package = "portico"
version = "scm-1"
source = { url = "." } -- a checkout: there is nothing to fetch
description = {
  summary = "Run commands and keep files in sandboxes",
  detailed = [[
    Two facades with the same members: portico waits in coroutines,
    portico.sync blocks. Sandboxes are made by bubblewrap, which must be
    installed, as must be cmake, pkg-config, libuv and libseccomp with their
    headers to build it. Linux only.]],
  license = "MIT",
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.4, < 5.5" }
external_dependencies = {
  LIBUV = { header = "uv.h" },
  LIBSECCOMP = { header = "seccomp.h" },
}
build = {
  type = "command",
  build_command = "sh lua/rock.sh build '$(PREFIX)' '$(CFLAGS)'",
  install_command = "sh lua/rock.sh install '$(PREFIX)'",
}
deploy = { wrap_bin_scripts = false } -- the command is no script
