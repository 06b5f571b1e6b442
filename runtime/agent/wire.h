/* SPDX-License-Identifier: MIT */
/* clang-format off: it would break the tables */
/*
 * The wire format between libportico and portico-agent.
 *
 * One frame format on every transport: a fixed 16-byte header, then a payload
 * of flat fields (tag, length, bytes).  Everything is little-endian.  Nothing
 * here allocates by a length or count that the other side declared: an encoder
 * writes into a buffer with a fixed bound, a decoder walks the payload in
 * place.  Neither side trusts the other; both call the same checks.
 *
 *   header   u32 size     bytes of payload, <= PCO_WIRE_MAX_PAYLOAD
 *            u16 type     PCO_WIRE_*
 *            u8  n_fds    descriptors that travel with this frame
 *            u8  flags    PCO_WIRE_MORE
 *            u64 op       which request this belongs to; 0 is never used
 *   field    u16 tag      PCO_TAG_*
 *            u16 zero
 *            u32 len
 *            len bytes    fixed by the tag's kind: 8 for a number
 *
 * Rules
 *   - The host numbers its requests from 1 upwards and never uses a number
 *     twice.  The agent answers each with exactly one final frame of the same
 *     op (REPLY, ERROR or what the table below says); frames before the final
 *     one carry PCO_WIRE_MORE.
 *   - A frame that breaks the format, an unknown type, a field of the wrong
 *     kind or size, a second answer or an answer of the wrong type ends the
 *     connection (a protocol error); nothing in it is used.
 *   - Unknown tags are skipped, so a field can be added; a field given twice
 *     where one is expected is an error.
 *   - Descriptors ride on the first byte of their frame (SCM_RIGHTS), at most
 *     PCO_WIRE_MAX_FDS; more is a protocol error.  A receiver without room
 *     for them answers EMFILE.  Only SPAWN, ADOPT, what moves contents by a
 *     pipe, and what moves trees (below) carry any, and only from host to
 *     agent.
 *   - HELLO, PING, INFO, SHUTDOWN and KILL_ALL are frozen for ever, so that
 *     any host can list and end a sandbox of any age.
 *
 * Requests (host to agent)          answered by
 *   HELLO     VERSION_MIN VERSION_MAX  REPLY: VERSION PID UID USER HOME CWD
 *                                   [LAST_OP] (of an agent with a door, below)
 *   PING                            REPLY
 *   INFO                            REPLY: VERSION PID COUNT (live commands)
 *   SHUTDOWN                        REPLY, then every process of the sandbox
 *                                   is killed and the stream ends
 *   KILL_ALL                        REPLY: SURVIVOR*; every command is dead
 *   CANCEL                          nothing; `op` is that of a file request
 *                                   (STAT .. RENAME, CHMOD ..), which is then
 *                                   answered at once: ERROR ECANCELED, or its
 *                                   real answer if that was on its way.  An
 *                                   unknown op is ignored
 *   COMMANDS                        REPLY: COMMAND, with MORE, one for each
 * that lives or of which is still known how it ended (below); then an empty one
 *   SPAWN     ARGV+ ENV* [CWD] [USER] FLAGS [TIMEOUT] [GRACE] STDIO x3
 *             [LIMIT_MEMORY] [LIMIT_PIDS] [LIMIT_CPUS] [LIMIT_OPEN_FILES]
 *             [COLS ROWS] (with PCO_STDIO_TERMINAL)
 *             USER is "USER" or "USER:GROUP", names or numbers
 *             descriptors: one for each STDIO that is PCO_STDIO_FD, in order
 *                                   STARTED: PID, later EXIT (final): CODE
 *                                   [SIGNAL] REASON [DURATION] [LIMIT]
 *                                   SURVIVOR*; or ERROR
 *   SIGNAL    TARGET SIGNO          REPLY or ERROR (ESRCH: it has ended)
 *   KILL      TARGET [GRACE] [REASON]  REPLY: SURVIVOR*, when the whole tree of
 *                                   that command is dead or could not be killed
 *                                   in time.  Works after EXIT too, as long as
 *                                   descendants live; else it is a quick REPLY
 *   LISTENS   PORT                  REPLY: COUNT, 1 if a TCP socket of the
 *                                   sandbox's network listens on that port,
 *                                   else 0; or ERROR
 *   RESIZE    TARGET COLS ROWS      REPLY or ERROR (ESRCH: it has ended;
 *                                   ENOTTY: the command has no terminal)
 *   CLOSE_OUTPUT  TARGET STREAM FLAGS  REPLY, after the end of that stream:
 *                                   what lies there now is sent before, within
 *                                   the credit; with PCO_CLOSE_NOW nothing is.
 *                                   ERROR EALREADY: another one waits for that
 *                                   end (PCO_CLOSE_NOW brings it for both)
 *   ADOPT     TARGET FLAGS          REPLY, or ERROR (ESRCH: it has ended)
 *             descriptors: one for each PCO_ADOPT_* in FLAGS, in order: ends
 *             that the host had, which are relayed from now on
 *   STAT      PATH FLAGS            REPLY: one ENTRY
 *   LIST      PATH FLAGS            REPLY: ENTRY*, frames with MORE first
 *   READ      PATH FLAGS [OFFSET] [LENGTH]
 *                                   DATA with MORE, the last without; with a
 *                                   pipe REPLY: LENGTH
 *   WRITE     PATH FLAGS [MODE] [USER]  then DATA frames of the same op from
 *                                   the host, the last without MORE, and at
 *                                   most PCO_WIRE_WRITE_WINDOW bytes ahead of
 *                                   what the agent says it took: REPLY with
 *                                   MORE, LENGTH.  REPLY or ERROR (an ERROR
 *                                   may come early; DATA that was sent by then
 *                                   is dropped).  With a pipe: LENGTH is how
 *                                   much comes through it, and no DATA does
 *   MKDIR     PATH FLAGS [MODE]     REPLY
 *   REMOVE    PATH FLAGS            REPLY
 *   RENAME    PATH TARGET_PATH FLAGS   REPLY
 *   CHMOD     PATH FLAGS MODE       REPLY
 *   CHOWN     PATH FLAGS USER       REPLY; USER is "USER", "USER:GROUP" or
 *                                   ":GROUP", names or numbers
 *   SYMLINK   PATH FLAGS TARGET_PATH   REPLY; a link PATH of that text
 *   MKTEMP    FLAGS NAME [PATH]     REPLY: PATH; the last '*' of NAME becomes
 *                                   random; PATH is the directory it is made
 *                                   in, $TMPDIR if not given
 *   USAGE     PATH FLAGS            REPLY: SIZE ALLOCATED COUNT DIRECTORIES
 *   COPY      PATH TARGET_PATH FLAGS   REPLY
 *   OPEN      PATH FLAGS [MODE]     REPLY: the file is open, and named by this
 *                                   op (TARGET) until FILE_CLOSE; or ERROR
 *   FILE_READ TARGET OFFSET LENGTH  DATA with MORE, the last without; with a
 *                                   pipe REPLY: LENGTH
 *   FILE_WRITE  TARGET OFFSET [DATA]  REPLY: LENGTH OFFSET (behind what was
 *                                   written); or ERROR: LENGTH is what was
 *                                   written before.  With a pipe: LENGTH
 *                                   instead of DATA
 *   FILE_TRUNCATE  TARGET SIZE      REPLY
 *   FILE_SYNC TARGET                REPLY
 *   FILE_STAT TARGET                REPLY: one ENTRY, without NAME
 *   FILE_CLOSE  TARGET              REPLY, also if it is not open any more
 *   WATCH     PATH FLAGS [DATA]     REPLY: the watch is on, and named by this
 *                                   op until FILE_CLOSE.  DATA are patterns,
 *                                   each with its NUL, and before it 'i' if it
 *                                   is of what is told, 'x' of what is not
 *   EVENTS    TARGET                REPLY: EVENT+, once there is one; without
 *                                   any when all was told and what is watched
 *                                   is gone; or ERROR (what was seen is kept)
 *   Any of these on a TARGET that is not open is ERROR EBADF.
 *   PACK      PATH FLAGS DATA       the tree is written as a tar (transfer.h)
 *             descriptors: the write end of a pipe, and, if what is there
 *             already is not to be packed, the read end of one with a SURVEY's
 *   UNPACK    PATH FLAGS DATA       such a tar is read and unpacked
 *             descriptors: the read end of a pipe
 *   SURVEY    PATH FLAGS DATA       as PACK, without what files hold
 *             descriptors: the write end of a pipe
 *             DATA of all three are words (transfer_words.h), each with its
 *             NUL                 REPLY: COUNT DIRECTORIES SIZE; before it some
 *                                   with MORE: PATH ERRNO [MESSAGE], what was
 *                                   left out; PATH SIZE COUNT, how far it is;
 *                                   LENGTH, bytes in all.  A CANCEL is answered
 *                                   when what was begun is removed
 *
 * Contents by a pipe: READ, WRITE, FILE_READ and FILE_WRITE may have one
 * descriptor, the end of a pipe that the host made; bytes then go through it
 * and not through frames.  The host holds the other end.  What was read is in
 * the pipe when the REPLY comes; of what is written, an end of the stream
 * before LENGTH bytes is ECANCELED, and a WRITE then changes nothing.
 *
 * A command is named by the op of its SPAWN, everywhere (TARGET).  EXIT comes
 * once the first process of the command has ended; its descendants may live on.
 *
 * Relayed streams: of a STDIO that is PCO_STDIO_RELAY the agent makes the pipe,
 * of PCO_STDIO_TERMINAL (then of all three) a terminal; its bytes travel in
 * frames that have the op of the SPAWN and answer nothing.  They come after
 * STARTED (but for the end that a CLOSE_OUTPUT asks for before), and may come
 * after EXIT.
 *   OUTPUT    STREAM OFFSET [DATA] [EOF]  agent to host.  Of a terminal it is
 *                                   stream 1.  OFFSET counts the bytes before
 *   CREDIT    STREAM LENGTH         host to agent: so many bytes more may come
 *   INPUT     DATA                  host to agent, for stdin or the terminal
 *   CREDIT    [LENGTH] [EOF]        agent to host: so many bytes of INPUT are
 *                                   gone; EOF: nobody reads stdin any more
 *   CLOSE_INPUT                     host to agent: the end of stdin (a terminal
 *                                   has none: there it is ignored)
 * Either side may send PCO_RELAY_CREDIT bytes of a stream before any CREDIT (of
 * outputs none with PCO_SPAWN_FLAG_UNREAD);
 * more than what was credited is a protocol error, and so is a credit for more
 * than PCO_MAX_CREDIT bytes of output that have not come.  Each output ends by
 * one OUTPUT with EOF, a relayed stdin by one CREDIT with EOF, and nothing of
 * it comes afterwards.  The end of a terminal's output is that of its input.
 * After an ERROR to the SPAWN no stream comes and none has to end.
 * With ADOPT the credit of all outputs of that command is over (what was sent
 * comes before the REPLY).  They are read all the same, so that the command is
 * not held back, and the newest PCO_RELAY_CREDIT bytes kept until there is
 * credit again: then OFFSET may leave bytes out.  Who has had all of them and
 * has credit left holds the command back again.
 *
 * An agent with a door (door.h) outlives its host: when the stream ends it lets
 * that host go and waits for another, which brings a stream of its own.
 *   - What the old one sent is still taken.  Then nothing more is said to it;
 *     file requests under way are cancelled, what is open is closed, a command
 *     that has not STARTED is killed, every relayed output is adopted (below:
 *     as by ADOPT), and its stdin stays open.
 *   - The first request of each host is HELLO, of any number, which is not
 *     counted.  LAST_OP in its REPLY is the highest number that was used
 * before, 0 at first; the host's next request has a higher one.
 *   - Of the commands of hosts before (TARGET <= LAST_OP) nothing is said to a
 *     new one until it has asked for COMMANDS, and it sends no frames of theirs
 *     before.  That REPLY tells how they are at that moment; afterwards an EXIT
 *     (final, without MORE), OUTPUT and CREDIT come of them as if they were its
 *     own.  It has PCO_RELAY_CREDIT of no output: what is in the ring comes
 *     when CREDIT allows it.
 *   - Other answers to a host that is gone are never sent to the next.
 *   COMMAND:  TARGET PID ARGV+ MTIME FLAGS OFFSET OFFSET [LENGTH]
 *             [CODE [SIGNAL] REASON DURATION [LIMIT]]
 *     TARGET   op of its SPAWN; they come in the order of these
 *     ARGV     the beginning, at most PCO_COMMAND_TEXT bytes in all
 *     MTIME    when it was started
 *     FLAGS    PCO_COMMAND_*
 *     OFFSET   of stdout (or the terminal), of stderr: that of the next OUTPUT
 *     LENGTH   with PCO_COMMAND_IN: bytes of INPUT that may come before any
 *              CREDIT
 *     CODE ..  if its first process has ended: as in EXIT, which does not come
 *              again.  Of those of which nothing lives any more the last
 *              PCO_COMMANDS_KEPT are known.
 *   Any host of such an agent may ask for COMMANDS at any time.
 *
 * Limits of a command hold for all that it starts, beside those of the sandbox.
 * What cannot be had is refused: an ERROR with STAGE = PCO_STAGE_LIMIT, LIMIT,
 * and as ERRNO EOPNOTSUPP (such a sandbox never can), ENODEV (this machine
 * gives no cgroup for it), ENOMEM or EAGAIN (there was no room to start). LIMIT
 * in an EXIT says that this limit was hit while the command ran: the kernel
 * killed one of its processes for want of memory, or refused a fork.  The
 * reason is PCO_REASON_OOM only if it was the first process that the kernel
 * killed so.
 *
 * Type numbers from 107 on are free.
 */
