/* What a group (group.c: whose message it is) and its operations (request.c: what it does) share.
 * For those two only. */
#ifndef PSR_COMM_COLLECTIVES_GROUP_PRIVATE_H
#define PSR_COMM_COLLECTIVES_GROUP_PRIVATE_H

#include "comm/collectives/group.h"
#include "comm/collectives/matching.h"
#include "comm/collectives/request_index.h"
#include "comm/collectives/request_lane.h"
#include "comm/collectives/schedule.h"
#include "comm/operations/early.h"
#include "comm/operations/loan.h"

/* What is kept of messages that come before what they are of. */
enum { PSR_KEPT_VALUES, PSR_KEPT_CREDITS, PSR_KEPT_OFFERS, PSR_KEPT };
typedef struct psr_kept psr_kept;

/* Streams of one peer that wait for something, the oldest first. */
typedef struct psr_stream_list {
    psr_stream *first, *last;
} psr_stream_list;

/* What encodes for all requests of one compression: one at a time, and from the beginning of a unit
 * to its end. */
typedef struct psr_group_encoder {
    struct psr_group_encoder *next;
    psr_compression compression;
    size_t count_max; /* values of a unit */
    psr_encoder *encoder;
} psr_group_encoder;

/* What goes on between this rank and another one. */
typedef struct psr_group_peer {
    psr_peer name;
    uint64_t sent_operations;    /* of the order of calls, in which this rank sends to it */
    uint64_t allowed_operations; /* of those, that may have begun to be sent */
    psr_request *held;           /* under way, the first that may not; NULL: there is none */
    uint64_t heard_operations;   /* of the order of calls, started here,
                                    in which it sends to this rank */
    uint32_t kept[PSR_KEPT];     /* messages */
    /* Of persistent operations and messages (comm/collectives/matching.h): */
    bool listens;               /* this rank has said LISTEN to it */
    bool listened;              /* it has said LISTEN to this rank */
    uint32_t told;              /* streams that may come, of what it has not shown to have begun */
    uint32_t offered;           /* streams that were offered to it, and that it has not answered */
    uint64_t offers;            /* of messages, ever */
    psr_stream_list untold;     /* streams from it: told is at its most */
    psr_stream_list uncredited; /* streams to it, without credit, not offered */
} psr_group_peer;

struct psr_group {
    psr_group_options options;
    psr_group_peer *peers;                   /* [ranks] */
    uint32_t *by_name;                       /* ranks, sorted by name */
    uint64_t calls;                          /* of the order, started */
    uint64_t uncounted;                      /* of those, at its beginning */
    psr_msg_call kept_calls[PSR_CALLS_KEPT]; /* [round % that] */
    uint64_t calls_digest;                   /* of all of them, ever */
    uint32_t persistent;                     /* made: the slot of the last */
    psr_queues kept;                         /* psr_kept: by round, by slot and
                                                round, or by peer and slot */
    psr_request_index under_way;
    uint64_t tickets;  /* of receives that were let in, ever */
    uint64_t posts;    /* receives that wait for an offer, ever */
    psr_queues posted; /* psr_request: by peer and slot, or any */
    psr_queues sends;  /* psr_request: not matched, by peer and slot */
    psr_queues offers; /* psr_offer: not matched, four times each, by peer and slot, or any */
    psr_offer *first_offer;
    psr_request *first_probe; /* that wait */
    psr_kept *first_kept;
    psr_request_lane lane;
    psr_group_encoder *encoders;
    float *decoded; /* [decoded_max] a slice that came encoded */
    size_t decoded_max;
    psr_request *first_ended, *last_ended; /* that psr_group_take_ended has not told of */
    bool failed;                           /* of a message of this member: */
    uint32_t failed_of;
};

typedef enum psr_stream_state {
    PSR_STREAM_GOES,       /* or is over, or has not begun */
    PSR_STREAM_UNTOLD,     /* in the peer's list of these */
    PSR_STREAM_TOLD,       /* counted by it */
    PSR_STREAM_UNCREDITED, /* in the peer's list of these */
    PSR_STREAM_OFFERED,    /* counted by it */
} psr_stream_state;

