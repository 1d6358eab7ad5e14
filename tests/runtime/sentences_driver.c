/* The ends of the sentences of a line, and its parts, for test_c_sentences.py. */

#include "tokenizer.h"

static int encode_characters(const Tokenizer *t, const char *text, size_t size, TokenBuffer *out);
#define tokenizer_encode encode_characters
#include "splitter.c"

/* One token for each character but for the spaces at the end. */
static int encode_characters(const Tokenizer *t, const char *text, size_t size, TokenBuffer *out) {
  (void)t;
  while (size && text[size - 1] == ' ') size--;
  out->size = 0;
  for (size_t i = 0; i < size; i++) out->size += ((uint8_t)text[i] & 0xc0) != 0x80;
  return 0;
}

int64_t line_ends(const char *line, size_t size, size_t *out) {
  Splitter s = {.line = line, .size = size};
  Ends ends = {0};
  int failed = sentence_ends(&s, &ends);
  for (size_t i = 0; i < ends.count; i++) out[i] = ends.data[i];
  int64_t count = failed ? -1 : (int64_t)ends.count;
  free(ends.data);
  return count;
}

/* Where the parts of a line end, which lie side by side, and the notes, in `capacity` bytes with a NUL behind them. */
int64_t line_parts(const char *line, size_t size, int64_t longest, int each_sentence, int64_t line_clauses, size_t *out, char *notes, size_t capacity) {
  Splitter s = {.line = line, .size = size, .longest = longest, .each_sentence = each_sentence, .line_clauses = line_clauses};
  Parts parts = {0};
  int failed = split_line(&s, &parts);
  for (size_t i = 0; i < parts.count; i++) out[i] = parts.data[i].end;
  int64_t count = failed || s.notes.size >= capacity ? -1 : (int64_t)parts.count;
  if (count >= 0 && s.notes.size) memcpy(notes, s.notes.data, s.notes.size);
  notes[count >= 0 ? s.notes.size : 0] = 0;
  free(parts.data), splitter_free(&s);
  return count;
}
