/* Files mapped into memory, read-only. */

#ifndef REGARD_MAPPING_H
#define REGARD_MAPPING_H

#include <stddef.h>
#include <stdint.h>

/* Maps a whole file; NULL with a sentence if it cannot be. An empty file cannot. */
const uint8_t *map_file(const char *path, size_t *size, char *error, size_t error_size);
void unmap_file(const void *data, size_t size);

#endif
