/* Mutates a runtime file, repairs its checksum so that what lies behind it is reached, opens it, and translates with what
   opens. Usage: fuzz_runtime FILE FIRST COUNT. Sanitizers end the process at the first fault; the seed is printed before. */

#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t regard_checksum(const void *data, size_t size);

static uint64_t state;

static uint64_t draw(uint64_t below) { /* xorshift */
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state % below;
}

/* A place to damage: headers, settings, programs and tokenizers more often than the numbers, which are most of the file. */
static size_t place(const uint8_t *data, size_t size) {
  if (draw(8) == 0) return draw(size);
  uint32_t sections;
  memcpy(&sections, data + 32, 4);
  uint64_t offset, length;
  uint32_t kind, section = (uint32_t)draw(sections);
  memcpy(&kind, data + 64 + 24 * section, 4);
  memcpy(&offset, data + 64 + 24 * section + 8, 8), memcpy(&length, data + 64 + 24 * section + 16, 8);
  if (kind == 5 || !length || draw(6) == 0) return draw(64 + 24 * sections);
  return offset + draw(length < 4096 || draw(2) ? length : 4096);
}

static void damage(uint8_t *data, size_t size) {
  static const int64_t VALUES[] = {0, 1, -1, 2, 127, 128, 255, 256, 65535, 1 << 20, 1 << 24, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  uint8_t original[4096];
  size_t header = size < sizeof original ? size : sizeof original;
  memcpy(original, data, header); /* places are found by the table as it was */
  for (uint64_t times = 1 + draw(4); times; times--) {
    size_t at = place(original, size), width = (size_t)1 << draw(4);
    int64_t value = draw(2) ? VALUES[draw(sizeof VALUES / sizeof *VALUES)] : (int64_t)draw(UINT64_MAX);
    if (draw(3) == 0) data[at] ^= (uint8_t)(1 << draw(8));
    else if (at / width * width + width <= size) memcpy(data + at / width * width, &value, width);
  }
}

/* Reads all that is recorded of a search, and its first hypothesis. */
static double read_all(const RegardResult *r) {
  double sum = 0;
  size_t count, steps = regard_steps(r);
  int32_t *ids = malloc((steps + 1) * sizeof *ids);
  for (size_t step = 0; ids && step < steps; step++) {
    size_t rows = regard_open_hypotheses(r, step);
    const RegardCandidate *candidates = regard_candidates(r, step, &count);
    for (size_t row = 0; row < rows; row++) {
      regard_open_tokens(r, step, row, ids);
      for (size_t i = 0; i < step; i++) sum += ids[i];
    }
    for (size_t i = 0; i < count; i++) {
      if (candidates[i].row < 0 || (size_t)candidates[i].row >= rows || candidates[i].fate < 0 || candidates[i].fate > 2) abort();
      sum += candidates[i].log_prob + candidates[i].total;
    }
  }
  free(ids);
  for (int32_t rank = 0; rank < regard_line(r, 0)->hypotheses; rank++) {
    const RegardHypothesis *h = regard_hypothesis(r, 0, rank);
    for (size_t i = 0; i < h->token_count; i++) sum += (double)h->log_probs[i];
  }
  return sum;
}

static double sum_of(const float *numbers, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; numbers && i < count; i++) sum += (double)numbers[i];
  return sum;
}

/* Reads all attention and states of the first line, wherever they lie. */
static double read_recorded(const RegardModel *model, const RegardResult *r) {
  double sum = 0;
  for (int32_t rank = 0; rank < regard_line(r, 0)->hypotheses; rank++) {
    for (int32_t layer = 0; layer < regard_layers(model); layer++) {
      RegardAttention a = regard_attention(r, 0, rank, layer);
      sum += sum_of(a.weights, (int64_t)a.heads * a.rows * a.columns) + sum_of(a.scores, (int64_t)a.heads * a.rows * a.columns);
    }
    RegardStates s = regard_states(r, 0, rank);
    sum += sum_of(s.encoder, (int64_t)s.source * s.directions * s.encoder_size) + sum_of(s.decoder, (int64_t)s.target * s.decoder_size) + sum_of(s.initial, s.decoder_size);
  }
  return sum;
}

