/* The exchange wall: turns every worker's gradient of a bucket into everybody's new weights. The
 * only place that knows PS from ring from local. Training code calls this, and worker/session.h for
 * what belongs to a run's life.
 *
 * One step of one rank, all on the compute thread:
 *     psr_exchange_begin_step       (waits only when the run is being stopped)
 *     forward:  weights_wanted(b)   returns when bucket b of the arena holds the weights of this
 *                                   step and its gradient range may be written again
 *     backward: gradient_ready(b)   lends the gradient to the exchange; b's weights may change from
 *                                   now on or, with a fence, from when that has passed
 *     psr_exchange_end_step         every bucket has been reported; does not wait for the exchange
 * A process normally plays one rank; with --mode local one process plays all n in turn (begin..end
 * for rank 0, 1, .. n-1 of the same step), and the update happens in the last rank's end_step.
 *
 * A step belongs to one view. When another view begins with it, begin_step waits until all weights
 * have landed, drops what carried the verbs out (worker/exchange/binding.h), makes it again from
 * the new view, and waits for what that gives to this worker (comm/handover.h). Weights, the
 * optimizer's state and residuals stay.
 *
 * Engines (worker/exchange/engine_ps.c, engine_ring.c, engine_direct.c, engine_local.c,
 * engine_none.c) are free of I/O; engine_mpi.c's is MPI's, behind worker/exchange/mpi_sums.h.
 * exchange_thread.c drives them on the exchange thread, which owns all sockets; one that plays all
 * ranks needs none and works on the compute thread. A failure anywhere (deadline, abort from the
 * scheduler, peer's violation) makes every call return that status at once. */
#ifndef PSR_WORKER_EXCHANGE_EXCHANGE_H
#define PSR_WORKER_EXCHANGE_EXCHANGE_H

#include "worker/exchange/engine.h"
#include "worker/session.h"

typedef struct psr_exchange psr_exchange;

/* All borrowed for life. */
typedef struct psr_exchange_options {
    psr_session *session; /* not yet started; one exchange stands on it */
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    const psr_plan *plan; /* of the same buckets: of the view of epoch 0 */
    uint32_t rank;        /* the first that this process plays */
    const psr_ways *ways; /* psr_engine_choose's for that plan */
    /* Memory for them, as long as the layout and zeroed; NULL: of its own. gradients not with an
     * engine that has arenas of its own. */
    float *weights, *gradients;
    bool weights_in_place;     /* they may be other members' memory, which the transport shares */
    psr_space gradients_space; /* where they lie. Operations read memory of the host alone */
    /* Where views may follow each other (psr_session_view_at); else NULL, as context. Both are
     * called on the exchange thread. rebinding: nothing works by the old plan any more: opens
     * channels to whom the new one asks for. own_weights: the pages of `weights` that are another's
     * become this process's own, with what is in them; NULL: psr_arena_own. */
    void *context;
    psr_err (*rebinding)(void *context, const psr_plan *plan);
    psr_err (*own_weights)(void *context);
} psr_exchange_options;

/* Commands of an exchange that may wait for the thread: a step's, those of the step before that may
 * still be there, and some for metrics. */
uint32_t psr_exchange_commands_max(const psr_buckets *buckets);

/* Arenas (weights zero) and engine. UNSUPPORTED: gradients lie where no operation reads them. ret
 * owns: psr_exchange_free. */
PSR_MUST_CHECK psr_err psr_exchange_new(const psr_exchange_options *options,
                                        psr_exchange **ret_exchange);

/* After psr_session_stop and the end of member and transport, before psr_session_free. NULL
 * allowed. */
void psr_exchange_free(psr_exchange *exchange);

typedef struct psr_step {
    uint64_t step;         /* 0-based, of the run */
    uint32_t rank;         /* whose turn (a process may play several) */
    uint32_t batch;        /* this rank's samples; 0: its gradient is
                              +0.0, which the exchange writes itself */
    uint32_t global_batch; /* all ranks' samples in this step */
} psr_step;

typedef struct psr_exchange_figures {
    double wait_s;                       /* compute thread waited for weights since the last call */
    double exchange_s;                   /* time from the first gradient ready to the last
                                            weights landed, of the last completed step */
    uint64_t bytes_sent, bytes_received; /* since the last call */
    /* Of those sent, payloads of gradients (of a ring: and of their sums), and what they would have
     * been as float32. After a drain they are all of the steps until then. */
    uint64_t gradient_bytes, gradient_float32_bytes;
    uint64_t bytes_lent; /* of those sent: through shared memory */
    uint64_t staleness;  /* largest seen since the last call (SSP, async) */
    double pause_s;      /* a change of the view took (psr_session_bound), since the last call */
} psr_exchange_figures;

