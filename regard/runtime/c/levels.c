/* The kernels of the best level that this processor has, and their functions by name for Python. */

#include "kernels.h"

#include <stddef.h>
#include <string.h>

extern const Kernels kernels_native;

const Kernels *regard_kernels(const char *level) {
  return !level || !strcmp(level, kernels_native.level) ? &kernels_native : NULL;
}

Team *regard_team_open(int parts) { return regard_kernels(NULL)->open(parts); }
void regard_team_close(Team *team) { regard_kernels(NULL)->close(team); }
int regard_team_parts(const Team *team) { return regard_kernels(NULL)->parts(team); }

void regard_team_run(Team *team, const Operation *operations, int64_t count, const Context *context) {
  regard_kernels(NULL)->run(team, operations, count, context);
}

void regard_pack(const float *weight, int64_t V, int64_t K, int precision, void *panels, float *scales, int32_t *sums) {
  regard_kernels(NULL)->pack(weight, V, K, precision, panels, scales, sums);
}

void regard_sizes(int64_t *sizes) {
  sizes[0] = sizeof(Weight), sizes[1] = sizeof(Operation), sizes[2] = sizeof(Context), sizes[3] = PANEL, sizes[4] = LANES;
}
