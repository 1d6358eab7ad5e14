/* Forced decoding of given targets, for their attention weights; and word alignments from these. */

#ifndef REGARD_FORCED_H
#define REGARD_FORCED_H

#include "decoder.h"

typedef struct { /* a target, end of sentence not counted, and its source; weights: of each layer, (heads, rows, columns) */
  const int32_t *source, *target;
  int64_t source_count, target_count;
  float **weights; /* (layers); NULL: not asked for */
} Forced;

/* Records the attention of targets. `role` 1: cross-attention only; 2: every layer. Returns 0, or -1: no memory. */
int force_decode(Decoder *d, Forced *forced, int64_t count, int which);
void free_forced(const RegardModel *m, Forced *forced);

/* Links between words of one translation. Returns 0, or -1: no memory. */
int align_words(const RegardModel *m, const Forced *forced, RegardLink **links, size_t *count);

#endif
