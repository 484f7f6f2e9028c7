/* What the files of a node share: node.c (orders, messages, time), node_failure.c (how it breaks),
 * node_shrink.c, node_group.c, node_request.c. For those alone. All of it on the node's thread,
 * where nothing else is said. */
#ifndef PSR_COMM_NODE_PRIVATE_H
#define PSR_COMM_NODE_PRIVATE_H

#include "base/clock.h"
#include "comm/node/node_table.h"
#include "comm/queues.h"

enum {
    PSR_NODE_NAME_BYTES = 64,
    PSR_NODE_WINDOW = 8, /* slices */
    /* Of each rank: of a group that is not open here only its first barrier can have come. */
    PSR_NODE_EARLY_MAX = 8,
    /* Of each rank, while it may have a newer epoch than this one: what it may send unasked
     * there. */
    PSR_NODE_NEWER_MAX = PSR_AHEAD_OPERATIONS * PSR_NODE_WINDOW + PSR_CREDITS_KEPT +
                         PSR_OFFERS_KEPT + PSR_NODE_EARLY_MAX,
};

typedef enum psr_node_request_state {
    PSR_NODE_REQUEST_IDLE,
    PSR_NODE_REQUEST_UNDER_WAY,
    PSR_NODE_REQUEST_DONE,
    PSR_NODE_REQUEST_FAILED
} psr_node_request_state;

/* What a request asks of a table. */
typedef struct psr_node_table_call psr_node_table_call;
struct psr_node_table_call {
    psr_node_table_verb verb;
    uint32_t part;
    const float *values;
    float *ret_values;
    psr_node_table_call *next; /* of those for the same part */
    bool begun, done;
};

struct psr_node_request {
    psr_node_group *group;
    psr_node_request *next, *previous; /* of the group's */
    psr_request_options options;
    size_t *counts, *send_counts; /* owned, as the blocks: options points to them */
    psr_block *send_blocks, *receive_blocks;
    psr_compression compression;
    bool of_table; /* it is call, not options */
    psr_node_table_call call;
    bool unasked;        /* nobody is to blame for what does not come */
    psr_node_then *then; /* NULL: it ends when it is done */
    void *then_context;
    psr_node_request *next_step; /* it ends when that does; of another group, perhaps */
    psr_node_request *step_of;   /* whose next step it is */
    char name[PSR_NODE_NAME_BYTES];
    int64_t deadline_ms;
    /* The node's: */
    _Atomic(psr_request *) request; /* made once */
    bool under_way;
    int64_t since_ms;         /* present time: its start */
    int64_t due_ms;           /* present time: its deadline is not before */
    size_t due;               /* its place among those that are due,
                                 plus one; 0: it is not under way */
    int64_t wait_on_until_ms; /* present time: so long the coordinator
                                 knows that whom it waits for is at work */
    uint64_t number;
    /* Both threads': */
    _Atomic int state;    /* psr_node_request_state; the owner makes
                             it UNDER_WAY, the node ends it */
    psr_failure *failure; /* why it FAILED: own, or its group's; written before state */
    psr_failure own;
};

typedef enum psr_node_state {
    PSR_NODE_WHOLE,
    /* something, and the coordinator is told */
    PSR_NODE_FOUND,
    PSR_NODE_BROKEN
} psr_node_state;

struct psr_node_group {
    psr_node *node;
    psr_node_group *next, *previous; /* of those that are open */
    psr_queued by_id;
    uint32_t epoch, id, rank, count;
    uint32_t *ranks;   /* of all ranks */
    int64_t *heard_ms; /* [all ranks] present time: its last message of this group */
    psr_group *group;
    psr_node_table *table;          /* owned; NULL: none */
    psr_node_request *first, *last; /* all that there are */
    size_t under_way;               /* of those */
    uint64_t calls;                 /* of the order of calls, started */
    const psr_node_group *of;       /* that it is made of; NULL: none */
    psr_node_group *opener;         /* of its table: they fail together; NULL: none */
    _Atomic bool begun;             /* it no longer matters of what */
    bool told;                      /* the owner's */
    psr_node_state state;
    psr_failure found;
    int64_t give_up_ms; /* FOUND: no verdict will come */
    int64_t cut_ms;     /* BROKEN: present time at which what is lent
                           is taken back; INT64_MAX: nothing is */
    psr_failure failure;
    _Atomic bool broken; /* failure is written */
};

