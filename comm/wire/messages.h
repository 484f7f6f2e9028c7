/* What the head of each type of message says, by name. docs/wire.md has the same as tables.
 *
 * psr_msg_NAME_head makes a head and checks nothing. psr_msg_NAME_read takes apart the head of a
 * message whose type the caller has looked at; its ret is untouched on failure. PROTOCOL: a field
 * is beyond what it may be (the detail names it). A rank, an epoch, a step and a count of what
 * members tell the scheduler are held against what there is (psr_msg_limits): behind the function
 * that reads a message nobody sees one that was not. Of a bucket and its span psr_plan_find says
 * which slice it is, or that there is none (comm/plan.h). When a message is due is the receiver's
 * to check; the payload's size is checked by comm/wire/encoding.h.
 * Types that are not here (JOIN, FACTS, READY, METRICS, ..) have no fields. Plain data; any
 * thread. */
#ifndef PSR_COMM_MESSAGES_H
#define PSR_COMM_MESSAGES_H

#include "base/span.h"
#include "net/message.h"

/* What there is in a run or a communicator. What is 0 there is not: a message that speaks of it is
 * refused. */
typedef struct psr_msg_limits {
    uint32_t workers, shards; /* a rank of each role is below */
    uint32_t epoch;           /* the last that was given */
    uint32_t buckets;         /* a bucket is below; bucket 0 is also said where there is none */
    uint64_t steps;           /* that are taken in all: a member is at
                                 one of them, or behind the last */
    uint64_t samples;         /* of an evaluation */
} psr_msg_limits;

/* Milliseconds that a rank waits, at most: times can be added to it. Who waits for longer says so
 * much. */
#define PSR_MSG_WITHIN_MS_MAX ((uint64_t)INT64_MAX / 4)

/* ---- parts of a bucket: floats of the parameter arena; a step counts from 0 ---- */

typedef struct psr_msg_init {
    uint32_t bucket;
    uint64_t step; /* the run's first */
    psr_span span;
    uint32_t section; /* 0: weights; 1 + i: optimizer slot i */
} psr_msg_init;

typedef struct psr_msg_push {
    uint32_t bucket;
    uint64_t step;
    psr_span span;
    bool answer; /* with the new weights (BSP) */
} psr_msg_push;

typedef struct psr_msg_pull {
    uint32_t bucket;
    uint64_t step; /* for which weights are wanted */
    psr_span span;
    uint64_t taken; /* answers of the receiver so far */
} psr_msg_pull;

typedef struct psr_msg_weights {
    uint32_t bucket;
    uint64_t step; /* of the push that they answer, or of the pull */
    psr_span span;
    uint64_t staleness; /* in steps; BSP: 0 */
    uint64_t received;  /* pushes of the receiver so far: credit */
} psr_msg_weights;

typedef enum psr_ring_phase { PSR_RING_REDUCE, PSR_RING_GATHER, PSR_RING_PHASES } psr_ring_phase;

typedef struct psr_msg_ring {
    uint32_t bucket;
    uint64_t step;
    psr_span span;
    psr_ring_phase phase;
    uint32_t chunk, hop;
} psr_msg_ring;

/* What one member hands to another when a view follows the one before (comm/handover.h). */
typedef struct psr_msg_state {
    uint64_t step;  /* the view's first */
    psr_span span;  /* of the arena; empty: the sender has begun the view */
    uint32_t array; /* 0: weights; 1 + i: optimizer slot i */
} psr_msg_state;

/* The step that the head of one of those types speaks of: for fault points, which come before any
 * check. */
uint64_t psr_msg_step(const psr_head *head);

/* The bucket, likewise. */
uint32_t psr_msg_bucket(const psr_head *head);

/* And the floats, likewise. */
size_t psr_msg_count(const psr_head *head);

