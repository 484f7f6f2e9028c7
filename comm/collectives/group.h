/* A group of ranks and their operations: collectives, neighbour exchange, messages. It does no I/O,
 * reads no clock and starts no thread: calls and messages come in, messages go out through the
 * outbox.
 *
 * Every rank makes the same calls in the same order. An operation that is not persistent belongs to
 * that order (slot 0): its number there is its round. A persistent operation has a slot of its own,
 * numbered in the order in which such operations are made. It is started again and again, in any
 * order with others; its round counts its starts. A message between two ranks is matched by its tag
 * (comm/collectives/matching.h): slot 2^31 + tag, and its round is its receiver's ticket. A rank
 * may be both: then the later of the two ends copies.
 *
 * Memory is bounded by credits. They are counted for each pair of ranks and for each operation by
 * itself, so that no operation waits for another's credits:
 * - An operation in the order of calls sends at once, at most a window of slices that the receiver
 *   has not consumed yet. A rank that only sends may be PSR_AHEAD_OPERATIONS operations ahead of
 *   its receiver.
 * - In persistent operations and messages a rank sends when its receiver has started the same:
 *   nothing comes unasked.
 * - In an all-reduce by ring a CREDIT only says that the receiver has started. The group's lane
 *   (comm/collectives/request_lane.h) bounds what is sent: of the slices that a rank injects,
 *   all but a window have come back to it as final sums. Where all ranks share memory the ring has
 *   no hops: a rank asks for the slices of its own chunk by CREDITs, in the turns that its lane
 *   gives (comm/collectives/request_gathering.c).
 * Messages that come before their operation is started here are kept: of persistent operations only
 * where all ranks promise to start all (starts_all), since otherwise nothing comes unasked.
 * - A rank that grants credits but does not read makes calls wait for it. Nothing more is copied
 *   for it meanwhile: payloads are lent then.
 *
 * The arguments on which ranks must agree stand in every head (comm/collectives/call.h). They are
 * compared when a message meets its operation, or one of the last PSR_CALLS_KEPT calls that have
 * ended. A difference is a MISMATCH, whose line names both ranks (as the members are called) and
 * both calls. A difference between ranks that exchange no message is found by the deadline or by
 * the next barrier: each message of a barrier has a digest of all calls before it in the order, and
 * a rank compares the digests that it receives before it sends its own
 * (comm/collectives/algorithms/dissemination.c). So when a barrier ends on any rank, all ranks had
 * made the same calls. After any failure, except of psr_request_new, the group is broken: it is
 * only left to wait until nothing is lent, and to free. One thread, but for psr_request_lent. */
#ifndef PSR_COMM_COLLECTIVES_GROUP_H
#define PSR_COMM_COLLECTIVES_GROUP_H

#include "comm/collectives/block.h"
#include "comm/collectives/call.h"
#include "comm/operations/waiting.h"
#include "comm/outbox.h"
#include "comm/wire/compression/compression.h"

enum {
    PSR_AHEAD_OPERATIONS = 64,
    PSR_CALLS_KEPT = 64,
    /* CREDIT messages kept from one peer for operations that are not started here */
    PSR_CREDITS_KEPT = 4096,
    /* OFFER messages kept from one peer for messages that are not received here yet */
    PSR_OFFERS_KEPT = 4096,
    /* while this many messages wait to leave for a rank, nothing more is copied for it */
    PSR_COPIES_WAITING = 256,
};
#define PSR_MESSAGE_TAG_MAX (UINT32_MAX >> 1)
#define PSR_MESSAGE_TAG_ANY UINT32_MAX /* for a receive and a probe, as PSR_RANK_ANY */

typedef struct psr_group psr_group;
typedef struct psr_request psr_request;

