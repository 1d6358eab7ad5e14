/* Products of rows with the panels of a weight, and their inputs in the form that each precision and level needs.

   A panel is four strips of LANES columns. A strip is contiguous: all inputs of its columns, in groups of 1 (float32),
   2 (bfloat16) or 4 (int8) inputs of each column side by side. The layout is the same at every level, and so are the
   integer sums of int8. */

#ifndef REGARD_MATRIX_PRODUCTS_H
#define REGARD_MATRIX_PRODUCTS_H

#include "vectors.h"

#include <stdlib.h>

#define VECTORS (PANEL / WIDTH)

/* Vectors of columns that are summed at once for this many rows, so that the sums stay in registers, and are enough to
   hide the time that one addition takes. */
#if WIDTH == 16
#define AT_ONCE(rows) 4
#elif defined(__aarch64__)
#define AT_ONCE(rows) ((rows) == 1 ? 16 : (rows) <= 3 ? 8 : 4)
#else
#define AT_ONCE(rows) ((rows) == 1 ? 8 : (rows) <= 3 ? 4 : 2)
#endif

/* Number of the first weight of vector q in a panel. */
ALWAYS int64_t vector_at(int q, int inputs, int group) {
  return (int64_t)(q / PARTS) * LANES * inputs + q % PARTS * WIDTH * group;
}

/* --- float32 --------------------------------------------------------------------------------------------------- */

/* Each of these adds the products of `rows` rows with one panel to `sums`. `rows` is a constant at every call, so that
   the sums stay in registers. */

ALWAYS void products_float32(const float *from, int64_t step, int inputs, const float *panel, vector sums[][VECTORS], const int rows) {
  const int columns = AT_ONCE(rows);
  for (int first = 0; first < VECTORS; first += columns) {
    vector total[TILE][VECTORS];
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < columns; j++) total[i][j] = broadcast(0);
    for (int64_t k = 0; k < inputs; k++) {
      vector w[VECTORS];
      for (int j = 0; j < columns; j++) w[j] = load(panel + vector_at(first + j, inputs, 1) + k * LANES);
      for (int i = 0; i < rows; i++) {
        vector a = broadcast(from[i * step + k]);
        for (int j = 0; j < columns; j++) total[i][j] += a * w[j];
      }
    }
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < columns; j++) sums[i][first + j] = total[i][j];
  }
}

/* --- bfloat16 -------------------------------------------------------------------------------------------------- */

#if defined(__AVX512BF16__)
typedef uint16_t bfloat16_input;

ALWAYS void products_bfloat16(const bfloat16_input *from, int64_t step, int inputs, const uint16_t *panel, vector sums[][VECTORS], const int rows) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < VECTORS; j++) sums[i][j] = broadcast(0);
  for (int64_t k = 0; k < inputs; k += 2) {
    __m512i w[VECTORS];
    for (int j = 0; j < VECTORS; j++) w[j] = _mm512_loadu_si512(panel + vector_at(j, inputs, 2) + k * LANES);
    for (int i = 0; i < rows; i++) {
      int32_t pair;
      memcpy(&pair, from + i * step + k, 4);
      __m512bh a = (__m512bh)_mm512_set1_epi32(pair);
      for (int j = 0; j < VECTORS; j++) sums[i][j] = (vector)_mm512_dpbf16_ps((__m512)sums[i][j], a, (__m512bh)w[j]);
    }
  }
}
#else
typedef float bfloat16_input; /* rounded to bfloat16 */

ALWAYS void products_bfloat16(const bfloat16_input *from, int64_t step, int inputs, const uint16_t *panel, vector sums[][VECTORS], const int rows) {
  const int columns = AT_ONCE(rows) > 4 ? AT_ONCE(rows) / 2 : AT_ONCE(rows);
  for (int first = 0; first < VECTORS; first += columns) {
    vector total[TILE][VECTORS];
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < columns; j++) total[i][j] = broadcast(0);
    for (int64_t k = 0; k < inputs; k += 2) {
      int_vector w[VECTORS];
      for (int j = 0; j < columns; j++) w[j] = *(const int_vector *)(panel + vector_at(first + j, inputs, 2) + k * LANES);
      for (int i = 0; i < rows; i++) {
        vector a = broadcast(from[i * step + k]);
        for (int j = 0; j < columns; j++) total[i][j] += a * (vector)(w[j] << 16);
      }
      for (int i = 0; i < rows; i++) {
        vector a = broadcast(from[i * step + k + 1]);
        for (int j = 0; j < columns; j++) total[i][j] += a * (vector)(w[j] & (int32_t)0xffff0000);
      }
    }
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < columns; j++) sums[i][first + j] = total[i][j];
  }
}
#endif

