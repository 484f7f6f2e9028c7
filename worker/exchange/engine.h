/* Engines: the part of an exchange that differs between architectures, free of I/O. Each is a way
 * that buckets go, and looks at the plan's buckets of its route alone; local and mpi are of all
 * buckets. A binding (worker/exchange/binding.h) is the set of those that a view's plan needs.
 * exchange.c (real sockets and threads) and the cluster simulation of the tests drive the same
 * engines. Nothing else in worker/ knows the architecture.
 *
 * Events in: ready, end_step, message. Out: messages through the outbox and landed(step, bucket):
 * the bucket's range of the weights arena now holds the weights AFTER that step. One thread: the
 * exchange thread; for an engine that plays all ranks, which needs nobody else, the compute
 * thread. */
#ifndef PSR_WORKER_EXCHANGE_ENGINE_H
#define PSR_WORKER_EXCHANGE_ENGINE_H

#include "base/config/config.h"
#include "model/layout.h"
#include "comm/comm.h"
#include "model/optimizers/optimizer.h"

typedef struct psr_engine_env {
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    const psr_plan *plan; /* of the same buckets */
    uint32_t rank;
    uint64_t first_step, total_steps; /* of the run */
    float *weights, *gradients;       /* arenas, borrowed for life */
    /* weights may be the memory of who holds the bucket, and nobody but the engine writes them from
     * the first step on */
    bool in_place;
    psr_space gradients_space; /* where they lie */
    /* [ranks that this process plays] arenas, borrowed for life: what each of them owes of what it
     * sent (comm/wire/compression/compression.h). NULL: the plan has no residual. */
    float *const *residuals;
    psr_optimizer *optimizer; /* borrowed; NULL when shards update, and in a ring that only sums */
    /* A ring that only sums: its sums go to weights, and gradients stay as they are; else they take
     * the gradients' place. The direct engine alone can do the first. */
    bool sums_to_weights;
    psr_outbox outbox; /* outlives the engine: what was lent may say
                          that it came back when that is gone */
    void *context;
    psr_err (*landed)(void *context, uint64_t step, uint32_t bucket);
    void (*wake)(void *context); /* the engine's woken will be called. Any
                                    thread, until the engine's stop */
} psr_engine_env;

/* A bucket of env's gradients, for the operation that exchanges it. */
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

    /* What it is like. */
    bool plays_all;     /* one process plays every rank in turn, and there is no other worker */
    psr_route route;    /* of its buckets. NONE: none is exchanged, or it is one of all buckets */
    psr_phase waits_in; /* what a report calls it when the compute thread waits for weights */

    psr_err (*open)(const psr_engine_env *env, psr_engine **ret_engine); /* env is copied */
    /* The exchange thread has ended, and env's wake must not be called any more. NULL: this engine
     * never calls it. */
    void (*stop)(psr_engine *engine);
    void (*close)(psr_engine *engine);
    /* Where a rank writes its gradient; NULL: every rank in env's arena. */
    float *(*gradients)(psr_engine *engine, uint32_t rank);
    /* The first for every bucket, or the second once all of a rank's have been reported; the other
     * is NULL. */
    psr_err (*ready)(psr_engine *engine, uint64_t step, uint32_t bucket);
    psr_err (*end_step)(psr_engine *engine, uint64_t step, uint32_t rank);
    /* The weights arena has the run's first ones; goes_on: those of a step that was taken. NULL:
     * that is all the same. */
    psr_err (*installed)(psr_engine *engine, bool goes_on);
    /* The weights as a checkpoint has them, borrowed; NULL: shards have them. No such function:
     * env's. */
    const float *(*saved)(const psr_engine *engine);
    /* Takes it. NULL: nobody sends it any. */
    psr_err (*message)(psr_engine *engine, psr_message **message);
    /* A thread of the engine's own called env's wake, or something else woke the exchange thread.
     * NULL: it has no such thread. */
    psr_err (*woken)(psr_engine *engine);
    /* Whom it waits for, in which step: for PROGRESS and the deadline's line. false: nobody. NULL:
     * never anybody. */
    bool (*waits)(const psr_engine *engine, psr_waiting *ret_waiting, uint32_t *ret_bucket);
    /* Lent slices of a bucket's gradient; its range may be written again when 0. Any thread. NULL:
     * what has landed is not lent. */
    uint32_t (*lent)(const psr_engine *engine, uint32_t bucket);
    uint64_t (*staleness)(psr_engine *engine); /* largest since the last call; NULL: always 0 */
} psr_engine_ops;

extern const psr_engine_ops psr_engine_ps;
extern const psr_engine_ops psr_engine_ring;
extern const psr_engine_ops psr_engine_direct; /* --mode ring where workers share memory */
extern const psr_engine_ops psr_engine_local;  /* the reference: one process */
extern const psr_engine_ops psr_engine_none;   /* --no-exchange: weights stay as they are */
extern const psr_engine_ops psr_engine_mpi;    /* where the build has MPI (PSR_MPI) */

typedef struct psr_ways {
    const psr_engine_ops *engines[PSR_ROUTES];
    uint32_t count;
} psr_ways;

/* The engines for the routes of the plan's buckets; or the one that config asks for (local, mpi),
 * whose buckets go nowhere by the plan. UNSUPPORTED: this build has none for it. FORMAT: the plan
 * has a way that does not go with config's mode. */
PSR_MUST_CHECK psr_err psr_engine_choose(const psr_config *config, const psr_plan *plan,
                                         psr_ways *ret_ways);

/* Before joining, when there is no plan: the shards that a run of this configuration has, and
 * whether it is one process that plays all ranks. */
uint32_t psr_engine_shards(const psr_config *config);
bool psr_engine_is_alone(const psr_config *config);
/* Whether a process that the launcher of mpi ("Open MPI", "MPICH"; NULL: of none) has started can
 * sum so. USAGE: its sums are another MPI's, which would find one process alone. */
PSR_MUST_CHECK psr_err psr_engine_check_launcher(const psr_config *config, const char *mpi);

#endif
