/* Interface of the CPU kernels: programs of operations over registers, and the weights that they read. */

#ifndef REGARD_KERNELS_H
#define REGARD_KERNELS_H

#include <stdint.h>

#define LANES 16 /* numbers in a vector */
#define PANEL 64 /* columns of a weight computed together */
#define TILE 6   /* rows computed together: 24 of 32 vector registers hold sums, or 12 of 16 */

enum { FLOAT32, BFLOAT16, INT8 };
enum { NONE, RELU, GELU, SILU, TANH };
enum { EMBED, NORM, LINEAR, COPY, STORE_BLOCK, STORE_MEMORY, ENCODER_ATTENTION, CROSS_ATTENTION, CACHED_ATTENTION, ADDITIVE_ATTENTION, LOAD_STATE, GRU, LSTM, TANH_CELL, RNN, UNIT_NORM, GLU, MIX, WINDOW, PAST_WINDOW, GATE, TOP_TOKENS, LOG_SOFTMAX }; /* the last is in no file */

typedef struct { /* a weight (K, V) packed in panels of columns, with scales for int8 */
  int32_t precision, inputs, outputs, padded; /* `padded`: inputs rounded up to what one instruction takes */
  const void *panels;
  const float *scales;  /* (V) int8 only: value of one unit of each column */
  const int32_t *sums;  /* (V) int8 only: the sum of each column, times 128 */
  const float *bias;    /* (V) or NULL */
} Weight;

typedef struct {
  int32_t kind, source, target, extra; /* registers */
  int32_t column, size, heads, activation; /* first column of a part, its width */
  int64_t offset;                 /* of a part of the source register, a block or a memory, in numbers */
  float scale;
  int32_t extent;                 /* key size, attention window, convolution width, or kind of cell */
  const float *table, *second; /* embeddings without a table are read from the columns of `weight` */
  const Weight *weight;
} Operation;

typedef struct {
  int64_t rows;
  const int64_t *offsets; /* start of each register, for one row */
  const int64_t *widths;
  float *registers;
  const int64_t *tokens, *positions;
  const int64_t *starts; /* encoder: start of each sentence, and the end of the last */
  int64_t sentences;
  float *const *memories; /* source memory of each row, or of each sentence of an encoder */
  const int64_t *entries; /* its number of entries */
  float *const *past;     /* (rows, stride): the blocks of earlier steps, which are the KV cache */
  int64_t stride;
  const int64_t *lengths; /* number of blocks of each row */
  float *const *blocks;   /* (rows): where the output of this step goes, which later ones read */
  int64_t k;           /* number of likeliest tokens asked for */
  float *top_log_probs;          /* (rows, k) */
  int64_t *top_tokens;        /* (rows, k) */
  float *eos_log_probs;             /* (rows) */
  int64_t eos;
  const uint8_t *suppressed;   /* (vocabulary) mask of tokens left out of the top k, bit s for rows in state s; or NULL */
  const uint8_t *states;       /* (rows) 0 to 7; NULL: all 0 */
  float *partial;         /* (rows, parts, 3 + 2·k): results of each thread, before they are merged */
  const int32_t *copies;  /* (copy_count) tokens whose log-probabilities are asked for, too */
  int64_t copy_count;
  float *copy_log_probs;  /* (rows, copy_count) */
  float *const *recorded; /* (operations): where scores and weights of an attention go, (rows, heads, 2, recorded_stride); NULL: nowhere */
  int64_t recorded_stride;
} Context;

typedef struct Team Team;

typedef struct { /* the kernels for one level of processors */
  const char *level;
  Team *(*open)(int parts);
  void (*close)(Team *team);
  int (*parts)(const Team *team);
  int (*run)(Team *team, const Operation *operations, int64_t count, const Context *context); /* 0; -1: no memory */
  void (*pack)(const float *weight, int64_t V, int64_t K, int precision, void *panels, float *scales, int32_t *sums);
} Kernels;

/* Kernels of a level by name; NULL: of the level in use, which is the best that this processor has, or the one that the
   environment variable REGARD_LEVEL names. Returns NULL if this library or this processor has not that level. */
const Kernels *regard_kernels(const char *level);

/* Name of the level in use; NULL if REGARD_LEVEL names one that is not to be had, or the processor has not even the lowest. */
const char *regard_level(void);

/* Takes another level from now on; NULL: the best. Returns 0, or -1 if it is not to be had. */
int regard_use_level(const char *level);

/* Name of a level of this library, counted from the lowest, and whether this processor can run it; NULL past the last. */
const char *regard_level_at(int number, int *runs);

/* Hash of the sources of a ready-made library; empty if it was compiled for this machine. */
const char *regard_sources(void);

#endif
