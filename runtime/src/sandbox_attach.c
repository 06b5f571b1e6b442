/* SPDX-License-Identifier: MIT */
/*
 * Taking over a sandbox that another program has left; see sandbox.h.
 *
 *   plugin    its attach(): it is ours, and gives a stream to the agent
 *   HELLO     says by which number our requests go on
 *   COMMANDS  what runs there, and what has ended: each becomes a process
 *             without a handle.  RUNNING
 *
 * Whatever fails gives the sandbox back as it was.  The agent is hostile: what
 * it lists is bounded, in number and in bytes.
 */
#include <errno.h>
#include <string.h>

#include "fields.h"
#include "sandbox_parts.h"

/* ---- what runs there ----------------------------------------------------- */

/* The one COMMAND of a frame: 1, 0 if it has none, or -EPROTO. */
static int find_command(const pco_wire_header *h, const uint8_t *payload,
                        pco_wire_field *out) {
  pco_wire_iter it;
  pco_wire_field f;
  int found = 0;
  pco_wire_iter_init(&it, payload, h->size);
  while (pco_wire_next(&it, &f) == 1) {
    if (f.tag != PCO_TAG_COMMAND)
      continue;
    if (found++)
      return -EPROTO;
    *out = f;
  }
  return found;
}

static int on_command(pco__sandbox *sb, const pco_wire_header *h,
                      const uint8_t *payload) {
  pco_wire_field command;
  int rc = find_command(h, payload, &command);
  if (rc != 1)
    return -EPROTO;
  const pco_wire_header inner = {.size = command.len};
  return pco__agent_found(sb, &sb->calls->found, &inner, command.data);
}

static int on_commands(pco__link_request *r, const pco_wire_header *h,
                       const uint8_t *payload) {
  pco__sandbox *sb =
      PCO_CONTAINER(r, struct pco__sandbox_calls, commands)->sandbox;
  if (sb->state != PCO__SANDBOX_CREATING)
    return 0;
  if (h->type != PCO_WIRE_REPLY)
    return -EPROTO;
  if (h->flags & PCO_WIRE_MORE)
    return on_command(sb, h, payload);
  pco__sandbox_ready(sb);
  return 0;
}

static void on_commands_lost(pco__link_request *r, const pco__error *err) {
  (void)r; /* whoever closed the link knows */
  (void)err;
}

int pco__sandbox_ask_commands(pco__sandbox *sb, const pco_wire_header *h,
                              const uint8_t *payload) {
  pco__link_request *r = &sb->calls->commands;
  pco_wire_buf frame = {0};
  uint64_t last = 0;
  if (pco__field_number(h, payload, PCO_TAG_LAST_OP, INT64_MAX, &last) != 1)
    return -EPROTO;
  pco__link_go_on_after(sb->link, last);
  sb->calls->found.most_target = last;
  r->id = pco__link_next(sb->link);
  r->type = PCO_WIRE_COMMANDS;
  r->frame = on_commands;
  r->lost = on_commands_lost;
  pco_wire_begin(&frame, PCO_WIRE_COMMANDS, 0, r->id);
  pco__link_request_send(sb->link, r, &frame, NULL, 0, true);
  return 0;
}

/* ---- the call ------------------------------------------------------------ */

static void take_attached(pco_op *op, const void *result) {
  pco__sandbox *sb =
      PCO_CONTAINER(op, struct pco__sandbox_calls, create)->sandbox;
  const pco_sandbox_result *r = (const pco_sandbox_result *)result;
  pco__sandbox_take(sb, r);
  bool kept = true;
  if (PCO_HAS(r, name))
    kept = pco__sandbox_copy(&sb->name, r->name);
  if (PCO_HAS(r, image))
    kept = pco__sandbox_copy(&sb->image, r->image) && kept;
  if (PCO_HAS(r, n_labels) && PCO_HAS(r, labels))
    kept = pco__sandbox_set_labels(sb, r->labels, r->n_labels) == 0 && kept;
  if (!kept)
    sb->calls->no_memory = true;
}

void pco__sandbox_attach(pco__backend *b, const char *id, pco__op *op,
                         pco__sandbox **out) {
  const pco_backend_api *api = b->info->api;
  if (!PCO_HAS(api, attach)) {
    pco__op_complete(op,
                     pco__error_new(PCO_EUNSUPPORTED, PCO_SOURCE_HOST, NULL,
                                    "the backend %s cannot attach to sandboxes",
                                    b->info->id));
    return;
  }
  pco__sandbox *sb = pco__sandbox_new(b, op, out);
  if (!sb)
    return;
  sb->stays = sb->detachable = true;
  pco_op *call = &sb->calls->create;
  pco__plugin_op_init(call, b, take_attached, pco__sandbox_made);
  pco__plugin_op_submitted(call, api->attach(b->plugin, id, call));
}
