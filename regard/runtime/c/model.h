/* A model in memory: programs and tokenizers of a runtime file, checked and ready to run. */

#ifndef REGARD_MODEL_H
#define REGARD_MODEL_H

#include "explain.h"
#include "kernels.h"
#include "regard.h"
#include "tokenizer.h"

#define PAD 0
#define UNK 1
#define BOS 2
#define EOS 3
#define FIRST_COPY 0xf1900 /* character of the first copy token: see regard.data.copy_tokens */
#define MOST_COPIES 24
#define MAX_STATES 32
#define MAX_COMPARED 250 /* hypotheses of a beam search */
#define MAX_SAMPLES 20000
#define MAX_LENGTH_PENALTY 10
#define MAX_RATIO 100

enum { ENCODER, MEMORY, INITIAL, STEP, TOP, PROGRAMS };

typedef struct { /* operations over registers; `count` 0: the model has no such program */
  Operation *operations;
  int64_t count, registers;
  int64_t *widths, *offsets; /* of registers; their starts, for one row */
  int64_t row_size;          /* numbers of all registers of a row */
} Program;

/* The section of settings, as it lies in the file. */
typedef struct {
  int32_t precision, source_vocabulary, target_vocabulary;
  int32_t source_positions, target_positions; /* that there are embeddings for; 0: the model has no positions */
  int32_t max_target;                         /* longest target, end of sentence included; -1: no limit */
  int32_t block, entry;                       /* numbers that a step leaves behind, and of one memory entry (0: no attention) */
  int32_t features, outputs, embedded;        /* registers of the step, and of the encoder */
  int32_t is_recurrent, needs_embeddings;
  int32_t states, direction_size;             /* registers that make the summary; 0: it is the mean of the outputs */
  int32_t state[MAX_STATES];
  int32_t summary_size;
  int32_t beam, max_extra, min_length, max_length, no_repeat_ngram, longest_source, max_line, max_whole;
  double length_penalty, max_ratio;
  int32_t aligned_layer, aligned_head, is_shifted, symmetry; /* layer -1: the middle one; head -1: the mean; symmetry: 0 none … */
  int32_t parameters_in_thousands;
  int32_t lines; /* of the training data: odd if they hold several sentences; half of it: clauses that nearly all have at most, 0 if unknown */
} Settings;

typedef struct { /* hidden states: `parts` of `size` numbers each, from a column of a register on; no parts: there are none */
  int64_t number, column, size, parts;
} StateColumns;

typedef struct { /* a layer of attention: which operation of which program computes it */
  int32_t program, operation, role, heads;
  int64_t name, name_size; /* in the section's text */
} LayerRecord;

typedef struct Decoder Decoder;

struct RegardModel {
  const uint8_t *data;
  size_t size;
  void *mapping; /* to be unmapped; NULL: the caller's memory */
  uint64_t checksum;
  void *sections[16]; /* of all parts but the numbers, by kind */
  const char *card;
  size_t card_size;
  const char *languages; /* NULL: none */
  size_t languages_size;
  Settings settings;
  Program programs[PROGRAMS];
  Weight *weights;
  int64_t weight_count;
  Tokenizer *source, *target;
  RegardLayer *layers;
  int32_t *layer_programs, *layer_operations;
  int32_t layer_count;
  StateColumns encoder_states, decoder_states; /* of the highest layers; the decoder has always some */
  int attends_first, has_initial_state; /* the recurrent decoder attends by the state before; blocks begin with its states */
  int32_t copies[MOST_COPIES]; /* the target's copy tokens */
  int64_t copy_count;
  int32_t *copy_targets; /* (source vocabulary) target token of each copy token, which stands for a span that is not language; PAD: of others */
  uint8_t *suppressed; /* (target vocabulary) bit s: never written by hypotheses in state s of utf8_next */
  const Kernels *kernels;
  struct DecoderPool *pool;
};

/* Decoders are made once for a thread, and used again. Returns NULL if there is no memory. */
Decoder *take_decoder(RegardModel *model, int threads);
void give_decoder(RegardModel *model, Decoder *decoder);
struct DecoderPool *pool_open(void);
void pool_close(struct DecoderPool *pool);

#endif
