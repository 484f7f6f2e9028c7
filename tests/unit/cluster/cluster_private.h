/* What the files of the simulated cluster share: cluster.c (faults, moments, what came of it),
 * cluster_scheduler.c (with the disk) and cluster_worker.c. The processes are those of
 * bench/emulation/emulation.h. For those files alone. */
#ifndef PSR_TESTS_CLUSTER_PRIVATE_H
#define PSR_TESTS_CLUSTER_PRIVATE_H

#include "bench/emulation/emulation.h"
#include "tests/unit/cluster/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define NEVER PSR_EMULATION_NEVER

/* A gradient that a worker's device has yet to write. */
typedef struct device_work {
    psr_fence fence;
    bool passed;
    int64_t due_us; /* NEVER: there is none */
    uint64_t step;
    void (*told)(void *context); /* NULL: nobody has asked */
    void *context;
} device_work;

/* What is played of a worker. */
typedef struct worker {
    cluster *in;
    psr_emulated_worker *real;
    uint32_t rank;
    float *history; /* [step][arena] */
    /* worker 0 of a resumed run, of what shards have or workers had: what it restores */
    float *slots[CLUSTER_SLOTS], *pulled;
    uint32_t *order;     /* of a backward pass */
    uint64_t step;       /* that is under way, or the next */
    uint64_t last_saved; /* steps; 0: none */
    device_work *device; /* [buckets]; NULL: no late devices */
    float *read;         /* arena: the weights that the device works with */
    bool device_stuck;
    bool done;
} worker;

struct cluster {
    cluster_options options;
    psr_config config;
    uint32_t n, s; /* workers, shards */
    psr_sim *sim;
    psr_emulation *emulation;
    worker *workers;
    uint64_t drawn;
    uint32_t compute_max_us;
    uint32_t first[CLUSTER_WORKERS_MAX + 1]; /* of hosts */
    psr_host_ranks hosts;
    int64_t ended_us;
    int64_t fault_us, resume_us; /* NEVER: not, or not any more */
    int64_t struck_us;
    bool stop_told;

    /* Checkpoints, one for each number of steps: [steps - first_step]. */
    float *sections;  /* [2 + CLUSTER_SLOTS + n][arena]: weights, what workers have of them, slots,
                         what each worker owes */
    size_t *filled;   /* [2 + CLUSTER_SLOTS + n] floats */
    int64_t *disk_us; /* when it is in place; NEVER: not whole yet, or told */
    uint32_t slot_count;
    bool owes; /* the run's compression has a residual */
    bool pulls_differences;

    uint64_t staleness, gap, pushes_in_flight;
    uint32_t changes;         /* of mode that have happened */
    uint32_t asked, answered; /* changes that a person asked for, and was told of */
};

uint32_t cluster_draw(cluster *c, uint32_t below);

/* cluster_scheduler.c: what the scheduler tells of (psr_emulation_play). */
void scheduler_played(psr_emulation_play *play);
void cluster_stop(cluster *c); /* the launcher's Ctrl-C */
void checkpoints_make(cluster *c);
bool checkpoint_is_whole(const cluster *c, uint64_t steps);
/* The disk has it. */
void disk_turn(cluster *c, uint64_t steps);

/* cluster_worker.c (psr_emulation_play) */
psr_err worker_welcomed(void *cluster, psr_emulated_worker *real);
psr_err worker_trains(void *cluster, psr_emulated_worker *real);
void worker_freed(void *cluster, psr_emulated_worker *real);
/* When its device has something to do; and does it. */
int64_t worker_device_us(const worker *w);
void worker_device_turn(worker *w);

#endif
