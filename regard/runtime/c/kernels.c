/* CPU kernels of encoders and decoders: one call runs a whole step, which would be a hundred calls from Python.

   A program is a list of operations over registers; a register is a matrix with a row for each hypothesis (or, in an
   encoder, for each source token). Every row is computed alone and in one order, so the result for a sentence does
   not depend on its batch, in any precision.

   Compiled once for each level of processors, with the widest vectors that it has; parts that need special
   instructions have a portable form beside them. */

#include "kernels.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

typedef float vector __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t int_vector __attribute__((vector_size(64), aligned(4), may_alias));
/* Half as wide: products use it where a vector is two registers or more, for sums stay in registers only if they fit. */
typedef float half __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t int_half __attribute__((vector_size(32), aligned(4), may_alias));

/* --- numbers ------------------------------------------------------------------------------------------------- */

static inline vector broadcast(float x) { return (vector){} + x; }
static inline vector load(const float *at) { return *(const vector *)at; }
static inline void store(float *at, vector x) { *(vector *)at = x; }
static inline vector choose(int_vector mask, vector a, vector b) {
  return (vector)((mask & (int_vector)a) | (~mask & (int_vector)b));
}
static inline vector larger(vector a, vector b) { return choose(a > b, a, b); }
static inline vector smaller(vector a, vector b) { return choose(a < b, a, b); }

static inline float sum_of(vector x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)x);
#else
  float total = 0;
  for (int i = 0; i < LANES; i++) total += x[i];
  return total;
#endif
}

static inline float largest_of(vector x) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)x);
#else
  float most = x[0];
  for (int i = 1; i < LANES; i++) most = x[i] > most ? x[i] : most;
  return most;
#endif
}

