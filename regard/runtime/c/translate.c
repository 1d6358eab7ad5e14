/* Lines in, translations out: tokenised, split if they are long, searched, put together again. */

#include "forced.h"
#include "result.h"
#include "sampling.h"
#include "splitter.h"
#include "threads.h"
#include "trace.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

#define PARTS_TOGETHER 64 /* parts of hypotheses whose attention is read together */
#define MOST_ENTRIES 1048576 /* of a source that is encoded already */
#define MOST_REQUIRED 65536 /* tokens of all forms of the terms of a source */
#define QUOTED(number) #number
#define TEXT_OF(number) QUOTED(number)
#define MIN_TIMES 5   /* copies of an n-gram in a row, */
#define MIN_TOKENS 20 /* and tokens in all of them, from which on it is a runaway repetition */

typedef struct { /* one hypothesis of a line, put together from those of its parts */
  RegardHypothesis shown; /* first; made at the end of what follows */
  TextBuffer text;
  TokenBuffer tokens;
  float *log_probs; /* of each token */
  RegardLink *links;
  size_t link_count, link_capacity;
  Forced forced; /* of a line of one part */
  RegardPart *parts; /* text: where it begins in the text of the line */
} Translation;

typedef struct { /* a line, and where its parts are among the segments */
  RegardLine shown;
  int64_t first, parts, decoded; /* decoded: parts that are not copied */
  size_t code; /* bytes of its language code */
  Translation *hypotheses;
  char *note;
} Line;

typedef struct { /* a part of a line that is decoded as one source, or copied: a text without letters */
  int32_t *ids;     /* NULL: copied, or encoded already */
  int64_t count;
  TextBuffer text;  /* as it is in the line, with the space behind it */
  Request *request; /* NULL: copied */
  const RegardEncoded *encoded;
} Segment;

typedef struct Block { /* memory of a result; its content follows */
  _Alignas(16) struct Block *next;
} Block;

struct RegardResult {
  RegardModel *model;
  RegardOptions options;
  Line *lines;
  size_t count;
  Segment *segments;
  size_t segment_count, segment_capacity, request_count;
  Request *requests;
  int32_t *prefixes; /* of all lines, one after another */
  Banned *banned;    /* a list of all tables */
  Trace *trace;      /* of the only line; NULL: not asked for */
  Block *copies;     /* of what was the caller's */
  Steps *steps;      /* of the search that is going on; NULL: the lines are there */
};

static const RegardLink NO_LINKS[1];

/* --- options and lines ---------------------------------------------------------------------------------------- */

static int check_options(const RegardModel *m, const RegardOptions *o, int is_encoded, char *error, size_t size) {
  const char *problem = NULL;
  if (o->beam < 1 || o->beam > (o->sample ? MAX_SAMPLES : MAX_COMPARED)) problem = "beam: wanted 1 to " TEXT_OF(MAX_COMPARED) ", or to " TEXT_OF(MAX_SAMPLES) " samples";
  else if (o->nbest < 1 || o->nbest > o->beam) problem = "nbest: wanted 1 to the beam; lower it, or widen the beam";
  else if (!(o->length_penalty >= 0 && o->length_penalty <= MAX_LENGTH_PENALTY)) problem = "length_penalty: wanted 0 to " TEXT_OF(MAX_LENGTH_PENALTY);
  else if (!(o->max_ratio > 0 && o->max_ratio <= MAX_RATIO)) problem = "max_ratio: wanted more than 0, and " TEXT_OF(MAX_RATIO) " at most";
  else if (o->max_extra < 1 || o->min_length < 0 || o->max_length < -1 || o->max_length == 0) problem = "max_extra, min_length, max_length: wanted a positive number";
  else if (o->max_length > 0 && o->min_length > o->max_length) problem = "min_length is more than max_length; lower it";
  else if (o->no_repeat_ngram < 0 || o->max_line < 1 || o->max_whole < 1) problem = "no_repeat_ngram, max_line, max_whole: wanted a positive number";
  else if (o->alignments && !m->settings.entry) problem = "alignments: this model has no attention, so it has no alignments to extract";
  else if (is_encoded && (o->attention || o->alignments || o->states)) problem = "attention, alignments, states: wanted 0 for sources that are encoded already";
  else if (o->states && !regard_recurrence(m)) problem = "states: neither the encoder nor the decoder of this model is recurrent, so there are no states to record; leave `states` 0";
  else if (!is_encoded && !m->programs[ENCODER].count) problem = "this model has no encoder, so it reads neither text nor token ids; give `regard_translate_encoded` the outputs of one";
  else if (o->sample && !(o->temperature > 0 && o->top_p >= 0 && o->top_p <= 1 && o->top_k >= 0)) problem = "temperature, top_p, top_k: wanted more than 0, 0 to 1, and a number of tokens or 0";
  if (problem) explain(error, size, "%s", problem);
  return problem ? -1 : 0;
}

/* No output is empty, as with Python's pipelines. */
static void never_empty(RegardOptions *o) {
  if (o->min_length < 1) o->min_length = 1;
}

static int64_t count_characters(const char *text, size_t size) {
  int64_t count = 0;
  for (size_t i = 0; i < size; i++) count += ((uint8_t)text[i] & 0xc0) != 0x80;
  return count;
}

static int64_t count_spaces(const char *text, size_t size) {
  int64_t count = 0;
  for (size_t i = 0; i < size; i++) count += text[i] == ' ';
  return count;
}

static size_t without_space(const char *text, size_t size) { return size && text[size - 1] == ' ' ? size - 1 : size; }

/* Appends a part of a line to the segments: [start, end) of it after its code. It is tokenised as a source of its own
   after the code, unless it is copied. Returns 0, or -1 if there is no memory. */
