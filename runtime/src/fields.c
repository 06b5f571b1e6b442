/* SPDX-License-Identifier: MIT */
/* Fields of frames from an agent; see fields.h. */
#include "fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT 4096u

int pco__field_number(const pco_wire_header *h, const uint8_t *payload,
                      uint16_t tag, uint64_t max, uint64_t *out) {
  pco_wire_iter it;
  pco_wire_field f;
  int found = 0;
  pco_wire_iter_init(&it, payload, h->size);
  while (pco_wire_next(&it, &f) == 1) {
    if (f.tag != tag)
      continue;
    if (found || f.number > max)
      return -EPROTO;
    found = 1;
    *out = f.number;
  }
  return found;
}

char *pco__field_string(const pco_wire_header *h, const uint8_t *payload,
                        uint16_t tag) {
  pco_wire_iter it;
  pco_wire_field f;
  pco_wire_iter_init(&it, payload, h->size);
  while (pco_wire_next(&it, &f) == 1)
    if (f.tag == tag)
      return strndup((const char *)f.data, f.len < MAX_TEXT ? f.len : MAX_TEXT);
  return NULL;
}

static const char *stage_text(uint64_t stage) {
  switch (stage) {
  case PCO_STAGE_INTERPRETER:
    return "its interpreter or loader is missing";
  case PCO_STAGE_CWD:
    return "the working directory cannot be entered";
  case PCO_STAGE_USER:
    return "there is no such user, or its rights cannot be taken";
  case PCO_STAGE_FORK:
    return "no process can be made";
  case PCO_STAGE_LIMIT:
    return "a limit cannot be set";
  default:
    return NULL;
  }
}

/* What scripts know a stage by; NULL: of none. */
static const char *stage_name(uint64_t stage) {
  static const char *const names[] = {NULL,   "program", "interpreter", "cwd",
                                      "user", "process", "limit"};
  return stage < sizeof names / sizeof *names ? names[stage] : NULL;
}

const char *pco__limit_name(uint64_t limit) {
  static const char *const names[] = {NULL, "memory", "pids", "cpus",
                                      "open_files"};
  return limit < sizeof names / sizeof *names ? names[limit] : NULL;
}

/* What a sandbox can never limit, and what it cannot here, are no errnos. */
static int limit_code(int code) {
  return code == -EOPNOTSUPP ? PCO_EUNSUPPORTED
         : code == -ENODEV   ? PCO_EUNAVAILABLE
                             : code;
}

pco__error *pco__field_error(const pco_wire_header *h, const uint8_t *payload) {
  uint64_t number = 0;
  uint64_t stage = PCO_STAGE_NONE;
  uint64_t limit = PCO_LIMIT_NONE;
  if (pco__field_number(h, payload, PCO_TAG_ERRNO, 4095, &number) != 1 ||
      number == 0 ||
      pco__field_number(h, payload, PCO_TAG_STAGE, PCO_STAGE_LIMIT, &stage) <
          0 ||
      pco__field_number(h, payload, PCO_TAG_LIMIT, PCO_LIMIT_OPEN_FILES,
                        &limit) < 0)
    return NULL;
  char *path = pco__field_string(h, payload, PCO_TAG_PATH);
  char *message = pco__field_string(h, payload, PCO_TAG_MESSAGE);
  const char *why = stage_text(stage);
  int code = -(int)number;
  if (stage == PCO_STAGE_LIMIT)
    code = limit_code(code);
  pco__error *err;
  if (message && message[0])
    err = pco__error_new(code, PCO_SOURCE_AGENT, path, "%s", message);
  else if (why)
    err = pco__error_new(code, PCO_SOURCE_AGENT, path, "%s: %s", why,
                         pco__code_text(code));
  else
    err = pco__error_new(code, PCO_SOURCE_AGENT, path, NULL);
  if (stage == PCO_STAGE_FORK || code == -EAGAIN)
    err->retryable = true;
  err->stage = stage_name(stage);
  if (limit != PCO_LIMIT_NONE)
    err->limit = pco__limit_name(limit);
  free(path);
  free(message);
  return err;
}
