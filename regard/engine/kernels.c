/* The arithmetic of a decoder that is stepped many times: what Python would do in a hundred calls, in one.

   A program is a list of operations over registers; a register is a matrix with a row for each hypothesis (or, in an
   encoder, for each source piece). Every row is computed alone and in one order, so what a sentence is told does not
   depend on its company, in any precision.

   Compiled once for a machine by native.py, with the widest vectors that it has; the parts that need special
   instructions have a plain form beside them. */

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#define LANES 16 /* numbers in a vector */
#define PANEL 64 /* columns of a weight that are computed together */
#define TILE 6   /* rows that are computed together: 24 of 32 registers hold sums */

typedef float vector __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t whole __attribute__((vector_size(64), aligned(4), may_alias));

enum { FLOAT32, BFLOAT16, INT8 };
enum { NONE, RELU, GELU, SILU, TANH };
enum { EMBED, NORM, LINEAR, COPY, STORE, MEMORISE, ATTEND_SENTENCE, ATTEND_SOURCE, ATTEND_PAST, ADDITIVE, STATE, GRU, LSTM, TANH_CELL, RECUR, UNIT, GLU, MIX, NEAR, NEAR_PAST, GATE, BEST };

typedef struct { /* a weight (K, V) packed in panels of columns, with what turns its products into numbers */
  int32_t precision, inputs, outputs, padded; /* inputs are padded to a multiple of what one instruction takes */
  const void *panels;
  const float *scales;  /* (V) int8 only: what one unit of a column is worth */
  const int32_t *sums;  /* (V) int8 only: the sum of each column, times 128 */
  const float *bias;    /* (V) or NULL */
} Weight;

typedef struct {
  int32_t kind, from, to, extra; /* registers */
  int32_t at, size, heads, bend; /* where a part begins, how wide it is */
  int64_t place;                 /* where it lies in a block or a memory, in numbers */
  float scale;
  int32_t entry;                 /* of a memory: columns of the keys, when they differ from the values */
  const float *table, *second;
  const Weight *weight;
} Operation;

typedef struct {
  int64_t rows;
  const int64_t *offsets; /* where each register begins, for one row */
  const int64_t *widths;
  float *registers;
  const int64_t *tokens, *positions;
  const int64_t *starts; /* encoder: where each sentence begins; sentences + 1 of them */
  int64_t sentences;
  float *const *memories; /* for each row, or sentence of an encoder, its source memory */
  const int64_t *entries; /* and how many entries it has */
  float *const *past;     /* (rows, stride): the blocks of the pieces before */
  int64_t stride;
  const int64_t *lengths; /* how many blocks each row has */
  float *blocks;          /* (rows, block): what this step leaves behind */
  int64_t block;
  int64_t best;           /* how many of the likeliest pieces are wanted */
  float *likely;          /* (rows, best) */
  int64_t *pieces;        /* (rows, best) */
  float *end;             /* (rows) */
  int64_t end_piece;
  const uint8_t *never;   /* (vocabulary) pieces that are not to be among the likeliest, or NULL */
  float *sharing;         /* (rows, parts, 2 + 2·best): what each part found, before it is put together */
} Context;

/* --- numbers ------------------------------------------------------------------------------------------------- */

