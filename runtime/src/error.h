/* SPDX-License-Identifier: MIT */
/*
 * Errors on the host side: a code, who said it, a line of text, what it is
 * about, and a chain of causes.  An error is one heap object with one owner;
 * it crosses threads by moving, never by sharing.
 */
#ifndef PCO_ERROR_H
#define PCO_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "portico/plugin.h"

/* Codes of the runtime's own, beside libuv's (UV_ENOENT ...) and those of
 * plugin.h.  Their names are the `code` field in Lua. */
enum {
  PCO_EINVAL = -11001,       /* a bad argument; InvalidArgumentError */
  PCO_ECLOSED = -11002,      /* used after close */
  PCO_ECANCELED = -11003,    /* cancelled by the script */
  PCO_EINTERRUPTED = -11004, /* cancelled by Ctrl-C */
  PCO_EPROTO = -11005,       /* the other side broke the protocol */
  PCO_EPLUGIN = -11006,      /* a plugin was refused or misbehaved */
  PCO_EDEADLOCK = -11007,    /* nothing can ever wake what waits */
  PCO_ENOTASK = -11008,      /* an async wait outside run() */
  PCO_ENOYIELD = -11009,     /* a wait where Lua cannot be suspended */
  PCO_ECOROUTINE = -11010,   /* a wait in a coroutine of the stock library */
  PCO_ESYNC = -11011,        /* a sync call inside an async task */
  PCO_EBUSY = -11012,        /* two readers, a portal in use */
  PCO_EFORKED = -11013,      /* used in a forked child of the host */
  PCO_EFACADE = -11014,      /* an object of the other facade */
  PCO_EDOT = -11015,         /* sb.exec for sb:exec */
  PCO_ETIMEDOUT = -11016,    /* a command ran out of time */
  PCO_ECALLTIMEOUT = -11017, /* a call ran out of time */
  PCO_EEXIT = -11018,        /* check: a non-zero exit; ExitError */
  PCO_ECONN = -11019,        /* the connection to the agent broke */
  PCO_ESCOPE = -11020        /* a scope used after it ended, or over a yield */
};

typedef struct pco__error {
  int code;                 /* < 0 */
  uint32_t source;          /* PCO_SOURCE_* */
  bool retryable;           /* doing the same again may work */
  bool spawn;               /* a command could not be started: SpawnError */
  const char *limit;        /* static: which limit was hit, or NULL */
  char *message;            /* owned; NULL: the code's own text */
  char *path;               /* owned; what it is about; or NULL */
  struct pco__error *cause; /* owned; or NULL */
} pco__error;

/* Makes an error; fmt may be NULL (then the code's own text is used).  Never
 * returns NULL: without memory a shared, static error says so. */
pco__error *pco__error_new(int code, uint32_t source, const char *path,
                           const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The error of an allocation that failed. */
pco__error *pco__error_no_memory(void);
/* A fresh copy of an error and its causes, for one more who is to hear of it.
 */
pco__error *pco__error_copy(const pco__error *err);
/* Makes an error of err and what caused it; takes cause (may be NULL). */
pco__error *pco__error_because(pco__error *err, pco__error *cause);
/* Moves the message of `from` to an error that has none. */
void pco__error_take_message(pco__error *err, pco__error *from);
/* Copies a borrowed chain from a plugin; at most 16 links are kept. */
pco__error *pco__error_from_abi(const pco_error *err, int code);
/* Frees a chain; NULL is allowed. */
void pco__error_free(pco__error *err);

/* The codes of own_codes, by index from 0; 0 behind the last. */
int pco__own_code(int index);
/* The stable name of a code: "ENOENT", "PCO_EGONE".  Static. */
const char *pco__code_name(int code);
/* The text of a code: "no such file or directory".  Static. */
const char *pco__code_text(int code);
/* True of the codes that say that there are no descriptors: EMFILE, ENFILE, and
 * ETOOMANYREFS (too many on their way in messages). */
bool pco__out_of_descriptors(int code);
/* What to do about an error, to be put behind its text; "" if there is nothing
 * to say.  Written to buf, which it returns. */
const char *pco__error_remedy(const pco__error *err, char *buf, size_t size);
/* The Lua class of an error: "NotFoundError".  Static. */
const char *pco__error_class(const pco__error *err);

#endif /* PCO_ERROR_H */
