/* Runs the programs of a model; see decoder.h. */

#include "decoder.h"
#include "threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct DecoderPool {
  Lock lock;
  Decoder *idle;
} DecoderPool;

static void free_block(float *block);

/* --- decoders that threads take and give back ---------------------------------------------------------------- */

struct DecoderPool *pool_open(void) {
  DecoderPool *pool = calloc(1, sizeof *pool);
  if (pool) lock_open(&pool->lock);
  return pool;
}

static void free_step(Step *s) {
  free(s->tokens), free(s->positions), free(s->entries), free(s->lengths), free(s->memories), free(s->blocks);
  free(s->past), free(s->log_probs), free(s->top), free(s->eos_log_probs), free(s->copy_log_probs), free(s->states), free(s->partial);
}

static void free_decoder(Decoder *d) {
  for (size_t i = 0; i < d->free_count; i++) free_block(d->free_blocks[i]);
  if (d->team) d->model->kernels->close(d->team);
  free(d->free_blocks), free(d->encoder.data), free(d->memory.data), free(d->registers.data), free(d->logits.data);
  free_step(&d->step);
  free(d);
}

void pool_close(struct DecoderPool *pool) {
  while (pool->idle) {
    Decoder *d = pool->idle;
    pool->idle = d->next;
    free_decoder(d);
  }
  lock_close(&pool->lock);
  free(pool);
}

Decoder *take_decoder(RegardModel *model, int threads) {
  DecoderPool *pool = model->pool;
  Decoder *d = NULL;
  lock(&pool->lock);
  for (Decoder **at = &pool->idle; *at && !d; at = &(*at)->next)
    if ((*at)->threads == threads) {
      d = *at, *at = d->next;
      break;
    }
  unlock(&pool->lock);
  if (d) return d;
  d = calloc(1, sizeof *d);
  if (!d) return NULL;
  d->model = model, d->threads = threads, d->team = model->kernels->open(threads);
  if (d->team) return d;
  free(d);
  return NULL;
}

void give_decoder(RegardModel *model, Decoder *d) {
  DecoderPool *pool = model->pool;
  lock(&pool->lock);
  d->next = pool->idle, pool->idle = d;
  unlock(&pool->lock);
}

/* --- buffers -------------------------------------------------------------------------------------------------- */

static int reserve_floats(Floats *f, int64_t count) { return reserve((void **)&f->data, &f->capacity, (size_t)count, sizeof(float)); }

static int reserve_registers(Floats *f, const Program *p, int64_t rows) { return reserve_floats(f, rows * p->row_size + LANES); }

float *register_of(const Floats *f, const Program *p, int64_t number, int64_t rows) { return f->data + p->offsets[number] * rows; }

float *take_block(Decoder *d) {
  if (d->free_count) return d->free_blocks[--d->free_count];
  float *start = calloc((size_t)d->model->settings.block + BLOCK_START, sizeof(float));
  return start ? start + BLOCK_START : NULL;
}

static void free_block(float *block) { free(block - BLOCK_START); }

void give_block(Decoder *d, float *block) {
  if (!block) return;
  if (reserve((void **)&d->free_blocks, &d->free_capacity, d->free_count + 1, sizeof(float *))) free_block(block);
  else d->free_blocks[d->free_count++] = block;
}

void free_source(Source *source) {
  free(source->memory), free(source->initial);
  *source = (Source){NULL, 0, NULL};
}

/* Returns 0, or -1 if there is no memory. */
static int run(Decoder *d, const Program *p, Context *c, const Floats *f) {
  c->offsets = p->offsets, c->widths = p->widths, c->registers = f->data;
  return d->model->kernels->run(d->team, p->operations, p->count, c) ? -1 : 0;
}

/* --- the encoder ---------------------------------------------------------------------------------------------- */

