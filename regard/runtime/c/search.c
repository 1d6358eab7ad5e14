/* Greedy and beam search; see search.h. */

#include "search.h"
#include "sampling.h"
#include "threads.h"
#include "trace.h"
#include "unicode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE_TOKENS 512 /* source tokens that are encoded at once, about: their registers stay in cache */
#define OPEN_TOKENS 4096  /* source tokens of all open sentences */
#define SWEEP_EVERY 16    /* steps between two searches for blocks that no hypothesis refers to */
#define MIN_SHARE 4       /* requests that are not shared out among threads: a step of several costs little more than one */
#define LAST_RESORT (-1e30f) /* score of ending where nothing else is left */
#define MOST_BYTES 4 /* of a character */
#define MOST_LIKELIEST 64 /* tokens from which on a row's whole distribution is sooner there than its likeliest tokens */
#define FORCED (-1e9f) /* score of a token of a prefix that a rule bans */

int64_t most_steps_with(const RegardModel *model, const RegardOptions *options, int64_t source, int64_t required) {
  const Settings *s = &model->settings;
  int64_t steps = (int64_t)(options->max_ratio * (double)source) + options->max_extra + required;
  if (steps < options->min_length + 1) steps = options->min_length + 1;
  if (s->max_target > 0 && steps > s->max_target) steps = s->max_target;
  if (options->max_length >= 0 && steps > (int64_t)options->max_length + 1) steps = (int64_t)options->max_length + 1;
  if (s->target_positions > 0 && steps > s->target_positions) steps = s->target_positions;
  return steps;
}

int64_t most_steps(const RegardModel *model, const RegardOptions *options, int64_t source) { return most_steps_with(model, options, source, 0); }

void free_hypotheses(Request *r) {
  for (int64_t i = 0; i < r->found; i++) free(r->hypotheses[i].ids);
  free(r->hypotheses);
  r->hypotheses = NULL, r->found = 0;
}

/* --- blocks of the KV cache ----------------------------------------------------------------------------------- */

/* Blocks carry a mark before their numbers. */
static float *new_block(Sentence *s, Decoder *d) {
  float *block = take_block(d);
  if (block && reserve((void **)&s->owned, &s->owned_capacity, s->owned_count + 1, sizeof(float *))) {
    give_block(d, block);
    return NULL;
  }
  if (block) s->owned[s->owned_count++] = block;
  return block;
}

static int32_t *mark_of(float *block) { return (int32_t *)(block - BLOCK_START); }

/* Gives back the blocks of a sentence that none of its rows refers to. */
static void sweep(Sentence *s, Decoder *d, int64_t blocks_per_row) {
  for (size_t i = 0; i < s->owned_count; i++) *mark_of(s->owned[i]) = 0;
  for (int64_t row = 0; row < s->rows; row++)
    for (int64_t t = 0; t < blocks_per_row; t++) *mark_of(s->past[row * s->capacity + t]) = 1;
  size_t kept = 0;
  for (size_t i = 0; i < s->owned_count; i++) {
    if (*mark_of(s->owned[i])) s->owned[kept++] = s->owned[i];
    else give_block(d, s->owned[i]);
  }
  s->owned_count = kept;
}

/* --- sentences ------------------------------------------------------------------------------------------------ */

static void free_sentence(Sentence *s, Decoder *d) {
  for (size_t i = 0; i < s->owned_count; i++) give_block(d, s->owned[i]);
  for (size_t i = 0; i < s->finished_count; i++) free(s->finished[i].ids);
  free_source(&s->source);
  free(s->totals), free(s->other_totals), free(s->states < s->other_states ? s->states : s->other_states); /* one block */
  free(s->beams), free(s->history), free(s->other_history), free(s->past), free(s->other_past), free(s->owned), free(s->finished);
  memset(s, 0, sizeof *s);
}

static int grow_sentence(Sentence *s, int64_t beam, int64_t capacity) {
  int32_t *histories[2];
  double *totals[2];
  float **pasts[2];
  size_t size = (size_t)(beam * capacity);
  int failed = 0;
  for (int i = 0; i < 2; i++) {
    histories[i] = calloc(size, sizeof(int32_t)), totals[i] = calloc(size, sizeof(double)), pasts[i] = calloc(size, sizeof(float *));
    failed |= !histories[i] || !totals[i] || !pasts[i];
  }
  for (int64_t row = 0; row < s->rows && !failed; row++) {
    memcpy(histories[0] + row * capacity, s->history + row * s->capacity, (size_t)s->capacity * sizeof(int32_t));
    memcpy(totals[0] + row * capacity, s->totals + row * s->capacity, (size_t)s->capacity * sizeof(double));
    memcpy(pasts[0] + row * capacity, s->past + row * s->capacity, (size_t)s->capacity * sizeof(float *));
  }
  if (failed) {
    for (int i = 0; i < 2; i++) free(histories[i]), free(totals[i]), free(pasts[i]);
    return -1;
  }
  free(s->history), free(s->other_history), free(s->totals), free(s->other_totals), free(s->past), free(s->other_past);
  s->history = histories[0], s->other_history = histories[1], s->totals = totals[0], s->other_totals = totals[1];
  s->past = pasts[0], s->other_past = pasts[1], s->capacity = capacity;
  return 0;
}

