/* SPDX-License-Identifier: MIT */
/*
 * What the making of an image waits for: a command in a sandbox of the
 * backend's own, the agent's program on the host, or time.  One at a time, on
 * the backend's loop.
 */
#ifndef BWRAP_IMAGE_STEP_H
#define BWRAP_IMAGE_STEP_H

#include <uv.h>

#include "../common/wait.h"
#include "keeper.h"
#include "portico/plugin.h"

typedef struct bwrap_step bwrap_step;
/* Called when it is over. */
typedef void (*bwrap_step_fn)(bwrap_step *s);

/* Lives in its owner, until it was closed. */
struct bwrap_step {
  pco_backend *backend;
  enum {
    BWRAP_STEP_NONE,
    BWRAP_STEP_SANDBOX,
    BWRAP_STEP_HOST,
    BWRAP_STEP_TIME
  } kind; /* of what is under way */
  bwrap_step_fn then;
  bwrap_keeper keeper; /* of the last sandbox */
  plugin_wait wait;
  uv_timer_t timer;
  int pidfd;
  int text;   /* what the last program on the host has printed; or -1 */
  int status; /* its exit status, -1 after a signal */
};

int bwrap_step_init(bwrap_step *s, pco_backend *b);
/* When nothing is under way.  on_closed is called later. */
void bwrap_step_close(bwrap_step *s, bwrap_step_fn on_closed);

void bwrap_step_time(bwrap_step *s, unsigned ms, bwrap_step_fn then);
/* Runs portico-agent with these words.  0 or a negative code. */
int bwrap_step_host(bwrap_step *s, const char *const *argv, bwrap_step_fn then);
/* Runs a command in a sandbox that can write in the directory `dir` only and
 * has `fd` as BWRAP_INPUT_FD.  0, or a negative code and *err. */
int bwrap_step_sandbox(bwrap_step *s, const char *const *argv, const char *dir,
                       int fd, bwrap_step_fn then, pco_error *err);
/* Ends what is under way, soon. */
void bwrap_step_hurry(bwrap_step *s);

/* The first line of what a program on the host has printed. */
void bwrap_step_text(const bwrap_step *s, char *out, size_t size);
/* The status of the command in the sandbox, or -1 if that failed. */
int bwrap_step_exit_code(const bwrap_step *s);
/* The last line of its standard error that says something. */
void bwrap_step_last_words(const bwrap_step *s, char *out, size_t size);

#endif /* BWRAP_IMAGE_STEP_H */