psr_head psr_msg_init_head(const psr_msg_init *init);
psr_head psr_msg_push_head(const psr_msg_push *push);
psr_head psr_msg_pull_head(const psr_msg_pull *pull);
psr_head psr_msg_weights_head(const psr_msg_weights *weights);
psr_head psr_msg_ack_head(uint64_t received); /* as in psr_msg_weights */
psr_head psr_msg_ring_head(const psr_msg_ring *ring);
psr_head psr_msg_state_head(const psr_msg_state *state);
PSR_MUST_CHECK psr_err psr_msg_init_read(const psr_message *message, psr_msg_init *ret_init);
PSR_MUST_CHECK psr_err psr_msg_push_read(const psr_message *message, psr_msg_push *ret_push);
PSR_MUST_CHECK psr_err psr_msg_pull_read(const psr_message *message, psr_msg_pull *ret_pull);
PSR_MUST_CHECK psr_err psr_msg_weights_read(const psr_message *message,
                                            psr_msg_weights *ret_weights);
PSR_MUST_CHECK psr_err psr_msg_ack_read(const psr_message *message, uint64_t *ret_received);
PSR_MUST_CHECK psr_err psr_msg_ring_read(const psr_message *message, psr_msg_ring *ret_ring);
PSR_MUST_CHECK psr_err psr_msg_state_read(const psr_message *message, psr_msg_state *ret_state);

/* The same of a table that is a group's (comm/node/node_table.h): its tag says of which group, in
 * which epoch. */
psr_head psr_msg_in_group(psr_head head, uint32_t epoch, uint32_t group);
/* The other way: the message becomes one of the run's table. PROTOCOL: it is of another epoch. */
PSR_MUST_CHECK psr_err psr_msg_out_of_group(psr_message *message, uint32_t epoch);

/* ---- operations of a group (comm/collectives/group.h) ---- */

/* What two ranks of an operation must agree on (comm/collectives/call.h has it in words). */
typedef struct psr_msg_call {
    uint64_t word; /* kind, algorithm, type, reduction */
    uint32_t root;
    uint64_t count; /* of a barrier in the order of calls: a digest of all calls before it */
} psr_msg_call;

/* A slice of what one rank sends another in one operation. */
typedef struct psr_msg_values {
    psr_tag tag;
    psr_msg_call call;   /* the sender's */
    uint64_t total;      /* values that the receiver gets from the sender in the whole operation */
    uint64_t slice;      /* slices before this one, from the sender
                            to the receiver in this operation */
    psr_msg_call before; /* of a barrier: the call before it in the sender's order
                            of calls; else, and where there is none, zero */
} psr_msg_values;

/* The receiver of slices lets the sender go on. */
typedef struct psr_msg_credit {
    psr_tag tag;
    psr_msg_call call; /* the receiver's */
    uint64_t slices;   /* of that operation, which may have been
                          sent to it: more than might before */
    uint64_t offer;    /* of a message, the first: its number,
                          from 1, where it was offered; else 0 */
} psr_msg_credit;

/* A rank has begun what it sends to the receiver of this, and waits to be let in. Of a message its
 * round is 2^63 + the number of the offer. */
typedef struct psr_msg_offer {
    psr_tag tag;
    psr_msg_call call; /* the sender's */
} psr_msg_offer;

/* The same for whole operations, of the group's order of calls (slot 0, round 0). */
typedef struct psr_msg_ahead {
    psr_tag tag;
    uint64_t operations; /* in which the sender sends to the receiver,
                            that it may have begun to send */
} psr_msg_ahead;

psr_head psr_msg_values_head(const psr_msg_values *values);
psr_head psr_msg_credit_head(const psr_msg_credit *credit);
psr_head psr_msg_ahead_head(const psr_msg_ahead *ahead);
/* The receiver of messages wants to be offered what is sent to it (slot 0, round 0). */
psr_head psr_msg_listen_head(uint32_t epoch, uint32_t group);
psr_head psr_msg_offer_head(const psr_msg_offer *offer);
PSR_MUST_CHECK psr_err psr_msg_offer_read(const psr_message *message, psr_msg_offer *ret_offer);
PSR_MUST_CHECK psr_err psr_msg_values_read(const psr_message *message, psr_msg_values *ret_values);
PSR_MUST_CHECK psr_err psr_msg_credit_read(const psr_message *message, psr_msg_credit *ret_credit);
PSR_MUST_CHECK psr_err psr_msg_ahead_read(const psr_message *message, psr_msg_ahead *ret_ahead);
/* The tag of any of them. */
psr_tag psr_msg_tag(const psr_message *message);