static inline vector spread(float x) { return (vector){} + x; }
static inline vector load(const float *at) { return *(const vector *)at; }
static inline void store(float *at, vector x) { *(vector *)at = x; }
static inline vector choose(whole mask, vector a, vector b) {
  return (vector)((mask & (whole)a) | (~mask & (whole)b));
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
  whole odd = x != x;
  vector y = smaller(larger(x, spread(-87.3f)), spread(88.3f));
  vector n = y * 1.44269504f;
  n = (n + 12582912.0f) - 12582912.0f; /* to the nearest whole number */
  vector r = y - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  vector p = spread(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  whole power = (__builtin_convertvector(n, whole) + 127) << 23;
  return choose(odd, x, p * (vector)power);
}

static inline vector sigmoid(vector x) { return 1.0f / (1.0f + exponential(-x)); }
static inline vector hyperbolic(vector x) { return 1.0f - 2.0f / (1.0f + exponential(x + x)); }

/* x·Φ(x), with the error function of Abramowitz and Stegun 7.1.26 (off by at most 1.5e-7). */
static inline vector gelu(vector x) {
  vector z = x * 0.70710678f, size = larger(z, -z);
  vector t = 1.0f / (1.0f + size * 0.3275911f);
  vector p = spread(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  vector erf = 1.0f - p * t * exponential(-size * size);
  return 0.5f * x * (1.0f + choose(z < 0.0f, -erf, erf));
}

static inline vector bent(vector x, int bend) {
  switch (bend) {
    case RELU: return choose(x < 0.0f, spread(0), x);
    case GELU: return gelu(x);
    case SILU: return x * sigmoid(x);
    case TANH: return hyperbolic(x);
    default: return x;
  }
}

static inline uint16_t lowered(float x) { /* bfloat16, rounded to even; NaN stays NaN */
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (x != x) return (uint16_t)(bits >> 16) | 64;
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* --- products ------------------------------------------------------------------------------------------------ */

/* Each of these adds the products of some rows with one panel to `sums`. `rows` is a constant where they are used, so
   that the sums stay in registers. */

#define ALWAYS static inline __attribute__((always_inline))

ALWAYS void products_float32(const float *from, int64_t step, int inputs, const float *panel, vector sums[][4], const int rows) {
  for (int k = 0; k < inputs; k++, panel += PANEL) {
    vector w0 = load(panel), w1 = load(panel + 16), w2 = load(panel + 32), w3 = load(panel + 48);
    for (int i = 0; i < rows; i++) {
      vector a = spread(from[i * step + k]);
      sums[i][0] += a * w0, sums[i][1] += a * w1, sums[i][2] += a * w2, sums[i][3] += a * w3;
    }
  }
}

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
  for (int k = 0; k < inputs; k += 2, panel += 2 * PANEL)
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < 4; j++) {
        whole both = *(const whole *)(panel + 32 * j);
        int32_t pair;
        memcpy(&pair, from + i * step + k, 4);
        uint32_t low = (uint32_t)pair << 16, high = (uint32_t)pair & 0xffff0000u;
        float a, b;
        memcpy(&a, &low, 4), memcpy(&b, &high, 4);
        sums[i][j] += a * (vector)(both << 16) + b * (vector)(both & (int32_t)0xffff0000);
      }
}
#endif

#if defined(__AVX512VNNI__)
ALWAYS void products_int8(const uint8_t *from, int64_t step, int inputs, const int8_t *panel, whole sums[][4], const int rows) {
  for (int k = 0; k < inputs; k += 4, panel += 4 * PANEL) {
    __m512i w[4];
    for (int j = 0; j < 4; j++) w[j] = _mm512_loadu_si512(panel + 64 * j);
    for (int i = 0; i < rows; i++) {
      int32_t four;
      memcpy(&four, from + i * step + k, 4);
      __m512i a = _mm512_set1_epi32(four);
      for (int j = 0; j < 4; j++) sums[i][j] = (whole)_mm512_dpbusd_epi32((__m512i)sums[i][j], a, w[j]);
    }
  }
}
#else
ALWAYS void products_int8(const uint8_t *from, int64_t step, int inputs, const int8_t *panel, whole sums[][4], const int rows) {
  for (int k = 0; k < inputs; k += 4, panel += 4 * PANEL)
    for (int i = 0; i < rows; i++) {
      const uint8_t *a = from + i * step + k;
      int32_t *total = (int32_t *)sums[i];
      for (int j = 0; j < PANEL; j++)
        total[j] += a[0] * panel[4 * j] + a[1] * panel[4 * j + 1] + a[2] * panel[4 * j + 2] + a[3] * panel[4 * j + 3];
    }
}
#endif

typedef struct { /* rows of activations as the products of a precision take them */
  const void *data;
  int64_t step;
  float *scales; /* int8: what one unit of each row is worth */
} Inputs;

/* Products of `rows` (at most TILE) rows with panel `p`, as numbers, into out[i][0..3]. */
ALWAYS void tile(const Weight *w, const Inputs *in, int64_t row, int64_t p, vector out[][4], const int rows) {
  if (w->precision == INT8) {
    whole sums[TILE][4];
    memset(sums, 0, sizeof sums);
    products_int8((const uint8_t *)in->data + row * in->step, in->step, w->padded,
                  (const int8_t *)w->panels + p * PANEL * w->padded, sums, rows);
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < 4; j++) {
        whole middle = *(const whole *)(w->sums + p * PANEL + LANES * j);
        out[i][j] = __builtin_convertvector(sums[i][j] - middle, vector) * load(w->scales + p * PANEL + LANES * j) * in->scales[row + i];
      }
    return;
  }
  vector sums[TILE][4]; /* not `out`: what is reached through a pointer would be written back after every product */
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < 4; j++) sums[i][j] = spread(0);
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

/* Rounds a row to 8 bits: 128 stands for nothing, and one unit is a 127th of the largest. */
static float quantised(const float *x, int n, int padded, uint8_t *to) {
  vector most = spread(0);
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
#endif
  for (; i < n; i++) to[i] = (uint8_t)(lrintf(x[i] * times) + 128);
  for (; i < padded; i++) to[i] = 128;
  return unit;
}

typedef struct { /* room that belongs to one thread */
  char *room;
  size_t size;
} Room;

static void *room(Room *r, size_t size) {
  if (r->size < size) {
    free(r->room);
    r->size = size + size / 2;
    if (posix_memalign((void **)&r->room, 64, r->size)) abort();
  }
  return r->room;
}

