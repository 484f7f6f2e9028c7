/* A whole cluster in one process, for tests: the engines of worker/ and the shards of ps/, driven from one
 * seed. Messages wait in first-in first-out channels; which channel delivers next, and which worker moves on,
 * is drawn at random, so that every interleaving that the real network could give can happen.
 *
 * It checks as it goes: a lent payload is read only when it is delivered, as a zero-copy network would; the
 * gradient of a bucket is poisoned as soon as a worker may write it again; buckets land in order; nobody is
 * left waiting. */
#ifndef PSR_TESTS_CLUSTER_H
#define PSR_TESTS_CLUSTER_H

#include "worker/engine.h"

#define CLUSTER_NOBODY UINT32_MAX

typedef struct cluster_options {
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    uint64_t steps, first_step;
    uint64_t seed;
    uint32_t duplicate_permille; /* PUSH and WEIGHTS that arrive twice */
    uint32_t slow_worker;        /* moves a tenth as often as the others; CLUSTER_NOBODY */
    uint64_t stop_at;            /* the run is told to end after this step; UINT64_MAX: it is not */
} cluster_options;

typedef struct cluster cluster;

/* Runs to the end. */
cluster *cluster_run(const cluster_options *options);
void cluster_free(cluster *cluster);

/* Worker's weights after step, the whole arena. */
const float *cluster_weights(const cluster *cluster, uint32_t worker, uint64_t step);
/* Slot of the optimizer after `steps` steps, as the shards' checkpoints gave it (NULL: not wholly). */
const float *cluster_slot(const cluster *cluster, uint32_t slot, uint64_t steps);
uint64_t cluster_staleness(const cluster *cluster); /* largest that an engine told */
uint64_t cluster_clock_gap(const cluster *cluster); /* largest lead over the slowest when a step began */
uint64_t cluster_messages(const cluster *cluster, psr_message_type type);
/* Most pushes of a worker to a shard that were under way at once. */
uint64_t cluster_pushes_in_flight(const cluster *cluster);

/* What every cluster starts from. */
void cluster_initial_weights(const psr_layout *layout, float *weights);
void cluster_initial_slot(const psr_layout *layout, uint32_t slot, float *values);
/* The gradient of a worker in a step, element by element: of many magnitudes, so that the order of a sum
 * shows. */
float cluster_gradient(uint32_t worker, uint64_t step, size_t i);

#endif
