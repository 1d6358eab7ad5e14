/* Opens runtime files. Whatever a file holds, its sizes and offsets are checked here, once, before anything uses them:
   afterwards no operation can read or write outside its registers, its memory or the file. */

#include "model.h"
#include "checksum.h"
#include "mapping.h"
#include "unicode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT 1
#define ORDER 0x01020304u
#define HEADER 64
#define ALIGNED 64
#define MOST 1048576          /* of register widths, sizes of parts and vocabularies: 2^20 */
#define MOST_OPERATIONS 65536
#define DAMAGED "damaged (%s); copy it again, or export the model again"

enum { CARD = 1, SETTINGS, PROGRAM_SECTION, WEIGHTS, NUMBERS, SOURCE, TARGET, LAYERS, LANGUAGES, SECTIONS };

typedef struct { /* the file's first bytes */
  char magic[8];
  uint32_t format, order;
  uint64_t size, checksum;
  uint32_t sections;
  uint8_t reserved[28];
} Header;

typedef struct {
  uint32_t kind, reserved;
  uint64_t offset, size;
} SectionRecord;

typedef struct { /* an operation with offsets into the numbers instead of pointers; -1: none */
  int32_t kind, source, target, extra, column, size, heads, activation;
  int64_t offset;
  float scale;
  int32_t extent;
  int64_t table, second, weight;
} OperationRecord;

typedef struct {
  int32_t precision, inputs, outputs, padded;
  int64_t panels, scales, sums, bias;
} WeightRecord;

typedef struct {
  const uint8_t *data;
  size_t size;
} Section;

typedef struct { /* what is being opened: the model so far, its sections, and where to say what is wrong */
  RegardModel *model;
  Section sections[SECTIONS];
  const char *problem; /* the first one that was found */
} Opening;

/* Checks `ok`, and keeps the first problem. */
static int must(Opening *o, int ok, const char *problem) {
  if (!ok && !o->problem) o->problem = problem;
  return ok;
}

/* --- sections ------------------------------------------------------------------------------------------------ */

static const char *header_problem(const uint8_t *data, size_t size, uint32_t *sections, uint64_t *checksum) {
  Header header;
  if (size < sizeof header) return "it is no runtime file, or cut short";
  memcpy(&header, data, sizeof header);
  if (memcmp(header.magic, "REGARD\r\n", 8)) return "it is no runtime file";
  if (header.order != ORDER) return "it was written for the other byte order";
  if (header.format != FORMAT) return NULL; /* said by the caller, with the numbers */
  if (header.size != size) return "it is cut short, or longer than it was written";
  if (header.sections > 4 * SECTIONS || HEADER + header.sections * sizeof(SectionRecord) > size) return "its table of contents";
  if (regard_checksum(data + HEADER, size - HEADER) != header.checksum) return "its checksum is wrong";
  *sections = header.sections, *checksum = header.checksum;
  return NULL;
}

static void read_sections(Opening *o, uint32_t count) {
  const RegardModel *m = o->model;
  for (uint32_t i = 0; i < count; i++) {
    SectionRecord record;
    memcpy(&record, m->data + HEADER + i * sizeof record, sizeof record);
    int ok = record.kind > 0 && record.kind < SECTIONS && !o->sections[record.kind].data;
    ok = ok && record.offset % ALIGNED == 0 && record.offset <= m->size && record.size <= m->size - record.offset;
    if (!must(o, ok, "its table of contents")) return;
    o->sections[record.kind] = (Section){m->data + record.offset, record.size};
  }
  for (int kind = CARD; kind < SECTIONS; kind++)
    must(o, kind == TARGET || kind == LANGUAGES || o->sections[kind].data != NULL, "a part is missing");
}

