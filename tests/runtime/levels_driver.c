/* Compares every level that this processor can run with plain loops in double precision, and prints a line for each.

   For processors that Python does not run on here: an emulator, or a WASM engine. Ends with 1 if anything differs. With an
   argument it prints a table of the microseconds of products instead. */

#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t state = 12345;

static float drawn(void) { /* between -1 and 1 */
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1;
}

static float bfloat16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  memcpy(&x, &bits, 4);
  return x;
}

static double largest, at_most; /* the largest difference so far */

static void compare(double actual, double expected, double tolerance) {
  double difference = fabs(actual - expected) / (1 + fabs(expected));
  if (!(difference <= largest)) largest = difference;
  at_most = tolerance;
}

static int failed;

static void report(const char *level, const char *what, int rows) {
  int bad = !(largest <= at_most);
  printf("%s %s rows %d: %.1e%s\n", level, what, rows, largest, bad ? " DIFFERS" : "");
  failed |= bad, largest = 0;
}

static int32_t whole(float x) { return (int32_t)nearbyintf(x); }

/* Product of a row with column v in a precision, without the layout of panels. */
static double plain(const float *row, const float *weight, int K, int precision, const float *bias) {
  double total = 0;
  if (precision == INT8) {
    float most_in = 0, most_w = 0;
    for (int k = 0; k < K; k++) {
      if (fabsf(row[k]) > most_in) most_in = fabsf(row[k]);
      if (fabsf(weight[k]) > most_w) most_w = fabsf(weight[k]);
    }
    int64_t sum = 0;
    float times_in = most_in > 0 ? 127.0f / most_in : 0, times_w = most_w > 0 ? 127.0f / most_w : 0;
    for (int k = 0; k < K; k++) sum += (int64_t)whole(row[k] * times_in) * whole(weight[k] * times_w);
    total = (double)sum * (most_in / 127.0f) * (most_w / 127.0f);
  } else {
    for (int k = 0; k < K; k++)
      total += precision == FLOAT32 ? (double)row[k] * weight[k] : (double)bfloat16(row[k]) * bfloat16(weight[k]);
  }
  return total + *bias;
}

static void products_of(const Kernels *kernels, int parts, int precision, int K, int V, int rows) {
  static const char *names[] = {"float32", "bfloat16", "int8"};
  static const size_t bytes[] = {4, 2, 1};
  int group = 1 << precision, padded = (K + group - 1) / group * group, columns = (V + PANEL - 1) / PANEL * PANEL;
  float *weight = malloc(sizeof(float) * V * K), *registers = calloc((size_t)rows * (K + 2 * V) + LANES, sizeof(float));
  void *panels = calloc((size_t)columns * padded, bytes[precision]);
  float *scales = calloc(columns, 4), *bias = calloc(columns, 4);
  int32_t *sums = calloc(columns, 4);
  for (int i = 0; i < V * K; i++) weight[i] = drawn();
  for (int i = 0; i < rows * K; i++) registers[i] = i % 11 ? drawn() : 0;
  for (int v = 0; v < V; v++) bias[v] = drawn();
  kernels->pack(weight, V, K, precision, panels, scales, sums);
  Weight w = {precision, K, V, padded, panels, scales, sums, bias};
  int64_t widths[] = {K, V, K}, offsets[] = {0, K, K + V}, *tokens = malloc(sizeof(int64_t) * rows);
  for (int n = 0; n < rows; n++) tokens[n] = (n * 37 + V - 1) % V;
  Operation operations[] = {{.kind = LINEAR, .source = 0, .target = 1, .extra = -1, .weight = &w}};
  Context c = {.rows = rows, .offsets = offsets, .widths = widths, .registers = registers, .tokens = tokens};
  Team *team = kernels->open(parts);
  failed |= !team || kernels->run(team, operations, 1, &c);
  for (int n = 0; n < rows; n++)
    for (int v = 0; v < V; v++)
      compare(registers[(size_t)rows * K + n * V + v], plain(registers + n * K, weight + (size_t)v * K, K, precision, bias + v), 2e-5);
  char what[64];
  snprintf(what, sizeof what, "%s %dx%d", names[precision], K, V);
  report(kernels->level, what, rows);

  int64_t k = 3, *top = calloc(rows * k, 8);
  float *log_probs = calloc(rows * k, 4), *ends = calloc(rows, 4), *partial = calloc((size_t)rows * parts * (3 + 2 * k), 4);
  Operation likeliest[] = {{.kind = TOP_TOKENS, .source = 0, .weight = &w}};
  c.k = k, c.top_log_probs = log_probs, c.top_tokens = top, c.eos_log_probs = ends, c.partial = partial, c.eos = 2;
  failed |= kernels->run(team, likeliest, 1, &c);
  for (int n = 0; n < rows; n++) {
    const float *logits = registers + (size_t)rows * K + n * V;
    double total = 0, most = logits[0];
    for (int v = 0; v < V; v++) total += exp(logits[v]), most = logits[v] > most ? logits[v] : most;
    compare(log_probs[n * k], most - log(total), 2e-5), compare(ends[n], logits[2] - log(total), 2e-5);
    compare(logits[top[n * k]], most, 0), at_most = 2e-5;
  }
  report(kernels->level, "top tokens", rows);

  Operation embedding[] = {{.kind = EMBED, .target = 2, .size = K, .scale = 2, .weight = &w}};
  widths[2] = K, offsets[2] = K, offsets[1] = 2 * K; /* over the logits: they are not needed any more */
  if (V >= K) {
    failed |= kernels->run(team, embedding, 1, &c);
    for (int n = 0; n < rows; n++)
      for (int i = 0; i < K; i++) {
        float x = weight[tokens[n] * K + i], times = 1 / scales[tokens[n]];
        double expected = precision == FLOAT32 ? x : precision == BFLOAT16 ? bfloat16(x) : whole(x * times) * (double)scales[tokens[n]];
        compare(registers[(size_t)rows * K + n * K + i], 2 * expected, precision == INT8 ? 0.02 : 1e-6);
      }
    report(kernels->level, "embeddings", rows);
  }
  kernels->close(team);
  free(weight), free(registers), free(panels), free(scales), free(bias), free(sums), free(tokens);
  free(top), free(log_probs), free(ends), free(partial);
}