static Inputs inputs_of(const Weight *w, const float *from, int64_t step, int64_t rows, Room *r) {
  Inputs in = {from, step, NULL};
  int n = w->inputs, padded = w->padded;
  if (w->precision == BFLOAT16) {
    uint16_t *low = room(r, rows * padded * 2);
    for (int64_t i = 0; i < rows; i++) {
      int k = 0;
#if defined(__AVX512BF16__)
      for (; k + LANES <= n; k += LANES)
        _mm256_storeu_si256((__m256i *)(low + i * padded + k), (__m256i)_mm512_cvtneps_pbh((__m512)load(from + i * step + k)));
#endif
      for (; k < n; k++) low[i * padded + k] = lowered(from[i * step + k]);
      for (; k < padded; k++) low[i * padded + k] = 0;
    }
    in.data = low, in.step = padded;
  } else if (w->precision == INT8) {
    uint8_t *low = room(r, rows * (padded + sizeof(float)) + 64);
    in.scales = (float *)(low + ((rows * padded + 63) & ~(int64_t)63));
    for (int64_t i = 0; i < rows; i++) in.scales[i] = quantised(from + i * step, n, padded, low + i * padded);
    in.data = low, in.step = padded;
  }
  return in;
}

/* --- the operations ------------------------------------------------------------------------------------------ */

typedef struct { /* one of the threads that compute a program together */
  const Context *c;
  int part, parts;
  Room inputs, scores;
} Worker;

static inline float *reg(const Context *c, int r, int64_t row) {
  return c->registers + c->offsets[r] * c->rows + row * c->widths[r];
}

/* Which of `count` things are this part's. */
static inline void share(const Worker *w, int64_t count, int64_t *from, int64_t *to) {
  *from = count * w->part / w->parts, *to = count * (w->part + 1) / w->parts;
}

static void embed(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    const float *vector_of = o->table + c->tokens[n] * o->size;
    const float *place = o->second ? o->second + c->positions[n] * o->size : NULL;
    float *to = reg(c, o->to, n);
    for (int i = 0; i < o->size; i++) to[i] = vector_of[i] * o->scale + (place ? place[i] : 0);
  }
}

static void normalise(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  int D = o->size;
  for (int64_t n = first; n < last; n++) {
    const float *x = reg(c, o->from, n);
    float *y = reg(c, o->to, n), total = 0, squares = 0;
    vector t = spread(0), s = spread(0);
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

/* Parts of a register, one for each head, to length one, times a scale of the head. */
static void unit(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  int E = o->size / o->heads;
  for (int64_t n = first; n < last; n++)
    for (int h = 0; h < o->heads; h++) {
      float *x = reg(c, o->from, n) + o->at + h * E, squares = 0;
      for (int i = 0; i < E; i++) squares += x[i] * x[i];
      float length = sqrtf(squares), scale = o->table[h] / (length > 1e-12f ? length : 1e-12f);
      for (int i = 0; i < E; i++) x[i] *= scale;
    }
}

/* One half of a register gated by the other: swiglu (`bend` SILU) bends the first, a gated linear unit the second. */
static void glu(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  int D = o->size;
  for (int64_t n = first; n < last; n++) {
    const float *a = reg(c, o->from, n), *b = a + D;
    float *to = reg(c, o->to, n);
    for (int i = 0; i < D; i += LANES) {
      int some = D - i < LANES ? D - i : LANES;
      float pa[LANES] = {0}, pb[LANES] = {0};
      memcpy(pa, a + i, some * sizeof(float)), memcpy(pb, b + i, some * sizeof(float));
      vector x = load(pa), y = load(pb);
      store(pa, o->bend == SILU ? x * sigmoid(x) * y : x * sigmoid(y));
      memcpy(to + i, pa, some * sizeof(float));
    }
  }
}

/* The sum of two registers, times a scale. */
static void mix(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    const float *a = reg(c, o->from, n), *b = reg(c, o->extra, n);
    float *to = reg(c, o->to, n);
    for (int i = 0; i < o->size; i++) to[i] = (a[i] + b[i]) * o->scale;
  }
}

/* Columns of a register, times a number between 0 and 1 that another register holds the logit of. */
static void open_gate(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    float *to = reg(c, o->to, n) + o->at, open = 1.0f / (1.0f + expf(-reg(c, o->from, n)[0]));
    for (int i = 0; i < o->size; i++) to[i] *= open;
  }
}

/* `entry` neighbours of each piece side by side, `at` of them before it; beyond the sentence there are zeros. */
static void near(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->sentences, &first, &last);
  for (int64_t b = first; b < last; b++)
    for (int64_t n = c->starts[b]; n < c->starts[b + 1]; n++)
      for (int k = 0; k < o->entry; k++) {
        int64_t from = n + k - o->at;
        float *to = reg(c, o->to, n) + k * o->size;
        if (from < c->starts[b] || from >= c->starts[b + 1]) memset(to, 0, o->size * sizeof(float));
        else memcpy(to, reg(c, o->from, from), o->size * sizeof(float));
      }
}

/* The same of what a decoder has written: the newest in the register, those before it in blocks. */
static void near_past(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    for (int k = 0; k < o->entry; k++) {
      int64_t from = c->lengths[n] + k + 1 - o->entry;
      float *to = reg(c, o->to, n) + k * o->size;
      if (from < 0) memset(to, 0, o->size * sizeof(float));
      else if (from == c->lengths[n]) memcpy(to, reg(c, o->from, n), o->size * sizeof(float));
      else memcpy(to, c->past[n * c->stride + from] + o->place, o->size * sizeof(float));
    }
}