/* Copies all parts but the numbers: others may write into the file, and what is checked has to stay as it was. */
static void copy_sections(Opening *o) {
  for (int kind = CARD; kind < SECTIONS; kind++) {
    Section *section = &o->sections[kind];
    if (kind == NUMBERS || !section->data) continue;
    uint8_t *copy = o->model->sections[kind] = malloc(section->size + ALIGNED);
    if (!must(o, copy != NULL, "there is no memory for it")) return;
    section->data = memcpy(copy + ALIGNED - (uintptr_t)copy % ALIGNED, section->data, section->size);
  }
}

/* `count` floats (or integers of four bytes) at an offset of the numbers; NULL, and a problem, if they are not there. */
static const void *numbers(Opening *o, int64_t offset, int64_t bytes) {
  const Section *section = &o->sections[NUMBERS];
  int ok = offset >= 0 && offset % 4 == 0 && bytes >= 0 && (uint64_t)offset <= section->size;
  ok = ok && (uint64_t)bytes <= section->size - (uint64_t)offset;
  return must(o, ok, "numbers lie outside of it") ? section->data + offset : NULL;
}

static int between(int64_t x, int64_t least, int64_t most) { return x >= least && x <= most; }

static void read_settings(Opening *o) {
  Settings *s = &o->model->settings;
  if (!must(o, o->sections[SETTINGS].size == sizeof *s, "its settings")) return;
  memcpy(s, o->sections[SETTINGS].data, sizeof *s);
  int ok = between(s->precision, FLOAT32, INT8) && between(s->source_vocabulary, EOS + 1, MOST);
  ok = ok && between(s->target_vocabulary, EOS + 1, MOST) && between(s->max_target, -1, MOST);
  ok = ok && s->max_target != 0 && between(s->source_positions, 0, MOST) && between(s->target_positions, 0, MOST);
  ok = ok && between(s->block, 1, MOST * 16) && between(s->entry, 0, MOST * 16);
  ok = ok && between(s->is_recurrent, 0, 1) && between(s->needs_embeddings, 0, 1);
  ok = ok && between(s->states, 0, MAX_STATES) && between(s->summary_size, 1, MOST);
  ok = ok && between(s->beam, 1, MAX_COMPARED) && between(s->max_extra, 1, MOST) && between(s->min_length, 0, MOST);
  ok = ok && between(s->max_length, -1, INT32_MAX) && between(s->no_repeat_ngram, 0, MOST);
  ok = ok && between(s->longest_source, -1, INT32_MAX) && between(s->max_line, 1, INT32_MAX) && between(s->max_whole, 1, INT32_MAX);
  ok = ok && s->longest_source != 0 && s->length_penalty >= 0 && s->length_penalty <= MAX_LENGTH_PENALTY;
  ok = ok && s->max_ratio > 0 && s->max_ratio <= MAX_RATIO;
  ok = ok && between(s->aligned_layer, -1, MOST) && between(s->aligned_head, -1, MOST) && between(s->symmetry, 0, 4) && between(s->lines, 0, INT32_MAX);
  must(o, ok, "its settings");
}

/* --- weights ------------------------------------------------------------------------------------------------- */

static void read_weight(Opening *o, const WeightRecord *r, Weight *w) {
  static const int GROUPS[] = {1, 2, 4}, BYTES[] = {4, 2, 1};
  int ok = between(r->precision, FLOAT32, INT8) && between(r->inputs, 1, MOST) && between(r->outputs, 1, MOST);
  if (!must(o, ok, "a weight")) return;
  int group = GROUPS[r->precision];
  int64_t columns = ((int64_t)r->outputs + PANEL - 1) / PANEL * PANEL, padded = ((int64_t)r->inputs + group - 1) / group * group;
  must(o, r->padded == padded, "a weight");
  *w = (Weight){r->precision, r->inputs, r->outputs, (int32_t)padded, NULL, NULL, NULL, NULL};
  w->panels = numbers(o, r->panels, columns * padded * BYTES[r->precision]);
  if (r->precision == INT8) w->scales = numbers(o, r->scales, columns * 4), w->sums = numbers(o, r->sums, columns * 4);
  if (r->bias >= 0) w->bias = numbers(o, r->bias, columns * 4);
}

