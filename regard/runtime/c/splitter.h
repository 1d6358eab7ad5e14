/* Splits lines into sentences, and what is longer than any source in training between clauses, at spaces, or inside words. */

#ifndef REGARD_SPLITTER_H
#define REGARD_SPLITTER_H

#include "tokenizer.h"

typedef struct { /* a part of a line: the bytes [start, end) */
  size_t start, end;
} Part;

typedef struct {
  Part *data;
  size_t count, capacity;
} Parts;

typedef struct {
  const Tokenizer *tokenizer;
  const char *code; /* language code that every part is read with */
  size_t code_size;
  int64_t longest;  /* tokens, end of sentence included */
  int each_sentence; /* 0: only lines longer than that are split */
  int64_t line_clauses; /* that nearly all lines in training have at most; 0: unknown */
  const char *line;
  size_t size;
  TextBuffer text; /* scratch */
  TokenBuffer tokens;
  TextBuffer notes; /* what a caller may want to tell: sentences, one a line */
} Splitter;

/* Tokens of [start, end) of the line, end of sentence included; -1: no memory. */
int64_t splitter_length(Splitter *s, size_t start, size_t end);
/* Appends the parts of the line. Returns 0, or -1 if there is no memory. */
int split_line(Splitter *s, Parts *parts);
void splitter_free(Splitter *s);

/* Whether there is anything to translate. */
int has_letters(const char *text, size_t size);
/* Whether two texts, put side by side, have to be parted by a space. */
int wants_space(const char *left, size_t left_size, const char *right, size_t right_size);

#endif
