/* Sentences that say what is wrong. */

#include "explain.h"

#include <stdarg.h>
#include <stdio.h>

void explain(char *error, size_t size, const char *format, ...) {
  if (!error || !size) return;
  va_list values;
  va_start(values, format);
  vsnprintf(error, size, format, values);
  va_end(values);
}