/* Layer norm, attention of an encoder over sentences, and each activation. */
static void other_operations(const Kernels *kernels, int parts, int S, int D, int heads) {
  int rows = 2 * S, E = D / heads;
  int64_t widths[] = {3 * D, 3 * D, D}, offsets[] = {0, 3 * D, 6 * D}, starts[] = {0, S, 2 * S};
  float *registers = calloc((size_t)rows * 7 * D + LANES, 4), *ones = calloc(3 * D, 4), *zeros = calloc(3 * D, 4);
  for (int i = 0; i < 3 * D; i++) ones[i] = 1 + 0.1f * drawn(), zeros[i] = drawn();
  for (int i = 0; i < rows * 3 * D; i++) registers[i] = 2 * drawn();
  Operation operations[] = {
      {.kind = NORM, .source = 0, .target = 1, .size = 3 * D, .scale = 1e-5f, .table = ones, .second = zeros},
      {.kind = ENCODER_ATTENTION, .source = 1, .target = 2, .size = D, .heads = heads, .scale = 0.3f},
  };
  Context c = {.rows = rows, .offsets = offsets, .widths = widths, .registers = registers, .starts = starts, .sentences = 2};
  Team *team = kernels->open(parts);
  failed |= !team || kernels->run(team, operations, 2, &c);
  const float *x = registers, *y = registers + (size_t)rows * 3 * D, *z = registers + (size_t)rows * 6 * D;
  for (int n = 0; n < rows; n++) {
    double mean = 0, squares = 0;
    for (int i = 0; i < 3 * D; i++) mean += x[n * 3 * D + i] / (3.0 * D);
    for (int i = 0; i < 3 * D; i++) squares += pow(x[n * 3 * D + i] - mean, 2) / (3.0 * D);
    for (int i = 0; i < 3 * D; i++)
      compare(y[n * 3 * D + i], (x[n * 3 * D + i] - mean) / sqrt(squares + 1e-5) * ones[i] + zeros[i], 2e-5);
  }
  report(kernels->level, "norm", rows);
  for (int n = 0; n < rows; n++)
    for (int h = 0; h < heads; h++) {
      const float *sentence = y + (int64_t)(n / S) * S * 3 * D, *q = y + n * 3 * D + h * E;
      double *weights = calloc(S, sizeof(double)), total = 0;
      for (int s = 0; s < S; s++) {
        for (int e = 0; e < E; e++) weights[s] += 0.3 * q[e] * sentence[s * 3 * D + D + h * E + e];
        total += weights[s] = exp(weights[s]);
      }
      for (int e = 0; e < E; e++) {
        double sum = 0;
        for (int s = 0; s < S; s++) sum += weights[s] / total * sentence[s * 3 * D + 2 * D + h * E + e];
        compare(z[n * D + h * E + e], sum, 2e-5);
      }
      free(weights);
    }
  report(kernels->level, "attention", rows);
  kernels->close(team);
  free(registers), free(ones), free(zeros);
}

