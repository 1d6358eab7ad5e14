/* Files mapped into memory, read-only: POSIX, Windows; WebAssembly has no files, and opens models from memory. */

#include "mapping.h"
#include "explain.h" /* not model.h: windows.h has names of its own for kinds of numbers */

#if defined(__wasm__)

const uint8_t *map_file(const char *path, size_t *size, char *error, size_t error_size) {
  *size = 0;
  explain(error, error_size, "%s: WebAssembly opens models from memory; use regard_open_memory", path);
  return NULL;
}

void unmap_file(const void *data, size_t size) { (void)data, (void)size; }

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

#else

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const uint8_t *map_file(const char *path, size_t *size, char *error, size_t error_size) {
  struct stat about;
  void *data = MAP_FAILED;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  *size = 0;
  if (file < 0 || fstat(file, &about)) {
    explain(error, error_size, "%s: cannot be read (%s); check the path and its permissions", path, strerror(errno));
  } else if (!S_ISREG(about.st_mode)) {
    explain(error, error_size, "%s: is not a file; give a runtime file, which `regard export --to runtime` writes", path);
  } else if (!about.st_size) {
    explain(error, error_size, "%s: is empty; export the model again", path);
  } else {
    data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) explain(error, error_size, "%s: cannot be mapped into memory (%s)", path, strerror(errno));
    else *size = (size_t)about.st_size;
  }
  if (file >= 0) close(file);
  return data == MAP_FAILED ? NULL : data;
}

void unmap_file(const void *data, size_t size) { munmap((void *)data, size); }

#endif
