/* SPDX-License-Identifier: MIT */
/* Letting go without waiting; see farewell.h. */
#include "farewell.h"

#include <stdlib.h>

#include "process_ops.h"
#include "wire.h"

typedef struct farewell_call {
  pco__call call;
  pco__farewell what;
} farewell_call;

static void drop_references(const pco__farewell *w) {
  pco__process_unref(w->process);
  pco__sandbox_unref(w->sandbox);
  pco__backend_unref(w->backend);
}

static void leave_process(const pco__farewell *w) {
  switch (w->how) {
  case PCO__FAREWELL_READER:
    pco__process_end_reader(w->process);
    break;
  case PCO__FAREWELL_KILL:
    pco__process_kill(w->process, 0, PCO_REASON_KILLED);
    pco__process_release(w->process);
    break;
  default:
    pco__process_release(w->process);
  }
}

static void on_loop(pco__call *call) {
  farewell_call *f = PCO_CONTAINER(call, farewell_call, call);
  if (f->what.process)
    leave_process(&f->what);
  if (f->what.sandbox)
    pco__sandbox_abandon(f->what.sandbox);
  if (f->what.backend)
    pco__backend_abandon(f->what.backend);
  drop_references(&f->what);
  free(f);
}

void pco__say_farewell(pco__loop *loop, pco__farewell what) {
  if (!what.process && !what.sandbox && !what.backend)
    return;
  farewell_call *f = malloc(sizeof *f);
  if (!f) {
    drop_references(&what);
    return;
  }
  *f = (farewell_call){.call.fn = on_loop, .what = what};
  if (pco__loop_post(loop, &f->call) < 0) {
    drop_references(&what);
    free(f);
  }
}
