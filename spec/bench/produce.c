/* SPDX-License-Identifier: MIT */
/*
 * produce CHUNK TOTAL [packets]: writes TOTAL bytes to stdout, CHUNK at a time.
 * With `packets` the pipe keeps the writes apart, so that each read gets one
 * chunk however slow the reader is.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  size_t chunk = strtoul(argv[1], NULL, 10);
  size_t total = strtoul(argv[2], NULL, 10);
  if (argc > 3 && fcntl(STDOUT_FILENO, F_SETFL, O_DIRECT) != 0)
    return 3;
  char *data = calloc(1, chunk);
  if (data == NULL)
    return 4;
  while (total > 0) {
    size_t want = total < chunk ? total : chunk;
    ssize_t n = write(STDOUT_FILENO, data, want);
    if (n <= 0)
      return 5;
    total -= (size_t)n;
  }
  return 0;
}
