/* Preloaded into psring-worker: on the compute thread every reading of the monotonic clock is a
 * millisecond after the one before, however long that took. So all algorithms seem to take the same
 * time, and a choice by timing has no reason to leave the direct ones. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SEEN_BY_ALL __attribute__((visibility("default")))

typedef int clock_function(clockid_t clock, struct timespec *now);

SEEN_BY_ALL int clock_gettime(clockid_t clock, struct timespec *now)
{
    static clock_function *real;
    static long long told_ns;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (status != 0 || clock != CLOCK_MONOTONIC || gettid() != getpid() ||
        strcmp(program_invocation_short_name, "psring-worker") != 0)
        return status;
    told_ns = told_ns == 0 ? now->tv_sec * 1000000000LL + now->tv_nsec : told_ns + 1000000;
    *now = (struct timespec){told_ns / 1000000000, told_ns % 1000000000};
    return 0;
}