/* Columns of a register, times a weight, bent, plus what `extra` holds, into columns of another. */
static void linear(const Operation *o, Worker *w) {
  const Context *c = w->c;
  const Weight *weight = o->weight;
  int64_t panels = (weight->outputs + PANEL - 1) / PANEL, first, last;
  share(w, panels, &first, &last);
  if (first == last) return;
  Inputs in = inputs_of(weight, reg(c, o->from, 0) + o->place, c->widths[o->from], c->rows, &w->inputs);
  for (int64_t p = first; p < last; p++) {
    int columns = weight->outputs - p * PANEL < PANEL ? weight->outputs - p * PANEL : PANEL;
    for (int64_t n = 0; n < c->rows; n += TILE) {
      int rows = c->rows - n < TILE ? c->rows - n : TILE;
      vector out[TILE][4];
      products(weight, &in, n, p, out, rows);
      for (int i = 0; i < rows; i++) {
        float *to = reg(c, o->to, n + i) + o->at + p * PANEL;
        const float *more = o->extra < 0 ? NULL : reg(c, o->extra, n + i) + p * PANEL;
        float last_ones[PANEL], others[PANEL];
        float *into = to;
        if (columns < PANEL) {
          into = last_ones;
          if (more) memcpy(others, more, columns * sizeof(float)), more = others;
        }
        for (int j = 0; j < 4; j++) {
          vector y = bent(out[i][j], o->bend);
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
    memcpy(reg(w->c, o->to, n) + o->at, reg(w->c, o->from, n) + o->place, o->size * sizeof(float));
}

/* What the steps to come will read of this one. */
static void store_block(const Operation *o, const Worker *w) {
  int64_t first, last;
  share(w, w->c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    memcpy(w->c->blocks + n * w->c->block + o->place, reg(w->c, o->from, n) + o->at, o->size * sizeof(float));
}

static inline int64_t padded(int64_t entries) { return (entries + LANES - 1) / LANES * LANES; }

/* Keys stand in columns, so that sixteen entries are scored at once; values in rows. `place` is in numbers for one
   entry: a memory of S entries begins its part at place · padded(S). */
static void memorise(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->sentences, &first, &last);
  for (int64_t b = first; b < last; b++) {
    int64_t from = c->starts[b], S = c->starts[b + 1] - from, P = padded(S);
    float *keys = c->memories[b] + o->place * P, *values = keys + o->entry * P;
    for (int e = 0; e < o->entry; e++) {
      for (int64_t s = 0; s < S; s++) keys[e * P + s] = reg(c, o->from, from + s)[e];
      for (int64_t s = S; s < P; s++) keys[e * P + s] = 0;
    }
    for (int64_t s = 0; s < S; s++) memcpy(values + s * o->size, reg(c, o->extra, from + s) + o->at, o->size * sizeof(float));
  }
}

/* Scores into weights that sum to one; the places after S are set to zero. */
static void softmax(float *scores, int64_t S, int64_t P) {
  for (int64_t s = S; s < P; s++) scores[s] = -INFINITY;
  vector most = load(scores);
  for (int64_t s = LANES; s < P; s += LANES) most = larger(most, load(scores + s));
  float top = largest_of(most);
  vector total = spread(0);
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

/* Scores of one query head against keys that stand in columns. */
static void scores_by_columns(const float *q, const float *keys, int E, int64_t P, float scale, float *scores) {
  int64_t s = 0;
  for (; s + 4 * LANES <= P; s += 4 * LANES) {
    vector t0 = spread(0), t1 = t0, t2 = t0, t3 = t0;
    for (int e = 0; e < E; e++) {
      const float *k = keys + e * P + s;
      vector a = spread(q[e]);
      t0 += a * load(k), t1 += a * load(k + 16), t2 += a * load(k + 32), t3 += a * load(k + 48);
    }
    store(scores + s, t0 * scale), store(scores + s + 16, t1 * scale);
    store(scores + s + 32, t2 * scale), store(scores + s + 48, t3 * scale);
  }
  for (; s < P; s += LANES) {
    vector even = spread(0), odd = spread(0);
    int e = 0;
    for (; e + 2 <= E; e += 2) {
      even += q[e] * load(keys + e * P + s);
      odd += q[e + 1] * load(keys + (e + 1) * P + s);
    }
    for (; e < E; e++) even += q[e] * load(keys + e * P + s);
    store(scores + s, (even + odd) * scale);
  }
}

/* The values weighed: E numbers of each of S rows that are `step` apart. */
static void weighed(const float *weights, const float *values, int64_t step, int64_t S, int E, float *to) {
  int e = 0;
  for (; e + 2 * LANES <= E; e += 2 * LANES) {
    vector t0 = spread(0), t1 = t0;
    for (int64_t s = 0; s < S; s++) {
      t0 += weights[s] * load(values + s * step + e), t1 += weights[s] * load(values + s * step + e + LANES);
    }
    store(to + e, t0), store(to + e + LANES, t1);
  }
  for (; e + LANES <= E; e += LANES) {
    vector t = spread(0);
    for (int64_t s = 0; s < S; s++) t += weights[s] * load(values + s * step + e);
    store(to + e, t);
  }
  for (; e < E; e++) {
    float t = 0;
    for (int64_t s = 0; s < S; s++) t += weights[s] * values[s * step + e];
    to[e] = t;
  }
}

/* Self-attention of an encoder: queries, keys and values stand side by side in one register. A piece reads those at most
   `entry` places away, or all where that is 0. */
static void attend_sentence(const Operation *o, Worker *w) {
  const Context *c = w->c;
  int D = o->size, E = D / o->heads;
  int64_t step = c->widths[o->from], first, last;
  share(w, c->sentences, &first, &last);
  for (int64_t b = first; b < last; b++) {
    int64_t from = c->starts[b], S = c->starts[b + 1] - from, P = padded(S);
    float *scores = room(&w->scores, (P + P * E) * sizeof(float)), *keys = scores + P;
    for (int h = 0; h < o->heads; h++) {
      const float *own = reg(c, o->from, from) + h * E;
      for (int64_t s = 0; s < S; s++)
        for (int e = 0; e < E; e++) keys[e * P + s] = own[s * step + D + e];
      for (int e = 0; e < E; e++)
        for (int64_t s = S; s < P; s++) keys[e * P + s] = 0;
      for (int64_t s = 0; s < S; s++) {
        scores_by_columns(own + s * step, keys, E, P, o->scale, scores);
        if (o->entry)
          for (int64_t i = 0; i < S; i++)
            if (i < s - o->entry || i > s + o->entry) scores[i] = -INFINITY;
        softmax(scores, S, P);
        weighed(scores, own + 2 * D, step, S, E, reg(c, o->to, from + s) + o->at + h * E);
      }
    }
  }
}

/* One query for each row against a memory: keys of `entry` numbers, values of `size`, both cut into heads. */
static void attend_source(const Operation *o, Worker *w) {
  const Context *c = w->c;
  int D = o->size, E = o->entry / o->heads, V = D / o->heads;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    int64_t S = c->entries[n], P = padded(S);
    const float *keys = c->memories[n] + o->place * P, *values = keys + o->entry * P;
    float *scores = room(&w->scores, P * sizeof(float));
    const float *q = reg(c, o->from, n);
    for (int h = 0; h < o->heads; h++) {
      scores_by_columns(q + h * E, keys + h * E * P, E, P, o->scale, scores);
      softmax(scores, S, P);
      float *to = reg(c, o->to, n) + o->at + h * V;
      weighed(scores, values + h * V, D, S, V, to);
      if (o->bend) /* a mean of S entries, as large as one of them */
        for (int i = 0; i < V; i++) to[i] *= sqrtf((float)S);
    }
  }
}

static inline float dot(const float *a, const float *b, int E) {
  vector t = spread(0);
  int e = 0;
  for (; e + LANES <= E; e += LANES) t += load(a + e) * load(b + e);
  float total = e ? sum_of(t) : 0;
  for (; e < E; e++) total += a[e] * b[e];
  return total;
}

/* Self-attention of a decoder: the pieces before lie in blocks, the newest in the register; of those before, the last
   `entry` are read, or all where that is 0. */
static void attend_past(const Operation *o, Worker *w) {
  const Context *c = w->c;
  int D = o->size, E = D / o->heads;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    int64_t all = c->lengths[n], t = o->entry && all > o->entry ? o->entry : all, P = padded(t + 1);
    float *const *past = c->past + n * c->stride + (all - t);
    const float *own = reg(c, o->from, n);
    float *scores = room(&w->scores, P * sizeof(float)), *to = reg(c, o->to, n) + o->at;
    for (int h = 0; h < o->heads; h++) {
      const float *q = own + h * E;
      for (int64_t s = 0; s < t; s++) scores[s] = dot(q, past[s] + o->place + h * E, E) * o->scale;
      scores[t] = dot(q, own + D + h * E, E) * o->scale;
      softmax(scores, t + 1, P);
      int e = 0;
      for (; e + LANES <= E; e += LANES) {
        vector sum = scores[t] * load(own + 2 * D + h * E + e);
        for (int64_t s = 0; s < t; s++) sum += scores[s] * load(past[s] + o->place + D + h * E + e);
        store(to + h * E + e, sum);
      }
      for (; e < E; e++) {
        float sum = scores[t] * own[2 * D + h * E + e];
        for (int64_t s = 0; s < t; s++) sum += scores[s] * past[s][o->place + D + h * E + e];
        to[h * E + e] = sum;
      }
    }
  }
}

/* v·tanh(q + k) against keys in columns (`entry` of them), and values of `size`. */
static void attend_additive(const Operation *o, Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    int64_t S = c->entries[n], P = padded(S);
    const float *keys = c->memories[n] + o->place * P, *values = keys + o->entry * P, *q = reg(c, o->from, n);
    float *scores = room(&w->scores, P * sizeof(float));
    for (int64_t s = 0; s < P; s += LANES) {
      vector total = spread(0);
      for (int e = 0; e < o->entry; e++) total += o->table[e] * hyperbolic(q[e] + load(keys + e * P + s));
      store(scores + s, total);
    }
    softmax(scores, S, P);
    float *to = reg(c, o->to, n) + o->at;
    weighed(scores, values, o->size, S, o->size, to);
    if (o->bend)
      for (int i = 0; i < o->size; i++) to[i] *= sqrtf((float)S);
  }
}

/* A part of the newest block, into a register. */
static void state(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    memcpy(reg(c, o->to, n) + o->at, c->past[n * c->stride + c->lengths[n] - 1] + o->place, o->size * sizeof(float));
}

/* One step of a recurrent cell: x is what the inputs say to the gates, s what the hidden state says; h, and the cell of
   an LSTM, are made new. */
static void gate(int kind, int H, const float *x, const float *s, float *h, float *cell) {
  int count = kind == GRU ? 3 : kind == LSTM ? 4 : 1;
  for (int i = 0; i < H; i += LANES) {
    int some = H - i < LANES ? H - i : LANES;
    float px[4][LANES] = {{0}}, ps[4][LANES] = {{0}}, ph[LANES] = {0}, pc[LANES] = {0};
    for (int g = 0; g < count; g++) {
      memcpy(px[g], x + g * H + i, some * sizeof(float));
      memcpy(ps[g], s + g * H + i, some * sizeof(float));
    }
    memcpy(ph, h + i, some * sizeof(float));
    vector next;
    if (kind == GRU) {
      vector r = sigmoid(load(px[0]) + load(ps[0])), z = sigmoid(load(px[1]) + load(ps[1]));
      vector new = hyperbolic(load(px[2]) + r * load(ps[2]));
      next = new + z * (load(ph) - new);
    } else if (kind == LSTM) {
      memcpy(pc, cell + i, some * sizeof(float));
      vector in = sigmoid(load(px[0]) + load(ps[0])), forget = sigmoid(load(px[1]) + load(ps[1]));
      vector new = hyperbolic(load(px[2]) + load(ps[2])), out = sigmoid(load(px[3]) + load(ps[3]));
      vector kept = forget * load(pc) + in * new;
      next = out * hyperbolic(kept);
      store(pc, kept);
      memcpy(cell + i, pc, some * sizeof(float));
    } else {
      next = hyperbolic(load(px[0]) + load(ps[0]));
    }
    store(ph, next);
    memcpy(h + i, ph, some * sizeof(float));
  }
}

/* `from`: what the inputs say to the gates; `extra`: what the hidden state says; `to`: the states, hidden then cell. */
static void gates(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    gate(o->kind, o->size, reg(c, o->from, n), reg(c, o->extra, n), reg(c, o->to, n) + o->at, reg(c, o->to, n) + o->place);
}

/* A recurrent network over whole sentences, one way (`heads` 1: backwards; `entry`: the kind of cell). `from`: what the
   inputs say to the gates at each entry; `to` and `extra`: the hidden states and the cells there, from column `at` on. */
static void recur(const Operation *o, Worker *w) {
  const Context *c = w->c;
  const Weight *weight = o->weight;
  int H = o->size, G = weight->outputs, wide = (G + PANEL - 1) / PANEL * PANEL;
  int64_t first, last, longest = 0;
  share(w, c->sentences, &first, &last);
  int64_t B = last - first, *alive;
  if (B == 0) return;
  for (int64_t b = first; b < last; b++)
    longest = c->starts[b + 1] - c->starts[b] > longest ? c->starts[b + 1] - c->starts[b] : longest;
  float *hidden = room(&w->scores, B * (2 * H + wide) * sizeof(float) + B * sizeof(int64_t) + 64);
  float *cells = hidden + B * H, *said = cells + B * H;
  alive = (int64_t *)(said + B * wide);
  memset(hidden, 0, 2 * B * H * sizeof(float));
  int64_t count = B;
  for (int64_t i = 0; i < B; i++) alive[i] = first + i;
  for (int64_t t = 0; t < longest; t++) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) { /* those that have ended make room */
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
    for (int64_t p = 0; p < wide / PANEL; p++)
      for (int64_t n = 0; n < count; n += TILE) {
        int rows = count - n < TILE ? count - n : TILE;
        vector out[TILE][4];
        products(weight, &in, n, p, out, rows);
        for (int i = 0; i < rows; i++)
          for (int j = 0; j < 4; j++) store(said + (n + i) * wide + p * PANEL + LANES * j, out[i][j]);
      }
    for (int64_t i = 0; i < count; i++) {
      int64_t row = o->heads ? c->starts[alive[i] + 1] - 1 - t : c->starts[alive[i]] + t;
      gate(o->entry, H, reg(c, o->from, row), said + i * wide, hidden + i * H, cells + i * H);
      memcpy(reg(c, o->to, row) + o->at, hidden + i * H, H * sizeof(float));
      if (o->entry == LSTM) memcpy(reg(c, o->extra, row) + o->at, cells + i * H, H * sizeof(float));
    }
  }
}

/* Puts a piece in its place among the likeliest; of two as likely, the first. */
static inline void insert(float *likely, int64_t *pieces, int64_t count, float x, int64_t piece) {
  int64_t i = count - 1;
  while (i > 0 && x > likely[i - 1]) {
    likely[i] = likely[i - 1], pieces[i] = pieces[i - 1];
    i--;
  }
  likely[i] = x, pieces[i] = piece;
}

/* The likeliest pieces, of a vocabulary whose scores are never all at hand: each panel is looked at and forgotten. */
static void best(const Operation *o, Worker *w) {
  const Context *c = w->c;
  const Weight *weight = o->weight;
  int64_t panels = (weight->outputs + PANEL - 1) / PANEL, K = c->best, first, last;
  share(w, panels, &first, &last);
  int64_t width = 2 + 2 * K + 1;
  for (int64_t n = 0; n < c->rows; n++) {
    float *found = c->sharing + (n * w->parts + w->part) * width;
    found[0] = -INFINITY, found[1] = 0, found[2] = -INFINITY;
    for (int64_t k = 0; k < K; k++) found[3 + k] = -INFINITY, found[3 + K + k] = 0;
  }
  if (first == last) return;
  Inputs in = inputs_of(weight, reg(c, o->from, 0), c->widths[o->from], c->rows, &w->inputs);
  int64_t *at = room(&w->scores, K * sizeof(int64_t) * c->rows);
  for (int64_t i = 0; i < K * c->rows; i++) at[i] = -1;
  for (int64_t p = first; p < last; p++)
    for (int64_t n = 0; n < c->rows; n += TILE) {
      int rows = c->rows - n < TILE ? c->rows - n : TILE;
      vector out[TILE][4];
      products(weight, &in, n, p, out, rows);
      for (int i = 0; i < rows; i++) {
        float *found = c->sharing + ((n + i) * w->parts + w->part) * width, *likely = found + 3;
        int columns = weight->outputs - p * PANEL < PANEL ? weight->outputs - p * PANEL : PANEL;
        float logits[PANEL];
        for (int j = 0; j < 4; j++) store(logits + LANES * j, out[i][j]);
        for (int j = columns; j < PANEL; j++) logits[j] = -INFINITY;
        vector v[4], most;
        for (int j = 0; j < 4; j++) v[j] = load(logits + LANES * j);
        most = larger(larger(v[0], v[1]), larger(v[2], v[3]));
        float top = largest_of(most);
        if (top > found[0]) found[1] *= expf(found[0] - top), found[0] = top;
        if (top != top) found[1] = top, found[0] = found[0] > -INFINITY ? found[0] : 0; /* no number: nothing is likely */
        if (found[0] == -INFINITY) continue;
        vector total = spread(0);
        for (int j = 0; j < 4; j++) total += exponential(v[j] - found[0]);
        found[1] += sum_of(total);
        int64_t e = c->end_piece - p * PANEL;
        if (e >= 0 && e < PANEL) found[2] = logits[e];
        if (top > likely[K - 1])
          for (int j = 0; j < columns; j++)
            if (logits[j] > likely[K - 1] && !(c->never && c->never[p * PANEL + j]))
              insert(likely, at + (n + i) * K, K, logits[j], p * PANEL + j);
      }
    }
  for (int64_t n = 0; n < c->rows; n++) {
    float *found = c->sharing + (n * w->parts + w->part) * width;
    for (int64_t k = 0; k < K; k++) found[3 + K + k] = (float)at[n * K + k];
  }
}

/* What the parts found, put together. Pieces are counted in floats until here: a vocabulary has less than 2^24. */
static void gather_best(const Worker *w) {
  const Context *c = w->c;
  int64_t K = c->best, width = 2 + 2 * K + 1, first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    float top = -INFINITY, end = -INFINITY, total = 0;
    float *likely = c->likely + n * K;
    int64_t *pieces = c->pieces + n * K;
    for (int64_t k = 0; k < K; k++) likely[k] = -INFINITY, pieces[k] = -1;
    for (int p = 0; p < w->parts; p++) {
      const float *found = c->sharing + (n * w->parts + p) * width;
      if (found[0] > top) top = found[0];
      if (found[2] > end) end = found[2];
    }
    for (int p = 0; p < w->parts; p++) {
      const float *found = c->sharing + (n * w->parts + p) * width;
      if (found[0] > -INFINITY) total += found[1] * expf(found[0] - top);
      for (int64_t k = 0; k < K; k++)
        if (found[3 + K + k] >= 0 && (found[3 + k] > likely[K - 1] || pieces[K - 1] < 0))
          insert(likely, pieces, K, found[3 + k], (int64_t)found[3 + K + k]);
    }
    float norm = top + logf(total);
    for (int64_t k = 0; k < K; k++) {
      likely[k] -= norm;
      if (pieces[k] < 0) pieces[k] = 0; /* no numbers at all: nothing is likely */
    }
    c->end[n] = end - norm;
  }
}