/* clang-format on */
#ifndef PCO_WIRE_H
#define PCO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCO_WIRE_VERSION      1u
#define PCO_WIRE_HEADER       16u
#define PCO_WIRE_N_FDS_AT     6u /* in the header */
#define PCO_WIRE_MAX_PAYLOAD  (4u * 1024 * 1024)
#define PCO_WIRE_MAX_DATA     (128u * 1024) /* bytes in one DATA frame */
#define PCO_WIRE_WRITE_WINDOW (512u * 1024) /* of DATA for one WRITE */
#define PCO_WIRE_MAX_FDS      3u
#define PCO_RELAY_CREDIT      (64u * 1024)        /* bytes, at the start */
#define PCO_MAX_CREDIT        (UINT64_C(1) << 30) /* in one frame, and in all */
#define PCO_COMMAND_TEXT      (32u * 1024)        /* of ARGV in a COMMAND */
#define PCO_COMMANDS_KEPT     256u                /* that have ended */
#define PCO_WIRE_MORE         1u /* header flag: not the last frame of this op */

/* spec/c/frames.h has them all, too. */
enum pco_wire_type {
  PCO_WIRE_HELLO = 1,
  PCO_WIRE_PING = 2,
  PCO_WIRE_INFO = 3,
  PCO_WIRE_SHUTDOWN = 4,
  PCO_WIRE_KILL_ALL = 5,
  PCO_WIRE_CANCEL = 8,
  PCO_WIRE_SPAWN = 16,
  PCO_WIRE_SIGNAL = 17,
  PCO_WIRE_KILL = 18,
  PCO_WIRE_LISTENS = 24,
  PCO_WIRE_STAT = 32,
  PCO_WIRE_LIST = 33,
  PCO_WIRE_READ = 34,
  PCO_WIRE_WRITE = 35,
  PCO_WIRE_MKDIR = 36,
  PCO_WIRE_REMOVE = 37,
  PCO_WIRE_RENAME = 38,
  PCO_WIRE_RESIZE = 40,
  PCO_WIRE_CLOSE_OUTPUT = 41,
  PCO_WIRE_INPUT = 42,
  PCO_WIRE_CLOSE_INPUT = 43,
  PCO_WIRE_ADOPT = 46,
  PCO_WIRE_OPEN = 48,
  PCO_WIRE_FILE_READ = 49,
  PCO_WIRE_FILE_WRITE = 50,
  PCO_WIRE_FILE_TRUNCATE = 51,
  PCO_WIRE_FILE_SYNC = 52,
  PCO_WIRE_FILE_STAT = 53,
  PCO_WIRE_FILE_CLOSE = 54,
  PCO_WIRE_WATCH = 55,
  PCO_WIRE_EVENTS = 59,
  PCO_WIRE_PACK = 56,
  PCO_WIRE_UNPACK = 57,
  PCO_WIRE_SURVEY = 58,
  PCO_WIRE_CHMOD = 100,
  PCO_WIRE_CHOWN = 101,
  PCO_WIRE_SYMLINK = 102,
  PCO_WIRE_MKTEMP = 103,
  PCO_WIRE_USAGE = 104,
  PCO_WIRE_COPY = 105,
  PCO_WIRE_COMMANDS = 106,
  /* both ways */
  PCO_WIRE_CREDIT = 44,
  PCO_WIRE_DATA = 60,
  /* agent to host */
  PCO_WIRE_OUTPUT = 45,
  PCO_WIRE_REPLY = 64,
  PCO_WIRE_ERROR = 65,
  PCO_WIRE_STARTED = 66,
  PCO_WIRE_EXIT = 67
};

