/* Results while they are made: lines read, searched by whoever has threads for it, put together. */

#ifndef REGARD_RESULT_H
#define REGARD_RESULT_H

#include "search.h"

typedef struct { /* what is asked of the targets of lines: constraints, or prefixes alone, or (all NULL) nothing */
  const RegardConstraints *constraints;
  const int32_t *const *prefixes;
  const size_t *prefix_sizes;
} LineConstraints;

/* Reads lines: tokenised, and split if they are long; NULL with a sentence if one cannot be translated. */
RegardResult *result_open(
    RegardModel *model, const char *const *lines, const size_t *sizes, size_t count, LineConstraints constraints,
    const RegardOptions *options, char *error, size_t error_size);
/* The requests of all parts of its lines, to be searched in any order. */
Request *result_requests(RegardResult *result, int64_t *count);
/* Puts the lines together, once all requests are done. Returns 0, or -1 if there is no memory. */
int result_finish(RegardResult *result);

#endif
