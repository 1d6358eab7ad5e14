/* Submits calls with unlike options to a queue from several threads, cancels some, takes the results, and closes the
   queue while calls are open; sanitizers watch. Usage: queue_driver FILE CALLS. Prints how many calls were done. */

#include "regard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const LINES[] = {"나는 집에 간다", "I was eating bread.", "", "책을 읽는다. 너는 집에 간다! I go home. you read a book", "x"};
static RegardModel *model;
static RegardQueue *queue;
static int calls;

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
    if (regard_queue_submit(queue, (uint64_t)i, lines, sizes, count, NULL, NULL, &o, error, sizeof error)) puts(error), exit(1);
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
