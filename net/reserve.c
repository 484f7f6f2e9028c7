#include "net/reserve.h"

#include <sys/resource.h>

#define LIMIT_ENOUGH 1024 /* no process has so many descriptors open before there are connections */

/* How many of count numbers from first on are in use. */
static size_t count_used(size_t first, size_t count)
{
    size_t used = 0;
    for (size_t at = 0; at < count;) {
        struct pollfd numbers[PSR_RESERVE_MAX];
        size_t some = count - at < PSR_RESERVE_MAX ? count - at : PSR_RESERVE_MAX;
        for (size_t i = 0; i < some; i++)
            numbers[i] = (struct pollfd){.fd = (int)(first + at + i)};
        /* if not, there are more than there may be, so none is free */
        bool told = poll(numbers, some, 0) >= 0;
        for (size_t i = 0; i < some; i++)
            used += !told || (numbers[i].revents & POLLNVAL) == 0;
        at += some;
    }
    return used;
}

psr_err psr_reserve_check(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= LIMIT_ENOUGH)
        return PSR_OK;
    size_t used = count_used(0, (size_t)limit.rlim_cur);
    if (used + PSR_RESERVE_LEAST <= limit.rlim_cur)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "this process may open %llu files, of which %zu are open, and its connections "
                    "need %d more: let there be more by ulimit -n",
                    (unsigned long long)limit.rlim_cur, used, PSR_RESERVE_LEAST);
}

void psr_reserve_init(psr_reserve *reserve)
{
    struct rlimit limit;
    *reserve = (psr_reserve){0};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    reserve->count =
        limit.rlim_cur / 8 < PSR_RESERVE_MAX ? (size_t)limit.rlim_cur / 8 : PSR_RESERVE_MAX;
    reserve->first = (size_t)limit.rlim_cur - reserve->count;
}

bool psr_reserve_is_touched(const psr_reserve *reserve, int fd)
{
    if (reserve->count == 0)
        return false;
    return (size_t)fd >= reserve->first ||
           count_used(reserve->first, reserve->count) > reserve->count / 2;
}

size_t psr_reserve_half_open(const psr_reserve *reserve, size_t most)
{
    return reserve->count > 0 && reserve->first / 8 < most ? reserve->first / 8 : most;
}
