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

#include "comm/buffer.h"
#include "comm/collectives/group.h"
#include "comm/outbox.h"
#include "comm/view/view.h"
#include "comm/wire/messages.h"

#include <stdatomic.h>

#define PSR_FAILURE_LINE_BYTES 512

typedef struct psr_failure {
    psr_err err;
    psr_scope scope;
    uint32_t epoch, group; /* the group that the failure breaks, if scope is PSR_SCOPE_GROUP */
    /* numbered among all ranks: the rank to blame; for a MISMATCH the second one too. PSR_RANK_ANY:
     * none */
    uint32_t rank, other;
    uint64_t number; /* the number of the call in its group, from 1; 0: no call */
    char line[PSR_FAILURE_LINE_BYTES];
} psr_failure;

typedef struct psr_node psr_node;
typedef struct psr_node_group psr_node_group;
typedef struct psr_node_request psr_node_request;
typedef struct psr_node_shrink psr_node_shrink;

typedef struct psr_node_options {
    const psr_view *view; /* its members are ranks only, as workers. Borrowed for life */
    uint32_t rank;        /* this process's */
    bool alone;           /* there is no coordinator: a failure found here is the verdict */
    int64_t deadline_ms;  /* the communicator's */
    psr_outbox outbox;    /* to all other ranks and the coordinator */
    void *context;
    /* Ends the channel to a rank for good, so that lent payloads come back. May be called again */
    void (*cut)(void *context, psr_peer peer);
    /* the rank is out: its messages no longer matter */
    void (*retire)(void *context, psr_peer peer);
    void (*changed)(void *context); /* the result of a function marked [owner] may have changed */
} psr_node_options;

/* NOMEM. The caller owns *ret_node. */
PSR_MUST_CHECK psr_err psr_node_new(const psr_node_options *options, int64_t now_ms,
                                    psr_node **ret_node);
/* Frees it with its groups and requests. Nothing may be lent: free the transport first. NULL
 * allowed. */
void psr_node_free(psr_node *node);

/* ---- what comes in ---- */

typedef enum psr_node_order {
    PSR_NODE_OPEN_GROUP,  /* a psr_node_group; from now on it takes messages */
    PSR_NODE_CLOSE_GROUP, /* a psr_node_group; frees it and its requests, which have ended */
    PSR_NODE_MAKE,        /* a persistent request; the order of making counts */
    PSR_NODE_START,       /* a request */
    PSR_NODE_FREE,        /* a request that has ended */
    PSR_NODE_FIND,        /* a malloc'ed psr_failure, a finding of the owner; it is freed */
    PSR_NODE_SHRINK,      /* a psr_node_shrink; one at a time */
} psr_node_order;

/* Carries out an order. object: a psr_node_group, psr_node_request, psr_failure or psr_node_shrink.
 * A failure is that of the request, or breaks its group. */
void psr_node_take(psr_node *node, psr_node_order order, void *object, int64_t now_ms);
/* Takes *message: VALUES, CREDIT, AHEAD and the messages of tables (comm/node/node_table.h) from
 * other ranks; VERDICT and SHRUNK from the coordinator. A failure breaks the group that it is
 * about. */
void psr_node_message(psr_node *node, psr_message **message, int64_t now_ms);
/* Time has passed. Call it at *ret_next_ms. */
void psr_node_tick(psr_node *node, int64_t now_ms, int64_t *ret_next_ms);
/* The node cannot go on: its scheduler is gone, or its transport failed. The last failure on this
 * thread says why. rank: the one to blame, or PSR_RANK_ANY. */
void psr_node_fail(psr_node *node, psr_err err, uint32_t rank);
/* "rank 2 on host7" */
void psr_node_name_rank(const psr_node *node, uint32_t rank, char *text, size_t size);
/* An operation is under way, so messages of others matter at once. */
bool psr_node_busy(const psr_node *node);
/* Most messages that may wait for one rank that reads nothing: those of the operations that were
 * under way at once, including copies of operations that have ended. At least
 * PSR_NODE_WAITING_LEAST. */
#define PSR_NODE_WAITING_LEAST 4096
size_t psr_node_waiting_max(const psr_node *node);
/* Fills in what its member reports. */
void psr_node_report(const psr_node *node, psr_msg_progress *progress);
/* The owner is at work, in a step of its own count. Any thread. */
void psr_node_progress(psr_node *node, uint64_t step);

/* ---- [owner] ---- */

/* The coordinator has said that all have joined and that their facts agree. */
bool psr_node_begun(const psr_node *node);
/* The failure that broke everything for good; NULL: there is none. Borrowed for life. */
const psr_failure *psr_node_failure(const psr_node *node);

/* Makes a group of ranks[count], numbered among all ranks; they are copied, and this rank is one of
 * them. epoch: that of the group that it is made from; 0: of the first. id: the same on all of its
 * ranks, and no other group's of this epoch. NOMEM. The caller owns *ret_group until it orders it
 * to be opened. */
