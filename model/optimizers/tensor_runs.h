/* What each bucket has of each trained tensor: the runs whose sums of squares make a tensor's norm
 * (--tensorboard-norms). Runs are numbered in ascending order of buckets, within one in the arena's
 * order, so every process that knows the layout and the buckets numbers them alike. A tensor's sum
 * is that of its runs, added in the order of their numbers: whoever has which bucket, the bits are
 * the same. In place. Immutable after building; any thread. */
#ifndef PSR_MODEL_TENSOR_RUNS_H
#define PSR_MODEL_TENSOR_RUNS_H

#include "base/err.h"
#include "base/span.h"
#include "model/layout.h"

#include <stdint.h>

typedef struct psr_tensor_run {
    uint32_t tensor; /* of the layout */
    uint32_t bucket;
    psr_span span; /* in the arena, without padding */
} psr_tensor_run;

typedef struct psr_tensor_runs {
    psr_tensor_run *items;
    uint32_t count;
    uint32_t *first; /* [buckets + 1]: those of bucket b are first[b] to first[b + 1] - 1 */
} psr_tensor_runs;

/* buckets: their runs of the arena, borrowed for the call. NOMEM. The caller owns *ret_runs:
 * psr_tensor_runs_done. */
PSR_MUST_CHECK psr_err psr_tensor_runs_of(const psr_layout *layout, const psr_span *buckets,
                                          uint32_t bucket_count, psr_tensor_runs *ret_runs);
/* Zeros allowed. */
void psr_tensor_runs_done(psr_tensor_runs *runs);

/* The sum of squares of a run in an arena (square_sum.h, over blocks from the run's start). */
double psr_tensor_run_squares(const psr_tensor_run *run, const float *arena);
/* ret_tensors[layout's tensors]: of each, the sum of its runs' squares; of a frozen one 0. */
void psr_tensor_runs_add(const psr_tensor_runs *runs, const double *squares, size_t tensor_count,
                         double *ret_tensors);

#endif