static int add_segment(RegardResult *r, const TextBuffer *line, size_t code, size_t start, size_t end, int is_decoded) {
  TokenBuffer tokens = {0};
  TextBuffer read = {0};
  if (reserve((void **)&r->segments, &r->segment_capacity, r->segment_count + 1, sizeof(Segment))) return -1;
  Segment *segment = r->segments + r->segment_count++;
  *segment = (Segment){0};
  const char *text = line->data + code + start;
  if ((!start && text_append(&segment->text, line->data, code)) || text_append(&segment->text, text, end - start)) return -1;
  if (!is_decoded) return 0;
  int failed = (code && (text_append(&read, line->data, code) || (start && text_append(&read, " ", 1)))) ||
               text_append(&read, text, without_space(text, end - start)) || tokenizer_encode(r->model->source, read.data, read.size, &tokens) ||
               reserve((void **)&tokens.data, &tokens.capacity, tokens.size + 1, sizeof(int32_t));
  text_free(&read);
  if (failed) {
    tokens_free(&tokens);
    return -1;
  }
  tokens.data[tokens.size++] = EOS;
  segment->ids = tokens.data, segment->count = (int64_t)tokens.size;
  r->request_count++;
  return 0;
}

/* Splits a line; one with terms stays whole, because nobody knows which part they belong to, and sentences behind a prefix stay together. */
static int split(RegardResult *r, Line *line, const TextBuffer *clean, const RegardConstraints *constraints) {
  size_t code = line->code;
  int has_prefix = constraints && constraints->prefix_size;
  if (constraints && constraints->term_count) return add_segment(r, clean, code, 0, clean->size - code, 1);
  int64_t longest = r->model->settings.longest_source;
  Splitter s = {.tokenizer = r->model->source, .code = clean->data, .code_size = code, .longest = longest > 0 ? longest : INT64_MAX, .each_sentence = r->options.split && !has_prefix, .line_clauses = r->model->settings.lines / 2, .line = clean->data + code, .size = clean->size - code};
  Parts parts = {0};
  int failed = split_line(&s, &parts);
  for (size_t i = 0; i < parts.count && !failed; i++) {
    Part part = parts.data[i];
    failed = add_segment(r, clean, code, part.start, part.end, has_prefix || has_letters(s.line + part.start, part.end - part.start));
  }
  if (!failed && s.notes.size) line->note = s.notes.data, s.notes.data = NULL;
  free(parts.data), splitter_free(&s);
  return failed ? -1 : 0;
}

/* Says why the sources of a line are too long for this model, if they are. */
static int check_sources(const RegardResult *r, const Line *line, int has_terms, size_t number, char *error, size_t error_size) {
  const Settings *s = &r->model->settings;
  for (int64_t i = line->first; i < line->first + line->parts; i++) {
    long long tokens = (long long)r->segments[i].count;
    if ((has_terms || s->longest_source < 0) && tokens > r->options.max_whole && tokens > s->longest_source) {
      const char *what = has_terms ? "a line with terms" : "this model, which does not know its longest source,";
      explain(error, error_size, "line %zu: has %lld tokens, and %s is translated whole, up to %d tokens; give its sentences in lines of their own, or raise that limit (`max_whole`)", number + 1, tokens, what, r->options.max_whole);
      return -1;
    }
    if (s->source_positions && tokens > s->source_positions) {
      explain(error, error_size, "line %zu: has %lld tokens, and this file has positions for %d; give its sentences in lines of their own", number + 1, tokens, s->source_positions);
      return -1;
    }
  }
  return 0;
}

/* Cleans a line and makes segments of it: none if it is empty, several if it holds several sentences or a long one. */
static int read_line(RegardResult *r, Line *line, size_t number, const char *text, size_t size, const RegardConstraints *constraints, TextBuffer *clean, char *error, size_t error_size) {
  clean->size = 0;
  line->first = (int64_t)r->segment_count;
  if (count_characters(text, size) > r->options.max_line) {
    explain(error, error_size, "line %zu: has more than %d characters; break it at the ends of sentences, or raise that limit (`max_line`)", number + 1, r->options.max_line);
    return -1;
  }
  int outcome = text_clean(text, size, clean);
  if (outcome == TOKENIZER_NOT_UTF8) explain(error, error_size, "line %zu: is not UTF-8; save the text as UTF-8", number + 1);
  if (outcome) return -1;
  if (!clean->size) return 0;
  line->code = tokenizer_language_code(r->model->source, clean->data, clean->size);
  int64_t before = (int64_t)r->request_count;
  if (split(r, line, clean, constraints)) return -1;
  line->parts = (int64_t)r->segment_count - line->first, line->decoded = (int64_t)r->request_count - before;
  return check_sources(r, line, constraints && constraints->term_count, number, error, error_size);
}

/* Tokens of a source, as max_ratio counts them. */
static int64_t length_of(const Request *r) { return r->encoded ? r->encoded->length : r->count; }
static int is_writable(const RegardModel *m, int32_t token) {
  return token >= 0 && token < tokenizer_size(m->target) && token < m->settings.target_vocabulary && token != EOS && m->suppressed[token] != 0xff;
}

/* Checks the tokens that a target is to begin with, and the room for so many that are required. */
static int check_required(const RegardResult *r, const Request *request, int64_t required, size_t number, char *error, size_t error_size) {
  const RegardModel *m = r->model;
  for (int64_t i = 0; i < request->prefix_count; i++) {
    if (is_writable(m, request->prefix[i])) continue;
    explain(error, error_size, "line %zu: prefix: token %d is none that a target may hold; take those of `regard_encode_target`", number + 1, request->prefix[i]);
    return -1;
  }
  if (!required || required < request->max_steps) return 0;
  explain(error, error_size, "line %zu: %lld tokens are required, and a target may have at most %lld (`max_length`, or the model's limit); raise it, or require less", number + 1, (long long)required, (long long)request->max_steps - 1);
  return -1;
}

/* Checks the terms of a line. */
static int check_terms(const RegardResult *r, const RegardConstraints *c, size_t number, char *error, size_t error_size) {
  int64_t total = 0;
  int ok = (!c->term_count || c->terms) && !(c->term_count && r->options.sample);
  for (size_t i = 0; i < c->term_count && ok; i++) {
    const RegardTerm *t = c->terms + i;
    ok = t->ids && t->sizes && t->forms > 0 && t->initial_forms >= 0 && t->forms <= MOST_REQUIRED && t->initial_forms <= MOST_REQUIRED;
    const int32_t *id = t->ids;
    for (int32_t f = 0; ok && f < t->forms + t->initial_forms; f++) {
      ok = t->sizes[f] > 0 && (total += t->sizes[f]) <= MOST_REQUIRED;
      for (int32_t n = 0; ok && n < t->sizes[f]; n++) ok = *id >= 0 && *id++ < r->model->settings.target_vocabulary;
    }
  }
  if (ok) return 0;
  explain(error, error_size, "line %zu: terms: wanted forms of 1 or more tokens of a vocabulary of %d, at least one of each term, %d tokens in all at most, and no sampling", number + 1, r->model->settings.target_vocabulary, MOST_REQUIRED);
  return -1;
}

