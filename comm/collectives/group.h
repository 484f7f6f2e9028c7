/* A group of ranks, and their operations: collectives, neighbour exchange, messages. Free of I/O, clocks and threads: calls and
 * messages in, messages out through the outbox.
 *
 * Every rank makes the same calls in the same order. An operation that is not persistent belongs to that order (slot 0): its number
 * there is its round. A persistent one has a slot of its own, given in the order in which they are made, and is started again
 * and again, in any order with others: its round is how often. A message between two ranks is matched by its tag: slot 2^31 + tag, and its
 * round is the number of messages with that tag from the one to the other. A rank may be both: then the later of the two ends copies.
 *
 * Memory is bounded by credits, between each two ranks and for each operation by itself, so that none waits for another's:
 * - In the order of calls a rank sends at once, at most a window of slices that the receiver has not taken in. Who only sends may be
 *   PSR_AHEAD_OPERATIONS operations ahead of its receiver.
 * - In persistent operations and messages a rank sends when its receiver has started the same: nothing comes unasked.
 * What comes before its operation is started here is kept.
 * - Who does not read and grants more all the same makes calls wait for it, and is no cause to copy more: payloads are lent then.
 *
 * What ranks must say alike stands in every head (comm/collectives/call.h), and is compared where a message meets its operation, or the
 * calls that have ended (the last PSR_CALLS_KEPT): MISMATCH, and the line names both ranks (as the members are called) and both calls. What no message
 * crosses is the deadline's to find, or the next barrier's: each of its messages has a digest of all calls before it in the order, and who sends one has
 * compared those that it got (comm/collectives/dissemination.c). So when it ends anywhere, all ranks had made the same calls. After any failure but of psr_request_new the group is broken: only waiting until nothing is
 * lent, and freeing, are left.
 * One thread, but for psr_request_lent. */
#ifndef PSR_COMM_COLLECTIVES_GROUP_H
#define PSR_COMM_COLLECTIVES_GROUP_H

#include "comm/collectives/block.h"
#include "comm/collectives/call.h"
#include "comm/operations/operation.h"
#include "comm/outbox.h"

enum {
    PSR_AHEAD_OPERATIONS = 64,
    PSR_CALLS_KEPT = 64,
    PSR_CREDITS_KEPT = 4096,  /* of one peer, for operations that are not started here */
    PSR_COPIES_WAITING = 256, /* messages: while so many wait for a rank, nothing more is copied for it */
};
#define PSR_MESSAGE_TAG_MAX (UINT32_MAX >> 1)

typedef struct psr_group psr_group;
typedef struct psr_request psr_request;

typedef struct psr_group_options {
    uint32_t epoch, id; /* of its tags */
    uint32_t rank, ranks;
    const psr_peer *members; /* [ranks]; copied */
    uint32_t hosts;          /* on how many hosts they are: for the choice of an algorithm */
    size_t slice_bytes; /* of one message at most, and no more than PSR_PAYLOAD_BYTES_MAX; a multiple of 8 */
    size_t
        largest_slice_bytes; /* of an operation of many bytes (comm/collectives/algorithm_choice.h); as the former. 0: that. */
    uint32_t window;     /* slices, > 0 */
    size_t copied_bytes; /* a payload up to that is copied: a loan of it would take longer */
    psr_outbox outbox;
} psr_group_options;

/* USAGE: a member stands there twice. NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_group_new(const psr_group_options *options, psr_group **ret_group);
/* After its requests. NULL allowed. */
void psr_group_free(psr_group *group);

/* " of the group of ranks 0, 2"; of the one with id 0, which is all, nothing. */
void psr_group_describe(const psr_group *group, char *text, size_t size);

/* VALUES, CREDIT or AHEAD with the group's epoch and id. Takes *message. PROTOCOL: it cannot come now. MISMATCH. */
PSR_MUST_CHECK psr_err psr_group_message(psr_group *group, psr_message **message);
/* Whose message psr_group_message or psr_request_start failed of, as the group's members are called. false: of none. */
bool psr_group_failed_of(const psr_group *group, psr_peer *ret_member);

/* What is called. Pointers to values are borrowed as psr_request_start says, all others for the call. */
typedef struct psr_request_options {
    psr_kind kind;
    psr_algorithm algorithm;
    psr_type type;
    psr_reduction reduction; /* all-reduce, reduce, reduce-scatter; blocks that add */
    uint32_t root;           /* reduce, broadcast, gather, scatter */
    /* Of the type, aligned for it. In place: send is where this rank's values lie in receive; all-to-all: send is receive, and with counts
     * both are the same. Broadcast: receive alone. NULL where this rank has none. */
    const void *send;
    void *receive;
    /* All-reduce, reduce, broadcast, a message: of the whole. The others: of each rank's part, unless counts are given. */
    size_t count;
    /* [ranks] Reduce-scatter, all-gather, gather, scatter: of each rank's part. All-to-all-v: what comes from each. */
    const size_t *counts;
    const size_t *send_counts; /* [ranks] all-to-all-v: what goes to each */
    uint32_t peer, tag;        /* of a message; peer may be this rank; tag at most PSR_MESSAGE_TAG_MAX */
    /* Neighbour exchange: the k-th to a rank is its k-th from us. What adds is added in the order of the list, but first what a rank
     * sends itself. */
    const psr_block *send_blocks, *receive_blocks;
    size_t send_block_count, receive_block_count;
    bool persistent;    /* not of messages, which may be started again as they are */
    const char *within; /* the call that it is a step of, for lines; static; NULL: it is one itself */
    bool uncounted; /* lines number calls without this one, which begins the group: its caller made none */
    void *owner;    /* what psr_group_take_ended says of it; borrowed */
} psr_request_options;

/* Can it be made? USAGE: no such rank, algorithm, or reduction of that type; counts that no memory has; what a rank would send itself is
 * not what it expects of itself. Any thread. */
PSR_MUST_CHECK psr_err psr_request_check(const psr_group *group, const psr_request_options *options);
/* Makes an operation and starts nothing. As psr_request_check; NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_request_new(psr_group *group, const psr_request_options *options,
                                       psr_request **ret_request);
/* Begins it, again too: not while it is under way. Its values are borrowed until it is done and nothing is lent. */
PSR_MUST_CHECK psr_err psr_request_start(psr_request *request);
bool psr_request_done(const psr_request *request); /* also when it was never started */
/* Whom it waits for: from rank to rank that leads to the one that does not go on. false: it is done. */
bool psr_request_waits(const psr_request *request, psr_waiting *ret_waiting);
/* Payloads that the transport has not given back. Any thread. */
uint32_t psr_request_lent(const psr_request *request);
/* What was made of the options: with the algorithm that was chosen. Borrowed from request. */
const psr_call *psr_request_call(const psr_request *request);
/* When it is done, or its group is broken, and nothing is lent. NULL allowed. */
void psr_request_free(psr_request *request);

/* The owner of a request that has ended well, each time that it does once. NULL: there is no more. */
void *psr_group_take_ended(psr_group *group);

/* Of the requests under way the one that began next after `before`; NULL: of all the first. NULL: there is none. */
const psr_request *psr_group_next(const psr_group *group, const psr_request *before);
void *psr_request_owner(const psr_request *request); /* of its options */

/* Of the requests under way the oldest. false: there is none. */
bool psr_group_waits(const psr_group *group, psr_waiting *ret_waiting, const psr_request **ret_request);

#endif
