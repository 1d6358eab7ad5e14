/* Counts the allocations of a greedy translation, linked with --wrap=malloc,--wrap=calloc,--wrap=realloc.
   Usage: allocations_driver FILE LINE. Prints those of a call of one such line, and of each further line of it. */

#include "regard.h"

#include <stdio.h>
#include <string.h>

#define MORE 20

static long count;

void *__real_malloc(size_t size);
void *__real_calloc(size_t number, size_t size);
void *__real_realloc(void *data, size_t size);
void *__wrap_malloc(size_t size) { return count++, __real_malloc(size); }
void *__wrap_calloc(size_t number, size_t size) { return count++, __real_calloc(number, size); }
void *__wrap_realloc(void *data, size_t size) { return count++, __real_realloc(data, size); }

static long allocations(RegardModel *model, const char *line, size_t lines) {
  const char *all[MORE + 1];
  size_t sizes[MORE + 1];
  RegardOptions options;
  regard_options(model, &options);
  options.beam = 1;
  for (size_t i = 0; i < lines; i++) all[i] = line, sizes[i] = strlen(line);
  long before = count;
  RegardResult *result = regard_translate(model, all, sizes, lines, NULL, &options, NULL, 0);
  long own = result ? count - before : -1;
  regard_free(result);
  return own;
}

int main(int number, char **arguments) {
  RegardModel *model = number == 3 ? regard_open(arguments[1], NULL, 0) : NULL;
  if (!model) return 2;
  allocations(model, arguments[2], MORE + 1); /* the decoder, which is kept */
  long one = allocations(model, arguments[2], 1), many = allocations(model, arguments[2], MORE + 1);
  printf("%ld %.2f\n", one, (double)(many - one) / MORE);
  regard_close(model);
}
