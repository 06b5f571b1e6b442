/* SPDX-License-Identifier: MIT */
/*
 * See agent_files.h.
 */
#include "agent_files.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- requests ------------------------------------------------------------ */

answer answer_take(client *c, uint64_t op) {
  answer a;
  memset(&a, 0, sizeof a);
  a.error = -1;
  for (;;) {
    frame *f = client_take(c, op, 20000);
    if (!f)
      return a;
    bool more = f->header.flags & PCO_WIRE_MORE;
    pco_wire_iter it;
    pco_wire_field d;
    pco_wire_iter_init(&it, f->payload, f->header.size);
    while (f->header.type == PCO_WIRE_DATA && pco_wire_next(&it, &d) == 1) {
      a.data = realloc(a.data, a.len + d.len + 1);
      memcpy(a.data + a.len, d.data, d.len);
      a.len += d.len;
      a.data[a.len] = 0;
    }
    a.error = f->header.type == PCO_WIRE_ERROR
                  ? (int)frame_number(f, PCO_TAG_ERRNO, 9999)
                  : 0;
    char *m = frame_text(f, PCO_TAG_MESSAGE);
    snprintf(a.message, sizeof a.message, "%s", m ? m : "");
    free(m);
    if (f->header.type == PCO_WIRE_REPLY && !more)
      a.entry = f;
    else
      free(f);
    if (!more)
      return a;
  }
}

int answer_finish(answer a) {
  free(a.data);
  free(a.entry);
  return a.error;
}

uint64_t file_begin(client *c, uint16_t type, const char *path, int flags) {
  uint64_t op = client_begin(c, type);
  client_string(c, PCO_TAG_PATH, path);
  client_number(c, PCO_TAG_FLAGS, (uint64_t)flags);
  return op;
}

answer file_ask(client *c, uint16_t type, const char *path, int flags) {
  uint64_t op = file_begin(c, type, path, flags);
  client_send(c, NULL, 0);
  return answer_take(c, op);
}

int file_simple(client *c, uint16_t type, const char *path, int flags) {
  return answer_finish(file_ask(c, type, path, flags));
}

int file_stat_error(client *c, const char *path, int flags) {
  return file_simple(c, PCO_WIRE_STAT, path, flags);
}

/* READ that must give that text. */
bool file_reads(client *c, const char *path, const char *text) {
  answer a = file_ask(c, PCO_WIRE_READ, path, 0);
  bool same = a.error == 0 && a.data && strcmp(a.data, text) == 0;
  answer_finish(a);
  return same;
}

void file_send_data(client *c, uint64_t op, const char *p, size_t len,
                    bool more) {
  pco_wire_begin(&c->buf, PCO_WIRE_DATA, more ? PCO_WIRE_MORE : 0, op);
  pco_wire_bytes(&c->buf, PCO_TAG_DATA, p, len);
  client_send(c, NULL, 0);
}

int file_write_mode(client *c, const char *path, const char *text, int flags,
                    int mode) {
  uint64_t op = file_begin(c, PCO_WIRE_WRITE, path, flags);
  if (mode >= 0)
    client_number(c, PCO_TAG_MODE, (uint64_t)mode);
  client_send(c, NULL, 0);
  file_send_data(c, op, text, strlen(text), false);
  return answer_finish(answer_take(c, op));
}

int file_write(client *c, const char *path, const char *text, int flags) {
  return file_write_mode(c, path, text, flags, -1);
}

int file_rename(client *c, const char *a, const char *b, int flags) {
  uint64_t op = file_begin(c, PCO_WIRE_RENAME, a, flags);
  client_string(c, PCO_TAG_TARGET_PATH, b);
  client_send(c, NULL, 0);
  return answer_finish(answer_take(c, op));
}

/* A number of the ENTRY of a STAT. */
uint64_t entry_number(const frame *f, uint16_t tag) {
  pco_wire_iter it, in;
  pco_wire_field e, g;
  pco_wire_iter_init(&it, f->payload, f->header.size);
  while (pco_wire_next(&it, &e) == 1) {
    if (e.tag != PCO_TAG_ENTRY)
      continue;
    pco_wire_enter(&in, &e);
    while (pco_wire_next(&in, &g) == 1)
      if (g.tag == tag)
        return PCO_TAG_KIND(tag) == PCO_TAG_NUMBER ? g.number : g.len;
  }
  return UINT64_MAX;
}

/* ---- the agent ----------------------------------------------------------- */

bool ws_open(void) {
  if (!dir_make())
    return false;
  umask(022);
  signal(SIGPIPE, SIG_IGN);
  mkdir(in_dir("ws"), 0755);
  make_link(in_dir("ws"), "alias");
  make_file("ws/file", "content", 0640);
  mkdir(in_dir("ws/sub"), 0755);
  make_file("ws/sub/inner", "inner", 0600);
  return true;
}

void ws_start(client *c, const char *agent) {
  char root[256], alias[256];
  snprintf(root, sizeof root, "%s", in_dir("ws"));
  snprintf(alias, sizeof alias, "%s", in_dir("alias"));
  const char *const args[] = {"--root", root, "--alias", alias, NULL};
  client_start(c, agent, root, args);
}

void ws_stop(client *c) {
  int status = client_stop(c);
  OK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the agent exits 0");
}

void ws_close(const char *agent) {
  char command[512];
  snprintf(command, sizeof command, "exec %s --remove-only %s", agent, dir);
  IS(system(command), 0, "--remove-only cleans up");
}