/* The kind of a field is part of its tag, so that a decoder can check any
 * field before it knows what it means. */
#define PCO_TAG_NUMBER    0x1000 /* 8 bytes, unsigned or two's complement */
#define PCO_TAG_STRING    0x2000 /* bytes without NUL */
#define PCO_TAG_BYTES     0x3000 /* any bytes */
#define PCO_TAG_NEST      0x4000 /* fields, one level deep */
#define PCO_TAG_KIND(tag) ((tag)&0xf000)

enum pco_wire_tag {
  PCO_TAG_VERSION_MIN = PCO_TAG_NUMBER + 1,
  PCO_TAG_VERSION_MAX,
  PCO_TAG_VERSION,
  PCO_TAG_PID,
  PCO_TAG_UID,
  PCO_TAG_COUNT,
  PCO_TAG_FLAGS,    /* PCO_SPAWN_FLAG_* or PCO_FS_* of portico/plugin.h */
  PCO_TAG_TIMEOUT,  /* ns from the start of the command, > 0 */
  PCO_TAG_GRACE,    /* ns between TERM and KILL; 0: KILL at once */
  PCO_TAG_STDIO,    /* PCO_STDIO_*, three times: stdin, stdout, stderr */
  PCO_TAG_SIGNO,    /* 1 .. 64 */
  PCO_TAG_TARGET,   /* op of a SPAWN */
  PCO_TAG_CODE,     /* exit code 0 .. 255, or 128 + signal */
  PCO_TAG_SIGNAL,   /* 0, or the signal that ended it, 1 .. 64 */
  PCO_TAG_REASON,   /* PCO_REASON_* */
  PCO_TAG_DURATION, /* ns from start to exit */
  PCO_TAG_SURVIVOR, /* a pid, any number of times up to 64 */
  PCO_TAG_ERRNO,    /* Linux errno, 1 .. 4095 */
  PCO_TAG_STAGE,    /* PCO_STAGE_*: what failed in a SPAWN */
  PCO_TAG_OFFSET,   /* bytes */
  PCO_TAG_LENGTH,   /* bytes */
  PCO_TAG_MODE,     /* permission bits, 0 .. 07777 */
  PCO_TAG_TYPE,     /* PCO_FILE, PCO_DIRECTORY, PCO_SYMLINK, PCO_OTHER */
  PCO_TAG_SIZE,     /* bytes, <= INT64_MAX */
  PCO_TAG_GID,
  PCO_TAG_MTIME,        /* ns since 1970, signed */
  PCO_TAG_LIMIT,        /* PCO_LIMIT_*: which one was hit or cannot be had */
  PCO_TAG_LIMIT_MEMORY, /* bytes, > 0 */
  PCO_TAG_LIMIT_PIDS,   /* > 0; the first process counts */
  PCO_TAG_LIMIT_CPUS,   /* 1/1000 of a processor, > 0 */
  PCO_TAG_LIMIT_OPEN_FILES, /* of each process, > 0 */
  PCO_TAG_PORT,             /* 1 .. 65535 */
  PCO_TAG_COLS,             /* 1 .. 65535 */
  PCO_TAG_ROWS,             /* 1 .. 65535 */
  PCO_TAG_STREAM,           /* 1: stdout or the terminal, 2: stderr */
  PCO_TAG_EOF,              /* PCO_EOF_* */
  PCO_TAG_ALLOCATED,        /* bytes on the disk */
  PCO_TAG_DIRECTORIES,      /* how many */
  PCO_TAG_LAST_OP,          /* the highest number of a request, or 0 */

