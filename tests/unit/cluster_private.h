/* What cluster.c (the scheduler, shards, time and faults) and cluster_worker.c share. For those two files only. */
#ifndef PSR_TESTS_CLUSTER_PRIVATE_H
#define PSR_TESTS_CLUSTER_PRIVATE_H

#include "tests/unit/cluster.h"

#include "comm/collective.h"
#include "comm/member.h"
#include "ps/parts.h"
#include "ps/scheduler/scheduler.h"
#include "ps/shard/shard_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
    bool done;       /* it has said DONE */
    psr_err status;
    char line[LINE_MAX];
} process;

typedef struct shard {
    process process;
    psr_shard_run *run; /* once it has joined */
} shard;

/* What a worker's compute thread is at: what it waits for, or does next. */
typedef enum activity {
    ACTIVITY_JOIN,
    ACTIVITY_RESTORE, /* worker 0: of a resumed run's weights and slots */
    ACTIVITY_SPREAD,  /* a broadcast of these */
    ACTIVITY_START,   /* START */
    ACTIVITY_BEGIN,   /* a step may begin */
    ACTIVITY_FORWARD, /* the weights of the next bucket */
    ACTIVITY_BACKWARD,
    ACTIVITY_DRAIN, /* all weights */
    ACTIVITY_FOLD,  /* a sum over all workers, at the end */
    ACTIVITY_SAVE,  /* the checkpoint before is in place */
    ACTIVITY_BYE,
} activity;

typedef struct worker {
    process process;
    const psr_engine_ops *ops;
    psr_engine *engine; /* this and what follows, once it has joined */
    psr_collective *collective;
    psr_optimizer *optimizer;
    float *weights, *gradients;
    uint32_t *order;  /* of a backward pass */
    uint64_t *landed; /* [bucket] steps */
    float *history;   /* [step][arena] */
    double sum[3];

    activity activity;
    int64_t compute_us; /* when it does that; NEVER: it waits, or hangs */
    bool hung;
    uint64_t counter;  /* of progress */
    uint64_t restored; /* floats */
    uint32_t spread;   /* broadcasts begun */
    uint64_t step;     /* the next to begin, or that is under way */
    uint32_t next;     /* bucket of a pass that comes next: forward from the last one, backward order[next] */
    bool any_begun, started, held, bye, last;
    uint64_t stop_at, saved, last_saved; /* steps: in place, sent */
} worker;

struct cluster {
    cluster_options options;
    psr_config config; /* the scheduler's */
    uint32_t n, s;     /* workers, shards */
    psr_sim *sim;
    process scheduler_process;
    psr_scheduler *scheduler;
    worker *workers;
    shard *shards;
    psr_plan plan;
    uint64_t drawn;
    uint32_t compute_max_us;
    psr_err status;
    char line[LINE_MAX];
    int64_t joined_us, decided_us, ended_us;
    int64_t fault_us, resume_us; /* NEVER: not, or not any more */
    bool was_done, stop_told;

    /* Checkpoints, one for each number of steps: [steps - first_step]. */
    float *sections;  /* [1 + CLUSTER_SLOTS][arena]: weights, slots */
    size_t *filled;   /* [1 + CLUSTER_SLOTS] floats */
    int64_t *disk_us; /* when it is in place; NEVER: not whole yet, or told */
    uint32_t slot_count;

    uint64_t staleness, gap;
    uint64_t pushes_in_flight, *in_flight; /* [worker * s + shard] */
};

uint32_t cluster_draw(cluster *c, uint32_t below);
int64_t cluster_now_ms(const cluster *c);
void cluster_stop(cluster *c); /* the launcher's Ctrl-C */
/* The process ends by itself, with this status and the detail: it tells the scheduler, as the programs do. */
void process_fail(process *p, psr_err status);

/* cluster_worker.c */
psr_err worker_welcomed(worker *w);
psr_err worker_message(worker *w, psr_message **message);
void worker_report(void *context, psr_msg_progress *progress);
/* Looks whether it waits for something that is there by now. */
void worker_look(worker *w);
psr_err worker_compute(worker *w); /* it is compute_us */
void worker_done(worker *w);

#endif
