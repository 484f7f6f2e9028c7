/* What coordinator.c (who lives, verdicts), coordinator_join.c (until all may begin), coordinator_findings.c (who waits for whom in vain) and
 * coordinator_shrink.c (groups of the living) share. For those alone. */
#ifndef PSR_COMM_NODE_COORDINATOR_PRIVATE_H
#define PSR_COMM_NODE_COORDINATOR_PRIVATE_H

#include "base/clock.h"
#include "comm/node/coordinator.h"

enum {
    PSR_NODE_SEAT_LINE_BYTES = 1024, /* of one line that is told */
    PSR_NODE_SEAT_SAID_BYTES = 512,  /* of one that a rank says */
    PSR_NODE_SEAT_NAME_BYTES = PSR_HOST_MAX + 32,
    PSR_NODE_JUDGED_KEPT = 64, /* groups whose verdict can be said again */
};

typedef enum psr_node_seat_state {
    PSR_NODE_SEAT_EMPTY,
    PSR_NODE_SEAT_JOINED,
    PSR_NODE_SEAT_AGREES, /* has told its facts */
    PSR_NODE_SEAT_LEFT,
    PSR_NODE_SEAT_GIVEN_UP
} psr_node_seat_state;

/* All times are the presence clock's. */
typedef struct psr_node_seat {
    psr_node_seat_state state;
    psr_view_member entry;
    void *facts; /* owned */
    size_t facts_size;
    int64_t heard_ms;
    int64_t moved_ms; /* its counter, or whom it waits for, last changed */
    bool reported;
    psr_msg_progress progress;
    /* When it asked whom it waits for in vain, and it waits for that rank still, in that call; "". */
    char said[PSR_NODE_SEAT_SAID_BYTES];
    int64_t circle_ms; /* when it was last told to wait on for what others of a circle say */
    bool awaited_end;  /* given up after all had begun: its channel is cut when all are gone */
} psr_node_seat;

/* A group whose living ranks want one of their own. */
typedef struct psr_node_shrinking {
    struct psr_node_shrinking *next;
    uint32_t epoch, group, count;
    uint32_t *ranks;    /* owned, as the next two: [count], in the group's order */
    int64_t *since_ms;  /* present time of the rank's SHRINK; INT64_MIN: it has not said so */
    int64_t *within_ms; /* it waits for so long */
} psr_node_shrinking;

typedef struct psr_node_judged {
    psr_msg_failure verdict;
    char line[PSR_NODE_SEAT_LINE_BYTES];
} psr_node_judged;

struct psr_node_coordinator {
    psr_node_coordinator_options options;
    enum {
        PSR_NODE_COORDINATOR_JOINING,
        PSR_NODE_COORDINATOR_RUNNING,
        PSR_NODE_COORDINATOR_FAILED /* all have the verdict: they leave, or fall silent */
    } state;
    psr_node_seat *seats; /* [ranks] */
    uint32_t joined, agreeing;
    int64_t join_until_ms;
    psr_presence_clock presence;
    psr_err verdict;                     /* the first; PSR_OK: there is none that was not overcome */
    char line[PSR_NODE_SEAT_LINE_BYTES]; /* its line */
    psr_node_judged judged[PSR_NODE_JUDGED_KEPT];
    uint64_t judged_count; /* ever: the next is [judged_count % that] */
    uint32_t epoch;        /* the last that was given */
    psr_node_shrinking *shrinking;
};

/* ---- coordinator.c ---- */

/* What a rank's numbers are held against. A program's steps are its own. */
psr_msg_limits psr_node_seats_limits(const psr_node_coordinator *coordinator);
bool psr_node_seat_is_here(const psr_node_seat *seat);
/* "rank 2 on host7" */
void psr_node_seat_name(const psr_node_coordinator *coordinator, uint32_t rank,
                        char text[PSR_NODE_SEAT_NAME_BYTES]);
/* data may be NULL. Who cannot be told falls silent. */
void psr_node_seat_send(psr_node_coordinator *coordinator, uint32_t rank, psr_head head, const void *data,
                        size_t bytes);
/* The same to all who are here. */
void psr_node_seats_send(psr_node_coordinator *coordinator, psr_head head, const void *data, size_t bytes);
/* To all, and kept as why it failed where it is the first. */
void psr_node_seats_verdict(psr_node_coordinator *coordinator, const psr_msg_failure *verdict,
                            const char *line);
/* Everything has failed, and there is no going on. rank: to blame; PSR_RANK_ANY. */
void psr_node_seats_fail(psr_node_coordinator *coordinator, psr_err status, uint32_t rank, const char *line);
/* That rank is out, and hears so too, if it lives. */
void psr_node_seat_lose(psr_node_coordinator *coordinator, uint32_t rank, psr_err status, const char *line);

/* ---- coordinator_join.c ---- */

/* JOIN of anybody. What fails is a failure of joining itself. */
PSR_MUST_CHECK psr_err psr_node_joining_take(psr_node_coordinator *coordinator, const psr_message *message,
                                             int64_t present_ms);
/* FACTS of who is here, while joining; of the last one all begin. */
PSR_MUST_CHECK psr_err psr_node_joining_take_facts(psr_node_coordinator *coordinator, psr_node_seat *seat,
                                                   const psr_message *message);
/* Who has not come in time. */
void psr_node_joining_check(psr_node_coordinator *coordinator, int64_t present_ms);

/* ---- coordinator_findings.c ---- */

/* Where waiting for one another ends, from a rank on: at one that waits for nobody who is here, or for itself. ranks: in a circle. */
uint32_t psr_node_seat_end_of_waiting(const psr_node_coordinator *coordinator, uint32_t rank);
/* "rank 2 on host7: alive, but no progress for 1.0 s in step 3", or that it has left, or gives no sign of life. Returns the status
 * that goes with it. within_ms: the deadline of who waited. */
psr_err psr_node_seat_describe(const psr_node_coordinator *coordinator, uint32_t rank, int64_t within_ms,
                               int64_t present_ms, char line[PSR_NODE_SEAT_LINE_BYTES]);
/* FINDING of a rank that is here. PROTOCOL. */
PSR_MUST_CHECK psr_err psr_node_finding_take(psr_node_coordinator *coordinator, uint32_t rank,
                                             const psr_message *message, int64_t present_ms);
/* FAILED: its last words. */
void psr_node_finding_take_failed(psr_node_coordinator *coordinator, uint32_t rank,
                                  const psr_message *message);

/* ---- coordinator_shrink.c ---- */

/* SHRINK of a rank that is here. PROTOCOL, NOMEM. */
PSR_MUST_CHECK psr_err psr_node_shrinking_take(psr_node_coordinator *coordinator, uint32_t rank,
                                               const psr_message *message, int64_t present_ms);
/* That rank is no longer here: who waited for it alone goes on. */
void psr_node_shrinking_without(psr_node_coordinator *coordinator, uint32_t rank);
/* Whom a rank waits for that has said SHRINK. false: it has not. */
bool psr_node_shrinking_awaits(const psr_node_coordinator *coordinator, uint32_t rank, uint32_t *ret_rank);
/* Deadlines. Returns how long until the next; INT64_MAX: there is none. */
int64_t psr_node_shrinking_tick(psr_node_coordinator *coordinator, int64_t present_ms);
void psr_node_shrinking_free_all(psr_node_coordinator *coordinator);

#endif
