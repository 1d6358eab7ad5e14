/* Forbidden phrases and required terms; see constraints.h. */

#include "constraints.h"
#include "decoder.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST_CHARACTER 4 /* bytes of UTF-8 */
#define MOST_BEFORE 65536   /* bytes */

/* --- forbidden phrases ------------------------------------------------------------------------------------------ */

static int compare_before(const RegardCompletion *c, const char *before, int32_t size) {
  if (c->size != size) return c->size < size ? -1 : 1;
  return size ? memcmp(c->before, before, (size_t)size) : 0;
}

void banned_free(Banned *b) {
  if (b) free(b->firsts);
  free(b);
}

Banned *banned_open(const RegardCompletion *table, size_t count, int32_t vocabulary, char *error, size_t error_size) {
  Banned *b = calloc(1, sizeof *b);
  int failed = !b;
  if (b) b->table = table, b->count = count;
  for (size_t i = 0; i < count && !failed; i++) {
    const RegardCompletion *c = table + i;
    int fits = table && c->token >= 0 && c->token < vocabulary && c->size >= 0 && c->size <= MOST_BEFORE && (c->before || !c->size);
    if (!fits || (i && compare_before(c - 1, c->before, c->size) > 0)) {
      explain(error, error_size, "banned: completion %zu of %zu: wanted a token below %d after at most %d bytes, sorted by their number and then by the bytes", i + 1, count, vocabulary, MOST_BEFORE);
      failed = 1;
    } else if (!i || c[-1].size != c->size) {
      failed = reserve((void **)&b->firsts, &b->group_capacity, b->group_count + 1, sizeof *b->firsts);
      if (!failed) b->firsts[b->group_count++] = i;
    }
  }
  if (!failed) return b;
  banned_free(b);
  return NULL;
}

/* Writes the last `size` bytes of the text of tokens to the end of a buffer of this size; returns how many there are. */
static size_t last_bytes(const Tokenizer *target, const int32_t *ids, int64_t count, char *text, size_t size) {
  size_t left = size, length;
  for (int64_t i = count; i-- > 0 && left;) {
    int byte = tokenizer_byte(target, ids[i]);
    const char *piece = ids[i] <= EOS ? NULL : tokenizer_piece(target, ids[i], &length);
    if (byte >= 0) text[--left] = (char)byte;
    while (byte < 0 && piece && length && left) {
      int is_space = length >= 3 && !memcmp(piece + length - 3, "\xe2\x96\x81", 3);
      length -= is_space ? 3 : 1;
      text[--left] = is_space ? ' ' : piece[length];
    }
  }
  return size - left;
}

/* Whether a word may begin after a text: its last character is neither letter nor digit. */
static int is_word_boundary(const char *text, size_t size) {
  uint32_t character = ' ';
  for (size_t at = size > LONGEST_CHARACTER ? size - LONGEST_CHARACTER : 0, bytes; at < size; at += bytes ? bytes : 1) bytes = utf8_read(text + at, size - at, &character);
  return !(character_kind(character) & (IS_LETTER | IS_DECIMAL | IS_OTHER_NUMBER));
}

int banned_tokens(const Banned *b, const Tokenizer *target, const int32_t *ids, int64_t count, TextBuffer *text, TokenBuffer *tokens) {
  if (!b->count) return 0;
  size_t room = (size_t)b->table[b->count - 1].size + LONGEST_CHARACTER;
  text->size = 0;
  if (text_reserve(text, room)) return -1;
  size_t written = last_bytes(target, ids, count, text->data, room);
  for (size_t g = 0; g < b->group_count; g++) {
    size_t low = b->firsts[g], end = g + 1 < b->group_count ? b->firsts[g + 1] : b->count, high = end;
    int32_t size = b->table[low].size;
    if ((size_t)size > written) break;
    const char *start = text->data + room - written, *before = text->data + room - size;
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (compare_before(b->table + middle, before, size) < 0) low = middle + 1;
      else high = middle;
    }
    int is_boundary = is_word_boundary(start, (size_t)(before - start));
    for (; low < end && !compare_before(b->table + low, before, size); low++)
      if ((is_boundary || !b->table[low].at_boundary) && add_token(tokens, b->table[low].token)) return -1;
  }
  return 0;
}

/* --- required terms --------------------------------------------------------------------------------------------- */

/* A state: for each term whether it is settled, ending with the last token, or was there before that; then for each token of
   each form of each term whether it is awaited: the tokens of the form before it stand at the end. */
