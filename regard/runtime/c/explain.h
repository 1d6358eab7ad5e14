/* Sentences that say what is wrong. */

#ifndef REGARD_EXPLAIN_H
#define REGARD_EXPLAIN_H

#include <stddef.h>

/* Writes a formatted sentence into `error`, if there is one. */
void explain(char *error, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