/* Finds the table of what a line may not hold among those that are open, or opens it. */
static int set_banned(RegardResult *r, Request *request, const RegardConstraints *c, char *error, size_t error_size) {
  Banned *b = r->banned;
  while (b && (b->table != c->banned || b->count != c->banned_count)) b = b->next;
  if (!b) {
    if (!(b = banned_open(c->banned, c->banned_count, r->model->settings.target_vocabulary, error, error_size))) return -1;
    b->next = r->banned, r->banned = b;
  }
  request->banned = b;
  return 0;
}

/* Gives a request what is asked of its target; `prefix`: where its prefix is copied to. */
static int constrain(RegardResult *r, Request *request, const RegardConstraints *c, int32_t *prefix, int is_text, size_t number, char *error, size_t error_size) {
  const Settings *s = &r->model->settings;
  if (c->prefix_size && !c->prefix) {
    explain(error, error_size, "line %zu: prefix: wanted %zu tokens, got none", number + 1, c->prefix_size);
    return -1;
  }
  if (c->prefix_size) memcpy(prefix, c->prefix, c->prefix_size * sizeof *prefix);
  request->prefix = prefix, request->prefix_count = (int64_t)c->prefix_size;
  if (check_terms(r, c, number, error, error_size)) return -1;
  request->terms = terms_of(c->terms, c->term_count);
  int64_t required = request->prefix_count + request->terms.required;
  request->max_steps = c->max_steps ? c->max_steps : most_steps_with(r->model, &r->options, length_of(request), required);
  if (request->max_steps < 1 || (s->target_positions > 0 && request->max_steps > s->target_positions)) {
    explain(error, error_size, "line %zu: max_steps: wanted 1 to %d, got %lld", number + 1, s->target_positions > 0 ? s->target_positions : INT32_MAX, (long long)request->max_steps);
    return -1;
  }
  if (!is_text) request->sampling_key = c->sampling_key;
  if (check_required(r, request, is_text ? required : request->prefix_count, number, error, error_size)) return -1;
  return c->banned_count ? set_banned(r, request, c, error, error_size) : 0;
}

/* Gives the parts of each line what is asked of its target: the first its prefix; with terms it has one part. */
static int set_constraints(RegardResult *r, const RegardConstraints *constraints, int is_text, char *error, size_t error_size) {
  size_t total = 0;
  for (size_t i = 0; i < r->count; i++) total += constraints[i].prefix_size;
  r->prefixes = malloc((total + 1) * sizeof *r->prefixes);
  if (!r->prefixes) return -1;
  int32_t *next = r->prefixes;
  for (size_t i = 0; i < r->count; i++) {
    RegardConstraints c = constraints[i];
    const Segment *first = r->segments + r->lines[i].first;
    for (const Segment *part = first; part < first + r->lines[i].parts; part++) {
      if (part > first) c.prefix_size = 0;
      if (part->request && constrain(r, part->request, &c, next, is_text, i, error, error_size)) return -1;
      next += c.prefix_size;
    }
  }
  return 0;
}

static int open_trace(RegardResult *r, char *error, size_t error_size) {
  if (r->count != 1) {
    explain(error, error_size, "trace: one line is recorded at a time, got %zu", r->count);
    return -1;
  }
  int is_one = r->segment_count == 1 && r->request_count == 1;
  if (is_one) r->trace = r->requests->trace = calloc(1, sizeof *r->trace);
  return is_one && !r->trace ? -1 : 0;
}

/* Makes the requests of all segments that are decoded. */
static int make_requests(RegardResult *r) {
  r->requests = calloc(r->request_count + 1, sizeof *r->requests);
  if (!r->requests) return -1;
  Request *next = r->requests;
  for (Segment *s = r->segments; s < r->segments + r->segment_count; s++) {
    if (!s->ids && !s->encoded) continue;
    s->request = next++;
    *s->request = (Request){.source = s->ids, .count = s->encoded ? s->encoded->entries : s->count, .encoded = s->encoded, .options = &r->options, .sampling_key = s->ids ? sampling_key(s->ids, s->count) : 0};
    s->request->max_steps = most_steps(r->model, &r->options, length_of(s->request));
  }
  return 0;
}

static int read_lines(RegardResult *r, const char *const *lines, const size_t *sizes, const RegardConstraints *constraints, char *error, size_t error_size) {
  TextBuffer clean = {0};
  int failed = 0;
  for (size_t i = 0; i < r->count && !failed; i++) failed = read_line(r, r->lines + i, i, lines[i], sizes[i], constraints ? constraints + i : NULL, &clean, error, error_size);
  text_free(&clean);
  return failed ? -1 : make_requests(r);
}

/* Takes sources that are tokens already; each is one segment. */
static int read_ids(RegardResult *r, const int32_t *const *ids, const size_t *counts, char *error, size_t error_size) {
  const Settings *s = &r->model->settings;
  r->segments = calloc(r->count + 1, sizeof *r->segments);
  if (!r->segments) return -1;
  for (; r->segment_count < r->count; r->segment_count++) {
    size_t i = r->segment_count, n = counts[i], known = 0;
    while (known < n && ids[i][known] >= 0 && ids[i][known] < s->source_vocabulary) known++;
    if (!n || known < n || (s->source_positions && n > (size_t)s->source_positions)) {
      explain(error, error_size, "source %zu: wanted 1 to %d tokens of a vocabulary of %d, got %zu, of which the first %zu are", i + 1, s->source_positions ? s->source_positions : INT32_MAX, s->source_vocabulary, n, known);
      return -1;
    }
    int32_t *copy = malloc(n * sizeof *copy);
    if (!copy) return -1;
    memcpy(copy, ids[i], n * sizeof *copy);
    r->segments[i] = (Segment){.ids = copy, .count = (int64_t)n};
    r->lines[i] = (Line){.first = (int64_t)i, .parts = 1, .decoded = 1};
    r->request_count++;
  }
  return make_requests(r);
}

