/* SentencePiece's encoding and decoding, and the numbering of imported Marian models, from the tables of one blob.

   A piece is a string that the SentencePiece model knows, with its number there; a token is an entry of the
   vocabulary. The two numberings differ only if a table numbers the tokens, as in Marian models.

   Strings are looked up in double-array tries, in the format of the charsmaps inside SentencePiece models: unit i leads
   with byte b to unit i ^ offset ^ b, whose label has to be b. A unit whose top bit is set is a leaf and holds a value.
   tokenizer_open checks that all offsets stay inside, so walking needs no checks. */

#include "tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unicode.h"

enum { BPE = 1, UNIGRAM, CHARACTERS, WHITESPACE };
enum { /* flags of a blob */
  BYTE_FALLBACK = 1,
  DUMMY_PREFIX = 2,   /* a space is put before a line, */
  SPACE_AS_SUFFIX = 4, /* or after it */
  REMOVE_SPACES = 8,  /* at the ends of a line, and doubled ones */
  ESCAPE_SPACES = 16, /* a space is written ▁ */
  NUMBERED = 32,      /* a table numbers the tokens */
  WORDWISE = 64,      /* no piece has ▁ but at its start, so words can be segmented one by one */
};
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE }; /* SentencePiece's types of pieces */
enum { AS_TEXT, AS_NOTHING, AS_UNKNOWN, AS_BYTE, DECODING = 3 };   /* how a token is decoded, the lowest two bits */
enum { WORD_UNREAD = 4, WORD_GAP = 8, WORD_START = 16, TOKEN_FLAGS = 31 };
enum { PAD, UNK, BOS, EOS };
enum { /* parts of a blob */
  TOKEN_STARTS,    /* uint32 (tokens + 1): where each token begins in the text of all, each ended by a NUL */
  TOKEN_TEXT,
  TOKEN_KINDS,     /* uint8 (tokens) */
  PIECE_SCORES,    /* float (pieces) */
  PIECE_TOKENS,    /* int32 (pieces) */
  PIECE_KINDS,     /* uint8 (pieces) */
  PIECE_TRIE,      /* of the pieces that text is segmented into */
  USER_TRIE,       /* of pieces that are never divided nor normalised */
  NAME_TRIE,       /* of all tokens, if a table numbers them */
  CHARSMAP_TRIE,   /* of strings to normalise, with where their normal form begins in the next part */
  CHARSMAP_TEXT,   /* normal forms, each ended by a NUL */
  BYTE_TOKENS,     /* int32 (256), with BYTE_FALLBACK */
  UNKNOWN_SURFACE, /* how UNK is decoded */
  PARTS
};

#define MAGIC 0x4b4f5452u /* "RTOK" */
#define VERSION 1
#define LARGEST_LINE ((size_t)1 << 26) /* bytes; so no size overflows where size_t has 32 bits */
#define LEAF 0x80000000u
#define NO_UNIT UINT32_MAX
#define SHORT_WORD 48 /* characters; longer ones need an agenda */
#define DEEPEST 100   /* an unused piece is taken apart so many times, as in SentencePiece */
#define LONGEST_CODE 40
#define LONGEST_PIECE 8000 /* bytes; SentencePiece takes none longer. A damaged trie may lead in circles, so far */
#define SCORE_RESET 100000.0f /* SentencePiece subtracts a score as large as this, or rounding would be felt */

static const char SPACE[] = "\xe2\x96\x81"; /* ▁ */
enum { SPACE_SIZE = 3 };

typedef struct {
  uint64_t offset, size;
} Part;

typedef struct {
  uint32_t magic, version, kind, flags;
  uint32_t tokens, pieces;
  int32_t unknown_token; /* what SentencePiece's own unknown piece is in the vocabulary */
  float unknown_score;   /* unigram: of a character without a piece */
  Part parts[PARTS];
} Header;

struct Tokenizer {
  uint32_t kind, flags, tokens, pieces;
  int32_t unknown_token;
  float unknown_score;
  const uint32_t *token_starts;
  const char *token_text;
  const uint8_t *token_kinds;
  const float *scores;
  const int32_t *piece_tokens;
  const uint8_t *piece_kinds;
  const uint32_t *piece_trie, *user_trie, *name_trie, *charsmap; /* NULL if there is none */
  const char *charsmap_text;
  const int32_t *byte_tokens;
  const char *unknown_surface;
  size_t unknown_surface_size;
  int has_unused;
};

/* --- tries --------------------------------------------------------------------------------------------------- */

static inline uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }
static inline int has_leaf(uint32_t unit) { return unit >> 8 & 1; }

static inline uint32_t step(const uint32_t *trie, uint32_t unit, unsigned char byte) {
  uint32_t next = unit ^ offset_of(trie[unit]) ^ byte;
  return (trie[next] & (LEAF | 0xff)) == byte ? next : NO_UNIT;
}

static inline int32_t value_at(const uint32_t *trie, uint32_t unit) {
  return has_leaf(trie[unit]) ? (int32_t)(trie[unit ^ offset_of(trie[unit])] & ~LEAF) : -1;
}

static inline uint32_t walk(const uint32_t *trie, uint32_t unit, const char *text, size_t size) {
  for (size_t i = 0; i < size && unit != NO_UNIT; i++) unit = step(trie, unit, (unsigned char)text[i]);
  return unit;
}

/* Returns the value of a string, -1 if the trie has not got it. */
static int32_t look_up(const uint32_t *trie, const char *text, size_t size) {
  uint32_t unit = walk(trie, 0, text, size);
  return unit == NO_UNIT ? -1 : value_at(trie, unit);
}

