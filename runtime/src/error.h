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

#include "portico/portico.h" /* the codes */

typedef struct pco__error {
  int code;                 /* < 0 */
  uint32_t source;          /* PCO_SOURCE_* */
  bool retryable;           /* doing the same again may work */
  bool spawn;               /* a command could not be started: SpawnError */
  const char *limit;        /* static: which limit was hit, or NULL */
  const char *stage;        /* static: what failed of a start, or NULL */
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
/* The error of a call that did not end within the seconds it was given; 0: it
 * was not to wait. */
pco__error *pco__error_late(double seconds);
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