/* A group that was closed before it had begun: what others said to begin it may still come. */
typedef struct psr_node_closed psr_node_closed;
struct psr_node_closed {
    psr_queued by_id;
    psr_node_closed *next;
};

/* A message of a group that is not open yet. */
typedef struct psr_node_early psr_node_early;
struct psr_node_early {
    psr_queued by_id;
    psr_node_early *next, *previous; /* of all */
    psr_message *message;            /* owned */
};

struct psr_node_shrink {
    psr_node_group *of;
    int64_t deadline_ms;
    psr_node_group *group; /* OK */
    psr_failure failure;   /* err PSR_OK: none */
    _Atomic bool ended;    /* the others are written */
};

struct psr_node {
    psr_node_options options;
    uint32_t ranks;
    uint32_t epoch;                        /* the newest that this rank has a group of */
    psr_failure **out;                     /* [ranks]: why it is out; owned; NULL: it is not */
    psr_node_shrink *shrink;               /* what the coordinator is asked for; NULL: nothing */
    psr_node_request *asked;               /* its deadline has passed, and
                                              the coordinator is asked */
    const psr_node_request *complained_of; /* of which the coordinator has a line,
                                              and which goes on; NULL: none */
    psr_node_group *groups;                /* open */
    psr_queues open_by_id, closed_by_id, early_by_id;
    psr_node_closed *closed;
    psr_node_early *early;
    size_t early_count;
    uint32_t *opened;                 /* [ranks]: of the groups that it is the first
                               of, the highest number opened here */
    size_t under_way, under_way_most; /* requests: now, and the most that ever were */
    size_t failing;                   /* groups that are open and not whole */
    size_t tables;                    /* groups that are open and have one */
    psr_node_request **due; /* [due_count] requests under way: a heap, the soonest first */
    size_t due_count, due_capacity;
    psr_presence_clock presence;
    uint64_t moves; /* what its owner did: what comes from others is no progress of this rank's */
    _Atomic uint64_t step, steps_told;
    psr_failure failure;        /* of everything */
    _Atomic bool begun, broken; /* broken: failure is written */
};

/* ---- node.c ---- */

/* Those of the file comm/node/node_due.c. A request has begun: its deadline will be looked at.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_node_due_add(psr_node *node, psr_node_request *request);
/* Nothing, where it is not there. */
void psr_node_due_remove(psr_node *node, psr_node_request *request);
/* Its due_ms has become another one. */
void psr_node_due_moved(psr_node *node, psr_node_request *request);

/* ---- node_failure.c ---- */

/* "rank 2 on host7" */
/* What the scheduler's numbers are held against. Of smaller groups a rank hears only where it is in
 * one. */
psr_msg_limits psr_node_limits(const psr_node *node);
void psr_node_name_rank(const psr_node *node, uint32_t rank, char *text, size_t size);
/* Breaks everything, for good: what is under way has failed. */
void psr_node_break(psr_node *node, const psr_failure *failure);
/* Breaks one group. */
void psr_node_group_break(psr_node_group *group, const psr_failure *failure);
/* What a failure breaks, by its scope: of PSR_SCOPE_RANK and _LOST its rank is one. */
void psr_node_apply(psr_node *node, const psr_failure *failure);
/* A group that is opened: it may have failed before. */
void psr_node_group_inherit(psr_node_group *group);
/* The coordinator of a finding. within_ms: of a TIMEOUT. */
void psr_node_tell(const psr_node *node, const psr_failure *failure, int64_t within_ms);
/* It was found here: it breaks what it is of, or the coordinator's verdict will. */
void psr_node_find(psr_node *node, const psr_failure *failure, int64_t now_ms);
/* Of a group; its line is this thread's detail. */
psr_failure psr_node_failure_of_detail(const psr_node_group *group, psr_err err, uint32_t rank,
                                       uint32_t other, uint64_t number);
/* Of all groups of that rank. */
psr_failure psr_node_violation_of(psr_err err, uint32_t rank);
/* Time, of broken groups and of those in which something was found. Returns how long until
 * something is due; INT64_MAX: nothing is. */
int64_t psr_node_failure_tick(psr_node *node, int64_t now_ms, int64_t present_ms);