/* Notes the copy tokens of a source, each once. */
static void find_source_copies(Sentence *s, const RegardModel *model) {
  const Request *r = s->request;
  for (int64_t i = 0; r->source && i < r->count; i++) {
    int32_t token = model->copy_targets[r->source[i]];
    int is_new = token != PAD;
    for (int64_t n = 0; n < s->copy_count; n++) is_new &= s->copies[n] != token;
    if (is_new) s->copies[s->copy_count++] = token;
  }
}

static int open_sentence(Sentence *s, Request *request, const Source *source, const RegardModel *model) {
  int64_t beam = request->options->beam;
  *s = (Sentence){.request = request, .source = *source, .target = model->target};
  find_source_copies(s, model);
  s->beams = calloc((size_t)beam, sizeof(Beam));
  if (request->terms.count && !(s->states = calloc((size_t)(2 * beam), (size_t)request->terms.state_size))) return -1;
  if (!s->beams || grow_sentence(s, beam, 16)) return -1;
  s->rows = 1;
  if (s->states) s->other_states = s->states + beam * request->terms.state_size, terms_begin(&request->terms, s->states);
  s->beams[0] = (Beam){.token = BOS};
  if (s->source.initial) s->past[0] = s->source.initial;
  return 0;
}

static int force_prefix(Decoder *d, Sentence *s);

/* Samples differ from their first token on: makes as many rows of the first as there are to be. */
static void spread(Sentence *s) {
  for (; s->rows < s->request->options->beam; s->rows++) {
    s->beams[s->rows] = s->beams[0];
    memcpy(s->history + s->rows * s->capacity, s->history, (size_t)s->length * sizeof *s->history);
    memcpy(s->totals + s->rows * s->capacity, s->totals, (size_t)s->length * sizeof *s->totals);
    memcpy(s->past + s->rows * s->capacity, s->past, (size_t)s->capacity * sizeof *s->past);
  }
}

int search_begin(Search *search, Request *const *requests, int64_t count) {
  Decoder *d = search->decoder;
  const int32_t **ids = malloc((size_t)count * (sizeof *ids + sizeof(RegardEncoded *) + sizeof(int64_t) + sizeof(Source)));
  if (!ids) return -1;
  const RegardEncoded **encoded = (const RegardEncoded **)(ids + count);
  int64_t *counts = (int64_t *)(encoded + count);
  Source *sources = (Source *)(counts + count);
  for (int64_t i = 0; i < count; i++) ids[i] = requests[i]->source, encoded[i] = requests[i]->encoded, counts[i] = requests[i]->count;
  size_t wanted = (size_t)(search->count + count);
  int failed = reserve((void **)&search->sentences, &search->capacity, wanted, sizeof(Sentence)) ||
               (*encoded ? take_encoded(d, encoded, counts, count, sources) : encode_sources(d, ids, counts, count, sources, NULL));
  if (failed) {
    free(ids);
    return -1;
  }
  for (int64_t i = 0; i < count; i++) failed |= open_sentence(search->sentences + search->count++, requests[i], sources + i, d->model);
  for (int64_t i = search->count - count; i < search->count && !failed; i++) {
    failed = force_prefix(d, search->sentences + i);
    if (!failed && search->sentences[i].request->options->sample) spread(search->sentences + i);
  }
  free(ids);
  return failed ? -1 : 0;
}

static void free_scratch(Search *search) {
  tokens_free(&search->bans), tokens_free(&search->columns), tokens_free(&search->next), text_free(&search->text);
  free(search->whole_rows), free(search->banks), free(search->scores);
}

void search_free(Search *search) {
  for (int64_t i = 0; i < search->count; i++) free_sentence(search->sentences + i, search->decoder);
  free(search->sentences), free(search->candidates), free(search->selected);
  free_scratch(search);
  *search = (Search){.decoder = search->decoder};
}

/* --- rules ---------------------------------------------------------------------------------------------------- */

/* Adds the tokens that would complete an n-gram that the row has already. */
static int add_repeats(const Sentence *s, int64_t row, int n, TokenBuffer *bans) {
  const int32_t *h = s->history + row * s->capacity, *end = h + s->length - (n - 1);
  for (int64_t i = 0; i + n <= s->length; i++)
    if (!memcmp(h + i, end, (size_t)(n - 1) * sizeof *h) && add_token(bans, h[i + n - 1])) return -1;
  return 0;
}

static int is_space(const Sentence *s, int32_t token) {
  size_t size;
  const char *piece = tokenizer_piece(s->target, token, &size);
  return tokenizer_byte(s->target, token) == ' ' || (piece && size == 3 && !memcmp(piece, "\xe2\x96\x81", 3));
}

/* Tokens that a row may get before the longest target, beside the copy tokens that it has to write. */
static int64_t room_for(const Search *search, const Sentence *s) {
  int64_t room = s->request->max_steps - 1 - s->length - search->missing;
  return search->missing && room < 0 ? 0 : room;
}

