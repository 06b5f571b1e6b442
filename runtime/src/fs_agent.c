/* SPDX-License-Identifier: MIT */
/*
 * File calls over the link to an agent: one request each, with DATA frames for
 * what is written and read.
 *
 * A call that was cancelled, or that got more than it may hold, sends CANCEL
 * and waits for the final frame.  A cancelled one waits a moment only: its
 * caller's time is over.  The request stays until it is answered or lost; it
 * holds a reference of the op, and so does a place in the link's line.  Large
 * contents go by a pipe (fs_agent_pipe.h).
 */
#include "fs_ops.h"

#include <errno.h>
#include <string.h>

#include "fields.h"
#include "fs_agent_pipe.h"
#include "fs_file.h"

#define QUEUE_BYTES (256u * 1024) /* of our DATA in the link */

static pco__fs_op *op_of(pco__link_request *r) {
  return PCO_CONTAINER(r, pco__fs_op, request);
}

static void send_data(pco__fs_op *o);

/* ---- what comes ---------------------------------------------------------- */

/* True if a field stands twice; the tags of an entry are numbers and strings
 * whose low bytes are small. */
static bool has_twice(const pco_wire_field *nest) {
  pco_wire_iter it;
  pco_wire_field f;
  uint64_t seen[2] = {0, 0};
  pco_wire_enter(&it, nest);
  while (pco_wire_next(&it, &f) == 1) {
    uint64_t *set = &seen[PCO_TAG_KIND(f.tag) == PCO_TAG_STRING];
    uint64_t bit = UINT64_C(1) << (f.tag & 63);
    if (*set & bit)
      return true;
    *set |= bit;
  }
  return false;
}

/* Reads an ENTRY; a stat may have no name (the root). */
static int read_entry(pco__fs_op *o, const pco_wire_field *nest) {
  pco__entry e = {.type = UINT32_MAX, .name = ""};
  size_t name_len = 0;
  size_t link_len = 0;
  bool bad = has_twice(nest);
  pco_wire_iter it;
  pco_wire_field f;
  pco_wire_enter(&it, nest);
  while (pco_wire_next(&it, &f) == 1) {
    switch (f.tag) {
    case PCO_TAG_NAME:
      bad |= name_len != 0 || !pco_wire_is_entry_name(&f);
      e.name = (const char *)f.data;
      name_len = f.len;
      break;
    case PCO_TAG_TYPE:
      bad |= f.number > PCO_OTHER;
      e.type = (uint32_t)f.number;
      break;
    case PCO_TAG_SIZE:
      bad |= f.number > INT64_MAX;
      e.size = f.number;
      break;
    case PCO_TAG_MODE:
      bad |= f.number > 07777;
      e.mode = (uint32_t)f.number;
      break;
    case PCO_TAG_UID:
      bad |= f.number > UINT32_MAX;
      e.uid = (uint32_t)f.number;
      break;
    case PCO_TAG_GID:
      bad |= f.number > UINT32_MAX;
      e.gid = (uint32_t)f.number;
      break;
    case PCO_TAG_MTIME:
      e.mtime_ns = (int64_t)f.number;
      break;
    case PCO_TAG_LINK:
      e.link = (const char *)f.data;
      link_len = f.len;
      break;
    default:
      break;
    }
  }
  if (bad || e.type == UINT32_MAX || (name_len == 0 && o->kind == PCO__FS_LIST))
    return -EPROTO;
  return pco__fs_add_entry(o, &e, name_len, link_len);
}

/* Gives each field of that tag to fn, until it returns an error. */
static int each_field(pco__fs_op *o, const pco_wire_header *h,
                      const uint8_t *payload, uint16_t tag,
                      int (*fn)(pco__fs_op *o, const pco_wire_field *f)) {
  pco_wire_iter it;
  pco_wire_field f;
  int rc = 0;
  pco_wire_iter_init(&it, payload, h->size);
  while (rc == 0 && pco_wire_next(&it, &f) == 1)
    if (f.tag == tag)
      rc = fn(o, &f);
  return rc;
}

/* A path below what is watched: components, none of them "." or "..". */
static bool is_below(const pco_wire_field *f) {
  const char *s = (const char *)f->data;
  for (size_t at = 0; at <= f->len;) {
    const char *slash = memchr(s + at, '/', f->len - at);
    size_t n = (slash ? (size_t)(slash - s) : f->len) - at;
    if (n == 0 || (s[at] == '.' && (n == 1 || (n == 2 && s[at + 1] == '.'))))
      return false;
    at += n + 1;
  }
  return true;
}

