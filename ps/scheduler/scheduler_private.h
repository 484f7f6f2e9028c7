/* What the files of the scheduler share; only they include it. */
#ifndef PSR_PS_SCHEDULER_PRIVATE_H
#define PSR_PS_SCHEDULER_PRIVATE_H

#include "comm/members/coordinator.h"
#include "comm/view/plan.h"
#include "comm/view/view.h"
#include "ps/roster.h"
#include "ps/scheduler/metrics/hashes.h"
#include "ps/scheduler/scheduler.h"

#include <cjson/cJSON.h>

#define PSR_SCHEDULER_LINE_MAX 1024

/* What the scheduler of training knows of a member. */
typedef struct psr_scheduler_member {
    psr_peer peer;
    psr_facts facts;     /* of a worker that has sent them */
    uint64_t helds;      /* its answers to HOLD */
    uint32_t bound;      /* the epoch of its last BOUND */
    bool left_out;       /* it left out an evaluation because it was told to stop */
    uint64_t last_step;  /* from HELD: the last step that it has begun */
    uint64_t steps;      /* from DONE: the steps that it completed */
    uint64_t clocks;     /* how often it has asked for the clock */
    bool traced;         /* a piece of its trace has come */
    uint64_t trace_left; /* how many events are still to come */
    uint64_t saving,
        saving_before; /* the steps of the last two checkpoints of which it sent pieces */
} psr_scheduler_member;

/* A view that was sent. */
typedef struct psr_issued_view {
    psr_mode mode;
    const psr_view *view; /* held; for epoch 0 it is the coordinator's */
    uint64_t pause_us;
} psr_issued_view;

struct psr_scheduler {
    /* the configuration, with its stretches as they are decided and planned now */
    psr_config config;
    psr_roster roster;
    psr_scheduler_events events;
    psr_coordinator *coordinator;
    psr_scheduler_member *members; /* shards, then workers */
    uint32_t member_count;
    const psr_layout *layout;  /* set from WELCOME on */
    bool evaluates_first;      /* until that evaluation has been told */
    psr_loss_scale loss_scale; /* with which the run begins */
    uint64_t first_step;
    psr_computing computing;

    psr_issued_view *views; /* by epoch, set from START on */
    uint32_t view_count, view_room;
    int64_t started_ms; /* START was sent then */
    bool changing;      /* the change that psr_scheduler_change asked for */
    psr_mode wanted;
    uint32_t changing_epoch; /* the epoch of the view for that change; 0: not sent yet */

    bool stopping;
    bool target_met; /* it is stopping because of --target-accuracy, at this accuracy */
    double accuracy;
    uint64_t accuracy_step;
    bool time_is_up; /* it is stopping because of --seconds */
    /* No worker begins a step. When all have said which step was their last, STOP_AT or a VIEW
     * follows. */
    bool holding;
    uint64_t holds; /* how often they were told HOLD */
    bool stop_told;
    uint64_t stop_step;
    bool last_asked;            /* the pieces of the last checkpoint were asked for */
    uint64_t last_checkpointed; /* in steps */
    uint64_t *metrics_told;     /* [ranks]: completed steps, by its last line */
    uint32_t norm_lines;        /* --tensorboard-norms: told of worker 0's next step */
    psr_hashes hashes;
};

/* The member, if psr_coordinator_has it. */
psr_scheduler_member *psr_scheduler_find(const psr_scheduler *scheduler, psr_peer member);
/* 0 <= rank < roster.worker_processes. Worker 0's facts are those that all have agreed on. */
psr_scheduler_member *psr_scheduler_worker(const psr_scheduler *scheduler, uint32_t rank);
psr_bytes psr_scheduler_payload_of(const psr_message *message);

/* scheduler_join.c: the callbacks of the coordinator's user for joining; context is the
 * scheduler. */
psr_err psr_scheduler_given(void *context, psr_role role, void **ret_bytes, size_t *ret_size);
psr_err psr_scheduler_take_facts(void *context, const psr_message *message);
psr_err psr_scheduler_agree(void *context, uint32_t rank, const char *name,
                            const char *name_of_first);
psr_err psr_scheduler_begin(void *context, psr_view *view);
psr_err psr_scheduler_agreed(void *context, psr_role role, void **ret_bytes, size_t *ret_size);
psr_err psr_scheduler_welcomed(void *context);
psr_err psr_scheduler_take_ready(void *context, const psr_message *message);
psr_err psr_scheduler_started(void *context);

/* scheduler_run.c */
psr_err psr_scheduler_take_checkpoint(psr_scheduler *scheduler, psr_scheduler_member *member,
                                      const psr_message *message);
psr_err psr_scheduler_take_metrics(psr_scheduler *scheduler, const psr_message *message);
psr_err psr_scheduler_take_clock(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message);
psr_err psr_scheduler_take_trace(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message);
/* Compares the hash, if there is one, in what a worker reports after so many steps. NUMERIC: it
 * differs from another's where all must be equal; the line names both. */
psr_err psr_scheduler_compare_hash(psr_scheduler *scheduler, psr_peer worker, uint64_t steps,
                                   const cJSON *object);

/* scheduler_views.c */
/* At START: sends the view of the next planned stretch. */
psr_err psr_scheduler_begin_views(psr_scheduler *scheduler);
void psr_scheduler_free_views(psr_scheduler *scheduler);
/* The view that is valid for a step, or its plan; before START that of epoch 0. */
const psr_plan *psr_scheduler_plan_at(const psr_scheduler *scheduler, uint64_t step);
psr_err psr_scheduler_take_bound(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message);
/* All workers are held, and `last` is the last step that any of them has begun: decides the
 * change. */
psr_err psr_scheduler_decide_change(psr_scheduler *scheduler, uint64_t last);
/* The change that was asked for does not happen. Does nothing if there is none. */
void psr_scheduler_drop_change(psr_scheduler *scheduler, psr_err status, const char *why);

/* scheduler_end.c */
/* Sends HOLD to the workers. When all have answered, the stop or the change is decided. */
void psr_scheduler_hold(psr_scheduler *scheduler, bool change);
/* A worker has taken all steps. */
bool psr_scheduler_one_is_done(const psr_scheduler *scheduler);
psr_err psr_scheduler_take_held(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message);
psr_err psr_scheduler_take_done(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message);

#endif
