/* Forbidden phrases and required terms, as regard.search.logits_processors and regard.search.constraints have them. */

#ifndef REGARD_CONSTRAINTS_H
#define REGARD_CONSTRAINTS_H

#include "regard.h"
#include "tokenizer.h"

typedef struct Banned { /* completions of forbidden phrases, and the first of each number of bytes */
  const RegardCompletion *table;
  size_t count, *firsts, group_count, group_capacity;
  struct Banned *next;
} Banned;

/* Checks a table. NULL with a sentence if it is wrong, or without one if there is no memory. */
Banned *banned_open(const RegardCompletion *table, size_t count, int32_t vocabulary, char *error, size_t error_size);
void banned_free(Banned *banned);
/* Appends the tokens that would complete a phrase after these. `text`: for its own use. Returns 0, or -1: no memory. */
int banned_tokens(const Banned *b, const Tokenizer *target, const int32_t *ids, int64_t count, TextBuffer *text, TokenBuffer *tokens);

/* A state tells which terms a hypothesis holds, and which positions of their forms it has reached: see the functions. */
typedef struct {
  const RegardTerm *data;
  int64_t count, state_size; /* bytes of a state */
  int64_t required;          /* tokens of all terms: the number of the last bank */
} Terms;

Terms terms_of(const RegardTerm *terms, size_t count);
void terms_begin(const Terms *t, uint8_t *state);
/* The state after one more token. */
void terms_advance(const Terms *t, const uint8_t *state, int32_t token, uint8_t *next);
int terms_are_complete(const Terms *t, const uint8_t *state);
/* Whether a token may come next: end of sentence once all terms are there, after the last word of a term what lets it end. */
int terms_allow(const Terms *t, const uint8_t *state, int32_t token);
/* The required tokens that are there once this one is appended. */
int64_t terms_bank(const Terms *t, const uint8_t *state, int32_t token);
/* Sets `tokens` to those that begin a missing term or continue one. Returns 0, or -1: no memory. */
int terms_next(const Terms *t, const uint8_t *state, TokenBuffer *tokens);

/* Turns the numbers of candidates of each bank into those that are kept of it, `width` in all at most: each bank has the same
   share, the last one the remainder; what a bank cannot fill goes to the others, those with more of the required tokens first. */
void allocate_banks(int64_t *counts, int64_t last, int64_t width);

#endif