/* An EVENT, kept as an entry: its path is the name, the old one the link. */
static int read_event(pco__fs_op *o, const pco_wire_field *nest) {
  pco__entry e = {.type = UINT32_MAX, .name = ""};
  size_t name_len = 0;
  size_t link_len = 0;
  bool bad = has_twice(nest);
  pco_wire_iter it;
  pco_wire_field f;
  pco_wire_enter(&it, nest);
  while (pco_wire_next(&it, &f) == 1) {
    if (f.tag == PCO_TAG_TYPE) {
      bad |= f.number > PCO_EVENT_RESCAN;
      e.type = (uint32_t)f.number;
    } else if (f.tag == PCO_TAG_PATH) {
      bad |= !is_below(&f);
      e.name = (const char *)f.data;
      name_len = f.len;
    } else if (f.tag == PCO_TAG_TARGET_PATH) {
      bad |= !is_below(&f);
      e.link = (const char *)f.data;
      link_len = f.len;
    }
  }
  if (bad || e.type == UINT32_MAX ||
      (e.type == PCO_EVENT_RENAME) != (e.link != NULL))
    return -EPROTO;
  return pco__fs_add_entry(o, &e, name_len, link_len);
}

/* In the order in which they came. */
static void reverse_entries(pco__fs_op *o) {
  pco__entry *list = NULL;
  for (pco__entry *e = o->entries, *next; e; e = next) {
    next = e->next;
    e->next = list;
    list = e;
  }
  o->entries = list;
}

/* None: the watch has ended. */
static int read_events(pco__fs_op *o, const pco_wire_header *h,
                       const uint8_t *payload) {
  int rc = each_field(o, h, payload, PCO_TAG_EVENT, read_event);
  reverse_entries(o);
  return rc;
}

static int read_entries(pco__fs_op *o, const pco_wire_header *h,
                        const uint8_t *payload) {
  int rc = each_field(o, h, payload, PCO_TAG_ENTRY, read_entry);
  if (rc == 0 && o->kind != PCO__FS_LIST && o->n_entries != 1)
    rc = -EPROTO;
  return rc;
}

static int add_data(pco__fs_op *o, const pco_wire_field *f) {
  return pco__fs_add_bytes(o, f->data, f->len);
}

static int read_data(pco__fs_op *o, const pco_wire_header *h,
                     const uint8_t *payload) {
  int rc = each_field(o, h, payload, PCO_TAG_DATA, add_data);
  return rc == 0 && o->n_bytes > o->length ? -EPROTO : rc;
}

static int add_path(pco__fs_op *o, const pco_wire_field *f) {
  return o->n_bytes ? -EPROTO : add_data(o, f);
}

/* The path that mktemp made. */
static int read_path(pco__fs_op *o, const pco_wire_header *h,
                     const uint8_t *payload) {
  int rc = each_field(o, h, payload, PCO_TAG_PATH, add_path);
  return rc == 0 && o->n_bytes == 0 ? -EPROTO : rc;
}

