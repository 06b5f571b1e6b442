/* SPDX-License-Identifier: MIT */
/*
 * Commands that other hosts have started, as the agent tells of them when a
 * sandbox is taken over (COMMAND in wire.h): each becomes a process without a
 * handle, whose output stays with the agent until somebody reads it.
 *
 * Nothing of it is believed: they come in the order of their numbers, which
 * must have been used; their number and the bytes of their arguments are
 * bounded.
 */
#include <errno.h>
#include <string.h>

#include "fields.h"
#include "process_agent.h"

#define MOST_COMMANDS 4096u
#define MOST_BYTES    (4u * 1024 * 1024) /* of arguments, of all; then less */
#define LESS_BYTES    256u               /* of a program's name alone */

typedef struct command {
  uint64_t target;
  uint64_t pid;
  int64_t started; /* ns since 1970 */
  uint64_t flags;
  pco__relay_past past;
  bool ended;
  pco__exit exit;
  pco__arena arena; /* of argv */
  char **argv;
} command;

/* ---- its fields ---------------------------------------------------------- */

/* The two OFFSETs: 0 or -EPROTO. */
static int read_offsets(const pco_wire_header *h, const uint8_t *payload,
                        uint64_t out[2]) {
  pco_wire_iter it;
  pco_wire_field f;
  int n = 0;
  pco_wire_iter_init(&it, payload, h->size);
  while (pco_wire_next(&it, &f) == 1) {
    if (f.tag != PCO_TAG_OFFSET)
      continue;
    if (n == 2 || f.number > INT64_MAX)
      return -EPROTO;
    out[n++] = f.number;
  }
  return n == 2 ? 0 : -EPROTO;
}

static int read_numbers(command *c, const pco_wire_header *h,
                        const uint8_t *payload) {
  uint64_t started;
  uint64_t code;
  if (pco__field_number(h, payload, PCO_TAG_TARGET, INT64_MAX, &c->target) !=
          1 ||
      pco__field_number(h, payload, PCO_TAG_PID, PCO__MAX_PID, &c->pid) != 1 ||
      c->pid == 0 ||
      pco__field_number(h, payload, PCO_TAG_MTIME, UINT64_MAX, &started) != 1 ||
      pco__field_number(h, payload, PCO_TAG_FLAGS, UINT32_MAX, &c->flags) !=
          1 ||
      pco__field_number(h, payload, PCO_TAG_LENGTH, PCO_RELAY_CREDIT,
                        &c->past.in_credit) < 0)
    return -EPROTO;
  c->started = (int64_t)started;
  int has_code = pco__field_number(h, payload, PCO_TAG_CODE, 255, &code);
  c->ended = has_code == 1;
  if (has_code < 0 || (c->ended && pco__agent_exit(h, payload, &c->exit) < 0))
    return -EPROTO;
  return read_offsets(h, payload, c->past.offset);
}

/* How many arguments there are, and how long they are together. */
static size_t measure(const pco_wire_header *h, const uint8_t *payload,
                      size_t *bytes) {
  pco_wire_iter it;
  pco_wire_field f;
  size_t n = 0;
  *bytes = 0;
  pco_wire_iter_init(&it, payload, h->size);
  while (pco_wire_next(&it, &f) == 1)
    if (f.tag == PCO_TAG_ARGV) {
      n++;
      *bytes += f.len + 1;
    }
  return n;
}

/* Copies them, or with `less` the beginning of the first: 0, UV_ENOMEM or
 * -EPROTO. */
static int read_argv(command *c, const pco_wire_header *h,
                     const uint8_t *payload, bool less) {
  pco_wire_iter it;
  pco_wire_field f;
  size_t bytes;
  size_t n = measure(h, payload, &bytes);
  if (n == 0 || n > PCO_COMMAND_TEXT || bytes > PCO_COMMAND_TEXT + n)
    return -EPROTO;
  n = less ? 1 : n;
  c->argv = pco__arena_alloc(&c->arena, (n + 1) * sizeof *c->argv);
  pco_wire_iter_init(&it, payload, h->size);
  for (size_t i = 0; c->argv && i < n && pco_wire_next(&it, &f) == 1;) {
    if (f.tag != PCO_TAG_ARGV)
      continue;
    size_t len = less && f.len > LESS_BYTES ? LESS_BYTES : f.len;
    c->argv[i++] = pco__arena_copy(&c->arena, (const char *)f.data, len);
  }
  return c->arena.failed ? UV_ENOMEM : 0;
}

/* ---- the process --------------------------------------------------------- */

static unsigned streams_of(const command *c) {
  bool terminal = c->flags & PCO_COMMAND_TERMINAL;
  bool out = c->flags & PCO_COMMAND_OUT;
  bool err = (c->flags & PCO_COMMAND_ERR) && !terminal;
  bool in = terminal ? out : (c->flags & PCO_COMMAND_IN) != 0;
  return (in ? PCO__RELAY_IN : 0) | (out ? PCO__RELAY_OUT : 0) |
         (err ? PCO__RELAY_ERR : 0);
}

/* Its streams and its EXIT are its process's from now on. */
static int take_over(pco__process *p, const command *c) {
  pco__link *link = p->sandbox->link;
  unsigned streams = streams_of(c);
  pco__agent_process *a = pco__agent_process_new(p, c->target);
  p->agent = a;
  if (!a)
    return UV_ENOMEM;
  for (int i = 0; i < 2; i++)
    p->streams[i].bytes = c->past.offset[i];
  if (streams) {
    a->relay =
        pco__relay_resume(link, c->target, p, streams, p->terminal, &c->past);
    if (!a->relay)
      return UV_ENOMEM;
  }
  if (!c->ended) {
    pco__process_ref(p); /* the request's */
    pco__link_request_await(link, &a->spawn);
  }
  return 0;
}

static int make(pco__sandbox *sb, const command *c) {
  pco__process *p =
      pco__process_found(sb, c->argv, (int64_t)c->pid, (double)c->started / 1e9,
                         c->ended ? &c->exit : NULL);
  if (!p)
    return UV_ENOMEM;
  p->terminal = (c->flags & PCO_COMMAND_TERMINAL) != 0;
  int rc = take_over(p, c);
  pco__process_update(p); /* over altogether, it is only remembered */
  return rc;
}

/* In the order of their numbers, none that waits already. */
static bool is_new(const pco__sandbox *sb, const pco__found *found,
                   const command *c) {
  return c->target > found->last_target && c->target <= found->most_target &&
         !pco__link_find(sb->link, c->target) &&
         !pco__link_stream_find(sb->link, c->target);
}

int pco__agent_found(pco__sandbox *sb, pco__found *found,
                     const pco_wire_header *h, const uint8_t *payload) {
  command c = {0};
  int rc = read_numbers(&c, h, payload);
  if (rc < 0 || !is_new(sb, found, &c) || ++found->count > MOST_COMMANDS)
    return -EPROTO;
  found->last_target = c.target;
  rc = read_argv(&c, h, payload, found->bytes > MOST_BYTES);
  for (char **s = c.argv; rc == 0 && *s; s++)
    found->bytes += strlen(*s) + 1;
  if (rc == 0)
    rc = make(sb, &c);
  pco__arena_free(&c.arena);
  return rc;
}
