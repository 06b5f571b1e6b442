/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a stock Lua together with a sanitizer's runtime, so that the
 * specs run in it as in a Lua without.
 *
 * It takes LD_PRELOAD out of the environment again: the sanitizer is for the
 * Lua under test and not for the shells that a spec starts, some of which it
 * breaks.
 *
 * And it keeps SIGINT from ThreadSanitizer, which holds a signal back until
 * the program calls into libc: a script in a loop never does.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

static __attribute__((constructor)) void forget(void) {
  unsetenv("LD_PRELOAD");
}

#ifdef PRELOAD_SIGACTION
typedef int sigaction_fn(int, const struct sigaction *, struct sigaction *);

/* The C library's, under the name that ThreadSanitizer does not replace. */
sigaction_fn __sigaction;

__attribute__((visibility("default"))) int
sigaction(int signo, const struct sigaction *action, struct sigaction *old) {
  static sigaction_fn *next;
  if (signo == SIGINT)
    return __sigaction(signo, action, old);
  if (next == NULL)
    *(void **)&next = dlsym(RTLD_NEXT, "sigaction");
  return next(signo, action, old);
}
#endif
