/* What the files of a node share; no other file includes it: node.c (orders, messages, time),
 * node_failure.c (how it breaks), node_left.c, node_shrink.c, node_group.c, node_request.c.
 * Everything is called on the node's thread, unless a comment says otherwise. */
#ifndef PSR_COMM_NODE_PRIVATE_H
#define PSR_COMM_NODE_PRIVATE_H

#include "base/clock.h"
#include "comm/node/node_table.h"
#include "comm/queues.h"

#define PSR_NODE_HERE UINT64_MAX /* the coordinator has not said that the rank has left */

enum {
    PSR_NODE_NAME_BYTES = 64,
    PSR_NODE_WINDOW = 8, /* slices on their way to one rank */
    /* Messages of one rank for groups that are not open here. Only the first barrier of such a
     * group can have come. */
    PSR_NODE_EARLY_MAX = 8,
    /* Messages of one rank while it may have a newer epoch than this rank: all that it may send
     * there without an answer. */
    PSR_NODE_NEWER_MAX = PSR_AHEAD_OPERATIONS * PSR_NODE_WINDOW + PSR_CREDITS_KEPT +
                         PSR_OFFERS_KEPT + PSR_NODE_EARLY_MAX,
};

typedef enum psr_node_request_state {
    PSR_NODE_REQUEST_IDLE,
    PSR_NODE_REQUEST_UNDER_WAY,
    PSR_NODE_REQUEST_DONE,
    PSR_NODE_REQUEST_FAILED
} psr_node_request_state;

/* What a request wants of a table. */
typedef struct psr_node_table_call psr_node_table_call;
struct psr_node_table_call {
    psr_node_table_task task;
    psr_node_table_call *next; /* the next call for the same part */
    bool begun, done;
    /* A call for all parts has one call for each part. */
    psr_node_table_call *whole; /* the call for all parts that this one belongs to; NULL: none */
    psr_node_table_call *each;  /* [count], owned; NULL: this call is for one part */
    float *staged;              /* what is pushed, as FLOAT32; owned; NULL: it is the task's */
    uint32_t count, left;       /* left: how many of them are not done */
};

struct psr_node_request {
    psr_node_group *group;
    psr_node_request *next, *previous; /* in the group's list */
    psr_request_options options;
    size_t *counts, *send_counts; /* owned, as the blocks; options points to them */
    psr_block *send_blocks, *receive_blocks;
    psr_compression compression;
    float *residual; /* [count] of what this rank has sent; NULL: its compression has none; owned */
    bool of_table;   /* call is valid, not options */
    psr_node_table_call call;
    bool open_ended;     /* what it waits for may never come, and nobody is to blame */
    psr_node_then *then; /* NULL: it ends when it is done */
    void *then_context;
    psr_node_request *next_step; /* it ends when that one does, which may be of another group */
    psr_node_request *step_of;   /* the request whose next step this is */
    char name[PSR_NODE_NAME_BYTES];
    int64_t deadline_ms;
    /* Used by the node's thread only: */
    _Atomic(psr_request *) request; /* made once */
    bool under_way;
    /* It has ended well, and what it has lent is to come back within its deadline: among the
     * deadlines, but not under way */
    bool owed;
    int64_t since_ms; /* present time at which it was started; if it is owed, at which it ended */
    int64_t due_ms;   /* present time: its deadline does not pass before this */
    /* Of those under way, in node_due.c: in the list of deadlines, or in the heap. due: its place
     * in the heap, plus one; 0: it is not there. */
    psr_node_request *due_next, *due_previous;
    bool due_listed;
    size_t due;
    /* present time until which the coordinator knows that the awaited rank is at work */
    int64_t wait_on_until_ms;
    uint64_t number;
    /* Used by both threads: */
    _Atomic int state; /* a psr_node_request_state; the owner sets UNDER_WAY, the node ends it */
    /* why it FAILED: its own failure or its group's; written before state */
    const psr_failure *failure;
    psr_failure *own; /* owned; NULL: it had none */
};

typedef enum psr_node_state {
    PSR_NODE_WHOLE,
    /* a failure was found, and the coordinator is told */
    PSR_NODE_FOUND,
    PSR_NODE_BROKEN
} psr_node_state;

struct psr_node_group {
    psr_node *node;
    psr_node_group *next, *previous; /* in the list of open groups */
    psr_queued by_id;
    uint32_t epoch, id, rank, count;
    uint32_t *ranks;   /* numbered among all ranks */
    int64_t *heard_ms; /* [all ranks] present time of its last message in this group */
    psr_group *group;
    psr_node_table *table;          /* owned; NULL: none */
    psr_node_request *first, *last; /* all requests of the group */
    size_t under_way;               /* how many of them */
    uint64_t calls;                 /* calls in the group's order that were started */
    const psr_node_group *of;       /* the group that it is made from; NULL: none */
    psr_node_group *opener; /* the group that opened its table; they fail together; NULL: none */
    _Atomic bool begun;     /* from then on `of` no longer matters */
    bool told;              /* the owner's flag */
    psr_node_state state;
    psr_failure found;
    int64_t give_up_ms; /* FOUND: when to stop waiting for a verdict */
    int64_t cut_ms; /* BROKEN: present time at which lent memory is taken back; INT64_MAX: never */
    bool overdue;   /* a rank was given its time to give back what it was lent */
    psr_failure failure;
    _Atomic bool broken; /* failure is written */
};

