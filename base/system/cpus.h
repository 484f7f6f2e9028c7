/* A set of this machine's processors (hardware threads), as the kernel numbers them, and as it
 * writes them: "0-3,8". Plain data; any thread. */
#ifndef PSR_BASE_SYSTEM_CPUS_H
#define PSR_BASE_SYSTEM_CPUS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_CPUS_MAX 4096

typedef struct psr_cpus {
    /* in the form of sched_setaffinity(2) */
    unsigned long words[PSR_CPUS_MAX / (8 * sizeof(unsigned long))];
} psr_cpus;

/* cpu: below PSR_CPUS_MAX. */
void psr_cpus_add(psr_cpus *cpus, uint32_t cpu);
bool psr_cpus_has(const psr_cpus *cpus, uint32_t cpu);
uint32_t psr_cpus_count(const psr_cpus *cpus);

/* The processors that this thread may run on, as restricted by taskset, a cgroup's cpuset and the
 * like. Empty if the kernel does not say. */
psr_cpus psr_cpus_allowed(void);

/* "0-3,8"; "" for none. The caller owns *ret_list: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_cpus_print(const psr_cpus *cpus, char **ret_list);
/* The same back. FORMAT. */
PSR_MUST_CHECK psr_err psr_cpus_parse(const char *list, psr_cpus *ret_cpus);

#endif
