/* SPDX-License-Identifier: MIT */
/*
 * Answers to the host.  A frame that cannot be queued (no memory) leaves the
 * host waiting for ever, so the agent ends instead.
 */
#include "agent.h"

void pco_answer(pco_agent *a) {
  pco_wire_end(&a->buf, 0);
  if (pco_channel_send(&a->host, &a->buf) != 0)
    a->ending = true;
}

void pco_answer_empty(pco_agent *a, uint64_t op) {
  pco_wire_begin(&a->buf, PCO_WIRE_REPLY, 0, op);
  pco_answer(a);
}

void pco_answer_error(pco_agent *a, uint64_t op, int error, const char *path,
                      const char *message) {
  pco_wire_begin(&a->buf, PCO_WIRE_ERROR, 0, op);
  pco_wire_number(&a->buf, PCO_TAG_ERRNO, (uint64_t)error);
  if (path)
    pco_wire_string(&a->buf, PCO_TAG_PATH, path);
  if (message)
    pco_wire_string(&a->buf, PCO_TAG_MESSAGE, message);
  pco_answer(a);
}