/* A group that was closed before it had begun: messages of its first barrier may still come. */
typedef struct psr_node_closed psr_node_closed;
struct psr_node_closed {
    psr_queued by_id;
    psr_node_closed *next;
};

/* A message of a group that is not open yet. */
typedef struct psr_node_early psr_node_early;
struct psr_node_early {
    psr_queued by_id;
    psr_node_early *next, *previous; /* in the list of all */
    psr_message *message;            /* owned */
};

struct psr_node_shrink {
    psr_node_group *of;
    int64_t deadline_ms;
    psr_node_group *group; /* if err is PSR_OK */
    psr_failure failure;   /* its err is PSR_OK: there is none */
    _Atomic bool ended;    /* the other fields are written */
};

struct psr_node {
    psr_node_options options;
    uint32_t ranks;
    uint32_t epoch;    /* the newest epoch of which this rank has a group */
    psr_failure **out; /* [ranks]: why a rank is out; owned; NULL: it is not */
    uint64_t *heard;   /* [ranks] messages of a rank that came, of all groups */
    /* [ranks] how many messages of a rank come at all, if it has left; otherwise PSR_NODE_HERE */
    uint64_t *last;
    bool any_left;           /* one of them has */
    psr_node_shrink *shrink; /* the shrink that the coordinator was asked for; NULL: none */
    psr_node_request *asked; /* its deadline has passed, and the coordinator was asked about it */
    /* goes on while the coordinator has a line about it; NULL: none */
    const psr_node_request *complained_of;
    psr_node_group *groups; /* those that are open */
    psr_queues open_by_id, closed_by_id, early_by_id;
    psr_node_closed *closed;
    psr_node_early *early;
    size_t early_count;
    /* [ranks]: the highest number opened here, among the groups whose first rank it is */
    uint32_t *opened;
    size_t under_way, under_way_most; /* requests under way now, and the most that ever were */
    size_t failing;                   /* open groups with a failure */
    size_t tables;                    /* open groups that have a table */
    /* Deadlines of requests under way, see node_due.c: a list, and [due_count] a heap. Both have
     * the earliest one first. */
    psr_node_request *due_first, *due_last;
    psr_node_request **due;
    size_t due_count, due_capacity;
    psr_presence_clock presence;
    /* counts the owner's actions; messages of others are no progress of this rank */
    uint64_t moves;
    _Atomic uint64_t step, steps_told;
    psr_failure failure;        /* the failure that broke everything */
    _Atomic bool begun, broken; /* failure is written, if broken */
};

/* ---- node.c ---- */

/* ---- node_due.c ---- */

/* Adds a request that has begun, so that its deadline is looked at. */
void psr_node_due_add(psr_node *node, psr_node_request *request);
/* Does nothing if it is not there. */
void psr_node_due_remove(psr_node *node, psr_node_request *request);
/* Of a request that is there: changes its due_ms. */
void psr_node_due_move(psr_node *node, psr_node_request *request, int64_t due_ms);
/* The one with the earliest deadline. NULL: there is none. */
psr_node_request *psr_node_due_first(const psr_node *node);

/* ---- node_failure.c ---- */

/* The limits against which the scheduler's numbers are checked. A rank hears only of smaller groups
 * that it is in. */
psr_msg_limits psr_node_limits(const psr_node *node);
/* Breaks what the failure's scope says: for PSR_SCOPE_RANK and _LOST all groups with its rank. */
void psr_node_apply(psr_node *node, const psr_failure *failure);
/* Gives a group that is being opened a failure that concerns it already. */
void psr_node_group_inherit(psr_node_group *group);
/* Reports a finding to the coordinator. within_ms: the deadline, for a TIMEOUT. */
void psr_node_tell(const psr_node *node, const psr_failure *failure, int64_t within_ms);
/* A failure was found here: it breaks its group now, or the coordinator's verdict will. */
void psr_node_find(psr_node *node, const psr_failure *failure, int64_t now_ms);
/* A failure of a group; its line is this thread's detail. */
psr_failure psr_node_failure_of_detail(const psr_node_group *group, psr_err err, uint32_t rank,
                                       uint32_t other, uint64_t number);
/* A failure of all groups with that rank. */
psr_failure psr_node_violation_of(psr_err err, uint32_t rank);
/* Time has passed, for broken groups and groups with a finding. Returns how long until something is
 * due; INT64_MAX: nothing is. */
int64_t psr_node_failure_tick(psr_node *node, int64_t now_ms, int64_t present_ms);

/* ---- node_left.c ---- */

/* Takes LEFT. */
void psr_node_left_take(psr_node *node, const psr_message *message, int64_t now_ms);
/* Looks for operations that wait in vain for a rank that has left. Returns how long until it is to
 * be called again; INT64_MAX: no rank has left. */
