/* SPDX-License-Identifier: MIT */
/*
 * Errors on the host side; see error.h.
 *
 * The one list of codes (own_codes) gives each its name, its text and the Lua
 * class that it becomes; libuv names and describes the rest, class_of_errno
 * sorts them.
 */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#define MAX_CHAIN 16

static const struct {
  int code;
  const char *name;
  const char *class_name;
  const char *text;
} own_codes[] = {
    {PCO_EUNSUPPORTED, "PCO_EUNSUPPORTED", "UnsupportedError",
     "this backend cannot do that"},
    {PCO_EUNAVAILABLE, "PCO_EUNAVAILABLE", "UnavailableError",
     "not available on this machine now"},
    {PCO_EGONE, "PCO_EGONE", "ConnectionError", "the sandbox is gone"},
    {PCO_ELIMIT, "PCO_ELIMIT", "LimitError", "a limit was reached"},
    {PCO_EBACKEND, "PCO_EBACKEND", "BackendError", "the backend failed"},
    {PCO_EINVAL, "PCO_EINVAL", "InvalidArgumentError", "bad argument"},
    {PCO_ECLOSED, "PCO_ECLOSED", "ClosedError", "it was closed"},
    {PCO_ECANCELED, "PCO_ECANCELED", "CancelledError", "cancelled"},
    {PCO_EINTERRUPTED, "PCO_EINTERRUPTED", "CancelledError", "interrupted"},
    {PCO_EPROTO, "PCO_EPROTO", "ProtocolError", "protocol error"},
    {PCO_EPLUGIN, "PCO_EPLUGIN", "PluginError", "the plugin was refused"},
    {PCO_EDEADLOCK, "PCO_EDEADLOCK", "DeadlockError",
     "nothing is left that could wake this task"},
    {PCO_ENOTASK, "PCO_ENOTASK", "UsageError", "waits outside run()"},
    {PCO_ENOYIELD, "PCO_ENOYIELD", "UsageError", "cannot wait here"},
    {PCO_ECOROUTINE, "PCO_ECOROUTINE", "UsageError",
     "cannot wait in this coroutine"},
    {PCO_ESYNC, "PCO_ESYNC", "UsageError", "sync call in an async task"},
    {PCO_EBUSY, "PCO_EBUSY", "UsageError", "in use"},
    {PCO_EFORKED, "PCO_EFORKED", "UsageError",
     "it belongs to the parent process"},
    {PCO_EFACADE, "PCO_EFACADE", "UsageError", "an object of the other facade"},
    {PCO_EDOT, "PCO_EDOT", "UsageError", "called with a dot"},
    {PCO_ESCOPE, "PCO_ESCOPE", "UsageError", "this scope has ended"},
    {PCO_ESIZE, "PCO_ESIZE", "UsageError", "a struct of the wrong size"},
    {PCO_ETHREAD, "PCO_ETHREAD", "UsageError",
     "called from another thread than the runtime's"},
    {PCO_EREENTRANT, "PCO_EREENTRANT", "UsageError",
     "called from inside a call that it must not be made in"},
    {PCO_ELUA, "PCO_ELUA", "UsageError", "Lua cannot do that"},
    {PCO_ELOOP, "PCO_ELOOP", "UsageError",
     "the host's loop has closed what was attached to it"},
    {PCO_ESLICE, "PCO_ESLICE", "LimitError",
     "the script ran too long without waiting"},
    {PCO_ETIMEDOUT, "PCO_ETIMEDOUT", "TimeoutError",
     "the command ran out of time"},
    {PCO_ECALLTIMEOUT, "PCO_ECALLTIMEOUT", "TimeoutError",
     "the call ran out of time"},
    {PCO_EEXIT, "PCO_EEXIT", "ExitError", "the command failed"},
    {PCO_ECONN, "PCO_ECONN", "ConnectionError", "the connection broke"},
};

static pco__error out_of_memory = {.code = UV_ENOMEM,
                                   .source = PCO_SOURCE_HOST};

static int own_index(int code) {
  for (size_t i = 0; i < sizeof own_codes / sizeof *own_codes; i++)
    if (own_codes[i].code == code)
      return (int)i;
  return -1;
}

int pco__own_code(int index) {
  size_t n = sizeof own_codes / sizeof *own_codes;
  return index >= 0 && (size_t)index < n ? own_codes[index].code : 0;
}

/* libuv names what it does not know by a string that it never frees. */
static bool uv_knows(int code) {
  char name[32];
  uv_err_name_r(code, name, sizeof name);
  return strncmp(name, "Unknown", 7) != 0;
}

const char *pco__code_name(int code) {
  int i = own_index(code);
  if (i >= 0)
    return own_codes[i].name;
  const char *name =
      uv_knows(code) ? uv_err_name(code) : strerrorname_np(-code);
  return name ? name : "EUNKNOWN";
}