/* ---- probes of psring doctor ---- */

psr_head psr_msg_probe_head(uint64_t number);
psr_head psr_msg_probed_head(uint64_t number);
/* Of either. */
uint64_t psr_msg_probe_number(const psr_message *message);

/* ---- member and scheduler ---- */

typedef struct psr_msg_progress {
    uint64_t step;
    uint32_t bucket;
    psr_phase phase;
    uint64_t counter; /* of the compute thread: what makes no progress keeps it */
    bool waits;
    psr_peer waits_for; /* when it waits; else it is zero where it is read */
    bool evaluates;
    uint64_t counted; /* samples of the evaluation that goes on */
} psr_msg_progress;

typedef struct psr_msg_done {
    uint64_t steps; /* completed */
    bool left_out;  /* told to stop, it left out the evaluation after them */
} psr_msg_done;

/* VIEW: of what its payload has (comm/view.h). */
typedef struct psr_msg_view {
    uint32_t epoch;
    uint64_t first_step;
} psr_msg_view;

typedef struct psr_msg_bound {
    uint32_t epoch;
    uint64_t pause_us; /* that a worker's compute thread took no step for it; of a shard 0 */
} psr_msg_bound;

/* CHECKPOINT and RESTORE: a piece of a checkpoint. */
typedef struct psr_msg_piece {
    uint64_t steps; /* after which it is the state */
    uint32_t section;
    psr_span span; /* floats of the section; its end can be counted to */
} psr_msg_piece;

/* What a failure breaks. */
typedef enum psr_scope {
    PSR_SCOPE_GROUP, /* one group */
    PSR_SCOPE_RANK,  /* all groups that the rank is in */
    PSR_SCOPE_LOST,  /* those, and the rank is out for good */
    PSR_SCOPE_ALL,   /* the communicator, for good */
    PSR_SCOPES
} psr_scope;

/* FINDING and VERDICT: how a communicator fails. */
typedef struct psr_msg_failure {
    psr_err status; /* PSR_OK: VERDICT: it has not failed, wait on. FINDING:
                       what the last one of a TIMEOUT was about has ended */
    psr_scope scope;
    uint32_t epoch, group; /* that it was found in; of PSR_SCOPE_GROUP alone */
    uint32_t rank, other;  /* to blame; of a MISMATCH both. PSR_RANK_ANY: nobody */
    uint64_t number;       /* of the operation in which it was found,
                              as its finder counts; 0: in none */
    uint64_t within_ms;    /* FINDING of a TIMEOUT: the call's deadline.
                              VERDICT to wait on: for how long. Else 0 */
} psr_msg_failure;

psr_head psr_msg_finding_head(const psr_msg_failure *failure);
psr_head psr_msg_verdict_head(const psr_msg_failure *failure);
/* Of either. */
PSR_MUST_CHECK psr_err psr_msg_failure_read(const psr_message *message,
                                            const psr_msg_limits *limits,
                                            psr_msg_failure *ret_failure);

/* SHRINK: a rank waits for a group of those of this group's ranks that live. */
typedef struct psr_msg_shrink {
    uint32_t epoch, group;
    uint64_t within_ms; /* it waits for so long where nothing moves */
} psr_msg_shrink;

/* SHRUNK: the answer. */
typedef struct psr_msg_shrunk {
    uint32_t epoch, group; /* that were asked for */
    psr_err status;        /* else PSR_OK: why it failed */
    uint32_t rank;         /* then: to blame, or PSR_RANK_ANY */
    uint32_t new_epoch;    /* PSR_OK: of the new group, whose id is 0 */
} psr_msg_shrunk;

psr_head psr_msg_shrink_head(const psr_msg_shrink *shrink);
psr_head psr_msg_shrunk_head(const psr_msg_shrunk *shrunk);
PSR_MUST_CHECK psr_err psr_msg_shrink_read(const psr_message *message, const psr_msg_limits *limits,
                                           psr_msg_shrink *ret_shrink);
