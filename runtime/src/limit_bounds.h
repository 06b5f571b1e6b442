/* SPDX-License-Identifier: MIT */
/* What a limit of a command may be, whoever asks for it. */
#ifndef PCO_LIMIT_BOUNDS_H
#define PCO_LIMIT_BOUNDS_H

/* Less leaves no room to start a program; backends ask as much of a sandbox. */
#define PCO__LEAST_MEMORY (4 << 20)
#define PCO__LEAST_CPUS   0.001
#define PCO__MOST_CPUS    1e6

#endif /* PCO_LIMIT_BOUNDS_H */