/* Whether a character that begins with this token would end beyond the longest target, or it is a space that would be last. */
static int is_too_late(const Search *search, const Sentence *s, int32_t token) {
  static const int least[] = {0x80, 0xc0, 0xe0, 0xf0}; /* bytes that begin more than so many */
  int64_t room = room_for(search, s);
  return room >= 0 && room < MOST_BYTES && (tokenizer_byte(s->target, token) >= least[room] || (room == 1 && is_space(s, token)));
}

/* Whether a row has written a space alone: no text ends with one, or has two, and of these alone it would be empty. */
static int ends_in_space(const Sentence *s, int64_t row) { return s->length && is_space(s, s->history[row * s->capacity + s->length - 1]); }

/* Whether a token is a copy token that a row has not written yet. */
static int is_missing_copy(const Sentence *s, int64_t row, int32_t token) {
  const int32_t *h = s->history + row * s->capacity;
  int is_own = 0;
  for (int64_t n = 0; n < s->copy_count; n++) is_own |= s->copies[n] == token;
  for (int64_t i = 0; is_own && i < s->length; i++) is_own = h[i] != token;
  return is_own;
}

/* Lists the tokens that may not come next in a row; is_banned knows a few more. Returns 0, or -1: no memory. */
static int list_bans(Search *search, const Sentence *s, int64_t row) {
  const RegardOptions *o = s->request->options;
  search->bans.size = 0, search->is_after_space = ends_in_space(s, row), search->missing = 0;
  for (int64_t n = 0; n < s->copy_count; n++) search->missing += is_missing_copy(s, row, s->copies[n]);
  if (search->missing && add_token(&search->bans, EOS)) return -1;
  if (s->length < o->min_length && add_token(&search->bans, EOS)) return -1;
  if (o->no_repeat_ngram && add_repeats(s, row, o->no_repeat_ngram, &search->bans)) return -1;
  return s->request->banned ? banned_tokens(s->request->banned, s->target, s->history + row * s->capacity, s->length, &search->text, &search->bans) : 0;
}

/* Whether a token may not come next in the row that was listed last. */
static int is_banned(const Search *search, const Sentence *s, int32_t token) {
  if (is_too_late(search, s, token)) return 1;
  if (search->is_after_space && (token == EOS || is_space(s, token))) return 1;
  for (size_t i = 0; i < search->bans.size; i++)
    if (search->bans.data[i] == token) return 1;
  return 0;
}

/* Tokens to ask the model for after each row of a sentence: those that can be selected, and as many more as may be banned.
   More than MOST_LIKELIEST: all. Returns -1 if there is no memory. */
static int64_t tokens_needed(Search *search, const Sentence *s) {
  static const int64_t late[] = {51, 53, 21, 5}; /* bytes that begin more than so many, and with room for one token two spaces */
  const RegardOptions *o = s->request->options;
  int64_t most = 0;
  if (s->states || (o->sample && (!o->top_k || s->copy_count))) return INT32_MAX;
  for (int64_t row = 0; row < s->rows; row++) {
    if (list_bans(search, s, row)) return -1;
    int64_t room = room_for(search, s), banned = (int64_t)search->bans.size + 3 * search->is_after_space;
    if (room >= 0 && room < MOST_BYTES) banned += late[room];
    most = banned > most ? banned : most;
  }
  return most + (o->sample ? o->top_k : o->beam + (o->beam > 1));
}

/* Asks for the whole distributions of all rows of a sentence. Returns 0, or -1: no memory. */
static int add_whole(Search *search, Sentence *s, int64_t first) {
  s->whole = search->whole_count;
  if (reserve((void **)&search->whole_rows, &search->whole_capacity, (size_t)(search->whole_count + s->rows), sizeof(int64_t))) return -1;
  for (int64_t row = 0; row < s->rows; row++) search->whole_rows[search->whole_count++] = first + row;
  return 0;
}

/* Finds out what all sentences need of the model. Returns 0, or -1: no memory. */
static int plan_step(Search *search) {
  int64_t first = 0;
  search->likeliest = search->whole_count = 0;
  search->decoder->step.has_copies = 0;
  for (int64_t i = 0; i < search->count; first += search->sentences[i++].rows) {
    Sentence *s = search->sentences + i;
    int64_t needed = tokens_needed(search, s);
    if (needed < 0) return -1;
    search->decoder->step.has_copies |= s->copy_count > 0;
    s->whole = -1;
    if (needed > MOST_LIKELIEST) {
      if (add_whole(search, s, first)) return -1;
      needed = 0;
    }
    if (s->request->trace && TRACE_WIDTH > needed) needed = TRACE_WIDTH;
    if (needed > search->likeliest) search->likeliest = needed;
  }
  return 0;
}

/* --- one step of one sentence --------------------------------------------------------------------------------- */

typedef struct { /* what the model says of the tokens after a row of a sentence; columns from `count` on are copy tokens */
  int64_t number, count;
  const float *log_probs; /* (count) */
  const int64_t *tokens;  /* (count) likeliest first; NULL: all of the vocabulary, in which copy tokens are, too */
  float end;              /* log-probability of end of sentence */
  uint8_t state;          /* of the text that the row has written */
  const float *copy_log_probs;
  const RegardModel *model;
} Row;