static void read_weights(Opening *o) {
  const Section *section = &o->sections[WEIGHTS];
  RegardModel *m = o->model;
  m->weight_count = (int64_t)(section->size / sizeof(WeightRecord));
  m->weights = calloc((size_t)m->weight_count + 1, sizeof *m->weights);
  if (!must(o, m->weights != NULL, "there is no memory for it")) return;
  for (int64_t i = 0; i < m->weight_count; i++) {
    WeightRecord record;
    memcpy(&record, section->data + (size_t)i * sizeof record, sizeof record);
    read_weight(o, &record, m->weights + i);
  }
}

/* --- programs ------------------------------------------------------------------------------------------------ */

static int gates_of(int kind) { return kind == GRU ? 3 : kind == LSTM ? 4 : 1; }

/* Whether columns [column, column + size) are in a register. */
static int in_register(const Program *p, int32_t number, int64_t column, int64_t size) {
  return number >= 0 && number < p->registers && column >= 0 && size >= 0 && column + size <= p->widths[number];
}

static int in_block(const Settings *s, const Operation *op, int64_t size) {
  return op->offset >= 0 && op->offset + size <= s->block;
}

static int in_entry(const Settings *s, const Operation *op) {
  return op->extent > 0 && op->offset >= 0 && op->offset + op->extent + op->size <= s->entry;
}

static int divides(int32_t heads, int64_t size) { return heads >= 1 && size % heads == 0; }

static int embed_fits(const RegardModel *m, const Program *p, const Operation *op, int number) {
  const Weight *w = op->weight;
  int32_t vocabulary = number == ENCODER ? m->settings.source_vocabulary : m->settings.target_vocabulary;
  if (!op->table && !(w && w->inputs == op->size && w->outputs >= vocabulary)) return 0;
  return (number == ENCODER || number == STEP) && in_register(p, op->target, 0, op->size);
}

static int attention_fits(const Settings *s, const Program *p, const Operation *op, int number) {
  int result_fits = in_register(p, op->target, op->column, op->size) && divides(op->heads, op->size);
  switch (op->kind) {
    case ENCODER_ATTENTION:
      return number == ENCODER && result_fits && op->extent >= 0 && in_register(p, op->source, 0, 3 * (int64_t)op->size);
    case CACHED_ATTENTION:
      return number == STEP && !s->is_recurrent && result_fits && op->extent >= 0 &&
             in_register(p, op->source, 0, 3 * (int64_t)op->size) && in_block(s, op, 2 * (int64_t)op->size);
    case CROSS_ATTENTION:
      return number == STEP && result_fits && divides(op->heads, op->extent) && in_register(p, op->source, 0, op->extent) &&
             in_entry(s, op);
    default: /* ADDITIVE_ATTENTION */
      return number == STEP && op->table && op->heads == 1 && in_register(p, op->target, op->column, op->size) &&
             in_register(p, op->source, 0, op->extent) && in_entry(s, op);
  }
}

static int recurrence_fits(const Program *p, const Operation *op, int number) {
  int kind = op->kind == RNN ? op->extent : op->kind;
  int64_t gates = (int64_t)gates_of(kind) * op->size;
  if (!in_register(p, op->source, 0, gates)) return 0;
  if (op->kind == RNN)
    return number == ENCODER && (kind == GRU || kind == LSTM || kind == TANH_CELL) && op->weight && op->weight->inputs == op->size &&
           op->weight->outputs == gates && in_register(p, op->target, op->column, op->size) &&
           in_register(p, op->extra, op->column, op->size);
  return in_register(p, op->extra, 0, gates) && in_register(p, op->target, op->column, op->size) &&
         (kind != LSTM || in_register(p, op->target, op->offset, op->size));
}