/* Continues a prefix of the library's own tokens, or of drawn ones, and records the search. */
static void use_prefix(RegardModel *model, const char *const *lines, const size_t *sizes, RegardOptions o) {
  static const char TEXT[] = "I was 집에";
  char error[512];
  int32_t ids[3][16] = {{0}};
  int64_t count = regard_encode_target(model, TEXT, sizeof TEXT - 1, ids[0], 16);
  RegardConstraints prefixes[3] = {
      {.prefix = ids[0], .prefix_size = count < 0 ? 0 : count > 4 ? 4 : (size_t)count},
      {.prefix = ids[1], .prefix_size = draw(3)},
      {.prefix = ids[2], .prefix_size = draw(16)}};
  for (int i = 1; i < 3; i++)
    for (int j = 0; j < 16; j++) ids[i][j] = draw(4) ? (int32_t)draw(300) : (int32_t)draw(UINT32_MAX);
  RegardResult *r = regard_translate(model, lines, sizes, 3, prefixes, &o, error, sizeof error);
  regard_free(r);
  r = regard_begin(model, lines, sizes, 3, prefixes, &o, error, sizeof error);
  for (uint64_t left = draw(40); r && left && regard_step(r) > 0; left--) { /* given up, or done */ }
  regard_free(r);
  o.trace = 1, o.beam = 1 + (int32_t)draw(12), o.nbest = 1;
  r = regard_translate(model, lines, sizes, 1, prefixes, &o, error, sizeof error);
  if (r) read_all(r);
  regard_free(r);
  r = regard_translate(model, lines + 1, sizes + 1, 1, NULL, &o, error, sizeof error);
  if (r) read_all(r);
  regard_free(r);
}

/* Numbers in memory of their own, so that a sanitizer sees what is read behind them. */
static float *draw_numbers(int64_t count) {
  float *numbers = malloc((size_t)count * sizeof *numbers);
  for (int64_t i = 0; numbers && i < count; i++) numbers[i] = draw(400) ? (float)draw(2000) / 1000 - 1 : draw(2) ? 1e30f : 0.0f / 0.0f;
  return numbers;
}

/* Translates what an encoder might have read: of the sizes that the model wants, or with a size or an array that is wrong. */
static void use_encoded(RegardModel *model, const RegardOptions *o) {
  static const int64_t WRONG[] = {0, -1, 1 << 21, INT64_MAX, INT64_MIN};
  const Program *memory = model->programs + MEMORY;
  int64_t outputs = memory->registers > 0 ? memory->widths[0] : 1, embedded = memory->registers > 1 ? memory->widths[1] : 1, summary = model->settings.summary_size;
  const int32_t prefix[] = {(int32_t)draw(300)};
  RegardConstraints constraints[3] = {{0}, {.prefix = prefix, .prefix_size = draw(2)}, {0}};
  char error[512];
  RegardEncoded sources[3];
  if (outputs > 1 << 16 || embedded > 1 << 16) return;
  for (int i = 0; i < 3; i++) {
    int64_t entries = 1 + (int64_t)draw(40);
    sources[i] = (RegardEncoded){draw_numbers(entries * outputs), draw_numbers(entries * embedded), draw_numbers(summary), entries, 1 + (int64_t)draw(9), outputs, embedded, summary};
  }
  for (int times = 0; times < 3; times++) {
    RegardEncoded wrong = sources[2];
    int64_t *sizes[] = {&wrong.entries, &wrong.length, &wrong.output_size, &wrong.embedded_size, &wrong.summary_size};
    const float **arrays[] = {&wrong.outputs, &wrong.embedded, &wrong.summary};
    if (times == 1) *sizes[draw(5)] = WRONG[draw(5)];
    if (times == 2) *arrays[draw(3)] = NULL;
    RegardEncoded together[] = {sources[0], sources[1], wrong};
    RegardResult *r = regard_translate_encoded(model, together, 3, draw(2) ? constraints : NULL, o, error, sizeof error);
    if (r) read_all(r);
    regard_free(r);
    size_t count;
    RegardStream *s = regard_stream_encoded(model, &wrong, constraints, o, error, sizeof error);
    while (s && regard_next_tokens(s, &count)) {}
    regard_stream_free(s);
  }
  regard_free(regard_translate_encoded(model, NULL, draw(3), NULL, o, error, sizeof error));
  for (int i = 0; i < 3; i++) free((void *)sources[i].outputs), free((void *)sources[i].embedded), free((void *)sources[i].summary);
}

