/* A node is one rank of a communicator: its groups with their operations
 * (comm/collectives/group.h), their deadlines, and their failures. It does no I/O, reads no clock
 * and starts no thread: its owner's orders, messages and the time come in; messages and findings go
 * out.
 *
 * Each group fails by itself. A rank that finds a failure reports it to the coordinator (FINDING).
 * The coordinator knows who is alive and who waits for whom, and sends all ranks one VERDICT. The
 * verdict has a scope, which says what is broken: one group; all groups of one rank, which may be
 * lost for good; or everything. In a broken group all operations under way have failed, and no
 * other can start. Its loans end as the other ranks read them, or when the channel to a rank is
 * cut: at once to a rank that is lost, and to a living rank when no loan has ended for the
 * deadline. A deadline that passes is only a question to the coordinator, which may answer that the
 * rank that is waited for makes progress.
 *
 * The living ranks of a group can make a new group of themselves: each sends SHRINK, and when all
 * of them have, the coordinator sends all the same list of ranks and a new epoch (SHRUNK). The
 * epoch tells messages of the new group from earlier ones.
 *
 * There are two threads. The node's thread calls every function that is not marked. The owner's
 * thread makes groups and requests, hands them over as orders, and calls the functions marked
 * [owner]. In a program without threads both are the same. */
#ifndef PSR_COMM_NODE_H
#define PSR_COMM_NODE_H

#include "comm/comm.h"

#include <stdatomic.h>

#define PSR_FAILURE_LINE_BYTES 512

typedef struct psr_failure {
    psr_err err;
    psr_scope scope;
    uint32_t epoch, group; /* PSR_SCOPE_GROUP: that it breaks */
    uint32_t rank, other;  /* of all ranks: to blame; of a MISMATCH both. PSR_RANK_ANY: nobody */
    uint64_t number;       /* of the call in its group, from 1; 0: of none */
    char line[PSR_FAILURE_LINE_BYTES];
} psr_failure;

typedef struct psr_node psr_node;
typedef struct psr_node_group psr_node_group;
typedef struct psr_node_request psr_node_request;
typedef struct psr_node_shrink psr_node_shrink;

typedef struct psr_node_options {
    const psr_view *view; /* of ranks alone: workers. Borrowed for life */
    uint32_t rank;        /* own */
    bool alone;           /* there is no coordinator: what is found here is the verdict */
    int64_t deadline_ms;  /* of the communicator */
    psr_outbox outbox;    /* to all others, and the coordinator */
    void *context;
    void (*cut)(void *context, psr_peer peer);    /* ends the channel to it, for good:
                                                     what is lent comes back. Again too */
    void (*retire)(void *context, psr_peer peer); /* it is out: nothing that it
                                                     says matters any more */
    void (*changed)(void *context);               /* what is marked [owner] may
                                                     say something else now */
} psr_node_options;

/* NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_node_new(const psr_node_options *options, int64_t now_ms,
                                    psr_node **ret_node);
/* With its groups and requests, when nothing is lent: after its transport. NULL allowed. */
void psr_node_free(psr_node *node);

/* ---- what comes in ---- */

typedef enum psr_node_order {
    PSR_NODE_OPEN_GROUP,  /* from here on it hears messages */
    PSR_NODE_CLOSE_GROUP, /* frees it and its requests, which have ended */
    PSR_NODE_MAKE,        /* a persistent request, in the order of making */
    PSR_NODE_START,       /* a request */
    PSR_NODE_FREE,        /* a request, which has ended */
    PSR_NODE_FIND,        /* a malloced psr_failure, which it frees: a finding of its owner's */
    PSR_NODE_SHRINK,      /* a psr_node_shrink. One at a time */
} psr_node_order;

/* object: a psr_node_group, a psr_node_request, a psr_failure or a psr_node_shrink. What goes wrong
 * is the request's, or breaks what it is of. */
void psr_node_take(psr_node *node, psr_node_order order, void *object, int64_t now_ms);
/* VALUES, CREDIT, AHEAD and what tables say (comm/node/node_table.h) of the other ranks, VERDICT
 * and SHRUNK of the coordinator. Takes *message. What goes wrong breaks what it is of. */
void psr_node_message(psr_node *node, psr_message **message, int64_t now_ms);
/* Time passes. To be called by *ret_next_ms. */
void psr_node_tick(psr_node *node, int64_t now_ms, int64_t *ret_next_ms);
/* It cannot go on, as the last failure on this thread says: its scheduler is gone, its transport
 * failed. */
void psr_node_fail(psr_node *node, psr_err err, int64_t now_ms);
/* Something is under way: what others say matters at once. */
bool psr_node_busy(const psr_node *node);
/* Messages that may wait for one rank that reads nothing: of what its owner has had under way at
 * once, ended and copied or not. At least PSR_NODE_WAITING_LEAST. */
#define PSR_NODE_WAITING_LEAST 4096
size_t psr_node_waiting_max(const psr_node *node);
/* What its member reports. */
void psr_node_report(const psr_node *node, psr_msg_progress *progress);
/* Any thread: the owner is at work, in a step of its own. */
void psr_node_progress(psr_node *node, uint64_t step);

