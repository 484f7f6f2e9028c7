/* The scheduler: what training adds to the process that all join (comm/members/coordinator.h, which
 * has how a run comes together, who is alive and who is named). It gives configurations and
 * compares facts. It takes metrics, checkpoints and figures. It ends a run when all steps are
 * taken, or stops it in order with a checkpoint. It does no I/O: messages, times and news of
 * processes go to its coordinator; messages and run events come out. ps/scheduler/rundir.h turns
 * run events into files; ps/scheduler/scheduler_main.c drives both. Its files are scheduler_join.c
 * (until START), scheduler_run.c (while it runs), scheduler_views.c (changes of mode) and
 * scheduler_end.c (how it ends). */
#ifndef PSR_PS_SCHEDULER_H
#define PSR_PS_SCHEDULER_H

#include "base/config/config.h"
#include "base/facts.h"
#include "comm/members/coordinator.h"
#include "comm/view/plan.h"
#include "comm/view/view.h"
#include "model/layout.h"
#include "model/loss_scale.h"
#include "ps/scheduler/metrics/metrics_line.h"
#include "ps/traffic.h"

typedef struct psr_scheduler psr_scheduler;

/* Bytes of the line about reference loops, the final zero too; a longer one breaks the protocol. */
#define PSR_SCHEDULER_LOOPS_MAX 512
#define PSR_SCHEDULER_INPUT_MAX 8
#define PSR_SCHEDULER_ENGINES_MAX 2048 /* bytes, the final zero too */

/* What worker 0 says of its back end when it is ready. All of it is printable. */
typedef struct psr_computing {
    /* its choices, in full; "": it had none */
    char algorithms[sizeof((psr_config *)0)->algorithms];
    char engines[PSR_SCHEDULER_ENGINES_MAX]; /* of a GPU's library, numbers; "": on no GPU */
    char loops[PSR_SCHEDULER_LOOPS_MAX];     /* what it computes by reference loops; "": nothing */
    /* "bytes" or "floats": as what images go to it; "": it takes floats alone */
    char input[PSR_SCHEDULER_INPUT_MAX];
} psr_computing;

/* What the driver decides about a run once all have joined. */
typedef struct psr_beginning {
    uint64_t first_step;  /* completed steps: 0, or those of the resumed checkpoint */
    uint64_t total_steps; /* 0: as the workers counted them */
    psr_pace pace;
    bool evaluates_first;      /* see psr_worker_start */
    psr_loss_scale loss_scale; /* the resumed checkpoint's, zeros if there is none */
    psr_plan plan;             /* the plan of the exchange; the scheduler owns it then */
    /* the layout of the parameters, for the shards; borrowed for the scheduler's life */
    const psr_layout *layout;
} psr_beginning;

/* A change of mode: the steps from first_step (from 0) on are in that mode. */
typedef struct psr_mode_change {
    psr_mode mode;
    uint64_t first_step;
    /* The longest time in which a worker's compute thread took no step because of it, in seconds; 0
     * before that is known. */
    double pause_s;
} psr_mode_change;

/* The run's modes, for people. */
typedef struct psr_mode_state {
    psr_mode mode;
    uint64_t first_step;   /* the first step in this mode */
    uint64_t steps, total; /* steps completed by all; steps of the run */
    uint64_t next_step;    /* the first step of the next planned stretch; 0: none is planned */
    psr_mode next_mode;
    bool changing; /* a change that was asked for has not happened yet */
} psr_mode_state;

