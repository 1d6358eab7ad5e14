/* Opens damaged tables, and uses those that are not refused: FILE MUTATIONS SEED. Compiled with sanitizers. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"

static uint64_t state;

static uint32_t draw(void) { /* xorshift64* */
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (uint32_t)(state * 2685821657736338717u >> 32);
}

static const char *const LINES[] = {
    "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
    "나는 집에 간다 \xe6\xbc\xa2\xe5\xad\x97 \xef\xac\x81 \xe2\x91\xa0 <br>abc a\xcc\x81\xcc\xa7\xf0\x9f\x98\x80",
    ">>eng<< the children walk <unk> <0x41>\xef\xb7\x91\xef\xb7\x90",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabababababab",
    "",
};

static void use(const Tokenizer *tokenizer) {
  TokenBuffer tokens = {0};
  TextBuffer text = {0};
  int32_t words[64], ids[64];
  size_t size;
  for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
    tokenizer_encode(tokenizer, LINES[i], strlen(LINES[i]), &tokens);
    tokenizer_language_code(tokenizer, LINES[i], strlen(LINES[i]));
  }
  for (size_t i = 0; i < tokens.size; i++)
    if (tokens.data[i] < 0 || tokens.data[i] >= tokenizer_size(tokenizer)) abort();
  for (int i = 0; i < 64; i++) ids[i] = (int32_t)(draw() % (uint32_t)(tokenizer_size(tokenizer) + 2)) - 1;
  for (int i = 0; i < 64; i++) tokenizer_piece(tokenizer, ids[i], &size);
  tokenizer_decode(tokenizer, ids, 64, &text);
  if (tokens.size) tokenizer_decode(tokenizer, tokens.data, tokens.size, &text);
  tokenizer_word_indices(tokenizer, ids, 64, words);
  tokens_free(&tokens);
  text_free(&text);
}

/* Changes some bytes, numbers or bits, now and then in the header; or copies numbers. Returns the new size. */
static size_t mutate(unsigned char *blob, size_t size) {
  uint32_t changes = draw() % 3 ? 1 : 1 + draw() % 4;
  while (changes--) {
    size_t at = draw() % 8 ? draw() % size : draw() % (size < 256 ? size : 256);
    switch (draw() % 5) {
      case 0: blob[at] = (unsigned char)draw(); break;
      case 1: blob[at] ^= (unsigned char)(1u << draw() % 8); break;
      case 2: {
        uint32_t number = draw() % 2 ? draw() : draw() % 1024;
        if (at + 4 <= size) memcpy(blob + at / 4 * 4, &number, 4);
        break;
      }
      case 3: {
        size_t other = draw() % size / 4 * 4, target = at / 4 * 4, most = size - (target > other ? target : other);
        size_t bytes = 4 * (1 + draw() % 4);
        memmove(blob + target, blob + other, bytes < most ? bytes : most);
        break;
      }
      default: blob[at] = draw() % 2 ? 0 : 0xff;
    }
  }
  return draw() % 40 ? size : draw() % size;
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  FILE *file = fopen(arguments[1], "rb");
  if (!file) return 2;
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file);
  rewind(file);
  unsigned char *blob = malloc(size);
  if (!blob || fread(blob, 1, size, file) != size) return 2;
  fclose(file);
  long mutations = atol(arguments[2]), opened = 0;
  state = (uint64_t)atol(arguments[3]) * 0x9e3779b97f4a7c15u + 1;
  for (long i = 0; i < mutations; i++) {
    unsigned char *work = malloc(size);
    if (!work) return 2;
    memcpy(work, blob, size);
    size_t kept = i ? mutate(work, size) : size; /* the first is whole */
    unsigned char *damaged = malloc(kept ? kept : 1); /* of its own size, so that reading past it is noticed */
    if (!damaged) return 2;
    memcpy(damaged, work, kept);
    char error[160] = "";
    Tokenizer *tokenizer = tokenizer_open(damaged, kept, error, sizeof error);
    if (tokenizer) {
      use(tokenizer);
      opened++;
    } else if (!*error || i == 0) {
      return 3;
    }
    tokenizer_close(tokenizer);
    free(damaged);
    free(work);
  }
  free(blob);
  printf("%ld mutations, %ld of them opened\n", mutations, opened);
  return 0;
}
