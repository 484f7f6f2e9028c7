/* What the files of a node share: node.c (orders, messages, time), node_failure.c (how it breaks), node_group.c, node_request.c. For those
 * alone. All of it on the node's thread, where nothing else is said. */
#ifndef PSR_COMM_NODE_PRIVATE_H
#define PSR_COMM_NODE_PRIVATE_H

#include "base/clock.h"
#include "comm/node/node_table.h"

enum {
    PSR_NODE_NAME_BYTES = 64,
    /* Of each rank: of a group that is not open here only its first barrier can have come. */
    PSR_NODE_EARLY_MAX = 8,
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
    bool of_table; /* it is call, not options */
    psr_node_table_call call;
    bool unasked; /* nobody is to blame for what does not come */
    char name[PSR_NODE_NAME_BYTES];
    int64_t deadline_ms;
    /* The node's: */
    _Atomic(psr_request *) request; /* made once */
    bool under_way;
    int64_t since_ms; /* present time: its start */
    int64_t
        wait_on_until_ms; /* present time: so long the coordinator knows that whom it waits for is at work */
    uint64_t number;
    /* Both threads': */
    _Atomic int state;    /* psr_node_request_state; the owner makes it UNDER_WAY, the node ends it */
    psr_failure *failure; /* why it FAILED: own, or the node's; written before state */
    psr_failure own;
};

struct psr_node_group {
    psr_node *node;
    psr_node_group *next;
    uint32_t id, rank, count;
    uint32_t *ranks;   /* of all ranks */
    int64_t *heard_ms; /* [all ranks] present time: its last message of this group */
    psr_group *group;
    psr_node_table *table;          /* owned; NULL: none */
    psr_node_request *first, *last; /* all that there are */
    uint64_t calls;                 /* of the order of calls, started */
};

typedef enum psr_node_state {
    PSR_NODE_WHOLE,
    PSR_NODE_FOUND, /* something, and the coordinator is told */
    PSR_NODE_BROKEN
} psr_node_state;

struct psr_node {
    psr_node_options options;
    uint32_t ranks;
    psr_node_state state;
    psr_failure found;
    int64_t give_up_ms;      /* FOUND: no verdict will come */
    psr_node_request *asked; /* its deadline has passed, and the coordinator is asked */
    psr_node_group *groups;  /* open */
    uint32_t *closed;        /* ids of groups that were */
    size_t closed_count, closed_capacity;
    psr_early *early; /* of groups that are not open yet */
    psr_presence_clock presence;
    uint64_t moves; /* what its owner did: what comes from others is no progress of this rank's */
    _Atomic uint64_t step, steps_told;
    psr_failure failure;
    _Atomic bool begun, broken; /* broken: failure is written */
};

/* ---- node_failure.c ---- */

/* "rank 2 on host7" */
void psr_node_name_rank(const psr_node *node, uint32_t rank, char *text, size_t size);
/* Breaks it for good: what is under way has failed. */
void psr_node_break(psr_node *node, const psr_failure *failure);
/* The coordinator of a finding. within_ms: of a TIMEOUT. */
void psr_node_tell(const psr_node *node, const psr_failure *failure, int64_t within_ms);
/* It was found here: it breaks the node, or the coordinator's verdict will. */
void psr_node_find(psr_node *node, const psr_failure *failure, int64_t now_ms);
/* Its line is this thread's detail. */
psr_failure psr_node_failure_of_detail(psr_err err, uint32_t rank, uint32_t other, uint64_t number);

/* ---- node_group.c ---- */

/* NULL: it is not open here. */
psr_node_group *psr_node_group_of(const psr_node *node, uint32_t id);
bool psr_node_was_closed(const psr_node *node, uint32_t id);
/* Takes *message, of the group, or leaves it to be freed. */
void psr_node_group_take(psr_node *node, psr_node_group *group, psr_message **message, int64_t now_ms);
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
/* failure NULL: well. */
void psr_node_request_end(psr_node_request *request, psr_failure *failure);
/* As the last failure on this thread says; the others do not hear of it. */
void psr_node_request_fail_alone(psr_node_request *request, psr_err err);
/* Takes it out of its group's list, and frees it. */
void psr_node_request_drop(psr_node_request *request);
/* It is done, or failed: whom it waits for. */
bool psr_node_request_waits(const psr_node_request *request, psr_waiting *ret_waiting);
/* Those of the group that an event may have ended. */
void psr_node_group_end_what_is_done(psr_node_group *group);

/* ---- node_table.c ---- */

bool psr_node_table_is_message(psr_message_type type);
/* A message to the group's table, if it has one. Takes *message, whose sender it may rename, or leaves it to be freed. PROTOCOL: the sender
 * broke it; else what an update failed with. */
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
/* Nothing more will be sent. */
void psr_node_table_break(psr_node_table *table);
/* "push of part 3 of table "weights"" */
void psr_node_table_describe(const psr_node_table *table, const psr_node_table_call *call, char *text,
                             size_t size);
/* NULL allowed. After the transport, or when nothing of it is under way on any rank. */
void psr_node_table_free(psr_node_table *table);

#endif