  PCO_TAG_ARGV = PCO_TAG_STRING + 1, /* repeated */
  PCO_TAG_ENV,                       /* repeated: "K=V", or "K" removes K */
  PCO_TAG_CWD,
  PCO_TAG_USER,
  PCO_TAG_HOME,
  PCO_TAG_PATH,
  PCO_TAG_TARGET_PATH,
  PCO_TAG_MESSAGE, /* one line for people */
  PCO_TAG_NAME,    /* of an entry: not empty, ".", ".." nor with '/' */
  PCO_TAG_LINK,    /* text of a symbolic link */

  PCO_TAG_DATA = PCO_TAG_BYTES + 1,

  PCO_TAG_ENTRY = PCO_TAG_NEST + 1, /* NAME TYPE SIZE MODE UID GID MTIME
                                       [LINK] */
  PCO_TAG_EVENT,                    /* TYPE (PCO_EVENT_*) [PATH] [TARGET_PATH]:
                                       below what is watched, not given for
                                       itself; of a rename also the old one */
  PCO_TAG_COMMAND                   /* above */
};

enum {
  PCO_STDIO_NULL,
  PCO_STDIO_FD,
  PCO_STDIO_MERGE, /* stderr to stdout */
  PCO_STDIO_RELAY,
  PCO_STDIO_TERMINAL, /* all three, or none */
  PCO_STDIO_CLOSED    /* reads, or writes, fail as if it were */
};
enum {
  PCO_SPAWN_FLAG_CLEAN_ENV = 1,
  PCO_SPAWN_FLAG_NO_ECHO = 2,
  /* Once its EXIT was sent and its streams have ended nobody asks for it any
   * more: no COMMAND tells of it. */
  PCO_SPAWN_FLAG_FORGET = 4,
  /* Of its outputs nothing comes before any CREDIT: what nobody has read when
   * the host goes is then in the rings. */
  PCO_SPAWN_FLAG_UNREAD = 8
};
enum { PCO_CLOSE_NOW = 1 };
/* FLAGS of a COMMAND. */
enum {
  PCO_COMMAND_OUT =
      1, /* stdout, or the terminal, is relayed and has not ended */
  PCO_COMMAND_ERR = 2,      /* the same of stderr */
  PCO_COMMAND_IN = 4,       /* INPUT may come: a relayed stdin that is open */
  PCO_COMMAND_TERMINAL = 8, /* it was started on one */
  PCO_COMMAND_MERGED = 16,  /* its stderr went to stdout from the start */
  PCO_COMMAND_LIVES = 32    /* processes of it may live, after its EXIT too */
};
enum { PCO_ADOPT_IN = 1, PCO_ADOPT_OUT = 2, PCO_ADOPT_ERR = 4 };
enum {
  PCO_EOF_END = 1,
  PCO_EOF_HELD = 2 /* it was given up, others hold it */
};
/* FLAGS of file requests beside PCO_FS_* of portico/plugin.h: what only agents
 * can do. */