typedef struct { int64_t outputs, embedded, summary; } EncodedSizes;

/* The numbers of each entry, and of the summary, that the decoder needs of an encoded source; 0: none. */
static EncodedSizes encoded_sizes(const RegardModel *m) {
  const Program *memory = m->programs + MEMORY;
  return (EncodedSizes){memory->count ? memory->widths[0] : 0, memory->count && m->settings.needs_embeddings ? memory->widths[1] : 0, m->programs[INITIAL].count ? m->settings.summary_size : 0};
}

static int is_there(const float *numbers, int64_t size, int64_t wanted) { return !wanted || (numbers && size == wanted); }

/* Takes sources that are encoded already; each is one segment. */
static int read_encoded(RegardResult *r, const RegardEncoded *encoded, char *error, size_t error_size) {
  EncodedSizes sizes = encoded_sizes(r->model);
  r->segments = calloc(r->count + 1, sizeof *r->segments);
  if (!r->segments) return -1;
  for (size_t i = 0; i < r->count; i++, r->segment_count = r->request_count = i) {
    const RegardEncoded *e = encoded + i;
    int ok = e->entries >= 1 && e->entries <= MOST_ENTRIES && e->length >= 1 && e->length <= INT32_MAX;
    if (!ok || !is_there(e->outputs, e->output_size, sizes.outputs) || !is_there(e->embedded, e->embedded_size, sizes.embedded) || !is_there(e->summary, e->summary_size, sizes.summary)) {
      explain(error, error_size, "source %zu: wanted 1 to %d entries of a length of 1 to %d, with outputs of %lld numbers, embeddings of %lld and a summary of %lld; got %lld entries of a length of %lld, with outputs of %lld, embeddings of %lld and a summary of %lld",
              i + 1, MOST_ENTRIES, INT32_MAX, (long long)sizes.outputs, (long long)sizes.embedded, (long long)sizes.summary, (long long)e->entries, (long long)e->length,
              (long long)(e->outputs ? e->output_size : 0), (long long)(e->embedded ? e->embedded_size : 0), (long long)(e->summary ? e->summary_size : 0));
      return -1;
    }
    r->segments[i] = (Segment){.encoded = e};
    r->lines[i] = (Line){.first = (int64_t)i, .parts = 1, .decoded = 1};
  }
  return make_requests(r);
}

/* --- repetitions ---------------------------------------------------------------------------------------------- */

/* The repetition that takes up most tokens; of equals that of the shorter n-gram. Returns its copies, 0: none. */
static int64_t longest_repetition(const int32_t *ids, int64_t count, int64_t *start, int64_t *period) {
  int64_t most = 0, times = 0;
  for (int64_t p = 1; p <= count / 2; p++)
    for (int64_t i = p, run = 0; i <= count; i++) {
      if (i < count && ids[i] == ids[i - p]) {
        run++;
        continue;
      }
      int64_t copies = run / p + 1;
      if (copies > 1 && copies * p > most) most = copies * p, times = copies, *start = i - run - p, *period = p;
      run = 0;
    }
  return times;
}

static int note_repetition(const RegardResult *r, RegardPart *part, const Hypothesis *h, const Segment *segment) {
  int64_t start = 0, period = 0, other = 0, times = 0;
  if (h->count < MIN_TOKENS) return 0;
  times = longest_repetition(h->ids, h->count, &start, &period);
  if (times < MIN_TIMES || times * period < MIN_TOKENS) return 0;
  int64_t first = start, size = period;
  if (2 * longest_repetition(segment->ids, segment->count, &start, &other) >= times) return 0;
  TextBuffer text = {0};
  if (tokenizer_decode(r->model->target, h->ids + first, (size_t)size, &text) || text_append(&text, "", 0)) return -1;
  part->repetition = text.data, part->repetitions = (int32_t)times;
  return 0;
}

/* --- putting together ------------------------------------------------------------------------------------------ */

/* Appends the links of a part; those to the language code that it repeats are left out. */
static int append_links(Translation *t, const RegardLink *links, size_t count, int64_t repeated, int64_t source, int64_t target) {
  if (reserve((void **)&t->links, &t->link_capacity, t->link_count + count + 1, sizeof *links)) return -1;
  for (size_t i = 0; i < count; i++)
    if (links[i].source >= repeated)
      t->links[t->link_count++] = (RegardLink){(int32_t)(links[i].source - repeated + source), (int32_t)(links[i].target + target)};
  return 0;
}

/* Appends those of a part, before its tokens are counted. */
static int append_log_probs(Translation *t, const Hypothesis *h) {
  float *longer = realloc(t->log_probs, (t->tokens.size + (size_t)h->count + 1) * sizeof *longer);
  if (!longer) return -1;
  memcpy(longer + t->tokens.size, h->log_probs, (size_t)h->count * sizeof *longer);
  t->log_probs = longer;
  return 0;
}

static int ends_in_space(const Segment *s) { return s->text.data[s->text.size - 1] == ' '; }

static const Hypothesis *ranked(const Segment *segment, int32_t rank) {
  const Request *request = segment->request;
  return request->hypotheses + (rank < request->found ? rank : request->found - 1);
}

/* Appends the tokens of a decoded part, with all that is known of them; its text is `part`. */
static int append_decoded(RegardResult *r, Translation *t, int64_t number, const Segment *segment, const Hypothesis *h, Forced *forced, int64_t repeated, int64_t source, int64_t target) {
  RegardLink *links = NULL;
  size_t count = 0;
  int failed = reserve((void **)&t->tokens.data, &t->tokens.capacity, t->tokens.size + (size_t)h->count + 1, sizeof(int32_t)) ||
               note_repetition(r, t->parts + number, h, segment) || (r->options.alignments && align_words(r->model, forced, &links, &count)) ||
               (links && append_links(t, links, count, repeated, source, target)) || append_log_probs(t, h);
  free(links);
  if (failed) return -1;
  memcpy(t->tokens.data + t->tokens.size, h->ids, (size_t)h->count * sizeof(int32_t));
  t->tokens.size += (size_t)h->count, t->shown.score += h->score, t->shown.is_complete &= h->is_complete;
  return 0;
}