/* e^x to about 2 units in the last place; NaN stays NaN. */
static inline vector exponential(vector x) {
  int_vector odd = x != x;
  vector y = smaller(larger(x, broadcast(-87.3f)), broadcast(88.3f));
  vector n = y * 1.44269504f;
  n = (n + 12582912.0f) - 12582912.0f; /* to the nearest integer */
  vector r = y - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  vector p = broadcast(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int_vector power = (__builtin_convertvector(n, int_vector) + 127) << 23;
  return choose(odd, x, p * (vector)power);
}

static inline vector sigmoid(vector x) { return 1.0f / (1.0f + exponential(-x)); }
static inline vector hyperbolic(vector x) { return 1.0f - 2.0f / (1.0f + exponential(x + x)); }

/* x·Φ(x), with the error function of Abramowitz and Stegun 7.1.26 (off by at most 1.5e-7). */
static inline vector gelu(vector x) {
  vector z = x * 0.70710678f, size = larger(z, -z);
  vector t = 1.0f / (1.0f + size * 0.3275911f);
  vector p = broadcast(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  vector erf = 1.0f - p * t * exponential(-size * size);
  return 0.5f * x * (1.0f + choose(z < 0.0f, -erf, erf));
}

static inline vector activate(vector x, int activation) {
  switch (activation) {
    case RELU: return choose(x < 0.0f, broadcast(0), x);
    case GELU: return gelu(x);
    case SILU: return x * sigmoid(x);
    case TANH: return hyperbolic(x);
    default: return x;
  }
}

static inline uint16_t to_bfloat16(float x) { /* bfloat16, rounded to even; NaN stays NaN */
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (x != x) return (uint16_t)(bits >> 16) | 64;
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline float from_bfloat16(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float y;
  memcpy(&y, &bits, 4);
  return y;
}

/* --- products ------------------------------------------------------------------------------------------------ */

/* Each of these adds the products of `rows` rows with one panel to `sums`. `rows` is a constant at every call, so that
   the sums stay in registers. */

#define ALWAYS static inline __attribute__((always_inline))

#if defined(__AVX512F__)
ALWAYS void products_float32(const float *from, int64_t step, int inputs, const float *panel, vector sums[][4], const int rows) {
  for (int k = 0; k < inputs; k++, panel += PANEL) {
    vector w0 = load(panel), w1 = load(panel + 16), w2 = load(panel + 32), w3 = load(panel + 48);
    for (int i = 0; i < rows; i++) {
      vector a = broadcast(from[i * step + k]);
      sums[i][0] += a * w0, sums[i][1] += a * w1, sums[i][2] += a * w2, sums[i][3] += a * w3;
    }
  }
}
#else
ALWAYS void products_float32(const float *from, int64_t step, int inputs, const float *panel, vector sums[][4], const int rows) {
  for (int j = 0; j < 4; j++) { /* a quarter of the panel at a time */
    half total[TILE][2] = {{{0}}};
    for (int k = 0; k < inputs; k++) {
      const half *w = (const half *)(panel + k * PANEL + LANES * j), w0 = w[0], w1 = w[1];
      for (int i = 0; i < rows; i++) {
        half a = (half){} + from[i * step + k];
        total[i][0] += a * w0, total[i][1] += a * w1;
      }
    }
    for (int i = 0; i < rows; i++) memcpy(&sums[i][j], total[i], sizeof(vector));
  }
}
#endif

#if defined(__AVX512BF16__)
ALWAYS void products_bfloat16(const uint16_t *from, int64_t step, int inputs, const uint16_t *panel, vector sums[][4], const int rows) {
  for (int k = 0; k < inputs; k += 2, panel += 2 * PANEL) {
    __m512i w[4];
    for (int j = 0; j < 4; j++) w[j] = _mm512_loadu_si512(panel + 32 * j);
    for (int i = 0; i < rows; i++) {
      int32_t pair;
      memcpy(&pair, from + i * step + k, 4);
      __m512bh a = (__m512bh)_mm512_set1_epi32(pair);
      for (int j = 0; j < 4; j++) sums[i][j] = (vector)_mm512_dpbf16_ps((__m512)sums[i][j], a, (__m512bh)w[j]);
    }
  }
}
#else
ALWAYS void products_bfloat16(const uint16_t *from, int64_t step, int inputs, const uint16_t *panel, vector sums[][4], const int rows) {
  for (int j = 0; j < 4; j++) {
    half total[TILE][2] = {{{0}}};
    for (int k = 0; k < inputs; k += 2) {
      const int_half *both = (const int_half *)(panel + k * PANEL + 32 * j);
      half low[2], high[2];
      for (int h = 0; h < 2; h++) low[h] = (half)(both[h] << 16), high[h] = (half)(both[h] & (int32_t)0xffff0000);
      for (int i = 0; i < rows; i++) {
        uint32_t first = (uint32_t)from[i * step + k] << 16, second = (uint32_t)from[i * step + k + 1] << 16;
        float a, b;
        memcpy(&a, &first, 4), memcpy(&b, &second, 4);
        for (int h = 0; h < 2; h++) total[i][h] += a * low[h] + b * high[h];
      }
    }
    for (int i = 0; i < rows; i++) memcpy(&sums[i][j], total[i], sizeof(vector));
  }
}
#endif

#if defined(__AVX512VNNI__)
ALWAYS void products_int8(const uint8_t *from, int64_t step, int inputs, const int8_t *panel, int_vector sums[][4], const int rows) {
  for (int k = 0; k < inputs; k += 4, panel += 4 * PANEL) {
    __m512i w[4];
    for (int j = 0; j < 4; j++) w[j] = _mm512_loadu_si512(panel + 64 * j);
    for (int i = 0; i < rows; i++) {
      int32_t four;
      memcpy(&four, from + i * step + k, 4);
      __m512i a = _mm512_set1_epi32(four);
      for (int j = 0; j < 4; j++) sums[i][j] = (int_vector)_mm512_dpbusd_epi32((__m512i)sums[i][j], a, w[j]);
    }
  }
}
#elif defined(__AVX2__)
/* Eight columns at a time: even and odd bytes of the weights as 16-bit numbers, so that no sum of two products overflows. */
ALWAYS void products_int8(const uint8_t *from, int64_t step, int inputs, const int8_t *panel, int_vector sums[][4], const int rows) {
  for (int j = 0; j < 4; j++) {
    __m256i total[TILE][2];
    for (int i = 0; i < rows; i++) total[i][0] = total[i][1] = _mm256_setzero_si256();
    for (int k = 0; k < inputs; k += 4) {
      __m256i even[2], odd[2];
      for (int h = 0; h < 2; h++) {
        __m256i w = _mm256_loadu_si256((const __m256i *)(panel + k * PANEL + 64 * j + 32 * h));
        even[h] = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), odd[h] = _mm256_srai_epi16(w, 8);
      }
      for (int i = 0; i < rows; i++) {
        int32_t four;
        memcpy(&four, from + i * step + k, 4);
        __m256i all = _mm256_set1_epi32(four), a = _mm256_and_si256(all, _mm256_set1_epi16(255)), b = _mm256_srli_epi16(all, 8);
        for (int h = 0; h < 2; h++)
          total[i][h] = _mm256_add_epi32(total[i][h], _mm256_add_epi32(_mm256_madd_epi16(even[h], a), _mm256_madd_epi16(odd[h], b)));
      }
    }
    for (int i = 0; i < rows; i++) memcpy(&sums[i][j], total[i], sizeof(int_vector));
  }
}
#else
ALWAYS void products_int8(const uint8_t *from, int64_t step, int inputs, const int8_t *panel, int_vector sums[][4], const int rows) {
  for (int k = 0; k < inputs; k += 4, panel += 4 * PANEL)
    for (int i = 0; i < rows; i++) {
      const uint8_t *a = from + i * step + k;
      int32_t *total = (int32_t *)sums[i];
      for (int j = 0; j < PANEL; j++)
        total[j] += a[0] * panel[4 * j] + a[1] * panel[4 * j + 1] + a[2] * panel[4 * j + 2] + a[3] * panel[4 * j + 3];
    }
}
#endif

typedef struct { /* rows of activations in the form that a precision needs */
  const void *data;
  int64_t step;
  float *scales; /* int8: value of one unit of each row */
} Inputs;

/* Products of `rows` (at most TILE) rows with panel `p`, as numbers, into out[i][0..3]. */
ALWAYS void tile(const Weight *w, const Inputs *in, int64_t row, int64_t p, vector out[][4], const int rows) {
  if (w->precision == INT8) {
    int_vector sums[TILE][4];
    memset(sums, 0, sizeof sums);
    products_int8((const uint8_t *)in->data + row * in->step, in->step, w->padded,
                  (const int8_t *)w->panels + p * PANEL * w->padded, sums, rows);
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < 4; j++) {
        int_vector middle = *(const int_vector *)(w->sums + p * PANEL + LANES * j);
        out[i][j] = __builtin_convertvector(sums[i][j] - middle, vector) * load(w->scales + p * PANEL + LANES * j) * in->scales[row + i];
      }
    return;
  }
  vector sums[TILE][4]; /* not `out`: memory behind a pointer would be written back after every product */
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < 4; j++) sums[i][j] = broadcast(0);
  if (w->precision == FLOAT32)
    products_float32((const float *)in->data + row * in->step, in->step, w->padded,
                     (const float *)w->panels + p * PANEL * w->padded, sums, rows);
  else
    products_bfloat16((const uint16_t *)in->data + row * in->step, in->step, w->padded,
                      (const uint16_t *)w->panels + p * PANEL * w->padded, sums, rows);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < 4; j++) out[i][j] = sums[i][j];
}

static void products(const Weight *w, const Inputs *in, int64_t row, int64_t p, vector out[][4], int rows) {
  switch (rows) {
    case 1: tile(w, in, row, p, out, 1); break;
    case 2: tile(w, in, row, p, out, 2); break;
    case 3: tile(w, in, row, p, out, 3); break;
    case 4: tile(w, in, row, p, out, 4); break;
    case 5: tile(w, in, row, p, out, 5); break;
    default: tile(w, in, row, p, out, 6); break;
  }
  if (w->bias)
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < 4; j++) out[i][j] += load(w->bias + p * PANEL + LANES * j);
}

/* Quantises a row to 8 bits: 128 is zero, and one unit is a 127th of the largest absolute value; returns the unit. */
static float quantise(const float *x, int n, int padded, uint8_t *to) {
  vector most = broadcast(0);
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    vector v = load(x + i);
    most = larger(larger(v, -v), most);
  }
  float size = largest_of(most);
  for (; i < n; i++) size = fabsf(x[i]) > size ? fabsf(x[i]) : size;
  float unit = size / 127.0f, times = size > 0 ? 127.0f / size : 0;
  i = 0;