/* --- threads that compute one program together --------------------------------------------------------------- */

typedef struct Team {
  int parts;
  atomic_long call, arrived, phase, done;
  atomic_int stop;
  pthread_t *threads;
  Worker *workers;
  const Operation *operations;
  int64_t count;
  pthread_mutex_t lock;
  pthread_cond_t wake;
} Team;

static inline void rest(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

#define PATIENCE 20000 /* looks before a thread that waits lets others run */

static void meet(Team *t) {
  if (t->parts == 1) return;
  long phase = atomic_load(&t->phase);
  if (atomic_fetch_add(&t->arrived, 1) == t->parts - 1) {
    atomic_store(&t->arrived, 0);
    atomic_store(&t->phase, phase + 1);
    return;
  }
  for (int looks = 0; atomic_load(&t->phase) == phase; looks++) {
    if (looks < PATIENCE) rest();
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
      case STORE: store_block(o, w); break;
      case MEMORISE: memorise(o, w); break;
      case ATTEND_SENTENCE: attend_sentence(o, w); break;
      case ATTEND_SOURCE: attend_source(o, w); break;
      case ATTEND_PAST: attend_past(o, w); break;
      case ADDITIVE: attend_additive(o, w); break;
      case STATE: state(o, w); break;
      case GRU: case LSTM: case TANH_CELL: gates(o, w); break;
      case RECUR: recur(o, w); break;
      case UNIT: unit(o, w); break;
      case GLU: glu(o, w); break;
      case MIX: mix(o, w); break;
      case NEAR: near(o, w); break;
      case NEAR_PAST: near_past(o, w); break;
      case GATE: open_gate(o, w); break;
      case BEST: best(o, w); meet(t); gather_best(w); break;
    }
    meet(t);
  }
}

