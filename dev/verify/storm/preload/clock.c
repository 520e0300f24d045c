/* Preloaded into redis-server: its time of day is the machine's plus the number
 * of microseconds in a file that the storm writes. Monotonic clocks are left
 * alone. It asks the kernel itself: looking up the real functions would allocate
 * memory, and the server's allocator asks for the time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *step;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("BERTH_VERIFY_CLOCK");
    int fd = path ? open(path, O_RDONLY) : -1;
    if (fd < 0) return;
    void *page = mmap(0, sizeof *step, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) step = page;
}

static int64_t now(void) {
    struct timespec ts;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec + (step ? *step * 1000 : 0);
}

int clock_gettime(clockid_t id, struct timespec *ts) {
    if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return (int)syscall(SYS_clock_gettime, id, ts);
    int64_t t = now();
    ts->tv_sec = t / 1000000000;
    ts->tv_nsec = t % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
    (void)tz;
    int64_t t = now() / 1000;
    tv->tv_sec = t / 1000000;
    tv->tv_usec = t % 1000000;
    return 0;
}

time_t time(time_t *out) {
    time_t t = now() / 1000000000;
    if (out) *out = t;
    return t;
}
