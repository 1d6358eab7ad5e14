/* Regard's runtime: translate text with a trained model from one file, without PyTorch.

   A model is opened from a runtime file (regard export RUN --to runtime FILE), which is mapped into memory, not copied:
   processes share it. All text is UTF-8. A model may be used by any number of threads at once; nothing is global.
   Functions that can fail return NULL (or a negative number) and write a sentence into `error`, which may be NULL. */

#ifndef REGARD_H
#define REGARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define REGARD_API __declspec(dllexport)
#else
#define REGARD_API __attribute__((visibility("default")))
#endif

#define REGARD_VERSION 3 /* of this interface */

typedef struct RegardModel RegardModel;
typedef struct RegardResult RegardResult;
typedef struct RegardStream RegardStream;
typedef struct RegardQueue RegardQueue;

typedef struct { /* how to search; regard_options fills in the model's own settings */
  int32_t beam;            /* 1: greedy */
  int32_t nbest;           /* hypotheses kept of each line, 1 to beam */
  double length_penalty;   /* alpha of ((5 + length) / 6)^alpha */
  double max_ratio;        /* a target has at most this many tokens for each source token … */
  int32_t max_extra;       /* … plus this many */
  int32_t min_length;      /* fewest tokens, end of sentence not counted */
  int32_t max_length;      /* most tokens; -1: no limit of its own */
  int32_t no_repeat_ngram; /* size of n-grams that may not occur twice; 0: any may */
  int32_t max_line;        /* most characters of a line */
  int32_t max_whole;       /* most tokens of a line of a model that does not know its longest source */
  int32_t threads;         /* to translate with */
  int32_t attention;       /* record attention, scores and weights: 0 none, 1 cross-attention, 2 every layer */
  int32_t alignments;      /* extract word alignments, by the layer and head that the model names */
  int32_t trace;           /* record the search, of one line at a time */
  int32_t split;           /* translate each sentence of a line by itself */
  int32_t sample;          /* draw `beam` samples instead of searching; the rest is for these alone */
  double temperature;      /* above 0; below 1 likely tokens become likelier */
  double top_p;            /* only the likeliest tokens that have this probability; 0: all */
  int64_t seed;
  int32_t top_k;           /* only so many likeliest tokens; 0: all */
  int32_t states;          /* record the hidden states of a recurrent encoder and decoder, sampled or not */
} RegardOptions;

typedef struct { /* a word or phrase that a target must hold: one of its forms, which are sequences of tokens */
  const int32_t *ids;     /* of all forms, one after another */
  const int32_t *sizes;   /* of each form */
  int32_t forms;          /* that may stand anywhere, at least 1; the size of the first is that of the term */
  int32_t initial_forms;  /* after these: that may stand at the start of the target alone */
  const uint8_t *may_follow; /* (target vocabulary) whether a token may come next, so that the last word is whole; NULL: any */
} RegardTerm;

typedef struct { /* a token that would complete a forbidden word or phrase after these bytes of the target */
  const char *before;
  int32_t size, token;
  int32_t at_boundary; /* only if no letter or digit stands before the bytes */
  int32_t reserved;
} RegardCompletion;

typedef struct { /* what is asked of the target of one source; all zero: nothing */
  const int32_t *prefix; /* tokens that it begins with, whose log-probabilities count as those of any others; before what no_repeat_ngram bans */
  size_t prefix_size;
  const RegardTerm *terms; /* that it holds */
  size_t term_count;
  const RegardCompletion *banned; /* sorted by their number of bytes and then by the bytes; any number of sources may share them */
  size_t banned_count;
  int64_t max_steps;     /* most tokens, end of sentence included; 0: as the options say, and the tokens of prefix and terms on top */
  uint64_t sampling_key; /* what its samples depend on, besides the seed; of lines it is made from the tokens of each part */
} RegardConstraints;

typedef struct { /* a sentence of a line, or a part of a long one, and its translation; without letters it is copied */
  double score;
  const char *source, *text; /* not NUL-terminated */
  const char *repetition;    /* a text that the translation repeats over and over, a sign of failure; NULL: it does not */
  size_t source_size, text_size;
  int32_t repetitions;       /* how often it does */
} RegardPart;