enum {
  PCO_FS_IN_PLACE = 0x10000, /* write: into the file itself, not atomic */
  PCO_FS_SYNC = 0x20000,     /* write: on the disk before the answer */
  PCO_FS_DIRECTORY = 0x40000 /* mktemp: a directory */
};
/* FLAGS of OPEN beside those, and of PCO_FS_*: NOFOLLOW PARENTS APPEND. */
enum {
  PCO_OPEN_READ = 0x100000,
  PCO_OPEN_WRITE = 0x200000,
  PCO_OPEN_CREATE = 0x400000,
  PCO_OPEN_TRUNCATE = 0x800000,
  PCO_OPEN_EXCLUSIVE = 0x1000000
};
/* FLAGS of WATCH: PCO_FS_RECURSIVE and PCO_FS_NOFOLLOW. */
enum {
  PCO_EVENT_CREATE,
  PCO_EVENT_MODIFY,
  PCO_EVENT_REMOVE,
  PCO_EVENT_RENAME,
  PCO_EVENT_ATTRIBUTE,
  PCO_EVENT_RESCAN /* something was missed: look at everything again */
};
enum {
  PCO_REASON_EXITED,
  PCO_REASON_SIGNALED,
  PCO_REASON_TIMEOUT,
  PCO_REASON_KILLED,
  PCO_REASON_OOM /* signal 9 */
};
enum {
  PCO_LIMIT_NONE,
  PCO_LIMIT_MEMORY,
  PCO_LIMIT_PIDS,
  PCO_LIMIT_CPUS,
  PCO_LIMIT_OPEN_FILES
};
enum {
  PCO_STAGE_NONE,
  PCO_STAGE_EXEC,        /* the program: ENOENT, EACCES, ENOEXEC, E2BIG ... */
  PCO_STAGE_INTERPRETER, /* it is there, its loader or #! program is not */
  PCO_STAGE_CWD,
  PCO_STAGE_USER,
  PCO_STAGE_FORK, /* no process or descriptor left */
  PCO_STAGE_LIMIT /* a limit that cannot be had, or left no room */
};

