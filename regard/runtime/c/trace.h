/* The search of one line, recorded step by step, as regard.search.search_trace records it. */

#ifndef REGARD_TRACE_H
#define REGARD_TRACE_H

#include "search.h"

#define TRACE_WIDTH 8 /* candidates recorded of each open hypothesis, besides end of sentence */

typedef struct { /* an open hypothesis: the one of the step before that it extends, and its last token */
  int32_t parent, token;
} TraceRow;

typedef struct { /* a step: where its rows and candidates begin */
  size_t first_row, first_candidate;
} TraceStep;

enum { PRUNED, KEPT, ENDED }; /* fates of candidates, as regard.h has them */

struct Trace { /* memory grows with steps and beam, not with the square of the steps */
  TraceStep *steps;
  TraceRow *rows;
  RegardCandidate *candidates;
  size_t step_count, step_capacity, row_count, row_capacity, candidate_count, candidate_capacity;
};

/* Records the candidates of a sentence whose first row in the step is `first`. Returns 0, or -1 if there is no memory. */
int trace_step(Trace *t, const Sentence *s, const Step *step, int64_t first);
/* Adds a candidate to the last step, which a prefix forces. Returns 0, or -1 if there is no memory. */
int trace_forced(Trace *t, const Sentence *s, int32_t token, float log_prob);
/* Marks the candidate of the last step that a beam follows, and adds it if it is none of the likeliest, as a copy token may be. Returns 0, or -1. */
int trace_kept(Trace *t, const Sentence *s, const Beam *b);
/* Sets the fate of a candidate of the last step. */
void trace_fate(Trace *t, int64_t row, int32_t token, int32_t fate);
/* Marks as pruned what ended in the last step, but is not among the hypotheses that are left. */
void trace_finish(Trace *t, const Sentence *s);
void trace_free(Trace *t);

size_t trace_rows(const Trace *t, size_t step);
const RegardCandidate *trace_candidates(const Trace *t, size_t step, size_t *count);
/* Writes the tokens of an open hypothesis, which are as many as there are steps before. */
void trace_prefix(const Trace *t, size_t step, size_t row, int32_t *ids);

#endif
