/* SPDX-License-Identifier: MIT */
/*
 * Exchanges two names all the time, until it is killed.  It sleeps a moment
 * after each exchange: who wakes up comes before who works, so the exchange
 * falls into the midst of what others do.
 *
 *   swap A B [A B ...]
 *
 * Says "swapping" once it does.  A pair of which one is missing for a moment is
 * tried again.
 */
#include "attack.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
  const struct timespec moment = {0, 20000};
  bool said = false;
  for (;;) {
    bool all = argc > 2;
    for (int i = 1; i + 1 < argc; i += 2)
      all &= renameat2(AT_FDCWD, argv[i], AT_FDCWD, argv[i + 1],
                       RENAME_EXCHANGE) == 0;
    if (all && !said) {
      puts("swapping");
      fflush(stdout);
      said = true;
    }
    if (!all && (argc < 3 || (errno != ENOENT && errno != EBUSY)))
      give_up("renameat2");
    nanosleep(&moment, NULL);
  }
}
