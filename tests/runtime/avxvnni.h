/* The instruction of AVX-VNNI in plain C, so that its level is tried on processors without it: compiled with
   -march=x86-64-v3 -include avxvnni.h. */

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define __AVXVNNI__ 1

static inline __m256i plain_dpbusd(__m256i total, __m256i a, __m256i w) {
  int32_t sums[8];
  uint8_t left[32];
  int8_t right[32];
  memcpy(sums, &total, 32), memcpy(left, &a, 32), memcpy(right, &w, 32);
  for (int i = 0; i < 32; i++) sums[i / 4] += left[i] * right[i];
  memcpy(&total, sums, 32);
  return total;
}

#define _mm256_dpbusd_avx_epi32 plain_dpbusd