/* Returns the bytes of the longest string that a text begins with, 0 if none. */
static size_t longest_prefix(const uint32_t *trie, const char *text, size_t size, int32_t *value) {
  size_t longest = 0;
  uint32_t unit = 0;
  for (size_t i = 0; i < size && i < LONGEST_PIECE; i++) {
    unit = step(trie, unit, (unsigned char)text[i]);
    if (unit == NO_UNIT) break;
    if (has_leaf(trie[unit])) {
      longest = i + 1;
      *value = value_at(trie, unit);
    }
  }
  return longest;
}

/* Bytes of the character that a valid text begins with, as SentencePiece counts them: by its first byte. */
static inline size_t character_size(const char *text, size_t size) {
  unsigned first = (unsigned char)text[0];
  size_t bytes = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return bytes < size ? bytes : size;
}

/* --- opening ------------------------------------------------------------------------------------------------- */

/* Returns 1 if every unit leads inside, every leaf that is promised is one, and each value is below `limit`. */
static int trie_is_sound(const uint32_t *trie, uint64_t size, uint64_t limit) {
  uint64_t units = size / 4;
  if (size % 1024 || units < 256 || units > (1u << 29)) return 0;
  if ((trie[0] & (LEAF | 0x1ff)) || offset_of(trie[0]) == 0) return 0;
  for (uint64_t i = 0; i < units; i++) {
    if (trie[i] & LEAF) {
      if ((trie[i] & ~LEAF) >= limit) return 0;
      continue;
    }
    uint64_t base = i ^ offset_of(trie[i]);
    if ((base | 0xff) >= units) return 0;
    if (has_leaf(trie[i]) && !(trie[base] & LEAF)) return 0;
  }
  return 1;
}

static const char *check_header(const Header *header, const void *data, size_t size) {
  if ((uintptr_t)data % 8) return "the tokenizer's tables are not aligned to 8 bytes";
  if (size < sizeof *header) return "the tokenizer's tables are cut short";
  if (header->magic != MAGIC) return "these are not a tokenizer's tables, or not for machines of this byte order";
  if (header->version != VERSION) return "the tokenizer's tables are of another version; export the model again";
  if (header->kind < BPE || header->kind > WHITESPACE || header->flags >= 2 * WORDWISE)
    return "the tokenizer's tables are damaged: an unknown kind of vocabulary";
  if (header->tokens <= EOS || header->tokens > INT32_MAX / 8 || header->pieces == 0 ||
      header->pieces > INT32_MAX / 8)
    return "the tokenizer's tables are damaged: a number of tokens that cannot be";
  if (header->unknown_token < 0 || (uint32_t)header->unknown_token >= header->tokens ||
      !isfinite(header->unknown_score))
    return "the tokenizer's tables are damaged: what is said of unknown characters";
  for (int i = 0; i < PARTS; i++) {
    Part part = header->parts[i];
    if (part.offset % 8 || part.offset < sizeof *header || part.offset > size || part.size > size - part.offset)
      return "the tokenizer's tables are cut short or damaged: a part lies outside";
  }
  uint64_t tokens = header->tokens, pieces = header->pieces;
  const Part *parts = header->parts;
  if (parts[TOKEN_STARTS].size != 4 * (tokens + 1) || parts[TOKEN_KINDS].size != tokens ||
      parts[PIECE_SCORES].size != 4 * pieces || parts[PIECE_TOKENS].size != 4 * pieces ||
      parts[PIECE_KINDS].size != pieces || parts[BYTE_TOKENS].size != (header->flags & BYTE_FALLBACK ? 1024 : 0) ||
      !parts[PIECE_TRIE].size)
    return "the tokenizer's tables are damaged: parts of another size";
  return NULL;
}

