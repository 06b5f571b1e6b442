/* SPDX-License-Identifier: MIT */
/*
 * Letting go, from any thread and without waiting, of what nobody will close
 * any more: a collected handle, a result that nobody took.
 */
#ifndef PCO_FAREWELL_H
#define PCO_FAREWELL_H

#include "process.h"

/* References that the loop takes over; NULL: none. */
typedef struct pco__farewell {
  pco__process *process;
  enum {
    PCO__FAREWELL_RELEASE, /* it runs on, its output is thrown away */
    PCO__FAREWELL_READER,  /* only the claim of an iterator ends */
    PCO__FAREWELL_KILL
  } how;
  pco__sandbox *sandbox; /* to close, or to leave if it stays */
  pco__backend *backend; /* to close */
} pco__farewell;

/* Does it on the loop's thread; a loop that is closed has done it already.  The
 * loop's memory must be there.  Without memory the references just go: what
 * they keep ends with its sandbox or loop.  [any] */
void pco__say_farewell(pco__loop *loop, pco__farewell what);

#endif /* PCO_FAREWELL_H */
