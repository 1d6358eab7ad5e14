/* Results while they are made: sources read, searched by whoever has threads for it, put together. */

#ifndef REGARD_RESULT_H
#define REGARD_RESULT_H

#include "search.h"

typedef struct { /* lines, or else token ids, and the size of each; or sources that are encoded already */
  const char *const *lines;
  const int32_t *const *ids;
  const size_t *sizes;
  const RegardEncoded *encoded;
} Sources;

Sources encoded_sources(const RegardEncoded *encoded);
/* Reads sources: lines are tokenised, and split if they are long; NULL with a sentence if one cannot be translated. Encoded
   sources, terms and completions stay the caller's. */
RegardResult *result_open(
    RegardModel *model, Sources sources, size_t count, const RegardConstraints *constraints, const RegardOptions *options,
    char *error, size_t error_size);
/* Copies what is the caller's. Returns 0, or -1 if there is no memory. */
int result_copy(RegardResult *result);
/* The requests of all parts of its lines, to be searched in any order. */
Request *result_requests(RegardResult *result, int64_t *count);
/* Puts the lines together, once all requests are done. Returns 0, or -1 if there is no memory. */
int result_finish(RegardResult *result);

#endif