static Row row_of(const Search *search, const Sentence *s, int64_t first, int64_t number) {
  const Step *step = &search->decoder->step;
  const RegardModel *m = search->decoder->model;
  int64_t vocabulary = m->settings.target_vocabulary, row = first + number;
  if (s->whole >= 0) {
    const float *log_probs = search->log_probs + (s->whole + number) * vocabulary;
    return (Row){number, vocabulary, log_probs, NULL, log_probs[EOS], step->states[row], NULL, m};
  }
  return (Row){number, step->k, step->log_probs + row * step->k, step->top + row * step->k, step->eos_log_probs[row], step->states[row], step->copy_log_probs + row * m->copy_count, m};
}

static int32_t token_of(const Row *r, int64_t column) { return !r->tokens ? (int32_t)column : column < r->count ? (int32_t)r->tokens[column] : r->model->copies[column - r->count]; }

static float log_prob_of(const Row *r, int64_t column) { return column < r->count ? r->log_probs[column] : r->copy_log_probs[column - r->count]; }

/* The column of the copy token of this number. */
static int64_t copy_column(const Row *r, int64_t number) { return r->tokens ? r->count + number : r->model->copies[number]; }

/* Finds out what the row that was listed last may write for its copy tokens: these alone if they need all the room; the likeliest
   of them where it would end. */
static void plan_copies(Search *search, const Sentence *s, const Row *r) {
  search->needs_copies = search->missing && r->state == WHOLE && s->request->max_steps - 1 - s->length <= search->missing;
  search->raised = -1;
  for (int64_t n = 0; n < r->model->copy_count && search->missing && r->state == WHOLE && !search->needs_copies; n++) {
    int64_t column = copy_column(r, n);
    if (is_missing_copy(s, r->number, r->model->copies[n]) && (search->raised < 0 || log_prob_of(r, column) > log_prob_of(r, search->raised))) search->raised = column;
  }
}

/* What a column of this row is selected by: that of the end for the copy token that is written instead. */
static float score_of(const Search *search, const Row *r, int64_t column) {
  float log_prob = log_prob_of(r, column);
  return column == search->raised && r->end > log_prob ? r->end : log_prob;
}

/* Whether the token of a column may come next in the row, which was listed last. */
static int is_open(const Search *search, const Sentence *s, const Row *r, int64_t column) {
  const Terms *terms = &s->request->terms;
  int32_t token = token_of(r, column);
  int is_copy = search->missing && r->state == WHOLE && r->model->suppressed[token] == 0xff && is_missing_copy(s, r->number, token);
  if (!(log_prob_of(r, column) > -INFINITY) || (r->model->suppressed[token] >> r->state & 1 && !is_copy)) return 0;
  if (search->needs_copies && !is_copy) return 0;
  return !is_banned(search, s, token) && (!s->states || terms_allow(terms, s->states + r->number * terms->state_size, token));
}

/* Inserts a candidate into the best, sorted; of equals the earlier one stays ahead. */
static int64_t insert(Beam *best, int64_t count, int64_t most, Beam candidate) {
  if (count == most && !(candidate.score > best[count - 1].score)) return count;
  int64_t i = count < most ? count : most - 1;
  for (; i > 0 && candidate.score > best[i - 1].score; i--) best[i] = best[i - 1];
  best[i] = candidate;
  return count < most ? count + 1 : most;
}

/* Draws the only column of a row that samples. */
static int draw(Search *search, const Sentence *s, const Row *r) {
  const RegardOptions *o = s->request->options;
  if (reserve((void **)&search->scores, &search->score_capacity, (size_t)r->count, sizeof(float)) ||
      reserve((void **)&search->next.data, &search->next.capacity, (size_t)r->count, sizeof(int32_t)))
    return -1;
  for (int64_t j = 0; j < r->count; j++) search->scores[j] = is_open(search, s, r, j) ? score_of(search, r, j) : -INFINITY;
  int64_t column = draw_column(search->scores, r->count, search->next.data, o, uniform(o->seed, s->request->sampling_key, s->length, r->number));
  return column < 0 ? 0 : add_token(&search->columns, (int32_t)column);
}

/* Sets the columns of a row that can be selected: of whole distributions the best, and those of tokens that its terms await. */
static int rank_columns(Search *search, const Sentence *s, const Row *r) {
  TokenBuffer *columns = &search->columns;
  size_t most = (size_t)s->request->options->beam + 1;
  columns->size = 0;
  if (list_bans(search, s, r->number)) return -1;
  plan_copies(search, s, r);
  if (s->request->options->sample) return draw(search, s, r);
  for (int64_t j = 0; j < r->count; j++) {
    int is_full = !r->tokens && columns->size == most;
    if ((is_full && !(score_of(search, r, j) > score_of(search, r, columns->data[most - 1]))) || !is_open(search, s, r, j)) continue;
    if (!is_full && add_token(columns, 0)) return -1;
    size_t i = columns->size - 1;
    for (; !r->tokens && i > 0 && score_of(search, r, j) > score_of(search, r, columns->data[i - 1]); i--) columns->data[i] = columns->data[i - 1];
    columns->data[i] = (int32_t)j;
  }
  for (int64_t n = 0; n < r->model->copy_count && r->tokens && search->missing; n++)
    if (is_open(search, s, r, copy_column(r, n)) && add_token(columns, (int32_t)copy_column(r, n))) return -1;
  if (!s->states) return 0;
  if (terms_next(&s->request->terms, s->states + r->number * s->request->terms.state_size, &search->next)) return -1;
  for (size_t n = 0; n < search->next.size; n++) {
    int is_new = search->next.data[n] != EOS && is_open(search, s, r, search->next.data[n]);
    for (size_t i = 0; i < columns->size; i++) is_new &= columns->data[i] != search->next.data[n];
    if (is_new && add_token(columns, search->next.data[n])) return -1;
  }
  return 0;
}

