/* Engines: the part of an exchange that differs between architectures. They do no I/O. Each engine
 * is for one route, and handles the plan's buckets of that route only; local, mpi and nccl handle
 * all buckets. A binding (worker/exchange/binding.h) is the set of engines that a view's plan
 * needs. exchange.c (real sockets and threads) and the simulated cluster of the tests drive the
 * same engines. Nothing else in worker/ knows the architecture.
 *
 * Events in: ready, end_step, message. Out: messages through the outbox, and landed(step, bucket):
 * the bucket's range of the weights arena now holds the weights AFTER that step; without an
 * optimizer, that of its sums the step's sum. One thread: the exchange thread; for an engine that
 * computes all ranks, which needs no other process, the compute thread. */
#ifndef PSR_WORKER_EXCHANGE_ENGINE_H
#define PSR_WORKER_EXCHANGE_ENGINE_H

#include "base/config/config.h"
#include "comm/buffer.h"
#include "comm/operations/waiting.h"
#include "comm/outbox.h"
#include "comm/tables/global_norm.h"
#include "comm/view/plan.h"
#include "model/layout.h"
#include "model/optimizers/optimizer.h"
#include "worker/exchange/tensor_norms.h"

/* --mode nccl: this worker's GPU, and who sums with it. */
typedef struct psr_engine_gpu {
    uint32_t device;
    bool shares_devices; /* device is taken modulo how many there are */
    uint8_t group[128];  /* PSR_CUDA_GROUP_ID_BYTES (model/cuda/api.h) */
    /* psr_engine_keeps_gradients: where they lie on the device (psr_backend_gradients), from before
     * the first step on */
    float *gradients;
} psr_engine_gpu;

typedef struct psr_engine_env {
    /* --clip-norm, fp16: hears the sums of squares of what the engine updates; its buckets' runs.
     * Borrowed for life; NULL: updates wait for no norm. */
    psr_global_norm *norm;
    /* --tensorboard-norms: hears those of tensors, likewise; NULL: nobody asks */
    psr_tensor_norms *tensors;
    const psr_span *spans; /* NULL: neither */
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    const psr_plan *plan; /* a plan of the same buckets */
    uint32_t rank;
    const psr_engine_gpu *gpu;        /* borrowed for life; NULL: not --mode nccl */
    uint64_t first_step, total_steps; /* the run's */
    uint64_t skipped_steps;           /* before first_step: those that were left out, in fp16 */
    float *weights, *gradients;       /* arenas, borrowed for life */
    /* weights may be the memory of the bucket's holder, and only the engine writes them from the
     * first step on */
    bool in_place;
    psr_space gradients_space; /* the memory space of gradients */
    /* [ranks that this process computes] arenas, borrowed for life: their residuals
     * (comm/wire/compression/compression.h). NULL: the plan has no residual. */
    float *const *residuals;
    /* borrowed; NULL if shards update, or a device (--update-on device), and in a ring that only
     * sums */
    psr_optimizer *optimizer;
    /* For a ring that only sums: the sums go to weights, and gradients stay as they are; otherwise
     * they replace the gradients. Only the direct engine can do the former. */
    bool sums_to_weights;
    psr_outbox outbox; /* outlives the engine: loans may end after the engine was freed */
    void *context;
    psr_err (*landed)(void *context, uint64_t step, uint32_t bucket);
    /* what the engine's fetch reads of a bucket is there */
    psr_err (*fetched)(void *context, uint32_t bucket);
    void (*stale)(void *context, uint64_t steps); /* see psr_table_options; NULL: nobody asks */
    /* The norm of a step's gradient is known: INFINITY if it is not finite (fp16). NULL: nobody
     * asks. */
    void (*clipped)(void *context, uint64_t step, double norm);
    /* --tensorboard-norms, worker 0: [layout's tensors] sums of squares of the step's gradient,
     * borrowed for the call; NULL: nobody asks. */
    void (*normed)(void *context, uint64_t step, const double *squares);
    /* makes the engine's woken be called. Any thread, until the engine's stop */
    void (*wake)(void *context);
} psr_engine_env;

/* The gradient of a bucket as a buffer, for the operation that exchanges it. */
static inline psr_buffer psr_engine_gradient(const psr_engine_env *env, uint32_t bucket)
{
    psr_span span = env->plan->buckets[bucket].span;
    return (psr_buffer){.data = env->gradients + span.offset,
                        .count = span.count,
                        .type = PSR_TYPE_FLOAT32,
                        .space = env->gradients_space};
}

typedef struct psr_engine psr_engine;

