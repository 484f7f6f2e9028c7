/* Everything that a worker needs to train: network, data, back end, session, exchange, and a
 * replica for each rank that this process computes (one rank; in --mode local all n). Training,
 * evaluation and checkpoints use it. One thread: the compute thread. */
#ifndef PSR_WORKER_TRAINER_H
#define PSR_WORKER_TRAINER_H

#include "data/loader.h"
#include "data/opened.h"
#include "model/backend.h"
#include "model/loss_scale.h"
#include "worker/exchange/exchange.h"

/* What computes passes. */
typedef struct psr_executor {
    psr_backend *backend;
    /* --accumulate: the sum of a step's gradients so far, and where the next one is written; arenas
     * as long as the parameters. NULL where it is 1, pass where it is below 3 */
    float *accumulated, *pass;
} psr_executor;

typedef struct psr_replica {
    uint32_t rank;
    const psr_executor *executor; /* the trainer's; its own if passes go on together */
    psr_loader *loader;           /* owned */
    float *buffers; /* owned: this rank's batch-norm statistics, net->buffers.length floats */
    /* owned: their average with --ema (model/optimizers/ema.h); otherwise NULL */
    float *ema_buffers;
} psr_replica;

typedef struct psr_trainer {
    /* with the run's pace; borrowed for life, as net, buckets, session and exchange */
    const psr_config *config;
    const psr_network *net;
    const psr_buckets *buckets;
    psr_session *session;
    psr_exchange *exchange;
    psr_dataset *train, *test; /* borrowed too */
    /* owned, as all below. The first one evaluates; with --sync-bn each replica has its own, since
     * all are in the middle of a pass then, otherwise they take turns with one */
    psr_executor *executors;
    uint32_t executor_count;
    psr_augment_plan plan; /* of training */
    psr_sampler sampler;
    psr_replica *replicas;
    uint32_t replica_count;
    uint32_t rank;           /* of replicas[0] */
    uint32_t ranks;          /* of the run */
    uint32_t number_on_host; /* of this process, among its host's workers */
    uint64_t first_step, total_steps;
    psr_loss_scale loss_scale; /* --precision fp16: as after the last step that has ended */
    bool evaluates_first;      /* before the first step, for an evaluation that was cut */
    /* --seconds has ended the run: an evaluation is the run's own, and is not left out because no
     * step follows */
    bool evaluates_at_end;
    const char *plan_directory; /* psr_backend_options', as the next; borrowed for life */
    bool unrecorded;
    bool floats_as_input;
} psr_trainer;

typedef struct psr_trainer_options {
    const psr_config *config;
    const psr_network *net;
    const psr_buckets *buckets;
    psr_session *session; /* started; this worker's channels are open */
    psr_exchange *exchange;
    psr_opened *data;        /* config's data; borrowed, and given config's constants */
    uint32_t rank, ranks;    /* the first rank of this process; number of ranks of the run */
    uint32_t number_on_host; /* of this process, among its host's workers */
    uint64_t first_step, total_steps;
    bool evaluates_first;
    const char *plan_directory; /* psr_backend_options', as the next; borrowed for the trainer's
                                   life */
    bool unrecorded;
    bool floats_as_input;      /* images go to the back end as floats, where it takes bytes too */
    psr_loss_scale loss_scale; /* the resumed checkpoint's; zeros: it has none */
} psr_trainer_options;

/* The sampler that distributes count samples among the ranks of a run. Its batches are those of
 * whole steps (psr_config_step_samples). */
psr_sampler psr_trainer_sampler(const psr_config *config, uint32_t ranks, uint32_t count);
/* Steps of a whole run; PSR_STEPS_MOST: --seconds alone ends it. */
uint64_t psr_trainer_total_steps(const psr_config *config, const psr_sampler *sampler);

/* --device: the GPU of the worker of that number on its host. *ret_shares: it is one of all that
 * the host has, counted round where there are fewer (psr_backend_options.shares_devices); may be
 * NULL. On a CPU: the number, which no back end reads. */
uint32_t psr_trainer_device(const psr_config *config, uint32_t number_on_host, bool *ret_shares);

/* Compiles the network and starts the loaders. All workers must use worker 0's choice of
 * algorithms; a choice by timing is made by worker 0 before the others compile. Collective: all
 * workers call it. The caller owns *ret_trainer: psr_trainer_done. */
PSR_MUST_CHECK psr_err psr_trainer_init(const psr_trainer_options *options,
                                        psr_trainer *ret_trainer);
/* Safe on a trainer of zeroes. */
void psr_trainer_done(psr_trainer *trainer);

/* Whether images should come from loaders as bytes (psr_loader_options). */
bool psr_trainer_wants_bytes(const psr_trainer *trainer);

/* Whether this process computes worker 0. */
bool psr_trainer_is_first(const psr_trainer *trainer);

#endif
