# SPDX-License-Identifier: MIT
#
# portico_add_plugin(NAME [UV] source…): the backend NAME as portico-NAME.so,
# built as every plugin is to be: all symbols defined (-z defs), and nothing
# exported but the entry that the sources mark with PCO_EXPORT.  UV is for
# plugins that call libuv: it links the shared one, which the host has, too.
# The target is plugin_NAME.
#
# It is installed where Portico looks for plugins, if the prefix is Portico's.
# Portico's own plugins are built by this file, too.

function(portico_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "UV" "" "")
  string(LENGTH "${name}" length)
  if(NOT name MATCHES "^[a-z0-9-]+$" OR length GREATER 32)
    message(FATAL_ERROR "portico_add_plugin: \"${name}\" is no name of a "
      "backend; up to 32 of a-z, 0-9 and - are")
  elseif(NOT arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "portico_add_plugin(${name}): it has no sources; "
      "name them behind the backend's name")
  endif()
  set(target plugin_${name})
  add_library(${target} MODULE ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE portico::plugin)
  if(arg_UV)
    target_link_libraries(${target} PRIVATE portico::uv)
  endif()
  target_link_options(${target} PRIVATE
    LINKER:-z,defs LINKER:--exclude-libs,ALL)
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME portico-${name}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  install(TARGETS ${target}
    LIBRARY DESTINATION "${portico_PLUGIN_DESTINATION}")
endfunction()
