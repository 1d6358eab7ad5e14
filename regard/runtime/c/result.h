/* Results while they are made: lines read, searched by whoever has threads for it, put together. */

#ifndef REGARD_RESULT_H
#define REGARD_RESULT_H

#include "search.h"

typedef struct { /* tokens that the targets of lines begin with */
  const int32_t *const *ids;
  const size_t *counts;
} Prefixes;

/* Reads lines: tokenised, and split if they are long; `prefixes` may be NULL. NULL with a sentence if one cannot be translated. */
RegardResult *result_open(
    RegardModel *model, const char *const *lines, const size_t *sizes, size_t count, const Prefixes *prefixes,
    const RegardOptions *options, char *error, size_t error_size);
/* The requests of all parts of its lines, to be searched in any order. */
Request *result_requests(RegardResult *result, int64_t *count);
/* Puts the lines together, once all requests are done. Returns 0, or -1 if there is no memory. */
int result_finish(RegardResult *result);

#endif
