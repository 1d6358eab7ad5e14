/* Submits calls with unlike options to a queue from several threads, cancels some, takes the results, and closes the
   queue while calls are open; sanitizers watch. Usage: queue_driver FILE CALLS. Prints how many calls were done. */

#include "model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const LINES[] = {"나는 집에 간다", "I was eating bread.", "", "책을 읽는다. 너는 집에 간다! I go home. you read a book", "x"};
static RegardModel *model;
static RegardQueue *queue;
static int calls;

/* Memory of its own, so that a sanitizer sees whoever reads it after the call. */
static void *copied(const void *data, size_t size) { return memcpy(malloc(size + 1), data, size); }

/* Submits lines as token ids, the first of which has a prefix, a term and a forbidden phrase. */
static int submit_ids(uint64_t ticket, const char *const *lines, const size_t *sizes, size_t count, const RegardOptions *o, char *error, size_t error_size) {
  int32_t *ids[8];
  size_t counts[8];
  for (size_t j = 0; j < count; j++) {
    ids[j] = malloc(64 * sizeof **ids);
    counts[j] = (size_t)regard_encode(model, lines[j], sizes[j], ids[j], 64);
  }
  uint8_t *may_follow = calloc((size_t)model->settings.target_vocabulary, 1);
  RegardTerm *term = copied(&(RegardTerm){copied((int32_t[]){6, 7}, 8), copied((int32_t[]){2}, 4), 1, 0, may_follow}, sizeof *term);
  RegardCompletion *banned = copied(&(RegardCompletion){copied("a", 1), 1, 5, 0, 0}, sizeof *banned);
  int32_t *prefix = copied((int32_t[]){5}, 4);
  RegardConstraints constraints[8] = {{prefix, 1, term, 1, banned, 1, 0, 0}, {0, .banned = banned, .banned_count = 1}};
  int failed = regard_queue_submit_ids(queue, ticket, (const int32_t *const *)ids, counts, count, ticket % 2 ? constraints : NULL, o, error, error_size);
  for (size_t j = 0; j < count; j++) free(ids[j]);
  free(may_follow), free((void *)term->ids), free((void *)term->sizes), free(term), free((void *)banned->before), free(banned), free(prefix);
  return failed;
}

/* Submits what an encoder might have made. */
static int submit_encoded(uint64_t ticket, size_t count, const RegardOptions *o, char *error, size_t error_size) {
  const int64_t *widths = model->programs[MEMORY].widths, summary = model->settings.summary_size;
  RegardEncoded sources[8];
  RegardOptions plain = *o;
  plain.alignments = plain.attention = 0;
  for (size_t j = 0; j < count; j++) {
    int64_t entries = 1 + (int64_t)j;
    sources[j] = (RegardEncoded){calloc((size_t)(entries * widths[0]), sizeof(float)), calloc((size_t)(entries * widths[0]), sizeof(float)), calloc((size_t)summary + 1, sizeof(float)), entries, entries, widths[0], widths[0], summary};
  }
  int failed = regard_queue_submit_encoded(queue, ticket, sources, count, NULL, &plain, error, error_size);
  for (size_t j = 0; j < count; j++) free((void *)sources[j].outputs), free((void *)sources[j].embedded), free((void *)sources[j].summary);
  return failed;
}

static void *submit(void *argument) {
  int first = *(int *)argument;
  for (int i = first; i < calls; i += 3) {
    RegardOptions o;
    char error[512];
    const char *lines[8];
    size_t sizes[8], count = (size_t)(i % 8);
    regard_options(model, &o);
    o.beam = i % 11 ? 1 + i % 4 : 30, o.nbest = 1 + i % o.beam, o.max_length = 6, o.no_repeat_ngram = i % 3, o.alignments = i % 5 == 0, o.attention = i % 7 == 0;
    for (size_t j = 0; j < count; j++) lines[j] = LINES[(size_t)i + j < 5 ? (size_t)i + j : (size_t)(i * 7 + (int)j) % 5], sizes[j] = strlen(lines[j]);
    uint64_t ticket = (uint64_t)i;
    int failed = i % 5 == 1   ? submit_ids(ticket, lines, sizes, count, &o, error, sizeof error)
                 : i % 5 == 3 ? submit_encoded(ticket, count, &o, error, sizeof error)
                              : regard_queue_submit(queue, ticket, lines, sizes, count, NULL, &o, error, sizeof error);
    if (failed) puts(error), exit(1);
    if (i % 4 == 3) regard_queue_cancel(queue, (uint64_t)(i % 8 == 3 ? i : i / 2));
  }
  return NULL;
}

/* Takes what comes within a second, and waits a minute for each until `least` came: a machine may be busy. */
static int take_all(int least) {
  int count = 0;
  uint64_t ticket;
  RegardResult *result;
  while (regard_queue_take(queue, count < least ? 60 : 1, &ticket, &result)) {
    if (!result || regard_count(result) != ticket % 8) exit(1);
    regard_free(result);
    count++;
  }
  return count;
}

int main(int count, char **arguments) {
  char error[512];
  if (count != 3 || !(model = regard_open(arguments[1], error, sizeof error))) return 2;
  calls = atoi(arguments[2]);
  for (int round = 0; round < 2; round++) {
    if (!(queue = regard_queue_open(model, 3, error, sizeof error))) return 2;
    pthread_t threads[3];
    int firsts[] = {0, 1, 2};
    for (int i = 0; i < 3; i++) pthread_create(threads + i, NULL, submit, firsts + i);
    int done = round ? 0 : take_all(calls / 3);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    if (!round) printf("%d done\n", done + take_all(calls * 2 / 3 + 1 - done));
    regard_queue_close(queue); /* in the second round while most are open */
  }
  regard_close(model);
}