/* Terms and completions, right ones and drawn ones; or what no caller should hand over. */
static void use_constraints(RegardModel *model, const char *const *lines, const size_t *line_sizes, RegardOptions o) {
  static uint8_t mask[1 << 20];
  char bytes[8] = "\xe2\x96 a0\x80z", error[512];
  int32_t source[2][6], prefix[3], forms[2][24], sizes[2][8];
  const int32_t *sources[2] = {source[0], source[1]};
  size_t counts[2] = {1 + draw(6), 1 + draw(6)};
  RegardTerm terms[2];
  RegardCompletion completions[24];
  size_t banned = draw(25);
  RegardConstraints c[2] = {{0}};
  for (size_t i = 0; i < 6; i++) source[0][i] = i + 1 < counts[0] ? 4 + (int32_t)draw(200) : 3, source[1][i] = i + 1 < counts[1] ? 4 + (int32_t)draw(40) : 3;
  for (size_t i = 0; i < sizeof mask; i += 1 + draw(64)) mask[i] = (uint8_t)draw(2);
  for (int i = 0; i < 3; i++) prefix[i] = 4 + (int32_t)draw(60);
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 24; j++) forms[i][j] = draw(64) ? 4 + (int32_t)draw(draw(2) ? 4 : 60) : (int32_t)draw(UINT32_MAX);
    for (int j = 0; j < 8; j++) sizes[i][j] = (int32_t)(draw(64) ? 1 + draw(3) : draw(2) ? 0 - draw(9) : INT32_MAX - draw(9));
    terms[i] = (RegardTerm){forms[i], sizes[i], 1 + (int32_t)draw(4), (int32_t)draw(5), draw(2) ? mask : NULL};
  }
  for (size_t i = 0; i < banned; i++) {
    int32_t size = (int32_t)(i * 4 / 24);
    completions[i] = (RegardCompletion){bytes + (i * 4 % 24 + 3) / 4 % 4, size, (int32_t)draw(300), (int32_t)draw(2), 0};
    for (size_t j = i; j > 0 && completions[j].size == completions[j - 1].size && size && memcmp(completions[j].before, completions[j - 1].before, (size_t)size) < 0; j--) {
      RegardCompletion other = completions[j];
      completions[j] = completions[j - 1], completions[j - 1] = other;
    }
  }
  for (int i = 0; i < 2; i++) c[i] = (RegardConstraints){draw(32) ? prefix : NULL, draw(3) ? 0 : draw(3), draw(32) ? terms : NULL, draw(3), draw(32) ? completions : NULL, draw(2) * banned, draw(4) ? 0 : (int64_t)draw(9), draw(1000)};
  o.alignments = o.attention = 0, o.sample = draw(3) == 0, o.temperature = 0.5 + (double)draw(3), o.top_p = draw(2) ? 0 : 0.7, o.top_k = draw(2) ? 0 : (int32_t)draw(90), o.seed = (int64_t)draw(9);
  if (o.sample && draw(8)) c[0].term_count = c[1].term_count = 0;
  o.beam = 1 + (int32_t)draw(6), o.nbest = 1;
  RegardResult *r = regard_translate_ids(model, sources, counts, 2, c, &o, error, sizeof error);
  if (r) read_all(r), regard_hypothesis(r, 1, 0);
  regard_free(r);
  o.trace = 1;
  r = regard_translate_ids(model, sources, counts, 1, draw(4) ? c : NULL, &o, error, sizeof error);
  if (r) read_all(r);
  regard_free(r);
  RegardStream *s = regard_stream_ids(model, sources, counts, c, &o, error, sizeof error);
  for (size_t count; s && regard_next_tokens(s, &count);) {}
  regard_stream_free(s);
  o.trace = 0;
  r = regard_translate(model, lines, line_sizes, 2, c, &o, error, sizeof error);
  if (r) read_all(r), regard_hypothesis(r, 1, 0);
  regard_free(r);
  s = regard_stream(model, lines[0], line_sizes[0], c, &o, error, sizeof error);
  for (size_t size; s && regard_next(s, &size);) {}
  if (s) regard_stream_is_complete(s);
  regard_stream_free(s);
}