typedef struct pco_wire_header {
  uint32_t size;
  uint16_t type;
  uint8_t n_fds;
  uint8_t flags;
  uint64_t op;
} pco_wire_header;

/* ---- encoding ----------------------------------------------------------- */

/* A frame being written.  Grows by realloc up to PCO_WIRE_MAX_PAYLOAD; the
 * first failure (no memory, too big, NUL in a string) sticks in `error` and
 * everything after it does nothing, so that callers check once. */
typedef struct pco_wire_buf {
  uint8_t *data; /* header and payload; owned by the buffer */
  size_t len;
  size_t cap;
  size_t nest; /* offset of the open ENTRY's length, or 0 */
  int error;   /* 0, -ENOMEM, -EMSGSIZE or -EINVAL */
} pco_wire_buf;

/* Starts a frame in b, which is zeroed or was used before (its memory is used
 * again). */
void pco_wire_begin(pco_wire_buf *b, uint16_t type, uint8_t flags, uint64_t op);
void pco_wire_number(pco_wire_buf *b, uint16_t tag, uint64_t value);
void pco_wire_string(pco_wire_buf *b, uint16_t tag, const char *s);
void pco_wire_bytes(pco_wire_buf *b, uint16_t tag, const void *p, size_t len);
void pco_wire_nest_begin(pco_wire_buf *b, uint16_t tag);
void pco_wire_nest_end(pco_wire_buf *b);
/* Writes the size and the count of descriptors into the header; returns 0, or
 * the first error. */