PSR_MUST_CHECK psr_err psr_node_group_new(psr_node *node, uint32_t epoch, uint32_t id,
                                          const uint32_t *ranks, uint32_t count,
                                          psr_node_group **ret_group);
/* Call it before the group is opened: its ranks belong to the group of, and until it has begun it
 * fails when of fails. */
void psr_node_group_made_of(psr_node_group *group, const psr_node_group *of);
/* Call it before the group is opened: its table is opened by the group opener, and the two fail
 * together. */
void psr_node_group_opened_by(psr_node_group *table, psr_node_group *opener);
/* All ranks of the group have opened it. */
void psr_node_group_begins(psr_node_group *group);
/* Frees a group that was never opened. NULL allowed. */
void psr_node_group_free(psr_node_group *group);
uint32_t psr_node_group_id(const psr_node_group *group);
uint32_t psr_node_group_rank(const psr_node_group *group); /* this process's rank in the group */
uint32_t psr_node_group_size(const psr_node_group *group);
const uint32_t *psr_node_group_ranks(const psr_node_group *group); /* [size]; borrowed from group */
uint32_t psr_node_group_epoch(const psr_node_group *group);
/* The failure that broke the group; NULL: it is not broken. Borrowed from group. */
const psr_failure *psr_node_group_failure(const psr_node_group *group);
/* The owner's own flag: the failure has been returned to the program. Borrowed from group. */
bool *psr_node_group_told(psr_node_group *group);

/* A wish for a new group of the living ranks of group; all of them must have it. group is open, and
 * is borrowed until the wish has ended. NOMEM. The caller owns *ret_shrink, and may free it if it
 * was never ordered or has ended. */
PSR_MUST_CHECK psr_err psr_node_shrink_new(psr_node_group *group, int64_t deadline_ms,
                                           psr_node_shrink **ret_shrink);
void psr_node_shrink_free(psr_node_shrink *shrink); /* NULL allowed */
bool psr_node_shrink_ended(const psr_node_shrink *shrink);
/* The result of a wish that has ended: the new group, which is open; or why there is none, with its
 * line as this thread's detail. */
PSR_MUST_CHECK psr_err psr_node_shrink_result(const psr_node_shrink *shrink,
                                              psr_node_group **ret_group);

/* Makes a request. options and the arrays that its kind uses are copied. deadline_ms: for how long
 * nothing may come from the rank that it waits for. name: for lines of errors; NULL: none; copied.
 * USAGE: psr_request_check refuses the options. NOMEM. The caller owns *ret_request until it orders
 * it to be freed. */
PSR_MUST_CHECK psr_err psr_node_request_new(psr_node_group *group,
                                            const psr_request_options *options, int64_t deadline_ms,
                                            const char *name, psr_node_request **ret_request);
/* Frees a request that was never ordered. NULL allowed. */
void psr_node_request_free(psr_node_request *request);
/* Sets a next step, before the request is ordered; not for a persistent request. When the request
 * is done, the node's thread calls then. The request ends when the request that then returns has
 * ended, or at once if then is NULL or returns NULL. The returned request belongs to an open group,
 * was not ordered, and is owned by the node. A failure of then is the request's own failure. */
typedef psr_err psr_node_then(void *context, psr_node *node, int64_t now_ms,
                              psr_node_request **ret_next);
void psr_node_request_then(psr_node_request *request, psr_node_then *then, void *context);
/* Call it before the request is ordered: it may wait for ever, so others are not told whom it waits
 * for. */
void psr_node_request_open_ended(psr_node_request *request);
psr_node_group *psr_node_request_group(const psr_node_request *request);
/* The number of a request that has ended among the calls of its group, from 1. 0: it is no such
 * call. */
uint64_t psr_node_request_number(const psr_node_request *request);
/* Its count of values, and their bytes. */
size_t psr_node_request_count(const psr_node_request *request);
size_t psr_node_request_bytes(const psr_node_request *request);
/* Whether a buffer, block or array of the request begins in [memory, memory + bytes). */
bool psr_node_request_uses(const psr_node_request *request, const void *memory, size_t bytes);
/* Call it before each order to start the request: from then on it has not ended. */
void psr_node_request_begins(psr_node_request *request);
/* The request has ended, well or badly, and none of its memory is lent. True also before it is
 * first started. */
bool psr_node_request_ended(const psr_node_request *request);
/* How it ended; its line becomes this thread's detail. */
psr_err psr_node_request_status(const psr_node_request *request);
/* Of a receive or a probe that has ended well: see psr_request_came. */
bool psr_node_request_came(const psr_node_request *request, uint32_t *ret_from, uint32_t *ret_tag,
                           uint64_t *ret_count, psr_type *ret_type);
/* [count] what this rank owes, which has sent values in fewer bytes. Belongs to the node while the
 * request is under way, and else to its owner, who may change it. Borrowed from request. NULL: its
 * encoding has no residual. */
float *psr_node_request_residual(const psr_node_request *request);
/* The name of the algorithm that was chosen; NULL: not known before the request is started, or
 * made. */
const char *psr_node_request_algorithm(const psr_node_request *request);

#endif
