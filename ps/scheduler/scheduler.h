/* The scheduler: what training adds to the process that all join (comm/members/coordinator.h, which
 * has how a run comes together, who is alive and who is named). It gives configurations and
 * compares facts; takes metrics, checkpoints and figures; and ends a run when all steps are taken,
 * or stops it in order when told to, with a checkpoint. Free of I/O: messages, ticks and news of
 * processes go to its coordinator; messages and run events come out. ps/scheduler/rundir.h turns
 * run events into files; ps/scheduler/scheduler_main.c drives both. Split over scheduler_join.c
 * (until START), scheduler_run.c (while it runs), scheduler_views.c (changes of mode) and
 * scheduler_end.c (how it ends). */
#ifndef PSR_PS_SCHEDULER_H
#define PSR_PS_SCHEDULER_H

#include "base/config/config.h"
#include "base/facts.h"
#include "comm/comm.h"
#include "model/layout.h"
#include "ps/scheduler/metrics/metrics_line.h"
#include "ps/traffic.h"

typedef struct psr_scheduler psr_scheduler;

/* What is known of a run once all have joined, beyond their facts. */
typedef struct psr_beginning {
    uint64_t first_step;      /* steps completed before: 0, or the resumed checkpoint's */
    psr_plan plan;            /* by which they exchange: the scheduler owns it then */
    const psr_layout *layout; /* of the parameters, for the shards;
                                 borrowed for the scheduler's life */
} psr_beginning;

/* A change of mode: steps from first_step (from 0) on are taken in that mode. */
typedef struct psr_mode_change {
    psr_mode mode;
    uint64_t first_step;
    /* The longest that a worker's compute thread took no step for it; before that is known 0. */
    double pause_s;
} psr_mode_change;

/* What a person may know of a run's modes. */
typedef struct psr_mode_state {
    psr_mode mode;
    uint64_t first_step;   /* that it is in force from */
    uint64_t steps, total; /* completed by all; of the run */
    uint64_t next_step;    /* the first of the next stretch that is planned; 0: none is */
    psr_mode next_mode;
    bool changing; /* a change that somebody asked for has not happened yet */
} psr_mode_state;

/* What the driver does for it. A failure of one ends the run. */
typedef struct psr_scheduler_events {
    void *context;
    psr_coordinator_ways ways; /* to members, with a context of their own */
    /* It has its rank now. count of total are here. */
    void (*joined)(void *context, const psr_view_member *entry, uint32_t count, uint32_t total);
    /* All have joined and agree: make the plan and the run directory. */
    psr_err (*begin)(void *context, const psr_config *config, const psr_facts *facts,
                     const psr_view *members, psr_beginning *ret_beginning);
    /* The plan of the same members and layout in another mode, for a later stretch. ret owns. Not
     * called in a run that does not change. */
    psr_err (*plan)(void *context, psr_mode mode, psr_plan *ret_plan);
    /* A change is decided: whatever was decided for this or a later step does not happen. config:
     * the run's, with the stretches as they are planned now. */
    psr_err (*change_decided)(void *context, const psr_mode_change *change,
                              const psr_config *config);
    /* It has happened: all members exchange by it. */
    void (*change_happened)(void *context, const psr_mode_change *change);
    /* What psr_scheduler_change was asked for has happened (PSR_OK), or will not: line says from
     * which step on, or why not. Once for each that it took; none once the run has ended. */
    void (*change_answered)(void *context, psr_err status, const char *line);
    /* After WELCOME of a resumed run: send the checkpoint's pieces to worker 0 (RESTORE). */
    psr_err (*restore)(void *context);
    /* Everybody has been told START; algorithms: rank 0's choices, in full. */
    psr_err (*started)(void *context, const char *algorithms);
    psr_err (*metrics)(void *context, const psr_metrics_line *line);
    /* A worker has counted so many samples of the test set, in its evaluation after `step`
     * steps. */
    void (*evaluating)(void *context, uint32_t rank, uint64_t step, uint64_t counted);
    /* A worker is done: its own figures, as JSON (not yet checked). Not called where it sent
     * nothing. */
    void (*done)(void *context, uint32_t rank, const char *json, size_t size);
    /* A shard is done: what it carried. */
    void (*carried)(void *context, uint32_t shard, const psr_traffic *traffic);
    psr_err (*checkpoint)(void *context, uint64_t step, uint32_t section, const float *data,
                          size_t offset, size_t count);
    /* All have sent all they have of the checkpoint after `step` steps: fails when pieces are
     * missing. psr_scheduler_checkpointed follows. */
    psr_err (*last_checkpoint)(void *context, uint64_t step);
    /* Something a person should see: who is slow, who was turned away, stopping. */
    void (*say)(void *context, const char *line);
    /* The run is over; status is PSR_OK or why; line is for the person. */
    void (*ended)(void *context, psr_err status, const char *line);
} psr_scheduler_events;

/* ret owns. host: what this process's host is called in messages. */
PSR_MUST_CHECK psr_err psr_scheduler_new(const psr_config *config,
                                         const psr_scheduler_events *events, const char *host,
                                         int64_t now_ms, psr_scheduler **ret_scheduler);
void psr_scheduler_free(psr_scheduler *scheduler);

/* Takes messages, times and news of processes, and says how the run ends. Borrowed for the
 * scheduler's life. */
psr_coordinator *psr_scheduler_coordinator(psr_scheduler *scheduler);

/* From START on. */
psr_mode_state psr_scheduler_mode(const psr_scheduler *scheduler);

/* Changes the mode from the first step on that no worker has begun; whatever --mode had planned for
 * later steps does not happen. Workers are held for that: the event change_answered follows. USAGE:
 * this run does not change, or is in that mode, or is changing, or takes no further step. */
PSR_MUST_CHECK psr_err psr_scheduler_change(psr_scheduler *scheduler, psr_mode mode);

/* These never fail: what goes wrong ends the run, and the event `ended` says how. */

/* Ctrl-C at the launcher: stop in order, with a checkpoint. */
void psr_scheduler_stop(psr_scheduler *scheduler);
/* A checkpoint directory was renamed into place (the driver tells): the workers may send the next
 * one, and the run may end when it was the last. */
void psr_scheduler_checkpointed(psr_scheduler *scheduler, uint64_t step);

#endif
