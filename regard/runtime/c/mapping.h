/* Files mapped into memory, read-only. */

#ifndef REGARD_MAPPING_H
#define REGARD_MAPPING_H

#include <stddef.h>
#include <stdint.h>

/* Maps a whole file; NULL with a sentence if it cannot be. An empty file cannot. */
const uint8_t *map_file(const char *path, size_t *size, char *error, size_t error_size);
void unmap_file(const void *data, size_t size);
/* Whether a mapped file is as it was when it was mapped: nobody has written into it or cut it short, and its content from
   the byte `start` on has this checksum. It may have lost its name to another file. */
int is_file_unchanged(const void *data, size_t start, uint64_t checksum);

#endif