static int read_usage(pco__fs_op *o, const pco_wire_header *h,
                      const uint8_t *payload) {
  const struct {
    uint16_t tag;
    uint64_t *to;
  } fields[] = {{PCO_TAG_SIZE, &o->usage.size},
                {PCO_TAG_ALLOCATED, &o->usage.allocated},
                {PCO_TAG_COUNT, &o->usage.files},
                {PCO_TAG_DIRECTORIES, &o->usage.directories}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (pco__field_number(h, payload, fields[i].tag, INT64_MAX, fields[i].to) !=
        1)
      return -EPROTO;
  return 0;
}

static void send_cancel(pco__fs_op *o) {
  pco_wire_buf frame = {0};
  pco_wire_begin(&frame, PCO_WIRE_CANCEL, 0, o->request.id);
  pco__link_send(o->request.link, &frame);
  pco__link_expect(&o->request, 0);
}

/* Remembers why it failed and asks the agent to stop. */
void pco__fs_give_up(pco__fs_op *o, int rc) {
  if (o->trouble)
    return;
  o->trouble = rc == PCO_ELIMIT
                   ? pco__fs_limit_error(o)
                   : pco__error_new(rc, PCO_SOURCE_HOST, NULL, NULL);
  if (!o->finished)
    send_cancel(o);
}

/* The agent tells how much of what is written it has taken. */
static int read_taken(pco__fs_op *o, const pco_wire_header *h,
                      const uint8_t *payload) {
  uint64_t n = 0;
  int rc =
      pco__field_number(h, payload, PCO_TAG_LENGTH, o->sent - o->taken, &n);
  if (rc != 1)
    return -EPROTO;
  o->taken += (size_t)n;
  if (!o->in_line && !o->all_sent)
    send_data(o);
  return 0;
}

/* How much was written, and where the next write would go on. */
static int read_written(pco__fs_op *o, const pco_wire_header *h,
                        const uint8_t *payload) {
  return pco__field_number(h, payload, PCO_TAG_LENGTH, o->len, &o->n_written) ==
                     1 &&
                 o->n_written == o->len &&
                 pco__field_number(h, payload, PCO_TAG_OFFSET, INT64_MAX,
                                   &o->offset) == 1
             ? 0
             : -EPROTO;
}

/* Who gave up gets nothing; what is open or was seen must not be lost. */
static int take_late(pco__fs_op *o, const pco_wire_header *h,
                     const uint8_t *payload) {
  int rc = 0;
  bool reads = o->kind == PCO__FS_READ || o->kind == PCO__FILE_READ;
  if (reads && h->type == PCO_WIRE_REPLY && !o->piped) {
    rc = -EPROTO; /* there is no pipe */
  } else if (o->kind == PCO__FS_OPEN || o->kind == PCO__FS_WATCH) {
    o->file->id = o->request.id;
    o->file->open = true;
  } else if (o->kind == PCO__WATCH_EVENTS) {
    rc = read_events(o, h, payload);
    pco__file_keep_late(o);
  }
  return rc == -EPROTO ? rc : 0;
}

static int take_result(pco__fs_op *o, const pco_wire_header *h,
                       const uint8_t *payload) {
  if (o->trouble || o->op.cancel_code)
    return take_late(o, h, payload);
  int rc = 0;
  if (h->type == PCO_WIRE_DATA)
    rc = read_data(o, h, payload);
  else if (o->kind == PCO__FS_STAT || o->kind == PCO__FS_LIST ||
           o->kind == PCO__FILE_STAT)
    rc = read_entries(o, h, payload);
  else if (o->kind == PCO__FS_READ || o->kind == PCO__FILE_READ)
    rc = pco__fs_pipe_reply(o, h, payload);
  else if (o->kind == PCO__FILE_WRITE)
    rc = read_written(o, h, payload);
  else if (o->kind == PCO__WATCH_EVENTS)
    rc = read_events(o, h, payload);
  else if (o->kind == PCO__FS_OPEN || o->kind == PCO__FS_WATCH)
    rc = take_late(o, h, payload);
  else if (o->kind == PCO__FS_WRITE && h->flags & PCO_WIRE_MORE)
    rc = read_taken(o, h, payload);
  else if (o->kind == PCO__FS_MKTEMP)
    rc = read_path(o, h, payload);
  else if (o->kind == PCO__FS_USAGE)
    rc = read_usage(o, h, payload);
  if (rc == -EPROTO)
    return rc;
  if (rc < 0)
    pco__fs_give_up(o, rc);
  return 0;
}

static void submit(pco__fs_op *o);

/* No process of the sandbox can move contents through a pipe now: they go by
 * frames, if that is not a file which such a process must hold. */
static bool is_to_be_tried_again(const pco__fs_op *o, const pco__error *err) {
  return o->piped && !o->pipe_failed && err->code == UV_EAGAIN && !o->trouble &&
         !o->op.cancel_code && !o->n_bytes &&
         (o->kind == PCO__FS_READ || o->kind == PCO__FS_WRITE);
}

static void try_again(pco__fs_op *o) {
  pco__fs_pipe_close(o);
  o->pipe_failed = true;
  o->finished = false;
  o->sent = 0;
  submit(o);
  pco__op_unref(&o->op); /* the first request's */
}

static void keep(pco__fs_op *o) {
  atomic_fetch_add_explicit(&o->op.refs, 1, memory_order_relaxed);
}

/* The request is over; takes err.  Its caller may have left before. */
static void end(pco__fs_op *o, pco__error *err) {
  o->finished = true;
  pco__timer_stop(o->op.loop, &o->unanswered);
  pco__fs_pipe_close(o);
  if (o->op.completed)
    pco__error_free(err);
  else
    pco__fs_end(o, err);
  pco__op_unref(&o->op); /* the request's */
}

static int on_frame(pco__link_request *r, const pco_wire_header *h,
                    const uint8_t *payload) {
  pco__fs_op *o = op_of(r);
  bool last = !(h->flags & PCO_WIRE_MORE);
  pco__error *err = NULL;
  int rc = 0;
  o->finished = last;
  if (h->type == PCO_WIRE_ERROR) {
    err = pco__field_error(h, payload);
    rc = err ? 0 : -EPROTO;
    if (err && is_to_be_tried_again(o, err)) {
      pco__error_free(err);
      try_again(o);
      return 0;
    }
    if (rc == 0 && o->kind == PCO__FILE_WRITE)
      rc = pco__field_number(h, payload, PCO_TAG_LENGTH, o->len,
                             &o->n_written) < 0
               ? -EPROTO
               : 0;
  } else {
    rc = take_result(o, h, payload);
  }
  if (rc < 0)
    err = pco__error_new(PCO_EPROTO, PCO_SOURCE_AGENT, NULL,
                         "the agent's answer makes no sense");
  if (last)
    end(o, err);
  else
    pco__error_free(err);
  return rc;
}

static void on_lost(pco__link_request *r, const pco__error *err) {
  pco__fs_op *o = op_of(r);
  pco__error *copy = pco__error_new(err->code, err->source, NULL,
                                    err->message ? "%s" : NULL, err->message);
  if (err->cause)
    pco__error_because(copy,
                       pco__error_new(err->cause->code, err->cause->source,
                                      NULL, err->cause->message ? "%s" : NULL,
                                      err->cause->message));
  pco__error_free(o->trouble);
  o->trouble = NULL;
  end(o, copy);
}

/* ---- what is sent -------------------------------------------------------- */

/* The link took what it had: more, unless it is over. */
static void on_more(pco__call *call) {
  pco__fs_op *o = PCO_CONTAINER(call, pco__fs_op, more);
  o->in_line = false;
  if (!o->finished)
    send_data(o);
  pco__op_unref(&o->op); /* the line's */
}

static bool is_ahead(const pco__fs_op *o) {
  return o->sent - o->taken >= PCO_WIRE_WRITE_WINDOW;
}

/* The next n bytes; false if the caller has taken them back. */
static bool add_piece(pco__fs_op *o, pco_wire_buf *frame, size_t n) {
  const char *data = pco__fs_data(o);
  if (data)
    pco_wire_bytes(frame, PCO_TAG_DATA, data + o->sent, n);
  pco__fs_data_end(o);
  return data != NULL;
}

static void send_data(pco__fs_op *o) {
  bool last = false;
  while (!last && !o->op.cancel_code && !is_ahead(o) &&
         pco__link_queued(o->request.link) < QUEUE_BYTES) {
    size_t n = o->len - o->sent;
    n = n < PCO_WIRE_MAX_DATA ? n : PCO_WIRE_MAX_DATA;
    last = o->sent + n == o->len;
    pco_wire_buf frame = {0};
    pco_wire_begin(&frame, PCO_WIRE_DATA, last ? 0 : (uint8_t)PCO_WIRE_MORE,
                   o->request.id);
    if (!add_piece(o, &frame, n)) {
      pco_wire_buf_free(&frame);
      return; /* it is being cancelled */
    }
    o->sent += n;
    pco__link_send(o->request.link, &frame);
  }
  o->all_sent = last;
  if (last || o->op.cancel_code || is_ahead(o))
    return; /* the agent says when it goes on */
  keep(o);
  o->in_line = true;
  o->more.fn = on_more;
  pco__link_when_writable(o->request.link, &o->more);
}

static const uint16_t frame_types[] = {
    [PCO__FS_STAT] = PCO_WIRE_STAT,
    [PCO__FS_LIST] = PCO_WIRE_LIST,
    [PCO__FS_READ] = PCO_WIRE_READ,
    [PCO__FS_WRITE] = PCO_WIRE_WRITE,
    [PCO__FS_MKDIR] = PCO_WIRE_MKDIR,
    [PCO__FS_REMOVE] = PCO_WIRE_REMOVE,
    [PCO__FS_RENAME] = PCO_WIRE_RENAME,
    [PCO__FS_CHMOD] = PCO_WIRE_CHMOD,
    [PCO__FS_CHOWN] = PCO_WIRE_CHOWN,
    [PCO__FS_SYMLINK] = PCO_WIRE_SYMLINK,
    [PCO__FS_MKTEMP] = PCO_WIRE_MKTEMP,
    [PCO__FS_USAGE] = PCO_WIRE_USAGE,
    [PCO__FS_COPY] = PCO_WIRE_COPY,
    [PCO__FS_OPEN] = PCO_WIRE_OPEN,
    [PCO__FS_WATCH] = PCO_WIRE_WATCH,
    [PCO__FILE_READ] = PCO_WIRE_FILE_READ,
    [PCO__FILE_WRITE] = PCO_WIRE_FILE_WRITE,
    [PCO__FILE_TRUNCATE] = PCO_WIRE_FILE_TRUNCATE,
    [PCO__FILE_SYNC] = PCO_WIRE_FILE_SYNC,
    [PCO__FILE_STAT] = PCO_WIRE_FILE_STAT,
    [PCO__FILE_CLOSE] = PCO_WIRE_FILE_CLOSE,
    [PCO__WATCH_EVENTS] = PCO_WIRE_EVENTS,
};

/* How much is to be read: one byte more than may be kept tells "too much" from
 * "just fits". */
static uint64_t wanted(const pco__fs_op *o) {
  uint64_t most = (uint64_t)o->max_size + 1;
  return o->length < most ? o->length : most;
}

static bool encode_open(pco__fs_op *o, pco_wire_buf *b) {
  pco_wire_number(b, PCO_TAG_TARGET, o->file->id);
  if (o->kind == PCO__FILE_TRUNCATE)
    pco_wire_number(b, PCO_TAG_SIZE, o->offset);
  if (o->kind != PCO__FILE_READ && o->kind != PCO__FILE_WRITE)
    return true;
  pco_wire_number(b, PCO_TAG_OFFSET, o->offset);
  if (o->kind == PCO__FILE_READ)
    pco_wire_number(b, PCO_TAG_LENGTH, wanted(o));
  else if (o->all_sent)
    pco_wire_number(b, PCO_TAG_LENGTH, o->len);
  else
    return add_piece(o, b, o->len);
  return true;
}

/* False if the caller has taken back what is to be written. */
static bool encode(pco__fs_op *o, pco_wire_buf *b) {
  pco_wire_begin(b, frame_types[o->kind], 0, o->request.id);
  if (o->kind >= PCO__FILE_READ)
    return encode_open(o, b);
  if (o->path)
    pco_wire_string(b, PCO_TAG_PATH, o->path);
  pco_wire_number(b, PCO_TAG_FLAGS, o->flags);
  if (o->owner)
    pco_wire_string(b, PCO_TAG_USER, o->owner);
  if (o->name)
    pco_wire_string(b, PCO_TAG_NAME, o->name);
  if (o->target)
    pco_wire_string(b, PCO_TAG_TARGET_PATH, o->target);
  if (o->mode >= 0)
    pco_wire_number(b, PCO_TAG_MODE, (uint64_t)o->mode);
  if (o->kind == PCO__FS_WRITE && o->all_sent)
    pco_wire_number(b, PCO_TAG_LENGTH, o->len);
  if (o->kind == PCO__FS_WATCH) /* its patterns */
    pco_wire_bytes(b, PCO_TAG_DATA, o->data, o->len);
  if (o->kind == PCO__FS_READ && o->offset)
    pco_wire_number(b, PCO_TAG_OFFSET, o->offset);
  if (o->kind == PCO__FS_READ)
    pco_wire_number(b, PCO_TAG_LENGTH, wanted(o));
  return true;
}

static void submit(pco__fs_op *o) {
  pco__link *link = o->sandbox->link;
  pco_wire_buf frame = {0};
  int end = -1;
  if (!o->pipe_failed && pco__fs_pipe_fits(o))
    end = pco__fs_pipe_make(o);
  if (end < 0 && o->kind == PCO__FILE_WRITE && o->len > PCO_WIRE_MAX_DATA) {
    pco__fs_end(o, pco__error_new(-errno, PCO_SOURCE_HOST, NULL, NULL));
    return;
  }
  o->all_sent = end >= 0;
  o->request.id = pco__link_next(link);
  o->request.type = frame_types[o->kind];
  o->request.frame = on_frame;
  o->request.lost = on_lost;
  if (!encode(o, &frame)) {
    pco_wire_buf_free(&frame);
    pco__fs_end(o, pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
    return;
  }
  keep(o);
  /* A file system may be slow; that the agent lives is looked after by the
   * link. */
  pco__link_request_send(link, &o->request, &frame, &end, end >= 0, false);
  if (end >= 0)
    pco__fs_pipe_begin(o);
  else if (o->kind == PCO__FS_WRITE)
    send_data(o);
}

void pco__fs_agent_start(pco__fs_op *o) {
  submit(o);
}

static void on_unanswered(pco__timer *timer) {
  pco__fs_op *o = PCO_CONTAINER(timer, pco__fs_op, unanswered);
  pco__fs_end(o, pco__error_new(UV_ECANCELED, PCO_SOURCE_HOST, NULL, NULL));
}

void pco__fs_agent_cancel(pco__fs_op *o) {
  pco__fs_pipe_close(o);
  send_cancel(o);
  o->unanswered.fn = on_unanswered;
  pco__timer_start(o->op.loop, &o->unanswered, PCO__LINK_MOMENT);
}
