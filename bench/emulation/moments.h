/* The next of many times: a tournament in which each time plays against its neighbour, so that one
 * that changes costs log2(count) comparisons. Equal times go by their number. Plain data; one
 * thread. */
#ifndef PSR_BENCH_MOMENTS_H
#define PSR_BENCH_MOMENTS_H

#include "base/err.h"

#include <stdint.h>

typedef struct psr_moments {
    int64_t *at_us;   /* [leaves], owned */
    uint32_t *winner; /* [leaves] inner nodes, 1 is the root: the number of the earliest below */
    uint32_t leaves;  /* a power of two, at least 2 */
} psr_moments;

/* count times, from number 0 on, all INT64_MAX. NOMEM. */
PSR_MUST_CHECK psr_err psr_moments_init(psr_moments *moments, uint32_t count);
void psr_moments_done(psr_moments *moments);

void psr_moments_set(psr_moments *moments, uint32_t number, int64_t at_us);
/* The number of the earliest; its time is at_us[number]. */
uint32_t psr_moments_first(const psr_moments *moments);

#endif
