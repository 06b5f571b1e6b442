/* SPDX-License-Identifier: MIT */
/*
 * With ThreadSanitizer, in the programs that run Lua.
 *
 * libuv closes descriptors by syscall(SYS_close), which ThreadSanitizer does
 * not see: it takes whoever gets the number next, in another thread, for
 * somebody who uses it without a lock.  close it knows.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef long syscall_fn(long, ...);

/* The C library's name for it. */
__attribute__((visibility("default"))) long syscall(long number, ...) {
  static _Atomic(syscall_fn *) found;
  long a[6];
  va_list args;
  va_start(args, number);
  for (int i = 0; i < 6; i++)
    a[i] = va_arg(args, long);
  va_end(args);
  if (number == SYS_close)
    return close((int)a[0]);
  syscall_fn *next = atomic_load(&found);
  if (next == NULL) {
    *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    atomic_store(&found, next);
  }
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