typedef struct { /* a layer of attention */
  const char *name;
  int32_t role;  /* 0: of the encoder, 1: cross-attention, 2: of the decoder */
  int32_t heads;
} RegardLayer;

typedef struct { /* attention of one layer for one translation: (heads, rows, columns) */
  const float *weights; /* NULL: not recorded */
  int32_t heads, rows, columns;
  const float *scores;  /* that softmax makes these weights of; −INFINITY: of what a row does not attend to */
} RegardAttention;

typedef struct { /* hidden states of the highest layers for one translation */
  const float *encoder; /* (source, directions, encoder_size) after each source token, forwards and then backwards; NULL: not recorded, or not recurrent */
  const float *decoder; /* (target, decoder_size) that each target token is predicted from, end of sentence last; of a decoder that is not recurrent its features; NULL: not recorded */
  const float *initial; /* (decoder_size) the decoder's state before the first token; NULL: not recorded, or not recurrent */
  int32_t source, directions, encoder_size, target, decoder_size;
  int32_t attends_first; /* the decoder attends by the state before, and the context enters the next one (Bahdanau) */
} RegardStates;

typedef struct { /* what an encoder made of a source, for models whose encoder runs elsewhere; a size 0 means none */
  const float *outputs;  /* (entries, output_size), which the decoder attends to */
  const float *embedded; /* (entries, embedded_size) source embeddings, of decoders that add them */
  const float *summary;  /* (summary_size) that the decoder's first state is made from */
  int64_t entries;
  int64_t length;        /* in tokens, as max_ratio counts them */
  int64_t output_size, embedded_size, summary_size;
} RegardEncoded;

typedef struct { int32_t source, target; } RegardLink; /* between words, counted from 0 */

typedef struct { /* a translation of a line */
  double score;
  const char *text;
  const int32_t *tokens;
  const float *log_probs; /* of each of these tokens, after those before it; end of sentence, which the score counts, is not there */
  const RegardLink *links; /* sorted as Translator sorts them; NULL: not asked for */
  const RegardPart *parts; /* of the line, as this hypothesis has them */
  size_t text_size, token_count, link_count;
  int32_t is_complete; /* whether it holds all terms that its target must hold; those that do not rank last */
  int32_t is_recorded; /* whether regard_attention or regard_states have something of it */
} RegardHypothesis;

typedef struct { /* a line that was translated */
  const int32_t *source; /* its tokens, end of sentence last; none if it is empty, or was split */
  const char *note; /* what a caller may want to tell about it, such as that a sentence is longer than any in training: sentences, one a line; NULL: nothing */
  size_t source_count;
  int32_t hypotheses, parts;
} RegardLine;

typedef struct { /* a token that could come next after one of the open hypotheses of a step */
  int32_t row;     /* of the hypothesis among the open ones, from 0 */
  int32_t token;
  int32_t fate;    /* of the hypothesis with this token: 0 pruned, 1 kept, 2 ended */
  int32_t reserved;
  double log_prob; /* of the token */
  double total;    /* of the hypothesis with it */
} RegardCandidate;

/* --- models */

REGARD_API RegardModel *regard_open(const char *path, char *error, size_t error_size);
/* From memory that stays as it is until the model is closed, aligned to 64 bytes. */
REGARD_API RegardModel *regard_open_memory(const void *data, size_t size, char *error, size_t error_size);
REGARD_API void regard_close(RegardModel *model);
/* Whether the file is as it was when it was opened; if not (0), results that were not taken before are wrong. Another
   file may have its name. A file is mapped, so a new one is to be written beside it and renamed, never into it. */
