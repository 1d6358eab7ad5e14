/* Forced decoding; see forced.h. */

#include "forced.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER 16        /* targets forced at once */
#define TOKENS_TOGETHER 1024

static int64_t rows_of(const RegardModel *m, int32_t layer, const Forced *f) {
  return m->layers[layer].role == 0 ? f->source_count : f->target_count + 1;
}

static int64_t columns_of(const RegardModel *m, int32_t layer, const Forced *f) {
  return m->layers[layer].role == 2 ? f->target_count + 1 : f->source_count;
}

static int is_wanted(const RegardModel *m, int32_t layer, const RegardOptions *o) {
  return o->attention > 1 || ((o->attention || o->alignments) && m->layers[layer].role == 1);
}

static float *allocate_states(StateColumns columns, int64_t rows) { return calloc((size_t)(rows * columns.parts * columns.size + 1), sizeof(float)); }

static int allocate(const RegardModel *m, Forced *f, const RegardOptions *o) {
  f->weights = calloc(2 * (size_t)m->layer_count + 1, sizeof *f->weights);
  if (!f->weights) return -1;
  f->scores = f->weights + m->layer_count;
  for (int32_t l = 0; l < m->layer_count; l++) {
    if (!is_wanted(m, l, o)) continue;
    size_t size = (size_t)m->layers[l].heads * (size_t)rows_of(m, l, f) * (size_t)columns_of(m, l, f);
    if (!(f->weights[l] = calloc(size + 1, sizeof(float))) || (o->attention && !(f->scores[l] = calloc(size + 1, sizeof(float))))) return -1;
    for (size_t i = 0; f->scores[l] && i < size; i++) f->scores[l][i] = -INFINITY; /* of what a row does not attend to */
  }
  if (!o->states) return 0;
  f->encoder_states = allocate_states(m->encoder_states, f->source_count);
  f->decoder_states = allocate_states(m->decoder_states, f->target_count + 2);
  return f->encoder_states && f->decoder_states ? 0 : -1;
}

void free_forced(const RegardModel *m, Forced *f) {
  for (int32_t l = 0; f->weights && l < 2 * m->layer_count; l++) free(f->weights[l]);
  free(f->weights), free(f->encoder_states), free(f->decoder_states);
  f->weights = f->scores = NULL, f->encoder_states = f->decoder_states = NULL;
}

/* Copies the states in one row of the registers of a program that has just run. */
static void keep_states(StateColumns of, const Program *p, const Floats *f, int64_t row, int64_t rows, float *to) {
  memcpy(to, register_of(f, p, of.number, rows) + row * p->widths[of.number] + of.column, (size_t)(of.parts * of.size) * sizeof(float));
}

/* Buffers for what the layers of one program record, `rows` rows each. */
static int open_recording(const RegardModel *m, int program, const RegardOptions *o, int64_t rows, int64_t stride, Recording *r) {
  *r = (Recording){calloc((size_t)m->programs[program].count + 1, sizeof(float *)), stride};
  if (!r->by_operation) return -1;
  for (int32_t l = 0; l < m->layer_count; l++) {
    if (m->layer_programs[l] != program || !is_wanted(m, l, o)) continue;
    float **at = &r->by_operation[m->layer_operations[l]];
    if (!*at && !(*at = calloc((size_t)(rows * m->layers[l].heads * 2 * stride), sizeof(float)))) return -1;
  }
  return 0;
}

static void close_recording(const RegardModel *m, int program, Recording *r) {
  if (r->by_operation)
    for (int64_t i = 0; i < m->programs[program].count; i++) free(r->by_operation[i]);
  free(r->by_operation);
}

/* Copies one recorded row, of all heads, to row `to` of a target's scores and weights. */
static void keep_row(const RegardModel *m, int32_t layer, const Recording *r, int64_t from, Forced *f, int64_t to, int64_t entries) {
  int64_t rows = rows_of(m, layer, f), columns = columns_of(m, layer, f), heads = m->layers[layer].heads;
  const float *recorded = r->by_operation[m->layer_operations[layer]];
  for (int64_t h = 0; h < heads; h++) {
    const float *scores = recorded + (from * heads + h) * 2 * r->stride;
    memcpy(f->weights[layer] + (h * rows + to) * columns, scores + r->stride, (size_t)entries * sizeof(float));
    if (f->scores[layer]) memcpy(f->scores[layer] + (h * rows + to) * columns, scores, (size_t)entries * sizeof(float));
  }
}

static void keep_encoder(const Decoder *d, const Recording *r, Forced *forced, int64_t count, int64_t rows) {
  const RegardModel *m = d->model;
  StateColumns of = m->encoder_states;
  int64_t token = 0;
  for (int64_t i = 0; i < count; i++)
    for (int64_t s = 0; s < forced[i].source_count && forced[i].encoder_states && of.parts; s++)
      keep_states(of, m->programs + ENCODER, &d->encoder, token++, rows, forced[i].encoder_states + s * of.parts * of.size);
  for (int32_t l = 0; l < m->layer_count; l++) {
    if (m->layer_programs[l] != ENCODER || !r->by_operation[m->layer_operations[l]]) continue;
    int64_t row = 0;
    for (int64_t i = 0; i < count; i++)
      for (int64_t s = 0; s < forced[i].source_count; s++, row++) keep_row(m, l, r, row, forced + i, s, forced[i].source_count);
  }
}