/* --- int8 ------------------------------------------------------------------------------------------------------ */

/* Four products of a column are added at once. Inputs are whole numbers from -127 to 127; where an instruction wants
   them unsigned 128 is added (ZERO), which `sums` of the weight takes off again. Where 16-bit numbers are multiplied they
   are stored as such (WIDE), each group as inputs 0, 2, 1, 3, for even and odd bytes of the weights are taken apart. */

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define ZERO 128
typedef uint8_t int8_input;
#elif defined(__SSSE3__) || defined(__wasm_simd128__)
#define ZERO 0
#define WIDE
typedef int16_t int8_input;
#else
#define ZERO 0
typedef int8_t int8_input;
#endif

static inline int32_t four_of(const void *at) {
  int32_t four;
  memcpy(&four, at, 4);
  return four;
}

#if defined(__AVX512VNNI__)
#define INT8_AT_ONCE(rows) 4
typedef __m512i Four, Inputs4;
ALWAYS Four weights_of(const int8_t *at) { return _mm512_loadu_si512(at); }
ALWAYS Inputs4 inputs_at(const int8_input *at) { return _mm512_set1_epi32(four_of(at)); }
ALWAYS int_vector add_products(int_vector total, Inputs4 a, Four w) { return (int_vector)_mm512_dpbusd_epi32((__m512i)total, a, w); }

#elif defined(__AVXVNNI__)
#define INT8_AT_ONCE(rows) AT_ONCE(rows)
typedef __m256i Four, Inputs4;
ALWAYS Four weights_of(const int8_t *at) { return _mm256_loadu_si256((const __m256i *)at); }
ALWAYS Inputs4 inputs_at(const int8_input *at) { return _mm256_set1_epi32(four_of(at)); }
ALWAYS int_vector add_products(int_vector total, Inputs4 a, Four w) { return (int_vector)_mm256_dpbusd_avx_epi32((__m256i)total, a, w); }

#elif defined(__AVX512BW__)
#define INT8_AT_ONCE(rows) ((rows) <= 3 ? 4 : 2)
typedef struct { __m512i even, odd; } Four, Inputs4;
ALWAYS Four weights_of(const int8_t *at) {
  __m512i w = _mm512_loadu_si512(at);
  return (Four){_mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8), _mm512_srai_epi16(w, 8)};
}
ALWAYS Inputs4 inputs_at(const int8_input *at) { return (Inputs4){_mm512_set1_epi32(four_of(at)), _mm512_set1_epi32(four_of(at + 2))}; }
ALWAYS int_vector add_products(int_vector total, Inputs4 a, Four w) {
  return total + ((int_vector)_mm512_madd_epi16(w.even, a.even) + (int_vector)_mm512_madd_epi16(w.odd, a.odd));
}

#elif defined(__AVX2__)
#define INT8_AT_ONCE(rows) ((rows) <= 3 ? 4 : 2)
typedef struct { __m256i even, odd; } Four, Inputs4;
ALWAYS Four weights_of(const int8_t *at) {
  __m256i w = _mm256_loadu_si256((const __m256i *)at);
  return (Four){_mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), _mm256_srai_epi16(w, 8)};
}
ALWAYS Inputs4 inputs_at(const int8_input *at) { return (Inputs4){_mm256_set1_epi32(four_of(at)), _mm256_set1_epi32(four_of(at + 2))}; }
ALWAYS int_vector add_products(int_vector total, Inputs4 a, Four w) {
  return total + ((int_vector)_mm256_madd_epi16(w.even, a.even) + (int_vector)_mm256_madd_epi16(w.odd, a.odd));
}