/* Adds a continuation of a row to the candidates: all if their banks are to be shared out, or each row has but one. */
static int add_candidate(Search *search, const Sentence *s, const Row *r, int32_t token, float log_prob, float score) {
  const Beam *b = s->beams + r->number;
  const Terms *terms = &s->request->terms;
  Beam candidate = {r->number, token, (int32_t)search->candidate_count, b->log_prob + (double)log_prob, b->score + (double)score, 0};
  if (!s->states && !s->request->options->sample) {
    search->candidate_count = insert(search->candidates, search->candidate_count, 2 * (int64_t)s->request->options->beam, candidate);
    return 0;
  }
  if (s->states) candidate.bank = terms_bank(terms, s->states + r->number * terms->state_size, token);
  if (reserve((void **)&search->candidates, &search->candidate_capacity, (size_t)search->candidate_count + 1, sizeof(Beam))) return -1;
  search->candidates[search->candidate_count++] = candidate;
  return 0;
}

static int by_score(const void *a, const void *b) {
  const Beam *x = a, *y = b;
  return x->score != y->score ? (x->score < y->score ? 1 : -1) : (x->order > y->order) - (x->order < y->order);
}

/* Finds the continuations of a sentence, best first. Rows that must end, or cannot go on, end. Returns 0, or -1: no memory. */
static int find_candidates(Search *search, const Sentence *s, int64_t first) {
  int is_due = s->length + 1 >= s->request->max_steps, failed = 0;
  search->candidate_count = 0;
  for (int64_t row = 0; row < s->rows && !failed; row++) {
    Row r = row_of(search, s, first, row);
    if (rank_columns(search, s, &r)) return -1;
    for (int64_t j = 0; j < r.count && r.tokens; j++)
      if (r.log_probs[j] != r.log_probs[j]) search->columns.size = 0; /* NaN */
    if (is_due || !search->columns.size) failed = add_candidate(search, s, &r, EOS, r.end, search->columns.size ? 0 : LAST_RESORT);
    for (size_t i = 0; i < search->columns.size && !is_due && !failed; i++) {
      int32_t column = search->columns.data[i];
      failed = add_candidate(search, s, &r, token_of(&r, column), log_prob_of(&r, column), score_of(search, &r, column));
    }
  }
  if (!failed && (s->states || s->request->options->sample)) qsort(search->candidates, (size_t)search->candidate_count, sizeof(Beam), by_score);
  return failed;
}

/* Whether a row has all that it must hold, and the model has placed the copy tokens itself. */
static int is_complete(const Sentence *s, int64_t row) {
  const Terms *terms = &s->request->terms;
  if (s->copy_count && s->beams[row].score != s->beams[row].log_prob) return 0;
  for (int64_t n = 0; n < s->copy_count; n++)
    if (is_missing_copy(s, row, s->copies[n])) return 0;
  return !s->states || terms_are_complete(terms, s->states + row * terms->state_size);
}

static int finish(Sentence *s, const Beam *b, double length_penalty) {
  if (reserve((void **)&s->finished, &s->finished_capacity, s->finished_count + 1, sizeof(Hypothesis))) return -1;
  int32_t *ids = malloc((size_t)(s->length + 1) * (sizeof *ids + sizeof(float)));
  if (!ids) return -1;
  float *log_probs = (float *)(ids + s->length + 1);
  const double *totals = s->totals + b->parent * s->capacity;
  memcpy(ids, s->history + b->parent * s->capacity, (size_t)s->length * sizeof *ids);
  for (int64_t i = 0; i < s->length; i++) log_probs[i] = (float)(totals[i] - (i ? totals[i - 1] : 0));
  double penalty = pow((5.0 + (double)(s->length + 1)) / 6.0, length_penalty);
  s->finished[s->finished_count++] = (Hypothesis){ids, log_probs, s->length, b->log_prob, b->log_prob / penalty, is_complete(s, b->parent)};
  if (s->request->trace) trace_fate(s->request->trace, b->parent, EOS, ENDED);
  return 0;
}