static int linear_fits(const Program *p, const Operation *op) {
  const Weight *w = op->weight;
  return w && in_register(p, op->source, op->offset, w->inputs) && in_register(p, op->target, op->column, w->outputs) &&
         (op->extra < 0 || in_register(p, op->extra, 0, w->outputs));
}

/* Whether an operation stays inside registers, blocks, memories and weights. `size` is at least 1 here. */
static int fits(const RegardModel *m, const Program *p, const Operation *op, int number) {
  const Settings *s = &m->settings;
  int64_t size = op->size;
  switch (op->kind) {
    case EMBED: return embed_fits(m, p, op, number);
    case NORM: return op->table && op->second && in_register(p, op->source, 0, size) && in_register(p, op->target, 0, size);
    case UNIT_NORM: return op->table && divides(op->heads, size) && in_register(p, op->source, op->column, size);
    case GLU: return in_register(p, op->source, 0, 2 * size) && in_register(p, op->target, 0, size);
    case MIX:
      return in_register(p, op->source, 0, size) && in_register(p, op->extra, 0, size) && in_register(p, op->target, 0, size);
    case GATE: return in_register(p, op->source, 0, 1) && in_register(p, op->target, op->column, size);
    case WINDOW:
      return number == ENCODER && op->extent > 0 && op->source != op->target && in_register(p, op->source, 0, size) &&
             in_register(p, op->target, 0, op->extent * size);
    case PAST_WINDOW:
      return number == STEP && !s->is_recurrent && op->extent > 0 && op->source != op->target && in_register(p, op->source, 0, size) &&
             in_register(p, op->target, 0, op->extent * size) && in_block(s, op, size);
    case LINEAR: return linear_fits(p, op);
    case COPY:
      return in_register(p, op->source, op->offset, size) && in_register(p, op->target, op->column, size) &&
             (op->source != op->target || op->offset + size <= op->column || op->column + size <= op->offset);
    case STORE_BLOCK:
      return (number == STEP || number == INITIAL) && in_register(p, op->source, op->column, size) && in_block(s, op, size);
    case STORE_MEMORY:
      return number == MEMORY && in_register(p, op->source, 0, op->extent) && in_register(p, op->extra, op->column, size) &&
             in_entry(s, op);
    case LOAD_STATE:
      return number == STEP && s->is_recurrent && in_register(p, op->target, op->column, size) && in_block(s, op, size);
    case ENCODER_ATTENTION: case CACHED_ATTENTION: case CROSS_ATTENTION: case ADDITIVE_ATTENTION:
      return attention_fits(s, p, op, number);
    case GRU: case LSTM: case TANH_CELL: case RNN: return recurrence_fits(p, op, number);
    case TOP_TOKENS:
      return number == TOP && op->source == 0 && op->weight && op->weight->outputs == s->target_vocabulary &&
             p->widths[0] == op->weight->inputs;
    default: return 0;
  }
}

/* The numbers that an operation reads from its tables. */
static void read_tables(Opening *o, const OperationRecord *r, Operation *op, int number) {
  const Settings *s = &o->model->settings;
  int64_t table = 0, second = 0;
  if (op->kind == EMBED) {
    int is_encoder = number == ENCODER;
    table = (int64_t)(is_encoder ? s->source_vocabulary : s->target_vocabulary) * op->size;
    second = (int64_t)(is_encoder ? s->source_positions : s->target_positions) * op->size;
    must(o, r->second < 0 || second > 0, "an operation");
  } else if (op->kind == NORM) {
    table = second = op->size;
  } else if (op->kind == UNIT_NORM) {
    table = op->heads;
  } else if (op->kind == ADDITIVE_ATTENTION) {
    table = op->extent;
  }
  if (r->table >= 0) op->table = numbers(o, r->table, 4 * table);
  if (r->second >= 0) op->second = numbers(o, r->second, 4 * second);
}