typedef struct psr_engine_ops {
    const char *name;

    /* Its properties. */
    bool computes_all_ranks; /* one process, in turn; there is no other worker */
    /* the route of its buckets. NONE: they are not exchanged, or it is for all buckets */
    psr_route route;
    psr_phase waits_in; /* the phase to report while the compute thread waits for weights */

    psr_err (*open)(const psr_engine_env *env, psr_engine **ret_engine); /* env is copied */
    /* The exchange thread has ended, and the engine may not call env's wake any more. NULL: it
     * never calls it. */
    void (*stop)(psr_engine *engine);
    void (*close)(psr_engine *engine);
    /* Where a rank writes its gradient; NULL: every rank writes into env's arena. */
    float *(*gradients)(psr_engine *engine, uint32_t rank);
    /* ready is called for every bucket; or end_step when all buckets of a rank have been reported.
     * The other one is NULL. */
    psr_err (*ready)(psr_engine *engine, uint64_t step, uint32_t bucket);
    psr_err (*end_step)(psr_engine *engine, uint64_t step, uint32_t rank);
    /* Reads a bucket's values after so many steps, which have landed, from the member that holds it
     * into ret_values: array `array` of comm/view/handover.h. NULL: every worker that updates
     * holds them all. */
    psr_err (*fetch)(psr_engine *engine, uint32_t bucket, uint64_t steps, uint32_t array,
                     float *ret_values);
    /* The weights arena has the run's first weights; goes_on: they are those after a step. NULL:
     * this engine need not know. */
    psr_err (*installed)(psr_engine *engine, bool goes_on);
    /* Without an optimizer: the arena in which a bucket's sum lies when it has landed, borrowed.
     * NULL: env's gradients. */
    const float *(*sums)(const psr_engine *engine);
    /* The weights as a checkpoint needs them, borrowed; result NULL: the shards have them. Function
     * NULL: env's weights. */
    const float *(*saved)(const psr_engine *engine);
    /* Takes *message. NULL: it gets no messages. */
    psr_err (*message)(psr_engine *engine, psr_message **message);
    /* A thread of the engine has called env's wake, or something else woke the exchange thread.
     * NULL: it has no such thread. */
    psr_err (*woken)(psr_engine *engine);
    /* The norm of the step's gradient is known: updates what waited for it, or leaves the step out.
     * NULL: it updates nothing, or finds the norm itself. */
    psr_err (*norm_known)(psr_engine *engine, uint64_t step, double norm);
    /* What it waits for, and in which step: for PROGRESS and the deadline's line. false: nothing.
     * NULL: it never waits. */
    bool (*waits)(const psr_engine *engine, psr_waiting *ret_waiting, uint32_t *ret_bucket);
    /* How many slices of a bucket's gradient are lent; when it is 0 the gradient may be written
     * again. Any thread. NULL: a bucket that has landed is not lent. */
    uint32_t (*lent)(const psr_engine *engine, uint32_t bucket);
} psr_engine_ops;

extern const psr_engine_ops psr_engine_ps;
extern const psr_engine_ops psr_engine_ring;
extern const psr_engine_ops psr_engine_direct; /* --mode ring if workers share memory */
extern const psr_engine_ops psr_engine_local;  /* the reference: one process */
extern const psr_engine_ops psr_engine_none;   /* --no-exchange: weights stay as they are */
extern const psr_engine_ops psr_engine_mpi;    /* if the build has MPI (PSR_MPI) */
extern const psr_engine_ops psr_engine_nccl;

typedef struct psr_ways {
    const psr_engine_ops *engines[PSR_ROUTES];
    uint32_t count;
} psr_ways;

/* The engines for the routes of the plan's buckets; or the one that config asks for (local, mpi,
 * nccl), whose buckets have no route. UNSUPPORTED: this build has no engine for it. FORMAT: the
 * plan has a route that does not fit config's mode. */
PSR_MUST_CHECK psr_err psr_engine_choose(const psr_config *config, const psr_plan *plan,
                                         psr_ways *ret_ways);

/* Before joining, when there is no plan: the number of shards of a run of this configuration, and
 * whether one process computes all ranks. */
uint32_t psr_engine_shards(const psr_config *config);
bool psr_engine_is_alone(const psr_config *config);
/* Whether it needs psr_engine_env's gpu. */
bool psr_engine_sums_on_gpus(const psr_config *config);
/* Whether gradients and their sums stay on that GPU, whose back end updates the weights. */
bool psr_engine_keeps_gradients(const psr_config *config);
/* Whether a process that this launcher has started ("Open MPI", "MPICH"; NULL: none) can sum by
 * MPI. USAGE: this build has another MPI library, which would find a single process. */
PSR_MUST_CHECK psr_err psr_engine_check_launcher(const psr_config *config, const char *mpi);

#endif
