#include "data/samples.h"

#include "base/system/memory_limit.h"

/* Less than this is there on any host that trains. */
#define ALWAYS_BYTES ((uint64_t)64 << 20)

psr_err psr_samples_fit(const char *name, const char *what, uint64_t bytes, const char *right)
{
    if (bytes <= ALWAYS_BYTES)
        return PSR_OK;
    const uint64_t free_bytes =
        psr_memory_available("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup");
    if (bytes <= free_bytes / 3 * 2)
        return PSR_OK;
    const double gib = 1 << 30;
    return psr_fail(PSR_ERR_USAGE,
                    "%s: its %s take %.1f GiB of memory, for a moment half as much again, and "
                    "%.1f GiB are free; %s",
                    name, what, (double)bytes / gib, (double)free_bytes / gib, right);
}