PSR_MUST_CHECK psr_err psr_msg_shrunk_read(const psr_message *message, const psr_msg_limits *limits,
                                           psr_msg_shrunk *ret_shrunk);

/* The payload of both: ranks, four bytes each, the lowest first. bytes[4 * count]. */
void psr_msg_rank_list_write(const uint32_t *ranks, uint32_t count, uint8_t *ret_bytes);
/* PROTOCOL: none, not whole, one is not below limit, or stands there twice. NOMEM. ret owns:
 * free(). */
PSR_MUST_CHECK psr_err psr_msg_rank_list_read(const psr_message *message, uint32_t limit,
                                              uint32_t **ret_ranks, uint32_t *ret_count);

psr_head psr_msg_progress_head(const psr_msg_progress *progress);
psr_head psr_msg_done_head(const psr_msg_done *done);
psr_head psr_msg_checkpoint_head(const psr_msg_piece *piece);
psr_head psr_msg_restore_head(const psr_msg_piece *piece);
psr_head psr_msg_alive_head(bool report_wanted); /* a PROGRESS, at once */
psr_head psr_msg_held_head(uint64_t step);       /* the last one begun */
psr_head psr_msg_hold_head(bool change);         /* for a change of mode; else for a stop */
psr_head psr_msg_stop_at_head(uint64_t step);    /* the last one to take */
psr_head psr_msg_saved_head(uint64_t steps);     /* after which the checkpoint
                                                    is that is in place */
psr_head psr_msg_failed_head(psr_err status);
psr_head psr_msg_view_head(const psr_msg_view *view);
psr_head psr_msg_bound_head(const psr_msg_bound *bound);
PSR_MUST_CHECK psr_err psr_msg_view_read(const psr_message *message, psr_msg_view *ret_view);
/* Of an epoch that was given; a pause of at most PSR_MSG_WITHIN_MS_MAX microseconds. */
PSR_MUST_CHECK psr_err psr_msg_bound_read(const psr_message *message, const psr_msg_limits *limits,
                                          psr_msg_bound *ret_bound);
PSR_MUST_CHECK psr_err psr_msg_progress_read(const psr_message *message,
                                             const psr_msg_limits *limits,
                                             psr_msg_progress *ret_progress);
PSR_MUST_CHECK psr_err psr_msg_done_read(const psr_message *message, const psr_msg_limits *limits,
                                         psr_msg_done *ret_done);
PSR_MUST_CHECK psr_err psr_msg_piece_read(const psr_message *message, psr_msg_piece *ret_piece);
PSR_MUST_CHECK psr_err psr_msg_alive_read(const psr_message *message, bool *ret_report_wanted);
PSR_MUST_CHECK psr_err psr_msg_held_read(const psr_message *message, const psr_msg_limits *limits,
                                         uint64_t *ret_step);
PSR_MUST_CHECK psr_err psr_msg_hold_read(const psr_message *message, bool *ret_change);
PSR_MUST_CHECK psr_err psr_msg_stop_at_read(const psr_message *message, uint64_t *ret_step);
PSR_MUST_CHECK psr_err psr_msg_saved_read(const psr_message *message, uint64_t *ret_steps);
/* A set of ranks as a payload: bit r % 8 of byte r / 8. What is beyond its end is not in it. */
static inline size_t psr_msg_ranks_bytes(uint32_t ranks)
{
    return ((size_t)ranks + 7) / 8;
}

static inline void psr_msg_ranks_add(uint8_t *set, uint32_t rank)
{
    set[rank / 8] |= (uint8_t)(1u << rank % 8);
}

static inline bool psr_msg_ranks_has(const void *set, size_t bytes, uint32_t rank)
{
    return rank / 8 < bytes && (((const uint8_t *)set)[rank / 8] >> rank % 8 & 1) != 0;
}

/* What FAILED says a process failed with; a status that is none is PEER: the line that comes with
 * it counts. */
psr_err psr_msg_failed_status(const psr_message *message);

#endif
