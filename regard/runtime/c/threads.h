/* Locks and threads; where there are none, as in WebAssembly, locks do nothing. */

#ifndef REGARD_THREADS_H
#define REGARD_THREADS_H

#if defined(__wasm__)
typedef int Lock;
static inline void lock_open(Lock *l) { *l = 0; }
static inline void lock_close(Lock *l) { (void)l; }
static inline void lock(Lock *l) { (void)l; }
static inline void unlock(Lock *l) { (void)l; }
#else
#include <pthread.h>
typedef pthread_mutex_t Lock;
static inline void lock_open(Lock *l) { pthread_mutex_init(l, NULL); }
static inline void lock_close(Lock *l) { pthread_mutex_destroy(l); }
static inline void lock(Lock *l) { pthread_mutex_lock(l); }
static inline void unlock(Lock *l) { pthread_mutex_unlock(l); }
#endif

#endif