#if defined(__AVX512F__)
  for (; i + LANES <= n; i += LANES) {
    __m512i v = _mm512_add_epi32(_mm512_cvtps_epi32((__m512)(load(x + i) * times)), _mm512_set1_epi32(128));
    _mm_storeu_si128((__m128i *)(to + i), _mm512_cvtusepi32_epi8(v));
  }
#elif defined(__AVX2__)
  for (; i + 8 <= n; i += 8) {
    __m256i v = _mm256_cvtps_epi32((__m256)(*(const half *)(x + i) * times));
    __m128i words = _mm_add_epi16(_mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)), _mm_set1_epi16(128));
    _mm_storel_epi64((__m128i *)(to + i), _mm_packus_epi16(words, words));
  }
#endif
  for (; i < n; i++) to[i] = (uint8_t)(lrintf(x[i] * times) + 128);
  for (; i < padded; i++) to[i] = 128;
  return unit;
}

typedef struct { /* scratch memory of one thread */
  char *data;
  size_t size;
} Scratch;

static void *scratch(Scratch *r, size_t size) {
  if (r->size < size) {
    free(r->data);
    r->size = size + size / 2;
    if (posix_memalign((void **)&r->data, 64, r->size)) abort();
  }
  return r->data;
}

static Inputs inputs_of(const Weight *w, const float *from, int64_t step, int64_t rows, Scratch *r) {
  Inputs in = {from, step, NULL};
  int n = w->inputs, padded = w->padded;
  if (w->precision == BFLOAT16) {
    uint16_t *low = scratch(r, rows * padded * 2);
    for (int64_t i = 0; i < rows; i++) {
      int k = 0;
#if defined(__AVX512BF16__)
      for (; k + LANES <= n; k += LANES)
        _mm256_storeu_si256((__m256i *)(low + i * padded + k), (__m256i)_mm512_cvtneps_pbh((__m512)load(from + i * step + k)));
#endif
      for (; k < n; k++) low[i * padded + k] = to_bfloat16(from[i * step + k]);
      for (; k < padded; k++) low[i * padded + k] = 0;
    }
    in.data = low, in.step = padded;
  } else if (w->precision == INT8) {
    uint8_t *low = scratch(r, rows * (padded + sizeof(float)) + 64);
    in.scales = (float *)(low + ((rows * padded + 63) & ~(int64_t)63));
    for (int64_t i = 0; i < rows; i++) in.scales[i] = quantise(from + i * step, n, padded, low + i * padded);
    in.data = low, in.step = padded;
  }
  return in;
}

/* --- the operations ------------------------------------------------------------------------------------------ */

typedef struct { /* one of the threads that run a program together */
  const Context *c;
  const Operation *operations;
  int part, parts;
  Scratch inputs, scores;
} Worker;

static inline float *reg(const Context *c, int r, int64_t row) {
  return c->registers + c->offsets[r] * c->rows + row * c->widths[r];
}

/* Keeps the attention weights of a head over S entries, if the caller of this program asked for those of the operation. */
static inline void record(const Worker *w, const Operation *o, int64_t row, int head, const float *weights, int64_t S) {
  const Context *c = w->c;
  float *to = c->recorded ? c->recorded[o - w->operations] : NULL;
  if (to) memcpy(to + (row * o->heads + head) * c->recorded_stride, weights, S * sizeof(float));
}

/* Range of `count` items that this thread computes. */
static inline void share(const Worker *w, int64_t count, int64_t *from, int64_t *to) {
  *from = count * w->part / w->parts, *to = count * (w->part + 1) / w->parts;
}

/* Column v of a weight as numbers: the embedding of token v, if the output projection shares its weight. */
static void column_of(const Weight *w, int64_t v, float *to) {
  int group = w->precision == FLOAT32 ? 1 : w->precision == BFLOAT16 ? 2 : 4;
  int64_t first = v / PANEL * PANEL * w->padded + v % PANEL * group;
  for (int k = 0; k < w->inputs; k++) {
    int64_t at = first + (int64_t)(k / group) * group * PANEL + k % group;
    if (w->precision == FLOAT32) to[k] = ((const float *)w->panels)[at];
    else if (w->precision == BFLOAT16) to[k] = from_bfloat16(((const uint16_t *)w->panels)[at]);
    else to[k] = ((const int8_t *)w->panels)[at] * w->scales[v];
  }
}

static void embed(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    const float *position = o->second ? o->second + c->positions[n] * o->size : NULL;
    float *to = reg(c, o->target, n);
    if (!o->table) column_of(o->weight, c->tokens[n], to);
    const float *embedding = o->table ? o->table + c->tokens[n] * o->size : to;
    for (int i = 0; i < o->size; i++) to[i] = embedding[i] * o->scale + (position ? position[i] : 0);
  }
}

static void normalise(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  int D = o->size;
  for (int64_t n = first; n < last; n++) {
    const float *x = reg(c, o->source, n);
    float *y = reg(c, o->target, n), total = 0, squares = 0;
    vector t = broadcast(0), s = broadcast(0);
    int i = 0;
    for (; i + LANES <= D; i += LANES) t += load(x + i);
    total = sum_of(t);
    for (; i < D; i++) total += x[i];
    float mean = total / D;
    for (i = 0; i + LANES <= D; i += LANES) {
      vector d = load(x + i) - mean;
      s += d * d;
    }
    squares = sum_of(s);
    for (; i < D; i++) squares += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / sqrtf(squares / D + o->scale);
    for (i = 0; i + LANES <= D; i += LANES) store(y + i, (load(x + i) - mean) * scale * load(o->table + i) + load(o->second + i));
    for (; i < D; i++) y[i] = (x[i] - mean) * scale * o->table[i] + o->second[i];
  }
}

/* Scales the part of a register that belongs to each head to length one, times a factor of the head. */
static void unit_norm(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  int E = o->size / o->heads;
  for (int64_t n = first; n < last; n++)
    for (int h = 0; h < o->heads; h++) {
      float *x = reg(c, o->source, n) + o->column + h * E, squares = 0;
      for (int i = 0; i < E; i++) squares += x[i] * x[i];
      float length = sqrtf(squares), scale = o->table[h] / (length > 1e-12f ? length : 1e-12f);
      for (int i = 0; i < E; i++) x[i] *= scale;
    }
}

