/* Word alignments from attention weights, as regard.attention.alignment extracts them. */

#include "forced.h"

#include <stdlib.h>
#include <string.h>

enum { NO_SYMMETRY, INTERSECTION, GROW_DIAG, GROW_DIAG_FINAL, UNION };

typedef struct { /* weights between words, (targets, sources) */
  float *weights;
  int64_t targets, sources;
} WordWeights;

static int64_t count_words(const int32_t *words, int64_t count) {
  int64_t most = 0;
  for (int64_t i = 0; i < count; i++)
    if (words[i] + 1 > most) most = words[i] + 1;
  return most;
}

/* The weight of target token t on source token s: of the chosen head, or the mean of all; of the next step if shifted. */
static float weight_of(const RegardModel *m, const Forced *f, int32_t layer, int64_t t, int64_t s) {
  const Settings *settings = &m->settings;
  int64_t rows = f->target_count + 1, columns = f->source_count, heads = m->layers[layer].heads;
  if (settings->is_shifted && t + 1 < rows) t++;
  if (settings->aligned_head >= 0) return f->weights[layer][(settings->aligned_head * rows + t) * columns + s];
  float total = 0;
  for (int64_t h = 0; h < heads; h++) total += f->weights[layer][(h * rows + t) * columns + s];
  return total / (float)heads;
}

/* Sums over the tokens of a source word, and takes the mean over those of a target word. */
static int merge_words(const RegardModel *m, const Forced *f, int32_t layer, const int32_t *source, const int32_t *target, WordWeights *w) {
  w->targets = count_words(target, f->target_count), w->sources = count_words(source, f->source_count);
  w->weights = calloc((size_t)(w->targets * w->sources + w->targets) + 1, sizeof(float));
  if (!w->weights) return -1;
  float *tokens = w->weights + w->targets * w->sources;
  for (int64_t t = 0; t < f->target_count; t++)
    if (target[t] >= 0) tokens[target[t]]++;
  for (int64_t t = 0; t < f->target_count; t++)
    for (int64_t s = 0; target[t] >= 0 && s < f->source_count; s++)
      if (source[s] >= 0) w->weights[target[t] * w->sources + source[s]] += weight_of(m, f, layer, t, s) / tokens[target[t]];
  return 0;
}

/* Marks the links of one direction in a matrix (sources, targets): each target word to its heaviest source word, or back. */
static void mark_links(const WordWeights *w, int is_backward, uint8_t bit, uint8_t *links) {
  int64_t outer = is_backward ? w->sources : w->targets, inner = is_backward ? w->targets : w->sources;
  for (int64_t i = 0; i < outer; i++) {
    int64_t best = 0;
    for (int64_t j = 1; j < inner; j++) {
      float x = is_backward ? w->weights[j * w->sources + i] : w->weights[i * w->sources + j];
      float y = is_backward ? w->weights[best * w->sources + i] : w->weights[i * w->sources + best];
      if (x > y) best = j;
    }
    if (is_backward) links[i * w->targets + best] |= bit;
    else links[best * w->targets + i] |= bit;
  }
}

#define FORWARD 1
#define BACKWARD 2
#define BOTH 3
#define ACCEPTED 4

/* Accepts links of the union that neighbour an accepted one, if one of their words has none yet (Koehn et al. 2003). */
static int grow(const WordWeights *w, uint8_t *links, uint8_t *has_source, uint8_t *has_target) {
  int64_t cells = w->sources * w->targets, count = 0;
  int64_t *queue = malloc((size_t)(cells + 1) * sizeof *queue);
  if (!queue) return -1;
  for (int64_t i = 0; i < cells; i++)
    if (links[i] & ACCEPTED) queue[count++] = i, has_source[i / w->targets] = has_target[i % w->targets] = 1;
  for (int64_t at = 0; at < count; at++)
    for (int64_t neighbour = 0; neighbour < 9; neighbour++) {
      int64_t s = queue[at] / w->targets + neighbour / 3 - 1, t = queue[at] % w->targets + neighbour % 3 - 1;
      if (s < 0 || t < 0 || s >= w->sources || t >= w->targets) continue;
      uint8_t *link = links + s * w->targets + t;
      if (!(*link & BOTH) || *link & ACCEPTED || (has_source[s] && has_target[t])) continue;
      *link |= ACCEPTED, has_source[s] = has_target[t] = 1;
      queue[count++] = s * w->targets + t;
    }
  free(queue);
  return 0;
}

