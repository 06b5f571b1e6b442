/* SPDX-License-Identifier: MIT */
/* Names of signals. */
#ifndef PCO_SIGNALS_H
#define PCO_SIGNALS_H

#define PCO_N_SIGNALS 31 /* those with a name of their own: 1 .. 31 */

/* "SIGKILL"; real-time ones as "SIGRTMIN+1".  Static or thread-local text. */
const char *pco__signal_name(int signo);
/* The number of "TERM" or "SIGTERM", or 0. */
int pco__signal_number(const char *name);

#endif /* PCO_SIGNALS_H */
