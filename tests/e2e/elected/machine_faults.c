/* Faults of one machine for the program that this is preloaded into: its wall clock is stepped, and
 * what it flushes to its disk fails or is slow. The file that MACHINE_FAULTS names has the faults.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int64_t step_ns;     /* added to CLOCK_REALTIME */
    int64_t flush_errno; /* of every fsync and fdatasync, 0 for none */
    int64_t flush_ms;    /* how long each of them takes */
};

static const struct faults none;
static const volatile struct faults *now = &none;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("MACHINE_FAULTS");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof(struct faults), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) now = found;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, at);
    if (result == 0 && clock == CLOCK_REALTIME) {
        int64_t ns = (int64_t)at->tv_sec * 1000000000 + at->tv_nsec + now->step_ns;
        at->tv_sec = ns / 1000000000;
        at->tv_nsec = ns % 1000000000;
    }
    return result;
}

static int flush(const char *name, int file) {
    int64_t ms = now->flush_ms, why = now->flush_errno;
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    if (ms) nanosleep(&pause, NULL);
    if (why) {
        errno = (int)why;
        return -1;
    }
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    return real(file);
}

int fsync(int file) { return flush("fsync", file); }
int fdatasync(int file) { return flush("fdatasync", file); }
