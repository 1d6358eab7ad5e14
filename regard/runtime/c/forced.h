/* Forced decoding of given targets, for their attention and hidden states; and word alignments from these. */

#ifndef REGARD_FORCED_H
#define REGARD_FORCED_H

#include "decoder.h"

typedef struct { /* a target, end of sentence not counted, and its source; what is recorded of it, as regard.h has it */
  const int32_t *source, *target;
  int64_t source_count, target_count;
  float **weights, **scores; /* (layers); NULL: not asked for */
  float *encoder_states, *decoder_states;
} Forced;

/* Records what the options ask for, of targets. Returns 0, or -1: no memory. */
int force_decode(Decoder *d, Forced *forced, int64_t count, const RegardOptions *options);
void free_forced(const RegardModel *m, Forced *forced);

/* Links between words of one translation. Returns 0, or -1: no memory. */
int align_words(const RegardModel *m, const Forced *forced, RegardLink **links, size_t *count);

#endif