/* Appends a part without letters, and without the code of the line. */
static int append_copy(const Line *line, const Segment *segment, int is_first, TextBuffer *text) {
  size_t start = is_first ? line->code : 0, size = without_space(segment->text.data, segment->text.size);
  while (start < size && segment->text.data[start] == ' ') start++;
  return text_append(text, segment->text.data + start, size - start);
}

static void show_translation(const RegardResult *r, Translation *t) {
  RegardHypothesis *h = &t->shown;
  h->text = t->text.data, h->text_size = t->text.size;
  h->tokens = t->tokens.data, h->token_count = t->tokens.size, h->log_probs = t->log_probs;
  h->links = !r->options.alignments ? NULL : t->links ? t->links : NO_LINKS, h->link_count = t->link_count;
  h->parts = t->parts;
}

/* Joins the hypotheses of rank `rank` of all parts; a part with fewer contributes its last one, and a copy itself. */
static int join_parts(RegardResult *r, Line *line, int32_t rank, Forced *forced) {
  Translation *t = line->hypotheses + rank;
  TextBuffer part = {0};
  int64_t source = 0, repeated = 0;
  t->parts = calloc((size_t)line->parts + 1, sizeof *t->parts);
  t->shown.is_complete = 1;
  int failed = !t->parts || text_append(&t->text, "", 0);
  for (int64_t p = 0; p < line->parts && !failed; p++) {
    const Segment *segment = r->segments + line->first + p;
    const Hypothesis *h = segment->request ? ranked(segment, rank) : NULL;
    part.size = 0;
    failed = h ? tokenizer_decode(r->model->target, h->ids, (size_t)h->count, &part) : append_copy(line, segment, !p, &part);
    int is_parted = !failed && t->text.size && part.size &&
                    (ends_in_space(segment - 1) || wants_space(t->text.data, t->text.size, part.data, part.size));
    failed = failed || (is_parted && text_append(&t->text, " ", 1));
    if (failed) break;
    int64_t target = count_spaces(t->text.data, t->text.size), spaces = count_spaces(segment->text.data, segment->text.size);
    size_t lead = segment->text.size > 1 && segment->text.data[0] == ' '; /* of a piece of a line that was split at spaces */
    const char *own = segment->text.data + lead;
    t->parts[p] = (RegardPart){.score = h ? h->score : 0, .source = own, .source_size = without_space(own, segment->text.size - lead), .text_size = part.size};
    failed = text_append(&t->text, part.data, part.size) || (h && append_decoded(r, t, p, segment, h, forced, repeated, source, target));
    for (int64_t word = 0; !h && r->options.alignments && word <= count_spaces(part.data, part.size) && !failed; word++)
      failed = append_links(t, &(RegardLink){(int32_t)(word + (line->code > 0)), (int32_t)word}, 1, repeated, source, target);
    source += spaces, repeated = line->code > 0, forced += h != NULL;
  }
  const char *text = t->text.data;
  for (int64_t p = 0; p < line->parts && !failed; text += t->parts[p++].text_size) {
    if (p && t->parts[p].text_size && text > t->text.data && *text == ' ') text++;
    t->parts[p].text = text;
  }
  text_free(&part);
  if (!failed) show_translation(r, t);
  return failed ? -1 : 0;
}

static int is_watched(const RegardResult *r) { return r->options.attention || r->options.alignments || r->options.states; }

/* Reads the attention and the states of all parts of the hypotheses of lines [first, last), in their order. */
static int watch_lines(RegardResult *r, size_t first, size_t last, Forced *forced) {
  int64_t count = 0;
  for (size_t i = first; i < last; i++) {
    const Line *line = r->lines + i;
    for (int32_t rank = 0; rank < line->shown.hypotheses; rank++)
      for (int64_t p = 0; p < line->parts; p++) {
        const Segment *segment = r->segments + line->first + p;
        if (!segment->request) continue;
        const Hypothesis *h = ranked(segment, rank);
        forced[count++] = (Forced){.source = segment->ids, .target = h->ids, .source_count = segment->count, .target_count = h->count};
      }
  }
  Decoder *d = take_decoder(r->model, 1);
  if (!d) return -1;
  int failed = force_decode(d, forced, count, &r->options);
  give_decoder(r->model, d);
  return failed;
}

/* Puts the hypotheses of lines [first, last) together; they have `count` decoded parts in all. */
static int make_lines(RegardResult *r, size_t first, size_t last, int64_t count) {
  Forced *forced = calloc((size_t)count + 1, sizeof *forced), *own = forced;
  int failed = !forced || (is_watched(r) && watch_lines(r, first, last, forced));
  for (size_t i = first; i < last && !failed; i++) {
    Line *line = r->lines + i;
    for (int32_t rank = 0; rank < line->shown.hypotheses && !failed; rank++, own += line->decoded) {
      failed = join_parts(r, line, rank, own);
      if (!failed && line->parts == 1 && line->decoded && (r->options.attention || r->options.states)) line->hypotheses[rank].forced = *own, line->hypotheses[rank].shown.is_recorded = 1, *own = (Forced){0};
    }
  }
  for (int64_t p = 0; forced && p < count; p++) free_forced(r->model, forced + p);
  free(forced);
  return failed ? -1 : 0;
}

/* Makes room for the hypotheses of a line, as many as its richest part has. */
static int open_hypotheses(RegardResult *r, Line *line) {
  int64_t most = 1;
  for (int64_t p = 0; p < line->parts; p++) {
    const Request *request = r->segments[line->first + p].request;
    int64_t found = request ? request->found : 1;
    most = found > most ? found : most;
  }
  const Segment *only = line->parts == 1 && line->decoded ? r->segments + line->first : NULL;
  line->shown = (RegardLine){.note = line->note, .hypotheses = (int32_t)(most < r->options.nbest ? most : r->options.nbest), .parts = (int32_t)line->parts};
  if (only && only->ids) line->shown.source = only->ids, line->shown.source_count = (size_t)only->count;
  line->hypotheses = calloc((size_t)line->shown.hypotheses, sizeof *line->hypotheses);
  return line->hypotheses ? 0 : -1;
}

