/* A whole run in one process, in virtual time and from one seed: the scheduler, shards and workers
 * as they are (ps/'s machines, comm's members and loops, worker/'s session and exchange) on the
 * in-process network of net/transport.h, from JOIN to BYE. Only what computes is played: a worker
 * takes random times for the pieces of its steps, and its gradients are numbers of its rank and
 * step.
 *
 * It checks as it goes: a lent payload is read only when it is delivered, as a zero-copy network
 * would, and with half of the seeds only by who takes the message, as from shared memory; the
 * gradient of a bucket is poisoned as soon as a worker may write it again; with late devices
 * weights stay as they are until the fence of their bucket has passed; averages over workers are
 * right; the last checkpoint is whole; nobody is left waiting. */
#ifndef PSR_TESTS_CLUSTER_H
#define PSR_TESTS_CLUSTER_H

#include "comm/observer.h"
#include "worker/exchange/engines/engine.h"

#define CLUSTER_NOBODY UINT32_MAX
#define CLUSTER_SLOTS 2 /* most slots of an optimizer */
#define CLUSTER_WORKERS_MAX 64
#define CLUSTER_ONE_HOST UINT64_MAX

typedef enum cluster_fault_kind {
    CLUSTER_FAULTLESS,
    CLUSTER_KILLED, /* gone, with all that is under way from and to it; the launcher says nothing */
    CLUSTER_LOST,   /* the same, and the launcher tells the scheduler at once */
    CLUSTER_STOPPED,      /* does nothing for so long; what it is told waits for it */
    CLUSTER_HUNG,         /* a worker that computes nothing any more, and reports so */
    CLUSTER_DEVICE_STUCK, /* a worker's device does nothing any more. With late_devices */
} cluster_fault_kind;

typedef struct cluster_fault {
    cluster_fault_kind kind;
    psr_peer who;
    int64_t at_us, for_us; /* for_us: of STOPPED */
} cluster_fault;

typedef struct cluster_options {
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    uint64_t steps, first_step;
    /* What a resumed run (first_step > 0) begins with, as a checkpoint has it; NULL: numbers that
     * nobody has computed (cluster_initial_weights, ..). Without what workers owe */
    const float *restored_weights, *const *restored_slots;
    uint64_t seed;
    uint32_t duplicate_permille; /* PUSH and WEIGHTS that arrive twice */
    uint32_t slow_worker;        /* computes ten times as long as the others; CLUSTER_NOBODY */
    uint64_t stop_at; /* the run is told to end when this step begins; UINT64_MAX: it is not */
    /* Of a thousand moments in which the scheduler is awake, those in which a person asks for
     * another mode. */
    uint32_t asks_permille;
    /* Bit r: worker r shares memory with worker r - 1; those that do are a host (ps/parts.h). */
    uint64_t shares;
    bool counts_pushes; /* for cluster_pushes_in_flight: slow */
    /* --precision fp16: bit s: in step s the gradient of one worker overflows in one place. */
    uint64_t overflows;
    /* Workers compute on a device that is late: it writes a gradient, and passes the gradient's
     * fence, some time after the worker has reported the bucket; in any order. */
    bool late_devices;
    cluster_fault fault;
    /* Hears what workers and shards observe (comm/observer.h), in virtual time; NULL: nobody. */
    void *observing;
    void (*see)(void *observing, psr_peer who, const psr_observed *observed);
} cluster_options;

typedef struct cluster cluster;

/* Runs until all processes have ended. Without a fault, or with a stop for less than the deadline,
 * it must end well. */
cluster *cluster_run(const cluster_options *options);
void cluster_free(cluster *cluster);

/* How the run ended: as the scheduler says, which may itself be the one that is killed (then PSR_OK
 * and ""). */
psr_err cluster_status(const cluster *cluster, const char **ret_line);
/* How that process ended: PSR_OK: it left in order, or was killed. */
psr_err cluster_status_of(const cluster *cluster, psr_peer peer, const char **ret_line);
/* In virtual time, from 0; INT64_MAX: not at all. When the last member joined, when the scheduler
 * ended the run, and when all processes had ended. */
int64_t cluster_joined_us(const cluster *cluster);
int64_t cluster_decided_us(const cluster *cluster);
int64_t cluster_ended_us(const cluster *cluster);
/* When the fault struck: one that hangs does so when it computes next; INT64_MAX: not before the
 * process had said DONE. */
int64_t cluster_struck_us(const cluster *cluster);

/* Worker's weights after step, the whole arena. */
const float *cluster_weights(const cluster *cluster, uint32_t rank, uint64_t step);
/* Of the checkpoint after `steps` steps (NULL: there is none, or not wholly): weights, a slot of
 * the optimizer, a residual. */
const float *cluster_checkpointed_weights(const cluster *cluster, uint64_t steps);
const float *cluster_slot(const cluster *cluster, uint32_t slot, uint64_t steps);
/* what all workers have of the weights, where these come as differences */
const float *cluster_pulled(const cluster *cluster, uint64_t steps);
/* what it owes */
const float *cluster_residual(const cluster *cluster, uint32_t rank, uint64_t steps);
uint64_t cluster_steps(const cluster *cluster);     /* that were taken, those before included */
uint32_t cluster_changes(const cluster *cluster);   /* of mode that have happened */
uint32_t cluster_asked(const cluster *cluster);     /* by a person, and taken */
uint64_t cluster_staleness(const cluster *cluster); /* largest that an engine told */
/* largest lead over the slowest when a step's weights were there */
uint64_t cluster_clock_gap(const cluster *cluster);
/* Most pushes of a worker to a shard that were under way at once. */
uint64_t cluster_pushes_in_flight(const cluster *cluster);

/* What every cluster starts from. */
void cluster_initial_weights(const psr_layout *layout, float *weights);
void cluster_initial_slot(const psr_layout *layout, uint32_t slot, float *values);
/* What all workers of a resumed run have, where weights come as differences. */
void cluster_initial_pulled(const psr_layout *layout, float *values);
/* What a worker of a resumed run owes. */
void cluster_initial_residual(const psr_layout *layout, uint32_t rank, float *values);
/* The gradient of a worker in a step, element by element: of many magnitudes, so that the order of
 * a sum shows. */
float cluster_gradient(uint32_t rank, uint64_t step, size_t i);

/* A TAP comment: how many runs there were, in what time. For a group's teardown. */
int cluster_print_rate(void **state);

#endif