/* Lets the rows of a sentence follow the selected beams; `first` is its first row of the step. */
static int follow(Search *search, Sentence *s, int64_t first, int64_t selected) {
  Decoder *d = search->decoder;
  const Terms *terms = &s->request->terms;
  int is_recurrent = d->model->settings.is_recurrent;
  if (s->length + 1 >= s->capacity && grow_sentence(s, s->request->options->beam, 2 * s->capacity)) return -1;
  for (int64_t row = 0; row < selected; row++) {
    const Beam *b = search->selected + row;
    int32_t *history = s->other_history + row * s->capacity;
    double *totals = s->other_totals + row * s->capacity;
    float **past = s->other_past + row * s->capacity;
    memcpy(history, s->history + b->parent * s->capacity, (size_t)s->length * sizeof *history);
    memcpy(totals, s->totals + b->parent * s->capacity, (size_t)s->length * sizeof *totals);
    history[s->length] = b->token, totals[s->length] = b->log_prob;
    if (s->states) terms_advance(terms, s->states + b->parent * terms->state_size, b->token, s->other_states + row * terms->state_size);
    if (s->request->trace && trace_kept(s->request->trace, s, b)) return -1;
    if (!is_recurrent) memcpy(past, s->past + b->parent * s->capacity, (size_t)s->length * sizeof *past);
    past[is_recurrent ? 0 : s->length] = d->step.blocks[first + b->parent];
    s->beams[row] = *b;
  }
  int32_t *history = s->history;
  double *totals = s->totals;
  float **past = s->past;
  uint8_t *states = s->states;
  s->states = s->other_states, s->other_states = states;
  s->totals = s->other_totals, s->other_totals = totals;
  s->history = s->other_history, s->other_history = history, s->past = s->other_past, s->other_past = past;
  s->rows = selected, s->length++;
  if (is_recurrent) sweep(s, d, 1);
  else if (s->request->options->beam > 1 && s->length % SWEEP_EVERY == 0) sweep(s, d, s->length);
  return 0;
}

/* Keeps the candidates that the banks of a sentence with terms have room for. Returns how many, or -1: no memory. */
static int64_t share_out(Search *search, const Sentence *s, int with_end, Beam *kept) {
  int64_t last = s->request->terms.required, count = 0;
  if (reserve((void **)&search->banks, &search->bank_capacity, (size_t)last + 1, sizeof(int64_t))) return -1;
  memset(search->banks, 0, (size_t)(last + 1) * sizeof(int64_t));
  for (int64_t i = 0; i < search->candidate_count; i++) search->banks[search->candidates[i].bank] += with_end || search->candidates[i].token != EOS;
  allocate_banks(search->banks, last, s->request->options->beam);
  for (int64_t i = 0; i < search->candidate_count; i++) {
    const Beam *b = search->candidates + i;
    if ((with_end || b->token != EOS) && search->banks[b->bank]-- > 0) kept[count++] = *b;
  }
  return count;
}

/* Moves a sentence on. Returns 1 if it goes on, 0 if it is done, -1 if there is no memory. */
static int advance(Search *search, Sentence *s, int64_t first) {
  const RegardOptions *o = s->request->options;
  if (s->request->trace && trace_step(s->request->trace, s, &search->decoder->step, first)) return -1;
  if (find_candidates(search, s, first)) return -1;
  int64_t best = s->states ? share_out(search, s, 1, search->selected) : search->candidate_count, selected = 0;
  if (best < 0) return -1;
  for (int64_t i = 0; i < best && i < o->beam; i++) {
    const Beam *b = (s->states ? search->selected : search->candidates) + i;
    if (b->token == EOS && finish(s, b, o->length_penalty)) return -1;
  }
  if (s->length + 1 >= s->request->max_steps || s->finished_count >= (size_t)o->beam) return 0;
  if (s->states) selected = share_out(search, s, 0, search->selected);
  for (int64_t i = 0; i < best && selected < o->beam && !s->states; i++)
    if (search->candidates[i].token != EOS) search->selected[selected++] = search->candidates[i];
  if (selected <= 0) return (int)selected;
  return follow(search, s, first, selected) ? -1 : 1;
}

/* Hands the hypotheses of a sentence to its request, best first, as many as the beam is wide at most. */
static void deliver(Sentence *s) {
  Request *request = s->request;
  for (size_t i = 1; i < s->finished_count; i++) { /* stable */
    Hypothesis h = s->finished[i];
    size_t j = i;
    for (; j > 0 && (h.is_complete > s->finished[j - 1].is_complete || (h.is_complete == s->finished[j - 1].is_complete && h.score > s->finished[j - 1].score)); j--) s->finished[j] = s->finished[j - 1];
    s->finished[j] = h;
  }
  while (s->finished_count > (size_t)request->options->beam) free(s->finished[--s->finished_count].ids);
  if (request->trace) trace_finish(request->trace, s);
  request->hypotheses = s->finished, request->found = (int64_t)s->finished_count;
  s->finished = NULL, s->finished_count = 0;
}

static int64_t widest_beam(const Search *search) {
  int64_t widest = 1;
  for (int64_t i = 0; i < search->count; i++) {
    int64_t beam = search->sentences[i].request->options->beam;
    widest = beam > widest ? beam : widest;
  }
  return widest;
}

/* --- one step of all ------------------------------------------------------------------------------------------ */

/* State of the text that a row has written; its last three tokens tell. */
static int state_of(const Sentence *s, int64_t row) {
  int state = WHOLE;
  for (int64_t i = s->length > 3 ? s->length - 3 : 0; i < s->length; i++) {
    int byte = tokenizer_byte(s->target, s->history[row * s->capacity + i]), next = byte < 0 ? WHOLE : utf8_next(state, byte);
    if (next < 0) next = utf8_next(WHOLE, byte);
    state = next < 0 ? WHOLE : next;
  }
  return state;
}

