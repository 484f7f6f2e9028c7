/* What the head of each type of message says, by name. docs/wire.md has the same as tables.
 *
 * psr_msg_NAME_head makes a head and checks nothing. psr_msg_NAME_read takes apart the head of a
 * message whose type the caller has looked at; its ret is untouched on failure. PROTOCOL: a field
 * is beyond what it may be (the detail names it). A rank, an epoch, a step and a count of what
 * members tell the scheduler are held against what there is (psr_msg_limits): behind the function
 * that reads a message nobody sees one that was not. Of a bucket and its span psr_plan_find says
 * which slice it is, or that there is none (comm/view/plan.h). When a message is due is the
 * receiver's to check; the payload's size is checked by comm/wire/encoding.h. Types that are not
 * here (JOIN, FACTS, READY, METRICS, ..) have no fields. Plain data; any thread. */
#ifndef PSR_COMM_MESSAGES_H
#define PSR_COMM_MESSAGES_H

#include "base/span.h"
#include "net/message.h"

/* What exists in a run or a communicator. A message is refused if it names something whose number
 * is 0 here. */
typedef struct psr_msg_limits {
    uint32_t workers, shards; /* the ranks of each role are below it */
    uint32_t epoch;           /* the last one that was issued */
    uint32_t buckets;         /* a bucket is below it; bucket 0 also stands for none */
    uint64_t steps; /* number of steps of the run; a member is at one of them, or after the last */
    uint64_t samples; /* number of samples of an evaluation */
} psr_msg_limits;

/* The most milliseconds that a rank waits, so that times can be added to it. A longer wait is
 * reported as this. */
#define PSR_MSG_WITHIN_MS_MAX ((uint64_t)INT64_MAX / 4)

/* ---- parts of a bucket: floats of the parameter arena; a step counts from 0 ---- */

typedef struct psr_msg_init {
    uint32_t bucket;
    /* the run's first step; of a program's table, how often the slice has been pushed */
    uint64_t step;
    psr_span span;
    uint32_t section; /* 0: weights; 1 + i: array i of the optimizer's state */
} psr_msg_init;

typedef struct psr_msg_push {
    uint32_t bucket;
    uint64_t step;
    psr_span span;
    bool answer; /* the answer has the new weights (BSP) */
} psr_msg_push;

typedef struct psr_msg_pull {
    uint32_t bucket;
    uint64_t step; /* the step for which weights are wanted */
    psr_span span;
    uint64_t taken; /* how many answers the sender of the PULL has taken so far */
} psr_msg_pull;

/* Asks for what a program's table holds after the sender's pushes. */
typedef struct psr_msg_ask {
    uint32_t bucket;
    uint64_t step; /* how often the sender has pushed the slice */
    psr_span span;
    uint64_t taken;   /* see psr_msg_pull: answers to PULL and ASK */
    uint32_t section; /* see psr_msg_init */
} psr_msg_ask;

typedef struct psr_msg_weights {
    uint32_t bucket;
    uint64_t step; /* the step of the push that they answer, or of the pull */
    psr_span span;
    uint64_t staleness; /* in steps; BSP: 0 */
    uint64_t received;  /* how many pushes of the receiver have come so far: its credit */
} psr_msg_weights;

/* RING: a sum goes from host to host. */
typedef enum psr_ring_phase { PSR_RING_REDUCE, PSR_RING_GATHER, PSR_RING_PHASES } psr_ring_phase;

typedef struct psr_msg_ring {
    uint32_t bucket;
    uint64_t step;
    psr_span span;
    psr_ring_phase phase;
    uint32_t chunk, hop;
} psr_msg_ring;

/* NORM: of the gradient of a step (comm/tables/global_norm.h), or of a part of a bucket, which the
 * number of the bucket then stands for: the ends number these alike. */
typedef enum psr_norm_phase {
    PSR_NORM_PART,
    PSR_NORM_TOTAL,
    PSR_NORM_TENSOR,
    PSR_NORM_PHASES
} psr_norm_phase;

