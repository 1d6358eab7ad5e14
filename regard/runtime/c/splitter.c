/* Splits long lines; see splitter.h. The rules are those of regard.pipeline.line_splitter. */

#include "splitter.h"
#include "decoder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE 2 /* a sentence up to this many times longer than the longest source in training stays whole */
#define SHOWN 40 /* characters of a sentence that a note quotes */

typedef struct { /* places where a text may be cut, as bytes of the line */
  size_t *data;
  size_t count, capacity;
} Ends;

static int add_end(Ends *ends, size_t end) {
  if (ends->count && ends->data[ends->count - 1] == end) return 0;
  if (reserve((void **)&ends->data, &ends->capacity, ends->count + 1, sizeof(size_t))) return -1;
  ends->data[ends->count++] = end;
  return 0;
}

static int add_part(Parts *parts, size_t start, size_t end) {
  if (reserve((void **)&parts->data, &parts->capacity, parts->count + 1, sizeof(Part))) return -1;
  parts->data[parts->count++] = (Part){start, end};
  return 0;
}

int append_text(TextBuffer *to, const char *text, size_t size) {
  if (reserve((void **)&to->data, &to->capacity, to->size + size + 1, 1)) return -1;
  if (size) memcpy(to->data + to->size, text, size);
  to->size += size;
  to->data[to->size] = 0;
  return 0;
}

void splitter_free(Splitter *s) { text_free(&s->text), tokens_free(&s->tokens), text_free(&s->notes); }

int64_t splitter_length(Splitter *s, size_t start, size_t end) {
  s->text.size = s->tokens.size = 0;
  if (append_text(&s->text, s->code, s->code_size) || append_text(&s->text, s->line + start, end - start)) return -1;
  if (tokenizer_encode(s->tokenizer, s->text.data, s->text.size, &s->tokens)) return -1;
  return (int64_t)s->tokens.size + 1;
}

/* --- places to cut -------------------------------------------------------------------------------------------- */

/* The character at a byte of clean UTF-8, and where the next begins. */
static uint32_t character(const char *text, size_t size, size_t at, size_t *next) {
  const uint8_t *p = (const uint8_t *)text + at;
  int more = *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
  uint32_t c = more ? *p & (0x3fu >> more) : *p;
  for (int i = 1; i <= more && at + (size_t)i < size; i++) c = c << 6 | (p[i] & 0x3f);
  *next = at + 1 + (size_t)more < size ? at + 1 + (size_t)more : size;
  return c;
}

static int is_one_of(uint32_t c, const uint32_t *set) {
  while (*set && *set != c) set++;
  return *set != 0;
}

static const uint32_t FULL_STOPS[] = {0x3002, 0xff01, 0xff1f, 0}; /* 。！？, after which no space is needed */
static const uint32_t STOPS[] = {'.', '!', '?', 0x3002, 0xff01, 0xff1f, 0x2026, 0};
static const uint32_t CLOSERS[] = {'"', '\'', 0x201d, 0x2019, ')', ']', 0xbb, 0};
static const uint32_t FULL_CLOSERS[] = {0x201d, 0x2019, 0x300d, 0x300f, 0xff09, 0};

/* Where a sentence ends that has its last stop before `at`; 0: none ends here. */
static size_t sentence_end(const char *text, size_t size, size_t at, uint32_t before) {
  size_t end = at, next = at;
  if (is_one_of(before, STOPS)) {
    while (end < size && is_one_of(character(text, size, end, &next), CLOSERS)) end = next;
    if (end < size && text[end] == ' ') return end + 1;
  }
  if (!is_one_of(before, FULL_STOPS)) return 0;
  for (end = at; end < size && is_one_of(character(text, size, end, &next), FULL_CLOSERS);) end = next;
  return end < size && text[end] == ' ' ? end + 1 : end;
}

static int sentence_ends(const Splitter *s, Ends *ends) {
  uint32_t before = 0;
  for (size_t at = 0, next = 0; at < s->size; at = next) {
    size_t end = at ? sentence_end(s->line, s->size, at, before) : 0;
    if (end && add_end(ends, end)) return -1;
    if (end > at) next = end, before = (uint8_t)s->line[end - 1] < 0x80 ? (uint8_t)s->line[end - 1] : 0;
    else before = character(s->line, s->size, at, &next);
  }
  return add_end(ends, s->size);
}

/* --- cutting -------------------------------------------------------------------------------------------------- */

typedef struct {
  Splitter *splitter;
  const Ends *ends;
  size_t start, first; /* where the part begins, and the first end that may close it */
  int failed;
} Cut;

static int cut_fits(Cut *c, size_t count) {
  int64_t length = splitter_length(c->splitter, c->start, c->ends->data[c->first + count - 1]);
  c->failed |= length < 0;
  return length >= 0 && length <= c->splitter->longest;
}

/* Counts the ends up to which a part has at most `longest` tokens; one always counts. Gallops from a guess, so that
   little more than the part itself is tokenised. */