/* The transfers of an operation between this rank and another, in one direction, or where they
 * overtake one another one of them; or what it does by itself. */
struct psr_stream {
    psr_request *request;
    psr_stream *next, *previous; /* of a list of its peer's */
    psr_stream_state state;
    bool shown; /* its sender has said that it has begun */
    uint32_t peer;
    uint32_t *actions;     /* in their order */
    uint32_t count, head;  /* head: those before it are complete */
    uint64_t total_values; /* of all between the two ranks */
    uint64_t total_slices;
    uint64_t first_slice; /* of those between the two ranks */
    uint64_t slices;      /* sent, or taken in */
    uint64_t arrived;     /* slices received: taken in, or kept */
    uint64_t allowed;     /* slices that may have been sent */
    psr_stream *onward;   /* of what is received: the sending of what came; NULL: none */
    uint64_t ordinal;     /* of what is sent in the order of calls:
                         psr_group_peer.sent_operations before */
};

typedef struct psr_request_area {
    const uint8_t *read;
    uint8_t *write;
    psr_block block; /* what lies not dense: through a slice's memory */
    bool scattered;
} psr_request_area;

struct psr_request {
    psr_group *group;
    psr_request *next, *previous; /* of those under way: comm/collectives/request_index.h */
    bool listed;                  /* it is among them */
    psr_queued by_tag;            /* of those: it has a tag by which messages find it */
    psr_queued matching;          /* of the group's posted, or its sends */
    uint64_t post;                /* of a receive: its number among those that were posted */
    psr_request *next_probe;
    psr_offer *own_offer; /* a message to oneself that was announced; NULL: not, or no more */
    psr_request *next_ended, *previous_ended;
    bool ended; /* it is among those that have ended and are not told of */
    void *owner;
    psr_call call;
    psr_own_fold own;          /* fold NULL: its call's reduction */
    psr_msg_call says, before; /* before: as psr_msg_values */
    bool is_message, persistent, uncounted, active;
    /* Of a message, as it was called; and what it has become since: */
    uint32_t asked_peer, asked_tag; /* PSR_RANK_ANY, PSR_MESSAGE_TAG_ANY */
    bool at_most, at_once;
    psr_msg_call asked;
    uint32_t peer;
    bool matched; /* with its other end, whose count is says.count */
    psr_tag tag;
    psr_schedule schedule;
    psr_request_area *areas;
    uint8_t *scratch, *slices[2]; /* slices: of values that lie not dense, or have gaps */
    size_t value_bytes, slice_values;
    /* How far its actions are: */
    size_t *done; /* [action] values */
    bool *complete;
    uint32_t complete_before; /* all before it are */
    psr_stream *out, *in, local;
    uint32_t out_count, in_count;
    uint32_t *out_of, *in_of; /* [rank]: 1 + index of its first stream; 0: none */
    uint32_t *stream_actions; /* memory of all streams' */
    psr_early *early;         /* [index of in]: arrived, not taken in */
    psr_loan loan;
    /* Where transfers overtake one another: */
    psr_stream *injection; /* NULL: it injects nothing */
    int32_t priority;
    uint64_t turn;
    uint32_t on_its_way; /* slices injected whose final sum has not come back */
    bool begun_by_all;   /* one of them has */
    bool waits_in_lane;
    psr_request *next_in_lane, *previous_in_lane;
    psr_slice_head *head; /* NULL: VALUES */
    psr_compression compression;
    psr_group_encoder *encoder;     /* NULL: nothing is encoded */
    float *residual, *own_residual; /* own: NULL: it is the maker's, or there is none */
    psr_err (*not_finite)(void *owner);
};

/* What a member is called in lines: its rank among all. */
static inline uint32_t psr_group_name(const psr_group *group, uint32_t rank)
{
    return group->peers[rank].name.rank;
}

/* ---- group.c's, for matching.c ---- */