typedef struct psr_msg_norm {
    uint32_t bucket; /* of a total: 0; of a tensor: the number of the run */
    uint64_t step;
    psr_norm_phase phase;
    double value; /* the sum of squares of the bucket, or of all; on the wire its 64 bits */
} psr_msg_norm;

/* STATE: what one member hands to another when a view follows the one before
 * (comm/view/handover.h). */
typedef struct psr_msg_state {
    uint64_t step;  /* the view's first step */
    psr_span span;  /* in the arena; empty: the sender has begun the view */
    uint32_t array; /* 0: weights; 1 + i: array i of the optimizer's state */
} psr_msg_state;

/* The group of a run's all-reduces of buckets by ring, each of which is a persistent operation. The
 * tags of its messages are those of a bucket: slot bucket + 1, round the step. */
#define PSR_GROUP_OF_BUCKETS 1u

/* Whether it carries or asks for values of a bucket of a run. */
bool psr_msg_is_of_bucket(const psr_head *head);

/* The step in a head of one of these types, or of that group, unchecked: for fault points and
 * observers. In a message of another type it is the number of an operation, or 0. */
uint64_t psr_msg_step(const psr_head *head);

/* The bucket, in the same way. */
uint32_t psr_msg_bucket(const psr_head *head);

/* What tells it from other messages of its type, bucket and step between the same two processes, in
 * the same way: where it begins in the arena, of RING with its phase; of VALUES the number of the
 * slice. */
uint64_t psr_msg_part(const psr_head *head);

/* The floats of the arena that it speaks of, in the same way. */
psr_span psr_msg_span(const psr_head *head);

psr_head psr_msg_init_head(const psr_msg_init *init);
psr_head psr_msg_push_head(const psr_msg_push *push);
psr_head psr_msg_pull_head(const psr_msg_pull *pull);
psr_head psr_msg_ask_head(const psr_msg_ask *ask);
psr_head psr_msg_weights_head(const psr_msg_weights *weights);
psr_head psr_msg_ack_head(uint64_t received); /* received: see psr_msg_weights */
psr_head psr_msg_ring_head(const psr_msg_ring *ring);
psr_head psr_msg_norm_head(const psr_msg_norm *norm);
psr_head psr_msg_state_head(const psr_msg_state *state);
PSR_MUST_CHECK psr_err psr_msg_init_read(const psr_message *message, psr_msg_init *ret_init);
PSR_MUST_CHECK psr_err psr_msg_push_read(const psr_message *message, psr_msg_push *ret_push);
PSR_MUST_CHECK psr_err psr_msg_pull_read(const psr_message *message, psr_msg_pull *ret_pull);
PSR_MUST_CHECK psr_err psr_msg_ask_read(const psr_message *message, psr_msg_ask *ret_ask);
PSR_MUST_CHECK psr_err psr_msg_weights_read(const psr_message *message,
                                            psr_msg_weights *ret_weights);
PSR_MUST_CHECK psr_err psr_msg_ack_read(const psr_message *message, uint64_t *ret_received);
PSR_MUST_CHECK psr_err psr_msg_ring_read(const psr_message *message, psr_msg_ring *ret_ring);
PSR_MUST_CHECK psr_err psr_msg_norm_read(const psr_message *message, psr_msg_norm *ret_norm);
PSR_MUST_CHECK psr_err psr_msg_state_read(const psr_message *message, psr_msg_state *ret_state);

/* The head with another epoch. */
psr_head psr_msg_in_epoch(psr_head head, uint32_t epoch);
/* Makes the head that of a group's table (comm/node/node_table.h): its tag gives group and
 * epoch. */
psr_head psr_msg_in_group(psr_head head, uint32_t epoch, uint32_t group);
/* Makes the message one of the run's table. PROTOCOL: it has another epoch. */
PSR_MUST_CHECK psr_err psr_msg_out_of_group(psr_message *message, uint32_t epoch);

/* ---- operations of a group (comm/collectives/group.h) ---- */

