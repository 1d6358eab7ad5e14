/* The checksum of runtime files. */

#include "checksum.h"

#include <string.h>

/* A checksum against accidents: four lanes of 64 bits, each word mixed by a multiplication. */
REGARD_API uint64_t regard_checksum(const void *data, size_t size) {
  const uint64_t prime = 0x9E3779B185EBCA87u;
  uint64_t lanes[4] = {1, 2, 3, 4}, words[4], result = size * prime;
  const uint8_t *at = data;
  for (; size; at += 32) {
    size_t count = size < 32 ? size : 32;
    memset(words, 0, sizeof words), memcpy(words, at, count);
    for (int j = 0; j < 4; j++) {
      uint64_t x = (lanes[j] ^ words[j]) * prime;
      lanes[j] = x << 29 | x >> 35;
    }
    size -= count;
  }
  for (int j = 0; j < 4; j++) result = ((result ^ lanes[j]) * prime) ^ (result >> 31);
  return result;
}