/* Gates one half of a register by the other: swiglu (`activation` SILU) activates the first, a GLU the second. */
static void glu(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  int D = o->size;
  for (int64_t n = first; n < last; n++) {
    const float *a = reg(c, o->source, n), *b = a + D;
    float *to = reg(c, o->target, n);
    for (int i = 0; i < D; i += LANES) {
      int lanes = D - i < LANES ? D - i : LANES;
      float pa[LANES] = {0}, pb[LANES] = {0};
      memcpy(pa, a + i, lanes * sizeof(float)), memcpy(pb, b + i, lanes * sizeof(float));
      vector x = load(pa), y = load(pb);
      store(pa, o->activation == SILU ? x * sigmoid(x) * y : x * sigmoid(y));
      memcpy(to + i, pa, lanes * sizeof(float));
    }
  }
}

/* Adds two registers, and multiplies the sum by a scale. */
static void mix(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    const float *a = reg(c, o->source, n), *b = reg(c, o->extra, n);
    float *to = reg(c, o->target, n);
    for (int i = 0; i < o->size; i++) to[i] = (a[i] + b[i]) * o->scale;
  }
}

/* Multiplies columns of a register by the sigmoid of a logit in another. */
static void apply_gate(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    float *to = reg(c, o->target, n) + o->column, open = 1.0f / (1.0f + expf(-reg(c, o->source, n)[0]));
    for (int i = 0; i < o->size; i++) to[i] *= open;
  }
}

/* Lays `extent` neighbours of each token side by side, `column` of them before it; zeros beyond the sentence. */
static void window(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->sentences, &first, &last);
  for (int64_t b = first; b < last; b++)
    for (int64_t n = c->starts[b]; n < c->starts[b + 1]; n++)
      for (int k = 0; k < o->extent; k++) {
        int64_t from = n + k - o->column;
        float *to = reg(c, o->target, n) + k * o->size;
        if (from < c->starts[b] || from >= c->starts[b + 1]) memset(to, 0, o->size * sizeof(float));
        else memcpy(to, reg(c, o->source, from), o->size * sizeof(float));
      }
}

/* The same for a decoder's past: the newest token in the register, those before it in blocks. */
static void past_window(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    for (int k = 0; k < o->extent; k++) {
      int64_t from = c->lengths[n] + k + 1 - o->extent;
      float *to = reg(c, o->target, n) + k * o->size;
      if (from < 0) memset(to, 0, o->size * sizeof(float));
      else if (from == c->lengths[n]) memcpy(to, reg(c, o->source, n), o->size * sizeof(float));
      else memcpy(to, c->past[n * c->stride + from] + o->offset, o->size * sizeof(float));
    }
}

/* Linear layer with activation on columns of a register, plus register `extra`, into columns of another. */
static void linear(const Operation *o, Worker *w) {
  const Context *c = w->c;
  const Weight *weight = o->weight;
  int64_t panels = (weight->outputs + PANEL - 1) / PANEL, first, last;
  share(w, panels, &first, &last);
  if (first == last) return;
  Inputs in = inputs_of(weight, reg(c, o->source, 0) + o->offset, c->widths[o->source], c->rows, &w->inputs);
  for (int64_t p = first; p < last; p++) {
    int columns = weight->outputs - p * PANEL < PANEL ? weight->outputs - p * PANEL : PANEL;
    for (int64_t n = 0; n < c->rows; n += TILE) {
      int rows = c->rows - n < TILE ? c->rows - n : TILE;
      vector out[TILE][4];
      products(weight, &in, n, p, out, rows);
      for (int i = 0; i < rows; i++) {
        float *to = reg(c, o->target, n + i) + o->column + p * PANEL;
        const float *more = o->extra < 0 ? NULL : reg(c, o->extra, n + i) + p * PANEL;
        float last_ones[PANEL], others[PANEL];
        float *into = to;
        if (columns < PANEL) {
          into = last_ones;
          if (more) memcpy(others, more, columns * sizeof(float)), more = others;
        }
        for (int j = 0; j < 4; j++) {
          vector y = activate(out[i][j], o->activation);
          if (more) y += load(more + LANES * j);
          store(into + LANES * j, y);
        }
        if (columns < PANEL) memcpy(to, last_ones, columns * sizeof(float));
      }
    }
  }
}