static void read_operation(Opening *o, const OperationRecord *r, Program *p, Operation *op, int number) {
  RegardModel *m = o->model;
  *op = (Operation){r->kind, r->source, r->target, r->extra, r->column, r->size, r->heads, r->activation, r->offset, r->scale, r->extent, NULL, NULL, NULL};
  int sized = op->kind == LINEAR || op->kind == TOP_TOKENS;
  int ok = between(op->column, 0, MOST) && between(op->offset, 0, MOST * 16) && between(op->extent, 0, MOST);
  ok = ok && (sized || between(op->size, 1, MOST)) && between(op->heads, 0, MOST) && between(op->activation, NONE, TANH);
  ok = ok && r->weight < m->weight_count;
  if (!must(o, ok, "an operation")) return;
  if (r->weight >= 0) op->weight = m->weights + r->weight;
  read_tables(o, r, op, number);
  if (!o->problem) must(o, fits(m, p, op, number), "an operation");
}

/* Reads numbers of a section that come one after another. */
static int take(const Section *section, size_t *at, void *to, size_t size) {
  if (size > section->size - *at) return 0;
  memcpy(to, section->data + *at, size);
  *at += size;
  return 1;
}

static void read_program(Opening *o, int number, size_t *at) {
  const Section *section = &o->sections[PROGRAM_SECTION];
  Program *p = &o->model->programs[number];
  int64_t counts[2];
  int ok = take(section, at, counts, sizeof counts) && between(counts[0], 0, MOST_OPERATIONS) && between(counts[1], 0, MOST_OPERATIONS);
  if (!must(o, ok, "a program")) return;
  p->registers = counts[0], p->count = counts[1];
  p->widths = calloc((size_t)p->registers + 1, sizeof(int64_t)), p->offsets = calloc((size_t)p->registers + 1, sizeof(int64_t));
  p->operations = calloc((size_t)p->count + 1, sizeof *p->operations);
  if (!must(o, p->widths && p->offsets && p->operations, "there is no memory for it")) return;
  if (!must(o, take(section, at, p->widths, (size_t)p->registers * sizeof(int64_t)), "a program")) return;
  for (int64_t r = 0; r < p->registers; r++) {
    if (!must(o, between(p->widths[r], 1, 16 * MOST), "a register")) return;
    p->offsets[r] = p->row_size;
    p->row_size += p->widths[r];
  }
  if (!must(o, p->row_size <= 64 * MOST, "a register")) return;
  for (int64_t i = 0; i < p->count && !o->problem; i++) {
    OperationRecord record;
    if (must(o, take(section, at, &record, sizeof record), "a program")) read_operation(o, &record, p, p->operations + i, number);
  }
}

static int64_t width_of(const Program *p, int32_t number) {
  return number >= 0 && number < p->registers ? p->widths[number] : -1;
}

/* What programs hand on to each other fits. */
static void check_programs(Opening *o) {
  const RegardModel *m = o->model;
  const Settings *s = &m->settings;
  const Program *p = m->programs;
  int64_t outputs = width_of(p + ENCODER, s->outputs), embedded = width_of(p + ENCODER, s->embedded);
  must(o, p[STEP].count && p[TOP].count == 1, "a program is missing");
  if (p[ENCODER].count) must(o, outputs > 0 && embedded > 0, "the outputs of its encoder");
  else must(o, !p[ENCODER].registers && s->outputs == -1 && s->embedded == -1 && !s->states, "the outputs of its encoder");
  must(o, p[TOP].count == 1 && p[TOP].registers == 1 && width_of(p + STEP, s->features) == p[TOP].widths[0] &&
              p[TOP].operations[0].kind == TOP_TOKENS, "the features of its decoder");
  must(o, (s->entry > 0) == (p[MEMORY].count > 0), "its memory");
  if (p[MEMORY].count) {
    int64_t read = width_of(p + MEMORY, 0), added = width_of(p + MEMORY, 1);
    must(o, p[ENCODER].count ? read == outputs : read > 0, "its memory");
    must(o, !s->needs_embeddings || (p[ENCODER].count ? added == embedded : added > 0), "its memory");
  }
  must(o, s->is_recurrent == (p[INITIAL].count > 0), "its initial state");
  if (!p[INITIAL].count) return;
  must(o, s->direction_size >= 0 && width_of(p + INITIAL, 0) == s->summary_size, "its initial state");
  for (int i = 0; i < s->states; i++) {
    int64_t width = width_of(p + ENCODER, s->state[i]);
    must(o, width > 0 && s->direction_size <= width && width * s->states == s->summary_size, "its initial state");
  }
  must(o, s->states || !p[ENCODER].count || s->summary_size == outputs, "its initial state");
}