/* Lays out the rows of all open sentences for the model. */
static int lay_out(Search *search) {
  Decoder *d = search->decoder;
  Step *step = &d->step;
  int is_recurrent = d->model->settings.is_recurrent;
  int64_t rows = 0, longest = 1, n = 0;
  for (int64_t i = 0; i < search->count; i++) {
    rows += search->sentences[i].rows;
    if (!is_recurrent && search->sentences[i].length > longest) longest = search->sentences[i].length;
  }
  if (plan_step(search) || reserve_step(d, rows, longest, search->likeliest)) return -1;
  for (int64_t i = 0; i < search->count; i++) {
    Sentence *s = search->sentences + i;
    int64_t blocks = is_recurrent ? 1 : s->length;
    for (int64_t row = 0; row < s->rows; row++, n++) {
      step->tokens[n] = s->beams[row].token, step->positions[n] = s->length, step->lengths[n] = blocks;
      step->states[n] = (uint8_t)state_of(s, row);
      step->memories[n] = s->source.memory, step->entries[n] = s->source.entries;
      memcpy(step->past + n * longest, s->past + row * s->capacity, (size_t)blocks * sizeof(float *));
      if (!(step->blocks[n] = new_block(s, d))) return -1;
    }
  }
  return 0;
}

/* Decodes the prefix that a request asks for, before its sentence is searched beside others. */
static int force_prefix(Decoder *d, Sentence *s) {
  const Request *r = s->request;
  Beam forced;
  Search alone = {.decoder = d, .sentences = s, .count = 1, .selected = &forced};
  const float *features;
  const float *log_probs;
  int failed = 0;
  for (int64_t i = 0; i < r->prefix_count && !failed; i++) {
    int32_t token = r->prefix[i];
    failed = lay_out(&alone) || run_step(d, NULL, &features) || find_log_probs(d, features, &(int64_t){0}, 1, &log_probs) || list_bans(&alone, s, 0);
    if (failed) break;
    float log_prob = log_probs[token];
    int is_closed = !(log_prob > -INFINITY) || is_banned(&alone, s, token) || (s->states && !terms_allow(&r->terms, s->states, token));
    failed = r->trace && (find_top_tokens(d, features, alone.likeliest) || trace_step(r->trace, s, &d->step, 0) || trace_forced(r->trace, s, token, log_prob));
    forced = (Beam){.token = token, .log_prob = s->beams[0].log_prob + (double)log_prob, .score = s->beams[0].score + (double)(is_closed ? FORCED : log_prob)};
    failed = failed || follow(&alone, s, 0, 1);
  }
  free_scratch(&alone);
  return failed ? -1 : 0;
}

int search_step(Search *search) {
  Decoder *d = search->decoder;
  const float *features;
  if (!search->count) return 0;
  size_t beam = (size_t)widest_beam(search);
  if (reserve((void **)&search->candidates, &search->candidate_capacity, 2 * beam + 1, sizeof(Beam)) ||
      reserve((void **)&search->selected, &search->selected_capacity, beam + 1, sizeof(Beam)))
    return -1;
  if (lay_out(search) || run_step(d, NULL, &features) || (search->likeliest && find_top_tokens(d, features, search->likeliest)) ||
      (search->whole_count && find_log_probs(d, features, search->whole_rows, search->whole_count, &search->log_probs)))
    return -1;
  int64_t first = 0, kept = 0;
  for (int64_t i = 0; i < search->count; i++) {
    Sentence *s = search->sentences + i;
    int64_t rows = s->rows;
    int outcome = advance(search, s, first);
    first += rows;
    if (outcome < 0) {
      memmove(search->sentences + kept, s, (size_t)(search->count - i) * sizeof *s);
      search->count = kept + search->count - i;
      return -1;
    }
    if (outcome) {
      if (kept != i) search->sentences[kept] = *s, memset(s, 0, sizeof *s);
      kept++;
    } else {
      Request *request = s->request;
      deliver(s);
      free_sentence(s, d);
      if (request->done) request->done(request);
    }
  }
  search->count = kept;
  return 0;
}

void search_drop(Search *search, int (*is_unwanted)(const Request *)) {
  int64_t kept = 0;
  for (int64_t i = 0; i < search->count; i++) {
    Sentence *s = search->sentences + i;
    if (is_unwanted(s->request)) {
      free_sentence(s, search->decoder);
    } else {
      if (kept != i) search->sentences[kept] = *s, memset(s, 0, sizeof *s);
      kept++;
    }
  }
  search->count = kept;
}

/* --- many requests, on several threads ------------------------------------------------------------------------ */

typedef struct { /* requests that no thread has begun, longest source first */
  RegardModel *model;
  Request **requests;
  int64_t count, next;
  int threads, team, failed;
  Lock lock;
} Queue;

static int by_length(const void *a, const void *b) {
  const Request *x = *(Request *const *)a, *y = *(Request *const *)b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  return x < y ? -1 : x > y;
}

Room room_of(const Search *search) {
  Room room = {.is_idle = !search->count};
  for (int64_t i = 0; i < search->count; i++) {
    const Request *r = search->sentences[i].request;
    room.rows += r->options->beam, room.tokens += r->count;
  }
  room.is_full = room.rows > ROWS * 3 / 4; /* a few rows are not worth a step of their own to encode */
  return room;
}

