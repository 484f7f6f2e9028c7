/* What the files of the simulated cluster share: cluster.c (time, faults, what came of it),
 * cluster_scheduler.c (with the disk), cluster_member.c (joining, shards) and cluster_worker.c. For
 * those alone. */
#ifndef PSR_TESTS_CLUSTER_PRIVATE_H
#define PSR_TESTS_CLUSTER_PRIVATE_H

#include "tests/unit/cluster/cluster.h"

#include "comm/loop.h"
#include "ps/parts.h"
#include "ps/scheduler/scheduler.h"
#include "ps/shard/shard_run.h"
#include "ps/shard_start.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>
#include <cmocka.h>

#define NEVER INT64_MAX
#define LINE_MAX 1024

typedef enum process_state {
    PROCESS_NOT_YET,
    PROCESS_RUNS,
    PROCESS_STOPPED,
    PROCESS_LEFT,   /* in order */
    PROCESS_FAILED, /* by itself: status and line */
    PROCESS_KILLED,
} process_state;

/* A gradient that a worker's device has yet to write. */
typedef struct device_work {
    psr_fence fence;
    bool passed;
    int64_t due_us; /* NEVER: there is none */
    uint64_t step;
    void (*told)(void *context); /* NULL: nobody has asked */
    void *context;
} device_work;

/* Of a member; the first field of worker and shard. The scheduler's has no member. */
typedef struct process {
    cluster *in;
    psr_peer self;
    process_state state;
    psr_provision provision;
    psr_transport *transport;
    psr_member *member;
    int64_t starts_us;
    int64_t tick_us; /* when it wants to be told the time */
    psr_err status;
    char line[LINE_MAX];
} process;

typedef struct shard {
    process process;
    psr_config config;     /* what it is told of the run's */
    psr_shard_start start; /* these, once it has joined */
    psr_loop *loop;
    psr_loop_waiter waiter; /* its clock */
    psr_shard_run *run;
} shard;

typedef struct worker {
    process process;
    psr_peers peers;
    psr_session *session; /* this and what follows, once it has joined */
    psr_exchange *exchange;
    float *history;              /* [step][arena] */
    float *slots[CLUSTER_SLOTS]; /* worker 0 of a resumed run with shards: what it restores */
    uint32_t *order;             /* of a backward pass */
    uint64_t step;               /* that is under way, or the next */
    uint64_t last_saved;         /* steps; 0: none */
    device_work *device;         /* [buckets]; NULL: no late devices */
    float *read;                 /* arena: the weights that the device works with */
    bool device_stuck;

    /* Its compute thread. */
    ucontext_t context;
    void *stack;
    psr_loop_waiter waiter;
    psr_observer observer;
    int64_t wakes_us; /* when it goes on; NEVER: it waits for a change */
    bool hung, computes, done, ended;
    psr_err result; /* of its end */
} worker;

struct cluster {
    cluster_options options;
    psr_config config; /* the scheduler's */
    uint32_t n, s;     /* workers, shards */
    psr_sim *sim;
    process scheduler_process;
    psr_scheduler *scheduler;
    psr_coordinator *coordinator; /* the scheduler's */
    worker *workers;
    shard *shards;
    uint64_t drawn;
    uint32_t compute_max_us;
    psr_err status;
    char line[LINE_MAX];
    int64_t joined_us, decided_us, ended_us;
    int64_t fault_us, resume_us; /* NEVER: not, or not any more */
    int64_t struck_us;
    bool stop_told;
    ucontext_t events; /* what resumes the compute threads */

    /* Checkpoints, one for each number of steps: [steps - first_step]. */
    float *sections;  /* [1 + CLUSTER_SLOTS + n][arena]: weights, slots, what each worker owes */
    size_t *filled;   /* [1 + CLUSTER_SLOTS + n] floats */
    int64_t *disk_us; /* when it is in place; NEVER: not whole yet, or told */
    uint32_t slot_count;
    bool owes; /* the run's compression has a residual */

    uint64_t staleness, gap, pushes_in_flight;
    uint32_t changes;         /* of mode that have happened */
    uint32_t asked, answered; /* changes that a person asked for, and was told of */
};

uint32_t cluster_draw(cluster *c, uint32_t below);
int64_t cluster_now_ms(const cluster *c);

/* cluster_scheduler.c */
void scheduler_make(cluster *c);
void scheduler_turn(cluster *c);
void cluster_stop(cluster *c); /* the launcher's Ctrl-C */
void checkpoints_make(cluster *c);
bool checkpoint_is_whole(const cluster *c, uint64_t steps);
/* The disk has it. */
void disk_turn(cluster *c, uint64_t steps);

/* cluster_member.c */
void process_start(process *p);
/* What lies in its inbox, what its compute thread has for it, and what the time asks for. */
void process_turn(process *p);
/* The process ends by itself, with this status and the detail: it tells the scheduler, as the
 * programs do. */
void process_fail(process *p, psr_err status);
void shard_done(shard *s);
/* Of a process that shares in an exchange: what is observed there, by the simulation's clock. */
void process_see(void *process, const psr_observed *observed);
int64_t process_now_ns(void *process);

/* cluster_worker.c */
psr_err worker_welcomed(worker *w);
void worker_report(void *context, psr_msg_progress *progress);
/* Its compute thread goes on, until it waits, computes or has ended. */
void worker_resume(worker *w);
void worker_done(worker *w);
/* When its device has something to do; and does it. */
int64_t worker_device_us(const worker *w);
void worker_device_turn(worker *w);

#endif
