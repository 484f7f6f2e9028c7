/* When a worker sees what others have pushed to a table. Both ends of a table use the same
 * consistency. Plain data. */
#ifndef PSR_COMM_CONSISTENCY_H
#define PSR_COMM_CONSISTENCY_H

#include <stdint.h>

typedef enum psr_consistency_kind {
    /* Bulk synchronous (Valiant, CACM 1990): one update by the sum of all workers' pushes of a
     * step; each push is answered with the values after that. */
    PSR_CONSISTENCY_BSP,
    /* Stale synchronous (Ho et al., "More effective distributed ML via a stale synchronous parallel
     * parameter server", NIPS 2013): each push is an update of its own, and a pull waits while a
     * worker is more than `bound` steps behind. */
    PSR_CONSISTENCY_SSP,
    PSR_CONSISTENCY_ASYNC, /* the same, and no pull waits */
} psr_consistency_kind;

typedef struct psr_consistency {
    psr_consistency_kind kind;
    uint32_t bound; /* SSP: in steps */
} psr_consistency;

#endif
