/* SPDX-License-Identifier: MIT */
/* What a caller of upload and download wishes, as the words that both agents
 * are asked with. */
#ifndef PCO_TRANSFER_ASK_H
#define PCO_TRANSFER_ASK_H

#include "transfer.h"

#define PCO__MAX_PATTERNS      500  /* of include, and of exclude */
#define PCO__MAX_PATTERN       1024 /* bytes of one */
#define PCO__MAX_PATTERN_BYTES (100u * 1024)

/* In the order of what the option may say. */
enum {
  PCO__LINKS_KEEP,
  PCO__LINKS_INSIDE,
  PCO__LINKS_FOLLOW,
  PCO__LINKS_REFUSE
};

typedef struct pco__transfer_wish {
  const char *const *include;
  size_t n_include;
  const char *const *exclude;
  size_t n_exclude;
  int symlinks; /* PCO__LINKS_* */
  bool skip;    /* what fails is left out and listed */
  bool parents; /* of the target are made */
  bool only_changed;
  bool checksum; /* how that compares */
  uint64_t max_entries;
  uint64_t max_bytes;
} pco__transfer_wish;

/* Puts it into the op, which knows the direction: 0; PCO_ELIMIT if the patterns
 * are more than PCO__MAX_PATTERN_BYTES; UV_ENOMEM.  [caller] */
int pco__transfer_ask(pco__transfer *t, const pco__transfer_wish *wish);

#endif /* PCO_TRANSFER_ASK_H */
