/* CPU kernels of encoders and decoders: one call runs a whole step, which would be a hundred calls from Python.

   A program is a list of operations over registers; a register is a matrix with a row for each hypothesis (or, in an
   encoder, for each source token). Every row is computed alone and in one order, so the result for a sentence does
   not depend on its batch, in any precision.

   Compiled once for each level of processors, with vectors as wide as its registers; parts that need special
   instructions have a portable form beside them. */

#include "matrix_products.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __wasm__
#define ALONE /* no threads */
#else
#include <pthread.h>
#include <sched.h>
#endif

/* --- the operations ------------------------------------------------------------------------------------------ */

typedef struct { /* one of the threads that run a program together */
  const Context *c;
  const Operation *operations;
  int part, parts;
  Scratch inputs, scores;
  atomic_int *failed; /* of the team: there was no memory */
} Worker;

static void *memory_for(Worker *w, Scratch *r, size_t size) {
  void *memory = scratch(r, size);
  if (!memory) atomic_store(w->failed, 1);
  return memory;
}

static Inputs inputs_for(Worker *w, const Weight *weight, const float *from, int64_t step, int64_t rows) {
  Inputs in = inputs_of(weight, from, step, rows, &w->inputs);
  if (!in.data) atomic_store(w->failed, 1);
  return in;
}

static inline float *reg(const Context *c, int r, int64_t row) {
  return c->registers + c->offsets[r] * c->rows + row * c->widths[r];
}

enum { SCORES, WEIGHTS };

/* Keeps the scores or the weights of a head over S entries, before which `hidden` ones are not attended to, if the caller
   of this program asked for those of the operation. */
static inline void record(const Worker *w, const Operation *o, int64_t row, int head, int part, const float *numbers, int64_t S, int64_t hidden) {
  const Context *c = w->c;
  float *to = c->recorded ? c->recorded[o - w->operations] : NULL;
  if (!to) return;
  to += ((row * o->heads + head) * 2 + part) * c->recorded_stride;
  for (int64_t i = 0; i < hidden; i++) to[i] = part == SCORES ? -INFINITY : 0;
  memcpy(to + hidden, numbers, S * sizeof(float));
}

/* Range of `count` items that this thread computes. */
static inline void share(const Worker *w, int64_t count, int64_t *from, int64_t *to) {
  *from = count * w->part / w->parts, *to = count * (w->part + 1) / w->parts;
}

/* Numbers [first, first + count) of column v of a weight: the embedding of token v, if the output projection shares it. */
static void column_of(const Weight *w, int64_t v, int first, int count, float *to) {
  int group = w->precision == FLOAT32 ? 1 : w->precision == BFLOAT16 ? 2 : 4;
  int64_t start = v / LANES * LANES * w->padded + v % LANES * group;
  for (int k = first; k < first + count; k++) {
    int64_t at = start + (int64_t)(k / group) * group * LANES + k % group;
    if (w->precision == FLOAT32) *to++ = ((const float *)w->panels)[at];
    else if (w->precision == BFLOAT16) *to++ = from_bfloat16(((const uint16_t *)w->panels)[at]);
    else *to++ = ((const int8_t *)w->panels)[at] * w->scales[v];
  }
}

/* Not inlined, so that embeddings of a table and of a weight are scaled by the same instructions, to the last bit. */
static __attribute__((noinline)) void scale_embedding(const float *embedding, const float *position, float scale, int count, float *to) {
  for (int i = 0; i < count; i++) to[i] = embedding[i] * scale + (position ? position[i] : 0);
}