/* The block before the first token of each sentence, from the summaries in the first register. */
static int run_initial(Decoder *d, int64_t sentences, Source *sources) {
  if (reserve_step(d, sentences, 0, 0)) return -1;
  for (int64_t b = 0; b < sentences; b++) d->step.blocks[b] = sources[b].initial;
  Context c = {.rows = sentences, .blocks = d->step.blocks};
  return run(d, d->model->programs + INITIAL, &c, &d->memory);
}

/* The memories of all sentences, from their outputs and embeddings in the first registers. */
static int run_memory(Decoder *d, const int64_t *starts, int64_t sentences, Source *sources) {
  if (reserve_step(d, sentences, 0, 0)) return -1;
  for (int64_t b = 0; b < sentences; b++) d->step.memories[b] = sources[b].memory;
  Context c = {.rows = starts[sentences], .starts = starts, .sentences = sentences, .memories = d->step.memories};
  return run(d, d->model->programs + MEMORY, &c, &d->memory);
}

/* The block before the first token of each sentence, from the last states of both directions or the mean of the outputs. */
static int begin_states(Decoder *d, const int64_t *starts, int64_t sentences, Source *sources) {
  const RegardModel *m = d->model;
  const Settings *s = &m->settings;
  const Program *encoder = m->programs + ENCODER, *initial = m->programs + INITIAL;
  int64_t rows = starts[sentences];
  if (reserve_registers(&d->memory, initial, sentences)) return -1;
  float *summary = register_of(&d->memory, initial, 0, sentences);
  memset(summary, 0, (size_t)(sentences * s->summary_size) * sizeof(float));
  for (int64_t b = 0; b < sentences; b++, summary += s->summary_size) {
    int64_t first = starts[b], last = starts[b + 1] - 1, width = s->states ? s->summary_size / s->states : s->summary_size;
    for (int i = 0; i < s->states; i++) {
      const float *states = register_of(&d->encoder, encoder, s->state[i], rows);
      memcpy(summary + i * width, states + last * width, (size_t)s->direction_size * sizeof(float));
      memcpy(summary + i * width + s->direction_size, states + first * width + s->direction_size, (size_t)(width - s->direction_size) * sizeof(float));
    }
    if (s->states) continue;
    const float *outputs = register_of(&d->encoder, encoder, s->outputs, rows);
    for (int64_t n = first; n <= last; n++)
      for (int64_t i = 0; i < width; i++) summary[i] += outputs[n * width + i];
    for (int64_t i = 0; i < width; i++) summary[i] /= (float)(last - first + 1);
  }
  return run_initial(d, sentences, sources);
}

static int make_memories(Decoder *d, const int64_t *starts, int64_t sentences, Source *sources) {
  const RegardModel *m = d->model;
  const Settings *s = &m->settings;
  const Program *encoder = m->programs + ENCODER, *memory = m->programs + MEMORY;
  int64_t rows = starts[sentences], outputs = encoder->widths[s->outputs], embedded = encoder->widths[s->embedded];
  if (reserve_registers(&d->memory, memory, rows)) return -1;
  memcpy(register_of(&d->memory, memory, 0, rows), register_of(&d->encoder, encoder, s->outputs, rows), (size_t)(rows * outputs) * sizeof(float));
  if (s->needs_embeddings)
    memcpy(register_of(&d->memory, memory, 1, rows), register_of(&d->encoder, encoder, s->embedded, rows), (size_t)(rows * embedded) * sizeof(float));
  return run_memory(d, starts, sentences, sources);
}

static int allocate_sources(const RegardModel *m, const int64_t *counts, int64_t sentences, Source *sources) {
  const Settings *s = &m->settings;
  int failed = 0;
  for (int64_t b = 0; b < sentences; b++) {
    int64_t padded = (counts[b] + LANES - 1) / LANES * LANES;
    sources[b] = (Source){NULL, counts[b], NULL};
    if (s->entry) failed |= !(sources[b].memory = malloc((size_t)(padded * s->entry) * sizeof(float)));
    if (s->is_recurrent) failed |= !(sources[b].initial = calloc((size_t)s->block, sizeof(float)));
  }
  return failed ? -1 : 0;
}

