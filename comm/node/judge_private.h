/* What judge.c (verdicts, ranks that leave), judge_findings.c (ranks that wait in vain) and
 * judge_shrink.c (groups of the living) share. No other file includes it. */
#ifndef PSR_COMM_NODE_JUDGE_PRIVATE_H
#define PSR_COMM_NODE_JUDGE_PRIVATE_H

#include "comm/node/judge.h"

enum {
    PSR_JUDGE_SAID_BYTES = 512, /* most bytes of a line that a rank sends */
    PSR_JUDGED_KEPT = 64,       /* groups whose verdict can be repeated */
};

/* What is known of a rank besides its seat. */
typedef struct psr_judge_rank {
    void *facts; /* owned; kept until all have sent theirs */
    size_t facts_size;
    /* The line with which it asked, while it waits for the same rank in the same call; otherwise
     * "". */
    char said[PSR_JUDGE_SAID_BYTES];
    /* It has left in order: with the list of messages that it has sent (psr_msg_sent_write). */
    bool left;
    uint8_t *sent; /* owned; NULL: it has sent none */
    size_t sent_bytes;
    uint32_t told_of;  /* the rank of the last LEFT that it was sent; PSR_RANK_ANY: none */
    int64_t circle_ms; /* when it was last told to wait on for the lines of others in its circle */
} psr_judge_rank;

/* A group whose living ranks want a new group of themselves. */
typedef struct psr_shrinking {
    struct psr_shrinking *next;
    uint32_t epoch, group, count;
    uint32_t *ranks;    /* owned, as the next two: [count], in the group's order */
    int64_t *since_ms;  /* present time of the rank's SHRINK; INT64_MIN: it has not sent one */
    int64_t *within_ms; /* the deadline of its wait */
} psr_shrinking;

typedef struct psr_judged {
    psr_msg_failure verdict;
    char line[PSR_COORDINATOR_LINE_MAX];
} psr_judged;

/* All times are present times: comm/members/liveness.h. */
struct psr_judge {
    psr_judge_options options;
    psr_coordinator *coordinator;
    psr_liveness *liveness; /* the coordinator's */
    psr_judge_rank *ranks;  /* [options.ranks] */
    int64_t present_ms;     /* of the message that is being taken */
    psr_err verdict;        /* the first failure that was not overcome; PSR_OK: there is none */
    char line[PSR_COORDINATOR_LINE_MAX];
    psr_judged judged[PSR_JUDGED_KEPT];
    uint64_t judged_count; /* of all time; the next one is at [judged_count % PSR_JUDGED_KEPT] */
    uint32_t epoch;        /* the last one that was given */
    psr_shrinking *shrinking;
};

/* ---- judge.c ---- */

static inline psr_peer psr_judge_peer(uint32_t rank)
{
    return (psr_peer){PSR_ROLE_WORKER, rank};
}
bool psr_judge_is_here(const psr_judge *judge, uint32_t rank);
/* data may be NULL. A rank that cannot be told will fall silent. */
void psr_judge_send(psr_judge *judge, uint32_t rank, psr_head head, const void *data, size_t bytes);
/* Sends the verdict to all. The first verdict is kept as the judge's. */
void psr_judge_tell(psr_judge *judge, const psr_msg_failure *verdict, const char *line);
/* The rank is out; it is told so too, in case it lives. */
void psr_judge_drop(psr_judge *judge, uint32_t rank, psr_err status, const char *line);

/* ---- judge_findings.c ---- */

/* "rank 2 on host7: alive, but no progress for 1.0 s in step 3", or that the rank has left, or
 * gives no sign of life. Returns the status that fits. within_ms: the deadline of the rank that
 * waited. */
psr_err psr_judge_describe(const psr_judge *judge, const psr_watched *rank, int64_t within_ms,
                           char line[PSR_COORDINATOR_LINE_MAX]);
/* Takes the FINDING of a rank that is here. PROTOCOL. */
PSR_MUST_CHECK psr_err psr_judge_take_finding(psr_judge *judge, uint32_t rank,
                                              const psr_message *message);

/* ---- judge_shrink.c ---- */

/* Takes the SHRINK of a rank that is here. PROTOCOL, NOMEM. */
PSR_MUST_CHECK psr_err psr_shrinking_take(psr_judge *judge, uint32_t rank,
                                          const psr_message *message);
/* The rank is no longer here: groups that waited for it alone go on. */
void psr_shrinking_without(psr_judge *judge, uint32_t rank);
/* The rank that a rank waits for after it has sent SHRINK; context: the judge. false: it has not
 * sent one. */
bool psr_shrinking_awaits(void *context, psr_peer rank, psr_peer *ret_peer);
/* Looks at the deadlines. Returns the present time of the next; INT64_MAX: there is none. */
int64_t psr_shrinking_tick(psr_judge *judge);
void psr_shrinking_free_all(psr_judge *judge);

#endif