static void copy(const Operation *o, const Worker *w) {
  int64_t first, last;
  share(w, w->c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    memcpy(reg(w->c, o->target, n) + o->column, reg(w->c, o->source, n) + o->offset, o->size * sizeof(float));
}

/* Stores columns of a register in the block that later steps read. */
static void store_block(const Operation *o, const Worker *w) {
  int64_t first, last;
  share(w, w->c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    memcpy(w->c->blocks[n] + o->offset, reg(w->c, o->source, n) + o->column, o->size * sizeof(float));
}

static inline int64_t padded(int64_t entries) { return (entries + LANES - 1) / LANES * LANES; }

/* Stores keys in columns, so that sixteen entries are scored at once, and values in rows. `offset` is in numbers for
   one entry: in a memory of S entries this part begins at offset · padded(S). */
static void store_memory(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->sentences, &first, &last);
  for (int64_t b = first; b < last; b++) {
    int64_t from = c->starts[b], S = c->starts[b + 1] - from, P = padded(S);
    float *keys = c->memories[b] + o->offset * P, *values = keys + o->extent * P;
    for (int e = 0; e < o->extent; e++) {
      for (int64_t s = 0; s < S; s++) keys[e * P + s] = reg(c, o->source, from + s)[e];
      for (int64_t s = S; s < P; s++) keys[e * P + s] = 0;
    }
    for (int64_t s = 0; s < S; s++) memcpy(values + s * o->size, reg(c, o->extra, from + s) + o->column, o->size * sizeof(float));
  }
}

/* Softmax in place; weights beyond S are zero. */
static void softmax(float *scores, int64_t S, int64_t P) {
  for (int64_t s = S; s < P; s++) scores[s] = -INFINITY;
  vector most = load(scores);
  for (int64_t s = LANES; s < P; s += LANES) most = larger(most, load(scores + s));
  float top = largest_of(most);
  vector total = broadcast(0);
  for (int64_t s = 0; s < P; s += LANES) {
    vector x = exponential(load(scores + s) - top);
    if (s + LANES > S)
      for (int i = S - s; i < LANES; i++) x[i] = 0;
    total += x;
    store(scores + s, x);
  }
  float share_of = 1.0f / sum_of(total);
  for (int64_t s = 0; s < P; s += LANES) store(scores + s, load(scores + s) * share_of);
}

/* Scores of one query head against keys in columns. */
static void scores_by_columns(const float *q, const float *keys, int E, int64_t P, float scale, float *scores) {
  int64_t s = 0;
  for (; s + 4 * LANES <= P; s += 4 * LANES) {
    vector t0 = broadcast(0), t1 = t0, t2 = t0, t3 = t0;
    for (int e = 0; e < E; e++) {
      const float *k = keys + e * P + s;
      vector a = broadcast(q[e]);
      t0 += a * load(k), t1 += a * load(k + 16), t2 += a * load(k + 32), t3 += a * load(k + 48);
    }
    store(scores + s, t0 * scale), store(scores + s + 16, t1 * scale);
    store(scores + s + 32, t2 * scale), store(scores + s + 48, t3 * scale);
  }
  for (; s < P; s += LANES) {
    vector even = broadcast(0), odd = broadcast(0);
    int e = 0;
    for (; e + 2 <= E; e += 2) {
      even += q[e] * load(keys + e * P + s);
      odd += q[e + 1] * load(keys + (e + 1) * P + s);
    }
    for (; e < E; e++) even += q[e] * load(keys + e * P + s);
    store(scores + s, (even + odd) * scale);
  }
}

/* Weighted sum of values: E numbers of each of S rows that are `step` apart. */
static void weighted_sum(const float *weights, const float *values, int64_t step, int64_t S, int E, float *to) {
  int e = 0;
  for (; e + 2 * LANES <= E; e += 2 * LANES) {
    vector t0 = broadcast(0), t1 = t0;
    for (int64_t s = 0; s < S; s++) {
      t0 += weights[s] * load(values + s * step + e), t1 += weights[s] * load(values + s * step + e + LANES);
    }
    store(to + e, t0), store(to + e + LANES, t1);
  }
  for (; e + LANES <= E; e += LANES) {
    vector t = broadcast(0);
    for (int64_t s = 0; s < S; s++) t += weights[s] * load(values + s * step + e);
    store(to + e, t);
  }
  for (; e < E; e++) {
    float t = 0;
    for (int64_t s = 0; s < S; s++) t += weights[s] * values[s * step + e];
    to[e] = t;
  }
}

/* Self-attention of an encoder: queries, keys and values side by side in one register. A token attends to those at most
   `extent` positions away, or to all if that is 0. */
static void encoder_attention(const Operation *o, Worker *w) {
  const Context *c = w->c;
  int D = o->size, E = D / o->heads;
  int64_t step = c->widths[o->source], first, last;
  share(w, c->sentences, &first, &last);
  for (int64_t b = first; b < last; b++) {
    int64_t from = c->starts[b], S = c->starts[b + 1] - from, P = padded(S);
    float *scores = scratch(&w->scores, (P + P * E) * sizeof(float)), *keys = scores + P;
    for (int h = 0; h < o->heads; h++) {
      const float *own = reg(c, o->source, from) + h * E;
      for (int64_t s = 0; s < S; s++)
        for (int e = 0; e < E; e++) keys[e * P + s] = own[s * step + D + e];
      for (int e = 0; e < E; e++)
        for (int64_t s = S; s < P; s++) keys[e * P + s] = 0;
      for (int64_t s = 0; s < S; s++) {
        scores_by_columns(own + s * step, keys, E, P, o->scale, scores);
        if (o->extent)
          for (int64_t i = 0; i < S; i++)
            if (i < s - o->extent || i > s + o->extent) scores[i] = -INFINITY;
        softmax(scores, S, P);
        record(w, o, from + s, h, scores, S);
        weighted_sum(scores, own + 2 * D, step, S, E, reg(c, o->target, from + s) + o->column + h * E);
      }
    }
  }
}

/* Cross-attention: one query for each row against a memory, with keys of `extent` numbers and values of `size`. */
static void cross_attention(const Operation *o, Worker *w) {
  const Context *c = w->c;
  int D = o->size, E = o->extent / o->heads, V = D / o->heads;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    int64_t S = c->entries[n], P = padded(S);
    const float *keys = c->memories[n] + o->offset * P, *values = keys + o->extent * P;
    float *scores = scratch(&w->scores, P * sizeof(float));
    const float *q = reg(c, o->source, n);
    for (int h = 0; h < o->heads; h++) {
      scores_by_columns(q + h * E, keys + h * E * P, E, P, o->scale, scores);
      softmax(scores, S, P);
      record(w, o, n, h, scores, S);
      float *to = reg(c, o->target, n) + o->column + h * V;
      weighted_sum(scores, values + h * V, D, S, V, to);
      if (o->activation) /* keeps the variance of a mean of S entries */
        for (int i = 0; i < V; i++) to[i] *= sqrtf((float)S);
    }
  }
}

static inline float dot(const float *a, const float *b, int E) {
  vector t = broadcast(0);
  int e = 0;
  for (; e + LANES <= E; e += LANES) t += load(a + e) * load(b + e);
  float total = e ? sum_of(t) : 0;
  for (; e < E; e++) total += a[e] * b[e];
  return total;
}

/* Self-attention of a decoder with a KV cache: past keys and values lie in blocks, the newest in the register; of the
   past, the last `extent` are attended to, or all if that is 0. */