int encode_sources(Decoder *d, const int32_t *const *ids, const int64_t *counts, int64_t sentences, Source *sources, const Recording *recording) {
  const RegardModel *m = d->model;
  const Program *encoder = m->programs + ENCODER;
  int64_t rows = 0, n = 0;
  for (int64_t b = 0; b < sentences; b++) rows += counts[b];
  int64_t *tokens = malloc((size_t)(2 * rows + sentences + 1) * sizeof(int64_t));
  if (!tokens) return -1;
  int64_t *positions = tokens + rows, *starts = positions + rows;
  for (int64_t b = 0; b < sentences; b++) {
    starts[b] = n;
    for (int64_t i = 0; i < counts[b]; i++, n++) tokens[n] = ids[b][i], positions[n] = i;
  }
  starts[sentences] = rows;
  int failed = allocate_sources(m, counts, sentences, sources) || reserve_registers(&d->encoder, encoder, rows);
  if (!failed) {
    Context c = {.rows = rows, .tokens = tokens, .positions = positions, .starts = starts, .sentences = sentences};
    if (recording) c.recorded = recording->by_operation, c.recorded_stride = recording->stride;
    failed = run(d, encoder, &c, &d->encoder);
    if (!failed && m->programs[MEMORY].count) failed = make_memories(d, starts, sentences, sources);
    if (!failed && m->programs[INITIAL].count) failed = begin_states(d, starts, sentences, sources);
  }
  free(tokens);
  if (failed)
    for (int64_t b = 0; b < sentences; b++) free_source(sources + b);
  return failed ? -1 : 0;
}

static int take_memories(Decoder *d, const RegardEncoded *const *encoded, const int64_t *counts, int64_t sentences, Source *sources) {
  const Program *memory = d->model->programs + MEMORY;
  int64_t *starts = calloc((size_t)sentences + 1, sizeof *starts);
  if (!starts) return -1;
  for (int64_t b = 0; b < sentences; b++) starts[b + 1] = starts[b] + counts[b];
  int failed = reserve_registers(&d->memory, memory, starts[sentences]);
  for (int64_t b = 0; b < sentences && !failed; b++)
    for (int number = 0; number <= d->model->settings.needs_embeddings; number++) {
      int64_t width = memory->widths[number];
      float *to = register_of(&d->memory, memory, number, starts[sentences]) + starts[b] * width;
      memcpy(to, number ? encoded[b]->embedded : encoded[b]->outputs, (size_t)(counts[b] * width) * sizeof(float));
    }
  failed = failed || run_memory(d, starts, sentences, sources);
  free(starts);
  return failed ? -1 : 0;
}

int take_encoded(Decoder *d, const RegardEncoded *const *encoded, const int64_t *counts, int64_t sentences, Source *sources) {
  const RegardModel *m = d->model;
  const Program *initial = m->programs + INITIAL;
  int failed = allocate_sources(m, counts, sentences, sources);
  if (!failed && m->programs[MEMORY].count) failed = take_memories(d, encoded, counts, sentences, sources);
  if (!failed && initial->count) {
    failed = reserve_registers(&d->memory, initial, sentences);
    size_t size = (size_t)m->settings.summary_size;
    for (int64_t b = 0; b < sentences && !failed; b++) memcpy(d->memory.data + (size_t)b * size, encoded[b]->summary, size * sizeof(float));
    failed = failed || run_initial(d, sentences, sources);
  }
  for (int64_t b = 0; b < sentences && failed; b++) free_source(sources + b);
  return failed ? -1 : 0;
}

/* --- steps ---------------------------------------------------------------------------------------------------- */

#define GROW(field, count) failed |= !(p = realloc(s->field, (size_t)(count) * sizeof *s->field)), s->field = p ? p : s->field