typedef struct psr_group_options {
    uint32_t epoch, id; /* they are in the tags of its messages */
    uint32_t rank, ranks;
    const psr_peer *members; /* [ranks]; copied */
    /* the hosts that they are on, for the choice of an algorithm: see psr_rank_hosts. With one
     * host the other two are not read */
    uint32_t hosts, most_on_one, hops;
    /* most bytes of values in one message; a multiple of 8, at most PSR_PAYLOAD_BYTES_MAX */
    size_t slice_bytes;
    /* the same for operations of many bytes (comm/collectives/algorithm_choice.h); 0:
     * slice_bytes */
    size_t largest_slice_bytes;
    /* All ranks share memory, as every one of them knows. Then an all-reduce and a reduce-scatter
     * by ring have no hops (comm/collectives/algorithms/gathered.c). */
    bool shares_memory;
    uint32_t window; /* in slices, > 0 */
    /* Promises that every rank starts all its persistent all-reduces by ring before it waits for
     * the end of one. Then a rank injects without a CREDIT, and the lane's window holds for all
     * requests together. Otherwise a rank injects slices of a request once its right neighbour has
     * started it, and slices of requests that some rank may not have started never keep another
     * request waiting. */
    bool starts_all;
    size_t copied_bytes; /* payloads up to this size are copied, since a loan takes longer */
    psr_outbox outbox;
} psr_group_options;

/* USAGE: a member is listed twice. NOMEM. The caller owns *ret_group. */
PSR_MUST_CHECK psr_err psr_group_new(const psr_group_options *options, psr_group **ret_group);
/* After its requests have been freed. NULL allowed. */
void psr_group_free(psr_group *group);

/* How much the group keeps and searches in order to match messages with operations; for tests. */
typedef struct psr_group_load {
    /* requests under way; messages that came before their operation; offers */
    size_t requests, kept, offers;
    size_t keys;      /* keys by which something is found */
    uint64_t visited; /* entries that were looked at since the beginning */
} psr_group_load;
psr_group_load psr_group_load_of(const psr_group *group);

/* Writes " of the group of ranks 0, 2", or nothing for the group with id 0, which has all ranks. */
void psr_group_describe(const psr_group *group, char *text, size_t size);

/* Takes VALUES, CREDIT, AHEAD, LISTEN or OFFER with the group's epoch and id. Takes *message.
 * PROTOCOL: it cannot come now. MISMATCH. */
PSR_MUST_CHECK psr_err psr_group_message(psr_group *group, psr_message **message);
/* The member whose message made psr_group_message or psr_request_start fail. false: none did. */
bool psr_group_failed_of(const psr_group *group, psr_peer *ret_member);

/* The arguments of an operation. Pointers to values are borrowed as psr_request_start says, all
 * others for the call. */
typedef struct psr_request_options {
    psr_kind kind;
    psr_algorithm algorithm;
    psr_type type;
    /* for all-reduce, reduce, reduce-scatter, scans, and blocks that add */
    psr_reduction reduction;
    /* the function of a reduction from PSR_REDUCTION_OWN on; its context is borrowed as long as the
     * request exists */
    psr_own_fold own;
    uint32_t root; /* for reduce, broadcast, gather, scatter */
    /* Aligned for the type. In place: send is the part of receive that has this rank's values; for
     * all-to-all send == receive, and with counts both counts are the same. Broadcast: receive
     * only. NULL if this rank has no values there. */
    const void *send;
    void *receive;
    /* All-reduce, reduce, broadcast, a message: number of values of the whole. The others: of each
     * rank's part, unless counts are given. */
    size_t count;
    /* [ranks] Reduce-scatter, all-gather, gather, scatter: number of values of each rank's part.
     * All-to-all-v: of what comes from each rank. */
    const size_t *counts;
    const size_t *send_counts; /* [ranks] all-to-all-v: number of values that go to each rank */
    /* For a message. peer may be this rank; tag is at most PSR_MESSAGE_TAG_MAX. A receive and a
     * probe may have PSR_RANK_ANY and PSR_MESSAGE_TAG_ANY */
    uint32_t peer, tag;
    bool at_most; /* a receive takes count values or fewer */
    bool at_once; /* a probe ends whether there is a message or not */
    /* For a neighbour exchange. Our k-th block to a rank is its k-th block from us. Blocks that add
     * are added in the order of the list, after those that a rank sends to itself. */
    const psr_block *send_blocks, *receive_blocks;
    size_t send_block_count, receive_block_count;
    bool persistent; /* not for messages, which may be started again anyway */
    uint32_t slot;   /* of a persistent operation; no other has it. 0: the next number */
    /* the call of which this is a step, for lines; static text; NULL: it is a call by itself */
    const char *within;
    /* not counted in the numbers of calls in lines: the caller did not make it; it begins the
     * group */
    bool uncounted;
    void *owner; /* returned by psr_group_take_ended; borrowed */
    /* For all-reduces by ring. Of the requests of the group that wait to inject, the one with the
     * smallest priority goes first (comm/collectives/request_lane.h). */
    int32_t priority;
    /* How sums and means of float32 by ring are sent. A compression with a residual needs a
     * persistent request. Borrowed for the call; NULL: unchanged. */
    const psr_compression *compression;
    /* [count] the residual of what this rank has sent (comm/wire/compression/compression.h), zeros
     * at first, changed while the operation is under way. Borrowed for life. Not read if the
     * compression has none. */
    float *residual;
    /* Called if a value to be sent is not finite and the compression cannot represent that; makes
     * the error. NULL: the encoder's own line. */
    psr_err (*not_finite)(void *owner);
    size_t slice_values; /* values of a whole slice; 0: by the group's slice_bytes */
} psr_request_options;

