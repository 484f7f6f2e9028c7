#include "net/reserve.h"

#include <sys/resource.h>

void psr_reserve_init(psr_reserve *reserve)
{
    struct rlimit limit;
    *reserve = (psr_reserve){0};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    reserve->count = limit.rlim_cur / 8 < PSR_RESERVE_MAX ? (size_t)limit.rlim_cur / 8 : PSR_RESERVE_MAX;
    reserve->first = (size_t)limit.rlim_cur - reserve->count;
}

/* Of the numbers that are kept, how many are in use. */
static size_t count_used(const psr_reserve *reserve)
{
    struct pollfd kept[PSR_RESERVE_MAX];
    size_t used = 0;
    for (size_t i = 0; i < reserve->count; i++)
        kept[i] = (struct pollfd){.fd = (int)(reserve->first + i)};
    if (poll(kept, reserve->count, 0) < 0)
        return reserve->count;
    for (size_t i = 0; i < reserve->count; i++)
        used += (kept[i].revents & POLLNVAL) == 0;
    return used;
}

bool psr_reserve_is_touched(const psr_reserve *reserve, int fd)
{
    if (reserve->count == 0)
        return false;
    return (size_t)fd >= reserve->first || count_used(reserve) > reserve->count / 2;
}

size_t psr_reserve_half_open(const psr_reserve *reserve, size_t most)
{
    return reserve->count > 0 && reserve->first / 8 < most ? reserve->first / 8 : most;
}