/* CANCELLED: as psr_session_may_begin. Fails too as a change of the view does. */
PSR_MUST_CHECK psr_err psr_exchange_begin_step(psr_exchange *exchange, const psr_step *step);
PSR_MUST_CHECK psr_err psr_exchange_weights_wanted(psr_exchange *exchange, uint32_t bucket);
/* fence: nothing of the bucket is read or written before it has passed (base/arrays/fence.h):
 * borrowed until the bucket's weights are wanted again, or the session has stopped. Does not wait
 * for it. NULL: it has passed. */
PSR_MUST_CHECK psr_err psr_exchange_gradient_ready(psr_exchange *exchange, uint32_t bucket,
                                                   psr_fence *fence);
PSR_MUST_CHECK psr_err psr_exchange_end_step(psr_exchange *exchange);

/* Waits until every bucket holds the weights after the last step (before evaluation, checkpoint,
 * hash). */
PSR_MUST_CHECK psr_err psr_exchange_drain(psr_exchange *exchange);

/* The same, and every other worker has come as far: they meet. Collective. */
PSR_MUST_CHECK psr_err psr_exchange_drain_all(psr_exchange *exchange);

/* Averages over all ranks, on every worker (batch-norm statistics, what metrics come to). rows: for
 * each rank that this process plays, in order, `width` doubles: sums, and last the weight that they
 * are of (a rank's samples; 1 where each rank counts the same). Row 0 becomes the averages, and
 * last the weights' sum: rows are added in ascending order of rank from rank 0's values, then
 * divided once. NaN when there is no weight at all. Collective. */
PSR_MUST_CHECK psr_err psr_exchange_average(psr_exchange *exchange, double *rows, size_t width);

/* Bytes of worker 0 to all. Borrows them for the call, also when it fails. Collective. */
PSR_MUST_CHECK psr_err psr_exchange_broadcast(psr_exchange *exchange, void *bytes, size_t size);

/* What a run starts from: worker 0's arena of state (0: weights, 1 + i: optimizer slot i) to all
 * that work with it: weights to the other workers and to shards, a slot to whoever makes the
 * updates. Before READY. Collective, but for slots that shards take: those are worker 0's to give.
 * Copies what shards get; what workers get is an arena of the exchange's own
 * (psr_exchange_first_weights, psr_exchange_slot), from which it is sent. */
PSR_MUST_CHECK psr_err psr_exchange_install(psr_exchange *exchange, uint32_t state, float *arena);

/* Arenas, borrowed for life. gradients: where the rank whose turn it is must write. Of weights some
 * pages may be a shard's, which writes them again when every worker has reported their bucket
 * ready: so nobody writes them here, and who reads them is done by then. */
const float *psr_exchange_weights(psr_exchange *exchange);
float *psr_exchange_gradients(psr_exchange *exchange);
/* The weights, for what a run starts from: written before psr_exchange_install of state 0, and not
 * after it. */
float *psr_exchange_first_weights(psr_exchange *exchange);
/* The weights as a checkpoint has them, after a drain: those of above, unless they come back
 * rounded (--compress-weights). NULL: shards send them. Borrowed for life. */
const float *psr_exchange_saved_weights(psr_exchange *exchange);

/* What rank number i of those that this process plays owes of the gradients that it has sent
 * (--compress): an arena, zeros at first. Written by the exchange from a bucket's gradient_ready
 * until its weights have landed; before START, and after a drain, the compute thread's. NULL: this
 * run owes nothing. Borrowed for life. */
float *psr_exchange_residual(psr_exchange *exchange, uint32_t i);

/* Ranks that this process plays, from its own on: one, or all of the run's. */
uint32_t psr_exchange_plays(const psr_exchange *exchange);

/* This process makes updates, and holds the optimizer's state of some buckets; else shards make
 * all. */
bool psr_exchange_updates_here(const psr_exchange *exchange);

/* This process has the optimizer's state of the bucket as a checkpoint has it, and saves it. */
bool psr_exchange_saves_state(const psr_exchange *exchange, uint32_t bucket);

/* Optimizer state arenas that this process holds, for checkpoints and resume; none when shards make
 * the updates. */
uint32_t psr_exchange_slot_count(psr_exchange *exchange);
float *psr_exchange_slot(psr_exchange *exchange, uint32_t slot);

void psr_exchange_take_figures(psr_exchange *exchange, psr_exchange_figures *ret_figures);

#endif