/* Makes all lines, some at a time: their attention is read together, and held no longer than it is needed. */
static int make_all_lines(RegardResult *r) {
  for (size_t first = 0, last; first < r->count; first = last) {
    int64_t parts = 0;
    for (last = first; last < r->count && parts < PARTS_TOGETHER; last++) {
      Line *line = r->lines + last;
      if (open_hypotheses(r, line)) return -1;
      parts += line->shown.hypotheses * line->decoded;
    }
    if (make_lines(r, first, last, parts)) return -1;
  }
  return 0;
}

/* --- the interface --------------------------------------------------------------------------------------------- */

REGARD_API void regard_free(RegardResult *r) {
  if (!r) return;
  steps_free(r->steps);
  for (size_t i = 0; i < r->count && r->lines; i++) {
    Line *line = r->lines + i;
    for (int32_t rank = 0; rank < line->shown.hypotheses && line->hypotheses; rank++) {
      Translation *t = line->hypotheses + rank;
      for (int64_t p = 0; p < line->parts && t->parts; p++) free((char *)t->parts[p].repetition);
      text_free(&t->text), tokens_free(&t->tokens), free(t->log_probs), free(t->links), free(t->parts);
      free_forced(r->model, &t->forced);
    }
    free(line->hypotheses), free(line->note);
  }
  for (size_t i = 0; i < r->segment_count; i++) {
    if (r->segments[i].request) free_hypotheses(r->segments[i].request);
    free(r->segments[i].ids), text_free(&r->segments[i].text);
  }
  for (Banned *b; (b = r->banned); banned_free(b)) r->banned = b->next;
  for (Block *b; (b = r->copies); free(b)) r->copies = b->next;
  trace_free(r->trace), free(r->prefixes);
  free(r->requests), free(r->segments), free(r->lines), free(r);
}

static int result_failed(RegardResult *r, size_t count, char *error, size_t error_size) {
  if (error && error_size && !error[0]) explain(error, error_size, "there is not enough memory to translate %zu lines; give fewer at once", count);
  regard_free(r);
  return -1;
}

RegardResult *result_open(RegardModel *model, Sources sources, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  if (error && error_size) error[0] = 0;
  if (check_options(model, options, sources.encoded != NULL, error, error_size)) return NULL;
  RegardResult *r = calloc(1, sizeof *r);
  int failed = !r;
  if (r) {
    *r = (RegardResult){.model = model, .options = *options, .count = count, .lines = calloc(count + 1, sizeof *r->lines)};
    if (sources.lines) never_empty(&r->options);
    failed = !r->lines || (sources.encoded ? read_encoded(r, sources.encoded, error, error_size) : sources.ids ? read_ids(r, sources.ids, sources.sizes, error, error_size) : read_lines(r, sources.lines, sources.sizes, constraints, error, error_size));
    failed = failed || (constraints && set_constraints(r, constraints, sources.lines != NULL, error, error_size)) || (options->trace && open_trace(r, error, error_size));
  }
  return failed && result_failed(r, count, error, error_size) ? NULL : r;
}

static void *copy_of(RegardResult *r, const void *data, size_t size) {
  Block *b = malloc(sizeof *b + size);
  if (!b) return NULL;
  b->next = r->copies, r->copies = b;
  if (size) memcpy(b + 1, data, size);
  return b + 1;
}

/* Copies what a decoder needs of an encoded source. */
static const RegardEncoded *copy_encoded(RegardResult *r, const RegardEncoded *from) {
  EncodedSizes sizes = encoded_sizes(r->model);
  RegardEncoded *e = copy_of(r, from, sizeof *from);
  if (!e) return NULL;
  size_t entries = (size_t)e->entries * sizeof(float);
  int failed = (sizes.outputs && !(e->outputs = copy_of(r, e->outputs, entries * (size_t)sizes.outputs))) ||
               (sizes.embedded && !(e->embedded = copy_of(r, e->embedded, entries * (size_t)sizes.embedded))) ||
               (sizes.summary && !(e->summary = copy_of(r, e->summary, (size_t)sizes.summary * sizeof(float))));
  return failed ? NULL : e;
}

static int copy_terms(RegardResult *r, Terms *terms) {
  size_t count = (size_t)terms->count, vocabulary = (size_t)r->model->settings.target_vocabulary;
  RegardTerm *data = copy_of(r, terms->data, count * sizeof *data);
  const uint8_t *last = NULL, *last_copy = NULL; /* terms mostly share what may follow */
  if (!data) return -1;
  for (RegardTerm *t = data; t < data + count; t++) {
    size_t sizes = (size_t)(t->forms + t->initial_forms), ids = 0;
    for (size_t f = 0; f < sizes; f++) ids += (size_t)t->sizes[f];
    if (t->may_follow && t->may_follow != last) {
      last = t->may_follow;
      if (!(last_copy = copy_of(r, last, vocabulary))) return -1;
    }
    if (t->may_follow) t->may_follow = last_copy;
    if (!(t->ids = copy_of(r, t->ids, ids * sizeof *t->ids)) || !(t->sizes = copy_of(r, t->sizes, sizes * sizeof *t->sizes))) return -1;
  }
  terms->data = data;
  return 0;
}

static int copy_banned(RegardResult *r, Banned *banned) {
  RegardCompletion *table = copy_of(r, banned->table, banned->count * sizeof *table);
  if (!table) return -1;
  for (RegardCompletion *c = table; c < table + banned->count; c++)
    if (!(c->before = copy_of(r, c->before, (size_t)c->size))) return -1;
  banned->table = table;
  return 0;
}

int result_copy(RegardResult *r) {
  for (Request *q = r->requests; q < r->requests + r->request_count; q++) {
    if (q->encoded && !(q->encoded = copy_encoded(r, q->encoded))) return -1;
    if (q->terms.count && copy_terms(r, &q->terms)) return -1;
  }
  for (Banned *b = r->banned; b; b = b->next)
    if (copy_banned(r, b)) return -1;
  return 0;
}