/* --- layers, tokenizers, the whole --------------------------------------------------------------------------- */

static void read_layers(Opening *o) {
  const Section *section = &o->sections[LAYERS];
  RegardModel *m = o->model;
  size_t at = 0;
  int64_t count = 0;
  if (!must(o, take(section, &at, &count, sizeof count) && between(count, 0, MOST_OPERATIONS), "its layers")) return;
  m->layers = calloc((size_t)count + 1, sizeof *m->layers);
  m->layer_programs = calloc((size_t)count + 1, sizeof(int32_t)), m->layer_operations = calloc((size_t)count + 1, sizeof(int32_t));
  if (!must(o, m->layers && m->layer_programs && m->layer_operations, "there is no memory for it")) return;
  for (int64_t i = 0; i < count; i++) {
    LayerRecord r;
    int ok = take(section, &at, &r, sizeof r) && (r.program == ENCODER || r.program == STEP) && between(r.role, 0, 2);
    ok = ok && between(r.operation, 0, m->programs[r.program].count - 1) && r.name >= 0 && r.name_size > 0;
    ok = ok && (uint64_t)r.name < section->size && (uint64_t)r.name_size < section->size - (uint64_t)r.name;
    if (!must(o, ok && !section->data[r.name + r.name_size], "its layers")) return;
    int kind = m->programs[r.program].operations[r.operation].kind;
    int heads = m->programs[r.program].operations[r.operation].heads;
    ok = kind == (r.role == 0 ? ENCODER_ATTENTION : r.role == 2 ? CACHED_ATTENTION : CROSS_ATTENTION) ||
         (r.role == 1 && kind == ADDITIVE_ATTENTION);
    if (!must(o, ok && heads == r.heads && heads <= 4096, "its layers")) return;
    m->layers[i] = (RegardLayer){(const char *)section->data + r.name, r.role, r.heads};
    m->layer_programs[i] = r.program, m->layer_operations[i] = r.operation, m->layer_count = (int32_t)i + 1;
  }
  int32_t layer = m->settings.aligned_layer, head = m->settings.aligned_head;
  if (layer < 0) must(o, head < 0, "its alignment"); /* the middle layer, and the mean of its heads */
  else must(o, layer < m->layer_count && m->layers[layer].role == 1 && head < m->layers[layer].heads, "its alignment");
}

/* Finds the states of the highest layer of a recurrent encoder, and of the decoder; of one that is not recurrent its features. */
static void find_states(RegardModel *m) {
  const Settings *s = &m->settings;
  const Program *p = m->programs;
  if (s->states) {
    int64_t width = p[ENCODER].widths[s->outputs], is_whole = s->direction_size > 0 && width % s->direction_size == 0;
    m->encoder_states = (StateColumns){s->outputs, 0, is_whole ? s->direction_size : width, is_whole ? width / s->direction_size : 1};
  }
  int64_t attention = p[STEP].count;
  m->decoder_states = (StateColumns){s->features, 0, p[STEP].widths[s->features], 1};
  for (int64_t i = 0; i < p[STEP].count; i++) {
    const Operation *op = p[STEP].operations + i;
    if ((op->kind == CROSS_ATTENTION || op->kind == ADDITIVE_ATTENTION) && i < attention) attention = i;
    if (op->kind != GRU && op->kind != LSTM && op->kind != TANH_CELL) continue;
    m->attends_first |= attention < i;
    m->decoder_states = (StateColumns){op->target, op->column, op->size, 1};
    m->has_initial_state = s->is_recurrent && op->column + op->size <= s->block;
  }
}