static void use(RegardModel *model) {
  static const char *const LINES[] = {"나는 집에 간다", "I was eating bread.", "", "\xf0\x9f\x8e\x89 x", "책을 읽는다. 너는 집에 간다! I go home. you read a book"};
  size_t sizes[5], size;
  char error[512];
  RegardOptions o;
  for (int i = 0; i < 5; i++) sizes[i] = strlen(LINES[i]);
  regard_card(model, &size), regard_languages(model, &size);
  regard_options(model, &o);
  o.max_ratio = 1, o.max_extra = 3, o.min_length = 0, o.max_length = 6, o.beam = 3, o.nbest = 2, o.attention = 2;
  o.states = regard_recurrence(model) > 0, o.alignments = draw(2), o.no_repeat_ngram = (int32_t)draw(3), o.max_line = o.max_whole = 10000;
  RegardResult *r = regard_translate(model, LINES, sizes, 5, NULL, &o, error, sizeof error);
  if (r) read_recorded(model, r);
  regard_free(r);
  o.states = 0;
  use_prefix(model, LINES, sizes, o);
  for (int i = 0; i < 4; i++) use_constraints(model, LINES + 3, sizes + 3, o);
  RegardStream *s = regard_stream(model, LINES[0], sizes[0], NULL, &o, error, sizeof error);
  while (s && regard_next(s, &size)) {}
  regard_stream_free(s);
  o.attention = o.alignments = 0;
  use_encoded(model, &o);
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  FILE *file = fopen(arguments[1], "rb");
  if (!file) return 2;
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file);
  uint8_t *whole = malloc(size), *copy = aligned_alloc(64, (size + 63) / 64 * 64);
  rewind(file);
  if (!whole || !copy || fread(whole, 1, size, file) != size) return 2;
  fclose(file);
  long opened = 0, first = atol(arguments[2]), last = first + atol(arguments[3]);
  for (long seed = first; seed < last; seed++) {
    char error[512];
    size_t used = size;
    state = (uint64_t)seed * 0x9E3779B97F4A7C15u + 1;
    memcpy(copy, whole, size);
    damage(copy, size);
    if (draw(16) == 0) used = draw(size);
    if (used >= 64 && draw(8)) {
      uint64_t length = used, sum = regard_checksum(copy + 64, used - 64);
      memcpy(copy + 16, &length, 8), memcpy(copy + 24, &sum, 8);
    }
    fprintf(stderr, "%ld\r", seed);
    RegardModel *model = regard_open_memory(copy, used, error, sizeof error);
    if (model) opened++, use(model), regard_close(model);
  }
  printf("%ld mutations, %ld opened and used\n", last - first, opened);
  free(whole), free(copy);
  return 0;
}
