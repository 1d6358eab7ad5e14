/* Translates the texts of standard input: each is its size in eight bytes and then itself, and so is what is written. */
#include "regard.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(const char *text, int64_t size) {
  fwrite(&size, sizeof size, 1, stdout);
  fwrite(text, 1, (size_t)size, stdout);
}

int main(int count, char **arguments) {
  char error[512];
  RegardModel *model = count == 2 ? regard_open(arguments[1], error, sizeof error) : NULL;
  if (!model) return fprintf(stderr, "%s\n", error), 1;
  RegardOptions options;
  regard_options(model, &options);
  int64_t given;
  while (fread(&given, sizeof given, 1, stdin) == 1) {
    size_t size = (size_t)given;
    char *line = malloc(size + 1);
    if (!line || fread(line, 1, size, stdin) != size) return 1;
    const char *lines[1] = {line};
    RegardResult *result = regard_translate(model, lines, &size, 1, NULL, &options, error, sizeof error);
    if (!result) return fprintf(stderr, "%s\n", error), 1;
    const RegardLine *read = regard_line(result, 0);
    const RegardHypothesis *best = regard_hypothesis(result, 0, 0);
    put(best->text, (int64_t)best->text_size);
    fwrite(&best->score, sizeof best->score, 1, stdout);
    int64_t parts = read->parts;
    fwrite(&parts, sizeof parts, 1, stdout);
    for (int32_t part = 0; part < read->parts; part++) {
      put(best->parts[part].source, (int64_t)best->parts[part].source_size);
      put(best->parts[part].text, (int64_t)best->parts[part].text_size);
    }
    put(read->note ? read->note : "", read->note ? (int64_t)strlen(read->note) : 0);
    regard_free(result);
    free(line);
  }
  regard_close(model);
  return 0;
}
