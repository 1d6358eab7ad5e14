/* Text to token ids and back, as the vocabularies of regard.data do, from one blob that token_tables.py writes.

   The blob is used where it lies, so it may be memory-mapped: nothing is copied. A Tokenizer never changes, so any
   number of threads may use it. Text is UTF-8; a NUL character in it is like any other. */

#ifndef REGARD_TOKENIZER_H
#define REGARD_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

typedef struct Tokenizer Tokenizer; /* immutable view of one blob, which must outlive it; thread-safe */

/* Grows; zero-initialised; data is NUL-terminated, size excludes it. */
typedef struct {
  char *data;
  size_t size, capacity;
} TextBuffer;

typedef struct {
  int32_t *data;
  size_t size, capacity;
} TokenBuffer;

/* Makes room for `count` items of a buffer that grows; 0, or -1: no memory. */
int reserve(void **data, size_t *capacity, size_t count, size_t item);
int add_token(TokenBuffer *tokens, int32_t token);

enum { TOKENIZER_OK = 0, TOKENIZER_NO_MEMORY = -1, TOKENIZER_NOT_UTF8 = -2 };

/* Checks all of the blob; one that is damaged gives NULL and a sentence. It has to be aligned to 8 bytes. */
Tokenizer *tokenizer_open(const void *data, size_t size, char *error, size_t error_size);
void tokenizer_close(Tokenizer *tokenizer);

int32_t tokenizer_size(const Tokenizer *tokenizer);

/* As Vocabulary.tokens: "▁" is the space; special ones are <pad> <unk> <s> </s>. NULL if there is no such id. */
const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id, size_t *size);

/* The byte that a token stands for, if it is one of byte fallback; -1 if it is not. */
int tokenizer_byte(const Tokenizer *tokenizer, int32_t id);

/* Each of these appends to `out`, which stays as it was if they fail. */

/* As regard.data.text.clean: NFC, each run of whitespace one space, none at the ends; in linear time. */
int text_clean(const char *text, size_t size, TextBuffer *out);

/* As Vocabulary.encode, `clean` included, without BOS and EOS. */
int tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t size, TokenBuffer *out);

/* As Vocabulary.decode, `clean` included. An id that no token has is decoded like UNK; bytes that form no
   character are left out. */
int tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, size_t count, TextBuffer *out);

/* Bytes of the language code that a clean line begins with, as Vocabulary.language_code; 0 if none. */
size_t tokenizer_language_code(const Tokenizer *tokenizer, const char *clean_text, size_t size);

/* As Vocabulary.word_indices of the tokens: the word of each token, counted from 0; -1 for PAD, BOS and EOS. */
int tokenizer_word_indices(const Tokenizer *tokenizer, const int32_t *ids, size_t count, int32_t *words);

/* The Unicode version that NFC is of. */
const char *unicode_version(void);

void text_free(TextBuffer *text);
void tokens_free(TokenBuffer *tokens);

#endif
