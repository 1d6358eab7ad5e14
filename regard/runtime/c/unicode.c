/* Normalisation of lines for every model: NFC (Unicode Standard Annex 15) and whitespace, in linear time.

   A line is copied until a character that may not be NFC; the part since the last character that never combines with
   what is before it is then decomposed, put into canonical order and composed again. */

#include <stdlib.h>
#include <string.h>

#include "unicode.h"
#include "unicode_tables.h"

#define NOT_QUICK 0x100  /* a text with this character may not be NFC */
#define DECOMPOSES 0x200
#define IS_SPACE 0x400   /* whitespace of Python's str.split */
#define CLASS_SHIFT 21   /* while it is normalised, a character carries its combining class above its code */
#define CODE_MASK 0x1fffffu
#define LONGEST_DECOMPOSITION 4
#define SMALLEST 64       /* bytes of a buffer */
#define FEW 32 /* so many are ordered by insertion, or normalised without memory from the heap */

enum { L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7, S_BASE = 0xac00 };
enum { L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, S_COUNT = L_COUNT * V_COUNT * T_COUNT };

const char *unicode_version(void) { return UNICODE_VERSION; }

/* --- UTF-8 and buffers --------------------------------------------------------------------------------------- */

size_t utf8_write(uint32_t character, char *text) {
  if (character < 0x80) {
    text[0] = (char)character;
    return 1;
  }
  size_t bytes = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  for (size_t i = bytes - 1; i > 0; i--) {
    text[i] = (char)(0x80 | (character & 0x3f));
    character >>= 6;
  }
  text[0] = (char)((0xf00u >> bytes & 0xf0) | character);
  return bytes;
}

int utf8_next(int state, int byte) {
  static const struct { uint8_t least, most, next; } wanted[UTF8_STATES] = {
    {0, 0x7f, WHOLE}, {0x80, 0xbf, WHOLE}, {0x80, 0xbf, ONE_MORE}, {0x80, 0xbf, TWO_MORE},
    {0xa0, 0xbf, ONE_MORE}, {0x80, 0x9f, ONE_MORE}, {0x90, 0xbf, TWO_MORE}, {0x80, 0x8f, TWO_MORE},
  };
  if (byte >= wanted[state].least && byte <= wanted[state].most) return wanted[state].next;
  if (state != WHOLE || byte < 0xc2 || byte > 0xf4) return -1;
  if (byte == 0xe0 || byte == 0xed) return byte == 0xe0 ? AFTER_E0 : AFTER_ED;
  if (byte == 0xf0 || byte == 0xf4) return byte == 0xf0 ? AFTER_F0 : AFTER_F4;
  return byte < 0xe0 ? ONE_MORE : byte < 0xf0 ? TWO_MORE : THREE_MORE;
}

int utf8_is_valid(const char *text, size_t size) {
  uint32_t character;
  for (size_t at = 0; at < size;) {
    size_t bytes = utf8_read(text + at, size - at, &character);
    if (bytes == 0) return 0;
    at += bytes;
  }
  return 1;
}

int reserve(void **data, size_t *capacity, size_t count, size_t item) {
  if (count <= *capacity) return 0;
  size_t wanted = count + count / 2;
  if (wanted > SIZE_MAX / 2 / item) return -1;
  if (wanted * item < SMALLEST) wanted = SMALLEST / item;
  void *larger = realloc(*data, wanted * item);
  if (!larger) return -1;
  *data = larger, *capacity = wanted;
  return 0;
}

int text_reserve(TextBuffer *text, size_t more) {
  if (more >= SIZE_MAX / 4 - text->size || reserve((void **)&text->data, &text->capacity, text->size + more + 1, 1)) return TOKENIZER_NO_MEMORY;
  text->data[text->size] = 0;
  return TOKENIZER_OK;
}

int text_append(TextBuffer *text, const char *data, size_t size) {
  int status = text_reserve(text, size);
  if (status) return status;
  if (size) memcpy(text->data + text->size, data, size);
  text->size += size;
  text->data[text->size] = 0;
  return TOKENIZER_OK;
}

void text_free(TextBuffer *text) {
  free(text->data);
  *text = (TextBuffer){NULL, 0, 0};
}

/* --- normalisation ------------------------------------------------------------------------------------------- */

static inline uint32_t properties_of(uint32_t character) {
  if (character >= UNICODE_LIMIT) return 0;
  uint32_t block = UNICODE_INDEX[character / UNICODE_BLOCK];
  return UNICODE_KINDS[UNICODE_BLOCKS[block * UNICODE_BLOCK + character % UNICODE_BLOCK]];
}