/* Keeps a message until what it is of begins. Takes *message. PROTOCOL: most are kept of that peer.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_group_keep(psr_group *group, uint32_t from, uint32_t which,
                                      uint32_t most, psr_message **message);
/* A send has begun: gives it the oldest CREDIT that was kept for it. */
PSR_MUST_CHECK psr_err psr_group_take_kept_ticket(psr_group *group, psr_request *send);
/* they_send: of the message between two ranks that this is about. Fails. */
PSR_MUST_CHECK psr_err psr_group_mismatch(const psr_group *group, psr_tag tag, uint32_t from,
                                          bool they_send, const psr_msg_call *theirs,
                                          const psr_msg_call *ours);
/* It is over, if it is: under way no longer, and to be told of. */
void psr_group_leave_when_done(psr_group *group, psr_request *request);

/* ---- requests ---- */

/* NULL: it sends that rank nothing */
psr_stream *psr_request_out(const psr_request *request, uint32_t rank);
psr_stream *psr_request_in(const psr_request *request, uint32_t rank);

/* ---- an action: values of its next slice (0: it has none), and of what is sent as one ---- */

static inline size_t psr_request_next_slice(const psr_request *r, uint32_t index)
{
    size_t left = r->schedule.actions[index].count - r->done[index];
    return left < r->slice_values ? left : r->slice_values;
}

static inline size_t psr_request_unit(const psr_request *r, uint32_t index)
{
    return r->residual != NULL ? r->schedule.actions[index].count - r->done[index]
                               : psr_request_next_slice(r, index);
}

/* ---- request.c for request_overtaking.c ---- */

bool psr_request_may_go(const psr_request *request, uint32_t index);
psr_head psr_request_head(const psr_request *request, const psr_stream *stream, size_t count);
PSR_MUST_CHECK psr_err psr_request_send(const psr_request *request, const psr_stream *stream,
                                        const psr_head *head, const psr_payload *payload);
PSR_MUST_CHECK psr_err psr_request_send_slice(psr_request *request, const psr_stream *stream,
                                              uint32_t index, size_t count);
PSR_MUST_CHECK psr_err psr_request_take_in(psr_request *request, const psr_stream *stream,
                                           const psr_message *message);
void psr_request_slice_done(psr_request *request, psr_stream *stream, size_t count);

/* ---- and the other way ---- */

/* The next unit of a stream, which is complete. *ret_slices: that it has gone in. */
PSR_MUST_CHECK psr_err psr_request_send_unit(psr_request *request, psr_stream *stream,
                                             uint32_t *ret_slices);
/* An action of that kind, as a whole. */
PSR_MUST_CHECK psr_err psr_request_round(const psr_request *request, const psr_action *action);
/* Injects what the lane lets: of this request, and of others that wait. */
PSR_MUST_CHECK psr_err psr_request_inject(psr_request *request);
PSR_MUST_CHECK psr_err psr_request_values_of_transfer(psr_request *request, uint32_t peer,
                                                      const psr_msg_values *says,
                                                      const psr_message *message);
psr_peer psr_request_waits_for(const psr_request *request); /* it is under way */

/* ---- */

/* Is under way no longer, and of no interest to anybody. */
void psr_request_leave(psr_request *request);
/* Its tag is set. Nothing is done yet. */
void psr_request_begin(psr_request *request);
/* The two ends of a message to oneself, which have begun: both are over. */
void psr_request_pass(psr_request *from, psr_request *to);
/* Does all that can be done now. It may be over then: active says. */
PSR_MUST_CHECK psr_err psr_request_advance(psr_request *request);
/* A message of the rank that the stream is of, whose call is the same. Takes *message when it is
 * kept. */
PSR_MUST_CHECK psr_err psr_request_values(psr_request *request, psr_stream *in,
                                          const psr_msg_values *says, psr_message **message);
PSR_MUST_CHECK psr_err psr_request_credit(psr_request *request, psr_stream *out,
                                          const psr_msg_credit *says, const psr_message *message);
/* Tells the sender of a stream what it may have sent. */
PSR_MUST_CHECK psr_err psr_request_grant(psr_request *request, psr_stream *in, uint64_t slices);

#endif
