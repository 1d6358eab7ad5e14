/* Continuous batching of calls that arrive at any time; see regard.h. */

#include "result.h"
#include "threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__wasm__)

#include <time.h>

typedef struct Job { /* one call: its lines are searched among those of others */
  uint64_t ticket;
  RegardQueue *queue;
  RegardResult *result; /* NULL: there was no memory */
  Request *requests;
  int64_t count, next, open; /* requests; those that were begun; those that are not done */
  int is_wide, is_cancelled;
  struct Job *after;
} Job;

typedef struct { Job *first, *last; } JobList;

#define WIDE (ROWS / 4) /* rows of a beam from which on it is searched apart: the steps of others would take as long */

struct RegardQueue {
  RegardModel *model;
  Lock lock;
  pthread_cond_t has_work, has_results;
  JobList waiting[2]; /* with requests that no thread has begun, of narrow and of wide beams; the next one takes its turn first */
  JobList done;       /* whoever takes one puts its lines together */
  Job **jobs;       /* all that are open */
  size_t job_count, job_capacity;
  pthread_t threads[MOST_THREADS];
  int count, busy[2], is_closed; /* busy: searches that are open */
  int64_t pending[2];            /* requests that no thread has begun */
};

static void append_job(JobList *list, Job *job) {
  job->after = NULL;
  if (list->last) list->last->after = job;
  else list->first = job;
  list->last = job;
}

static Job *take_job(JobList *list) {
  Job *job = list->first;
  if (job && !(list->first = job->after)) list->last = NULL;
  return job;
}

static void unlink_job(JobList *list, const Job *job) {
  Job *last = NULL;
  for (Job **at = &list->first; *at;) {
    if (*at == job) *at = job->after;
    else last = *at, at = &last->after;
  }
  list->last = last;
}

/* Takes a job out of the queue; with the lock held. */
static void forget_job(RegardQueue *q, Job *job) {
  size_t i = 0;
  while (q->jobs[i] != job) i++;
  q->jobs[i] = q->jobs[--q->job_count];
}

static void free_job(Job *job) {
  regard_free(job->result);
  free(job);
}

/* Gives a job up: requests that are not begun never are, and it is freed once no search refers to it. With the lock held. */
static void cancel_job(RegardQueue *q, Job *job) {
  unlink_job(q->waiting + job->is_wide, job), unlink_job(&q->done, job);
  q->pending[job->is_wide] -= job->count - job->next, job->open -= job->count - job->next, job->next = job->count;
  job->is_cancelled = 1;
  if (job->open) return;
  forget_job(q, job);
  free_job(job);
}

/* --- threads ---------------------------------------------------------------------------------------------------- */

/* Takes requests that fit beside the open sentences of a search: one of each job in turn, so that a long job does not
   keep others waiting. With the lock held. */
static int64_t take_turns(RegardQueue *q, const Search *search, int is_wide, Request **taken) {
  Room room = room_of(search);
  JobList *waiting = q->waiting + is_wide;
  int is_busy = search->decoder != NULL; /* and counted as such */
  int64_t share = fair_share(q->pending[is_wide], q->count - q->busy[is_wide] + is_busy);
  Job *job;
  while ((job = waiting->first) && room.joining < share && room_takes(&room, job->requests + job->next)) {
    taken[room.joining - 1] = job->requests + job->next++;
    q->pending[is_wide]--;
    take_job(waiting);
    if (job->next < job->count) append_job(waiting, job);
  }
  return room.joining;
}

/* Lets those who wait for results have a job; with the lock held. */
static void hand_over(RegardQueue *q, Job *job) {
  append_job(&q->done, job);
  pthread_cond_broadcast(&q->has_results); /* somebody may wait for this one */
}

static void count_down(Request *request) {
  Job *job = request->owner;
  lock(&job->queue->lock);
  if (!--job->open && !job->is_cancelled) hand_over(job->queue, job);
  unlock(&job->queue->lock);
}

static int is_cancelled(const Request *request) { return ((const Job *)request->owner)->is_cancelled; }

/* Drops the sentences of cancelled jobs from a search, and frees jobs that no search refers to. With the lock held. */
static void drop_cancelled(RegardQueue *q, Search *search) {
  for (int64_t i = 0; i < search->count; i++) {
    Job *job = search->sentences[i].request->owner;
    if (job->is_cancelled) job->open--;
  }
  search_drop(search, is_cancelled);
  for (size_t i = q->job_count; i-- > 0;) {
    Job *job = q->jobs[i];
    if (!job->is_cancelled || job->open) continue;
    forget_job(q, job);
    free_job(job);
  }
}

