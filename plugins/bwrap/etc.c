/* SPDX-License-Identifier: MIT */
/*
 * See etc.h.
 */
#include "etc.h"

#include <string.h>

#include "bwrap.h"

static const struct {
  const char *path;
  const char *text;
} files[BWRAP_N_ETC] = {
    {"/etc/passwd", "root:x:0:0:root:/:/bin/sh\n" BWRAP_USER
                    ":x:1000:1000:" BWRAP_USER ":" BWRAP_HOME ":/bin/sh\n"
                    "nobody:x:65534:65534:nobody:/:/bin/false\n"},
    {"/etc/group", "root:x:0:\n" BWRAP_USER ":x:1000:\nnogroup:x:65534:\n"},
    {"/etc/hosts",
     "127.0.0.1 localhost " BWRAP_USER "\n::1 localhost " BWRAP_USER "\n"},
    {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
};

const char *bwrap_etc_path(int i) {
  return files[i].path;
}

int bwrap_etc_open(int i) {
  return bwrap_text_memfd("etc", files[i].text, strlen(files[i].text));
}
