/* The clock of one program, moved: LD_PRELOAD this, and write seconds (8 bytes, little-endian) into $PLAIT_CLOCK. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long *moved(void) {
    static volatile long *place = NULL;
    static volatile long none = 0;
    if (place == NULL) {
        const char *path = getenv("PLAIT_CLOCK");
        int file = path == NULL ? -1 : open(path, O_RDONLY);
        void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        place = found == MAP_FAILED ? &none : (volatile long *)found;
    }
    return place;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *) = NULL;
    if (real == NULL) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *moved();
    return failed;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where != NULL) *where = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *where, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    where->tv_sec = now.tv_sec;
    where->tv_usec = now.tv_nsec / 1000;
    return 0;
}