/* ---- [owner] ---- */

/* The coordinator has said that all have joined and agree. */
bool psr_node_begun(const psr_node *node);
/* Why everything is broken, for good; NULL: it is not. Borrowed for life. */
const psr_failure *psr_node_failure(const psr_node *node);

/* ranks: of all ranks, [count], copied; the own one is among them. epoch: of the group that it is
 * made of; 0: of the first. id: the same on all of them, and no other group's of the epoch. NOMEM.
 * ret owns, until it is ordered to be opened. */
PSR_MUST_CHECK psr_err psr_node_group_new(psr_node *node, uint32_t epoch, uint32_t id,
                                          const uint32_t *ranks, uint32_t count,
                                          psr_node_group **ret_group);
/* Before it is opened: it is made by ranks of that group, and fails with it as long as it has not
 * begun. */
void psr_node_group_made_of(psr_node_group *group, const psr_node_group *of);
/* Before it is opened: its table is that group's, and they fail together. */
void psr_node_group_opened_by(psr_node_group *table, psr_node_group *opener);
/* All ranks of the group have opened it. */
void psr_node_group_begins(psr_node_group *group);
/* One that was never opened. NULL allowed. */
void psr_node_group_free(psr_node_group *group);
uint32_t psr_node_group_id(const psr_node_group *group);
uint32_t psr_node_group_rank(const psr_node_group *group); /* own, in it */
uint32_t psr_node_group_size(const psr_node_group *group);
const uint32_t *psr_node_group_ranks(const psr_node_group *group); /* [size]; borrowed from group */
uint32_t psr_node_group_epoch(const psr_node_group *group);
/* The failure that broke the group; NULL: it is not broken. Borrowed from group. */
const psr_failure *psr_node_group_failure(const psr_node_group *group);
/* The owner's own: it has been said. Borrowed from group. */
bool *psr_node_group_told(psr_node_group *group);

/* A wish for a group of those of group's ranks that live, which all of them must have. group, which
 * is open, is borrowed until it has ended. NOMEM. ret owns, when it was never ordered or has
 * ended. */
PSR_MUST_CHECK psr_err psr_node_shrink_new(psr_node_group *group, int64_t deadline_ms,
                                           psr_node_shrink **ret_shrink);
void psr_node_shrink_free(psr_node_shrink *shrink); /* NULL allowed */
bool psr_node_shrink_ended(const psr_node_shrink *shrink);
/* Of one that has ended: the group, which is open; or why there is none, its line this thread's
 * detail. */
PSR_MUST_CHECK psr_err psr_node_shrink_result(const psr_node_shrink *shrink,
                                              psr_node_group **ret_group);

/* Copies options with its arrays, of which those that do not matter for the kind may hang.
 * deadline_ms: how long nothing may come from whom it waits for. name: in lines of errors; NULL:
 * none; copied. USAGE: psr_request_check refuses it. NOMEM. ret owns, until it is ordered to be
 * freed. */
PSR_MUST_CHECK psr_err psr_node_request_new(psr_node_group *group,
                                            const psr_request_options *options, int64_t deadline_ms,
                                            const char *name, psr_node_request **ret_request);
/* One that was never ordered. NULL allowed. */
void psr_node_request_free(psr_node_request *request);
/* Before it is ordered, one that is not persistent: when it is done, then is called, on the node's
 * thread, and it ends when what that has begun does. then NULL, or where it returns one that is
 * NULL: it ends then. What it returns is of a group that is open there, was not ordered, and is the
 * node's from then on. A failure of then is the request's own. */
typedef psr_err psr_node_then(void *context, psr_node *node, int64_t now_ms,
                              psr_node_request **ret_next);
void psr_node_request_then(psr_node_request *request, psr_node_then *then, void *context);
/* Before it is ordered: it waits for what may never come. Whom it waits for is not told to the
 * others. */
void psr_node_request_is_unasked(psr_node_request *request);
psr_node_group *psr_node_request_group(const psr_node_request *request);
/* Of one that has ended: of its group's calls, from 1. 0: of none. */
uint64_t psr_node_request_number(const psr_node_request *request);
bool psr_node_request_persistent(const psr_node_request *request);
/* Of its count of values. */
size_t psr_node_request_bytes(const psr_node_request *request);
/* To be called before each order to start it: from then on it has not ended. */
void psr_node_request_begins(psr_node_request *request);
/* It has, well or badly, and nothing of its memory is lent; also before it was ever started. */
bool psr_node_request_ended(const psr_node_request *request);
/* How it ended; its line becomes this thread's detail. */
psr_err psr_node_request_status(const psr_node_request *request);
/* Of a receive or a probe that has ended well: psr_request_came. */
bool psr_node_request_came(const psr_node_request *request, uint32_t *ret_from, uint32_t *ret_tag,
                           uint64_t *ret_count, psr_type *ret_type);
/* The algorithm that was chosen; NULL: not known before it is started, or made. */
const char *psr_node_request_algorithm(const psr_node_request *request);

#endif
