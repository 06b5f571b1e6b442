/* SPDX-License-Identifier: MIT */
/* See records.h. */
#include "records.h"

#include "agent.h"
#include "clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORDS_TEXT (1024u * 1024) /* of arguments in all; then of each: */
#define LITTLE_TEXT  1024u

/* ---- the list ----------------------------------------------------------- */

/* What is asked for is mostly new. */
static pco_record *find(const pco_agent *a, uint64_t op) {
  pco_record *r = a->records.last;
  while (r && r->op != op)
    r = r->prev;
  return r;
}

static void append(pco_records *all, pco_record *r) {
  r->prev = all->last;
  if (r->prev)
    r->prev->next = r;
  else
    all->first = r;
  all->last = r;
  all->text += r->text_len;
}

static void discard(pco_records *all, pco_record *r) {
  if (r->next)
    r->next->prev = r->prev;
  else
    all->last = r->prev;
  if (r->prev)
    r->prev->next = r->next;
  else
    all->first = r->next;
  all->text -= r->text_len;
  all->n_gone -= r->gone > 0;
  free(r);
}

/* ---- the arguments ------------------------------------------------------ */

/* Copies ARGV, each with its NUL, until `most` bytes are there; `to` may be
 * NULL.  How many they are. */
static size_t copy_text(const pco_frame *f, char *to, size_t most) {
  pco_wire_iter it;
  pco_wire_field field;
  size_t len = 0;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (len < most && pco_wire_next(&it, &field) == 1) {
    if (field.tag != PCO_TAG_ARGV)
      continue;
    size_t n = field.len < most - len - 1 ? field.len : most - len - 1;
    if (to) {
      memcpy(to + len, field.data, n);
      to[len + n] = 0;
    }
    len += n + 1;
  }
  return len;
}

/* ---- the life of a command ---------------------------------------------- */

/* Without memory for it a later host does not hear of that command. */
void pco_records_add(pco_agent *a, const pco_frame *f, const pco_request *r) {
  if (!a->hosts.many)
    return;
  size_t most = a->records.text < RECORDS_TEXT ? PCO_COMMAND_TEXT : LITTLE_TEXT;
  size_t len = copy_text(f, NULL, most);
  pco_record *new = calloc(1, sizeof *new + len);
  if (!new)
    return;
  new->op = r->op;
  new->forget = pco_request_number(r, PCO_TAG_FLAGS) & PCO_SPAWN_FLAG_FORGET;
  new->terminal = r->stdio[0] == PCO_STDIO_TERMINAL;
  new->merged = r->stdio[2] == PCO_STDIO_MERGE;
  new->text_len = copy_text(f, new->text, most);
  append(&a->records, new);
}

void pco_records_started(pco_agent *a, uint64_t op, uint64_t pid) {
  pco_record *r = find(a, op);
  struct timespec t;
  if (!r)
    return;
  clock_gettime(CLOCK_REALTIME, &t);
  r->started = (int64_t)t.tv_sec * PCO_S + t.tv_nsec;
  r->pid = pid;
}

void pco_records_started_by(pco_agent *a, const pco_frame *f) {
  pco_wire_iter it;
  pco_wire_field field;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &field) == 1)
    if (field.tag == PCO_TAG_PID)
      pco_records_started(a, f->header.op, field.number);
}

static void take_field(pco_record_end *end, const pco_wire_field *field) {
  switch (field->tag) {
  case PCO_TAG_CODE:
    end->code = field->number;
    break;
  case PCO_TAG_SIGNAL:
    end->signal = field->number;
    break;
  case PCO_TAG_REASON:
    end->reason = field->number;
    break;
  case PCO_TAG_DURATION:
    end->duration = field->number;
    break;
  case PCO_TAG_LIMIT:
    end->limit = field->number;
    end->has_limit = true;
    break;
  default:
    break;
  }
}

void pco_records_exited(pco_agent *a, uint64_t op, const void *fields,
                        size_t len) {
  pco_record *r = find(a, op);
  pco_wire_iter it;
  pco_wire_field field;
  if (!r)
    return;
  r->ended = true;
  r->told = pco_hosts_hears(a, PCO_WIRE_EXIT, op);
  pco_wire_iter_init(&it, fields, len);
  while (pco_wire_next(&it, &field) == 1)
    take_field(&r->end, &field);
}

void pco_records_drop(pco_agent *a, uint64_t op) {
  pco_record *r = find(a, op);
  if (r)
    discard(&a->records, r);
}