#define ONE_ROW
ALWAYS Inputs4 bytes_at(const int8_input *at) { /* the four inputs in order, and their sizes */
  __m256i even = _mm256_set1_epi32(four_of(at) & 0xff00ff), a = _mm256_or_si256(even, _mm256_slli_epi16(_mm256_set1_epi32(four_of(at + 2)), 8));
  return (Inputs4){a, _mm256_abs_epi8(a)};
}
ALWAYS int_vector add_one_row(int_vector total, Inputs4 a, const int8_t *at) {
  __m256i w = _mm256_loadu_si256((const __m256i *)at), pairs = _mm256_maddubs_epi16(a.odd, _mm256_sign_epi8(w, a.even));
  return total + (int_vector)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

#elif defined(__SSSE3__)
#define INT8_AT_ONCE(rows) 2
typedef struct { __m128i even, odd; } Four, Inputs4;
ALWAYS Four weights_of(const int8_t *at) {
  __m128i w = _mm_loadu_si128((const __m128i *)at);
  return (Four){_mm_srai_epi16(_mm_slli_epi16(w, 8), 8), _mm_srai_epi16(w, 8)};
}
ALWAYS Inputs4 inputs_at(const int8_input *at) { return (Inputs4){_mm_set1_epi32(four_of(at)), _mm_set1_epi32(four_of(at + 2))}; }
ALWAYS int_vector add_products(int_vector total, Inputs4 a, Four w) {
  return total + ((int_vector)_mm_madd_epi16(w.even, a.even) + (int_vector)_mm_madd_epi16(w.odd, a.odd));
}

#define ONE_ROW
ALWAYS Inputs4 bytes_at(const int8_input *at) {
  __m128i even = _mm_set1_epi32(four_of(at) & 0xff00ff), a = _mm_or_si128(even, _mm_slli_epi16(_mm_set1_epi32(four_of(at + 2)), 8));
  return (Inputs4){a, _mm_abs_epi8(a)};
}
ALWAYS int_vector add_one_row(int_vector total, Inputs4 a, const int8_t *at) {
  __m128i w = _mm_loadu_si128((const __m128i *)at), pairs = _mm_maddubs_epi16(a.odd, _mm_sign_epi8(w, a.even));
  return total + (int_vector)_mm_madd_epi16(pairs, _mm_set1_epi16(1));
}

#elif defined(__wasm_simd128__)
#define INT8_AT_ONCE(rows) ((rows) == 1 ? 4 : 2)
typedef struct { v128_t even, odd; } Four, Inputs4;
ALWAYS Four weights_of(const int8_t *at) {
  v128_t w = wasm_v128_load(at);
  return (Four){wasm_i16x8_shr(wasm_i16x8_shl(w, 8), 8), wasm_i16x8_shr(w, 8)};
}
ALWAYS Inputs4 inputs_at(const int8_input *at) { return (Inputs4){wasm_v128_load32_splat(at), wasm_v128_load32_splat(at + 2)}; }
ALWAYS int_vector add_products(int_vector total, Inputs4 a, Four w) {
  return total + ((int_vector)wasm_i32x4_dot_i16x8(w.even, a.even) + (int_vector)wasm_i32x4_dot_i16x8(w.odd, a.odd));
}

#elif defined(__ARM_FEATURE_DOTPROD)
#define INT8_AT_ONCE(rows) AT_ONCE(rows)
typedef int8x16_t Four, Inputs4;
ALWAYS Four weights_of(const int8_t *at) { return vld1q_s8(at); }
ALWAYS Inputs4 inputs_at(const int8_input *at) { return vreinterpretq_s8_s32(vdupq_n_s32(four_of(at))); }
ALWAYS int_vector add_products(int_vector total, Inputs4 a, Four w) { return (int_vector)vdotq_s32((int32x4_t)total, w, a); }

#elif defined(__aarch64__)
#define INT8_AT_ONCE(rows) AT_ONCE(rows)
typedef int8x16_t Four, Inputs4;
ALWAYS Four weights_of(const int8_t *at) { return vld1q_s8(at); }
ALWAYS Inputs4 inputs_at(const int8_input *at) { return vreinterpretq_s8_s32(vdupq_n_s32(four_of(at))); }
ALWAYS int_vector add_products(int_vector total, Inputs4 a, Four w) { /* a sum of two products fits 16 bits */
  int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(a)), high = vmull_high_s8(w, a);
  return (int_vector)vpadalq_s16((int32x4_t)total, vpaddq_s16(low, high));
}

#else
#define INT8_AT_ONCE(rows) 4
typedef const int8_t *Four, *Inputs4;
ALWAYS Four weights_of(const int8_t *at) { return at; }
ALWAYS Inputs4 inputs_at(const int8_input *at) { return at; }
ALWAYS int_vector add_products(int_vector total, Inputs4 a, Four w) {
  for (int c = 0; c < WIDTH; c++)
    for (int k = 0; k < 4; k++) total[c] += a[k] * w[4 * c + k];
  return total;
}
#endif

#ifdef ONE_ROW
/* A single row would take weights apart for itself alone. Instead the sign of an input goes to the weight: of its size and
   bytes, no sum of two products overflows 16 bits. */