int room_takes(Room *room, const Request *r) {
  int64_t rows = room->rows + r->options->beam;
  int fits = !room->is_full && rows <= ROWS && room->tokens + r->count <= OPEN_TOKENS && room->encoded + r->count <= SOURCE_TOKENS;
  if (room->joining && room->takes_encoded != (r->encoded != NULL)) return 0;
  if (!fits && !(room->is_idle && !room->joining)) return 0;
  room->takes_encoded = r->encoded != NULL;
  room->rows = rows, room->tokens += r->count, room->encoded += r->count, room->joining++;
  return 1;
}

int64_t fair_share(int64_t requests, int threads) {
  int64_t share = (requests + threads - 1) / threads;
  return share < MIN_SHARE ? MIN_SHARE : share;
}

/* Takes the next requests that fit beside the open sentences: some 512 source tokens, encoded together. */
static int64_t take_requests(Queue *q, const Search *search, Request **taken) {
  Room room = room_of(search);
  lock(&q->lock);
  int64_t share = fair_share(q->count - q->next, q->threads);
  while (q->next < q->count && !q->failed && room.joining < share && room_takes(&room, q->requests[q->next])) taken[room.joining - 1] = q->requests[q->next++];
  unlock(&q->lock);
  return room.joining;
}

static int work_off(Queue *q, Search *search) {
  Request *taken[MOST_JOINING];
  for (int64_t count;;) {
    while ((count = take_requests(q, search, taken)))
      if (search_begin(search, taken, count)) return -1;
    if (!search->count) return 0;
    if (search_step(search)) return -1;
  }
}

static void *work(void *argument) {
  Queue *q = argument;
  Decoder *d = take_decoder(q->model, q->team);
  Search search = {.decoder = d};
  int failed = !d || work_off(q, &search);
  if (d) {
    search_free(&search);
    give_decoder(q->model, d);
  }
  if (failed) {
    lock(&q->lock);
    q->failed = 1;
    unlock(&q->lock);
  }
  return NULL;
}

#define SMALL 8000 /* thousand parameters of a model whose steps are over before a second thread has woken */

int team_size(const RegardModel *model, int threads) {
  int64_t panels = model->programs[STEP].widths[model->settings.features] / PANEL;
  if (model->settings.parameters_in_thousands < SMALL || threads < 1 || panels < 1) return 1;
  return threads < panels ? threads : (int)(panels < MOST_THREADS ? panels : MOST_THREADS);
}

/* Sorts requests into a queue. Returns 0, or -1 if there is no memory. */
static int open_queue(Queue *q, RegardModel *model, Request *requests, int64_t count) {
  *q = (Queue){.model = model, .count = count, .threads = 1, .team = 1};
  q->requests = malloc((size_t)(count + 1) * sizeof *q->requests);
  if (!q->requests) return -1;
  for (int64_t i = 0; i < count; i++) q->requests[i] = requests + i;
  qsort(q->requests, (size_t)count, sizeof *q->requests, by_length);
  lock_open(&q->lock);
  return 0;
}

static void close_queue(Queue *q) {
  lock_close(&q->lock);
  free(q->requests);
}

int search_all(RegardModel *model, Request *requests, int64_t count, int threads) {
  Queue q;
  threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
  if (!count) return 0;
  if (open_queue(&q, model, requests, count)) return -1;
  if (count == 1) q.team = team_size(model, threads), threads = 1;
  if (threads > count) threads = (int)count;
  q.threads = threads;
#if !defined(__wasm__)
  pthread_t others[MOST_THREADS];
  int started = 0;
  while (started < threads - 1 && !pthread_create(others + started, NULL, work, &q)) started++;
  work(&q);
  for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
#else
  work(&q);
#endif
  close_queue(&q);
  if (!q.failed) return 0;
  for (int64_t i = 0; i < count; i++) free_hypotheses(requests + i);
  return -1;
}

struct Steps {
  Queue queue;
  Search search;
};

Steps *steps_open(RegardModel *model, Request *requests, int64_t count) {
  Steps *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  if (!open_queue(&s->queue, model, requests, count)) {
    if ((s->search.decoder = take_decoder(model, 1))) return s;
    close_queue(&s->queue);
  }
  free(s);
  return NULL;
}

#define STEP_TOKENS 128 /* source tokens that are encoded before a step, or one source: so that it takes not much longer than others */

int64_t steps_next(Steps *s) {
  Queue *q = &s->queue;
  Room room = room_of(&s->search);
  Request **joining = q->requests + q->next;
  while (q->next < q->count && (!room.joining || room.encoded + q->requests[q->next]->count <= STEP_TOKENS) && room_takes(&room, q->requests[q->next])) q->next++;
  if (room.joining && search_begin(&s->search, joining, room.joining)) return -1;
  if (search_step(&s->search)) return -1;
  return s->search.count + q->count - q->next;
}

void steps_free(Steps *s) {
  if (!s) return;
  search_free(&s->search);
  give_decoder(s->queue.model, s->search.decoder);
  close_queue(&s->queue);
  free(s);
}
