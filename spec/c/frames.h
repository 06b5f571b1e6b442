/* SPDX-License-Identifier: MIT */
/*
 * All types of frames and all tags of wire.h, for tests that are to try every
 * one.  A switch over the lists makes the compiler tell which is missing.
 */
#ifndef FRAMES_H
#define FRAMES_H

#include "../../runtime/agent/wire.h"

#define FRAMES_TYPES(X)                                                        \
  X(HELLO)                                                                     \
  X(PING)                                                                      \
  X(INFO)                                                                      \
  X(SHUTDOWN)                                                                  \
  X(KILL_ALL)                                                                  \
  X(CANCEL)                                                                    \
  X(SPAWN)                                                                     \
  X(SIGNAL)                                                                    \
  X(KILL)                                                                      \
  X(LISTENS)                                                                   \
  X(STAT)                                                                      \
  X(LIST)                                                                      \
  X(READ)                                                                      \
  X(WRITE)                                                                     \
  X(MKDIR)                                                                     \
  X(REMOVE)                                                                    \
  X(RENAME)                                                                    \
  X(RESIZE)                                                                    \
  X(CLOSE_OUTPUT)                                                              \
  X(INPUT)                                                                     \
  X(CLOSE_INPUT)                                                               \
  X(ADOPT)                                                                     \
  X(CHMOD)                                                                     \
  X(CHOWN)                                                                     \
  X(SYMLINK)                                                                   \
  X(MKTEMP)                                                                    \
  X(USAGE)                                                                     \
  X(COPY)                                                                      \
  X(COMMANDS)                                                                  \
  X(OPEN)                                                                      \
  X(FILE_READ)                                                                 \
  X(FILE_WRITE)                                                                \
  X(FILE_TRUNCATE)                                                             \
  X(FILE_SYNC)                                                                 \
  X(FILE_STAT)                                                                 \
  X(FILE_CLOSE)                                                                \
  X(WATCH)                                                                     \
  X(EVENTS)                                                                    \
  X(PACK)                                                                      \
  X(UNPACK)                                                                    \
  X(SURVEY)                                                                    \
  X(CREDIT)                                                                    \
  X(DATA)                                                                      \
  X(OUTPUT)                                                                    \
  X(REPLY)                                                                     \
  X(ERROR)                                                                     \
  X(STARTED)                                                                   \
  X(EXIT)

#define FRAMES_TAGS(X)                                                         \
  X(VERSION_MIN)                                                               \
  X(VERSION_MAX)                                                               \
  X(VERSION)                                                                   \
  X(PID)                                                                       \
  X(UID)                                                                       \
  X(COUNT)                                                                     \
  X(FLAGS)                                                                     \
  X(TIMEOUT)                                                                   \
  X(GRACE)                                                                     \
  X(STDIO)                                                                     \
  X(SIGNO)                                                                     \
  X(TARGET)                                                                    \
  X(CODE)                                                                      \
  X(SIGNAL)                                                                    \
  X(REASON)                                                                    \
  X(DURATION)                                                                  \
  X(SURVIVOR)                                                                  \
  X(ERRNO)                                                                     \
  X(STAGE)                                                                     \
  X(OFFSET)                                                                    \
  X(LENGTH)                                                                    \
  X(MODE)                                                                      \
  X(TYPE)                                                                      \
  X(SIZE)                                                                      \
  X(GID)                                                                       \
  X(MTIME)                                                                     \
  X(LIMIT)                                                                     \
  X(LIMIT_MEMORY)                                                              \
  X(LIMIT_PIDS)                                                                \
  X(LIMIT_CPUS)                                                                \
  X(LIMIT_OPEN_FILES)                                                          \
  X(PORT)                                                                      \
  X(COLS)                                                                      \
  X(ROWS)                                                                      \
  X(STREAM)                                                                    \
  X(EOF)                                                                       \
  X(ALLOCATED)                                                                 \
  X(DIRECTORIES)                                                               \
  X(LAST_OP)                                                                   \
  X(ARGV)                                                                      \
  X(ENV)                                                                       \
  X(CWD)                                                                       \
  X(USER)                                                                      \
  X(HOME)                                                                      \
  X(PATH)                                                                      \
  X(TARGET_PATH)                                                               \
  X(MESSAGE)                                                                   \
  X(NAME)                                                                      \
  X(LINK)                                                                      \
  X(DATA)                                                                      \
  X(ENTRY)                                                                     \
  X(EVENT)                                                                     \
  X(COMMAND)

#define FRAMES_TYPE(name) PCO_WIRE_##name,
#define FRAMES_TAG(name)  PCO_TAG_##name,

static const uint16_t frames_types[] = {FRAMES_TYPES(FRAMES_TYPE)};
static const uint16_t frames_tags[] = {FRAMES_TAGS(FRAMES_TAG)};

#define FRAMES_N_TYPES (sizeof frames_types / sizeof *frames_types)
#define FRAMES_N_TAGS  (sizeof frames_tags / sizeof *frames_tags)

#define FRAMES_CASE_TYPE(name) case PCO_WIRE_##name:
#define FRAMES_CASE_TAG(name)  case PCO_TAG_##name:

/* -Wswitch: a type that wire.h has and the list has not does not compile. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
static inline bool frames_has_type(enum pco_wire_type type) {
  switch (type) { FRAMES_TYPES(FRAMES_CASE_TYPE) return true; }
  return false;
}

static inline bool frames_has_tag(enum pco_wire_tag tag) {
  switch (tag) { FRAMES_TAGS(FRAMES_CASE_TAG) return true; }
  return false;
}
#pragma GCC diagnostic pop

#endif /* FRAMES_H */
