/* Sampling; see sampling.h. */

#include "sampling.h"

#include <math.h>

#define MIN_TEMPERATURE 1e-30

static uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

uint64_t sampling_key(const int32_t *ids, int64_t count) {
  uint64_t key = 0;
  for (int64_t i = 0; i < count; i++) key = splitmix64(key ^ (uint64_t)ids[i]);
  return key;
}

double uniform(int64_t seed, uint64_t key, int64_t length, int64_t beam) {
  uint64_t mixed = splitmix64(key ^ splitmix64((uint64_t)seed));
  mixed = splitmix64(splitmix64(mixed + (uint64_t)length) + (uint64_t)beam);
  return (double)(mixed >> 11) * 0x1p-53;
}

/* Whether column a comes after b: its score is lower, or equal and its number is higher. */
static int is_after(const float *scores, int32_t a, int32_t b) { return scores[a] < scores[b] || (scores[a] == scores[b] && a > b); }

/* Lets the root of a heap of columns sink to its place: the first column comes on top. */
static void sink(const float *scores, int32_t *heap, int64_t count, int64_t at) {
  int32_t column = heap[at];
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && is_after(scores, heap[child], heap[child + 1])) child++;
    if (!is_after(scores, column, heap[child])) break;
    heap[at] = heap[child];
  }
  heap[at] = column;
}

static double weight_of(float score, float highest) { return (double)expf(score - highest); }

int64_t draw_column(float *scores, int64_t count, int32_t *order, const RegardOptions *o, double number) {
  float temperature = (float)(o->temperature > MIN_TEMPERATURE ? o->temperature : MIN_TEMPERATURE), highest = -INFINITY;
  double total = 0, sum = 0, nucleus = INFINITY;
  for (int64_t i = 0; i < count; i++) {
    scores[i] /= temperature, order[i] = (int32_t)i;
    highest = scores[i] > highest ? scores[i] : highest;
  }
  if (!(highest > -INFINITY)) return -1;
  if (!o->top_k) {
    for (int64_t i = 0; i < count; i++) total += weight_of(scores[i], highest);
    for (int64_t i = 0; i < count && !(o->top_p > 0); i++)
      if ((sum += weight_of(scores[i], highest)) > number * total) return i;
    nucleus = o->top_p * total;
  }
  /* A heap whose tops go behind it: order[count - 1 - n] is the column of rank n. */
  int64_t most = o->top_k && o->top_k < count ? o->top_k : count, ranked = 0, kept = 0;
  for (int64_t i = count / 2; i-- > 0;) sink(scores, order, count, i);
  for (sum = 0; ranked < most && sum < nucleus; ranked++) {
    int32_t first = order[0], left = (int32_t)(count - 1 - ranked);
    order[0] = order[left], order[left] = first;
    sink(scores, order, left, 0);
    sum += weight_of(scores[first], highest);
  }
  if (o->top_k && o->top_p > 0) nucleus = o->top_p * sum;
  for (total = 0; kept < ranked && total < nucleus; kept++) total += weight_of(scores[order[count - 1 - kept]], highest);
  sum = 0;
  for (int64_t n = 0; n < kept; n++)
    if ((sum += weight_of(scores[order[count - 1 - n]], highest)) > number * total) return order[count - 1 - n];
  return order[count - 1];
}
