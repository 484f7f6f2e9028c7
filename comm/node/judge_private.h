/* What judge.c (verdicts, who leaves), judge_findings.c (who waits for whom in vain) and
 * judge_shrink.c (groups of the living) share. For those alone. */
#ifndef PSR_COMM_NODE_JUDGE_PRIVATE_H
#define PSR_COMM_NODE_JUDGE_PRIVATE_H

#include "comm/node/judge.h"

enum {
    PSR_JUDGE_SAID_BYTES = 512, /* of a line that a rank says */
    PSR_JUDGED_KEPT = 64,       /* groups whose verdict can be said again */
};

/* What is known of a rank beside its seat. */
typedef struct psr_judge_rank {
    void *facts; /* owned; until all have told theirs */
    size_t facts_size;
    /* When it asked whom it waits for in vain, and it waits for that rank still, in that call;
     * "". */
    char said[PSR_JUDGE_SAID_BYTES];
    int64_t circle_ms; /* when it was last told to wait on for what others of a circle say */
} psr_judge_rank;

/* A group whose living ranks want one of their own. */
typedef struct psr_shrinking {
    struct psr_shrinking *next;
    uint32_t epoch, group, count;
    uint32_t *ranks;    /* owned, as the next two: [count], in the group's order */
    int64_t *since_ms;  /* present time of the rank's SHRINK; INT64_MIN: it has not said so */
    int64_t *within_ms; /* it waits for so long */
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
    psr_err verdict;        /* the first; PSR_OK: there is none that was not overcome */
    char line[PSR_COORDINATOR_LINE_MAX];
    psr_judged judged[PSR_JUDGED_KEPT];
    uint64_t judged_count; /* ever: the next is [judged_count % that] */
    uint32_t epoch;        /* the last that was given */
    psr_shrinking *shrinking;
};

/* ---- judge.c ---- */

static inline psr_peer psr_judge_peer(uint32_t rank)
{
    return (psr_peer){PSR_ROLE_WORKER, rank};
}
bool psr_judge_is_here(const psr_judge *judge, uint32_t rank);
/* data may be NULL. Who cannot be told falls silent. */
void psr_judge_send(psr_judge *judge, uint32_t rank, psr_head head, const void *data, size_t bytes);
/* To all, and kept as why it failed where it is the first. */
void psr_judge_tell(psr_judge *judge, const psr_msg_failure *verdict, const char *line);
/* That rank is out, and hears so too, if it lives. */
void psr_judge_drop(psr_judge *judge, uint32_t rank, psr_err status, const char *line);

/* ---- judge_findings.c ---- */

/* "rank 2 on host7: alive, but no progress for 1.0 s in step 3", or that it has left, or gives no
 * sign of life. Returns the status that goes with it. within_ms: the deadline of who waited. */
psr_err psr_judge_describe(const psr_judge *judge, const psr_watched *rank, int64_t within_ms,
                           char line[PSR_COORDINATOR_LINE_MAX]);
/* FINDING of a rank that is here. PROTOCOL. */
PSR_MUST_CHECK psr_err psr_judge_take_finding(psr_judge *judge, uint32_t rank,
                                              const psr_message *message);

/* ---- judge_shrink.c ---- */

/* SHRINK of a rank that is here. PROTOCOL, NOMEM. */
PSR_MUST_CHECK psr_err psr_shrinking_take(psr_judge *judge, uint32_t rank,
                                          const psr_message *message);
/* That rank is no longer here: who waited for it alone goes on. */
void psr_shrinking_without(psr_judge *judge, uint32_t rank);
/* Whom a rank waits for that has said SHRINK; context: the judge. false: it has not. */
bool psr_shrinking_awaits(void *context, psr_peer rank, psr_peer *ret_peer);
/* Deadlines. Returns the present time of the next; INT64_MAX: there is none. */
int64_t psr_shrinking_tick(psr_judge *judge);
void psr_shrinking_free_all(psr_judge *judge);

#endif