REGARD_API int regard_is_unchanged(const RegardModel *model);
/* The card: JSON with data, licence, languages, hashes and scores. */
REGARD_API const char *regard_card(const RegardModel *model, size_t *size);
/* What tells the model's languages apart: JSON that regard/data/language_id.py reads. NULL: the file has none. */
REGARD_API const char *regard_languages(const RegardModel *model, size_t *size);
REGARD_API void regard_options(const RegardModel *model, RegardOptions *options);
/* Whether the model is recurrent: the sum of 1 for its encoder and 2 for its decoder. */
REGARD_API int32_t regard_recurrence(const RegardModel *model);
REGARD_API int32_t regard_layers(const RegardModel *model);
REGARD_API RegardLayer regard_layer(const RegardModel *model, int32_t number);
/* The tokens of a line as the model reads it, end of sentence last. Returns their number; negative: an error. */
REGARD_API int64_t regard_encode(const RegardModel *model, const char *text, size_t size, int32_t *ids, size_t capacity);
/* The tokens of a text as the beginning of a target, without end of sentence, for a prefix. Returns as regard_encode. */
REGARD_API int64_t regard_encode_target(const RegardModel *model, const char *text, size_t size, int32_t *ids, size_t capacity);
/* The word that each token belongs to, from 0; -1: end of sentence, which is no word. 0, or negative: an error. */
REGARD_API int regard_words(const RegardModel *model, int is_target, const int32_t *ids, size_t count, int32_t *words);
/* The text of tokens, NUL-terminated, to be freed with regard_free_text; NULL: there is no memory. */
REGARD_API char *regard_decode(const RegardModel *model, int is_target, const int32_t *ids, size_t count, size_t *size);
REGARD_API void regard_free_text(char *text);
REGARD_API const char *regard_token(const RegardModel *model, int is_target, int32_t id, size_t *size);

/* --- translation */

/* Translate lines. Empty lines stay empty. A line that cannot be translated (not UTF-8, too long) is an error of the
   whole call, which names the first such line, from 1. `constraints`: of each line; NULL: none. Of a line that is split a
   prefix is the beginning of the first part, sentences stay together then, and banned phrases are those of every part; a
   line with terms is not split, and has at most `max_whole` tokens. */
REGARD_API RegardResult *regard_translate(
    RegardModel *model, const char *const *lines, const size_t *sizes, size_t count, const RegardConstraints *constraints,
    const RegardOptions *options, char *error, size_t error_size);
/* The same for sources that are token ids already, end of sentence last: each is searched whole, and its target may be empty
   if `min_length` lets it. Without constraints the sampling keys are made from the tokens. */
REGARD_API RegardResult *regard_translate_ids(
    RegardModel *model, const int32_t *const *ids, const size_t *counts, size_t count, const RegardConstraints *constraints,
    const RegardOptions *options, char *error, size_t error_size);
/* The same for sources that an encoder has read already, as captioners do, and models whose file has no encoder. What the
   decoder does not need may be missing. Neither attention, alignments nor states are recorded. */
REGARD_API RegardResult *regard_translate_encoded(
    RegardModel *model, const RegardEncoded *sources, size_t count, const RegardConstraints *constraints,
    const RegardOptions *options, char *error, size_t error_size);
REGARD_API void regard_free(RegardResult *result);

/* The same as regard_translate, step by step, for a caller who may give it up by freeing the result. Everything is copied,
   and nothing is decoded yet. */
REGARD_API RegardResult *regard_begin(
    RegardModel *model, const char *const *lines, const size_t *sizes, size_t count, const RegardConstraints *constraints,
    const RegardOptions *options, char *error, size_t error_size);
/* Begins a few more parts of the lines, and decodes a token of each that is begun, on the thread that calls. Returns how many
   parts are not done; 0: the result is there; -1: there is no memory, and the result can only be freed. */
REGARD_API int64_t regard_step(RegardResult *result);

REGARD_API size_t regard_count(const RegardResult *result); /* lines */
/* A line and its hypothesis of a rank, best first; valid until the result is freed. */
REGARD_API const RegardLine *regard_line(const RegardResult *result, size_t line);
REGARD_API const RegardHypothesis *regard_hypothesis(const RegardResult *result, size_t line, int32_t rank);
/* Of a line that was split into parts neither attention nor states are there. */
REGARD_API RegardAttention regard_attention(const RegardResult *result, size_t line, int32_t rank, int32_t layer);
REGARD_API RegardStates regard_states(const RegardResult *result, size_t line, int32_t rank);

