/* Files mapped into memory, read-only: POSIX, Windows; WebAssembly has no files, and opens models from memory. */

#include "mapping.h"
#include "checksum.h"
#include "explain.h" /* not model.h: windows.h has names of its own for kinds of numbers */

#if defined(__wasm__)

const uint8_t *map_file(const char *path, size_t *size, char *error, size_t error_size) {
  *size = 0;
  explain(error, error_size, "%s: WebAssembly opens models from memory; use regard_open_memory", path);
  return NULL;
}

void unmap_file(const void *data, size_t size) { (void)data, (void)size; }
int is_file_unchanged(const void *data, size_t start, uint64_t checksum) { return (void)data, (void)start, (void)checksum, 1; }

#elif defined(_WIN32)

#include <stdlib.h>
#include <windows.h>

static HANDLE open_handle(const char *path) {
  int length = MultiByteToWideChar(CP_UTF8, 0, path, -1, NULL, 0);
  wchar_t *wide = malloc((size_t)(length ? length : 1) * sizeof *wide);
  if (!wide) return INVALID_HANDLE_VALUE;
  wide[0] = 0;
  MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, length);
  HANDLE file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
  free(wide);
  return file;
}

const uint8_t *map_file(const char *path, size_t *size, char *error, size_t error_size) {
  HANDLE file = open_handle(path), view;
  LARGE_INTEGER length;
  const uint8_t *data = NULL;
  *size = 0;
  if (file == INVALID_HANDLE_VALUE || !GetFileSizeEx(file, &length)) {
    explain(error, error_size, "%s: cannot be read (error %lu); check the path", path, GetLastError());
  } else if (!length.QuadPart) {
    explain(error, error_size, "%s: is empty; export the model again", path);
  } else if ((view = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL))) {
    data = MapViewOfFile(view, FILE_MAP_READ, 0, 0, 0);
    *size = (size_t)length.QuadPart;
    CloseHandle(view);
  }
  if (!data && *size) explain(error, error_size, "%s: cannot be mapped into memory (error %lu)", path, GetLastError());
  if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
  return data;
}

void unmap_file(const void *data, size_t size) { (void)size, UnmapViewOfFile(data); }
int is_file_unchanged(const void *data, size_t start, uint64_t checksum) { return (void)data, (void)start, (void)checksum, 1; }

#else

#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__APPLE__)
#define st_mtim st_mtimespec
#define st_ctim st_ctimespec
#endif

typedef struct {
  _Atomic(uintptr_t) start; /* 0: nothing is mapped */
  atomic_int is_lost;       /* pages of it are no longer the file's */
  size_t size;
  int file;
  struct stat about;
} Mapping;

static Mapping mappings[1024]; /* not allocated: the handler of signals may be looking at them */
static struct sigaction previous;
static Lock changing = PTHREAD_MUTEX_INITIALIZER;

/* The mapping that an address lies in; of 0 one that is free. NULL: there is none. */
static Mapping *mapping_at(uintptr_t address) {
  for (Mapping *m = mappings; m < mappings + 1024; m++)
    if (address ? m->start && address - m->start < m->size : !m->start) return m;
  return NULL;
}

/* Where a file was cut short, zeros take the place of its pages, and the result of the call will be refused: else the
   process would be killed without a sentence. */
static void replace_lost_pages(int number, siginfo_t *signal, void *context) {
  uintptr_t at = (uintptr_t)signal->si_addr, page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
  Mapping *m = at ? mapping_at(at) : NULL;
  (void)context;
  if (m) m->is_lost = 1;
  if (!m || mmap((void *)page, m->start + m->size - page, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
    sigaction(number, &previous, NULL); /* that one gets the signal when the access is tried again */
}

static void *map_guarded(int file, const struct stat *about) {
  struct sigaction action = {.sa_sigaction = replace_lost_pages, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  lock(&changing);
  Mapping *m = mapping_at(0);
  void *data = m ? mmap(NULL, (size_t)about->st_size, PROT_READ, MAP_SHARED, file, 0) : (errno = EMFILE, MAP_FAILED);
  if (!mappings->size) sigaction(SIGBUS, &action, &previous);
  if (data != MAP_FAILED) {
    m->size = (size_t)about->st_size, m->file = file, m->about = *about;
    m->is_lost = 0;
    m->start = (uintptr_t)data;
  }
  unlock(&changing);
  return data;
}

const uint8_t *map_file(const char *path, size_t *size, char *error, size_t error_size) {
  struct stat about;
  void *data = MAP_FAILED;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would be waited for */
  *size = 0;
  if (file < 0 || fstat(file, &about)) {
    explain(error, error_size, "%s: cannot be read (%s); check the path and its permissions", path, strerror(errno));
  } else if (!S_ISREG(about.st_mode)) {
    explain(error, error_size, "%s: is not a file; give a runtime file, which `regard export --to runtime` writes", path);
  } else if (!about.st_size) {
    explain(error, error_size, "%s: is empty; export the model again", path);
  } else if ((data = map_guarded(file, &about)) == MAP_FAILED) {
    explain(error, error_size, "%s: cannot be mapped into memory (%s)", path, strerror(errno));
  } else {
    *size = (size_t)about.st_size;
  }
  if (file >= 0 && data == MAP_FAILED) close(file);
  return data == MAP_FAILED ? NULL : data;
}

void unmap_file(const void *data, size_t size) {
  Mapping *m = mapping_at((uintptr_t)data);
  munmap((void *)data, size);
  close(m->file), m->start = 0;
}

static int same_time(struct timespec a, struct timespec b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

int is_file_unchanged(const void *data, size_t start, uint64_t checksum) {
  Mapping *m = mapping_at((uintptr_t)data);
  struct stat now;
  lock(&changing);
  int same = !fstat(m->file, &now) && now.st_size == m->about.st_size && same_time(now.st_mtim, m->about.st_mtim);
  if (same && !same_time(now.st_ctim, m->about.st_ctim)) { /* it lost its name to another file, or its time was set back */
    same = regard_checksum((const uint8_t *)data + start, m->size - start) == checksum;
    if (same) m->about = now;
  }
  unlock(&changing);
  return same && !m->is_lost;
}

#endif
