/* What the files of the scheduler share. For those alone. */
#ifndef PSR_PS_SCHEDULER_PRIVATE_H
#define PSR_PS_SCHEDULER_PRIVATE_H

#include "ps/roster.h"
#include "ps/scheduler/metrics/hashes.h"
#include "ps/scheduler/scheduler.h"

#include <cjson/cJSON.h>

#define PSR_SCHEDULER_LINE_MAX 1024

/* What training knows of a member. */
typedef struct psr_scheduler_member {
    psr_peer peer;
    psr_facts facts;    /* of a worker, once it has told them */
    uint64_t helds;     /* answers to HOLD */
    uint32_t bound;     /* the last epoch that it has said BOUND of */
    bool left_out;      /* an evaluation, since it was told to stop */
    uint64_t last_step; /* HELD: the last step that it has begun */
    uint64_t steps;     /* DONE: steps completed */
    uint64_t saving,
        saving_before; /* steps of the checkpoints of which it sent pieces last and before that */
} psr_scheduler_member;

/* A view that was issued. */
typedef struct psr_issued_view {
    psr_mode mode;
    const psr_view *view; /* held; of epoch 0 the coordinator's */
    uint64_t pause_us;
} psr_issued_view;

struct psr_scheduler {
    psr_config config; /* its stretches: as they are decided and planned now */
    psr_roster roster;
    psr_scheduler_events events;
    psr_coordinator *coordinator;
    psr_scheduler_member *members; /* shards, then workers */
    uint32_t member_count;
    const psr_layout *layout; /* from WELCOME on */
    uint64_t first_step;
    char algorithms[sizeof((psr_config *)0)->algorithms];

    psr_issued_view *views; /* by epoch, from START on */
    uint32_t view_count, view_room;
    bool changing; /* as psr_scheduler_change was told */
    psr_mode wanted;
    uint32_t changing_epoch; /* of the view that is the change; 0: it is not issued yet */

    bool stopping;
    /* No worker begins a step; when all have said which was their last, STOP_AT or a VIEW
     * follows. */
    bool holding;
    uint64_t holds; /* that were told */
    bool stop_told;
    uint64_t stop_step;
    bool last_asked;            /* of the last checkpoint */
    uint64_t last_checkpointed; /* steps */
    uint64_t *metrics_told;     /* [ranks]: steps completed, by its last line */
    psr_hashes hashes;
};

/* Of a member, as psr_coordinator_has says. */
psr_scheduler_member *psr_scheduler_find(const psr_scheduler *scheduler, psr_peer member);
/* 0 <= rank < roster.worker_processes. Worker 0's facts are those that all have agreed on. */
psr_scheduler_member *psr_scheduler_worker(const psr_scheduler *scheduler, uint32_t rank);
psr_bytes psr_scheduler_payload_of(const psr_message *message);

/* scheduler_join.c: what joining asks of the coordinator's user; context is the scheduler. */
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
/* The hash in what a worker tells of so many steps, if there is one. NUMERIC, naming both: it is
 * another than another's where all must have the same. */
psr_err psr_scheduler_compare_hash(psr_scheduler *scheduler, psr_peer worker, uint64_t steps,
                                   const cJSON *object);

/* scheduler_views.c */
/* At START: issues what is planned next. */
psr_err psr_scheduler_begin_views(psr_scheduler *scheduler);
void psr_scheduler_free_views(psr_scheduler *scheduler);
/* The view in force at a step, or its plan; of epoch 0 before START. */
const psr_plan *psr_scheduler_plan_at(const psr_scheduler *scheduler, uint64_t step);
psr_err psr_scheduler_take_bound(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message);
/* All workers are held, the last step that any has begun is this: decides the change. */
psr_err psr_scheduler_decide_change(psr_scheduler *scheduler, uint64_t last);
/* The change that was asked for does not happen. Nothing where none was. */
void psr_scheduler_drop_change(psr_scheduler *scheduler, psr_err status, const char *why);

/* scheduler_end.c */
/* Tells the workers HOLD; when all have answered, the stop or the change is decided. */
void psr_scheduler_hold(psr_scheduler *scheduler, bool change);
/* A worker has taken all steps. */
bool psr_scheduler_one_is_done(const psr_scheduler *scheduler);
psr_err psr_scheduler_take_held(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message);
psr_err psr_scheduler_take_done(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message);

#endif
