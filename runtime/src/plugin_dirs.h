/* SPDX-License-Identifier: MIT */
/*
 * Where plugins are searched: the directories of PORTICO_PLUGIN_PATH, then the
 * one beside libportico.  The environment is read at each call and never in a
 * program with raised rights.
 */
#ifndef PCO_PLUGIN_DIRS_H
#define PCO_PLUGIN_DIRS_H

#include <stdbool.h>

/* Calls fn for every directory that is searched, in order, until it returns
 * true; returns what it returned last.  All are absolute; a relative entry of
 * the environment is passed over.  [any] */
bool pco__plugin_dirs(bool (*fn)(void *arg, const char *dir), void *arg);

#endif /* PCO_PLUGIN_DIRS_H */
