/* Splits lines; see splitter.h. The rules are those of regard.data.sentences and regard.pipeline.line_splitter. */

#include "splitter.h"
#include "decoder.h"
#include "unicode.h"

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

static const uint32_t WIDE[] = {0x3002, 0xff01, 0xff1f, 0xff61, 0}; /* after which no space is needed */
static const uint32_t MARKS[] = {'.', '!', '?', 0x2026, 0x3002, 0xff01, 0xff1f, 0xff61, 0x61f, 0x6d4, 0x964, 0x965, 0x589, 0x1362, 0};
static const uint32_t CLOSERS[] = {'"', '\'', 0x201d, 0x2019, 0xbb, 0x203a, ')', ']', '}', 0x300d, 0x300f, 0xff09, 0x3011, 0x300b, 0x3009, 0};
static const uint32_t OPENERS[] = {'"', '\'', 0x201c, 0x2018, 0xab, 0x2039, '(', '[', '{', 0xbf, 0xa1, 0x201e, 0x201a, 0x300c, 0x300e, 0xff08, 0x3010, 0x300a, 0x3008, 0};
static const uint32_t NOTES[] = {0xb9, 0xb2, 0xb3, 0x2070, '*', 0x2020, 0x2021, 0x200d, 0xfe0f, 0};
static const uint32_t VERB_ENDINGS[] = {0xb2e4, 0xc694, 0xc8e0, 0xae4c, 0};
static const uint32_t CJK[] = {0x2e80, 0x2fdf, 0x3000, 0x30ff, 0x3130, 0x318f, 0x31f0, 0x31ff, 0x3400, 0x4dbf, 0x4e00, 0x9fff, 0xac00, 0xd7a3, 0xf900, 0xfaff, 0};
static const uint32_t UNSPACED[] = {0x2e80, 0x30ff, 0x31f0, 0x31ff, 0x3400, 0x4dbf, 0x4e00, 0x9fff, 0xf900, 0xfaff, 0xfe30, 0xfe4f, 0xff01, 0xff60, 0};
static const char NEVER_LAST[] =
    " mr mrs ms mx dr prof st ste vs rev hon gen col maj capt cmdr lt sgt gov sen rep pres supt messrs mme mlle mgr fr hr frl hrn dipl ing bzw vgl bspw sog usw ggf evtl inkl exkl zzgl "
    "ca approx viz cf al ibid resp sr sra srta dra ud uds jr ";
static const char BEFORE_NUMBERS[] = " no nos nr nrn art fig figs vol vols ch chap sec eq p pp abb tab abs bd num n\xc3\xbam n\xc2\xb0 ";
static const char *const AFTER_DAYS[] = {"Januar", "J\xc3\xa4nner", "Februar", "M\xc3\xa4rz", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember", "Jahrhundert"};
#define LONGEST_ABBREVIATION 12

static int is_in(uint32_t c, const uint32_t *ranges) {
  while (*ranges && !(c >= ranges[0] && c <= ranges[1])) ranges += 2;
  return *ranges != 0;
}

int has_letters(const char *text, size_t size) {
  for (size_t at = 0; at < size;)
    if (character_kind(character(text, size, at, &at)) & IS_LETTER) return 1;
  return 0;
}

int wants_space(const char *left, size_t left_size, const char *right, size_t right_size) {
  size_t last = left_size, next;
  if (!left_size || !right_size) return 0;
  while (last-- && ((uint8_t)left[last] & 0xc0) == 0x80) continue;
  return !is_in(character(left, left_size, last, &next), UNSPACED) && !is_in(character(right, right_size, 0, &next), UNSPACED);
}

/* Where what belongs to a sentence after its mark ends: closing quotes, superscript figures, [1], emoji. */
static size_t tail_end(const char *text, size_t size, size_t at, uint32_t also) {
  for (size_t next = at; at < size; at = next) {
    uint32_t c = character(text, size, at, &next);
    if (c == '[') {
      for (size_t digits = 0; digits < 3 && next < size && text[next] >= '0' && text[next] <= '9'; digits++) next++;
      if (next == at + 1 || next == size || text[next++] != ']') break;
    } else if (c != also && !is_one_of(c, CLOSERS) && !is_one_of(c, NOTES) && !(c >= 0x2074 && c <= 0x2079) && !(c >= 0x2600 && c <= 0x27bf) && !(c >= 0x1f000 && c <= 0x1faff)) {
      break;
    }
  }
  return at;
}

/* Whether a word, in small letters, is one of a list. */
static int is_listed(const char *word, size_t size, const char *list) {
  char folded[4 * LONGEST_ABBREVIATION + 3] = " ";
  for (size_t i = 0; i < size; i++) {
    char c = word[i], before = i ? word[i - 1] : 0;
    folded[i + 1] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : before == '\xc3' && (uint8_t)c >= 0x80 && (uint8_t)c < 0x9f && c != '\x97' ? c + 32 : c);
  }
  memcpy(folded + size + 1, " ", 2);
  return size && !memchr(word, ' ', size) && strstr(list, folded) != NULL;
}