static size_t count_fitting(Cut *c, size_t guess) {
  size_t fitting = 1, exceeding = c->ends->count - c->first + 1, step = 1;
  if (guess > exceeding - 1) guess = exceeding - 1;
  if (guess > 1 && !cut_fits(c, guess)) {
    exceeding = guess;
    while (exceeding > step + 1 && !cut_fits(c, exceeding - step)) exceeding -= step, step *= 2;
    fitting = exceeding > step + 1 ? exceeding - step : 1;
  } else {
    fitting = guess;
    while (fitting + step < exceeding && cut_fits(c, fitting + step)) fitting += step, step *= 2;
    if (fitting + step < exceeding) exceeding = fitting + step;
  }
  while (exceeding - fitting > 1 && !c->failed) {
    size_t middle = (fitting + exceeding) / 2;
    if (cut_fits(c, middle)) fitting = middle;
    else exceeding = middle;
  }
  return fitting;
}

/* Cuts [start, last end) at some of the ends, each part as long as it can be, but up to one end at least. */
static int cut(Splitter *s, size_t start, const Ends *ends, Parts *parts) {
  Cut c = {s, ends, start, 0, 0};
  for (size_t count = 1; c.first < ends->count; c.first += count) {
    count = count_fitting(&c, count);
    size_t end = ends->data[c.first + count - 1];
    if (c.failed || add_part(parts, c.start, end)) return -1;
    c.start = end;
  }
  return 0;
}

/* --- sentences and words -------------------------------------------------------------------------------------- */

static void with_commas(int64_t number, char *to, size_t size) {
  char digits[32];
  int length = snprintf(digits, sizeof digits, "%" PRId64, number), at = 0;
  for (int i = 0; i < length && at + 2 < (int)size; i++) {
    if (i && (length - i) % 3 == 0) to[at++] = ',';
    to[at++] = digits[i];
  }
  to[at] = 0;
}

static int note(Splitter *s, Part sentence, int64_t length, const char *outcome) {
  char text[512], tokens[40], longest[40];
  size_t end = sentence.start, next;
  for (int i = 0; i < SHOWN && end < sentence.end; i++, end = next) character(s->line, s->size, end, &next);
  with_commas(length, tokens, sizeof tokens), with_commas(s->longest, longest, sizeof longest);
  snprintf(text, sizeof text, "%sa sentence of %s tokens is longer than any in training (%s); it %s: ", s->notes.size ? "\n" : "", tokens, longest, outcome);
  return append_text(&s->notes, text, strlen(text)) || append_text(&s->notes, s->line + sentence.start, end - sentence.start) ||
         append_text(&s->notes, "\xe2\x80\xa6", 3);
}

/* Ends of the words of a sentence, inside of words that are too long themselves too. */
static int word_ends(Splitter *s, Part sentence, Ends *ends, int *inside) {
  for (size_t at = sentence.start; at < sentence.end;) {
    size_t end = at;
    while (end < sentence.end && s->line[end] == ' ') end++;
    while (end < sentence.end && s->line[end] != ' ') end++;
    if (end < sentence.end) end++;
    int64_t length = splitter_length(s, at, end);
    if (length < 0) return -1;
    if (length > s->longest) {
      Ends characters = {0};
      Parts pieces = {0};
      size_t next = at;
      int failed = 0;
      while (next < end && !failed) character(s->line, s->size, next, &next), failed = add_end(&characters, next);
      failed = failed || cut(s, at, &characters, &pieces);
      for (size_t i = 0; i < pieces.count && !failed; i++) failed = add_end(ends, pieces.data[i].end);
      *inside |= pieces.count > 1;
      free(characters.data), free(pieces.data);
      if (failed) return -1;
    } else if (add_end(ends, end)) {
      return -1;
    }
    at = end;
  }
  return 0;
}

/* Leaves a sentence whole up to WHOLE times the longest source, else splits it at spaces; notes it if it is long. */
static int split_sentence(Splitter *s, Part sentence, Parts *parts) {
  int64_t length = splitter_length(s, sentence.start, sentence.end);
  if (length < 0) return -1;
  if (length <= s->longest) return add_part(parts, sentence.start, sentence.end);
  if (length <= WHOLE * s->longest)
    return add_part(parts, sentence.start, sentence.end) || note(s, sentence, length, "is translated whole, but may come out badly");
  Ends ends = {0};
  int inside = 0;
  size_t before = parts->count;
  int failed = word_ends(s, sentence, &ends, &inside) || cut(s, sentence.start, &ends, parts);
  free(ends.data);
  if (failed) return -1;
  char outcome[160], count[40];
  with_commas((int64_t)(parts->count - before), count, sizeof count);
  snprintf(outcome, sizeof outcome, "was split %s into %s parts, whose translations may not fit together", inside ? "at spaces and inside words" : "at spaces", count);
  return note(s, sentence, length, outcome);
}

int split_line(Splitter *s, Parts *parts) {
  Ends ends = {0};
  Parts sentences = {0};
  int failed = sentence_ends(s, &ends) || cut(s, 0, &ends, &sentences);
  for (size_t i = 0; i < sentences.count && !failed; i++) failed = split_sentence(s, sentences.data[i], parts);
  free(ends.data), free(sentences.data);
  return failed ? -1 : 0;
}
