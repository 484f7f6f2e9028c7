/* What the four files of the scheduler share. For those alone. */
#ifndef PSR_PS_SCHEDULER_PRIVATE_H
#define PSR_PS_SCHEDULER_PRIVATE_H

#include "ps/roster.h"
#include "ps/scheduler/scheduler.h"

#define PSR_SCHEDULER_LINE_MAX 1024
#define PSR_SCHEDULER_TEXT_MAX (64u << 10) /* bytes of JSON that a member may send in one message */

/* A process that has until the deadline to come up has at least this long: it must be loaded, find its data
 * and connect. */
#define PSR_COME_UP_MS 5000

/* A process that exits has said why to the scheduler before; its words and its agent's come by different
 * ways. */
#define PSR_LAST_WORDS_MS 500

/* When a member or the launcher is lost the others are asked what they are doing, and have this long to answer. */
#define PSR_ANSWER_MS 150

typedef enum psr_scheduler_state {
    PSR_SCHEDULER_JOINING,  /* until all are here and agree */
    PSR_SCHEDULER_WELCOMED, /* they connect, compile, share the initial weights */
    PSR_SCHEDULER_RUNNING,
    PSR_SCHEDULER_HOLDING, /* no worker begins a step; when all have said which was their last, STOP_AT
                              follows */
    PSR_SCHEDULER_ENDED,
} psr_scheduler_state;

typedef struct psr_scheduler_member {
    psr_view_member entry;
    bool joined, told_facts, ready, held, done;
    bool left_out; /* an evaluation, since it was told to stop */
    bool asked;    /* what it is doing, and has not said */
    psr_facts facts;
    uint64_t last_step; /* HELD: the last step that it has begun */
    uint64_t steps;     /* DONE: steps completed */
    uint64_t saving,
        saving_before; /* steps of the checkpoints of which it sent pieces last and before that */
} psr_scheduler_member;

struct psr_scheduler {
    psr_config config;
    psr_scheduler_events events;
    char host[PSR_HOST_MAX];
    psr_scheduler_state state;
    psr_scheduler_member *members; /* shards, then workers */
    psr_roster roster;
    uint32_t member_count;
    uint32_t joined_count;
    psr_view view;            /* from WELCOME on */
    const psr_layout *layout; /* likewise */
    uint64_t first_step;
    char algorithms[sizeof((psr_config *)0)->algorithms];
    psr_liveness *liveness;
    int64_t deadline_ms;
    int64_t come_up_by_ms; /* while joining */
    int64_t slow_check_ms;

    bool stopping;
    bool stop_told;
    uint64_t stop_step;
    bool last_asked;            /* of the last checkpoint */
    uint64_t last_checkpointed; /* steps */
    uint64_t *metrics_told;     /* [ranks]: steps completed, by its last line */

    /* A member, the launcher or an agent is gone: its own last words and what the others are doing may still come. */
    bool losing, awaits_words;
    const psr_peer *lost; /* the member, in members; NULL: the launcher or an agent */
    psr_err lost_status;
    char lost_line[PSR_HOST_MAX + 256];
    int64_t lose_at_ms;
};

/* NULL when peer can be no member. */
psr_scheduler_member *psr_scheduler_find(psr_scheduler *scheduler, psr_peer peer);
bool psr_scheduler_all(const psr_scheduler *scheduler, bool (*is)(const psr_scheduler_member *));
/* "worker 1 on host7". */
void psr_scheduler_name(const psr_scheduler_member *member, char *text, size_t size);
void psr_scheduler_say(psr_scheduler *scheduler, const char *format, ...) PSR_PRINTF(2, 3);
psr_bytes psr_scheduler_payload_of(const psr_message *message);
psr_err psr_scheduler_send_bytes(psr_scheduler *scheduler, psr_peer to, psr_head head, psr_bytes bytes);
/* text NULL: no payload. */
psr_err psr_scheduler_send(psr_scheduler *scheduler, psr_peer to, psr_head head, const char *text);
psr_err psr_scheduler_send_all(psr_scheduler *scheduler, psr_head head, const char *text);

/* scheduler_join.c */
psr_err psr_scheduler_take_join(psr_scheduler *scheduler, const psr_message *message, int64_t now_ms);
psr_err psr_scheduler_take_facts(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message);
psr_err psr_scheduler_take_ready(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message);
void psr_scheduler_check_joining(psr_scheduler *scheduler, int64_t now_ms);

/* scheduler_run.c */
psr_err psr_scheduler_take_checkpoint(psr_scheduler *scheduler, psr_scheduler_member *member,
                                      const psr_message *message);
psr_err psr_scheduler_take_metrics(psr_scheduler *scheduler, const psr_message *message);

/* scheduler_end.c */
psr_err psr_scheduler_take_held(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message);
psr_err psr_scheduler_take_done(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message);
/* Always fails: with what the member failed of. */
psr_err psr_scheduler_take_failed(const psr_scheduler_member *member, const psr_message *message);
/* Ends the run when somebody was lost and everybody has spoken or had the time to. */
void psr_scheduler_check_losing(psr_scheduler *scheduler, int64_t now_ms);
/* Ends the run with what the last failure on this thread was. */
void psr_scheduler_fail_detail(psr_scheduler *scheduler, psr_err status);

#endif