static void read_tokenizers(Opening *o, char *error, size_t error_size) {
  RegardModel *m = o->model;
  const Section *target = &o->sections[o->sections[TARGET].data ? TARGET : SOURCE], *source = &o->sections[SOURCE];
  char why[256] = "";
  m->source = tokenizer_open(source->data, source->size, why, sizeof why);
  m->target = m->source && target == source ? m->source : m->source ? tokenizer_open(target->data, target->size, why, sizeof why) : NULL;
  if (!m->target) {
    explain(error, error_size, "its tokenizer: %s", why);
    must(o, 0, "its tokenizer");
    return;
  }
  must(o, tokenizer_size(m->source) == m->settings.source_vocabulary, "its tokenizer");
  must(o, tokenizer_size(m->target) == m->settings.target_vocabulary, "its tokenizer");
}

/* Suppresses tokens that stand for no text, and bytes that form no character. */
static void suppress_tokens(RegardModel *m) {
  for (int32_t token = 0; token < m->settings.target_vocabulary; token++) {
    int byte = tokenizer_byte(m->target, token);
    for (int state = 0; state < UTF8_STATES; state++)
      if (token == PAD || token == UNK || token == BOS || (byte < 0 ? state != WHOLE : utf8_next(state, byte) < 0)) m->suppressed[token] |= (uint8_t)(1 << state);
  }
}

/* Number of the copy token that a piece is, as in regard.data.copy_tokens; -1 of others. */
static int copy_number(const Tokenizer *tokenizer, int32_t token) {
  size_t size;
  uint32_t character;
  const char *piece = tokenizer_piece(tokenizer, token, &size);
  if (!piece || size != 4 || utf8_read(piece, size, &character) != size || character < FIRST_COPY || character >= FIRST_COPY + MOST_COPIES) return -1;
  return (int)(character - FIRST_COPY);
}

/* Finds the copy tokens of both sides. They are suppressed, but where a source has some: see search.c. */
static void find_copies(RegardModel *m) {
  int32_t targets[MOST_COPIES] = {0};
  for (int32_t token = 0; token < m->settings.target_vocabulary; token++) {
    int number = copy_number(m->target, token);
    if (number < 0) continue;
    targets[number] = m->copies[m->copy_count++] = token;
    m->suppressed[token] = 0xff;
  }
  for (int32_t token = 0; token < m->settings.source_vocabulary; token++) {
    int number = copy_number(m->source, token);
    m->copy_targets[token] = number < 0 ? PAD : targets[number];
  }
}

static void read_all(Opening *o) {
  RegardModel *m = o->model;
  size_t at = 0;
  read_settings(o);
  if (!o->problem) read_weights(o);
  for (int number = 0; number < PROGRAMS && !o->problem; number++) read_program(o, number, &at);
  if (!o->problem) check_programs(o);
  if (!o->problem) find_states(m), read_layers(o);
  if (!o->problem) read_tokenizers(o, NULL, 0);
  if (o->problem) return;
  m->card = (const char *)o->sections[CARD].data, m->card_size = o->sections[CARD].size;
  m->languages = (const char *)o->sections[LANGUAGES].data, m->languages_size = o->sections[LANGUAGES].size;
  m->kernels = regard_kernels(NULL);
  m->suppressed = calloc((size_t)m->settings.target_vocabulary, 1);
  m->copy_targets = calloc((size_t)m->settings.source_vocabulary + 1, sizeof *m->copy_targets);
  m->pool = pool_open();
  if (!must(o, m->suppressed && m->copy_targets && m->pool && m->kernels, "there is no memory for it")) return;
  suppress_tokens(m);
  find_copies(m);
}

