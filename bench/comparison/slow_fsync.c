/* A disk whose writes take long: preload this library, and set BENCH_FSYNC_MS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_a_moment(void) {
    const char *given = getenv("BENCH_FSYNC_MS");
    long ms = given ? atol(given) : 0;
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left)) {
    }
}

int fsync(int fd) {
    wait_a_moment();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int fdatasync(int fd) {
    wait_a_moment();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
