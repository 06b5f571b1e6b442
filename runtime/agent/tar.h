/* SPDX-License-Identifier: MIT */
/*
 * Tar as Portico writes and reads it: ustar headers, with a pax header where a
 * name is long, a time has nanoseconds, or a file has holes (GNU's sparse
 * format 0.1).  Files, directories and symbolic links, nothing else.
 *
 * The reader does not trust what it reads: every length is checked before it is
 * used, nothing is allocated by a number that a header declares (but for a pax
 * header, up to PCO_TAR_MAX_PAX bytes), and what it does not know of kinds is
 * refused.  Records that it does not know (owners, extended attributes) are
 * skipped.
 *
 * Both sides wait by a function of their owner, which may end the wait.
 */
#ifndef PCO_TAR_H
#define PCO_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PCO_TAR_BLOCK    512u
#define PCO_TAR_BUFFER   (256u * 1024)
#define PCO_TAR_MAX_PAX  (1024u * 1024)
#define PCO_TAR_MAX_PATH (64u * 1024) /* with its NUL */
#define PCO_TAR_MAX_DATA 8192u        /* pieces of a file with holes */

/* Waits until fd can be read (POLLIN) or written (POLLOUT): 0, or a negative
 * errno that ends the work. */
typedef struct pco_tar_wait {
  int (*fn)(struct pco_tar_wait *w, int fd, short events);
} pco_tar_wait;

typedef enum pco_tar_type {
  PCO_TAR_FILE,
  PCO_TAR_DIRECTORY,
  PCO_TAR_LINK
} pco_tar_type;

typedef struct pco_tar_piece {
  uint64_t offset, size;
} pco_tar_piece;

typedef struct pco_tar_entry {
  pco_tar_type type;
  unsigned mode; /* permission bits, 0 .. 07777 */
  int64_t mtime; /* seconds since 1970 */
  uint32_t mtime_ns;
  uint64_t size;             /* as a reader of the file sees it */
  const char *path;          /* as it stands there; checked by nobody */
  const char *link;          /* of a link: its text */
  const pco_tar_piece *data; /* ascending; NULL: the file has no holes */
  size_t n_data;
  uint64_t stored;    /* bytes that follow in the tar */
  const char *digest; /* of the content, if somebody wrote one; or NULL */
} pco_tar_entry;

/* ---- writing ------------------------------------------------------------ */

typedef struct pco_tar_out {
  int fd; /* a pipe's end that does not block; borrowed */
  pco_tar_wait *wait;
  size_t len;
  uint8_t buf[PCO_TAR_BUFFER];
} pco_tar_out;

/* Writes the headers of an entry; `stored` bytes have to follow by
 * pco_tar_put() or pco_tar_put_file(), and then pco_tar_pad().  0 or a negative
 * errno. */
int pco_tar_header(pco_tar_out *t, const pco_tar_entry *e);
int pco_tar_put(pco_tar_out *t, const void *p, size_t len);
/* Puts `len` bytes of a file from its current offset on.  With `splice` its
 * pages go over without being copied.  *done says how many went; fewer than len
 * with 0 returned: the file is at its end. */
int pco_tar_put_file(pco_tar_out *t, int fd, uint64_t len, bool splice,
                     uint64_t *done);
int pco_tar_zeros(pco_tar_out *t, uint64_t len);
int pco_tar_pad(pco_tar_out *t, uint64_t stored);
/* The end of the archive. */
int pco_tar_finish(pco_tar_out *t);

/* ---- reading ------------------------------------------------------------ */

typedef struct pco_tar_in {
  int fd; /* a pipe's end that does not block; borrowed */
  pco_tar_wait *wait;
  uint64_t left;         /* of the entry: bytes not read yet */
  uint64_t pad;          /* and behind them */
  uint64_t header_bytes; /* of all headers, so far */
  const char *why;       /* what is wrong with it, for -EBADMSG; or NULL */
  char *path, *link;     /* of the entry; owned */
  char *digest;          /* owned */
  char *pax;             /* owned */
  pco_tar_piece *data;   /* owned; room for PCO_TAR_MAX_DATA */
  size_t at, len;
  bool ended;
  uint8_t buf[PCO_TAR_BUFFER];
} pco_tar_in;

/* `t` is zeroed, but for fd and wait: 0 or -ENOMEM. */
int pco_tar_in_init(pco_tar_in *t);
void pco_tar_in_deinit(pco_tar_in *t);
/* Skips what is left of the entry and reads the next: 1, 0 at the end of the
 * archive, -EBADMSG, -ENODATA if it ends too early, or what wait gave.  What e
 * points to is valid until the next call. */
int pco_tar_next(pco_tar_in *t, pco_tar_entry *e);
/* Reads up to `len` bytes of the entry's content into p: what came, 0 at its
 * end, or a negative errno. */
ssize_t pco_tar_read(pco_tar_in *t, void *p, size_t len);
/* Moves `len` bytes of it into a file, from its current offset on.  0, or a
 * negative errno; *writing tells whose: true, the file's. */
int pco_tar_copy(pco_tar_in *t, int fd, uint64_t len, bool *writing);

#endif /* PCO_TAR_H */