uint32_t character_kind(uint32_t character) {
  if (character >= UNICODE_LIMIT) return character < 0x32400 ? IS_LETTER : 0;
  return properties_of(character) >> 11;
}

static inline uint32_t with_class(uint32_t character) {
  return character | (properties_of(character) & 0xff) << CLASS_SHIFT;
}

/* Returns the row of a character that decomposes. */
static uint64_t decomposition_of(uint32_t character) {
  size_t low = 0, high = UNICODE_ROWS - 1;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if ((UNICODE_DECOMPOSITIONS[middle] & CODE_MASK) < character) low = middle + 1;
    else high = middle;
  }
  return UNICODE_DECOMPOSITIONS[low];
}

/* Writes the parts of a character with their classes; returns how many. */
static size_t decompose(uint32_t character, uint32_t *parts) {
  uint32_t tail[LONGEST_DECOMPOSITION];
  size_t count = 0, size = 0;
  uint32_t syllable = character - S_BASE;
  if (syllable < S_COUNT) {
    parts[size++] = L_BASE + syllable / (V_COUNT * T_COUNT);
    parts[size++] = V_BASE + syllable / T_COUNT % V_COUNT;
    if (syllable % T_COUNT) parts[size++] = T_BASE + syllable % T_COUNT;
    return size;
  }
  while (properties_of(character) & DECOMPOSES) { /* only the first part decomposes further */
    uint64_t row = decomposition_of(character);
    if (row >> 42) tail[count++] = (uint32_t)(row >> 42);
    character = (uint32_t)(row >> 21) & CODE_MASK;
  }
  parts[size++] = with_class(character);
  while (count > 0) parts[size++] = with_class(tail[--count]);
  return size;
}

/* Returns the character that two others compose to, 0 if none. */
static uint32_t composition_of(uint32_t first, uint32_t second) {
  if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT)
    return S_BASE + ((first - L_BASE) * V_COUNT + second - V_BASE) * T_COUNT;
  if (first - S_BASE < S_COUNT && (first - S_BASE) % T_COUNT == 0 && second - T_BASE - 1 < T_COUNT - 1)
    return first + second - T_BASE;
  uint64_t wanted = first | (uint64_t)second << 21;
  size_t low = 0, high = UNICODE_COMPOSED;
  while (low < high) {
    size_t middle = (low + high) / 2;
    uint64_t row = UNICODE_DECOMPOSITIONS[UNICODE_COMPOSITIONS[middle]], parts = row >> 21;
    if (parts == wanted) return (uint32_t)row & CODE_MASK;
    uint32_t begin = (uint32_t)parts & CODE_MASK;
    if (begin < first || (begin == first && parts >> 21 < second)) low = middle + 1;
    else high = middle;
  }
  return 0;
}

/* Orders combining marks by their class, those of one class as they came; long runs by counting, for they may be as
   long as the line. */
static void order_marks(uint32_t *marks, size_t count, uint32_t *scratch) {
  if (count <= FEW) {
    for (size_t i = 1; i < count; i++) {
      uint32_t mark = marks[i];
      size_t at = i;
      for (; at > 0 && marks[at - 1] >> CLASS_SHIFT > mark >> CLASS_SHIFT; at--) marks[at] = marks[at - 1];
      marks[at] = mark;
    }
    return;
  }
  size_t starts[257] = {0};
  for (size_t i = 0; i < count; i++) starts[(marks[i] >> CLASS_SHIFT) + 1]++;
  for (size_t i = 1; i < 257; i++) starts[i] += starts[i - 1];
  for (size_t i = 0; i < count; i++) scratch[starts[marks[i] >> CLASS_SHIFT]++] = marks[i];
  memcpy(marks, scratch, count * sizeof *marks);
}

static void put_in_order(uint32_t *characters, size_t count, uint32_t *scratch) {
  for (size_t start = 0; start < count;) {
    size_t end = start;
    while (end < count && characters[end] >> CLASS_SHIFT) end++;
    if (end > start) order_marks(characters + start, end - start, scratch);
    start = end + 1;
  }
}

/* Composes characters in canonical order, in place; returns how many are left. */
static size_t compose(uint32_t *characters, size_t count) {
  size_t kept = 0, starter = SIZE_MAX;
  for (size_t i = 0; i < count; i++) {
    uint32_t character = characters[i], class = character >> CLASS_SHIFT;
    if (starter != SIZE_MAX && (kept == starter + 1 || characters[kept - 1] >> CLASS_SHIFT < class)) {
      uint32_t composed = composition_of(characters[starter], character & CODE_MASK);
      if (composed) {
        characters[starter] = composed;
        continue;
      }
    }
    if (class == 0) starter = kept;
    characters[kept++] = character;
  }
  return kept;
}

