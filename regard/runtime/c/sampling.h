/* Sampling, as regard.search.sampling does it. */

#ifndef REGARD_SAMPLING_H
#define REGARD_SAMPLING_H

#include "regard.h"

/* What the samples of a source depend on, besides the seed, if its caller says nothing else. */
uint64_t sampling_key(const int32_t *ids, int64_t count);
/* A number in [0, 1) from seed, key, tokens so far and beam alone. */
double uniform(int64_t seed, uint64_t key, int64_t length, int64_t beam);
/* Draws one of `count` columns of scores, which are overwritten, by temperature, top_k and top_p; of −∞ none is drawn, and if
   there is nothing else the result is -1. `order` has room for as many. */
int64_t draw_column(float *scores, int64_t count, int32_t *order, const RegardOptions *o, double number);

#endif
