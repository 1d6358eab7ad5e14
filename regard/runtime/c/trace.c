/* Search traces; see trace.h. */

#include "trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void trace_free(Trace *t) {
  if (!t) return;
  free(t->steps), free(t->rows), free(t->candidates), free(t);
}

/* Adds a candidate to the last step, sorted by its total; of equals the earlier one stays ahead. */
static int add(Trace *t, RegardCandidate candidate) {
  size_t first = t->steps[t->step_count - 1].first_candidate, i = t->candidate_count;
  if (reserve((void **)&t->candidates, &t->candidate_capacity, i + 1, sizeof candidate)) return -1;
  for (; i > first && candidate.total > t->candidates[i - 1].total; i--) t->candidates[i] = t->candidates[i - 1];
  t->candidates[i] = candidate, t->candidate_count++;
  return 0;
}

static RegardCandidate candidate_of(const Sentence *s, int64_t row, int32_t token, float log_prob) {
  return (RegardCandidate){(int32_t)row, token, PRUNED, 0, (double)log_prob, s->beams[row].log_prob + (double)log_prob};
}

int trace_step(Trace *t, const Sentence *s, const Step *step, int64_t first) {
  if (reserve((void **)&t->steps, &t->step_capacity, t->step_count + 1, sizeof *t->steps) ||
      reserve((void **)&t->rows, &t->row_capacity, t->row_count + (size_t)s->rows, sizeof *t->rows))
    return -1;
  t->steps[t->step_count++] = (TraceStep){t->row_count, t->candidate_count};
  for (int64_t row = 0; row < s->rows; row++) {
    const float *log_probs = step->log_probs + (first + row) * step->k;
    const int64_t *tokens = step->top + (first + row) * step->k;
    int has_end = 0, failed = 0;
    t->rows[t->row_count++] = (TraceRow){(int32_t)s->beams[row].parent, s->beams[row].token};
    for (int64_t j = 0; j < step->k && j < TRACE_WIDTH && !failed; j++) {
      if (!(log_probs[j] > -INFINITY)) continue;
      has_end |= tokens[j] == EOS;
      failed = add(t, candidate_of(s, row, (int32_t)tokens[j], log_probs[j]));
    }
    if (!failed && !has_end) failed = add(t, candidate_of(s, row, EOS, step->eos_log_probs[first + row]));
    if (failed) return -1;
  }
  return 0;
}

static RegardCandidate *find(Trace *t, int64_t row, int32_t token) {
  for (size_t i = t->steps[t->step_count - 1].first_candidate; i < t->candidate_count; i++)
    if (t->candidates[i].row == row && t->candidates[i].token == token) return t->candidates + i;
  return NULL;
}

int trace_forced(Trace *t, const Sentence *s, int32_t token, float log_prob) {
  return find(t, 0, token) ? 0 : add(t, candidate_of(s, 0, token, log_prob));
}

int trace_kept(Trace *t, const Sentence *s, const Beam *b) {
  RegardCandidate *candidate = find(t, b->parent, b->token);
  double before = s->length ? s->totals[b->parent * s->capacity + s->length - 1] : 0;
  if (candidate) candidate->fate = KEPT;
  return candidate ? 0 : add(t, (RegardCandidate){(int32_t)b->parent, b->token, KEPT, 0, b->log_prob - before, b->log_prob});
}

void trace_fate(Trace *t, int64_t row, int32_t token, int32_t fate) {
  RegardCandidate *candidate = find(t, row, token);
  if (candidate) candidate->fate = fate;
}

void trace_finish(Trace *t, const Sentence *s) {
  for (size_t i = t->steps[t->step_count - 1].first_candidate; i < t->candidate_count; i++) {
    RegardCandidate *c = t->candidates + i;
    int is_left = c->fate != ENDED;
    const int32_t *ids = s->history + c->row * s->capacity;
    for (size_t h = 0; h < s->finished_count && !is_left; h++)
      is_left = s->finished[h].count == s->length && !memcmp(s->finished[h].ids, ids, (size_t)s->length * sizeof *ids);
    if (!is_left) c->fate = PRUNED;
  }
}

size_t trace_rows(const Trace *t, size_t step) {
  return (step + 1 < t->step_count ? t->steps[step + 1].first_row : t->row_count) - t->steps[step].first_row;
}

const RegardCandidate *trace_candidates(const Trace *t, size_t step, size_t *count) {
  size_t first = t->steps[step].first_candidate;
  *count = (step + 1 < t->step_count ? t->steps[step + 1].first_candidate : t->candidate_count) - first;
  return t->candidates + first;
}

void trace_prefix(const Trace *t, size_t step, size_t row, int32_t *ids) {
  for (; step > 0; step--) {
    const TraceRow *r = t->rows + t->steps[step].first_row + row;
    ids[step - 1] = r->token, row = (size_t)r->parent;
  }
}
