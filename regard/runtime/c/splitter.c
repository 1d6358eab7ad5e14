/* Splits lines; see splitter.h. The rules are those of regard.data.sentence_ends and regard.text.line_splitter. */

#include "splitter.h"
#include "sentence_tables.h"
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

void splitter_free(Splitter *s) { text_free(&s->text), tokens_free(&s->tokens), text_free(&s->notes); }

int64_t splitter_length(Splitter *s, size_t start, size_t end) {
  s->text.size = s->tokens.size = 0;
  if (text_append(&s->text, s->code, s->code_size) || text_append(&s->text, s->line + start, end - start)) return -1;
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

/* Where the character before a byte begins; 0 at the beginning. */
static size_t previous_start(const char *text, size_t at) {
  if (!at) return 0;
  do at--;
  while (at && ((uint8_t)text[at] & 0xc0) == 0x80);
  return at;
}

/* The character before a byte; 0 at the beginning. */
static uint32_t character_before(const char *text, size_t at) {
  size_t next;
  return at ? character(text, at, previous_start(text, at), &next) : 0;
}

/* Whether a character is in a set, whose numbers increase up to a zero. */
static int is_one_of(uint32_t c, const uint32_t *set) {
  while (*set && *set < c) set++;
  return c && *set == c;
}

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
    if (c == ' ' && next < size) { /* quotations in French close behind a space */
      c = character(text, size, next, &next);
      if ((c != 0xbb && c != 0x203a) || (next < size && text[next] != ' ')) break;
    } else if (c == '[') {
      for (size_t digits = 0; digits < 3 && next < size && text[next] >= '0' && text[next] <= '9'; digits++) next++;
      if (next == at + 1 || next == size || text[next++] != ']') break;
    } else if (c != also && !is_one_of(c, CLOSERS) && !is_in(c, NOTES)) {
      break;
    }
  }
  return at;
}

static uint32_t fold(uint32_t c) {
  const uint32_t *pair = FOLDED;
  while (*pair && *pair != c) pair += 2;
  return *pair ? pair[1] : c;
}

typedef struct { /* a word of at most LONGEST_ABBREVIATION characters, without spaces */
  const char *text;
  size_t size, characters;
} Word;

/* Whether a word, in small letters, is one of a list. */
static int is_listed(Word word, const char *list) {
  char folded[4 * LONGEST_ABBREVIATION + 3] = " ";
  size_t size = 1;
  for (size_t at = 0; at < word.size;) size += utf8_write(fold(character(word.text, word.size, at, &at)), folded + size);
  memcpy(folded + size, " ", 2);
  return word.size && strstr(list, folded) != NULL;
}

/* Whether each character of a word, in small letters, is in a set. */
static int consists_of(Word word, const uint32_t *set) {
  for (size_t at = 0; at < word.size;)
    if (!is_one_of(fold(character(word.text, word.size, at, &at)), set)) return 0;
  return 1;
}

static int is_all_decimal(Word word) {
  for (size_t at = 0; at < word.size;)
    if (!(character_kind(character(word.text, word.size, at, &at)) & IS_DECIMAL)) return 0;
  return word.size > 0;
}

static int has_decimal(Word word) {
  for (size_t at = 0; at < word.size;)
    if (character_kind(character(word.text, word.size, at, &at)) & IS_DECIMAL) return 1;
  return 0;
}

static int is_word_letter(uint32_t c) { return (character_kind(c) & (IS_LETTER | IS_OTHER_NUMBER)) != 0; }

/* Where the characters before a mark that count begin, in a sentence that begins at `start`. */
static size_t window_start(const char *text, size_t start, size_t stop) {
  for (size_t characters = 0; stop > start && characters < LONGEST_ABBREVIATION; characters++) stop = previous_start(text, stop);
  return stop;
}

static Word make_word(const char *text, size_t start, size_t stop) {
  Word word = {text + start, stop - start, 0};
  for (size_t at = start; at < stop; word.characters++) character(text, stop, at, &at);
  return word;
}