enum { SETTLED = 1, ENDING = 2, WAS_DONE = 4, DONE = SETTLED | ENDING };

static int64_t form_tokens(const RegardTerm *term) {
  int64_t total = 0;
  for (int32_t f = 0; f < term->forms + term->initial_forms; f++) total += term->sizes[f];
  return total;
}

Terms terms_of(const RegardTerm *terms, size_t count) {
  Terms t = {terms, (int64_t)count, (int64_t)count, 0};
  for (size_t i = 0; i < count; i++) t.state_size += form_tokens(terms + i), t.required += terms[i].sizes[0];
  return t;
}

void terms_begin(const Terms *t, uint8_t *state) {
  uint8_t *awaited = state + t->count;
  memset(state, 0, (size_t)t->state_size);
  for (int64_t i = 0; i < t->count; i++)
    for (int32_t f = 0; f < t->data[i].forms + t->data[i].initial_forms; f++) *awaited = 1, awaited += t->data[i].sizes[f];
}

void terms_advance(const Terms *t, const uint8_t *state, int32_t token, uint8_t *next) {
  const uint8_t *awaited = state + t->count;
  uint8_t *to = next + t->count;
  memset(next, 0, (size_t)t->state_size);
  for (int64_t i = 0; i < t->count; i++) {
    const RegardTerm *term = t->data + i;
    const int32_t *ids = term->ids;
    int lasts = state[i] & ENDING && (!term->may_follow || term->may_follow[token]);
    next[i] = (uint8_t)((state[i] & SETTLED || lasts ? SETTLED : 0) | (state[i] & DONE ? WAS_DONE : 0));
    for (int32_t f = 0; f < term->forms + term->initial_forms; f++) {
      *to = f < term->forms;
      for (int32_t left = term->sizes[f]; left-- > 0; awaited++, ids++, to++)
        if (*awaited && *ids == token) *(left ? to + 1 : next + i) |= left ? 1 : ENDING;
    }
  }
}

int terms_are_complete(const Terms *t, const uint8_t *state) {
  for (int64_t i = 0; i < t->count; i++)
    if (!(state[i] & DONE)) return 0;
  return 1;
}

int terms_allow(const Terms *t, const uint8_t *state, int32_t token) {
  for (int64_t i = 0; i < t->count; i++) {
    int is_done = (state[i] & DONE) != 0;
    if (!is_done && token == EOS) return 0;
    if (is_done && !(state[i] & WAS_DONE) && t->data[i].may_follow && !t->data[i].may_follow[token]) return 0;
  }
  return 1;
}

int64_t terms_bank(const Terms *t, const uint8_t *state, int32_t token) {
  const uint8_t *awaited = state + t->count;
  int64_t total = 0;
  for (int64_t i = 0; i < t->count; i++) {
    const RegardTerm *term = t->data + i;
    const int32_t *ids = term->ids;
    int64_t own = term->sizes[0], most = 0;
    for (int32_t f = 0; f < term->forms + term->initial_forms; awaited += term->sizes[f], ids += term->sizes[f], f++)
      for (int32_t n = 0; n < term->sizes[f]; n++) {
        int64_t gain = n + 1 == term->sizes[f] ? own : n + 1 < own - 1 ? n + 1 : own - 1;
        if (awaited[n] && ids[n] == token && gain > most) most = gain;
      }
    total += state[i] & DONE ? own : most;
  }
  return total;
}

int terms_next(const Terms *t, const uint8_t *state, TokenBuffer *tokens) {
  const uint8_t *awaited = state + t->count;
  tokens->size = 0;
  for (int64_t i = 0; i < t->count; i++) {
    int64_t size = form_tokens(t->data + i);
    for (int64_t n = 0; n < size; n++)
      if (awaited[n] && !(state[i] & DONE) && add_token(tokens, t->data[i].ids[n])) return -1;
    awaited += size;
  }
  return 0;
}

void allocate_banks(int64_t *counts, int64_t last, int64_t width) {
  int64_t share = width / (last + 1), spare = 0;
  for (int64_t b = 0; b <= last; b++) {
    int64_t own = share + (b == last) * (width % (last + 1));
    spare += counts[b] < own ? own - counts[b] : 0;
  }
  for (int64_t b = last; b >= 0; b--) {
    int64_t own = share + (b == last) * (width % (last + 1)), more = counts[b] > own ? counts[b] - own : 0;
    if (more > spare) counts[b] -= more - spare, more = spare;
    spare -= more;
  }
}