/* \W*(\d{1,4}|letter|[ivxlc]{1,4})([.)]\d{1,3})* up to the end, as a number of a list. */
static int is_number(const char *text, size_t size) {
  size_t at = 0, next = 0, count = 0;
  uint32_t c = 0;
  for (; at < size; at = next)
    if ((c = character(text, size, at, &next)) == '_' || character_kind(c) & (IS_LETTER | IS_DECIMAL | IS_OTHER_NUMBER)) break;
  if (at == size) return 0;
  size_t first = at;
  while (at < size && count < 4 && character_kind(character(text, size, at, &next)) & IS_DECIMAL) at = next, count++;
  if (!count) {
    while (at < size && count < 4 && text[at] && strchr("ivxlcIVXLC", text[at])) at++, count++;
    if (!count && c != '_') character(text, size, first, &at), count = 1;
  }
  while (count && at < size && (text[at] == '.' || text[at] == ')')) {
    size_t digits = 0;
    for (at++; at < size && digits < 3 && character_kind(character(text, size, at, &next)) & IS_DECIMAL; digits++) at = next;
    if (!digits) return 0;
  }
  return count && at == size;
}

/* (letter\.)+letter, as U.S */
static int is_dotted(const char *text, size_t size) {
  size_t at = 0, letters = 0;
  while (at < size && character_kind(character(text, size, at, &at)) & (IS_LETTER | IS_OTHER_NUMBER)) {
    letters++;
    if (at == size) return letters > 1;
    if (text[at++] != '.') return 0;
  }
  return 0;
}

/* Whether the full stop at `stop`, in a sentence that begins at `start`, belongs to an abbreviation, an initial or a number. */
static int is_abbreviation(const char *text, size_t size, size_t start, size_t stop, size_t end, uint32_t first) {
  size_t before = stop, word = stop, count = 0, characters = 0, next = 0;
  for (; before > start && characters < LONGEST_ABBREVIATION; characters++)
    do before--;
    while (before > start && ((uint8_t)text[before] & 0xc0) == 0x80);
  int is_short = before == start;
  for (word = stop; word > before && text[word - 1] != ' ';) word--;
  static const uint32_t QUOTES[] = {'(', '"', '\'', 0x201c, 0x2018, '[', 0x201e, 0xab, 0};
  while (word < stop && is_one_of(character(text, stop, word, &next), QUOTES)) word = next;
  int is_decimal = word < stop;
  uint32_t c = 0;
  for (size_t at = word; at < stop; count++) is_decimal &= (character_kind(c = character(text, stop, at, &at)) & IS_DECIMAL) != 0;
  if (count == 1 && character_kind(c) & IS_CASED) return 1;
  if (is_listed(text + word, stop - word, NEVER_LAST)) return 1;
  if (character_kind(first) & IS_DECIMAL && (is_decimal || is_listed(text + word, stop - word, BEFORE_NUMBERS))) return 1;
  for (size_t i = 0; is_decimal && count < 3 && i < sizeof AFTER_DAYS / sizeof *AFTER_DAYS; i++) {
    size_t length = strlen(AFTER_DAYS[i]), at = end + 1;
    if (at + length > size || memcmp(text + at, AFTER_DAYS[i], length)) continue;
    if (at + length == size) return 1;
    c = character(text, size, at + length, &next);
    if (c != '_' && !(character_kind(c) & (IS_LETTER | IS_DECIMAL | IS_OTHER_NUMBER))) return 1;
  }
  return is_dotted(text + word, stop - word) || (is_short && is_number(text + start, stop - start));
}