/* Step t of all targets that are long enough; `blocks` (count, length) are theirs. */
static int force_step(Decoder *d, Forced *forced, const Source *sources, int64_t count, int64_t t, float **blocks, int64_t length, const Recording *r) {
  const RegardModel *m = d->model;
  Step *step = &d->step;
  int is_recurrent = m->settings.is_recurrent;
  const float *features;
  int64_t n = 0, rows = 0;
  for (int64_t i = 0; i < count; i++) rows += t <= forced[i].target_count;
  if (reserve_step(d, rows, t > 0 ? t : 1, 0)) return -1;
  for (int64_t i = 0; i < count; i++) {
    if (t > forced[i].target_count) continue;
    float **own = blocks + i * length, *first = sources[i].initial;
    step->tokens[n] = t ? forced[i].target[t - 1] : BOS, step->positions[n] = t, step->lengths[n] = is_recurrent ? 1 : t;
    step->memories[n] = sources[i].memory, step->entries[n] = sources[i].entries;
    if (is_recurrent) step->past[n * step->stride] = t ? own[t - 1] : first;
    else memcpy(step->past + n * step->stride, own, (size_t)t * sizeof(float *));
    if (!(own[t] = take_block(d))) return -1;
    step->blocks[n++] = own[t];
  }
  if (run_step(d, r, &features)) return -1;
  n = 0;
  for (int64_t i = 0; i < count; i++)
    if (t <= forced[i].target_count && forced[i].decoder_states)
      keep_states(m->decoder_states, m->programs + STEP, &d->registers, n++, rows, forced[i].decoder_states + t * m->decoder_states.size);
  for (int32_t l = 0; l < m->layer_count; l++) {
    if (m->layer_programs[l] != STEP || !r->by_operation[m->layer_operations[l]]) continue;
    int64_t row = 0;
    for (int64_t i = 0; i < count; i++)
      if (t <= forced[i].target_count) keep_row(m, l, r, row++, forced + i, t, m->layers[l].role == 2 ? t + 1 : forced[i].source_count);
  }
  return 0;
}

static int force_some(Decoder *d, Forced *forced, int64_t count, const RegardOptions *o) {
  const RegardModel *m = d->model;
  const int32_t *ids[TOGETHER];
  int64_t counts[TOGETHER], rows = 0, longest = 0, length = 0;
  Source sources[TOGETHER] = {{0}};
  Recording encoder = {0}, steps = {0};
  for (int64_t i = 0; i < count; i++) {
    ids[i] = forced[i].source, counts[i] = forced[i].source_count, rows += counts[i];
    if (counts[i] > longest) longest = counts[i];
    if (forced[i].target_count + 1 > length) length = forced[i].target_count + 1;
  }
  float **blocks = calloc((size_t)(count * length), sizeof(float *));
  int failed = !blocks || open_recording(m, ENCODER, o, rows, longest, &encoder) ||
               open_recording(m, STEP, o, count, longest > length ? longest : length, &steps) ||
               encode_sources(d, ids, counts, count, sources, &encoder);
  if (!failed) keep_encoder(d, &encoder, forced, count, rows);
  for (int64_t i = 0; i < count && !failed && m->has_initial_state; i++) /* behind those of the target */
    if (forced[i].decoder_states) memcpy(forced[i].decoder_states + (forced[i].target_count + 1) * m->decoder_states.size, sources[i].initial + m->decoder_states.column, (size_t)m->decoder_states.size * sizeof(float));
  for (int64_t t = 0; t < length && !failed; t++) failed = force_step(d, forced, sources, count, t, blocks, length, &steps);
  for (int64_t i = 0; blocks && i < count * length; i++) give_block(d, blocks[i]);
  for (int64_t i = 0; i < count; i++) free_source(sources + i);
  close_recording(m, ENCODER, &encoder), close_recording(m, STEP, &steps);
  free(blocks);
  return failed ? -1 : 0;
}

int force_decode(Decoder *d, Forced *forced, int64_t count, const RegardOptions *options) {
  for (int64_t i = 0; i < count; i++)
    if (allocate(d->model, forced + i, options)) return -1;
  for (int64_t first = 0, last; first < count; first = last) {
    int64_t tokens = 0;
    for (last = first; last < count && last - first < TOGETHER; last++) {
      tokens += forced[last].source_count + forced[last].target_count;
      if (last > first && tokens > TOKENS_TOGETHER) break;
    }
    if (force_some(d, forced + first, last - first, options)) return -1;
  }
  return 0;
}