const char *pco__code_text(int code) {
  int i = own_index(code);
  if (i >= 0)
    return own_codes[i].text;
  const char *text =
      uv_knows(code) ? uv_strerror(code) : strerrordesc_np(-code);
  return text ? text : "unknown error";
}

bool pco__out_of_descriptors(int code) {
  return code == UV_EMFILE || code == UV_ENFILE || code == -ETOOMANYREFS;
}

/* The agent, whose limits are its own, puts this into its text. */
const char *pco__error_remedy(const pco__error *err, char *buf, size_t size) {
  struct rlimit most;
  buf[0] = 0;
  if (err->source == PCO_SOURCE_AGENT || err->source == PCO_SOURCE_REMOTE)
    return buf;
  if (err->code == UV_EMFILE && getrlimit(RLIMIT_NOFILE, &most) == 0)
    snprintf(buf, size,
             " (this program may have %llu: close what is not needed, or raise "
             "that, ulimit -n)",
             (unsigned long long)most.rlim_cur);
  else if (err->code == UV_ENFILE)
    snprintf(buf, size, " (of all programs: raise the sysctl fs.file-max)");
  return buf;
}

static const char *class_of_errno(int code) {
  if (pco__out_of_descriptors(code))
    return "LimitError";
  switch (code) {
  case UV_ENOENT:
  case UV_ESRCH:
    return "NotFoundError";
  case UV_EEXIST:
    return "AlreadyExistsError";
  case UV_EACCES:
  case UV_EPERM:
  case UV_EROFS:
    return "PermissionError";
  case UV_ENOSPC:
  case UV_ENOMEM:
  case UV_EAGAIN:
  case -122: /* EDQUOT, which libuv does not name */
    return "LimitError";
  case UV_EINVAL:
    return "InvalidArgumentError";
  case UV_ECANCELED:
    return "CancelledError";
  default:
    return "SystemError";
  }
}

const char *pco__error_class(const pco__error *err) {
  if (err->spawn && !pco__out_of_descriptors(err->code))
    return "SpawnError";
  int i = own_index(err->code);
  return i >= 0 ? own_codes[i].class_name : class_of_errno(err->code);
}

static char *copy_or_null(const char *s) {
  return s ? strdup(s) : NULL;
}

pco__error *pco__error_new(int code, uint32_t source, const char *path,
                           const char *fmt, ...) {
  pco__error *err = calloc(1, sizeof *err);
  if (!err)
    return &out_of_memory;
  err->code = code;
  err->source = source;
  err->path = copy_or_null(path);
  if (pco__out_of_descriptors(code)) {
    err->limit = "open_files";
    err->retryable = true;
  }
  if (fmt) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    err->message = strdup(text);
  }
  return err;
}

pco__error *pco__error_no_memory(void) {
  return pco__error_new(UV_ENOMEM, PCO_SOURCE_HOST, NULL, NULL);
}

pco__error *pco__error_late(double seconds) {
  return pco__error_new(PCO_ECALLTIMEOUT, PCO_SOURCE_HOST, NULL,
                        seconds > 0 ? "the call did not end within %g s" : NULL,
                        seconds);
}

pco__error *pco__error_copy(const pco__error *err) {
  pco__error *copy = pco__error_new(err->code, err->source, err->path, NULL);
  if (copy == &out_of_memory)
    return copy;
  copy->message = copy_or_null(err->message);
  copy->spawn = err->spawn;
  copy->retryable = err->retryable;
  copy->limit = err->limit;
  copy->stage = err->stage;
  copy->cause = err->cause ? pco__error_copy(err->cause) : NULL;
  return copy;
}

pco__error *pco__error_because(pco__error *err, pco__error *cause) {
  if (err == &out_of_memory || err->cause)
    pco__error_free(cause);
  else
    err->cause = cause;
  return err;
}

void pco__error_take_message(pco__error *err, pco__error *from) {
  if (err == &out_of_memory || from == &out_of_memory || err->message)
    return;
  err->message = from->message;
  from->message = NULL;
}

pco__error *pco__error_from_abi(const pco_error *abi, int code) {
  pco__error *first = NULL;
  pco__error **link = &first;
  for (int i = 0; abi && i < MAX_CHAIN; i++, abi = abi->cause) {
    pco__error *err = pco__error_new(abi->code < 0 ? abi->code : PCO_EBACKEND,
                                     abi->source, abi->path, NULL);
    if (err == &out_of_memory)
      return first ? first : err;
    err->message = copy_or_null(abi->message);
    if (abi->flags & PCO_ERROR_RETRYABLE)
      err->retryable = true;
    *link = err;
    link = &err->cause;
  }
  return first ? first : pco__error_new(code, PCO_SOURCE_PLUGIN, NULL, NULL);
}

void pco__error_free(pco__error *err) {
  while (err && err != &out_of_memory) {
    pco__error *cause = err->cause;
    free(err->message);
    free(err->path);
    free(err);
    err = cause;
  }
}
