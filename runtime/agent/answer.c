/* SPDX-License-Identifier: MIT */
/*
 * Answers to the host.  A frame that cannot be queued (no memory) would leave
 * the host waiting for ever, so the agent lets it go instead, or ends.
 */
#include "agent.h"

void pco_answer(pco_agent *a) {
  int rc = pco_wire_end(&a->buf, 0);
  pco_wire_header h = {0};
  if (rc == 0)
    rc = pco_wire_header_read(a->buf.data, &h);
  if (rc == 0 && pco_hosts_hears(a, h.type, h.op))
    rc = pco_channel_send(&a->host, &a->buf);
  if (rc != 0)
    pco_hosts_gone(a);
}

void pco_answer_relay(pco_agent *a, const pco_frame *f) {
  if (pco_hosts_hears(a, f->header.type, f->header.op) &&
      pco_channel_relay(&a->host, f) != 0)
    pco_hosts_gone(a);
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