static int hexadecimal(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* Returns the byte that a token such as <0x41> stands for, -1 if it is none. */
static int byte_of(const char *token, size_t size) {
  if (size != 6 || memcmp(token, "<0x", 3) || token[5] != '>') return -1;
  int high = hexadecimal(token[3]), low = hexadecimal(token[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

static const char *token_of(const Tokenizer *t, uint32_t id, size_t *size) {
  *size = t->token_starts[id + 1] - t->token_starts[id] - 1;
  return t->token_text + t->token_starts[id];
}

static const char *check_tokens(const Tokenizer *t, uint64_t text_size) {
  for (uint32_t id = 0; id <= t->tokens; id++)
    if (t->token_starts[id] > text_size || (id ? t->token_starts[id] <= t->token_starts[id - 1] : t->token_starts[id]))
      return "the tokenizer's tables are damaged: where tokens begin";
  if (t->token_starts[t->tokens] != text_size) return "the tokenizer's tables are damaged: where tokens end";
  for (uint32_t id = 0; id < t->tokens; id++) {
    size_t size;
    const char *token = token_of(t, id, &size);
    if (token[size] || !utf8_is_valid(token, size)) return "the tokenizer's tables are damaged: a token is not UTF-8";
    if (t->token_kinds[id] > TOKEN_FLAGS || ((t->token_kinds[id] & DECODING) == AS_BYTE && byte_of(token, size) < 0))
      return "the tokenizer's tables are damaged: the kind of a token";
  }
  return NULL;
}

static const char *check_pieces(Tokenizer *t) {
  for (uint32_t id = 0; id < t->pieces; id++) {
    if (!isfinite(t->scores[id])) return "the tokenizer's tables are damaged: a score that is not finite";
    if (t->piece_tokens[id] < 0 || (uint32_t)t->piece_tokens[id] >= t->tokens)
      return "the tokenizer's tables are damaged: a piece has no token";
    if (t->piece_kinds[id] < NORMAL || t->piece_kinds[id] > BYTE)
      return "the tokenizer's tables are damaged: the kind of a piece";
    t->has_unused |= t->piece_kinds[id] == UNUSED;
  }
  for (int byte = 0; t->byte_tokens && byte < 256; byte++)
    if (t->byte_tokens[byte] < 0 || (uint32_t)t->byte_tokens[byte] >= t->tokens)
      return "the tokenizer's tables are damaged: a byte has no token";
  if (!utf8_is_valid(t->unknown_surface, t->unknown_surface_size))
    return "the tokenizer's tables are damaged: the text for unknown tokens is not UTF-8";
  return NULL;
}

static const char *check_tries(const Tokenizer *t, const Header *header) {
  static const char damaged[] = "the tokenizer's tables are damaged: a trie";
  const Part *parts = header->parts;
  uint64_t text_size = parts[CHARSMAP_TEXT].size;
  if (!trie_is_sound(t->piece_trie, parts[PIECE_TRIE].size, t->pieces)) return damaged;
  if (t->user_trie && !trie_is_sound(t->user_trie, parts[USER_TRIE].size, t->pieces)) return damaged;
  if (t->name_trie && !trie_is_sound(t->name_trie, parts[NAME_TRIE].size, t->tokens)) return damaged;
  if (!t->name_trie && (t->flags & NUMBERED)) return damaged;
  if (!t->charsmap) return NULL;
  if (!trie_is_sound(t->charsmap, parts[CHARSMAP_TRIE].size, text_size)) return damaged;
  if (t->charsmap_text[text_size - 1] || !utf8_is_valid(t->charsmap_text, text_size))
    return "the tokenizer's tables are damaged: the normal form of a character is not UTF-8";
  for (uint64_t i = 0; i < parts[CHARSMAP_TRIE].size / 4; i++) /* no normal form begins inside a character */
    if ((t->charsmap[i] & LEAF) && (t->charsmap_text[t->charsmap[i] & ~LEAF] & 0xc0) == 0x80) return damaged;
  return NULL;
}

static const void *part_of(const Header *header, int part) {
  return header->parts[part].size ? (const char *)header + header->parts[part].offset : NULL;
}

static void set_views(Tokenizer *t, const Header *header) {
  *t = (Tokenizer){
      .kind = header->kind,
      .flags = header->flags,
      .tokens = header->tokens,
      .pieces = header->pieces,
      .unknown_token = header->unknown_token,
      .unknown_score = header->unknown_score,
      .token_starts = part_of(header, TOKEN_STARTS),
      .token_text = part_of(header, TOKEN_TEXT),
      .token_kinds = part_of(header, TOKEN_KINDS),
      .scores = part_of(header, PIECE_SCORES),
      .piece_tokens = part_of(header, PIECE_TOKENS),
      .piece_kinds = part_of(header, PIECE_KINDS),
      .piece_trie = part_of(header, PIECE_TRIE),
      .user_trie = part_of(header, USER_TRIE),
      .name_trie = part_of(header, NAME_TRIE),
      .charsmap = part_of(header, CHARSMAP_TRIE),
      .charsmap_text = part_of(header, CHARSMAP_TEXT),
      .byte_tokens = part_of(header, BYTE_TOKENS),
      .unknown_surface = part_of(header, UNKNOWN_SURFACE),
      .unknown_surface_size = (size_t)header->parts[UNKNOWN_SURFACE].size,
  };
}

Tokenizer *tokenizer_open(const void *data, size_t size, char *error, size_t error_size) {
  const Header *header = data;
  const char *problem = check_header(header, data, size);
  Tokenizer *t = problem ? NULL : malloc(sizeof *t);
  if (!problem && !t) problem = "there is not enough memory for the tokenizer";
  if (!problem) {
    set_views(t, header);
    problem = check_tokens(t, header->parts[TOKEN_TEXT].size);
  }
  if (!problem) problem = check_pieces(t);
  if (!problem) problem = check_tries(t, header);
  if (!problem) return t;
  if (error && error_size) snprintf(error, error_size, "%s", problem);
  free(t);
  return NULL;
}

void tokenizer_close(Tokenizer *tokenizer) { free(tokenizer); }

int32_t tokenizer_size(const Tokenizer *tokenizer) { return (int32_t)tokenizer->tokens; }

const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id, size_t *size) {
  *size = 0;
  if (id < 0 || (uint32_t)id >= tokenizer->tokens) return NULL;
  return token_of(tokenizer, (uint32_t)id, size);
}

int tokenizer_byte(const Tokenizer *tokenizer, int32_t id) {
  if (id < 0 || id >= tokenizer_size(tokenizer) || (tokenizer->token_kinds[id] & DECODING) != AS_BYTE) return -1;
  size_t size;
  const char *token = token_of(tokenizer, (uint32_t)id, &size);
  return byte_of(token, size);
}

/* --- normalising --------------------------------------------------------------------------------------------- */

typedef struct {
  const char *text; /* normal form of the beginning of a line, */
  size_t size;
  size_t consumed; /* and how much of the line that is */
} Normal;

static Normal normal_prefix(const Tokenizer *t, const char *line, size_t size) {
  int32_t value = 0;
  uint32_t character;
  size_t longest = t->user_trie ? longest_prefix(t->user_trie, line, size, &value) : 0;
  if (longest) return (Normal){line, longest, longest};
  longest = t->charsmap ? longest_prefix(t->charsmap, line, size, &value) : 0;
  if (longest) return (Normal){t->charsmap_text + value, strlen(t->charsmap_text + value), longest};
  size_t bytes = utf8_read(line, size, &character);
  if (bytes) return (Normal){line, bytes, bytes};
  return (Normal){"\xef\xbf\xbd", 3, 1}; /* a damaged trie divided a character */
}

static const char *space_of(const Tokenizer *t, size_t *size) {
  *size = t->flags & ESCAPE_SPACES ? SPACE_SIZE : 1;
  return t->flags & ESCAPE_SPACES ? SPACE : " ";
}

/* Appends text with spaces written as the vocabulary does. */
static int append_escaped(const Tokenizer *t, const char *text, size_t size, TextBuffer *out) {
  size_t space_size;
  const char *space = space_of(t, &space_size);
  int status = text_reserve(out, size);
  while (!status && size) {
    const char *gap = memchr(text, ' ', size);
    size_t plain = gap ? (size_t)(gap - text) : size;
    status = text_append(out, text, plain);
    if (gap && !status) status = text_append(out, space, space_size);
    text += plain + (gap != NULL);
    size -= plain + (gap != NULL);
  }
  return status;
}

/* Appends the normal form of a line by the rules of the vocabulary itself. */
static int append_normal(const Tokenizer *t, const char *line, size_t size, TextBuffer *out) {
  int after_space = (t->flags & REMOVE_SPACES) != 0, status = TOKENIZER_OK;
  for (size_t at = 0; !status && at < size;) {
    Normal normal = normal_prefix(t, line + at, size - at);
    while (after_space && normal.size && *normal.text == ' ') {
      normal.text++;
      normal.size--;
    }
    if (normal.size) {
      status = append_escaped(t, normal.text, normal.size, out);
      after_space = (t->flags & REMOVE_SPACES) && normal.text[normal.size - 1] == ' ';
    }
    at += normal.consumed;
  }
  return status;
}

/* Writes a clean line as SentencePiece segments it. */
static int normalise(const Tokenizer *t, const char *line, size_t size, TextBuffer *out) {
  size_t space_size, start = 0;
  const char *space = space_of(t, &space_size);
  int affix = t->flags & DUMMY_PREFIX, suffix = t->flags & SPACE_AS_SUFFIX, remove = t->flags & REMOVE_SPACES;
  while (remove && start < size) {
    Normal normal = normal_prefix(t, line + start, size - start);
    if (normal.size != 1 || *normal.text != ' ') break;
    start += normal.consumed;
  }
  if (start == size) return TOKENIZER_OK;
  int status = affix && !suffix ? text_append(out, space, space_size) : TOKENIZER_OK;
  if (status) return status;
  if (t->charsmap || t->user_trie) status = append_normal(t, line + start, size - start, out);
  else status = append_escaped(t, line + start, size - start, out); /* a clean line has no doubled spaces */
  while (remove && out->size >= space_size && !memcmp(out->data + out->size - space_size, space, space_size))
    out->size -= space_size;
  if (affix && suffix && !status) status = text_append(out, space, space_size);
  return status;
}

/* --- ids of pieces ------------------------------------------------------------------------------------------- */

typedef struct {
  const Tokenizer *tokenizer;
  const char *text; /* normalised */
  TokenBuffer *out;
  size_t run, run_end; /* unknown characters in a row that are not written yet */
  size_t first, count; /* pieces so far, and the size of the first if it is ▁ */
} Emitter;

int add_token(TokenBuffer *tokens, int32_t token) {
  if (reserve((void **)&tokens->data, &tokens->capacity, tokens->size + 1, sizeof(int32_t))) return -1;
  tokens->data[tokens->size++] = token;
  return 0;
}

void tokens_free(TokenBuffer *tokens) {
  free(tokens->data);
  *tokens = (TokenBuffer){NULL, 0, 0};
}

static void note_piece(Emitter *e, size_t start, size_t end) {
  if (e->count++ == 0) e->first = end - start == SPACE_SIZE && !memcmp(e->text + start, SPACE, SPACE_SIZE);
}

/* Writes a run of unknown characters of a numbered vocabulary. Python writes one UNK for each of two noncharacters,
   which stand for unknown tokens there: U+FDD0, and U+FDD1 for one without a space before it. */
static int push_unknown_name(Emitter *e, const char *run, size_t size) {
  int32_t token = look_up(e->tokenizer->name_trie, run, size);
  size_t strange = 0;
  int status = TOKENIZER_OK;
  if (e->count == 1 && e->first && size >= 3 && !memcmp(run, "\xef\xb7\x91", 3)) e->out->size--;
  for (size_t i = 0; i + 3 <= size; i++) strange += !memcmp(run + i, "\xef\xb7", 2) && (run[i + 2] & 0xfe) == 0x90;
  if (strange == 0) return add_token(e->out, token < 0 ? UNK : token);
  while (strange-- && !status) status = add_token(e->out, UNK);
  return status;
}

static int end_run(Emitter *e) {
  if (e->run == e->run_end) return TOKENIZER_OK;
  const Tokenizer *t = e->tokenizer;
  size_t start = e->run, end = e->run_end;
  e->run = e->run_end;
  int status = TOKENIZER_OK;
  if (t->flags & NUMBERED) status = push_unknown_name(e, e->text + start, end - start);
  else status = add_token(e->out, t->unknown_token);
  note_piece(e, start, end);
  return status;
}

/* Writes the piece of a part of the text, -1 if it has none. */
static int emit(Emitter *e, size_t start, size_t end, int32_t piece) {
  const Tokenizer *t = e->tokenizer;
  int status = TOKENIZER_OK;
  if (piece >= 0) {
    if (e->run != e->run_end) status = end_run(e);
    if (!status) status = add_token(e->out, t->piece_tokens[piece]);
    note_piece(e, start, end);
  } else if (t->byte_tokens) {
    for (size_t i = start; i < end && !status; i++) status = add_token(e->out, t->byte_tokens[(unsigned char)e->text[i]]);
    e->count++; /* a byte is no ▁ */
  } else {
    if (e->run == e->run_end) e->run = start;
    e->run_end = end;
  }
  return status;
}

/* --- byte pair encoding -------------------------------------------------------------------------------------- */

typedef struct {
  uint32_t start, end; /* in the text; empty once it is merged into the one before */
  uint32_t unit;       /* of the trie, NO_UNIT if no piece begins so */
  int32_t piece;       /* -1 if unknown */
} Symbol;

typedef struct { /* two neighbours together */
  int32_t order; /* INT32_MIN if they are no piece */
  uint32_t unit;
  int32_t piece;
} Pair;

/* Returns an integer that orders as a finite score does, as SentencePiece compares them: -0.0 is less than 0.0. */
static inline int32_t order_of(float score) {
  int32_t bits;
  memcpy(&bits, &score, sizeof bits);
  return bits < 0 ? (int32_t)((uint32_t)bits ^ 0x7fffffffu) : bits;
}

static inline Symbol symbol_at(const Tokenizer *t, const char *text, size_t start, size_t end) {
  uint32_t unit = walk(t->piece_trie, 0, text + start, end - start);
  return (Symbol){(uint32_t)start, (uint32_t)end, unit, unit == NO_UNIT ? -1 : value_at(t->piece_trie, unit)};
}

static inline Pair pair_of(const Tokenizer *t, const char *text, const Symbol *left, const Symbol *right) {
  Pair pair = {INT32_MIN, NO_UNIT, -1};
  if (left->unit == NO_UNIT || right->end - left->start > LONGEST_PIECE) return pair;
  pair.unit = walk(t->piece_trie, left->unit, text + right->start, right->end - right->start);
  if (pair.unit == NO_UNIT) return pair;
  pair.piece = value_at(t->piece_trie, pair.unit);
  if (pair.piece >= 0) pair.order = order_of(t->scores[pair.piece]);
  return pair;
}

/* Merges a short word: the best pair is looked for anew each time. */
static int merge_short(Emitter *e, Symbol *symbols, size_t count) {
  const Tokenizer *t = e->tokenizer;
  Pair pairs[SHORT_WORD];
  for (size_t i = 0; i + 1 < count; i++) pairs[i] = pair_of(t, e->text, &symbols[i], &symbols[i + 1]);
  for (;;) {
    size_t best = 0;
    int32_t most = INT32_MIN;
    for (size_t i = 0; i + 1 < count; i++) {
      if (pairs[i].order <= most) continue;
      most = pairs[i].order;
      best = i;
    }
    if (most == INT32_MIN) break;
    symbols[best] = (Symbol){symbols[best].start, symbols[best + 1].end, pairs[best].unit, pairs[best].piece};
    for (size_t i = best + 1; i + 1 < count; i++) {
      symbols[i] = symbols[i + 1];
      pairs[i - 1] = pairs[i];
    }
    count--;
    if (best > 0) pairs[best - 1] = pair_of(t, e->text, &symbols[best - 1], &symbols[best]);
    if (best + 1 < count) pairs[best] = pair_of(t, e->text, &symbols[best], &symbols[best + 1]);
  }
  int status = TOKENIZER_OK;
  for (size_t i = 0; i < count && !status; i++) status = emit(e, symbols[i].start, symbols[i].end, symbols[i].piece);
  return status;
}

typedef struct { /* a pair that may be merged, unless one of the two was in the meantime */
  int64_t order; /* by score, then the leftmost */
  uint32_t right, size;
} Candidate;

typedef struct {
  Symbol symbol;
  int32_t before, after; /* -1 at the ends */
  int frozen;            /* never merged */
} Node;

typedef struct { /* the merging of a long line */
  Emitter *emitter;
  Node *nodes;
  Candidate *agenda; /* a heap, the best first */
  size_t count, agenda_size;
  uint32_t *divisions; /* unused pieces are taken apart again: bytes of the left part when one was last put together */
} Merging;

static void add_candidate(Merging *m, Candidate candidate) {
  size_t at = m->agenda_size++;
  for (; at > 0 && m->agenda[(at - 1) / 2].order < candidate.order; at = (at - 1) / 2)
    m->agenda[at] = m->agenda[(at - 1) / 2];
  m->agenda[at] = candidate;
}

static Candidate take_best(Merging *m) {
  Candidate best = m->agenda[0], last = m->agenda[--m->agenda_size];
  size_t at = 0, child;
  while ((child = 2 * at + 1) < m->agenda_size) {
    if (child + 1 < m->agenda_size && m->agenda[child + 1].order > m->agenda[child].order) child++;
    if (m->agenda[child].order <= last.order) break;
    m->agenda[at] = m->agenda[child];
    at = child;
  }
  m->agenda[at] = last;
  return best;
}

static void consider(Merging *m, int32_t left, int32_t right) {
  if (left < 0 || right < 0 || m->nodes[left].frozen || m->nodes[right].frozen) return;
  const Tokenizer *t = m->emitter->tokenizer;
  const Symbol *first = &m->nodes[left].symbol, *second = &m->nodes[right].symbol;
  Pair pair = pair_of(t, m->emitter->text, first, second);
  if (pair.piece < 0) return;
  int64_t order = (int64_t)pair.order * ((int64_t)1 << 32) + (INT32_MAX - left);
  add_candidate(m, (Candidate){order, (uint32_t)right, second->end - first->start});
  if (m->divisions && t->piece_kinds[pair.piece] == UNUSED) m->divisions[pair.piece] = first->end - first->start;
}

static void merge_all(Merging *m) {
  for (size_t i = 0; i + 1 < m->count; i++) consider(m, (int32_t)i, (int32_t)i + 1);
  while (m->agenda_size > 0) {
    Candidate best = take_best(m);
    int32_t left = INT32_MAX - (int32_t)(best.order & UINT32_MAX);
    Node *first = &m->nodes[left], *second = &m->nodes[best.right];
    size_t sizes[2] = {first->symbol.end - first->symbol.start, second->symbol.end - second->symbol.start};
    if (!sizes[0] || !sizes[1] || sizes[0] + sizes[1] != best.size) continue;
    Pair pair = pair_of(m->emitter->tokenizer, m->emitter->text, &first->symbol, &second->symbol);
    first->symbol = (Symbol){first->symbol.start, second->symbol.end, pair.unit, pair.piece};
    first->after = second->after;
    if (second->after >= 0) m->nodes[second->after].before = left;
    second->symbol.start = second->symbol.end;
    consider(m, first->before, left);
    consider(m, left, first->after);
  }
}

/* Writes a merged piece; an unused one is divided into what it was merged from. */
static int emit_merged(Merging *m, size_t start, size_t end, int depth) {
  Emitter *e = m->emitter;
  const Tokenizer *t = e->tokenizer;
  int32_t piece = look_up(t->piece_trie, e->text + start, end - start);
  if (piece < 0 || depth > DEEPEST || t->piece_kinds[piece] != UNUSED) return emit(e, start, end, piece);
  size_t left = m->divisions ? m->divisions[piece] : 0;
  if (left == 0 || left >= end - start) return emit(e, start, end, -1);
  int status = emit_merged(m, start, start + left, depth + 1);
  return status ? status : emit_merged(m, start + left, end, depth + 1);
}

/* Merges part of a line with an agenda, in n log n steps. */
static int merge_long(Emitter *e, size_t start, size_t end) {
  const Tokenizer *t = e->tokenizer;
  Merging m = {.emitter = e};
  size_t characters = 0;
  for (size_t i = start; i < end; i++) characters += (e->text[i] & 0xc0) != 0x80;
  m.nodes = malloc((characters + 1) * sizeof *m.nodes);
  m.agenda = malloc((2 * characters + 1) * sizeof *m.agenda); /* a merge takes one candidate and adds two */
  m.divisions = t->has_unused ? calloc(t->pieces, sizeof *m.divisions) : NULL;
  int status = m.nodes && m.agenda && (m.divisions || !t->has_unused) ? TOKENIZER_OK : TOKENIZER_NO_MEMORY;
  for (size_t at = start; !status && at < end;) {
    int32_t value = 0, last = (int32_t)m.count - 1;
    size_t user = t->user_trie ? longest_prefix(t->user_trie, e->text + at, end - at, &value) : 0;
    size_t bytes = user ? user : character_size(e->text + at, end - at);
    while (at + bytes < end && (e->text[at + bytes] & 0xc0) == 0x80) bytes++; /* if a damaged trie divides it */
    m.nodes[m.count++] = (Node){symbol_at(t, e->text, at, at + bytes), last, last + 2, user > 0};
    at += bytes;
  }
  if (!status && m.count) {
    m.nodes[m.count - 1].after = -1;
    merge_all(&m);
  }
  for (int32_t i = m.count ? 0 : -1; !status && i >= 0; i = m.nodes[i].after)
    status = emit_merged(&m, m.nodes[i].symbol.start, m.nodes[i].symbol.end, 0);
  free(m.nodes);
  free(m.agenda);
  free(m.divisions);
  return status;
}

static int merge_word(Emitter *e, size_t start, size_t end) {
  Symbol symbols[SHORT_WORD];
  size_t count = 0;
  for (size_t at = start; at < end; count++) {
    if (count == SHORT_WORD) return merge_long(e, start, end);
    size_t bytes = character_size(e->text + at, end - at);
    symbols[count] = symbol_at(e->tokenizer, e->text, at, at + bytes);
    at += bytes;
  }
  return merge_short(e, symbols, count);
}

/* Returns where the next word begins: at the next ▁. */
static size_t next_word(const char *text, size_t start, size_t size) {
  for (size_t at = start + 1; at < size; at++) {
    const char *space = memchr(text + at, SPACE[0], size - at);
    if (!space) return size;
    at = (size_t)(space - text);
    if (size - at >= SPACE_SIZE && !memcmp(space, SPACE, SPACE_SIZE)) return at;
  }
  return size;
}

static int merge_line(Emitter *e, size_t size) {
  const Tokenizer *t = e->tokenizer;
  if (!(t->flags & WORDWISE) || t->has_unused || t->user_trie) return merge_long(e, 0, size);
  int status = TOKENIZER_OK;
  for (size_t start = 0, end; start < size && !status; start = end) {
    end = next_word(e->text, start, size);
    status = merge_word(e, start, end);
  }
  return status;
}

/* --- unigram, characters, whitespace ------------------------------------------------------------------------- */

typedef struct { /* the best segmentation of a text up to here */
  float score;
  int32_t start; /* of its last piece, -1 if there is none; later the end of the piece after it */
  int32_t piece;
} Best;

static inline void improve(Best *best, float score, size_t start, int32_t piece) {
  if (best->start >= 0 && !(score > best->score)) return;
  *best = (Best){score, (int32_t)start, piece};
}

/* Takes the score at `start` off all that follow, so that rounding stays small. */
static void reset_scores(Best *best, size_t start, size_t frontier) {
  float score = best[start].score;
  for (size_t i = start; i <= frontier; i++)
    if (i == start || best[i].start != -1) best[i].score -= score;
}

/* Finds the likeliest segmentation (Viterbi), in the float32 arithmetic of SentencePiece. */
static void search_best(const Tokenizer *t, const char *text, size_t size, Best *best) {
  size_t frontier = 0;
  for (size_t start = 0; start < size;) {
    if (best[start].score < -SCORE_RESET || best[start].score > SCORE_RESET) reset_scores(best, start, frontier);
    float score = best[start].score;
    size_t bytes = character_size(text + start, size - start);
    int has_character = 0;
    uint32_t unit = 0;
    for (size_t end = start; end < size && end - start < LONGEST_PIECE;) {
      unit = step(t->piece_trie, unit, (unsigned char)text[end++]);
      if (unit == NO_UNIT) break;
      int32_t piece = value_at(t->piece_trie, unit);
      if (piece < 0 || t->piece_kinds[piece] == UNUSED) continue;
      if (end > frontier) frontier = end;
      int user_defined = t->piece_kinds[piece] == USER_DEFINED;
      float own = user_defined ? (float)(0.1 * (double)((int)(end - start) - 1)) : t->scores[piece];
      improve(&best[end], own + score, start, piece);
      has_character |= end - start == bytes;
    }
    if (!has_character) {
      if (start + bytes > frontier) frontier = start + bytes;
      improve(&best[start + bytes], t->unknown_score + score, start, -1);
    }
    start += bytes;
  }
}

static int segment_unigram(Emitter *e, size_t size) {
  Best *best = malloc((size + 1) * sizeof *best);
  if (!best) return TOKENIZER_NO_MEMORY;
  for (size_t i = 0; i <= size; i++) best[i] = (Best){0, -1, -1};
  search_best(e->tokenizer, e->text, size, best);
  int32_t after = -1, start = 0;
  for (int32_t end = (int32_t)size; end > 0;) { /* turn the links around */
    int32_t before = best[end].start;
    best[end].start = after;
    after = end;
    end = before;
  }
  int status = TOKENIZER_OK;
  for (int32_t end = after; end > 0 && !status; end = best[end].start) {
    status = emit(e, (size_t)start, (size_t)end, best[end].piece);
    start = end;
  }
  free(best);
  return status;
}

static int segment_characters(Emitter *e, size_t size) {
  const Tokenizer *t = e->tokenizer;
  int status = TOKENIZER_OK;
  for (size_t at = 0; at < size && !status;) {
    int32_t value = 0;
    size_t user = t->user_trie ? longest_prefix(t->user_trie, e->text + at, size - at, &value) : 0;
    size_t bytes = user ? user : character_size(e->text + at, size - at);
    int32_t piece = look_up(t->piece_trie, e->text + at, bytes);
    if (piece >= 0 && t->piece_kinds[piece] == UNUSED) piece = -1;
    status = emit(e, at, at + bytes, piece);
    at += bytes;
  }
  return status;
}

/* Looks up what stands between spaces; each unknown word is an UNK of its own. */
static int look_up_words(const Tokenizer *t, const char *line, size_t size, TokenBuffer *out) {
  uint32_t begin = walk(t->piece_trie, 0, SPACE, SPACE_SIZE);
  int status = TOKENIZER_OK;
  while (size && !status) {
    const char *gap = memchr(line, ' ', size);
    size_t word = gap ? (size_t)(gap - line) : size;
    uint32_t unit = walk(t->piece_trie, begin, line, word);
    int32_t piece = unit == NO_UNIT ? -1 : value_at(t->piece_trie, unit);
    if (word) status = add_token(out, piece < 0 ? t->unknown_token : t->piece_tokens[piece]);
    line += word + (gap != NULL);
    size -= word + (gap != NULL);
  }
  return status;
}

/* --- encoding ------------------------------------------------------------------------------------------------ */

size_t tokenizer_language_code(const Tokenizer *tokenizer, const char *clean_text, size_t size) {
  if (!(tokenizer->flags & NUMBERED) || size < 4 || memcmp(clean_text, ">>", 2)) return 0;
  size_t at = 2;
  for (int characters = 2; characters + 2 <= LONGEST_CODE && at + 2 <= size; characters++) {
    if (!memcmp(clean_text + at, "<<", 2)) return at + 2;
    at += character_size(clean_text + at, size - at);
  }
  return 0;
}

static int segment(const Tokenizer *t, const TextBuffer *normal, TokenBuffer *out) {
  Emitter e = {.tokenizer = t, .text = normal->data, .out = out};
  int status = TOKENIZER_OK;
  if (normal->size == 0) return TOKENIZER_OK;
  if (normal->size > LARGEST_LINE) return TOKENIZER_NO_MEMORY;
  if (t->kind == BPE) status = merge_line(&e, normal->size);
  else if (t->kind == UNIGRAM) status = segment_unigram(&e, normal->size);
  else status = segment_characters(&e, normal->size);
  return status ? status : end_run(&e);
}

/* Replaces ▁, which would be read as a space. */
static size_t replace_space_signs(char *text, size_t size, char replacement) {
  size_t kept = 0;
  for (size_t at = 0; at < size;) {
    const char *sign = memchr(text + at, SPACE[0], size - at);
    size_t plain = sign ? (size_t)(sign - text) - at : size - at;
    if (kept != at) memmove(text + kept, text + at, plain);
    kept += plain;
    at += plain;
    if (at == size) break;
    int is_sign = size - at >= SPACE_SIZE && !memcmp(text + at, SPACE, SPACE_SIZE);
    text[kept++] = is_sign ? replacement : text[at];
    at += is_sign ? SPACE_SIZE : 1;
  }
  return kept;
}

int tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t size, TokenBuffer *out) {
  const Tokenizer *t = tokenizer;
  TextBuffer line = {NULL, 0, 0}, normal = {NULL, 0, 0};
  size_t before = out->size;
  int status = text_clean(text, size, &line);
  if (!status && line.size) {
    line.size = replace_space_signs(line.data, line.size, '_');
    size_t code = tokenizer_language_code(t, line.data, line.size);
    if (code) {
      int32_t token = look_up(t->name_trie, line.data, code);
      status = add_token(out, token < 0 ? UNK : token);
    }
    if (!status && t->kind == WHITESPACE) {
      status = look_up_words(t, line.data, line.size, out);
    } else if (!status) {
      status = normalise(t, line.data + code, line.size - code, &normal);
      if (!status) status = segment(t, &normal, out);
    }
  }
  text_free(&line);
  text_free(&normal);
  if (status) out->size = before;
  return status;
}

/* --- decoding ------------------------------------------------------------------------------------------------ */

static uint32_t known_token(const Tokenizer *t, int32_t id) {
  return id >= 0 && (uint32_t)id < t->tokens ? (uint32_t)id : UNK;
}

static int is_skipped(int32_t id) { return id == PAD || id == BOS || id == EOS; }

/* Appends bytes as text, without those that form no character, as a target that was cut may end with. */
static int append_bytes(TextBuffer *bytes, TextBuffer *out) {
  int status = TOKENIZER_OK;
  uint32_t character;
  size_t start = out->size;
  for (size_t at = 0; at < bytes->size && !status;) {
    size_t size = utf8_read(bytes->data + at, bytes->size - at, &character);
    status = text_append(out, bytes->data + at, size);
    at += size ? size : 1;
  }
  bytes->size = 0;
  if (!status && out->size > start)
    out->size = start + replace_space_signs(out->data + start, out->size - start, ' ');
  return status;
}

static int append_token(const Tokenizer *t, uint32_t id, TextBuffer *out) {
  size_t size, start;
  const char *token = token_of(t, id, &size);
  int kind = t->token_kinds[id] & DECODING;
  if (kind == AS_UNKNOWN) return text_append(out, t->unknown_surface, t->unknown_surface_size);
  if (kind == AS_NOTHING) return TOKENIZER_OK;
  start = out->size;
  int status = text_append(out, token, size);
  if (!status) out->size = start + replace_space_signs(out->data + start, size, ' ');
  return status;
}

static int append_tokens(const Tokenizer *t, const int32_t *ids, size_t count, TextBuffer *bytes, TextBuffer *out) {
  int status = TOKENIZER_OK;
  for (size_t i = 0; i < count && !status; i++) {
    if (is_skipped(ids[i])) continue;
    uint32_t id = known_token(t, ids[i]);
    int byte = tokenizer_byte(t, (int32_t)id);
    if (byte >= 0) {
      status = text_append(bytes, &(char){(char)byte}, 1);
      continue;
    }
    if (bytes->size) status = append_bytes(bytes, out);
    if (!status) status = append_token(t, id, out);
  }
  return status || !bytes->size ? status : append_bytes(bytes, out);
}

static int append_words(const Tokenizer *t, const int32_t *ids, size_t count, TextBuffer *out) {
  int status = TOKENIZER_OK;
  for (size_t i = 0; i < count && !status; i++) {
    if (is_skipped(ids[i])) continue;
    size_t size;
    uint32_t id = known_token(t, ids[i]);
    const char *word = token_of(t, id, &size);
    size_t skip = size >= SPACE_SIZE && !memcmp(word, SPACE, SPACE_SIZE) ? SPACE_SIZE : 0;
    status = text_append(out, " ", 1);
    if (status) return status;
    if (id == UNK) status = text_append(out, t->unknown_surface, t->unknown_surface_size);
    else status = text_append(out, word + skip, size - skip);
  }
  return status;
}

int tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, size_t count, TextBuffer *out) {
  const Tokenizer *t = tokenizer;
  TextBuffer text = {NULL, 0, 0}, bytes = {NULL, 0, 0};
  int status = t->kind == WHITESPACE ? append_words(t, ids, count, &text) : append_tokens(t, ids, count, &bytes, &text);
  if (!status) status = text_clean(text.data, text.size, out);
  text_free(&text);
  text_free(&bytes);
  return status;
}

int tokenizer_word_indices(const Tokenizer *tokenizer, const int32_t *ids, size_t count, int32_t *words) {
  int32_t word = -1;
  int is_open = 0, has_letters = 0;
  for (size_t i = 0; i < count; i++) {
    uint8_t kind = tokenizer->token_kinds[known_token(tokenizer, ids[i])];
    words[i] = -1;
    if (kind & WORD_UNREAD) continue;
    if (!is_open || (has_letters && kind & WORD_START)) {
      word++;
      is_open = 1;
      has_letters = 0;
    }
    has_letters |= !(kind & WORD_GAP);
    words[i] = word;
  }
  for (size_t i = 0; is_open && !has_letters && i < count; i++)
    if (words[i] == word) words[i] = -1; /* a space that no word follows */
  return TOKENIZER_OK;
}