static void activations_of(const Kernels *kernels) {
  enum { N = 64 };
  float weight[N * N] = {0}, *panels = calloc(N * N, 4), scales[N], registers[2 * N + LANES];
  int32_t sums[N];
  for (int i = 0; i < N; i++) weight[i * N + i] = 1;
  kernels->pack(weight, N, N, FLOAT32, panels, scales, sums);
  Weight w = {FLOAT32, N, N, N, panels, scales, sums, NULL};
  int64_t widths[] = {N, N}, offsets[] = {0, N};
  Context c = {.rows = 1, .offsets = offsets, .widths = widths, .registers = registers};
  Team *team = kernels->open(1);
  for (int kind = NONE; kind <= TANH; kind++) {
    Operation operation = {.kind = LINEAR, .source = 0, .target = 1, .extra = -1, .activation = kind, .weight = &w};
    for (int i = 0; i < N; i++) registers[i] = (i - N / 2) * 0.37f;
    failed |= !team || kernels->run(team, &operation, 1, &c);
    for (int i = 0; i < N; i++) {
      double x = registers[i], y = x;
      if (kind == RELU) y = x > 0 ? x : 0;
      if (kind == GELU) y = 0.5 * x * (1 + erf(x / sqrt(2)));
      if (kind == SILU) y = x / (1 + exp(-x));
      if (kind == TANH) y = tanh(x);
      compare(registers[N + i], y, 2e-6);
    }
  }
  report(kernels->level, "activations", 1);
  kernels->close(team);
  free(panels);
}

/* Microseconds of a product: the least of some rounds. */
static double time_of(const Kernels *kernels, int precision, int K, int V, int rows) {
  int columns = (V + PANEL - 1) / PANEL * PANEL;
  float *weight = malloc(sizeof(float) * V * K), *registers = calloc((size_t)rows * (K + V) + LANES, sizeof(float));
  void *panels = calloc((size_t)columns * K, 4);
  float *scales = calloc(columns, 4);
  int32_t *sums = calloc(columns, 4);
  for (int i = 0; i < V * K; i++) weight[i] = drawn();
  for (int i = 0; i < rows * K; i++) registers[i] = drawn();
  kernels->pack(weight, V, K, precision, panels, scales, sums);
  Weight w = {precision, K, V, K, panels, scales, sums, NULL};
  int64_t widths[] = {K, V}, offsets[] = {0, K};
  Operation operation = {.kind = LINEAR, .source = 0, .target = 1, .extra = -1, .weight = &w};
  Context c = {.rows = rows, .offsets = offsets, .widths = widths, .registers = registers};
  Team *team = kernels->open(1);
  double least = INFINITY;
  int times = 1 + (int)(2e7 / ((double)K * V * rows));
  for (int round = 0; round < 20; round++) {
    clock_t start = clock();
    for (int i = 0; i < times; i++) kernels->run(team, &operation, 1, &c);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC / times;
    if (seconds < least) least = seconds;
  }
  kernels->close(team);
  free(weight), free(registers), free(panels), free(scales), free(sums);
  return least * 1e6;
}

static int print_times(void) {
  static const int shapes[][2] = {{128, 256}, {128, 384}, {128, 8000}, {512, 1536}, {512, 2048}, {2048, 512}, {512, 8000}}, rows[] = {1, 5, 96};
  const char *name;
  int runs;
  printf("| level | K, V | rows | float32 | bfloat16 | int8 |\n|---|---|---|---|---|---|\n");
  for (int i = 0; (name = regard_level_at(i, &runs)); i++)
    for (size_t s = 0; runs && s < sizeof shapes / sizeof *shapes; s++)
      for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        printf("| %s | %d, %d | %d |", name, shapes[s][0], shapes[s][1], rows[r]);
        for (int precision = FLOAT32; precision <= INT8; precision++)
          printf(" %.1f |", time_of(regard_kernels(name), precision, shapes[s][0], shapes[s][1], rows[r]));
        printf("\n"), fflush(stdout);
      }
  return 0;
}

int main(int count_of_arguments, char **arguments) {
  (void)arguments;
  if (count_of_arguments > 1) return print_times();
  static const int shapes[][2] = {{128, 384}, {130, 70}, {7, 200}, {512, 96}, {1, 1}}, rows[] = {1, 2, 3, 4, 5, 7, 19};
  const char *name;
  int runs, count = 0;
  for (int i = 0; (name = regard_level_at(i, &runs)); i++) {
    const Kernels *kernels = regard_kernels(name);
    if (!runs != !kernels) failed = 1;
    if (!kernels) {
      printf("%s is not for this processor\n", name);
      continue;
    }
    count++;
    for (int parts = 1; parts <= 2; parts++)
      for (int precision = FLOAT32; precision <= INT8; precision++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
          for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            if (parts == 1 || rows[r] == 7) products_of(kernels, parts, precision, shapes[s][0], shapes[s][1] < 3 ? 3 : shapes[s][1], rows[r]);
    other_operations(kernels, 1, 21, 64, 4), other_operations(kernels, 2, 5, 36, 3), activations_of(kernels);
  }
  printf("best %s, %d levels, %s\n", regard_level(), count, failed ? "FAILED" : "equal");
  return failed;
}