Request *result_requests(RegardResult *r, int64_t *count) {
  *count = (int64_t)r->request_count;
  return r->requests;
}

int result_finish(RegardResult *r) { return make_all_lines(r); }

static RegardResult *translate(RegardModel *model, Sources sources, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  RegardResult *r = result_open(model, sources, count, constraints, options, error, error_size);
  if (!r) return NULL;
  int failed = search_all(model, r->requests, (int64_t)r->request_count, options->threads) || make_all_lines(r);
  return failed && result_failed(r, count, error, error_size) ? NULL : r;
}

REGARD_API RegardResult *regard_translate(RegardModel *model, const char *const *lines, const size_t *sizes, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  return translate(model, (Sources){.lines = lines, .sizes = sizes}, count, constraints, options, error, error_size);
}

REGARD_API RegardResult *regard_translate_ids(RegardModel *model, const int32_t *const *ids, const size_t *counts, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  return translate(model, (Sources){.ids = ids, .sizes = counts}, count, constraints, options, error, error_size);
}

REGARD_API RegardResult *regard_begin(RegardModel *model, const char *const *lines, const size_t *sizes, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  RegardResult *r = result_open(model, (Sources){.lines = lines, .sizes = sizes}, count, constraints, options, error, error_size);
  if (!r) return NULL;
  int failed = result_copy(r) || !(r->steps = steps_open(model, r->requests, (int64_t)r->request_count));
  return failed && result_failed(r, count, error, error_size) ? NULL : r;
}

REGARD_API int64_t regard_step(RegardResult *r) {
  int64_t open = r->steps ? steps_next(r->steps) : 0;
  if (open || !r->steps) return open;
  steps_free(r->steps), r->steps = NULL;
  return make_all_lines(r);
}

/* No sources are one that fits no model. */
Sources encoded_sources(const RegardEncoded *encoded) {
  static const RegardEncoded MISSING;
  return (Sources){.encoded = encoded ? encoded : &MISSING};
}

REGARD_API RegardResult *regard_translate_encoded(RegardModel *model, const RegardEncoded *sources, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  return translate(model, encoded_sources(sources), count, constraints, options, error, error_size);
}

REGARD_API size_t regard_count(const RegardResult *r) { return r->count; }
REGARD_API const RegardLine *regard_line(const RegardResult *r, size_t line) { return &r->lines[line].shown; }
REGARD_API const RegardHypothesis *regard_hypothesis(const RegardResult *r, size_t line, int32_t rank) { return &r->lines[line].hypotheses[rank].shown; }

REGARD_API RegardAttention regard_attention(const RegardResult *r, size_t line, int32_t rank, int32_t layer) {
  const Forced *f = &r->lines[line].hypotheses[rank].forced;
  const RegardLayer *about = r->model->layers + layer;
  if (!f->weights || !f->scores[layer]) return (RegardAttention){0};
  int32_t target = (int32_t)f->target_count + 1, source = (int32_t)f->source_count;
  return (RegardAttention){f->weights[layer], about->heads, about->role == 0 ? source : target, about->role == 2 ? target : source, f->scores[layer]};
}

REGARD_API RegardStates regard_states(const RegardResult *r, size_t line, int32_t rank) {
  const Forced *f = &r->lines[line].hypotheses[rank].forced;
  const RegardModel *m = r->model;
  StateColumns encoder = m->encoder_states, decoder = m->decoder_states;
  if (!f->encoder_states) return (RegardStates){0};
  return (RegardStates){encoder.parts ? f->encoder_states : NULL, f->decoder_states, m->has_initial_state ? f->decoder_states + (f->target_count + 1) * decoder.size : NULL, (int32_t)f->source_count, (int32_t)encoder.parts, (int32_t)encoder.size, (int32_t)f->target_count + 1, (int32_t)decoder.size, m->attends_first};
}

/* Tokenises a text, and hands out as many ids as there is room for. */
static int64_t encode(const Tokenizer *tokenizer, int with_end, const char *text, size_t size, int32_t *ids, size_t capacity) {
  TokenBuffer tokens = {0};
  int outcome = tokenizer_encode(tokenizer, text, size, &tokens);
  if (!outcome) outcome = reserve((void **)&tokens.data, &tokens.capacity, tokens.size + 1, sizeof(int32_t));
  if (!outcome) {
    if (with_end) tokens.data[tokens.size++] = EOS;
    memcpy(ids, tokens.data, (tokens.size < capacity ? tokens.size : capacity) * sizeof *ids);
  }
  int64_t count = outcome ? outcome : (int64_t)tokens.size;
  tokens_free(&tokens);
  return count;
}

REGARD_API int64_t regard_encode(const RegardModel *model, const char *text, size_t size, int32_t *ids, size_t capacity) {
  return encode(model->source, 1, text, size, ids, capacity);
}

REGARD_API int64_t regard_encode_target(const RegardModel *model, const char *text, size_t size, int32_t *ids, size_t capacity) {
  return encode(model->target, 0, text, size, ids, capacity);
}

REGARD_API size_t regard_steps(const RegardResult *r) { return r->trace ? r->trace->step_count : 0; }
REGARD_API size_t regard_open_hypotheses(const RegardResult *r, size_t step) { return trace_rows(r->trace, step); }
REGARD_API void regard_open_tokens(const RegardResult *r, size_t step, size_t row, int32_t *ids) { trace_prefix(r->trace, step, row, ids); }
REGARD_API const RegardCandidate *regard_candidates(const RegardResult *r, size_t step, size_t *count) { return trace_candidates(r->trace, step, count); }

static const Tokenizer *side_of(const RegardModel *model, int is_target) { return is_target ? model->target : model->source; }

static int are_known(const Tokenizer *t, const int32_t *ids, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (ids[i] < 0 || ids[i] >= tokenizer_size(t)) return 0;
  return 1;
}

REGARD_API int regard_words(const RegardModel *model, int is_target, const int32_t *ids, size_t count, int32_t *words) {
  const Tokenizer *t = side_of(model, is_target);
  return are_known(t, ids, count) ? tokenizer_word_indices(t, ids, count, words) : -1;
}

