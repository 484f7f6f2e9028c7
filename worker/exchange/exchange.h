/* The exchange wall: turns every worker's gradient of a bucket into everybody's new weights. The
 * only place that knows PS from ring from local. Training code calls this, and worker/session.h for
 * what belongs to a run's life.
 *
 * With --update-on device it makes no weights, but sums of gradients: where it says below that
 * weights have landed, the sum has (psr_exchange_sums), of which each worker's back end makes them
 * (worker/device_update.h). Weights and slots are then copies of what the device has, which the
 * compute thread writes, and no member hands any of it to another.
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
 * the new view, and waits for what that gives to this worker (comm/view/handover.h). Weights, the
 * optimizer's state and residuals stay.
 *
 * Engines (worker/exchange/engines/engine_ps.c, engine_ring.c, engine_direct.c, engine_local.c,
 * engine_none.c) are free of I/O; engine_mpi.c's is MPI's, behind
 * worker/exchange/engines/mpi_sums.h. exchange_thread.c drives them on the exchange thread, which
 * owns all sockets; one that plays all ranks needs none and works on the compute thread. A failure
 * anywhere (deadline, abort from the scheduler, peer's violation) makes every call return that
 * status at once. */
#ifndef PSR_WORKER_EXCHANGE_EXCHANGE_H
#define PSR_WORKER_EXCHANGE_EXCHANGE_H

#include "comm/buffer.h"
#include "comm/view/plan.h"
#include "worker/exchange/engines/engine.h"
#include "worker/exchange/exchange_figures.h"
#include "worker/session.h"

typedef struct psr_exchange psr_exchange;

/* All borrowed for life. */
typedef struct psr_exchange_options {
    psr_session *session; /* not yet started; it serves one exchange */
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    const psr_plan *plan;      /* for the same buckets: that of the view of epoch 0 */
    uint32_t rank;             /* the first rank that this process computes */
    const psr_engine_gpu *gpu; /* --mode nccl: borrowed for life; else NULL */
    const psr_ways *ways;      /* psr_engine_choose's result for that plan */
    uint64_t skipped_steps;    /* before the first: those that were left out, in fp16 */
    /* Memory for them, as long as the layout and zeroed; NULL: the exchange's own. gradients must
     * be NULL with an engine that has its own arenas. */
    float *weights, *gradients;
    /* weights may become other members' memory, which the transport shares */
    bool weights_in_place;
    /* the memory space of gradients. Operations read memory of the host only */
    psr_space gradients_space;
    /* If views may follow one another (psr_session_view_at); otherwise NULL, as context. Both are
     * called on the exchange thread. rebinding: nothing uses the old plan any more: opens channels
     * to the members that the new one needs. own_weights: makes pages of `weights` that are another
     * process's this process's own, with their content; NULL: psr_arena_own. */
    void *context;
    psr_err (*rebinding)(void *context, const psr_plan *plan);
    psr_err (*own_weights)(void *context);
    /* Hears what the figures are made of, after them. NULL: nobody. */
    const psr_observer *observer;
} psr_exchange_options;

/* How many commands of an exchange may wait for the thread: those of a step, those of the step
 * before that may still be there, and some for metrics. */
uint32_t psr_exchange_commands_max(const psr_buckets *buckets);

/* Makes arenas (weights zero) and engines. UNSUPPORTED: gradients are in memory that no operation
 * reads. The caller owns *ret_exchange: psr_exchange_free. */
PSR_MUST_CHECK psr_err psr_exchange_new(const psr_exchange_options *options,
                                        psr_exchange **ret_exchange);

/* After psr_session_stop and the end of member and transport, before psr_session_free. NULL
 * allowed. */
void psr_exchange_free(psr_exchange *exchange);

typedef struct psr_step {
    uint64_t step;         /* from 0, in the run */
    uint32_t rank;         /* the rank whose turn it is (a process may compute several) */
    uint32_t batch;        /* this rank's samples; 0: its gradient is
                              +0.0, which the exchange writes itself */
    uint32_t global_batch; /* all ranks' samples in this step */
} psr_step;

/* CANCELLED: see psr_session_may_begin. A change of the view may fail here too. */
PSR_MUST_CHECK psr_err psr_exchange_begin_step(psr_exchange *exchange, const psr_step *step);
PSR_MUST_CHECK psr_err psr_exchange_weights_wanted(psr_exchange *exchange, uint32_t bucket);
/* fence: nothing of the bucket is read or written before it has passed (base/arrays/fence.h). It is
 * borrowed until the bucket's weights are wanted again, or the session has stopped. This call does
 * not wait for it. NULL: it has passed. */
PSR_MUST_CHECK psr_err psr_exchange_gradient_ready(psr_exchange *exchange, uint32_t bucket,
                                                   psr_fence *fence);
PSR_MUST_CHECK psr_err psr_exchange_end_step(psr_exchange *exchange);

/* Waits until every bucket holds the weights after the last step (before an evaluation, a
 * checkpoint or a hash). */
PSR_MUST_CHECK psr_err psr_exchange_drain(psr_exchange *exchange);

/* The same, and waits until every other worker has come as far. Collective. */
PSR_MUST_CHECK psr_err psr_exchange_drain_all(psr_exchange *exchange);

/* Averages over all ranks, on every worker (batch-norm statistics, metrics). rows: for each rank
 * that this process computes, in order, `width` doubles: sums, and last their weight (a rank's
 * samples; 1 if each rank counts the same). Row 0 becomes the averages, and last the sum of the
 * weights: rows are added in ascending order of rank, beginning with rank 0's values, then divided
 * once. NaN if the sum of the weights is 0. Collective. */
