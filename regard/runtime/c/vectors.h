/* Vectors as wide as a register of the level that is compiled, and functions of them. */

#ifndef REGARD_VECTORS_H
#define REGARD_VECTORS_H

#include "kernels.h"

#include <math.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#if defined(__AVX512BW__)
#define WIDTH 16
#elif defined(__AVX2__)
#define WIDTH 8
#else
#define WIDTH 4
#endif

#define PARTS (LANES / WIDTH) /* vectors in a strip of columns, or in the unit to which memories are padded */
#define ALWAYS static inline __attribute__((always_inline))

typedef float vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t int_vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef uint32_t uint_vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

static inline vector broadcast(float x) { return (vector){} + x; }
static inline vector load(const float *at) { return *(const vector *)at; }
static inline void store(float *at, vector x) { *(vector *)at = x; }

/* The first `count` numbers, zeros after them. */
static inline vector load_some(const float *at, int count) {
  if (count >= WIDTH) return load(at);
  float some[WIDTH] = {0};
  for (int i = 0; i < count; i++) some[i] = at[i];
  return load(some);
}

static inline void store_some(float *at, vector x, int count) {
  if (count >= WIDTH) store(at, x);
  else
    for (int i = 0; i < count; i++) at[i] = x[i];
}

static inline vector choose(int_vector mask, vector a, vector b) {
  return (vector)((mask & (int_vector)a) | (~mask & (int_vector)b));
}

/* The larger and the smaller one; `b` if one of them is NaN. */
#if WIDTH == 16
static inline vector larger(vector a, vector b) { return (vector)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vector smaller(vector a, vector b) { return (vector)_mm512_min_ps((__m512)a, (__m512)b); }
#elif WIDTH == 8
static inline vector larger(vector a, vector b) { return (vector)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vector smaller(vector a, vector b) { return (vector)_mm256_min_ps((__m256)a, (__m256)b); }
#elif defined(__SSE2__)
static inline vector larger(vector a, vector b) { return (vector)_mm_max_ps((__m128)a, (__m128)b); }
static inline vector smaller(vector a, vector b) { return (vector)_mm_min_ps((__m128)a, (__m128)b); }
#elif defined(__wasm_simd128__)
static inline vector larger(vector a, vector b) { return (vector)wasm_f32x4_pmax((v128_t)b, (v128_t)a); }
static inline vector smaller(vector a, vector b) { return (vector)wasm_f32x4_pmin((v128_t)b, (v128_t)a); }
#else
static inline vector larger(vector a, vector b) { return choose(a > b, a, b); }
static inline vector smaller(vector a, vector b) { return choose(a < b, a, b); }
#endif

static inline float sum_of(vector x) {
#if WIDTH == 16
  return _mm512_reduce_add_ps((__m512)x);
#elif WIDTH == 8
  __m128 y = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
  y = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
#else
  return (x[0] + x[2]) + (x[1] + x[3]);
#endif
}

static inline float largest_of(vector x) {
#if WIDTH == 16
  return _mm512_reduce_max_ps((__m512)x);
#else
  float most = x[0];
  for (int i = 1; i < WIDTH; i++) most = x[i] > most ? x[i] : most;
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

#endif