static void embed(const Operation *o, const Worker *w) {
  const Context *c = w->c;
  int64_t first, last;
  share(w, c->rows, &first, &last);
  for (int64_t n = first; n < last; n++)
    for (int i = 0; i < o->size; i += PANEL) {
      float part[PANEL];
      int count = o->size - i < PANEL ? o->size - i : PANEL;
      if (!o->table) column_of(o->weight, c->tokens[n], i, count, part);
      const float *embedding = o->table ? o->table + c->tokens[n] * o->size + i : part;
      const float *position = o->second ? o->second + c->positions[n] * o->size + i : NULL;
      scale_embedding(embedding, position, o->scale, count, reg(c, o->target, n) + i);
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
    for (; i + WIDTH <= D; i += WIDTH) t += load(x + i);
    total = sum_of(t);
    for (; i < D; i++) total += x[i];
    float mean = total / D;
    for (i = 0; i + WIDTH <= D; i += WIDTH) {
      vector d = load(x + i) - mean;
      s += d * d;
    }
    squares = sum_of(s);
    for (; i < D; i++) squares += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / sqrtf(squares / D + o->scale);
    for (i = 0; i + WIDTH <= D; i += WIDTH) store(y + i, (load(x + i) - mean) * scale * load(o->table + i) + load(o->second + i));
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
    for (int i = 0; i < D; i += WIDTH) {
      vector x = load_some(a + i, D - i), y = load_some(b + i, D - i);
      store_some(to + i, o->activation == SILU ? x * sigmoid(x) * y : x * sigmoid(y), D - i);
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
  Inputs in = inputs_for(w, weight, reg(c, o->source, 0) + o->offset, c->widths[o->source], c->rows);
  if (!in.data) return;
  for (int64_t p = first; p < last; p++) {
    int columns = weight->outputs - p * PANEL < PANEL ? weight->outputs - p * PANEL : PANEL;
    for (int64_t n = 0; n < c->rows; n += TILE) {
      int rows = c->rows - n < TILE ? c->rows - n : TILE;
      vector out[TILE][VECTORS];
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
        for (int j = 0; j < VECTORS; j++) {
          vector y = activate(out[i][j], o->activation);
          if (more) y += load(more + WIDTH * j);
          store(into + WIDTH * j, y);
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
  for (int64_t s = WIDTH; s < P; s += WIDTH) most = larger(most, load(scores + s));
  float top = largest_of(most);
  vector total = broadcast(0);
  for (int64_t s = 0; s < P; s += WIDTH) {
    vector x = exponential(load(scores + s) - top);
    if (s + WIDTH > S)
      for (int64_t i = S > s ? S - s : 0; i < WIDTH; i++) x[i] = 0;
    total += x;
    store(scores + s, x);
  }
  float share_of = 1.0f / sum_of(total);
  for (int64_t s = 0; s < P; s += WIDTH) store(scores + s, load(scores + s) * share_of);
}

/* Scores of one query head against keys in columns. */
static void scores_by_columns(const float *q, const float *keys, int E, int64_t P, float scale, float *scores) {
  int64_t s = 0;
#if PARTS < 4
  for (; s + 4 * WIDTH <= P; s += 4 * WIDTH) {
    vector t[4] = {broadcast(0), broadcast(0), broadcast(0), broadcast(0)};
    for (int e = 0; e < E; e++) {
      vector a = broadcast(q[e]);
      for (int j = 0; j < 4; j++) t[j] += a * load(keys + e * P + s + j * WIDTH);
    }
    for (int j = 0; j < 4; j++) store(scores + s + j * WIDTH, t[j] * scale);
  }
#endif
  for (; s < P; s += LANES) {
    vector even[PARTS], odd[PARTS];
    for (int j = 0; j < PARTS; j++) even[j] = odd[j] = broadcast(0);
    int e = 0;
    for (; e + 2 <= E; e += 2)
      for (int j = 0; j < PARTS; j++) {
        even[j] += q[e] * load(keys + e * P + s + j * WIDTH);
        odd[j] += q[e + 1] * load(keys + (e + 1) * P + s + j * WIDTH);
      }
    for (; e < E; e++)
      for (int j = 0; j < PARTS; j++) even[j] += q[e] * load(keys + e * P + s + j * WIDTH);
    for (int j = 0; j < PARTS; j++) store(scores + s + j * WIDTH, (even[j] + odd[j]) * scale);
  }
}

#define BLOCK (PARTS > 2 ? 4 : 2) /* vectors of values that are summed together */

/* Weighted sum of values: E numbers of each of S rows that are `step` apart. */
static void weighted_sum(const float *weights, const float *values, int64_t step, int64_t S, int E, float *to) {
  int e = 0;
  for (; e + BLOCK * WIDTH <= E; e += BLOCK * WIDTH) {
    vector t[BLOCK];
    for (int j = 0; j < BLOCK; j++) t[j] = broadcast(0);
    for (int64_t s = 0; s < S; s++)
      for (int j = 0; j < BLOCK; j++) t[j] += weights[s] * load(values + s * step + e + j * WIDTH);
    for (int j = 0; j < BLOCK; j++) store(to + e + j * WIDTH, t[j]);
  }
  for (; e + WIDTH <= E; e += WIDTH) {
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
    float *scores = memory_for(w, &w->scores, (P + P * E) * sizeof(float)), *keys = scores + P;
    if (!scores) return;
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
        record(w, o, from + s, h, SCORES, scores, S, 0);
        softmax(scores, S, P);
        record(w, o, from + s, h, WEIGHTS, scores, S, 0);
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
    float *scores = memory_for(w, &w->scores, P * sizeof(float));
    if (!scores) return;
    const float *q = reg(c, o->source, n);
    for (int h = 0; h < o->heads; h++) {
      scores_by_columns(q + h * E, keys + h * E * P, E, P, o->scale, scores);
      record(w, o, n, h, SCORES, scores, S, 0);
      softmax(scores, S, P);
      record(w, o, n, h, WEIGHTS, scores, S, 0);
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
  for (; e + WIDTH <= E; e += WIDTH) t += load(a + e) * load(b + e);
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
    float *scores = memory_for(w, &w->scores, P * sizeof(float)), *to = reg(c, o->target, n) + o->column;
    if (!scores) return;
    for (int h = 0; h < o->heads; h++) {
      const float *q = own + h * E;
      for (int64_t s = 0; s < t; s++) scores[s] = dot(q, past[s] + o->offset + h * E, E) * o->scale;
      scores[t] = dot(q, own + D + h * E, E) * o->scale;
      record(w, o, n, h, SCORES, scores, t + 1, all - t);
      softmax(scores, t + 1, P);
      record(w, o, n, h, WEIGHTS, scores, t + 1, all - t);
      int e = 0;
      for (; e + BLOCK * WIDTH <= E; e += BLOCK * WIDTH) {
        vector sum[BLOCK];
        for (int j = 0; j < BLOCK; j++) sum[j] = scores[t] * load(own + 2 * D + h * E + e + j * WIDTH);
        for (int64_t s = 0; s < t; s++) {
          const float *values = past[s] + o->offset + D + h * E + e;
          for (int j = 0; j < BLOCK; j++) sum[j] += scores[s] * load(values + j * WIDTH);
        }
        for (int j = 0; j < BLOCK; j++) store(to + h * E + e + j * WIDTH, sum[j]);
      }
      for (; e + WIDTH <= E; e += WIDTH) {
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
    float *scores = memory_for(w, &w->scores, P * sizeof(float));
    if (!scores) return;
    for (int64_t s = 0; s < P; s += WIDTH) {
      vector total = broadcast(0);
      for (int e = 0; e < o->extent; e++) total += o->table[e] * hyperbolic(q[e] + load(keys + e * P + s));
      store(scores + s, total);
    }
    record(w, o, n, 0, SCORES, scores, S, 0);
    softmax(scores, S, P);
    record(w, o, n, 0, WEIGHTS, scores, S, 0);
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
  for (int i = 0; i < H; i += WIDTH) {
    int lanes = H - i;
    vector px[4], ps[4], next, old = load_some(h + i, lanes);
    for (int g = 0; g < count; g++) px[g] = load_some(x + g * H + i, lanes), ps[g] = load_some(s + g * H + i, lanes);
    if (kind == GRU) {
      vector r = sigmoid(px[0] + ps[0]), z = sigmoid(px[1] + ps[1]), new = hyperbolic(px[2] + r * ps[2]);
      next = new + z * (old - new);
    } else if (kind == LSTM) {
      vector in = sigmoid(px[0] + ps[0]), forget = sigmoid(px[1] + ps[1]), new = hyperbolic(px[2] + ps[2]);
      vector out = sigmoid(px[3] + ps[3]), kept = forget * load_some(cell + i, lanes) + in * new;
      next = out * hyperbolic(kept);
      store_some(cell + i, kept, lanes);
    } else {
      next = hyperbolic(px[0] + ps[0]);
    }
    store_some(h + i, next, lanes);
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
  float *hidden = memory_for(w, &w->scores, B * (2 * H + padded_gates) * sizeof(float) + B * sizeof(int64_t) + 64);
  if (!hidden) return;
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
    Inputs in = inputs_for(w, weight, hidden, H, count);
    if (!in.data) return;
    for (int64_t p = 0; p < padded_gates / PANEL; p++)
      for (int64_t n = 0; n < count; n += TILE) {
        int rows = count - n < TILE ? count - n : TILE;
        vector out[TILE][VECTORS];
        products(weight, &in, n, p, out, rows);
        for (int i = 0; i < rows; i++)
          for (int j = 0; j < VECTORS; j++) store(gates_now + (n + i) * padded_gates + p * PANEL + WIDTH * j, out[i][j]);
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
  Inputs in = inputs_for(w, weight, reg(c, o->source, 0), c->widths[o->source], c->rows);
  int64_t *at = memory_for(w, &w->scores, K * sizeof(int64_t) * c->rows);
  if (!in.data || !at) return;
  for (int64_t i = 0; i < K * c->rows; i++) at[i] = -1;
  for (int64_t p = first; p < last; p++)
    for (int64_t n = 0; n < c->rows; n += TILE) {
      int rows = c->rows - n < TILE ? c->rows - n : TILE;
      vector out[TILE][VECTORS];
      products(weight, &in, n, p, out, rows);
      for (int i = 0; i < rows; i++) {
        float *part = c->partial + ((n + i) * w->parts + w->part) * width, *likely = part + 3;
        int columns = weight->outputs - p * PANEL < PANEL ? weight->outputs - p * PANEL : PANEL, state = c->states ? c->states[n + i] : 0;
        float logits[PANEL];
        for (int j = 0; j < VECTORS; j++) store(logits + WIDTH * j, out[i][j]);
        for (int j = columns; j < PANEL; j++) logits[j] = -INFINITY;
        vector v[VECTORS], most[4];
        for (int j = 0; j < VECTORS; j++) v[j] = load(logits + WIDTH * j), most[j % 4] = j < 4 ? v[j] : larger(most[j % 4], v[j]);
        float top = largest_of(larger(larger(most[0], most[1]), larger(most[2], most[3])));
        if (top > part[0]) part[1] *= expf(part[0] - top), part[0] = top;
        if (top != top) part[1] = top, part[0] = part[0] > -INFINITY ? part[0] : 0; /* NaN: no token is likely */
        if (part[0] == -INFINITY) continue;
        vector total = broadcast(0);
        for (int j = 0; j < VECTORS; j++) total += exponential(v[j] - part[0]);
        part[1] += sum_of(total);
        int64_t e = c->eos - p * PANEL;
        if (e >= 0 && e < PANEL) part[2] = logits[e];
        for (int64_t j = 0; j < c->copy_count; j++)
          if (c->copies[j] / PANEL == p) c->copy_log_probs[(n + i) * c->copy_count + j] = logits[c->copies[j] % PANEL];
        if (top > likely[K - 1])
          for (int j = 0; j < columns; j++)
            if (logits[j] > likely[K - 1] && !(c->suppressed && c->suppressed[p * PANEL + j] >> state & 1))
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
    for (int64_t j = 0; j < c->copy_count; j++) c->copy_log_probs[n * c->copy_count + j] -= norm;
  }
}

/* Turns the logits of a register into log-probabilities. */
static void log_softmax(const Operation *o, const Worker *w) {
  int64_t first, last;
  share(w, w->c->rows, &first, &last);
  for (int64_t n = first; n < last; n++) {
    float *x = reg(w->c, o->target, n), top = -INFINITY, total = 0;
    vector most = broadcast(-INFINITY), sum = broadcast(0);
    int i = 0;
    for (; i + WIDTH <= o->size; i += WIDTH) most = larger(most, load(x + i));
    top = largest_of(most);
    for (; i < o->size; i++) top = x[i] > top ? x[i] : top;
    for (i = 0; i + WIDTH <= o->size; i += WIDTH) sum += exponential(load(x + i) - top);
    total = sum_of(sum);
    for (; i < o->size; i++) total += expf(x[i] - top);
    total = top + logf(total);
    for (i = 0; i < o->size; i++) x[i] -= total;
  }
}

/* --- threads that run one program together ------------------------------------------------------------------- */

struct Team {
  int parts;
  atomic_int failed, stop;
  Worker *workers;
  const Operation *operations;
  int64_t count;
#ifndef ALONE
  atomic_long call, arrived, phase, done;
  pthread_t *threads;
  pthread_mutex_t lock;
  pthread_cond_t wake;
#endif
};

#ifdef ALONE
static void barrier(Team *t) { (void)t; }
#else
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
    else sched_yield(), looks = PATIENCE;
  }
}
#endif

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
      case LOG_SOFTMAX: log_softmax(o, w); break;
    }
    barrier(t);
  }
}

#ifdef ALONE
static void stop_threads(Team *t) { (void)t; }
static int start_threads(Team *t) { return t->parts = 1; }
static void wake_threads(Team *t) { (void)t; }
static void wait_for_threads(Team *t) { (void)t; }
#else
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

static void wake_threads(Team *t) {
  if (t->parts == 1) return;
  atomic_store(&t->done, 0);
  pthread_mutex_lock(&t->lock);
  atomic_fetch_add(&t->call, 1);
  pthread_cond_broadcast(&t->wake);
  pthread_mutex_unlock(&t->lock);
}

static void wait_for_threads(Team *t) {
  while (t->parts > 1 && atomic_load(&t->done) < t->parts - 1) pause_thread();
}

static void stop_threads(Team *t) {
  atomic_store(&t->stop, 1);
  wake_threads(t);
  for (int i = 1; i < t->parts; i++) pthread_join(t->threads[i], NULL);
  pthread_mutex_destroy(&t->lock), pthread_cond_destroy(&t->wake);
  free(t->threads);
}

/* Starts the threads of a team beside its caller; returns how many there are, as many as the system allows. */
static int start_threads(Team *t) {
  t->threads = calloc(t->parts, sizeof *t->threads);
  pthread_mutex_init(&t->lock, NULL), pthread_cond_init(&t->wake, NULL);
  for (int i = 1; i < t->parts; i++) {
    ThreadArguments *m = t->threads ? malloc(sizeof *m) : NULL;
    if (m) m->team = t, m->part = i;
    if (!m || pthread_create(&t->threads[i], NULL, run_thread, m)) {
      free(m);
      return i;
    }
  }
  return t->parts;
}
#endif

static void team_close(Team *t) {
  stop_threads(t);
  for (int i = 0; i < t->parts; i++) free(t->workers[i].inputs.data), free(t->workers[i].scores.data);
  free(t->workers), free(t);
}

/* Team of `parts` threads, the caller of `team_run` among them; NULL if there is no memory. */
static Team *team_open(int parts) {
  Team *t = calloc(1, sizeof *t);
  if (t) t->parts = parts > 1 ? parts : 1, t->workers = calloc(t->parts, sizeof *t->workers);
  if (!t || !t->workers) {
    free(t);
    return NULL;
  }
  for (int i = 0; i < t->parts; i++) t->workers[i].part = i, t->workers[i].failed = &t->failed;
  t->parts = start_threads(t);
  for (int i = 0; i < t->parts; i++) t->workers[i].parts = t->parts;
  return t;
}

static int team_parts(const Team *t) { return t->parts; }

/* Runs a program. Returns 0, or -1 if there was no memory, and its results mean nothing. */
static int team_run(Team *t, const Operation *operations, int64_t count, const Context *c) {
  t->operations = operations, t->count = count;
  atomic_store(&t->failed, 0);
  for (int i = 0; i < t->parts; i++) t->workers[i].c = c, t->workers[i].operations = operations;
  wake_threads(t);
  compute(t, t->workers);
  wait_for_threads(t);
  return -atomic_load(&t->failed);
}

/* --- weights into panels ------------------------------------------------------------------------------------- */

/* Packs weight (V, K), as a linear layer holds it. */
static void pack(const float *weight, int64_t V, int64_t K, int precision, void *panels, float *scales, int32_t *sums) {
  int64_t group = precision == FLOAT32 ? 1 : precision == BFLOAT16 ? 2 : 4, padded_inputs = (K + group - 1) / group * group;
  for (int64_t v = 0; v < (V + PANEL - 1) / PANEL * PANEL; v++) {
    int64_t strip = v / LANES * LANES * padded_inputs, column = v % LANES;
    float most = 0;
    if (v < V)
      for (int64_t k = 0; k < K; k++) most = fabsf(weight[v * K + k]) > most ? fabsf(weight[v * K + k]) : most;
    float times = most > 0 ? 127.0f / most : 0;
    int32_t sum = 0;
    for (int64_t k = 0; k < padded_inputs; k++) {
      float x = v < V && k < K ? weight[v * K + k] : 0;
      int64_t at = strip + k / group * group * LANES + column * group + k % group;
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