REGARD_API void regard_close(RegardModel *m) {
  if (!m) return;
  if (m->pool) pool_close(m->pool);
  if (m->target && m->target != m->source) tokenizer_close(m->target);
  if (m->source) tokenizer_close(m->source);
  for (int i = 0; i < PROGRAMS; i++) free(m->programs[i].operations), free(m->programs[i].widths), free(m->programs[i].offsets);
  free(m->weights), free(m->layers), free(m->layer_programs), free(m->layer_operations), free(m->suppressed), free(m->copy_targets);
  for (int kind = 0; kind < SECTIONS; kind++) free(m->sections[kind]);
  if (m->mapping) unmap_file(m->mapping, m->size);
  free(m);
}

static RegardModel *open_data(const uint8_t *data, size_t size, const char *path, char *error, size_t error_size) {
  Opening o = {calloc(1, sizeof(RegardModel)), {{0}}, NULL};
  uint32_t sections = 0, format = 0;
  uint64_t checksum = 0;
  const char *problem = header_problem(data, size, &sections, &checksum);
  if (size >= 12) memcpy(&format, data + 8, 4);
  if (!problem && format != FORMAT) {
    explain(error, error_size, "%s: is of format %u, and this version of Regard reads format %d; export the model again", path, format, FORMAT);
    free(o.model);
    return NULL;
  }
  if (!o.model) problem = "there is no memory for it";
  if (!problem) {
    o.model->data = data, o.model->size = size, o.model->checksum = checksum;
    read_sections(&o, sections);
    if (!o.problem) copy_sections(&o);
    if (!o.problem) read_all(&o);
    problem = o.problem;
  }
  if (!problem) return o.model;
  explain(error, error_size, "%s: " DAMAGED, path, problem);
  regard_close(o.model);
  return NULL;
}

REGARD_API RegardModel *regard_open(const char *path, char *error, size_t error_size) {
  size_t size;
  const uint8_t *data = map_file(path, &size, error, error_size);
  if (!data) return NULL;
  RegardModel *model = open_data(data, size, path, error, error_size);
  if (model) model->mapping = (void *)data;
  else unmap_file(data, size);
  return model;
}

REGARD_API int regard_is_unchanged(const RegardModel *m) {
  return !m->mapping || is_file_unchanged(m->mapping, HEADER, m->checksum);
}

REGARD_API RegardModel *regard_open_memory(const void *data, size_t size, char *error, size_t error_size) {
  if ((uintptr_t)data % ALIGNED) {
    explain(error, error_size, "the model: wanted memory aligned to %d bytes", ALIGNED);
    return NULL;
  }
  return open_data(data, size, "the model", error, error_size);
}

REGARD_API const char *regard_card(const RegardModel *model, size_t *size) {
  *size = model->card_size;
  return model->card;
}

REGARD_API const char *regard_languages(const RegardModel *model, size_t *size) {
  *size = model->languages_size;
  return model->languages;
}

REGARD_API void regard_options(const RegardModel *model, RegardOptions *o) {
  const Settings *s = &model->settings;
  *o = (RegardOptions){s->beam, 1, s->length_penalty, s->max_ratio, s->max_extra, s->min_length, s->max_length, s->no_repeat_ngram, s->max_line, s->max_whole, 1, 0, 0, 0, !(s->lines & 1), .temperature = 1};
}

REGARD_API int32_t regard_recurrence(const RegardModel *m) { return (m->encoder_states.parts > 0) + 2 * m->settings.is_recurrent; }
REGARD_API int32_t regard_layers(const RegardModel *model) { return model->layer_count; }
REGARD_API RegardLayer regard_layer(const RegardModel *model, int32_t number) { return model->layers[number]; }

REGARD_API const char *regard_token(const RegardModel *model, int is_target, int32_t id, size_t *size) {
  return tokenizer_piece(is_target ? model->target : model->source, id, size);
}