int pco_wire_end(pco_wire_buf *b, uint8_t n_fds);
/* Frees the memory; b may be used again. */
void pco_wire_buf_free(pco_wire_buf *b);

/* ---- decoding ----------------------------------------------------------- */

/* Reads a header from 16 bytes; returns 0, or -EPROTO if a bound is broken. */
int pco_wire_header_read(const uint8_t bytes[16], pco_wire_header *out);

/* A field: points into the payload. */
typedef struct pco_wire_field {
  uint16_t tag;
  uint32_t len;
  const uint8_t *data;
  uint64_t number; /* of a number field */
} pco_wire_field;

/* A walk over the fields of a payload. */
typedef struct pco_wire_iter {
  const uint8_t *at;
  const uint8_t *end;
  bool nested; /* true inside an ENTRY: a NEST field is then an error */
} pco_wire_iter;

void pco_wire_iter_init(pco_wire_iter *it, const void *payload, size_t len);
/* Gives the next field: 1, 0 at the end, -EPROTO if the payload is broken. */
int pco_wire_next(pco_wire_iter *it, pco_wire_field *out);
/* Starts a walk over the fields of a NEST field. */
void pco_wire_enter(pco_wire_iter *it, const pco_wire_field *nest);
/* Checks every field of a payload, nested ones too: 0 or -EPROTO. */
int pco_wire_check(const void *payload, size_t len);
/* True if the string field holds exactly one path component that may be in a
 * directory listing: not empty, ".", ".." nor with '/'. */
bool pco_wire_is_entry_name(const pco_wire_field *f);

#endif /* PCO_WIRE_H */