ALWAYS void products_of_one_row(const int8_input *from, int inputs, const int8_t *panel, int_vector *sums) {
  for (int first = 0; first < VECTORS; first += 8) {
    int_vector total[8];
    for (int j = 0; j < 8; j++) total[j] = (int_vector){};
    for (int64_t k = 0; k < inputs; k += 4) {
      Inputs4 a = bytes_at(from + k);
      for (int j = 0; j < 8; j++) total[j] = add_one_row(total[j], a, panel + vector_at(first + j, inputs, 4) + k * LANES);
    }
    for (int j = 0; j < 8; j++) sums[first + j] = total[j];
  }
}
#endif

ALWAYS void products_int8(const int8_input *from, int64_t step, int inputs, const int8_t *panel, int_vector sums[][VECTORS], const int rows) {
  const int columns = INT8_AT_ONCE(rows);
#ifdef ONE_ROW
  if (rows == 1) return products_of_one_row(from, inputs, panel, sums[0]);
#endif
  for (int first = 0; first < VECTORS; first += columns) {
    int_vector total[TILE][VECTORS];
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < columns; j++) total[i][j] = (int_vector){};
    for (int64_t k = 0; k < inputs; k += 4) {
      Four w[VECTORS];
      for (int j = 0; j < columns; j++) w[j] = weights_of(panel + vector_at(first + j, inputs, 4) + k * LANES);
      for (int i = 0; i < rows; i++) {
        Inputs4 a = inputs_at(from + i * step + k);
        for (int j = 0; j < columns; j++) total[i][j] = add_products(total[i][j], a, w[j]);
      }
    }
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < columns; j++) sums[i][first + j] = total[i][j];
  }
}

/* --- products of any precision --------------------------------------------------------------------------------- */

typedef struct { /* rows of activations in the form that a precision needs */
  const void *data;
  int64_t step;
  float *scales; /* int8: value of one unit of each row */
} Inputs;

/* Products of `rows` (at most TILE) rows with panel `p`, as numbers. */
ALWAYS void tile(const Weight *w, const Inputs *in, int64_t row, int64_t p, vector out[][VECTORS], const int rows) {
  int64_t start = p * PANEL * w->padded;
  if (w->precision == INT8) {
    int_vector sums[TILE][VECTORS];
    products_int8((const int8_input *)in->data + row * in->step, in->step, w->padded, (const int8_t *)w->panels + start, sums, rows);
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < VECTORS; j++) {
        if (ZERO) /* unsigned: what a hostile file holds may overflow */
          sums[i][j] = (int_vector)((uint_vector)sums[i][j] - *(const uint_vector *)(w->sums + p * PANEL + WIDTH * j));
        out[i][j] = __builtin_convertvector(sums[i][j], vector) * load(w->scales + p * PANEL + WIDTH * j) * in->scales[row + i];
      }
    return;
  }
  vector sums[TILE][VECTORS]; /* not `out`: memory behind a pointer would be written back after every product */
  if (w->precision == FLOAT32)
    products_float32((const float *)in->data + row * in->step, in->step, w->padded, (const float *)w->panels + start, sums, rows);
  else
    products_bfloat16((const bfloat16_input *)in->data + row * in->step, in->step, w->padded, (const uint16_t *)w->panels + start, sums, rows);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < VECTORS; j++) out[i][j] = sums[i][j];
}

static void products(const Weight *w, const Inputs *in, int64_t row, int64_t p, vector out[][VECTORS], int rows) {
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
      for (int j = 0; j < VECTORS; j++) out[i][j] += load(w->bias + p * PANEL + WIDTH * j);
}

/* Whole numbers nearest to x · times, ZERO added, as bytes; the same at every level. */
static inline void to_bytes(const float *x, int n, float times, uint8_t *to) {
  int i = 0;
#if WIDTH == 16
  for (; i + WIDTH <= n; i += WIDTH) {
    __m512i v = _mm512_cvtps_epi32((__m512)(load(x + i) * times));
    _mm_storeu_si128((__m128i *)(to + i), _mm512_cvtepi32_epi8(_mm512_add_epi32(v, _mm512_set1_epi32(ZERO))));
  }
#elif defined(__AVX2__)
  for (; i + 8 <= n; i += 8) {
    __m256i v = _mm256_cvtps_epi32((__m256)(load(x + i) * times));
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    words = _mm_add_epi16(words, _mm_set1_epi16(ZERO));
    _mm_storel_epi64((__m128i *)(to + i), ZERO ? _mm_packus_epi16(words, words) : _mm_packs_epi16(words, words));
  }
#elif defined(__SSE2__)
  for (; i + 8 <= n; i += 8) {
    __m128i low = _mm_cvtps_epi32((__m128)(load(x + i) * times)), high = _mm_cvtps_epi32((__m128)(load(x + i + 4) * times));
    __m128i words = _mm_packs_epi32(low, high);
    _mm_storel_epi64((__m128i *)(to + i), _mm_packs_epi16(words, words));
  }
#elif defined(__aarch64__)
  for (; i + 8 <= n; i += 8) {
    int32x4_t low = vcvtnq_s32_f32((float32x4_t)(load(x + i) * times)), high = vcvtnq_s32_f32((float32x4_t)(load(x + i + 4) * times));
    vst1_u8(to + i, vreinterpret_u8_s8(vmovn_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high)))));
  }