typedef struct { Team *team; int part; } Member;

static void *member(void *given) {
  Member *me = given;
  Team *t = me->team;
  Worker *w = t->workers + me->part;
  long seen = 0;
  for (;;) {
    for (int looks = 0; atomic_load(&t->call) == seen && looks < PATIENCE; looks++) rest();
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

void regard_close(Team *t) {
  atomic_store(&t->stop, 1);
  pthread_mutex_lock(&t->lock);
  atomic_fetch_add(&t->call, 1);
  pthread_cond_broadcast(&t->wake);
  pthread_mutex_unlock(&t->lock);
  for (int i = 1; i < t->parts; i++) pthread_join(t->threads[i], NULL);
  for (int i = 0; i < t->parts; i++) free(t->workers[i].inputs.room), free(t->workers[i].scores.room);
  free(t->workers), free(t->threads), free(t);
}

/* As many threads as `parts`, the caller of `regard_run` among them; NULL when there is no room. */
Team *regard_open(int parts) {
  Team *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->parts = parts;
  t->workers = calloc(parts, sizeof *t->workers), t->threads = calloc(parts, sizeof *t->threads);
  pthread_mutex_init(&t->lock, NULL), pthread_cond_init(&t->wake, NULL);
  for (int i = 0; i < parts; i++) t->workers[i].part = i, t->workers[i].parts = parts;
  for (int i = 1; i < parts; i++) {
    Member *m = malloc(sizeof *m);
    m->team = t, m->part = i;
    if (pthread_create(&t->threads[i], NULL, member, m)) { /* as many as the system allows */
      free(m);
      t->parts = i;
      for (int j = 0; j < i; j++) t->workers[j].parts = i;
      break;
    }
  }
  return t;
}

int regard_parts(const Team *t) { return t->parts; }

void regard_run(Team *t, const Operation *operations, int64_t count, const Context *c) {
  t->operations = operations, t->count = count;
  for (int i = 0; i < t->parts; i++) t->workers[i].c = c;
  if (t->parts > 1) {
    atomic_store(&t->done, 0);
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->call, 1);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
  }
  compute(t, t->workers);
  while (t->parts > 1 && atomic_load(&t->done) < t->parts - 1) rest();
}

/* --- weights into panels ------------------------------------------------------------------------------------- */

/* weight (V, K), as a linear layer has it. */
void regard_pack(const float *weight, int64_t V, int64_t K, int precision, void *panels, float *scales, int32_t *sums) {
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
      else if (precision == BFLOAT16) ((uint16_t *)panels)[at] = lowered(x);
      else {
        int32_t q = (int32_t)lrintf(x * times);
        ((int8_t *)panels)[at] = (int8_t)q;
        sum += q;
      }
    }
    if (precision == INT8) scales[v] = most / 127.0f, sums[v] = 128 * sum;
  }
}

void regard_sizes(int64_t *sizes) { sizes[0] = sizeof(Weight), sizes[1] = sizeof(Operation), sizes[2] = sizeof(Context), sizes[3] = PANEL, sizes[4] = LANES; }
