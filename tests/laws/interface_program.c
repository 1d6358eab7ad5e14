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
    RegardResult *result = regard_translate(model, lines, &size, 1, &options, error, sizeof error);
    if (!result) return fprintf(stderr, "%s\n", error), 1;
    size_t length;
    const char *text = regard_text(result, 0, 0, &length);
    put(text, (int64_t)length);
    double score = regard_score(result, 0, 0);
    fwrite(&score, sizeof score, 1, stdout);
    int64_t parts = regard_parts(result, 0);
    fwrite(&parts, sizeof parts, 1, stdout);
    for (int32_t part = 0; part < (int32_t)parts; part++) {
      RegardPart own = regard_part(result, 0, 0, part);
      put(own.source, (int64_t)own.source_size);
      put(own.text, (int64_t)own.text_size);
    }
    const char *note = regard_note(result, 0);
    put(note ? note : "", note ? (int64_t)strlen(note) : 0);
    regard_free(result);
    free(line);
  }
  regard_close(model);
  return 0;
}
