/* Preloaded (LD_PRELOAD), writes down what a process does to the files of one folder, in order.

   TRACE_FOLDER: the folder. TRACE_FILE: where to write records of

       int32 what, int32 length of the name, int64 offset or size, int64 length of the data

   followed by the name of the file in the folder and the data. what: 0 written, 1 cut to a size,
   2 synchronised, 3 made, 4 removed. The folder itself is the file with the empty name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITTEN, CUT, SYNCHRONISED, MADE, REMOVED };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* the part of a path after the folder; NULL if it is elsewhere */
static const char *inside(const char *path) {
    const char *folder = getenv("TRACE_FOLDER");
    size_t n = folder ? strlen(folder) : 0;
    if (!n || strncmp(path, folder, n)) return NULL;
    return path[n] == '/' ? path + n + 1 : path[n] ? NULL : "";
}

static const char *name_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    if (n < 0) return NULL;
    path[n] = 0;
    return inside(path);
}

static void note(int what, const char *name, int64_t offset, const void *data, int64_t size) {
    static int file = -1;
    int head[2] = {what, (int)strlen(name)};
    int64_t numbers[2] = {offset, size};
    struct iovec parts[4] = {{head, sizeof head}, {numbers, sizeof numbers},
                             {(void *)name, strlen(name)}, {(void *)data, size}};
    if (file < 0) file = open(getenv("TRACE_FILE"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (writev(file, parts, data ? 4 : 3) < 0) abort();
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

/* what is done and what is noted is in one order, whichever thread does it */
#define NOTED(what, fd, result, offset, data, size) do { \
    char path[PATH_MAX]; \
    const char *name = name_of(fd, path); \
    if (name && (result) >= 0) note(what, name, offset, data, size); \
    pthread_mutex_unlock(&lock); \
} while (0)

static ssize_t pwrite_noted(const char *symbol, int fd, const void *data, size_t n, off_t at) {
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, symbol);
    pthread_mutex_lock(&lock);
    ssize_t done = real(fd, data, n, at);
    NOTED(WRITTEN, fd, done, at, data, done);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    return pwrite_noted("pwrite", fd, data, n, at);
}
ssize_t pwrite64(int fd, const void *data, size_t n, off_t at) {
    return pwrite_noted("pwrite64", fd, data, n, at);
}

ssize_t write(int fd, const void *data, size_t n) {
    REAL(ssize_t, "write", int, const void *, size_t);
    pthread_mutex_lock(&lock);
    ssize_t done = real(fd, data, n);
    NOTED(WRITTEN, fd, done, lseek(fd, 0, SEEK_CUR) - done, data, done);
    return done;
}

static int cut_noted(const char *symbol, int fd, off_t size) {
    int (*real)(int, off_t) = dlsym(RTLD_NEXT, symbol);
    pthread_mutex_lock(&lock);
    int done = real(fd, size);
    NOTED(CUT, fd, done, size, NULL, 0);
    return done;
}
int ftruncate(int fd, off_t size) { return cut_noted("ftruncate", fd, size); }
int ftruncate64(int fd, off_t size) { return cut_noted("ftruncate64", fd, size); }

static int sync_noted(const char *symbol, int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, symbol);
    pthread_mutex_lock(&lock);
    int done = real(fd);
    NOTED(SYNCHRONISED, fd, done, 0, NULL, 0);
    return done;
}
int fsync(int fd) { return sync_noted("fsync", fd); }
int fdatasync(int fd) { return sync_noted("fdatasync", fd); }

static int open_noted(const char *symbol, const char *path, int flags, mode_t mode) {
    int (*real)(const char *, int, mode_t) = dlsym(RTLD_NEXT, symbol);
    struct stat found;
    const char *name = flags & O_CREAT ? inside(path) : NULL;
    pthread_mutex_lock(&lock);
    int fresh = name && stat(path, &found) < 0;
    int fd = real(path, flags, mode);
    if (fresh && fd >= 0) note(MADE, name, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return fd;
}
int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return open_noted("open64", path, flags, mode);
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    const char *name = inside(path);
    pthread_mutex_lock(&lock);
    int done = real(path);
    if (name && done == 0) note(REMOVED, name, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}
