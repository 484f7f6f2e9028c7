#include "base/clock.h"

int64_t psr_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t psr_clock_ms(void)
{
    return psr_clock_ns() / 1000000;
}

struct timespec psr_clock_after_ns(int64_t duration_ns)
{
    int64_t later_ns = psr_clock_ns() + duration_ns;
    return (struct timespec){later_ns / 1000000000, later_ns % 1000000000};
}

double psr_clock_s(void)
{
    return (double)psr_clock_ns() * 1e-9;
}