/* --- the search, step by step, if `trace` asked for it */

/* Steps of the search of the line; 0 if it was not recorded, or if the line is empty or was split. */
REGARD_API size_t regard_steps(const RegardResult *result);
/* Hypotheses that were open before a step, best first, and the tokens of one of them: as many as there were steps before. */
REGARD_API size_t regard_open_hypotheses(const RegardResult *result, size_t step);
REGARD_API void regard_open_tokens(const RegardResult *result, size_t step, size_t row, int32_t *ids);
/* The eight likeliest tokens after each of these, and end of sentence: the hypotheses with them, likeliest first. */
REGARD_API const RegardCandidate *regard_candidates(const RegardResult *result, size_t step, size_t *count);

/* --- streaming: greedily, word by word */

/* `constraints` may be NULL; terms and banned phrases stay the caller's until the end, here and below. */
REGARD_API RegardStream *regard_stream(
    RegardModel *model, const char *line, size_t size, const RegardConstraints *constraints, const RegardOptions *options,
    char *error, size_t error_size);
/* What the translation grows by, valid until the next call; NULL at its end, and with size 1 if there is no memory. */
REGARD_API const char *regard_next(RegardStream *stream, size_t *size);
/* The same for one source in token ids, end of sentence last. */
REGARD_API RegardStream *regard_stream_ids(
    RegardModel *model, const int32_t *const *ids, const size_t *count, const RegardConstraints *constraints,
    const RegardOptions *options, char *error, size_t error_size);
/* The same for a source that is encoded already, which stays where it is until the stream is freed. */
REGARD_API RegardStream *regard_stream_encoded(
    RegardModel *model, const RegardEncoded *source, const RegardConstraints *constraints, const RegardOptions *options, char *error,
    size_t error_size);
/* The tokens of the target after one more step; NULL after the last, and with count 1 if there is no memory. */
REGARD_API const int32_t *regard_next_tokens(RegardStream *stream, size_t *count);
/* Whether the target holds all terms, at the end. */
REGARD_API int regard_stream_is_complete(const RegardStream *stream);
REGARD_API void regard_stream_free(RegardStream *stream);

/* --- calls from many threads, searched together: continuous batching. Not in WebAssembly. */

/* Starts threads that translate what is submitted. A queue may be used by any number of threads. */
REGARD_API RegardQueue *regard_queue_open(RegardModel *model, int32_t threads, char *error, size_t error_size);
/* Stops its threads, and gives up what is not done; then nobody may be waiting for results. */
REGARD_API void regard_queue_close(RegardQueue *queue);
/* Hands over what regard_translate takes. Everything is copied.
   Sentences of all calls share steps; a call of many lines does not keep others waiting. Returns 0, or -1 with a sentence as
   regard_translate does. */
REGARD_API int regard_queue_submit(
    RegardQueue *queue, uint64_t ticket, const char *const *lines, const size_t *sizes, size_t count,
    const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size);
/* The same for what regard_translate_ids takes, and regard_translate_encoded. */
REGARD_API int regard_queue_submit_ids(
    RegardQueue *queue, uint64_t ticket, const int32_t *const *ids, const size_t *counts, size_t count,
    const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size);
REGARD_API int regard_queue_submit_encoded(
    RegardQueue *queue, uint64_t ticket, const RegardEncoded *sources, size_t count, const RegardConstraints *constraints,
    const RegardOptions *options, char *error, size_t error_size);
/* Gives up a call: its sentences leave at the next step, and there will be no result unless there is one already. */
REGARD_API void regard_queue_cancel(RegardQueue *queue, uint64_t ticket);
/* Waits for the next call that is done; its result belongs to the caller. A result that is NULL: there was not enough
   memory for the call. Returns 1, or 0 if none was done in `seconds`, or the queue was closed. */
REGARD_API int regard_queue_take(RegardQueue *queue, double seconds, uint64_t *ticket, RegardResult **result);
/* The same for the call of a ticket. */
REGARD_API int regard_queue_take_one(RegardQueue *queue, double seconds, uint64_t ticket, RegardResult **result);

#ifdef __cplusplus
}
#endif

#endif
