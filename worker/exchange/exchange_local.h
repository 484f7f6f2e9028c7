/* --mode local: one process that plays all n ranks in turn. The reference that the other modes are
 * held against, so it shares neither fold nor messages with them: it keeps every rank's gradient
 * arena, sums them with lines of its own and runs the optimizer. Compressed, it plays a definition
 * of docs/algorithms.md with comm's codecs alone. One thread: the compute thread. */
#ifndef PSR_WORKER_EXCHANGE_EXCHANGE_LOCAL_H
#define PSR_WORKER_EXCHANGE_EXCHANGE_LOCAL_H

#include "base/config/config.h"
#include "comm/comm.h"
#include "model/layout.h"
#include "model/optimizers/optimizer.h"

typedef struct psr_local psr_local;

/* All borrowed for life. */
typedef struct psr_local_options {
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    const psr_plan *plan;    /* of the same buckets: how many ranks there
                                are, and how each bucket is compressed */
    float *weights;          /* an arena: those that gradients are of */
    float *const *residuals; /* [ranks] arenas, what each owes; NULL
                                when the plan has no residual */
    psr_optimizer *optimizer;
} psr_local_options;

/* ret owns. NOMEM. */
PSR_MUST_CHECK psr_err psr_local_new(const psr_local_options *options, psr_local **ret_local);
void psr_local_free(psr_local *local);

/* Where rank (below ranks) writes its gradient. Borrowed for life. */
float *psr_local_gradients(psr_local *local, uint32_t rank);

/* The weights are the run's first ones; goes_on: those of a step that was taken. Where the plan's
 * pulled is a compression, from then on weights are the rounded ones, and those that are updated
 * have an arena of their own, as a shard has. NOMEM. */
PSR_MUST_CHECK psr_err psr_local_installed(psr_local *local, bool goes_on);
/* Those that are updated. Borrowed for life. */
const float *psr_local_saved(const psr_local *local);

/* All ranks have written: rounds as --compress-as says what each would send, sums, bucket by
 * bucket, and updates the weights. step is 0-based of total_steps. NUMERIC: a gradient or a sum is
 * not finite. */
PSR_MUST_CHECK psr_err psr_local_update(psr_local *local, uint64_t step, uint64_t total_steps);

#endif