/* Gives the job of a request up because there is no memory for it, and says so. */
static void fail_job(RegardQueue *q, Job *job) {
  if (job->is_cancelled) return;
  Job *failed = calloc(1, sizeof *failed);
  if (failed) {
    *failed = (Job){.ticket = job->ticket, .queue = q};
    hand_over(q, failed);
  }
  job->open++; /* so that it is not freed yet: others of its requests may be looked at next */
  cancel_job(q, job);
  job->open--;
}

/* Fails all jobs that a search has sentences of, or was about to begin. */
static void fail_search(RegardQueue *q, Search *search, Request **taken, int64_t count) {
  lock(&q->lock);
  for (int64_t i = 0; i < count; i++) {
    Job *job = taken[i]->owner;
    int is_begun = 0;
    for (int64_t j = 0; j < search->count; j++) is_begun |= search->sentences[j].request == taken[i];
    fail_job(q, job);
    if (!is_begun) job->open--;
  }
  for (int64_t j = 0; j < search->count; j++) fail_job(q, search->sentences[j].request->owner);
  drop_cancelled(q, search);
  unlock(&q->lock);
}

/* A sentence that is alone gets all threads for its steps. */
static int threads_for(const RegardQueue *q, int64_t taken) {
  int is_alone = taken == 1 && !q->busy[0] && !q->busy[1] && !q->pending[0] && !q->pending[1];
  return is_alone ? team_size(q->model, q->count) : 1;
}

static void close_search(RegardQueue *q, Search *search) {
  if (!search->decoder) return;
  search_free(search);
  give_decoder(q->model, search->decoder);
  *search = (Search){0};
}

/* One step of a search, which requests that were taken join. The lock is held when it begins and when it ends. */
static void step(RegardQueue *q, Search *search, int is_wide, Request **taken, int64_t count) {
  int team = threads_for(q, count);
  q->busy[is_wide] += !search->decoder;
  unlock(&q->lock);
  if (!search->decoder) search->decoder = take_decoder(q->model, team);
  if (!search->decoder || (count && search_begin(search, taken, count))) fail_search(q, search, taken, count);
  else if (search_step(search)) fail_search(q, search, taken, 0);
  lock(&q->lock);
  drop_cancelled(q, search);
  if (search->count) return;
  close_search(q, search);
  q->busy[is_wide]--;
}

/* Steps a search of narrow beams and one of wide ones by turns, both for as many rows. */
static void *work(void *argument) {
  RegardQueue *q = argument;
  Request *taken[MOST_JOINING];
  Search searches[2] = {{0}};
  int64_t stepped = 0; /* rows of narrow beams since the last step of wide ones */
  lock(&q->lock);
  while (!q->is_closed) {
    int has_narrow = searches[0].count || q->waiting[0].first, has_wide = searches[1].count || q->waiting[1].first;
    int is_wide = has_wide && (!has_narrow || stepped >= room_of(searches + 1).rows);
    Search *search = searches + is_wide;
    int64_t count = take_turns(q, search, is_wide, taken);
    stepped = is_wide ? 0 : stepped + room_of(search).rows;
    if (search->count || count) step(q, search, is_wide, taken, count);
    else pthread_cond_wait(&q->has_work, &q->lock);
  }
  unlock(&q->lock);
  close_search(q, searches), close_search(q, searches + 1);
  return NULL;
}

/* --- the interface ---------------------------------------------------------------------------------------------- */

REGARD_API void regard_queue_close(RegardQueue *q) {
  if (!q) return;
  lock(&q->lock);
  q->is_closed = 1;
  pthread_cond_broadcast(&q->has_work);
  pthread_cond_broadcast(&q->has_results);
  unlock(&q->lock);
  for (int i = 0; i < q->count; i++) pthread_join(q->threads[i], NULL);
  for (Job *job; (job = take_job(&q->done));)
    if (!job->result) free(job); /* those of others are among all */
  while (q->job_count) free_job(q->jobs[--q->job_count]);
  pthread_cond_destroy(&q->has_work), pthread_cond_destroy(&q->has_results);
  lock_close(&q->lock);
  free(q->jobs), free(q);
}

REGARD_API RegardQueue *regard_queue_open(RegardModel *model, int32_t threads, char *error, size_t error_size) {
  RegardQueue *q = calloc(1, sizeof *q);
  int wanted = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
  if (q) {
    q->model = model;
    lock_open(&q->lock);
    pthread_cond_init(&q->has_work, NULL), pthread_cond_init(&q->has_results, NULL);
    lock(&q->lock);
    while (q->count < wanted && !pthread_create(q->threads + q->count, NULL, work, q)) q->count++;
    unlock(&q->lock);
    if (q->count) return q;
    regard_queue_close(q);
  }
  explain(error, error_size, "no thread to translate with could be started; this machine has no memory or no processes left");
  return NULL;
}

