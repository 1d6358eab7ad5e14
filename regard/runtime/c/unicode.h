/* UTF-8, and buffers of text that grow. */

#ifndef REGARD_UNICODE_H
#define REGARD_UNICODE_H

#include "tokenizer.h"

/* Reads the character at the start of a text; returns its bytes, 0 if it is not UTF-8 (or the text is empty). */
static inline size_t utf8_read(const char *text, size_t size, uint32_t *character) {
  const unsigned char *at = (const unsigned char *)text;
  if (size == 0) return 0;
  uint32_t first = at[0];
  if (first < 0x80) {
    *character = first;
    return 1;
  }
  size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  if (first < 0xc2 || first > 0xf4 || size < bytes) return 0;
  uint32_t value = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    value = value << 6 | (at[i] & 0x3fu);
  }
  if (value < least[bytes] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
  *character = value;
  return bytes;
}

/* Text that is written byte by byte is in one of these states: between two characters, or before so many bytes of one; of
   characters that begin with 0xE0, 0xED, 0xF0 or 0xF4, the second byte has narrower bounds. */
enum { WHOLE, ONE_MORE, TWO_MORE, THREE_MORE, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4, UTF8_STATES };
/* Returns the state after one more byte, -1 if this byte cannot come next. */
int utf8_next(int state, int byte);

enum { IS_LETTER = 1, IS_DECIMAL = 2, IS_OTHER_NUMBER = 4, IS_LOWER = 8, IS_CASED = 16 };
/* What a character is: some of these. */
uint32_t character_kind(uint32_t character);

/* Writes a character; returns its bytes, at most 4. */
size_t utf8_write(uint32_t character, char *text);

/* Returns 1 if a text is UTF-8 as a whole. */
int utf8_is_valid(const char *text, size_t size);

/* Makes room for more bytes, and a NUL after them. */
int text_reserve(TextBuffer *text, size_t more);

int text_append(TextBuffer *text, const char *data, size_t size);

#endif
