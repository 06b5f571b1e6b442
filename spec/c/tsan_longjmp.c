/* SPDX-License-Identifier: MIT */
/*
 * With ThreadSanitizer, in the programs that run Lua.
 *
 * A Lua that is built with glibc's hardening raises errors by __longjmp_chk,
 * which ThreadSanitizer does not know: what it had noted of the functions that
 * the error left stays for ever, until there are 65536 of them.  Then the
 * program crashes or hangs.  longjmp it knows.
 */
#undef _FORTIFY_SOURCE
#include <setjmp.h>

/* The C library's name for it. */
__attribute__((visibility("default"), noreturn)) void __longjmp_chk(jmp_buf env,
                                                                    int value);

void __longjmp_chk(jmp_buf env, int value) {
  longjmp(env, value);
}
