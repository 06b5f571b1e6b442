/* SPDX-License-Identifier: MIT */
/*
 * The layout of plugin.h on a machine of 64 bits, checked by the compiler in C
 * and in C++.  A number that changes here is a break of the ABI: while the
 * major is 0 it costs a new minor, later it is not done.
 */
#ifndef PCO_SPEC_PLUGIN_HEADER_TEST_H
#define PCO_SPEC_PLUGIN_HEADER_TEST_H

#include <assert.h>
#include <stddef.h>

#define PCO_SIZE(T, size)                                                      \
  static_assert(sizeof(void *) != 8 || sizeof(T) == (size), "size of " #T)
#define PCO_AT(T, field, offset)                                               \
  static_assert(sizeof(void *) != 8 || offsetof(T, field) == (offset),         \
                "offset of " #T "." #field)

PCO_SIZE(pco_error, 56);
PCO_AT(pco_error, code, 4);
PCO_AT(pco_error, message, 16);
PCO_AT(pco_error, cause, 32);
PCO_AT(pco_error, room_size, 48);
PCO_SIZE(pco_iov, 16);
PCO_SIZE(pco_pair, 16);
PCO_SIZE(pco_host, 88);
PCO_AT(pco_host, loop, 8);
PCO_AT(pco_host, complete, 24);
PCO_AT(pco_host, set_cancel, 40);
PCO_AT(pco_host, push, 48);
PCO_AT(pco_host, post, 64);
PCO_AT(pco_host, get_extension, 80);
PCO_SIZE(pco_limits, 40);
PCO_AT(pco_limits, memory_bytes, 8);
PCO_AT(pco_limits, cpus, 32);
PCO_SIZE(pco_mount, 24);
PCO_AT(pco_mount, target, 16);
PCO_SIZE(pco_create_opts, 136);
PCO_AT(pco_create_opts, name, 8);
PCO_AT(pco_create_opts, env, 48);
PCO_AT(pco_create_opts, labels, 56);
PCO_AT(pco_create_opts, limits, 88);
PCO_AT(pco_create_opts, ttl, 96);
PCO_AT(pco_create_opts, n_settings, 128);
PCO_SIZE(pco_sandbox_result, 88);
PCO_AT(pco_sandbox_result, sandbox, 8);
PCO_AT(pco_sandbox_result, agent_fd, 24);
PCO_AT(pco_sandbox_result, cwd, 32);
PCO_AT(pco_sandbox_result, name, 40);
PCO_AT(pco_sandbox_result, expires, 80);
PCO_SIZE(pco_sandbox_info, 72);
PCO_AT(pco_sandbox_info, id, 8);
PCO_AT(pco_sandbox_info, expires, 48);
PCO_AT(pco_sandbox_info, name, 56);
PCO_SIZE(pco_list_result, 24);
PCO_AT(pco_list_result, n_sandboxes, 16);
PCO_SIZE(pco_spawn_opts, 72);
PCO_AT(pco_spawn_opts, argv, 8);
PCO_AT(pco_spawn_opts, cols, 48);
PCO_AT(pco_spawn_opts, out, 56);
PCO_AT(pco_spawn_opts, err, 64);
PCO_SIZE(pco_process_result, 24);
PCO_AT(pco_process_result, pid, 16);
PCO_SIZE(pco_exit_result, 16);
PCO_AT(pco_exit_result, flags, 12);
PCO_SIZE(pco_capability, 24);
PCO_AT(pco_capability, level, 16);
PCO_SIZE(pco_probe_result, 40);
PCO_AT(pco_probe_result, caps, 8);
PCO_AT(pco_probe_result, detail, 32);
PCO_SIZE(pco_host_agent_api, 16);
PCO_AT(pco_host_agent_api, open_image, 8);
PCO_SIZE(pco_host_spawn_opts, 48);
PCO_AT(pco_host_spawn_opts, argv, 8);
PCO_AT(pco_host_spawn_opts, n_fds, 40);
PCO_SIZE(pco_host_spawn_api, 16);
PCO_AT(pco_host_spawn_api, spawn, 8);
PCO_SIZE(pco_stat, 48);
PCO_AT(pco_stat, size, 24);
PCO_AT(pco_stat, name, 40);
PCO_SIZE(pco_stat_list, 24);
PCO_AT(pco_stat_list, n_entries, 16);
PCO_SIZE(pco_data, 24);
PCO_AT(pco_data, len, 16);
PCO_SIZE(pco_fs_api, 80);
PCO_AT(pco_fs_api, stat, 8);
PCO_AT(pco_fs_api, rename, 56);
PCO_AT(pco_fs_api, truncate, 72);
PCO_SIZE(pco_backend_api, 176);
PCO_AT(pco_backend_api, open, 8);
PCO_AT(pco_backend_api, create, 40);
PCO_AT(pco_backend_api, cause_of_death, 88);
PCO_AT(pco_backend_api, spawn, 96);
PCO_AT(pco_backend_api, release_process, 160);
PCO_AT(pco_backend_api, reap, 168);
PCO_SIZE(pco_backend_info, 48);
PCO_AT(pco_backend_info, id, 8);
PCO_AT(pco_backend_info, api, 40);
PCO_SIZE(pco_plugin_entry, 40);
PCO_AT(pco_plugin_entry, abi_major, 4);
PCO_AT(pco_plugin_entry, abi_minor, 6);
PCO_AT(pco_plugin_entry, backends, 8);
PCO_AT(pco_plugin_entry, uv_identity, 32);

#endif /* PCO_SPEC_PLUGIN_HEADER_TEST_H */