int64_t psr_node_left_tick(psr_node *node, int64_t now_ms);

/* ---- node_shrink.c ---- */

void psr_node_shrink_begin(psr_node *node, psr_node_shrink *shrink, int64_t now_ms);
/* Takes SHRUNK. */
void psr_node_shrink_take(psr_node *node, const psr_message *message, int64_t now_ms);
/* Ends the shrink under way, if there is one. */
void psr_node_shrink_fail(psr_node *node, const psr_failure *failure);

/* ---- node_group.c ---- */

/* NULL: no such group is open here. */
psr_node_group *psr_node_group_of(psr_node *node, uint32_t epoch, uint32_t id);
/* Takes a message of a group that is not open here. *message becomes NULL if it is kept until the
 * group is opened; a message of a closed group is left. PROTOCOL: no rank can send that now.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_node_keep_early(psr_node *node, psr_message **message);
/* Frees what is kept of groups that are not open. */
void psr_node_forget_groups(psr_node *node);
/* Whether the rank belongs to the group. */
bool psr_node_group_has(const psr_node_group *group, uint32_t rank);
/* Takes *message, which belongs to the group, or leaves it to be freed. */
void psr_node_group_take(psr_node *node, psr_node_group *group, psr_message **message,
                         int64_t now_ms);
void psr_node_group_open(psr_node *node, psr_node_group *group, int64_t now_ms);
void psr_node_group_close(psr_node *node, psr_node_group *group);
/* Frees the group with its requests. */
void psr_node_group_drop(psr_node_group *group);

/* ---- node_request.c ---- */

/* "all_reduce 41", "barrier 2 of group 5", "send (name)" */
void psr_node_request_describe(const psr_node_request *request, char *text, size_t size);
/* Puts it into its group's list, unless it is there. */
void psr_node_request_add(psr_node_request *request);
/* A request that could not even be made fails alone. */
psr_err psr_node_request_make(psr_node_request *request);
void psr_node_request_start(psr_node *node, psr_node_request *request, int64_t now_ms);
/* Its payloads that the transport has not given back. Any thread. */
uint32_t psr_node_request_lent(const psr_node_request *request);
/* It is not owed any more. Does nothing if it was not. */
void psr_node_request_paid(psr_node_request *request);
/* failure NULL: it ended well. */
void psr_node_request_end(psr_node_request *request, const psr_failure *failure);
/* Fails it with the last failure on this thread; the other ranks do not hear of it. */
void psr_node_request_fail_alone(psr_node_request *request, psr_err err);
/* Takes it out of its group's list and frees it. */
void psr_node_request_drop(psr_node_request *request);
/* A rank to which it has lent what has not come back. false: there is none. */
bool psr_node_request_lent_to(const psr_node_request *request, psr_peer *ret_peer);
/* The rank that it waits for. false: none, or any. */
bool psr_node_request_waits(const psr_node_request *request, psr_waiting *ret_waiting);
/* Whether it waits for a message of any rank of its group. */
bool psr_node_request_waits_for_any(const psr_node_request *request);
/* Ends the group's requests that an event may have completed. */
void psr_node_group_end_done(psr_node_group *group, int64_t now_ms);

/* ---- node_table.c ---- */

bool psr_node_table_is_message(psr_message_type type);
/* Gives a message to the group's table, if it has one. Takes *message, whose sender it may rename,
 * or leaves it to be freed. PROTOCOL: the sender broke the protocol; otherwise the failure of an
 * update. */
psr_err psr_node_table_message(psr_node_group *group, psr_message **message);
/* Frees what the call owns. */
void psr_node_table_call_done(psr_node_table_call *call);
/* Borrows call until it is done or forgotten. */
psr_err psr_node_table_start(psr_node_table *table, psr_node_table_call *call);
void psr_node_table_forget(psr_node_table *table, psr_node_table_call *call);
bool psr_node_table_call_waits(const psr_node_table *table, const psr_node_table_call *call,
                               psr_waiting *ret_waiting);
/* Any thread. */
uint32_t psr_node_table_lent(const psr_node_table *table, const psr_node_table_call *call);
/* A rank to which it is lent. false: nothing is. */
bool psr_node_table_lent_to(const psr_node_table *table, const psr_node_table_call *call,
                            psr_peer *ret_peer);
/* On a shard: the worker that others wait for. false: none. */
bool psr_node_table_waits(const psr_node_table *table, psr_waiting *ret_waiting);
/* See psr_node_waiting_max. */
size_t psr_node_table_waiting_max(const psr_node_table *table);
/* Sends nothing any more. */
void psr_node_table_break(psr_node_table *table);
/* "push of part 3 of table "weights"" */
void psr_node_table_describe(const psr_node_table *table, const psr_node_table_call *call,
                             char *text, size_t size);
/* NULL allowed. Call it after the transport is freed, or when nothing of the table is under way on
 * any rank. */
void psr_node_table_free(psr_node_table *table);

#endif