static int submit(RegardQueue *q, uint64_t ticket, Sources sources, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  RegardResult *result = result_open(q->model, sources, count, constraints, options, error, error_size);
  if (!result) return -1;
  Job *job = result_copy(result) ? NULL : calloc(1, sizeof *job);
  lock(&q->lock);
  if (!job || reserve((void **)&q->jobs, &q->job_capacity, q->job_count + 1, sizeof *q->jobs)) {
    unlock(&q->lock);
    regard_free(result), free(job);
    explain(error, error_size, "there is not enough memory to translate %zu lines; give fewer at once", count);
    return -1;
  }
  *job = (Job){.ticket = ticket, .queue = q, .result = result, .is_wide = options->beam > WIDE};
  job->requests = result_requests(result, &job->count);
  job->open = job->count;
  for (int64_t i = 0; i < job->count; i++) job->requests[i].done = count_down, job->requests[i].owner = job;
  q->jobs[q->job_count++] = job;
  q->pending[job->is_wide] += job->count;
  if (job->count) append_job(q->waiting + job->is_wide, job);
  else hand_over(q, job);
  pthread_cond_broadcast(&q->has_work);
  unlock(&q->lock); /* from here on the job may be done and freed */
  return 0;
}

REGARD_API int regard_queue_submit(RegardQueue *q, uint64_t ticket, const char *const *lines, const size_t *sizes, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  return submit(q, ticket, (Sources){.lines = lines, .sizes = sizes}, count, constraints, options, error, error_size);
}

REGARD_API int regard_queue_submit_ids(RegardQueue *q, uint64_t ticket, const int32_t *const *ids, const size_t *counts, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  return submit(q, ticket, (Sources){.ids = ids, .sizes = counts}, count, constraints, options, error, error_size);
}

REGARD_API int regard_queue_submit_encoded(RegardQueue *q, uint64_t ticket, const RegardEncoded *sources, size_t count, const RegardConstraints *constraints, const RegardOptions *options, char *error, size_t error_size) {
  return submit(q, ticket, encoded_sources(sources), count, constraints, options, error, error_size);
}

REGARD_API void regard_queue_cancel(RegardQueue *q, uint64_t ticket) {
  lock(&q->lock);
  for (size_t i = 0; i < q->job_count; i++)
    if (q->jobs[i]->ticket == ticket && !q->jobs[i]->is_cancelled) {
      cancel_job(q, q->jobs[i]);
      break;
    }
  unlock(&q->lock);
}

static struct timespec moment_in(double seconds) {
  struct timespec moment;
  clock_gettime(CLOCK_REALTIME, &moment);
  double whole = floor(seconds);
  moment.tv_sec += (time_t)whole;
  moment.tv_nsec += (long)((seconds - whole) * 1e9);
  if (moment.tv_nsec >= 1000000000) moment.tv_sec++, moment.tv_nsec -= 1000000000;
  return moment;
}

/* Takes a job that is done, the first or that of a ticket, out of the queue; with the lock held. NULL: there is none. */
static Job *take_done(RegardQueue *q, const uint64_t *wanted) {
  Job *job = q->done.first;
  while (wanted && job && job->ticket != *wanted) job = job->after;
  if (job) unlink_job(&q->done, job);
  if (job && job->result) forget_job(q, job);
  return job;
}

static int take(RegardQueue *q, double seconds, const uint64_t *wanted, uint64_t *ticket, RegardResult **result) {
  struct timespec until = moment_in(seconds);
  Job *job;
  int is_late = 0;
  lock(&q->lock);
  while (!(job = take_done(q, wanted)) && !q->is_closed && !is_late) is_late = pthread_cond_timedwait(&q->has_results, &q->lock, &until) != 0;
  unlock(&q->lock);
  if (!job) return 0;
  if (job->result && result_finish(job->result)) regard_free(job->result), job->result = NULL;
  *ticket = job->ticket, *result = job->result;
  free(job);
  return 1;
}

REGARD_API int regard_queue_take(RegardQueue *q, double seconds, uint64_t *ticket, RegardResult **result) {
  return take(q, seconds, NULL, ticket, result);
}

REGARD_API int regard_queue_take_one(RegardQueue *q, double seconds, uint64_t ticket, RegardResult **result) {
  return take(q, seconds, &ticket, &ticket, result);
}

#endif