/* The last word before a mark, without the quotes and brackets that open it. */
static Word last_word(const char *text, size_t start, size_t stop) {
  size_t before = window_start(text, start, stop), next;
  while (stop > before && text[stop - 1] == ' ') stop--;
  size_t word = stop;
  while (word > before && text[word - 1] != ' ' && character_before(text, word) != 0x6d4) word = previous_start(text, word);
  while (word < stop && is_one_of(character(text, stop, word, &next), BEFORE_WORDS)) word = next;
  return make_word(text, word, stop);
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
static int is_dotted(Word word) {
  size_t at = 0, letters = 0;
  while (at < word.size && is_word_letter(character(word.text, word.size, at, &at))) {
    letters++;
    if (at == word.size) return letters > 1;
    if (word.text[at++] != '.') return 0;
  }
  return 0;
}

static int is_thai_abbreviation(Word word) {
  for (size_t at = 0; at < word.size;)
    if (!is_in(character(word.text, word.size, at, &at), THAI_AND_LAO)) return 0;
  return word.characters && word.characters <= 4;
}

/* Whether a word for what German ordinals count stands behind the space at `end`. */
static int is_month(const char *text, size_t size, size_t end) {
  for (const char *const *month = MONTHS; *month; month++) {
    size_t length = strlen(*month), at = end + 1, next;
    if (at + length > size || memcmp(text + at, *month, length)) continue;
    if (at + length == size) return 1;
    uint32_t c = character(text, size, at + length, &next);
    if (c != '_' && !(character_kind(c) & IS_DECIMAL) && !is_word_letter(c)) return 1;
  }
  return 0;
}

typedef struct { /* what may end a sentence: marks [stop, end), and what belongs to them up to `tail` */
  size_t start, stop, end, tail;
  uint32_t next;     /* the character behind that begins a sentence if this ends one */
  size_t next_start; /* where it is */
} Candidate;

/* Whether the full stop belongs to an abbreviation, an initial or a number. */
static int is_abbreviation(const char *text, size_t size, Candidate c) {
  Word word = last_word(text, c.start, c.stop);
  size_t next;
  uint32_t letter = word.characters == 1 ? character(word.text, word.size, 0, &next) : 0;
  if (character_kind(letter) & IS_LETTER && !is_in(letter, CJK)) return 1;
  if (is_listed(word, NEVER_LAST) || is_thai_abbreviation(word)) return 1;
  int is_decimal = is_all_decimal(word);
  int is_before_numbers = is_decimal || is_listed(word, BEFORE_NUMBERS) || is_listed(word, BEFORE_SMALL);
  if (character_kind(c.next) & IS_DECIMAL && is_before_numbers) return 1;
  if (is_decimal && word.characters < 3 && is_month(text, size, c.tail)) return 1;
  int is_short = window_start(text, c.start, c.stop) == c.start;
  return is_dotted(word) || (is_short && is_number(text + c.start, c.stop - c.start));
}

/* Whether a word with a full stop is no last one of a sentence if a small letter follows. */
static int is_known_abbreviation(Word word) { return is_listed(word, BEFORE_SMALL) || consists_of(word, CONSONANTS); }

/* Whether a word in small letters is so short that it may be an abbreviation. */
static int is_short(Word word) {
  return word.size && word.characters < SHORTEST_LAST && character_kind(character_before(word.text, word.size)) & IS_LOWER;
}

/* Whether a sentence goes on in small letters after a number, a word before one, or an abbreviation. */
static int goes_on(Word word) {
  size_t roman = 0;
  while (roman < word.size && word.text[roman] && strchr("IVXLC", word.text[roman])) roman++;
  return is_listed(word, BEFORE_NUMBERS) || memchr(word.text, '.', word.size) || has_decimal(word) || is_short(word) || (roman && roman == word.size);
}

/* Whether a word such as iPhone or macOS begins here. */
static int has_capital_inside(const char *text, size_t size, size_t at) {
  for (size_t letters = 0; at < size && letters < LONGEST_ABBREVIATION; letters++) {
    uint32_t c = character(text, size, at, &at);
    if (letters && c >= 'A' && c <= 'Z') return 1;
    if (!is_word_letter(c)) return 0;
  }
  return 0;
}

/* Judges marks with a small letter behind them: a full stop may be that of an abbreviation within a sentence. */
static int ends_before_small_letter(const char *text, size_t size, Candidate c) {
  Word word = last_word(text, c.start, c.stop);
  int has_closers = c.tail > c.end;
  if (text[c.stop] == '.' && c.end == c.stop + 1) {
    if (is_abbreviation(text, size, c) || is_known_abbreviation(word)) return 0;
    if (has_capital_inside(text, size, c.next_start)) return 1;
    int is_bracketed = strchr("([{", text[c.next_start - 1]) != NULL;
    return !has_closers && !is_bracketed && !goes_on(word);
  }
  if (has_closers || (text[c.stop] == ';' && word.characters == 1)) return 0; /* in a list: α; β */
  for (size_t at = c.stop; at < c.end;)
    if (!is_one_of(character(text, size, at, &at), QUIET)) return 1;
  return 0;
}

/* Whether the syllable before a shad is one after which no sentence ends. */
static int is_connective(const char *text, size_t start, size_t stop) {
  static const uint32_t SEPARATORS[] = {' ', 0xf0b, 0xf0c, 0xf0d, 0};
  size_t before = window_start(text, start, stop), genitive = strlen(TIBETAN_GENITIVE);
  while (stop > before && is_one_of(character_before(text, stop), SEPARATORS)) stop = previous_start(text, stop);
  size_t syllable = stop;
  while (syllable > before && !is_one_of(character_before(text, syllable), SEPARATORS)) syllable = previous_start(text, syllable);
  size_t size = stop - syllable;
  return is_listed(make_word(text, syllable, stop), TIBETAN_CONNECTIVES) || (size >= genitive && !memcmp(text + stop - genitive, TIBETAN_GENITIVE, genitive));
}

/* Judges marks that need no space behind them. */
static int is_glued_end(const char *text, size_t size, Candidate c) {
  uint32_t last = character_before(text, c.end), before = c.stop > c.start ? character_before(text, c.stop) : 0;
  size_t next = c.tail, letters = c.tail;
  if (c.tail > c.end && c.next >= 0x3040 && c.next <= 0x309f) return 0; /* Japanese goes on after a quotation */
  uint32_t following = c.tail < size ? character(text, size, c.tail, &next) : 0;
  if (is_one_of(last, BETWEEN_DIGITS) && character_kind(before) & IS_DECIMAL && character_kind(following) & IS_DECIMAL) return 0;
  if (last == 0x6d4 && is_listed(last_word(text, c.start, c.stop), URDU_LETTERS)) {
    for (size_t count = 0; count < LONGEST_ABBREVIATION && letters < size && is_word_letter(character(text, size, letters, &next)); count++) letters = next;
    return !is_listed(make_word(text, c.tail, letters), URDU_LETTERS);
  }
  if (is_one_of(last, TIBETAN)) return !is_connective(text, c.start, c.stop);
  for (const char *const *etc = KHMER_ETC; last == 0x17d4 && *etc; etc++)
    if (size - c.tail >= strlen(*etc) && !memcmp(text + c.tail, *etc, strlen(*etc))) return 0;
  return 1;
}

/* What else is a mark after the letters of some scripts: Greek asks by a semicolon, the full stop of Armenian is typed as a
   colon, and the danda as a bar; 0: nothing. */
static uint32_t further_mark(const char *text, size_t stop) {
  uint32_t before = character_before(text, stop);
  if (is_in(before, ARMENIAN)) return ':';
  if (is_in(before, INDIC)) return '|';
  if (is_one_of(before, CLOSERS)) before = character_before(text, previous_start(text, stop));
  return is_in(before, GREEK) ? ';' : 0;
}

static size_t run_end(const char *text, size_t size, size_t at, const uint32_t *set, uint32_t also) {
  for (size_t next = at; at < size; at = next) {
    uint32_t c = character(text, size, at, &next);
    if (!is_one_of(c, set) && (!also || c != also)) break;
  }
  return at;
}

/* Where marks end that need no space behind them; `stop`: there are none. */
static size_t glued_end(const char *text, size_t size, size_t stop) {
  size_t next, end = run_end(text, size, stop, MARKS, 0);
  if (end > stop) return is_one_of(character_before(text, end), GLUED) ? end : stop;
  uint32_t mark = character(text, size, stop, &next);
  if (!is_in(character_before(text, stop), ETHIOPIC) || (mark != ':' && mark != 0x1361)) return stop;
  static const uint32_t NONE[] = {0};
  end = run_end(text, size, stop, NONE, mark); /* typed for a full stop: two signs between words, or two colons */
  uint32_t following = end < size ? character(text, size, end, &next) : 0;
  character(text, size, stop, &next);
  return end == next || following == ':' || following == 0x1361 ? stop : end;
}

/* Whether marks end a sentence that is not parted from the next: between letters without capitals, after endings of verbs. */
static size_t unspaced_end(const char *text, size_t size, size_t stop) {
  uint32_t before = character_before(text, stop);
  size_t next, calls = run_end(text, size, stop, CALLS, 0), tail = tail_end(text, size, calls, 0);
  if (calls > stop && tail < size && is_in(before, UNCASED)) {
    uint32_t first = character(text, size, tail, &next);
    if (!is_one_of(first, MARKS) && (is_in(first, CJK) || (is_in(first, UNCASED) && is_word_letter(first)))) return tail;
  }
  size_t dots = stop;
  while (dots < size && text[dots] == '.') dots++;
  tail = tail_end(text, size, dots, 0);
  if (dots == stop || tail == size) return 0;
  uint32_t first = character(text, size, tail, &next);
  if (is_one_of(before, KOREAN_ENDINGS) && first >= 0xac00 && first <= 0xd7a3) return tail;
  for (const char *const *ending = HINDI_ENDINGS; first >= 0x904 && first <= 0x939 && *ending; ending++) {
    size_t length = strlen(*ending);
    if (stop >= length && !memcmp(text + stop - length, *ending, length)) return tail;
  }
  return 0;
}

/* Where what may end the sentence that begins at `start` ends, with its marks at `stop`, and whether it does; 0: nothing may. */
static size_t candidate_end(const char *text, size_t size, size_t start, size_t stop, int *is_end) {
  size_t next;
  Candidate c = {.start = start, .stop = stop, .end = glued_end(text, size, stop)};
  if (c.end > stop) {
    c.tail = tail_end(text, size, c.end, 0);
    c.next_start = c.tail < size && text[c.tail] == ' ' ? c.tail + 1 : c.tail;
    c.next = c.next_start < size ? character(text, size, c.next_start, &next) : 0;
    if (c.next && c.next != ' ' && !is_one_of(c.next, MARKS) && !is_one_of(c.next, CLOSERS)) {
      *is_end = is_glued_end(text, size, c);
      return c.tail;
    }
  }
  c.end = run_end(text, size, stop, MARKS, further_mark(text, stop));
  if (c.end == stop) return 0;
  c.tail = tail_end(text, size, c.end, 0x201c); /* German quotations close by a “ */
  *is_end = 1;
  if (c.tail == size || text[c.tail] != ' ') return unspaced_end(text, size, stop);
  c.next_start = run_end(text, size, c.tail + 1, OPENERS, 0);
  c.next = c.next_start < size ? character(text, size, c.next_start, &next) : ' ';
  if (c.next == ' ' || c.next == ',' || c.next == ';' || c.next == ':' || is_one_of(c.next, MARKS)) return 0;
  if (character_kind(c.next) & IS_LOWER && !is_in(c.next, GEORGIAN)) *is_end = ends_before_small_letter(text, size, c);
  else *is_end = text[stop] != '.' || c.end > stop + 1 || !is_abbreviation(text, size, c);
  return c.tail;
}

/* Whether a sentence may end at a character: it is the first of marks, or stands for one in some scripts. */
static int may_be_mark(const char *text, size_t at, uint32_t c) {
  if (is_one_of(c, MARKS)) return !is_one_of(character_before(text, at), MARKS);
  return (c == ';' || c == ':' || c == '|' || c == 0x1361) && !is_one_of(character_before(text, at), MARKS);
}

/* Ends of the sentences of the line, each after the space behind it. */
static int sentence_ends(const Splitter *s, Ends *ends) {
  for (size_t at = 0, start = 0, next = 0; at < s->size; at = next) {
    uint32_t c = character(s->line, s->size, at, &next);
    int is_end = 0;
    size_t end = may_be_mark(s->line, at, c) ? candidate_end(s->line, s->size, start, at, &is_end) : 0;
    if (end) next = end;
    if (!is_end || !end) continue;
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

/* Adds a note: a text, and the beginning of the sentence that it is about. */
static int note(Splitter *s, Part sentence, const char *text) {
  size_t end = sentence.start, next;
  for (int i = 0; i < SHOWN && end < sentence.end; i++, end = next) character(s->line, s->size, end, &next);
  while (end > sentence.start && s->line[end - 1] == ' ') end--;
  int failed = s->notes.size && text_append(&s->notes, "\n", 1);
  failed = failed || text_append(&s->notes, text, strlen(text)) || text_append(&s->notes, ": ", 2);
  return failed || text_append(&s->notes, s->line + sentence.start, end - sentence.start) || text_append(&s->notes, "\xe2\x80\xa6", 3);
}

static int note_length(Splitter *s, Part sentence, int64_t length, const char *outcome) {
  char text[512], tokens[40], longest[40];
  with_commas(length, tokens, sizeof tokens), with_commas(s->longest, longest, sizeof longest);
  snprintf(text, sizeof text, "a sentence of %s tokens is longer than any in training (%s); it %s", tokens, longest, outcome);
  return note(s, sentence, text);
}

static int note_clauses(Splitter *s, Part sentence, size_t clauses) {
  char text[512], count[40], most[40];
  with_commas((int64_t)clauses, count, sizeof count), with_commas(s->line_clauses, most, sizeof most);
  snprintf(text, sizeof text, "%s clauses are more than lines in training have (%s); they may be several sentences, and are translated as one", count, most);
  return note(s, sentence, text);
}

/* Ends of the clauses of a sentence in Thai, Lao or Khmer, each after the space behind it. */
static int clause_ends(const Splitter *s, Part sentence, Ends *ends) {
  for (size_t at = sentence.start + 1, next; at + 1 < sentence.end; at++) {
    if (s->line[at] != ' ' || !is_in(character_before(s->line, at), CLAUSES)) continue;
    if (is_in(character(s->line, s->size, at + 1, &next), CLAUSES) && add_end(ends, at + 1)) return -1;
  }
  return add_end(ends, sentence.end);
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

/* Leaves a sentence of one clause whole up to WHOLE times the longest source, else splits it at spaces; notes it. */
static int split_clause(Splitter *s, Part sentence, int64_t length, Parts *parts) {
  if (length <= WHOLE * s->longest)
    return add_part(parts, sentence.start, sentence.end) || note_length(s, sentence, length, "is translated whole, but may come out badly");
  Ends ends = {0};
  int inside = 0;
  size_t before = parts->count;
  int failed = word_ends(s, sentence, &ends, &inside) || cut(s, sentence.start, &ends, parts);
  free(ends.data);
  if (failed) return -1;
  char outcome[160], count[40];
  with_commas((int64_t)(parts->count - before), count, sizeof count);
  snprintf(outcome, sizeof outcome, "was split %s into %s parts, whose translations may not fit together", inside ? "at spaces and inside words" : "at spaces", count);
  return note_length(s, sentence, length, outcome);
}

/* Splits a sentence that is longer than any source in training between its clauses, and notes it. */
static int split_clauses(Splitter *s, Part sentence, int64_t length, const Ends *ends, Parts *parts) {
  Parts clauses = {0};
  char outcome[160], count[40];
  int failed = cut(s, sentence.start, ends, &clauses);
  with_commas((int64_t)clauses.count, count, sizeof count);
  snprintf(outcome, sizeof outcome, "was split between clauses into %s parts", count);
  failed = failed || note_length(s, sentence, length, outcome);
  for (size_t i = 0; i < clauses.count && !failed; i++) {
    Part clause = clauses.data[i];
    int64_t own = splitter_length(s, clause.start, clause.end);
    if (own < 0) failed = 1;
    else failed = own <= s->longest ? add_part(parts, clause.start, clause.end) : split_clause(s, clause, own, parts);
  }
  free(clauses.data);
  return failed ? -1 : 0;
}

/* Splits a sentence that is longer than any source in training; notes that one may be several. */
static int split_sentence(Splitter *s, Part sentence, Parts *parts) {
  Ends ends = {0};
  int64_t length = splitter_length(s, sentence.start, sentence.end);
  int failed = length < 0 || clause_ends(s, sentence, &ends);
  if (failed) {
    free(ends.data);
    return -1;
  }
  if (length > s->longest) {
    failed = ends.count > 1 ? split_clauses(s, sentence, length, &ends, parts) : split_clause(s, sentence, length, parts);
  } else {
    failed = add_part(parts, sentence.start, sentence.end);
    if (s->each_sentence && s->line_clauses && ends.count > (size_t)s->line_clauses) failed = failed || note_clauses(s, sentence, ends.count);
  }
  free(ends.data);
  return failed ? -1 : 0;
}

/* Appends a sentence, or each of its clauses if spaces part sentences. */
static int add_sentence(Splitter *s, size_t start, size_t end, Parts *sentences) {
  if (s->line_clauses != 1) return add_part(sentences, start, end);
  Ends ends = {0};
  int failed = clause_ends(s, (Part){start, end}, &ends);
  for (size_t i = 0; i < ends.count && !failed; i++) failed = add_part(sentences, i ? ends.data[i - 1] : start, ends.data[i]);
  free(ends.data);
  return failed;
}

int split_line(Splitter *s, Parts *parts) {
  Ends ends = {0};
  Parts sentences = {0};
  int failed = sentence_ends(s, &ends);
  if (!s->each_sentence) failed = failed || cut(s, 0, &ends, &sentences);
  for (size_t i = 0; s->each_sentence && i < ends.count && !failed; i++) failed = add_sentence(s, i ? ends.data[i - 1] : 0, ends.data[i], &sentences);
  for (size_t i = 0; i < sentences.count && !failed; i++) failed = split_sentence(s, sentences.data[i], parts);
  free(ends.data), free(sentences.data);
  return failed ? -1 : 0;
}