int reserve_step(Decoder *d, int64_t rows, int64_t stride, int64_t k) {
  Step *s = &d->step;
  int failed = 0;
  void *p;
  if (rows > s->capacity) {
    int64_t wanted = rows + rows / 2;
    GROW(tokens, wanted), GROW(positions, wanted), GROW(entries, wanted), GROW(lengths, wanted);
    GROW(memories, wanted), GROW(blocks, wanted), GROW(eos_log_probs, wanted), GROW(states, wanted), GROW(copy_log_probs, wanted * (d->model->copy_count + 1));
    if (failed) return -1;
    s->capacity = wanted, s->k_capacity = 0;
  }
  if (rows * stride > s->past_capacity) {
    int64_t wanted = rows * stride + rows * stride / 2;
    GROW(past, wanted);
    if (failed) return -1;
    s->past_capacity = wanted;
  }
  if (k > s->k_capacity) {
    int64_t parts = d->model->kernels->parts(d->team);
    GROW(log_probs, s->capacity * k), GROW(top, s->capacity * k), GROW(partial, s->capacity * parts * (3 + 2 * k));
    if (failed) return -1;
    s->k_capacity = k;
  }
  s->rows = rows, s->stride = stride;
  return 0;
}

int run_step(Decoder *d, const Recording *recording, const float **features) {
  const RegardModel *m = d->model;
  const Program *p = m->programs + STEP;
  Step *s = &d->step;
  if (reserve_registers(&d->registers, p, s->rows)) return -1;
  Context c = {.rows = s->rows, .tokens = s->tokens, .positions = s->positions, .memories = s->memories, .entries = s->entries, .past = s->past, .stride = s->stride, .lengths = s->lengths, .blocks = s->blocks};
  if (recording) c.recorded = recording->by_operation, c.recorded_stride = recording->stride;
  if (run(d, p, &c, &d->registers)) return -1;
  *features = register_of(&d->registers, p, m->settings.features, s->rows);
  return 0;
}

int find_top_tokens(Decoder *d, const float *features, int64_t k) {
  const RegardModel *m = d->model;
  const Floats registers = {(float *)features, 0};
  Step *s = &d->step;
  if (k > m->settings.target_vocabulary) k = m->settings.target_vocabulary;
  if (reserve_step(d, s->rows, s->stride, k)) return -1;
  s->k = k;
  Context c = {.rows = s->rows, .k = k, .top_log_probs = s->log_probs, .top_tokens = s->top, .eos_log_probs = s->eos_log_probs, .eos = EOS, .suppressed = m->suppressed, .states = s->states, .partial = s->partial, .copies = m->copies, .copy_count = s->has_copies ? m->copy_count : 0, .copy_log_probs = s->copy_log_probs};
  for (int64_t i = 0; i < c.rows * c.copy_count; i++) s->copy_log_probs[i] = -INFINITY;
  return run(d, m->programs + TOP, &c, &registers);
}

int find_log_probs(Decoder *d, const float *features, const int64_t *rows, int64_t count, const float **log_probs) {
  const RegardModel *m = d->model;
  int64_t widths[2] = {m->programs[TOP].widths[0], m->settings.target_vocabulary}, offsets[2] = {0, widths[0]};
  Operation operations[2] = {{.kind = LINEAR, .target = 1, .extra = -1, .weight = m->programs[TOP].operations->weight}, {.kind = LOG_SOFTMAX, .target = 1, .size = (int32_t)widths[1]}};
  Program p = {.operations = operations, .count = 2, .registers = 2, .widths = widths, .offsets = offsets, .row_size = widths[0] + widths[1]};
  if (reserve_registers(&d->logits, &p, count)) return -1;
  for (int64_t i = 0; i < count; i++) memcpy(d->logits.data + i * widths[0], features + rows[i] * widths[0], (size_t)widths[0] * sizeof(float));
  Context c = {.rows = count};
  *log_probs = register_of(&d->logits, &p, 1, count);
  return run(d, &p, &c, &d->logits);
}