/* Checks whether an operation with these options can be made. USAGE: there is no such rank,
 * algorithm, or reduction of that type; the counts are larger than any memory; what a rank sends
 * itself is not what it receives from itself. Any thread. */
PSR_MUST_CHECK psr_err psr_request_check(const psr_group *group,
                                         const psr_request_options *options);
/* Makes an operation and does not start it. Fails as psr_request_check, or NOMEM. The caller owns
 * *ret_request. */
PSR_MUST_CHECK psr_err psr_request_new(psr_group *group, const psr_request_options *options,
                                       psr_request **ret_request);
/* Starts an operation, for the first time or again, but not while it is under way. Its values are
 * borrowed until it is done and nothing is lent. */
PSR_MUST_CHECK psr_err psr_request_start(psr_request *request);
/* The same for a persistent operation, as the round of this number (else a round is one more than
 * the last) and on other values, send and receive as in the options. */
PSR_MUST_CHECK psr_err psr_request_start_round(psr_request *request, uint64_t round,
                                               const void *send, void *receive);
bool psr_request_done(const psr_request *request); /* also true before it is first started */
/* The rank that the operation waits for. Followed from rank to rank this leads to the one that
 * makes no progress. false: it is done. */
bool psr_request_waits(const psr_request *request, psr_waiting *ret_waiting);
/* A rank to which payloads are lent: a request that is done waits for it to give them back. false:
 * nothing is lent. */
bool psr_request_lent_to(const psr_request *request, psr_peer *ret_peer);
/* Whether it waits for any rank of the group, in which case psr_request_waits names none. */
bool psr_request_waits_for_any(const psr_request *request);
/* Whether the operation cannot be done without a further message of the member of that number among
 * all ranks: values that have not come, or the credit for values that this rank still has to
 * send. */
bool psr_request_lacks(const psr_request *request, uint32_t name);
/* Of a receive or a probe that is done: whose message it is, with its tag, number of values and
 * type. false: the probe found none. */
bool psr_request_came(const psr_request *request, uint32_t *ret_from, uint32_t *ret_tag,
                      uint64_t *ret_count, psr_type *ret_type);
/* The number of payloads that are still lent to the transport. Any thread. */
uint32_t psr_request_lent(const psr_request *request);
/* The call that the options describe, with the algorithm that was chosen. Borrowed from request. */
const psr_call *psr_request_call(const psr_request *request);
/* Call it when the request is done or its group is broken, and nothing is lent. NULL allowed. */
void psr_request_free(psr_request *request);

/* ---- */

/* The owner of a request that has ended well; each end is returned once. NULL: there are no
 * more. */
void *psr_group_take_ended(psr_group *group);

/* The request under way that began next after `before`; before NULL: the one that began first.
 * NULL: there is none. */
const psr_request *psr_group_next(const psr_group *group, const psr_request *before);
void *psr_request_owner(const psr_request *request); /* owner in its options */

#endif
