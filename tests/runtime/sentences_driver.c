/* The ends of the sentences of a line, for test_c_sentences.py. */

#include "splitter.c"

int reserve(void **data, size_t *capacity, size_t count, size_t item) {
  if (count <= *capacity) return 0;
  *capacity = 2 * count, *data = realloc(*data, *capacity * item);
  return *data ? 0 : -1;
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
