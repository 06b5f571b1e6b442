/* SPDX-License-Identifier: MIT */
/*
 * A real agent that is confined to DIR/ws, for the tests of files: DIR/secret
 * and DIR/outside must never be reached, whatever links and races say.
 */
#ifndef AGENT_FILES_H
#define AGENT_FILES_H

#include "agent_client.h"
#include "test_dir.h"

#include "portico/plugin.h"

/* ---- the directory ------------------------------------------------------- */

/* Makes it, with file and sub/inner in ws; false if it cannot be made. */
bool ws_open(void);
/* An agent in there; with its end by ws_stop, which is a test. */
void ws_start(client *c, const char *agent);
void ws_stop(client *c);
/* Removes it, by an agent: a test. */
void ws_close(const char *agent);

/* ---- requests ------------------------------------------------------------ */

typedef struct answer {
  int error; /* 0, errno; -1: no answer */
  char message[512];
  char *data; /* of READ; free it */
  size_t len;
  frame *entry; /* of STAT; free it */
} answer;

/* Waits for the whole answer. */
answer answer_take(client *c, uint64_t op);
/* Frees it; its error. */
int answer_finish(answer a);

/* A request with PATH and FLAGS, to be sent. */
uint64_t file_begin(client *c, uint16_t type, const char *path, int flags);
/* The same, sent and answered. */
answer file_ask(client *c, uint16_t type, const char *path, int flags);
/* The same; its error. */
int file_simple(client *c, uint16_t type, const char *path, int flags);
int file_stat_error(client *c, const char *path, int flags);
/* READ that must give that text. */
bool file_reads(client *c, const char *path, const char *text);
void file_send_data(client *c, uint64_t op, const char *p, size_t len,
                    bool more);
int file_write_mode(client *c, const char *path, const char *text, int flags,
                    int mode);
int file_write(client *c, const char *path, const char *text, int flags);
int file_rename(client *c, const char *a, const char *b, int flags);
/* A number of the ENTRY of a STAT. */
uint64_t entry_number(const frame *f, uint16_t tag);

#endif /* AGENT_FILES_H */