/* ---- node_shrink.c ---- */

void psr_node_shrink_begin(psr_node *node, psr_node_shrink *shrink, int64_t now_ms);
/* SHRUNK. */
void psr_node_shrink_take(psr_node *node, const psr_message *message, int64_t now_ms);
/* When there is one. */
void psr_node_shrink_fail(psr_node *node, const psr_failure *failure);

/* ---- node_group.c ---- */

/* NULL: it is not open here. */
psr_node_group *psr_node_group_of(psr_node *node, uint32_t epoch, uint32_t id);
/* A message of a group that is not open here. Takes *message when it is kept until the group is
 * opened; what is of a group that was closed is left. PROTOCOL: no rank can say that now. NOMEM. */
PSR_MUST_CHECK psr_err psr_node_keep_early(psr_node *node, psr_message **message);
/* Frees what there is of groups that are not open. */
void psr_node_forget_groups(psr_node *node);
/* Is it one of the group's? */
bool psr_node_group_has(const psr_node_group *group, uint32_t rank);
/* Takes *message, of the group, or leaves it to be freed. */
void psr_node_group_take(psr_node *node, psr_node_group *group, psr_message **message,
                         int64_t now_ms);
void psr_node_group_open(psr_node *node, psr_node_group *group, int64_t now_ms);
void psr_node_group_close(psr_node *node, psr_node_group *group);
/* Frees it with its requests. */
void psr_node_group_drop(psr_node_group *group);

/* ---- node_request.c ---- */

/* "all_reduce 41", "barrier 2 of group 5", "send (name)" */
void psr_node_request_describe(const psr_node_request *request, char *text, size_t size);
/* Puts it into its group's list, when it is not there. */
void psr_node_request_add(psr_node_request *request);
/* What could not even be made is its own failure. */
psr_err psr_node_request_make(psr_node_request *request);
void psr_node_request_start(psr_node *node, psr_node_request *request, int64_t now_ms);
/* Payloads of it that the transport has not given back. Any thread. */
uint32_t psr_node_request_lent(const psr_node_request *request);
/* failure NULL: well. */
void psr_node_request_end(psr_node_request *request, psr_failure *failure);
/* As the last failure on this thread says; the others do not hear of it. */
void psr_node_request_fail_alone(psr_node_request *request, psr_err err);
/* Takes it out of its group's list, and frees it. */
void psr_node_request_drop(psr_node_request *request);
/* Whom it waits for. false: for nobody, or for any. */
bool psr_node_request_waits(const psr_node_request *request, psr_waiting *ret_waiting);
/* For a message of any rank of its group. */
bool psr_node_request_waits_for_any(const psr_node_request *request);
/* Those of the group that an event may have ended. */
void psr_node_group_end_what_is_done(psr_node_group *group, int64_t now_ms);

/* ---- node_table.c ---- */

bool psr_node_table_is_message(psr_message_type type);
/* A message to the group's table, if it has one. Takes *message, whose sender it may rename, or
 * leaves it to be freed. PROTOCOL: the sender broke it; else what an update failed with. */
psr_err psr_node_table_message(psr_node_group *group, psr_message **message);
/* Borrows call until it is done, or forgotten. */
psr_err psr_node_table_start(psr_node_table *table, psr_node_table_call *call);
void psr_node_table_forget(psr_node_table *table, psr_node_table_call *call);
bool psr_node_table_call_waits(const psr_node_table *table, const psr_node_table_call *call,
                               psr_waiting *ret_waiting);
/* Any thread. */
uint32_t psr_node_table_lent(const psr_node_table *table, const psr_node_table_call *call);
/* As a shard: the worker that others wait for. false: none. */
bool psr_node_table_waits(const psr_node_table *table, psr_waiting *ret_waiting);
/* As psr_node_waiting_max. */
size_t psr_node_table_waiting_max(const psr_node_table *table);
/* Nothing more will be sent. */
void psr_node_table_break(psr_node_table *table);
/* "push of part 3 of table "weights"" */
void psr_node_table_describe(const psr_node_table *table, const psr_node_table_call *call,
                             char *text, size_t size);
/* NULL allowed. After the transport, or when nothing of it is under way on any rank. */
void psr_node_table_free(psr_node_table *table);

#endif