/* What two ranks of an operation must agree on (comm/collectives/call.h has it in words). */
typedef struct psr_msg_call {
    uint64_t word; /* kind, algorithm, type, reduction */
    uint32_t root;
    uint64_t count; /* for a barrier in the order of calls: a digest of all calls before it */
} psr_msg_call;

/* VALUES: a slice of what one rank sends to another in one operation. */
typedef struct psr_msg_values {
    psr_tag tag;
    psr_msg_call call; /* the sender's call */
    /* number of values that the receiver gets from the sender in the whole operation */
    uint64_t total;
    /* number of slices before this one, from the sender to the receiver in this operation */
    uint64_t slice;
    /* for a barrier: the call before it in the sender's order of calls; otherwise, or if there is
     * none, zero */
    psr_msg_call before;
} psr_msg_values;

/* CREDIT: the receiver of slices allows the sender more. */
typedef struct psr_msg_credit {
    psr_tag tag;
    psr_msg_call call; /* the receiver's call */
    /* how many slices of the operation the sender may have sent; more than before */
    uint64_t slices;
    /* for the first CREDIT of a message: the number of its offer, from 1, if it was offered;
     * otherwise 0 */
    uint64_t offer;
} psr_msg_credit;

/* OFFER: a rank has begun something that it sends to the receiver of this, and waits for a CREDIT.
 * For a message the round is 2^63 + the number of the offer. */
typedef struct psr_msg_offer {
    psr_tag tag;
    psr_msg_call call; /* the sender's call */
} psr_msg_offer;

/* AHEAD: a credit for whole operations in the group's order of calls (slot 0, round 0). */
typedef struct psr_msg_ahead {
    psr_tag tag;
    /* how many operations that send to the sender of this the receiver may have begun */
    uint64_t operations;
} psr_msg_ahead;

psr_head psr_msg_values_head(const psr_msg_values *values);
psr_head psr_msg_credit_head(const psr_msg_credit *credit);
psr_head psr_msg_ahead_head(const psr_msg_ahead *ahead);
/* LISTEN: a receiver of messages wants OFFERs from now on (slot 0, round 0). */
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
/* The number of either. */
uint64_t psr_msg_probe_number(const psr_message *message);

/* ---- member and scheduler ---- */

typedef struct psr_msg_progress {
    uint64_t step;
    uint32_t bucket;
    psr_phase phase;
    uint64_t counter; /* of the compute thread; it stays the same without progress */
    bool waits;
    psr_peer waits_for; /* if it waits; otherwise zero when it is read */
    bool evaluates;
    uint64_t counted; /* number of samples counted in the present evaluation */
} psr_msg_progress;

typedef struct psr_msg_done {
    uint64_t steps; /* completed */
    bool left_out; /* because it was told to stop, it left out the evaluation after the last step */
} psr_msg_done;

/* VIEW: what its head says of the payload (comm/view/view.h). */
typedef struct psr_msg_view {
    uint32_t epoch;
    uint64_t first_step;
} psr_msg_view;

typedef struct psr_msg_bound {
    uint32_t epoch;
    /* how long a worker's compute thread took no step because of the change; 0 for a shard */
    uint64_t pause_us;
} psr_msg_bound;

/* UNSEALED: as psr_unsealed (net/transport.h). */
typedef struct psr_msg_unsealed {
    psr_peer peer;
    uint16_t port; /* 0: it has not answered which */
    uint64_t waited_ms;
} psr_msg_unsealed;

/* CHECKPOINT and RESTORE: a piece of a checkpoint. */
typedef struct psr_msg_piece {
    uint64_t steps; /* the piece is of the state after so many steps */
    uint32_t section;
    psr_span span; /* floats of the section; offset + count does not overflow */
} psr_msg_piece;

/* CLOCK: asks for the scheduler's clock, by which all processes of a trace are shown. */
typedef struct psr_msg_clock {
    uint64_t number;  /* of the question, from 1 */
    uint64_t machine; /* a digest of the sender's machine (comm/trace/tracer.h); 0: not known */
} psr_msg_clock;

