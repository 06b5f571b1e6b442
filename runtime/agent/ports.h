/* SPDX-License-Identifier: MIT */
/*
 * Which TCP ports are listened on, as /proc/net says: nobody is connected to,
 * so that a server which takes one client only is not disturbed.
 */
#ifndef PCO_PORTS_H
#define PCO_PORTS_H

#include <stdbool.h>

/* 1 if a socket of this network namespace listens on the port, by IPv4 or
 * IPv6; 0 if none does, or a negative errno. */
int pco_port_listens(unsigned port);
/* Whether a line of /proc/net/tcp is of a socket that listens on the port. */
bool pco_port_line(const char *line, unsigned port);

#endif /* PCO_PORTS_H */
