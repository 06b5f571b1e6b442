# SPDX-License-Identifier: MIT
#
# The Debian packages, made by `cpack` in a build tree.  Any will do: what is
# installed finds its parts by relative paths, so nothing is built for /usr.
#
#   portico          the library, the modules, the backends, the command
#   libportico-dev   what programs in C and plugins are built with
#
# The library is of no use without the agent and the backends, so it has no
# package of its own.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME portico)
set(CPACK_PACKAGE_VENDOR "the Portico authors")
set(CPACK_PACKAGE_CONTACT "the Portico authors <portico@localhost>" CACHE STRING
  "Maintainer of the package: name and address")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)

set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME portico)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libportico-dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION interpreters)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "run commands and keep files in sandboxes, from Lua and C")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
"run commands and keep files in sandboxes
 Sandboxes are made by bubblewrap. Lua 5.4 scripts use them by coroutines or
 blocking; C programs embed the library; the command portico runs scripts, and
 single commands in a sandbox.")
set(CPACK_COMPONENT_DEV_DESCRIPTION
"run commands and keep files in sandboxes: for programs in C
 The headers, and what CMake and pkg-config find it by.")
# libportico itself links libuv only, and takes Lua from its program.  Whoever
# uses the modules without the command has a Lua already.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
  "${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS bubblewrap)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS lua5.4)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS libportico-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "portico (= ${PROJECT_VERSION}), libuv1-dev, liblua5.4-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS pkg-config)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # and the trigger for ldconfig
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" RENAME copyright
  DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/portico")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" RENAME copyright
  DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/libportico-dev" COMPONENT dev)
include(CPack)