PSR_MUST_CHECK psr_err psr_exchange_average(psr_exchange *exchange, double *rows, size_t width);

/* --sync-bn: sums over all ranks, in the middle of their passes. rows: for each of the `count`
 * ranks that this process computes, in order, `width` doubles. All rows become the sums: added in
 * ascending order of rank, beginning with rank 0's values. Collective. */
PSR_MUST_CHECK psr_err psr_exchange_sum(psr_exchange *exchange, double *const *rows, uint32_t count,
                                        size_t width);

/* Sends bytes of worker 0 to all. They are borrowed for the call, also if it fails. Collective. */
PSR_MUST_CHECK psr_err psr_exchange_broadcast(psr_exchange *exchange, void *bytes, size_t size);

/* Distributes what a run starts from: worker 0's arena of a state (0: weights, 1 + i: array i of
 * the optimizer's state). Weights go to the other workers and to shards, an array of the state to
 * those that make the updates. Before READY. Collective, except for arrays that only shards need:
 * those worker 0 gives alone. What shards get is copied. What workers get is sent from an arena of
 * the exchange's own (psr_exchange_first_weights, psr_exchange_slot). */
PSR_MUST_CHECK psr_err psr_exchange_install(psr_exchange *exchange, uint32_t state, float *arena);

/* Whether workers get differences from the weights that they have (--compress-weights int8, topk,
 * 1bit): then a checkpoint has these too (psr_exchange_weights, after a drain). */
bool psr_exchange_pulls_differences(const psr_exchange *exchange);
/* In such a run that goes on, after psr_exchange_install of all else: distributes what the workers
 * had, which worker 0 gives, to workers and shards. state: 1 + the number of the optimizer's
 * arrays. pulled is copied, and NULL on other workers. Before READY. Collective. */
PSR_MUST_CHECK psr_err psr_exchange_install_pulled(psr_exchange *exchange, uint32_t state,
                                                   const float *pulled);

/* The arenas, borrowed for life. gradients: where the rank whose turn it is must write. Some pages
 * of weights may be a shard's, which writes them again when every worker has reported their bucket
 * ready: so this process never writes them, and has read them by then. */
const float *psr_exchange_weights(psr_exchange *exchange);
float *psr_exchange_gradients(psr_exchange *exchange);
/* --update-on device: the arena in which a bucket's sum lies when it has landed, until its gradient
 * is written again. Borrowed until the view changes. */
const float *psr_exchange_sums(psr_exchange *exchange);
/* The weights, for writing what a run starts from: before psr_exchange_install of state 0, not
 * after it; with --update-on device, also what the device has after a step. */
float *psr_exchange_first_weights(psr_exchange *exchange);
/* The weights as a checkpoint needs them, after a drain: psr_exchange_weights, unless these come
 * back rounded (--compress-weights). NULL: shards send them. Borrowed for life. */
const float *psr_exchange_saved_weights(psr_exchange *exchange);

/* The residual of rank number i of those that this process computes (--compress): an arena, zeros
 * at first. The exchange writes it from a bucket's gradient_ready until the bucket's weights have
 * landed; before START, and after a drain, it is the compute thread's. NULL: this run has no
 * residual. Borrowed for life. */
float *psr_exchange_residual(psr_exchange *exchange, uint32_t i);

/* The number of ranks that this process computes, from its own on: one, or all of the run's. */
uint32_t psr_exchange_plays(const psr_exchange *exchange);

/* Whether this process makes updates, and so holds the optimizer's state of some buckets. Otherwise
 * shards make all updates. */
bool psr_exchange_updates_here(const psr_exchange *exchange);

/* Whether this process has the optimizer's state of the bucket, and sends it for a checkpoint. */
bool psr_exchange_saves_state(const psr_exchange *exchange, uint32_t bucket);

/* With whom this process has exchanged how many bytes since the beginning
 * (worker/exchange/link_bytes.h). The caller owns *ret_json: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_exchange_links(const psr_exchange *exchange, char **ret_json);

/* The arenas of the optimizer's state that this process holds, for checkpoints and resume; none if
 * shards make the updates. */
uint32_t psr_exchange_slot_count(psr_exchange *exchange);
float *psr_exchange_slot(psr_exchange *exchange, uint32_t slot);

/* Array `slot` of the optimizer's state as it is after the last step, of all buckets, from the
 * members that hold them; with --ema alone. After psr_exchange_drain; no worker may begin a step
 * before all have read theirs. *ret_values: as long as the layout, borrowed until the next step
 * begins. */
PSR_MUST_CHECK psr_err psr_exchange_fetch_slot(psr_exchange *exchange, uint32_t slot,
                                               const float **ret_values);

/* --clip-norm, for worker 0; fp16, for all: waits for the norm of the last step's gradient, before
 * it was clipped. That is known before any new weights land. INFINITY: the step was left out
 * (model/loss_scale.h); with fp16 and without --clip-norm a finite one says no more. */
PSR_MUST_CHECK psr_err psr_exchange_gradient_norm(psr_exchange *exchange, double *ret_norm);
/* --tensorboard-norms, for worker 0 in a step that is due: waits for the sums of squares of its
 * gradient. [layout's tensors], borrowed until the next step; of a frozen tensor 0. */
PSR_MUST_CHECK psr_err psr_exchange_tensor_squares(psr_exchange *exchange,
                                                   const double **ret_squares);

/* What has come together since the last call; the next one begins at zero. */
void psr_exchange_take_figures(psr_exchange *exchange, psr_exchange_figures *ret_figures);

#endif