bool pco_records_has(const pco_agent *a, uint64_t op) {
  return find(a, op) != NULL;
}

/* The one that was over first, and what it said that nobody reads. */
static void drop_oldest(pco_agent *a) {
  pco_record *oldest = NULL;
  for (pco_record *r = a->records.first; r; r = r->next)
    if (r->gone && (!oldest || r->gone < oldest->gone))
      oldest = r;
  if (!oldest)
    return;
  uint64_t op = oldest->op;
  pco_relay_give_up(a, op);
  pco_records_drop(a, op); /* unless it has no place any more by that */
}

/* Nobody will ask for it. */
static bool is_forgotten(const pco_agent *a, const pco_record *r) {
  pco_relay_state s;
  if (!r->forget || !r->told)
    return false;
  pco_relay_look(a, r->op, &s);
  return !s.out && !s.err;
}

void pco_records_settle(pco_agent *a, uint64_t op) {
  pco_record *r = find(a, op);
  if (!r || !r->gone || !is_forgotten(a, r))
    return;
  discard(&a->records, r);
}

void pco_records_gone(pco_agent *a, uint64_t op) {
  pco_record *r = find(a, op);
  if (!r || !r->ended || r->gone)
    return;
  r->gone = ++a->records.n_ever;
  a->records.n_gone++;
  pco_relay_end_input(a, op);
  pco_records_settle(a, op);
  if (a->records.n_gone > PCO_COMMANDS_KEPT)
    drop_oldest(a);
}

/* ---- telling ------------------------------------------------------------ */

static uint64_t flags_of(const pco_record *r, const pco_relay_state *s) {
  return (s->out ? PCO_COMMAND_OUT : 0u) | (s->err ? PCO_COMMAND_ERR : 0u) |
         (s->in ? PCO_COMMAND_IN : 0u) |
         (r->terminal ? PCO_COMMAND_TERMINAL : 0u) |
         (r->merged ? PCO_COMMAND_MERGED : 0u) |
         (r->gone ? 0u : PCO_COMMAND_LIVES);
}

static void put_end(pco_wire_buf *b, const pco_record_end *end) {
  pco_wire_number(b, PCO_TAG_CODE, end->code);
  if (end->signal)
    pco_wire_number(b, PCO_TAG_SIGNAL, end->signal);
  pco_wire_number(b, PCO_TAG_REASON, end->reason);
  pco_wire_number(b, PCO_TAG_DURATION, end->duration);
  if (end->has_limit)
    pco_wire_number(b, PCO_TAG_LIMIT, end->limit);
}

static void tell(pco_agent *a, uint64_t op, const pco_record *r) {
  pco_relay_state s;
  pco_wire_buf *b = &a->buf;
  pco_relay_look(a, r->op, &s);
  pco_wire_begin(b, PCO_WIRE_REPLY, PCO_WIRE_MORE, op);
  pco_wire_nest_begin(b, PCO_TAG_COMMAND);
  pco_wire_number(b, PCO_TAG_TARGET, r->op);
  pco_wire_number(b, PCO_TAG_PID, r->pid);
  for (size_t at = 0; at < r->text_len; at += strlen(r->text + at) + 1)
    pco_wire_string(b, PCO_TAG_ARGV, r->text + at);
  pco_wire_number(b, PCO_TAG_MTIME, (uint64_t)r->started);
  pco_wire_number(b, PCO_TAG_FLAGS, flags_of(r, &s));
  pco_wire_number(b, PCO_TAG_OFFSET, s.out_offset);
  pco_wire_number(b, PCO_TAG_OFFSET, s.err_offset);
  if (s.in)
    pco_wire_number(b, PCO_TAG_LENGTH, s.in_room);
  if (r->ended)
    put_end(b, &r->end);
  pco_wire_nest_end(b);
  pco_answer(a);
}

/* All at once: how they are at this moment.  From now on the host hears of
 * those of others, too. */
void pco_records_tell(pco_agent *a, uint64_t op) {
  for (pco_record *r = a->records.first; r; r = r->next) {
    if (r->pid == 0 || is_forgotten(a, r))
      continue;
    tell(a, op, r);
    r->told = r->ended;
  }
  pco_answer_empty(a, op);
  a->hosts.listed = true;
}

void pco_records_deinit(pco_agent *a) {
  while (a->records.first)
    discard(&a->records, a->records.first);
}