static void cached_attention(const Operation *o, Worker *w) {
  const Context *c = w->c;
  int D = o->size, E = D / o->heads;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    int64_t all = c->lengths[n], t = o->extent && all > o->extent ? o->extent : all, P = padded(t + 1);
    float *const *past = c->past + n * c->stride + (all - t);
    const float *own = reg(c, o->source, n);
    float *scores = scratch(&w->scores, P * sizeof(float)), *to = reg(c, o->target, n) + o->column;
    for (int h = 0; h < o->heads; h++) {
      const float *q = own + h * E;
      for (int64_t s = 0; s < t; s++) scores[s] = dot(q, past[s] + o->offset + h * E, E) * o->scale;
      scores[t] = dot(q, own + D + h * E, E) * o->scale;
      softmax(scores, t + 1, P);
      record(w, o, n, h, scores, t + 1);
      int e = 0;
      for (; e + LANES <= E; e += LANES) {
        vector sum = scores[t] * load(own + 2 * D + h * E + e);
        for (int64_t s = 0; s < t; s++) sum += scores[s] * load(past[s] + o->offset + D + h * E + e);
        store(to + h * E + e, sum);
      }
      for (; e < E; e++) {
        float sum = scores[t] * own[2 * D + h * E + e];
        for (int64_t s = 0; s < t; s++) sum += scores[s] * past[s][o->offset + D + h * E + e];
        to[h * E + e] = sum;
      }
    }
  }
}

/* Additive attention: scores v·tanh(q + k) against keys of `extent` numbers, and values of `size`. */
static void additive_attention(const Operation *o, Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    int64_t S = c->entries[n], P = padded(S);
    const float *keys = c->memories[n] + o->offset * P, *values = keys + o->extent * P, *q = reg(c, o->source, n);
    float *scores = scratch(&w->scores, P * sizeof(float));
    for (int64_t s = 0; s < P; s += LANES) {
      vector total = broadcast(0);
      for (int e = 0; e < o->extent; e++) total += o->table[e] * hyperbolic(q[e] + load(keys + e * P + s));
      store(scores + s, total);
    }
    softmax(scores, S, P);
    record(w, o, n, 0, scores, S);
    float *to = reg(c, o->target, n) + o->column;
    weighted_sum(scores, values, o->size, S, o->size, to);
    if (o->activation)
      for (int i = 0; i < o->size; i++) to[i] *= sqrtf((float)S);
  }
}

/* Loads a part of the newest block into a register. */
static void load_state(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    memcpy(reg(c, o->target, n) + o->column, c->past[n * c->stride + c->lengths[n] - 1] + o->offset, o->size * sizeof(float));
}

/* One step of a recurrent cell: x is the input projection of the gates, s the hidden projection; h, and the cell of an
   LSTM, are updated in place. */
static void gate(int kind, int H, const float *x, const float *s, float *h, float *cell) {
  int count = kind == GRU ? 3 : kind == LSTM ? 4 : 1;
  for (int i = 0; i < H; i += LANES) {
    int lanes = H - i < LANES ? H - i : LANES;
    float px[4][LANES] = {{0}}, ps[4][LANES] = {{0}}, ph[LANES] = {0}, pc[LANES] = {0};
    for (int g = 0; g < count; g++) {
      memcpy(px[g], x + g * H + i, lanes * sizeof(float));
      memcpy(ps[g], s + g * H + i, lanes * sizeof(float));
    }
    memcpy(ph, h + i, lanes * sizeof(float));
    vector next;
    if (kind == GRU) {
      vector r = sigmoid(load(px[0]) + load(ps[0])), z = sigmoid(load(px[1]) + load(ps[1]));
      vector new = hyperbolic(load(px[2]) + r * load(ps[2]));
      next = new + z * (load(ph) - new);
    } else if (kind == LSTM) {
      memcpy(pc, cell + i, lanes * sizeof(float));
      vector in = sigmoid(load(px[0]) + load(ps[0])), forget = sigmoid(load(px[1]) + load(ps[1]));
      vector new = hyperbolic(load(px[2]) + load(ps[2])), out = sigmoid(load(px[3]) + load(ps[3]));
      vector kept = forget * load(pc) + in * new;
      next = out * hyperbolic(kept);
      store(pc, kept);
      memcpy(cell + i, pc, lanes * sizeof(float));
    } else {
      next = hyperbolic(load(px[0]) + load(ps[0]));
    }
    store(ph, next);
    memcpy(h + i, ph, lanes * sizeof(float));
  }
}

/* `source`: input projection of the gates; `extra`: hidden projection; `target`: the states, hidden then cell. */
static void gates(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    gate(o->kind, o->size, reg(c, o->source, n), reg(c, o->extra, n), reg(c, o->target, n) + o->column, reg(c, o->target, n) + o->offset);
}

/* RNN over whole sentences in one direction (`heads` 1: backwards; `extent`: the kind of cell). `source`: input
   projection of the gates; `target` and `extra`: hidden states and LSTM cells, from column `column` on. */
static void rnn(const Operation *o, Worker *w) {
  const Context *c = w->c;
  const Weight *weight = o->weight;
  int H = o->size, G = weight->outputs, padded_gates = (G + PANEL - 1) / PANEL * PANEL;
  int64_t first, last, longest = 0;
  share(w, c->sentences, &first, &last);
  int64_t B = last - first, *alive;
  if (B == 0) return;
  for (int64_t b = first; b < last; b++)
    longest = c->starts[b + 1] - c->starts[b] > longest ? c->starts[b + 1] - c->starts[b] : longest;
  float *hidden = scratch(&w->scores, B * (2 * H + padded_gates) * sizeof(float) + B * sizeof(int64_t) + 64);
  float *cells = hidden + B * H, *gates_now = cells + B * H;
  alive = (int64_t *)(gates_now + B * padded_gates);
  memset(hidden, 0, 2 * B * H * sizeof(float));
  int64_t count = B;
  for (int64_t i = 0; i < B; i++) alive[i] = first + i;
  for (int64_t t = 0; t < longest; t++) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) { /* drop sentences that have ended */
      int64_t b = alive[i];
      if (c->starts[b + 1] - c->starts[b] <= t) continue;
      if (kept != i) {
        memcpy(hidden + kept * H, hidden + i * H, H * sizeof(float));
        memcpy(cells + kept * H, cells + i * H, H * sizeof(float));
      }
      alive[kept++] = b;
    }
    count = kept;
    Inputs in = inputs_of(weight, hidden, H, count, &w->inputs);
    for (int64_t p = 0; p < padded_gates / PANEL; p++)
      for (int64_t n = 0; n < count; n += TILE) {
        int rows = count - n < TILE ? count - n : TILE;
        vector out[TILE][4];
        products(weight, &in, n, p, out, rows);
        for (int i = 0; i < rows; i++)
          for (int j = 0; j < 4; j++) store(gates_now + (n + i) * padded_gates + p * PANEL + LANES * j, out[i][j]);
      }
    for (int64_t i = 0; i < count; i++) {
      int64_t row = o->heads ? c->starts[alive[i] + 1] - 1 - t : c->starts[alive[i]] + t;
      gate(o->extent, H, reg(c, o->source, row), gates_now + i * padded_gates, hidden + i * H, cells + i * H);
      memcpy(reg(c, o->target, row) + o->column, hidden + i * H, H * sizeof(float));
      if (o->extent == LSTM) memcpy(reg(c, o->extra, row) + o->column, cells + i * H, H * sizeof(float));
    }
  }
}

