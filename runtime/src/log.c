/* SPDX-License-Identifier: MIT */
/* The bounded log queue; see log.h. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RECORDS 256
#define MAX_TEXT    1024

void pco__log_init(pco__log *log) {
  memset(log, 0, sizeof *log);
  log->last = &log->first;
  pthread_mutex_init(&log->lock, NULL);
}

void pco__log_deinit(pco__log *log) {
  unsigned dropped;
  pco__log_record *r = pco__log_take(log, &dropped);
  while (r) {
    pco__log_record *next = r->next;
    free(r);
    r = next;
  }
  pthread_mutex_destroy(&log->lock);
}

static void append(pco__log *log, pco__log_record *r) {
  pthread_mutex_lock(&log->lock);
  if (log->count < MAX_RECORDS && r) {
    *log->last = r;
    log->last = &r->next;
    log->count++;
    r = NULL;
  } else {
    log->dropped++;
  }
  pthread_mutex_unlock(&log->lock);
  free(r);
}

void pco__log_write(pco__log *log, int level, const char *fmt, ...) {
  if (!atomic_load(&log->enabled))
    return;
  char text[MAX_TEXT];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  size_t size = strlen(text) + 1;
  pco__log_record *r = malloc(sizeof *r + size);
  if (r) {
    r->next = NULL;
    r->level = level;
    memcpy(r->text, text, size);
  }
  append(log, r);
}

pco__log_record *pco__log_take(pco__log *log, unsigned *dropped) {
  pthread_mutex_lock(&log->lock);
  pco__log_record *first = log->first;
  *dropped = log->dropped;
  log->first = NULL;
  log->last = &log->first;
  log->count = 0;
  log->dropped = 0;
  pthread_mutex_unlock(&log->lock);
  return first;
}
