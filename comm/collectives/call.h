/* A call of an operation: the arguments on which all ranks of a group must agree, and names for
 * lines. Any thread; no state. */
#ifndef PSR_COMM_COLLECTIVES_CALL_H
#define PSR_COMM_COLLECTIVES_CALL_H

#include "comm/reduce.h"
#include "comm/wire/compression/compression.h"
#include "comm/wire/messages.h"

typedef enum psr_kind {
    PSR_KIND_ALL_REDUCE,
    PSR_KIND_REDUCE,
    PSR_KIND_REDUCE_SCATTER,
    PSR_KIND_ALL_GATHER,
    PSR_KIND_BROADCAST,
    PSR_KIND_GATHER,
    PSR_KIND_SCATTER,
    PSR_KIND_ALL_TO_ALL,
    PSR_KIND_ALL_TO_ALL_V, /* with different counts */
    PSR_KIND_BARRIER,
    PSR_KIND_NEIGHBORS, /* neighbour exchange */
    PSR_KIND_SEND,      /* a message from one rank to another */
    PSR_KIND_RECEIVE,
    PSR_KIND_HALO, /* a neighbour exchange, under the name that the caller knows */
    /* an all-gather of colours and keys, under the name that the caller knows; the next two are
     * all-gathers of what each rank says of a table */
    PSR_KIND_GROUP_SPLIT,
    PSR_KIND_TABLE_OPEN,
    PSR_KIND_TABLE_CLOSE,
    PSR_KIND_SCAN,   /* on each rank the fold of ranks 0 .. its own */
    PSR_KIND_EXSCAN, /* the same without its own */
    PSR_KIND_PROBE,  /* of a message that is not received */
    /* more all-gathers of what each rank says of a table */
    PSR_KIND_TABLE_READ,
    PSR_KIND_TABLE_WRITE,
    PSR_KIND_TABLE_SET,
} psr_kind;
#define PSR_KINDS (PSR_KIND_TABLE_SET + 1)

/* Each has a file in comm/collectives/algorithms/, whose head says what it costs. */
typedef enum psr_algorithm {
    PSR_ALGORITHM_AUTO, /* by comm/collectives/algorithm_choice.h */
    PSR_ALGORITHM_RING,
    PSR_ALGORITHM_DIRECT,
    PSR_ALGORITHM_DOUBLING,
    PSR_ALGORITHM_HALVING,
    PSR_ALGORITHM_BINOMIAL,
    PSR_ALGORITHM_CHAIN,
    PSR_ALGORITHM_BRUCK,
    PSR_ALGORITHM_DISSEMINATION,
    PSR_ALGORITHM_ROOT,
} psr_algorithm;
#define PSR_ALGORITHMS (PSR_ALGORITHM_ROOT + 1)

const char *psr_kind_name(psr_kind kind);                /* "all_reduce", ..; "?" */
const char *psr_algorithm_name(psr_algorithm algorithm); /* "ring", ..; "?" */

typedef struct psr_call {
    psr_kind kind;
    psr_algorithm algorithm;
    psr_type type;
    psr_reduction reduction; /* for kinds that fold */
    uint32_t root;           /* for kinds that have a root */
    /* The counts differ between ranks, and count is a digest of them all. For a receive: at most
     * count values */
    bool varying;
    /* The number of values of a rank's part (all-reduce, reduce, scan, exscan, broadcast: of the
     * whole). */
    uint64_t count;
    psr_compression compression; /* of what is sent; with encoding 0 there is none */
} psr_call;

bool psr_kind_folds(psr_kind kind);
bool psr_kind_is_message(psr_kind kind); /* send, receive, probe */
bool psr_kind_scans(psr_kind kind);      /* scan, exscan */
bool psr_kind_has_blocks(psr_kind kind); /* neighbour exchange, halo */
/* An all-gather of the library's own words, under the name that the caller knows. */
bool psr_kind_gathers_words(psr_kind kind);
bool psr_kind_has_root(psr_kind kind);

/* The call as the heads of messages have it. */
psr_msg_call psr_call_message(const psr_call *call);
/* Writes "all_reduce(count 10, float32, sum, ring)", "barrier". The call may come from anywhere and
 * need not be valid. receives: the call is that of the receiver of a message between two ranks. */
void psr_call_describe(const psr_msg_call *call, bool receives, char *text, size_t size);
/* Whether its counts are given for each rank. */
bool psr_call_varies(const psr_msg_call *call);
psr_type psr_call_type(const psr_msg_call *call);
bool psr_call_same(const psr_msg_call *a, const psr_msg_call *b);
/* Whether a receive with the first call may take a message that was sent with the second. */
bool psr_call_fits(const psr_msg_call *receive, const psr_msg_call *send);
bool psr_call_is_barrier(const psr_msg_call *call);
/* A digest of counts that differ. */
uint64_t psr_call_digest(const size_t *counts, size_t count);
/* The digest of a call and all calls before it; before is the digest of those, 0 if there are
 * none. */
uint64_t psr_call_digest_on(uint64_t before, const psr_msg_call *call);

#endif
