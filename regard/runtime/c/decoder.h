/* Runs the programs of a model: encodes sources, steps hypotheses, finds the likeliest tokens. One decoder serves one
   thread at a time, and keeps its buffers from call to call. */

#ifndef REGARD_DECODER_H
#define REGARD_DECODER_H

#include "model.h"

#define BLOCK_START 16 /* numbers before a block: whoever owns it may mark it there */

typedef struct {
  float *data;
  size_t capacity;
} Floats;

typedef struct { /* an encoded source: keys and values of all its entries, and the decoder's initial state */
  float *memory;  /* NULL: the model has no attention */
  int64_t entries;
  float *initial; /* block before the first token; NULL: decoding begins without a state */
} Source;

typedef struct { /* the rows of one step, and what it finds; arrays of `rows` unless said otherwise */
  int64_t rows, capacity, stride, past_capacity, k, k_capacity;
  int64_t *tokens, *positions, *entries, *lengths;
  float **memories, **blocks;
  float **past; /* (rows, stride) blocks of each row, oldest first */
  float *log_probs; /* (rows, k) of the likeliest tokens, likeliest first */
  int64_t *top;     /* (rows, k) these tokens */
  float *eos_log_probs;
  float *copy_log_probs; /* (rows, copy tokens) if `has_copies` */
  int has_copies;
  uint8_t *states; /* of what each row has written: see utf8_next */
  float *partial;
} Step;

struct Decoder {
  RegardModel *model;
  Team *team;
  int threads;
  Floats encoder, memory, registers, logits; /* registers of the programs */
  Step step;
  float **free_blocks; /* blocks of the KV cache that no hypothesis refers to */
  size_t free_count, free_capacity;
  Decoder *next;
};

typedef struct { /* attention to record, scores and then weights: by operation of a program, (rows, heads, 2, stride) each */
  float **by_operation;
  int64_t stride;
} Recording;

/* Each returns 0, or -1 if there is no memory. */
int encode_sources(Decoder *d, const int32_t *const *ids, const int64_t *counts, int64_t sentences, Source *sources, const Recording *recording);
/* The same for sources that are encoded already. */
int take_encoded(Decoder *d, const RegardEncoded *const *encoded, const int64_t *counts, int64_t sentences, Source *sources);
int reserve_step(Decoder *d, int64_t rows, int64_t stride, int64_t k);
int run_step(Decoder *d, const Recording *recording, const float **features);
/* A register of a program that has just run with so many rows. */
float *register_of(const Floats *f, const Program *p, int64_t number, int64_t rows);
int find_top_tokens(Decoder *d, const float *features, int64_t k);

/* The log-probabilities (count, vocabulary) of all tokens after these rows, until the next call. */
int find_log_probs(Decoder *d, const float *features, const int64_t *rows, int64_t count, const float **log_probs);

void free_source(Source *source);
float *take_block(Decoder *d); /* NULL: no memory */
void give_block(Decoder *d, float *block);

#endif