#elif defined(__wasm_simd128__)
  for (; i + 8 <= n; i += 8) {
    v128_t low = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest((v128_t)(load(x + i) * times)));
    v128_t high = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest((v128_t)(load(x + i + 4) * times)));
    v128_t words = wasm_i16x8_narrow_i32x4(low, high);
    wasm_v128_store64_lane(to + i, wasm_i8x16_narrow_i16x8(words, words), 0);
  }
#endif
  for (; i < n; i++) to[i] = (uint8_t)(lrintf(x[i] * times) + ZERO);
}

/* Quantises a row to 8 bits: one unit is a 127th of the largest absolute value; returns the unit. */
static inline float quantise(const float *x, int n, int padded, int8_input *to) {
  vector most = broadcast(0);
  int i = 0;
  for (; i + WIDTH <= n; i += WIDTH) {
    vector v = load(x + i);
    most = larger(larger(v, -v), most);
  }
  float size = largest_of(most);
  for (; i < n; i++) size = fabsf(x[i]) > size ? fabsf(x[i]) : size;
  float unit = size / 127.0f, times = size > 0 ? 127.0f / size : 0;
  uint8_t *bytes = (uint8_t *)to;
  to_bytes(x, n, times, bytes);
  for (i = n; i < padded; i++) bytes[i] = ZERO;
#ifdef WIDE
  for (i = padded - 4; i >= 0; i -= 4) { /* from the end, so that no byte is written over before it is read */
    int8_t four[4];
    memcpy(four, bytes + i, 4);
    to[i] = four[0], to[i + 1] = four[2], to[i + 2] = four[1], to[i + 3] = four[3];
  }
#endif
  return unit;
}

typedef struct { /* memory of one thread, for one operation at a time */
  char *data, *aligned;
  size_t size;
} Scratch;

/* Memory of this size; NULL if there is none. */
static void *scratch(Scratch *r, size_t size) {
  if (r->size < size) {
    free(r->data);
    r->size = 0, r->data = malloc(size + size / 2 + 64);
    if (!r->data) return NULL;
    r->size = size + size / 2, r->aligned = r->data + (-(uintptr_t)r->data & 63);
  }
  return r->aligned;
}

/* Rows of inputs for products with a weight. Their `data` is NULL if there is no memory. */
static Inputs inputs_of(const Weight *w, const float *from, int64_t step, int64_t rows, Scratch *r) {
  Inputs in = {from, step, NULL};
  int n = w->inputs, padded = w->padded;
  if (w->precision == BFLOAT16) {
    bfloat16_input *low = scratch(r, rows * padded * sizeof *low);
    in.data = low, in.step = padded;
    if (!low) return in;
    for (int64_t i = 0; i < rows; i++) {
      int k = 0;
#if defined(__AVX512BF16__)
      for (; k + WIDTH <= n; k += WIDTH)
        _mm256_storeu_si256((__m256i *)(low + i * padded + k), (__m256i)_mm512_cvtneps_pbh((__m512)load(from + i * step + k)));
      for (; k < n; k++) low[i * padded + k] = to_bfloat16(from[i * step + k]);
#else
      for (; k < n; k++) low[i * padded + k] = from_bfloat16(to_bfloat16(from[i * step + k]));
#endif
      for (; k < padded; k++) low[i * padded + k] = 0;
    }
  } else if (w->precision == INT8) {
    int64_t bytes = (rows * padded * (int64_t)sizeof(int8_input) + 63) & ~(int64_t)63;
    int8_input *low = scratch(r, bytes + rows * sizeof(float));
    in.data = low, in.step = padded;
    if (!low) return in;
    in.scales = (float *)((char *)low + bytes);
    for (int64_t i = 0; i < rows; i++) in.scales[i] = quantise(from + i * step, n, padded, low + i * padded);
  }
  return in;
}

#endif
