/* Greedy and beam search, as regard.search does it: the same tokens, the same scores. */

#ifndef REGARD_SEARCH_H
#define REGARD_SEARCH_H

#include "constraints.h"
#include "decoder.h"

#define ROWS 96 /* hypotheses that a thread decodes together */
#define MOST_JOINING (ROWS + 1) /* requests that join a search at once */
#define MOST_THREADS 256

typedef struct { /* a finished target: tokens without end of sentence, their log-probability with it, and its score */
  int32_t *ids;
  float *log_probs; /* of each token; in the block of `ids` */
  int64_t count;
  double log_prob, score;
  int is_complete; /* it holds all required terms */
} Hypothesis;

typedef struct Request Request;
typedef struct Trace Trace;
struct Request { /* a source to be translated, end of sentence last, and what was found for it, best first */
  const int32_t *source;
  int64_t count, max_steps;
  const RegardEncoded *encoded; /* instead of `source`, of `count` entries; the caller's while it is searched; NULL: none */
  const RegardOptions *options;
  const int32_t *prefix; /* tokens that every hypothesis begins with */
  int64_t prefix_count;
  Terms terms;           /* that every hypothesis must hold */
  const Banned *banned;  /* that none may hold; NULL: nothing */
  uint64_t sampling_key;
  Trace *trace;          /* where the search is recorded; NULL: nowhere */
  Hypothesis *hypotheses;
  int64_t found;
  void (*done)(Request *); /* called when the hypotheses are there; NULL: nobody waits */
  void *owner;
};

typedef struct { /* one row of a sentence's beam */
  int64_t parent; /* row that it extends */
  int32_t token, order;   /* order: of a candidate among those that are not sorted */
  double log_prob, score; /* of the whole hypothesis; the score is what it is selected by */
  int64_t bank;           /* required tokens that it has */
} Beam;

typedef struct Sentence { /* a request while it is searched */
  Request *request;
  const Tokenizer *target;
  Source source;
  int64_t rows, length; /* hypotheses, and tokens of each */
  Beam *beams;          /* (beam) */
  int32_t copies[MOST_COPIES]; /* copy tokens that each hypothesis must hold once: those of the source */
  int64_t copy_count;
  uint8_t *states, *other_states; /* (beam, state size) progress through its terms */
  int64_t whole;        /* number of its first row among those whose whole distributions are needed; -1: none are */
  int64_t capacity;     /* tokens that there is room for */
  int32_t *history, *other_history; /* (beam, capacity) */
  double *totals, *other_totals;    /* (beam, capacity) log-probability up to each token */
  float **past, **other_past;       /* (beam, capacity) blocks of each row; recurrent: the newest only */
  float **owned;                    /* blocks of this sentence */
  size_t owned_count, owned_capacity;
  Hypothesis *finished;
  size_t finished_count, finished_capacity;
} Sentence;

typedef struct { /* sentences that one decoder searches together */
  Decoder *decoder;
  Sentence *sentences;
  int64_t count;
  size_t capacity;
  Beam *candidates, *selected;
  size_t candidate_capacity, selected_capacity;
  int64_t candidate_count;
  TokenBuffer bans, columns, next; /* of one row: tokens that may not come, what may, those of its terms or in the order of a draw */
  int is_after_space;              /* the row */
  int64_t missing;                 /* copy tokens that it has not written yet */
  int needs_copies;                /* they alone may come next */
  int64_t raised;                  /* column of the one that is written where the row would end; -1: none is */
  TextBuffer text;                 /* its last bytes */
  int64_t likeliest;               /* tokens of each row that the model is asked for; 0: none */
  int64_t *whole_rows;             /* rows of the step whose whole distributions are needed */
  int64_t whole_count;
  int64_t *banks;                  /* candidates of each */
  size_t whole_capacity, bank_capacity, score_capacity;
  const float *log_probs;          /* (whole_count, vocabulary) */
  float *scores;                   /* to draw from */
} Search;

/* Most tokens, end of sentence included, of a target of a source of so many tokens. */
int64_t most_steps(const RegardModel *model, const RegardOptions *options, int64_t source);
/* The same if so many tokens of a prefix are required. */
int64_t most_steps_with(const RegardModel *model, const RegardOptions *options, int64_t source, int64_t required);

/* Threads that compute each step of a single sentence together: none for a small model, and no more than the output of a
   layer has panels, among which products are shared out. */
int team_size(const RegardModel *model, int threads);

/* Searches all requests on several threads. Returns 0, or -1 if there is no memory. */
int search_all(RegardModel *model, Request *requests, int64_t count, int threads);

typedef struct Steps Steps; /* a search of many requests on the thread of a caller who may give it up after each step */
/* NULL: there is no memory. The requests stay where they are until it is freed. */
Steps *steps_open(RegardModel *model, Request *requests, int64_t count);
/* Decodes one more token of the requests that are begun, and begins others that fit. Returns how many are not done, or -1
   if there is no memory. */
int64_t steps_next(Steps *steps);
void steps_free(Steps *steps);

typedef struct { /* room in a search: hypotheses and source tokens of its open sentences, and of requests that join them */
  int64_t rows, tokens, encoded, joining;
  int is_idle, is_full, takes_encoded; /* those that join are all encoded already, or none is */
} Room;

Room room_of(const Search *search);
/* Whether a request can join, whose place is taken then; a search that is idle takes any. */
int room_takes(Room *room, const Request *request);
/* Requests that one of several threads takes at once, so that others have something to do, too. */
int64_t fair_share(int64_t requests, int threads);

/* Takes requests in, all encoded already or none. Returns 0, or -1 if there is no memory. */
int search_begin(Search *search, Request *const *requests, int64_t count);
/* Decodes one more token of every open sentence; those that are done leave. Returns 0, or -1 if there is no memory. */
int search_step(Search *search);
/* Drops the open sentences whose requests satisfy `is_unwanted`. */
void search_drop(Search *search, int (*is_unwanted)(const Request *));
void search_free(Search *search);

void free_hypotheses(Request *request);

#endif
