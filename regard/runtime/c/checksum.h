/* The checksum of runtime files. */

#ifndef REGARD_CHECKSUM_H
#define REGARD_CHECKSUM_H

#include "regard.h"

REGARD_API uint64_t regard_checksum(const void *data, size_t size);

#endif