/* What the driver does for the scheduler. A failure of one of them ends the run. */
typedef struct psr_scheduler_events {
    void *context;
    psr_coordinator_ways ways; /* to the members; they have a context of their own */
    /* A member has its rank now. count of total have joined. */
    void (*joined)(void *context, const psr_view_member *entry, uint32_t count, uint32_t total);
    /* All have joined and agree: makes the plan and the run directory. */
    psr_err (*begin)(void *context, const psr_config *config, const psr_facts *facts,
                     const psr_view *members, psr_beginning *ret_beginning);
    /* Makes the plan of the same members and layout in another mode, for a later stretch. The
     * scheduler owns *ret_plan. Not called in a run whose mode does not change. */
    psr_err (*plan)(void *context, psr_mode mode, psr_plan *ret_plan);
    /* A change is decided. Changes that were decided for this or a later step do not happen.
     * config: the run's, with the stretches as they are planned now. */
    psr_err (*change_decided)(void *context, const psr_mode_change *change,
                              const psr_config *config);
    /* The change has happened: all members use it. */
    void (*change_happened)(void *context, const psr_mode_change *change);
    /* A change by psr_scheduler_change has happened (PSR_OK; line says from which step on), or will
     * not (line says why). Called once for each accepted change; not after the run has ended. */
    void (*change_answered)(void *context, psr_err status, const char *line);
    /* After WELCOME of a resumed run: sends the checkpoint's pieces (RESTORE). */
    psr_err (*restore)(void *context);
    /* All have been told START. */
    psr_err (*started)(void *context, const psr_computing *computing);
    psr_err (*metrics)(void *context, const psr_metrics_line *line);
    /* --tensorboard-norms: a line of worker 0 with norms of tensors (worker/norm_lines.h), of the
     * step of its next line of metrics. */
    psr_err (*norms)(void *context, const psr_metrics_line *line);
    /* The evaluation of the checkpoint that the run goes on from, which the run before had left
     * out: of the line only its step and the fields test_.. mean anything. */
    psr_err (*made_up)(void *context, const psr_metrics_line *line);
    /* A worker has counted so many samples of the test set in its evaluation after `step` steps. */
    void (*evaluating)(void *context, uint32_t rank, uint64_t step, uint64_t counted);
    /* A worker is done; json has its own figures (not yet checked). Not called if it sent none. */
    void (*done)(void *context, uint32_t rank, const char *json, size_t size);
    /* A shard is done; traffic is what it has exchanged. */
    void (*carried)(void *context, uint32_t shard, const psr_traffic *traffic);
    psr_err (*checkpoint)(void *context, uint64_t step, uint32_t section, const float *data,
                          size_t offset, size_t count);
    /* All have sent everything of the checkpoint after `step` steps. Fails if pieces are missing.
     * psr_scheduler_checkpointed follows. */
    psr_err (*last_checkpoint)(void *context, uint64_t step);
    /* With --trace, otherwise not called. The answer to a member that asks for this process's
     * clock. */
    psr_head (*clock)(void *context, const psr_msg_clock *asked);
    /* A piece of a member's trace; says is what its head says. first: its first one; its last one
     * has says->left 0. PROTOCOL: an event is impossible. */
    psr_err (*trace)(void *context, const psr_message *message, const psr_msg_trace *says,
                     bool first);
    /* A line for a person: who is slow, who was refused, that the run stops. */
    void (*say)(void *context, const char *line);
    /* The run has ended; status is PSR_OK or why it failed; line is for the person. */
    void (*ended)(void *context, psr_err status, const char *line);
} psr_scheduler_events;

/* host: the name of this process's host in messages. The caller owns *ret_scheduler. */
PSR_MUST_CHECK psr_err psr_scheduler_new(const psr_config *config,
                                         const psr_scheduler_events *events, const char *host,
                                         int64_t now_ms, psr_scheduler **ret_scheduler);
void psr_scheduler_free(psr_scheduler *scheduler);

/* Its coordinator, which takes messages, times and news of processes. Borrowed for the scheduler's
 * life. */
psr_coordinator *psr_scheduler_coordinator(psr_scheduler *scheduler);

/* Valid from START on. */
psr_mode_state psr_scheduler_mode(const psr_scheduler *scheduler);

/* Changes the mode from the first step on that no worker has begun. Later changes that --mode had
 * planned do not happen. Workers are held for it; the event change_answered follows. USAGE: this
 * run's mode cannot change, is that mode already, or is being changed; or the run takes no further
 * step; or no plan can be made in that mode (the event `plan` says why). */
PSR_MUST_CHECK psr_err psr_scheduler_change(psr_scheduler *scheduler, psr_mode mode);

/* These never fail: a failure ends the run, and the event `ended` says how. */

/* Ctrl-C at the launcher: stops in order, with a checkpoint. */
void psr_scheduler_stop(psr_scheduler *scheduler);
/* The driver has renamed a checkpoint directory into place: the workers may send the next
 * checkpoint, and the run may end if it was the last. */
void psr_scheduler_checkpointed(psr_scheduler *scheduler, uint64_t step);

#endif
