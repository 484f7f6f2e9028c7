/* The passes of a step: forward and backward, over the batch of a replica, or with --accumulate
 * over one batch after the other. With --sync-bn the passes of all workers go on together, from one
 * batch norm to the next (model/norm_sums.h); a process that plays all ranks takes them in turn, a
 * part of each after the other. One thread: the compute thread. */
#ifndef PSR_WORKER_PASSES_H
#define PSR_WORKER_PASSES_H

#include "worker/pass_times.h"
#include "worker/trainer.h"

/* What one replica does in a step. */
typedef struct psr_share {
    const psr_replica *replica;
    const psr_loader_batch *batch;
    float *gradients; /* where its gradient goes: the exchange's arena */
    bool first_step;  /* of this run: what that does alone says nothing about a worker's speed */
    /* Set by psr_passes_run: of all its samples. */
    psr_pass_result result;
    double computing_s; /* with several replicas at once, the part that was this one's */
} psr_share;

typedef struct psr_passes {
    psr_trainer *trainer;
    psr_pass_times *times; /* --record, in worker 0; NULL: none */
    psr_tracer *tracer;    /* --trace; NULL: this step is not recorded */
    uint64_t step;         /* which one it is, from 0, in the run */
} psr_passes;

/* Whether a step's passes of all replicas of this process have to be run together. */
bool psr_passes_are_together(const psr_trainer *trainer);

/* Between begin_step and end_step of the exchange. Of one replica: the exchange hears of each
 * bucket. Of several, which are together: it does not, and whoever calls reports all buckets of
 * each. With --sync-bn, a replica without samples takes part too. */
PSR_MUST_CHECK psr_err psr_passes_run(psr_passes *passes, psr_share *shares, uint32_t count);

/* What began then ends now; nothing without a tracer. */
void psr_passes_record(const psr_passes *passes, psr_trace_kind kind, uint32_t index,
                       uint32_t count, int64_t begin_ns);
int64_t psr_passes_clock(const psr_passes *passes);

#endif