static int symmetrise(const WordWeights *w, int symmetry, uint8_t *links) {
  int64_t cells = w->sources * w->targets;
  for (int64_t i = 0; i < cells; i++)
    if (symmetry == UNION ? links[i] & BOTH : (links[i] & BOTH) == BOTH) links[i] |= ACCEPTED;
  if (symmetry != GROW_DIAG && symmetry != GROW_DIAG_FINAL) return 0;
  uint8_t *has = calloc((size_t)(w->sources + w->targets) + 1, 1);
  if (!has || grow(w, links, has, has + w->sources)) {
    free(has);
    return -1;
  }
  for (int64_t i = 0; symmetry == GROW_DIAG_FINAL && i < cells; i++) {
    uint8_t *source = has + i / w->targets, *target = has + w->sources + i % w->targets;
    if (links[i] & BOTH && !*source && !*target) links[i] |= ACCEPTED, *source = *target = 1;
  }
  free(has);
  return 0;
}

static int extract_links(const WordWeights *w, int symmetry, RegardLink **links, size_t *count) {
  uint8_t *matrix = calloc((size_t)(w->sources * w->targets) + 1, 1);
  *links = malloc((size_t)(w->sources * w->targets + 1) * sizeof **links), *count = 0;
  int failed = !matrix || !*links;
  if (!failed && w->sources && w->targets) {
    mark_links(w, 0, symmetry ? FORWARD : ACCEPTED, matrix);
    if (symmetry) mark_links(w, 1, BACKWARD, matrix), failed = symmetrise(w, symmetry, matrix);
  }
  for (int64_t s = 0; !failed && symmetry && s < w->sources; s++)
    for (int64_t t = 0; t < w->targets; t++)
      if (matrix[s * w->targets + t] & ACCEPTED) (*links)[(*count)++] = (RegardLink){(int32_t)s, (int32_t)t};
  for (int64_t t = 0; !failed && !symmetry && t < w->targets; t++) /* one link for each target word, in their order */
    for (int64_t s = 0; s < w->sources; s++)
      if (matrix[s * w->targets + t] & ACCEPTED) (*links)[(*count)++] = (RegardLink){(int32_t)s, (int32_t)t};
  free(matrix);
  return failed ? -1 : 0;
}

static int32_t aligned_layer(const RegardModel *m) {
  if (m->settings.aligned_layer >= 0) return m->settings.aligned_layer;
  int32_t count = 0, cross = 0;
  for (int32_t l = 0; l < m->layer_count; l++) count += m->layers[l].role == 1;
  for (int32_t l = 0; l < m->layer_count; l++)
    if (m->layers[l].role == 1 && cross++ == count / 2) return l;
  return -1;
}

int align_words(const RegardModel *m, const Forced *f, RegardLink **links, size_t *count) {
  int32_t layer = aligned_layer(m);
  WordWeights w = {0};
  *links = NULL, *count = 0;
  if (layer < 0 || !f->weights || !f->weights[layer]) return 0;
  int32_t *source = malloc((size_t)(f->source_count + f->target_count + 1) * sizeof *source);
  if (!source) return -1;
  int32_t *target = source + f->source_count;
  int failed = tokenizer_word_indices(m->source, f->source, (size_t)f->source_count, source) ||
               tokenizer_word_indices(m->target, f->target, (size_t)f->target_count, target) ||
               merge_words(m, f, layer, source, target, &w) || extract_links(&w, m->settings.symmetry, links, count);
  free(w.weights), free(source);
  return failed ? -1 : 0;
}
