/* The levels of this library, the features of processors that each needs, and the kernels of the best one by name.

   LEVELS lists the levels that kernels.c was compiled for, from the lowest to the best; a library that the machine's own
   compiler made for this very processor has one, `native`. */

#include "kernels.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifndef LEVELS
#define LEVELS X(native)
#endif
#define X(level) extern const Kernels kernels_##level;
LEVELS
#undef X

/* --- what the processor has ------------------------------------------------------------------------------------ */

enum { DOT_PRODUCT = 1, V2 = 1, AVX2 = 2, AVX_VNNI = 4, AVX512 = 8, AVX512_VNNI = 16, AVX512_BF16 = 32 };

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

static uint64_t enabled_state(void) { /* registers that the operating system saves */
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

static inline int all_of(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

static int features(void) {
  uint32_t a, b, c, d, has = 0, c1, b7 = 0, c7 = 0, a71 = 0, c81 = 0;
  if (!__get_cpuid(1, &a, &b, &c1, &d)) return 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    b7 = b, c7 = c;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) a71 = a;
  }
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) c81 = c;
  uint64_t state = c1 >> 27 & 1 ? enabled_state() : 0;
  /* SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF */
  if (all_of(c1, 1 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23) && c81 & 1) has |= V2;
  /* FMA, MOVBE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT */
  if (has & V2 && (state & 6) == 6 && all_of(c1, 1u << 12 | 1u << 22 | 1u << 28 | 1u << 29) &&
      all_of(b7, 1 << 3 | 1 << 5 | 1 << 8) && c81 >> 5 & 1)
    has |= AVX2;
  if (has & AVX2 && a71 >> 4 & 1) has |= AVX_VNNI;
  /* AVX512F, DQ, CD, BW, VL */
  if (has & AVX2 && (state & 0xe6) == 0xe6 && all_of(b7, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)) has |= AVX512;
  if (has & AVX512 && c7 >> 11 & 1) has |= AVX512_VNNI;
  if (has & AVX512_VNNI && a71 >> 5 & 1) has |= AVX512_BF16;
  return has;
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

static int features(void) { return getauxval(AT_HWCAP) >> 20 & 1 ? DOT_PRODUCT : 0; } /* HWCAP_ASIMDDP */

#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

static int features(void) {
  int has = 0;
  size_t size = sizeof has;
  return !sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, NULL, 0) && has ? DOT_PRODUCT : 0;
}

#elif defined(__aarch64__) && defined(_WIN32)
#include <windows.h>

static int features(void) { return IsProcessorFeaturePresent(43) ? DOT_PRODUCT : 0; } /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */

#else
static int features(void) { return 0; }
#endif

/* --- the levels of this library -------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  int needs;
} Need;

static const Need needs[] = { /* a level that is not listed needs nothing */
#if defined(__aarch64__)
    {"dotprod", DOT_PRODUCT},
#else
    {"baseline", V2}, {"avx2", AVX2}, {"avxvnni", AVX_VNNI}, {"avx512", AVX512}, {"avx512vnni", AVX512_VNNI}, {"avx512bf16", AVX512_BF16},
#endif
};

static const Kernels *const levels[] = {
#define X(level) &kernels_##level,
    LEVELS
#undef X
};

enum { COUNT = sizeof levels / sizeof *levels };

static int runs_here(const Kernels *kernels, int has) {
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
    if (!strcmp(needs[i].name, kernels->level)) return (has & needs[i].needs) == needs[i].needs;
  return 1;
}

static const Kernels *kernels_of(const char *level) {
  const Kernels *best = NULL;
  int has = features();
  for (int i = 0; i < COUNT; i++)
    if (runs_here(levels[i], has) && (!level || !strcmp(level, levels[i]->level))) best = levels[i];
  return best;
}

/* The level in use: the best, or the one that the environment variable REGARD_LEVEL names. */
static _Atomic(const Kernels *) chosen;

const Kernels *regard_kernels(const char *level) {
  if (level) return kernels_of(level);
  const Kernels *kernels = atomic_load_explicit(&chosen, memory_order_acquire);
  if (!kernels) {
#ifdef __wasm__ /* a page has no environment */
    const char *forced = NULL;
#else
    const char *forced = getenv("REGARD_LEVEL");
#endif
    kernels = kernels_of(forced && *forced ? forced : NULL);
    atomic_store_explicit(&chosen, kernels, memory_order_release);
  }
  return kernels;
}

const char *regard_level(void) {
  const Kernels *kernels = regard_kernels(NULL);
  return kernels ? kernels->level : NULL;
}

int regard_use_level(const char *level) {
  const Kernels *kernels = kernels_of(level);
  if (!kernels) return -1;
  atomic_store_explicit(&chosen, kernels, memory_order_release);
  return 0;
}

const char *regard_level_at(int number, int *runs) {
  if (number < 0 || number >= COUNT) return NULL;
  if (runs) *runs = runs_here(levels[number], features());
  return levels[number]->level;
}

#ifndef SOURCES
#define SOURCES ""
#endif

const char *regard_sources(void) { return SOURCES; }

/* --- functions by name, for Python ------------------------------------------------------------------------------ */

Team *regard_team_open(int parts) { return regard_kernels(NULL)->open(parts); }
void regard_team_close(Team *team) { regard_kernels(NULL)->close(team); }
int regard_team_parts(const Team *team) { return regard_kernels(NULL)->parts(team); }

int regard_team_run(Team *team, const Operation *operations, int64_t count, const Context *context) {
  return regard_kernels(NULL)->run(team, operations, count, context);
}

void regard_pack(const float *weight, int64_t V, int64_t K, int precision, void *panels, float *scales, int32_t *sums) {
  regard_kernels(NULL)->pack(weight, V, K, precision, panels, scales, sums);
}

void regard_sizes(int64_t *sizes) {
  sizes[0] = sizeof(Weight), sizes[1] = sizeof(Operation), sizes[2] = sizeof(Context), sizes[3] = PANEL, sizes[4] = LANES;
}