/* Where the sentence that begins at `start` ends if it does at the marks at `stop`; 0: it does not. */
static size_t sentence_end(const char *text, size_t size, size_t start, size_t stop, uint32_t before) {
  size_t end = stop, next = stop;
  uint32_t last = 0, mark = 0;
  int asks = 0, is_one_dot = 1, are_dots = 1, are_calls = 1;
  for (; end < size && is_one_of(mark = character(text, size, end, &next), MARKS); end = next) {
    last = mark, asks |= mark == '?' || mark == '!';
    is_one_dot = end == stop && mark == '.', are_dots &= mark == '.', are_calls &= mark == '?' || mark == '!';
  }
  size_t tail = tail_end(text, size, end, 0), after = tail < size && text[tail] == ' ' ? tail + 1 : tail;
  if (after >= size) return 0;
  uint32_t first = character(text, size, after, &next);
  if (is_one_of(last, WIDE) && !is_one_of(first, MARKS) && !is_one_of(first, CLOSERS) && first != ' ')
    return tail > end && first >= 0x3040 && first <= 0x309f ? 0 : tail; /* Japanese goes on after a quotation */
  size_t quoted = tail_end(text, size, end, 0x201c), word = quoted + 1; /* German quotations close by a “ */
  if (quoted < size && text[quoted] == ' ') {
    tail = quoted, after = word;
    while (word < size && is_one_of(first = character(text, size, word, &next), OPENERS)) word = next;
    if (word < size && first != ' ' && !is_one_of(first, MARKS) && !is_one_of(first, OPENERS) && !strchr(",;:", first < 0x80 ? (int)first : 'x')) {
      if (character_kind(first) & IS_LOWER && !(first >= 0x10a0 && first <= 0x10ff)) return tail == end && asks ? tail : 0;
      return is_one_dot && is_abbreviation(text, size, start, stop, tail, first) ? 0 : tail;
    }
    return 0;
  }
  if (after > tail) return 0;
  if (are_calls && is_in(before, CJK) && is_in(first, CJK) && !is_one_of(first, MARKS)) return tail;
  return are_dots && is_one_of(before, VERB_ENDINGS) && first >= 0xac00 && first <= 0xd7a3 ? tail : 0;
}

/* Ends of the sentences of the line, each after the space behind it. */
static int sentence_ends(const Splitter *s, Ends *ends) {
  uint32_t before = 0;
  for (size_t at = 0, start = 0, next = 0; at < s->size; at = next) {
    uint32_t c = character(s->line, s->size, at, &next);
    size_t end = is_one_of(c, MARKS) && !is_one_of(before, MARKS) ? sentence_end(s->line, s->size, start, at, before) : 0;
    before = c;
    if (!end) continue;
    start = end;
    if (add_end(ends, end + (end < s->size && s->line[end] == ' '))) return -1;
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
  int failed = sentence_ends(s, &ends);
  if (!s->each_sentence) failed = failed || cut(s, 0, &ends, &sentences);
  for (size_t i = 0; s->each_sentence && i < ends.count && !failed; i++) failed = add_part(&sentences, i ? ends.data[i - 1] : 0, ends.data[i]);
  for (size_t i = 0; i < sentences.count && !failed; i++) failed = split_sentence(s, sentences.data[i], parts);
  free(ends.data), free(sentences.data);
  return failed ? -1 : 0;
}
