/* SPDX-License-Identifier: MIT */
/*
 * What the kernel counts for a user of the host together with everything in
 * the user namespaces that he made: a sandbox could take all of it, and leave
 * nothing to his other programs and sandboxes.
 */
#ifndef PCO_KEEPER_SHARES_H
#define PCO_KEEPER_SHARES_H

#include <stdint.h>

/* Before the user namespace is made: bounds what all sandboxes may have
 * together, and leaves a quarter of each limit to others. */
void pco_shares_leave(void);

/* In it, with all rights: bounds what this one sandbox may have, and to
 * `processes` (0: not) those of each id.  Nobody inside can raise that. */
void pco_shares_take(uint64_t processes);

#endif /* PCO_KEEPER_SHARES_H */