/* Normalises what a buffer holds from `start` on. */
static int normalise_end(TextBuffer *out, size_t start) {
  uint32_t few[2 * LONGEST_DECOMPOSITION * FEW], *characters = few, character = 0;
  size_t most = 0, count = 0, kept;
  for (size_t i = start; i < out->size; i++) most += (out->data[i] & 0xc0) != 0x80;
  most *= LONGEST_DECOMPOSITION;
  if (most > LONGEST_DECOMPOSITION * FEW) {
    if (most > SIZE_MAX / 4 / sizeof *characters) return TOKENIZER_NO_MEMORY;
    characters = malloc(2 * most * sizeof *characters);
    if (!characters) return TOKENIZER_NO_MEMORY;
  }
  for (size_t at = start; at < out->size;) {
    at += utf8_read(out->data + at, out->size - at, &character);
    count += decompose(character, characters + count);
  }
  put_in_order(characters, count, characters + most);
  kept = compose(characters, count);
  out->size = start;
  int status = text_reserve(out, 4 * kept);
  for (size_t i = 0; !status && i < kept; i++)
    out->size += utf8_write(characters[i] & CODE_MASK, out->data + out->size);
  if (characters != few) free(characters);
  return status;
}

/* --- lines --------------------------------------------------------------------------------------------------- */

typedef struct {
  TextBuffer *out;
  size_t segment;      /* where the last character begins that never combines with what is before it */
  uint32_t last_class;
  int dirty;           /* the segment may not be NFC */
  int space;           /* whitespace came since */
} Cleaner;

static int end_segment(Cleaner *cleaner) {
  int status = cleaner->dirty ? normalise_end(cleaner->out, cleaner->segment) : TOKENIZER_OK;
  cleaner->segment = cleaner->out->size;
  cleaner->last_class = 0;
  cleaner->dirty = 0;
  return status;
}

/* Appends characters that never combine with what is before them, nor with each other. */
static int append_plain(Cleaner *cleaner, const char *text, size_t size) {
  int status = cleaner->dirty ? end_segment(cleaner) : TOKENIZER_OK;
  if (!status) status = text_append(cleaner->out, text, size);
  size_t last = cleaner->out->size;
  while (!status && last > 0 && (cleaner->out->data[--last] & 0xc0) == 0x80) continue;
  cleaner->segment = last;
  cleaner->last_class = 0;
  return status;
}

static int append_character(Cleaner *cleaner, const char *text, size_t size, uint32_t properties) {
  uint32_t class = properties & 0xff;
  if (class == 0 && !(properties & NOT_QUICK)) return append_plain(cleaner, text, size);
  if ((properties & NOT_QUICK) || (class && cleaner->last_class > class)) cleaner->dirty = 1;
  cleaner->last_class = class;
  return text_append(cleaner->out, text, size);
}

static inline int is_plain_ascii(char byte) { return (unsigned char)(byte - 0x21) < 0x5f; }

/* Soft hyphens, spaces of no width, marks of direction and of byte order. */
static int is_invisible(uint32_t c) {
  return c == 0xad || c == 0x61c || c == 0x200b || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || c == 0x2060 || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static int clean_line(Cleaner *cleaner, const char *text, size_t size) {
  size_t begin = cleaner->out->size;
  int status = text_reserve(cleaner->out, size);
  for (size_t at = 0; !status && at < size;) {
    size_t bytes = 0;
    uint32_t character = 0, properties = 0;
    while (at + bytes < size && is_plain_ascii(text[at + bytes])) bytes++;
    if (bytes == 0) {
      bytes = utf8_read(text + at, size - at, &character);
      if (bytes == 0) return TOKENIZER_NOT_UTF8;
      properties = properties_of(character);
    }
    if (is_invisible(character)) {
      at += bytes;
      continue;
    }
    if (properties & IS_SPACE) {
      cleaner->space = cleaner->out->size > begin;
    } else {
      if (cleaner->space) status = append_plain(cleaner, " ", 1);
      cleaner->space = 0;
      if (!status) status = append_character(cleaner, text + at, bytes, properties);
    }
    at += bytes;
  }
  return status ? status : end_segment(cleaner);
}

int text_clean(const char *text, size_t size, TextBuffer *out) {
  size_t begin = out->size;
  Cleaner cleaner = {.out = out, .segment = begin};
  int status = clean_line(&cleaner, text, size);
  if (status) out->size = begin;
  if (out->data) out->data[out->size] = 0;
  return status;
}