/* Inserts a token into the sorted top k; of two as likely, the first stays ahead. */
static inline void insert(float *likely, int64_t *tokens, int64_t count, float x, int64_t token) {
  int64_t i = count - 1;
  while (i > 0 && x > likely[i - 1]) {
    likely[i] = likely[i - 1], tokens[i] = tokens[i - 1];
    i--;
  }
  likely[i] = x, tokens[i] = token;
}

/* Top-k tokens by an output projection whose logits are never held all at once: panel by panel, with a running
   softmax denominator. */
static void top_tokens(const Operation *o, Worker *w) {
  const Context *c = w->c;
  const Weight *weight = o->weight;
  int64_t panels = (weight->outputs + PANEL - 1) / PANEL, K = c->k, first, last;
  share(w, panels, &first, &last);
  int64_t width = 2 + 2 * K + 1;
  for (int64_t n = 0; n < c->rows; n++) {
    float *part = c->partial + (n * w->parts + w->part) * width;
    part[0] = -INFINITY, part[1] = 0, part[2] = -INFINITY;
    for (int64_t k = 0; k < K; k++) part[3 + k] = -INFINITY, part[3 + K + k] = 0;
  }
  if (first == last) return;
  Inputs in = inputs_of(weight, reg(c, o->source, 0), c->widths[o->source], c->rows, &w->inputs);
  int64_t *at = scratch(&w->scores, K * sizeof(int64_t) * c->rows);
  for (int64_t i = 0; i < K * c->rows; i++) at[i] = -1;
  for (int64_t p = first; p < last; p++)
    for (int64_t n = 0; n < c->rows; n += TILE) {
      int rows = c->rows - n < TILE ? c->rows - n : TILE;
      vector out[TILE][4];
      products(weight, &in, n, p, out, rows);
      for (int i = 0; i < rows; i++) {
        float *part = c->partial + ((n + i) * w->parts + w->part) * width, *likely = part + 3;
        int columns = weight->outputs - p * PANEL < PANEL ? weight->outputs - p * PANEL : PANEL;
        float logits[PANEL];
        for (int j = 0; j < 4; j++) store(logits + LANES * j, out[i][j]);
        for (int j = columns; j < PANEL; j++) logits[j] = -INFINITY;
        vector v[4], most;
        for (int j = 0; j < 4; j++) v[j] = load(logits + LANES * j);
        most = larger(larger(v[0], v[1]), larger(v[2], v[3]));
        float top = largest_of(most);
        if (top > part[0]) part[1] *= expf(part[0] - top), part[0] = top;
        if (top != top) part[1] = top, part[0] = part[0] > -INFINITY ? part[0] : 0; /* NaN: no token is likely */
        if (part[0] == -INFINITY) continue;
        vector total = broadcast(0);
        for (int j = 0; j < 4; j++) total += exponential(v[j] - part[0]);
        part[1] += sum_of(total);
        int64_t e = c->eos - p * PANEL;
        if (e >= 0 && e < PANEL) part[2] = logits[e];
        if (top > likely[K - 1])
          for (int j = 0; j < columns; j++)
            if (logits[j] > likely[K - 1] && !(c->suppressed && c->suppressed[p * PANEL + j]))
              insert(likely, at + (n + i) * K, K, logits[j], p * PANEL + j);
      }
    }
  for (int64_t n = 0; n < c->rows; n++) {
    float *part = c->partial + (n * w->parts + w->part) * width;
    for (int64_t k = 0; k < K; k++) part[3 + K + k] = (float)at[n * K + k];
  }
}

/* Merges the top k of all threads. Token ids are floats until here: a vocabulary has less than 2^24. */
static void merge_top_tokens(const Worker *w) {
  const Context *c = w->c;
  int64_t K = c->k, width = 2 + 2 * K + 1, first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    float top = -INFINITY, end = -INFINITY, total = 0;
    float *likely = c->top_log_probs + n * K;
    int64_t *tokens = c->top_tokens + n * K;
    for (int64_t k = 0; k < K; k++) likely[k] = -INFINITY, tokens[k] = -1;
    for (int p = 0; p < w->parts; p++) {
      const float *part = c->partial + (n * w->parts + p) * width;
      if (part[0] > top) top = part[0];
      if (part[2] > end) end = part[2];
    }
    for (int p = 0; p < w->parts; p++) {
      const float *part = c->partial + (n * w->parts + p) * width;
      if (part[0] > -INFINITY) total += part[1] * expf(part[0] - top);
      for (int64_t k = 0; k < K; k++)
        if (part[3 + K + k] >= 0 && (part[3 + k] > likely[K - 1] || tokens[K - 1] < 0))
          insert(likely, tokens, K, part[3 + k], (int64_t)part[3 + K + k]);
    }
    float norm = top + logf(total);
    for (int64_t k = 0; k < K; k++) {
      likely[k] -= norm;
      if (tokens[k] < 0) tokens[k] = 0; /* all NaN: no token is likely */
    }
    c->eos_log_probs[n] = end - norm;
  }
}

/* --- threads that run one program together ------------------------------------------------------------------- */

struct Team {
  int parts;
  atomic_long call, arrived, phase, done;
  atomic_int stop;
  pthread_t *threads;
  Worker *workers;
  const Operation *operations;
  int64_t count;
  pthread_mutex_t lock;
  pthread_cond_t wake;
};

