/* SPDX-License-Identifier: MIT */
/*
 * The temporary directory of a test and the files in it: one a program, whose
 * globals these are.
 */
#ifndef TEST_DIR_H
#define TEST_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

extern char dir[64];

/* Makes it; false, and said, if it cannot be made. */
bool dir_make(void);
/* Removes it with all that is in it, whatever rights were taken away. */
bool dir_remove(void);

/* The path of a name there; one of four that take turns. */
const char *in_dir(const char *name);
void make_file(const char *name, const char *text, mode_t mode);
/* In place of what has the name. */
void make_link(const char *text, const char *name);
bool file_holds(const char *name, const char *text);
/* The rights alone; 0177777 if it is not there. */
mode_t file_mode(const char *name);
/* Of a directory; -2 if it is not there. */
int count_entries(const char *name);

/* Of any file: the bytes that were read, ended by a 0; -1 if it cannot be
 * opened. */
int read_file(const char *path, char *buf, size_t size);

#endif /* TEST_DIR_H */