typedef struct psr_msg_clocked {
    uint64_t number;    /* of the CLOCK that it answers */
    int64_t stamp_ns;   /* the scheduler's psr_clock_ns */
    bool same_machine;  /* so the two clocks differ by what they have skipped alone */
    int64_t skipped_ns; /* the scheduler's psr_clock_skipped_ns */
} psr_msg_clocked;

/* How far the scheduler's clock is ahead of a member's: at one time by the member's clock. */
typedef struct psr_clock_reading {
    int64_t at_ns, offset_ns;
    uint64_t error_ns; /* the true offset lies within it; half of a round trip */
} psr_clock_reading;

/* TRACE: some of the events that a member has recorded (comm/trace/trace_event.h). */
typedef struct psr_msg_trace {
    uint64_t left;                /* events that come in later messages */
    uint64_t dropped;             /* events for which the recorder had no room */
    psr_clock_reading begin, end; /* before and after what was recorded */
} psr_msg_trace;

/* What a failure breaks. */
typedef enum psr_scope {
    PSR_SCOPE_GROUP, /* one group */
    PSR_SCOPE_RANK,  /* all groups that the rank is in */
    PSR_SCOPE_LOST,  /* all these groups, and the rank is out for good */
    PSR_SCOPE_ALL,   /* the communicator, for good */
    PSR_SCOPES
} psr_scope;

/* FINDING and VERDICT: how a communicator fails. */
typedef struct psr_msg_failure {
    /* PSR_OK in a VERDICT: nothing has failed, wait on. PSR_OK in a FINDING: the operation that its
     * last TIMEOUT was about has ended */
    psr_err status;
    psr_scope scope;
    uint32_t epoch, group; /* the group that it was found in; for PSR_SCOPE_GROUP only */
    uint32_t rank, other;  /* the rank to blame, for a MISMATCH both ranks; PSR_RANK_ANY: none */
    /* number of the operation in which it was found, as its finder counts; 0: none */
    uint64_t number;
    /* FINDING of a TIMEOUT: the call's deadline. VERDICT to wait on: for how long. Otherwise 0 */
    uint64_t within_ms;
} psr_msg_failure;

psr_head psr_msg_finding_head(const psr_msg_failure *failure);
psr_head psr_msg_verdict_head(const psr_msg_failure *failure);
/* Reads either. */
PSR_MUST_CHECK psr_err psr_msg_failure_read(const psr_message *message,
                                            const psr_msg_limits *limits,
                                            psr_msg_failure *ret_failure);

/* SHRINK: a rank waits for a new group of the living ranks of this group. */
typedef struct psr_msg_shrink {
    uint32_t epoch, group;
    uint64_t within_ms; /* for how long it waits if nothing moves */
} psr_msg_shrink;

/* SHRUNK: the answer. */
typedef struct psr_msg_shrunk {
    uint32_t epoch, group; /* the group that was asked for */
    psr_err status;        /* why it failed; PSR_OK: it did not */
    uint32_t rank;         /* if it failed: the rank to blame, or PSR_RANK_ANY */
    uint32_t new_epoch;    /* if it did not fail: the epoch of the new group, whose id is 0 */
} psr_msg_shrunk;

psr_head psr_msg_shrink_head(const psr_msg_shrink *shrink);
psr_head psr_msg_shrunk_head(const psr_msg_shrunk *shrunk);
PSR_MUST_CHECK psr_err psr_msg_shrink_read(const psr_message *message, const psr_msg_limits *limits,
                                           psr_msg_shrink *ret_shrink);
PSR_MUST_CHECK psr_err psr_msg_shrunk_read(const psr_message *message, const psr_msg_limits *limits,
                                           psr_msg_shrunk *ret_shrunk);

/* The payload of both: ranks, four bytes each, the lowest first. bytes[4 * count]. */
void psr_msg_rank_list_write(const uint32_t *ranks, uint32_t count, uint8_t *ret_bytes);
/* PROTOCOL: the list is empty or incomplete, or a rank is not below limit or is listed twice.
 * NOMEM. The caller owns *ret_ranks: free(). */
PSR_MUST_CHECK psr_err psr_msg_rank_list_read(const psr_message *message, uint32_t limit,
                                              uint32_t **ret_ranks, uint32_t *ret_count);