static inline void pause_thread(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

#define PATIENCE 20000 /* polls before a waiting thread yields or sleeps */

static void barrier(Team *t) {
  if (t->parts == 1) return;
  long phase = atomic_load(&t->phase);
  if (atomic_fetch_add(&t->arrived, 1) == t->parts - 1) {
    atomic_store(&t->arrived, 0);
    atomic_store(&t->phase, phase + 1);
    return;
  }
  for (int looks = 0; atomic_load(&t->phase) == phase; looks++) {
    if (looks < PATIENCE) pause_thread();
    else sched_yield();
  }
}

static void compute(Team *t, Worker *w) {
  for (int64_t i = 0; i < t->count; i++) {
    const Operation *o = t->operations + i;
    switch (o->kind) {
      case EMBED: embed(o, w); break;
      case NORM: normalise(o, w); break;
      case LINEAR: linear(o, w); break;
      case COPY: copy(o, w); break;
      case STORE_BLOCK: store_block(o, w); break;
      case STORE_MEMORY: store_memory(o, w); break;
      case ENCODER_ATTENTION: encoder_attention(o, w); break;
      case CROSS_ATTENTION: cross_attention(o, w); break;
      case CACHED_ATTENTION: cached_attention(o, w); break;
      case ADDITIVE_ATTENTION: additive_attention(o, w); break;
      case LOAD_STATE: load_state(o, w); break;
      case GRU: case LSTM: case TANH_CELL: gates(o, w); break;
      case RNN: rnn(o, w); break;
      case UNIT_NORM: unit_norm(o, w); break;
      case GLU: glu(o, w); break;
      case MIX: mix(o, w); break;
      case WINDOW: window(o, w); break;
      case PAST_WINDOW: past_window(o, w); break;
      case GATE: apply_gate(o, w); break;
      case TOP_TOKENS: top_tokens(o, w); barrier(t); merge_top_tokens(w); break;
    }
    barrier(t);
  }
}

typedef struct { Team *team; int part; } ThreadArguments;

static void *run_thread(void *argument) {
  ThreadArguments *me = argument;
  Team *t = me->team;
  Worker *w = t->workers + me->part;
  long seen = 0;
  for (;;) {
    for (int looks = 0; atomic_load(&t->call) == seen && looks < PATIENCE; looks++) pause_thread();
    if (atomic_load(&t->call) == seen) {
      pthread_mutex_lock(&t->lock);
      while (atomic_load(&t->call) == seen) pthread_cond_wait(&t->wake, &t->lock);
      pthread_mutex_unlock(&t->lock);
    }
    seen++;
    if (atomic_load(&t->stop)) break;
    compute(t, w);
    atomic_fetch_add(&t->done, 1);
  }
  free(me);
  return NULL;
}

static void team_close(Team *t) {
  atomic_store(&t->stop, 1);
  pthread_mutex_lock(&t->lock);
  atomic_fetch_add(&t->call, 1);
  pthread_cond_broadcast(&t->wake);
  pthread_mutex_unlock(&t->lock);
  for (int i = 1; i < t->parts; i++) pthread_join(t->threads[i], NULL);
  for (int i = 0; i < t->parts; i++) free(t->workers[i].inputs.data), free(t->workers[i].scores.data);
  free(t->workers), free(t->threads), free(t);
}

/* Team of `parts` threads, the caller of `team_run` among them; NULL if there is no memory. */
static Team *team_open(int parts) {
  Team *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->parts = parts;
  t->workers = calloc(parts, sizeof *t->workers), t->threads = calloc(parts, sizeof *t->threads);
  pthread_mutex_init(&t->lock, NULL), pthread_cond_init(&t->wake, NULL);
  for (int i = 0; i < parts; i++) t->workers[i].part = i, t->workers[i].parts = parts;
  for (int i = 1; i < parts; i++) {
    ThreadArguments *m = malloc(sizeof *m);
    m->team = t, m->part = i;
    if (pthread_create(&t->threads[i], NULL, run_thread, m)) { /* take as many as the system allows */
      free(m);
      t->parts = i;
      for (int j = 0; j < i; j++) t->workers[j].parts = i;
      break;
    }
  }
  return t;
}

static int team_parts(const Team *t) { return t->parts; }

static void team_run(Team *t, const Operation *operations, int64_t count, const Context *c) {
  t->operations = operations, t->count = count;
  for (int i = 0; i < t->parts; i++) t->workers[i].c = c, t->workers[i].operations = operations;
  if (t->parts > 1) {
    atomic_store(&t->done, 0);
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->call, 1);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
  }
  compute(t, t->workers);
  while (t->parts > 1 && atomic_load(&t->done) < t->parts - 1) pause_thread();
}

/* --- weights into panels ------------------------------------------------------------------------------------- */

/* Packs weight (V, K), as a linear layer holds it. */
static void pack(const float *weight, int64_t V, int64_t K, int precision, void *panels, float *scales, int32_t *sums) {
  int64_t group = precision == FLOAT32 ? 1 : precision == BFLOAT16 ? 2 : 4, padded_inputs = (K + group - 1) / group * group;
  for (int64_t v = 0; v < (V + PANEL - 1) / PANEL * PANEL; v++) {
    int64_t panel = v / PANEL * PANEL * padded_inputs, column = v % PANEL;
    float most = 0;
    if (v < V)
      for (int64_t k = 0; k < K; k++) most = fabsf(weight[v * K + k]) > most ? fabsf(weight[v * K + k]) : most;
    float times = most > 0 ? 127.0f / most : 0;
    int32_t sum = 0;
    for (int64_t k = 0; k < padded_inputs; k++) {
      float x = v < V && k < K ? weight[v * K + k] : 0;
      int64_t at = panel + k / group * group * PANEL + column * group + k % group;
      if (precision == FLOAT32) ((float *)panels)[at] = x;
      else if (precision == BFLOAT16) ((uint16_t *)panels)[at] = to_bfloat16(x);
      else {
        int32_t q = (int32_t)lrintf(x * times);
        ((int8_t *)panels)[at] = (int8_t)q;
        sum += q;
      }
    }
    if (precision == INT8) scales[v] = most / 127.0f, sums[v] = 128 * sum;
  }
}

#ifndef LEVEL
#define LEVEL native
#endif
#define JOINED(a, b) a##b
#define NAME_OF(level) JOINED(kernels_, level)
#define TEXT(level) #level
#define TEXT_OF(level) TEXT(level)

const Kernels NAME_OF(LEVEL) = {TEXT_OF(LEVEL), team_open, team_close, team_parts, team_run, pack};