REGARD_API char *regard_decode(const RegardModel *model, int is_target, const int32_t *ids, size_t count, size_t *size) {
  const Tokenizer *t = side_of(model, is_target);
  TextBuffer text = {0};
  if (!are_known(t, ids, count) || tokenizer_decode(t, ids, count, &text) || text_append(&text, "", 0)) {
    text_free(&text);
    return NULL;
  }
  *size = text.size;
  return text.data;
}

REGARD_API void regard_free_text(char *text) { free(text); }

/* --- streaming ------------------------------------------------------------------------------------------------- */

struct RegardStream {
  RegardResult *result; /* owns the segments; searched one after another */
  Decoder *decoder;
  Search search;
  int64_t segment;   /* being decoded */
  int is_begun, is_new; /* the segment; whether it has written nothing yet */
  size_t written;    /* bytes of its text that were handed out */
  TextBuffer text, out;
  int32_t *words;
  size_t word_capacity;
};

REGARD_API void regard_stream_free(RegardStream *s) {
  if (!s) return;
  if (s->decoder) search_free(&s->search), give_decoder(s->result->model, s->decoder);
  regard_free(s->result);
  text_free(&s->text), text_free(&s->out), free(s->words), free(s);
}

static RegardStream *open_stream(RegardModel *model, Sources sources, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  RegardOptions greedy = *options;
  greedy.beam = greedy.nbest = 1, greedy.attention = greedy.alignments = greedy.trace = greedy.states = 0;
  RegardStream *s = calloc(1, sizeof *s);
  RegardResult *r = s ? result_open(model, sources, 1, constraints, &greedy, error, error_size) : NULL;
  if (r && (s->decoder = take_decoder(model, team_size(model, options->threads)))) {
    s->result = r, s->search = (Search){.decoder = s->decoder};
    return s;
  }
  if (error && error_size && (!s || r)) explain(error, error_size, "there is not enough memory to translate the line");
  regard_free(r), free(s);
  return NULL;
}

REGARD_API RegardStream *regard_stream(RegardModel *model, const char *line, size_t size, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  return open_stream(model, (Sources){.lines = &line, .sizes = &size}, constraints, options, error, error_size);
}

REGARD_API RegardStream *regard_stream_ids(RegardModel *model, const int32_t *const *ids, const size_t *count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  return open_stream(model, (Sources){.ids = ids, .sizes = count}, constraints, options, error, error_size);
}

REGARD_API RegardStream *regard_stream_encoded(RegardModel *model, const RegardEncoded *source, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  return open_stream(model, encoded_sources(source), constraints, options, error, error_size);
}

/* Decodes one more token of the segment. Returns the tokens so far, and whether they are all; NULL: there is no memory. */
static const int32_t *step_segment(RegardStream *s, Request *request, size_t *count, int *is_done) {
  if (!s->is_begun && search_begin(&s->search, &request, 1)) return NULL;
  s->is_begun = 1;
  if (search_step(&s->search)) return NULL;
  *is_done = !s->search.count;
  const Sentence *open = s->search.sentences;
  *count = (size_t)(*is_done ? request->hypotheses->count : open->length);
  if (*is_done) s->segment++, s->is_begun = 0;
  return *is_done ? request->hypotheses->ids : open->history;
}

REGARD_API const int32_t *regard_next_tokens(RegardStream *s, size_t *count) {
  int is_done;
  *count = s->segment < (int64_t)s->result->segment_count;
  return *count ? step_segment(s, s->result->segments[s->segment].request, count, &is_done) : NULL;
}

/* Decodes tokens into the stream's text; of a target that goes on only up to its last whole word. */
static int stream_text(RegardStream *s, const int32_t *ids, size_t count, int is_whole) {
  const Tokenizer *target = s->result->model->target;
  if (!is_whole && count) {
    if (reserve((void **)&s->words, &s->word_capacity, count, sizeof(int32_t)) || tokenizer_word_indices(target, ids, count, s->words)) return -1;
    int32_t last = s->words[count - 1];
    for (size_t i = 0; i < count; i++)
      if (s->words[i] == last) {
        count = i;
        break;
      }
  }
  s->text.size = 0;
  return tokenizer_decode(target, ids, count, &s->text) || text_append(&s->text, "", 0) ? -1 : 0;
}

/* Hands out what the text of the segment has grown by; with a space before it, if a further segment's first wants one. */
static const char *hand_out(RegardStream *s, const Segment *segment, size_t *size) {
  int is_parted = s->is_new && segment > s->result->segments && (ends_in_space(segment - 1) || wants_space(s->out.data, s->out.size, s->text.data, s->text.size));
  s->out.size = 0;
  if (is_parted && text_append(&s->out, " ", 1)) return NULL;
  if (text_append(&s->out, s->text.data + s->written, s->text.size - s->written)) return NULL;
  s->written = s->text.size, s->is_new = 0;
  *size = s->out.size;
  return s->out.data;
}

REGARD_API const char *regard_next(RegardStream *s, size_t *size) {
  RegardResult *r = s->result;
  *size = 1;
  while (s->segment < (int64_t)r->segment_count) {
    const Segment *segment = r->segments + s->segment;
    Request *request = segment->request;
    if (!request) {
      s->is_new = 1, s->written = s->text.size = 0;
      if (append_copy(r->lines, segment, s->segment == 0, &s->text)) return NULL;
      s->segment++;
      return hand_out(s, segment, size);
    }
    if (!s->is_begun) s->is_new = 1, s->written = 0;
    int is_done;
    size_t count;
    const int32_t *ids = step_segment(s, request, &count, &is_done);
    if (!ids || stream_text(s, ids, count, is_done)) return NULL;
    if (s->text.size > s->written) return hand_out(s, segment, size);
  }
  *size = 0;
  return NULL;
}

REGARD_API int regard_stream_is_complete(const RegardStream *s) {
  int is_complete = 1;
  for (int64_t i = 0; i < (int64_t)s->result->request_count; i++) {
    const Request *request = s->result->requests + i;
    is_complete = is_complete && request->found && request->hypotheses->is_complete;
  }
  return is_complete;
}