/* LEFT: a rank has left in order. */
typedef struct psr_msg_left {
    uint32_t rank;
    uint64_t messages; /* that it has sent to the receiver: it will have no more */
} psr_msg_left;

psr_head psr_msg_left_head(const psr_msg_left *left);
PSR_MUST_CHECK psr_err psr_msg_left_read(const psr_message *message, const psr_msg_limits *limits,
                                         psr_msg_left *ret_left);

/* The payload of a program's DONE: how many messages the rank has sent to which others. An entry
 * for each to which it has sent any: rank, in four bytes, messages, in eight, the lowest first. */
#define PSR_MSG_SENT_BYTES 12
/* sent: [ranks]. bytes[PSR_MSG_SENT_BYTES * ranks]. Returns how many bytes it has written. */
size_t psr_msg_sent_write(const uint64_t *sent, uint32_t ranks, uint8_t *ret_bytes);
/* PROTOCOL: an entry is incomplete, there are more than ranks, or one is of no rank. */
PSR_MUST_CHECK psr_err psr_msg_sent_check(const psr_message *message, uint32_t ranks);
/* Of a payload that was checked: how many messages it has sent to that rank. */
uint64_t psr_msg_sent_to(const void *bytes, size_t size, uint32_t rank);

psr_head psr_msg_progress_head(const psr_msg_progress *progress);
psr_head psr_msg_done_head(const psr_msg_done *done);
psr_head psr_msg_checkpoint_head(const psr_msg_piece *piece);
psr_head psr_msg_restore_head(const psr_msg_piece *piece);
psr_head psr_msg_alive_head(bool report_wanted); /* the receiver shall send a PROGRESS at once */
psr_head psr_msg_held_head(uint64_t step);       /* step: the last one begun */
psr_head psr_msg_hold_head(bool change);         /* for a change of mode; otherwise for a stop */
psr_head psr_msg_stop_at_head(uint64_t step);    /* step: the last one to take */
psr_head psr_msg_saved_head(uint64_t steps); /* the checkpoint after so many steps is complete */
psr_head psr_msg_failed_head(psr_err status);
psr_head psr_msg_view_head(const psr_msg_view *view);
psr_head psr_msg_bound_head(const psr_msg_bound *bound);
psr_head psr_msg_unsealed_head(const psr_msg_unsealed *unsealed);
/* A worker or shard that there is; a time of at most PSR_MSG_WITHIN_MS_MAX. */
PSR_MUST_CHECK psr_err psr_msg_unsealed_read(const psr_message *message,
                                             const psr_msg_limits *limits,
                                             psr_msg_unsealed *ret_unsealed);
psr_head psr_msg_clock_head(const psr_msg_clock *clock);
psr_head psr_msg_clocked_head(const psr_msg_clocked *clocked);
psr_head psr_msg_trace_head(const psr_msg_trace *trace);
PSR_MUST_CHECK psr_err psr_msg_clock_read(const psr_message *message, psr_msg_clock *ret_clock);
PSR_MUST_CHECK psr_err psr_msg_clocked_read(const psr_message *message,
                                            psr_msg_clocked *ret_clocked);
/* Stamps, offsets and errors beyond PSR_TRACE_NS_MAX are refused, so that they can be added. */
#define PSR_TRACE_NS_MAX (INT64_MAX / 8)
PSR_MUST_CHECK psr_err psr_msg_trace_read(const psr_message *message, psr_msg_trace *ret_trace);
PSR_MUST_CHECK psr_err psr_msg_view_read(const psr_message *message, psr_msg_view *ret_view);
/* BOUND of an epoch that was issued; a pause of at most PSR_MSG_WITHIN_MS_MAX microseconds. */
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
/* A set of ranks as a payload: bit r % 8 of byte r / 8. Ranks beyond its end are not in it. */
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

/* The status in FAILED. A number that is no status counts as PEER: the line that comes with it
 * matters. */
psr_err psr_msg_failed_status(const psr_message *message);

#endif
