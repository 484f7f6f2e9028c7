/* What a group (group.c: to which operation a message belongs) and its operations (request.c: what
 * they do) share. For their files only. */
#ifndef PSR_COMM_COLLECTIVES_GROUP_PRIVATE_H
#define PSR_COMM_COLLECTIVES_GROUP_PRIVATE_H

#include "comm/collectives/group.h"
#include "comm/collectives/matching.h"
#include "comm/collectives/request_index.h"
#include "comm/collectives/request_lane.h"
#include "comm/collectives/schedule.h"
#include "comm/operations/early.h"
#include "comm/operations/loan.h"

/* Kinds of messages that are kept because they came before their operation. */
enum { PSR_KEPT_VALUES, PSR_KEPT_CREDITS, PSR_KEPT_OFFERS, PSR_KEPT };
typedef struct psr_kept psr_kept;

/* Streams of one peer that wait, the oldest first. */
typedef struct psr_stream_list {
    psr_stream *first, *last;
} psr_stream_list;

/* Encodes for all requests with one compression, one request at a time, from the beginning of a
 * unit to its end. */
typedef struct psr_group_encoder {
    struct psr_group_encoder *next;
    psr_compression compression;
    size_t count_max; /* most values of a unit */
    psr_encoder *encoder;
} psr_group_encoder;

enum { PSR_GROUP_FOLD_BYTES = 16 << 10 }; /* a multiple of the size of any value */

/* What one fold of a slice needs (comm/collectives/request_gathering.c). */
typedef struct psr_group_fold {
    psr_message **messages; /* [ranks] */
    const uint8_t **values; /* [ranks] */
    _Alignas(16) uint8_t block[PSR_GROUP_FOLD_BYTES];
} psr_group_fold;

/* What is known of another rank. */
typedef struct psr_group_peer {
    psr_peer name;
    uint64_t sent_operations; /* operations in the order of calls in which this rank sends to it */
    uint64_t allowed_operations; /* how many of those may have begun to send */
    psr_request *held;           /* the first one under way that may not send yet; NULL: none */
    /* operations in the order of calls, started here, in which it sends to this rank */
    uint64_t heard_operations;
    uint32_t kept[PSR_KEPT]; /* messages kept, by kind */
    /* For persistent operations and messages (comm/collectives/matching.h): */
    bool listens;     /* this rank has sent LISTEN to it */
    bool listened;    /* it has sent LISTEN to this rank */
    uint32_t told;    /* streams that may come, of operations that it has not shown to have begun */
    uint32_t offered; /* streams that were offered to it and that it has not answered */
    uint64_t offers;  /* OFFER messages of it, since the beginning */
    psr_stream_list untold;     /* streams from it that wait because told is at its maximum */
    psr_stream_list uncredited; /* streams to it that have no credit and are not offered */
} psr_group_peer;

struct psr_group {
    psr_group_options options;
    psr_group_peer *peers; /* [ranks] */
    uint32_t *by_name;     /* the ranks, sorted by name */
    uint64_t calls;        /* calls in the order that were started */
    uint64_t uncounted;    /* how many of those, at the beginning, are not counted in lines */
    psr_msg_call kept_calls[PSR_CALLS_KEPT]; /* [round % PSR_CALLS_KEPT] */
    uint64_t calls_digest;                   /* the digest of all of them */
    uint32_t persistent; /* persistent requests made: the slot of the last one */
    psr_queues kept;     /* psr_kept, by round, by slot and round, or by peer and slot */
    psr_request_index under_way;
    uint64_t tickets;  /* receives that were given a ticket, since the beginning */
    uint64_t posts;    /* receives that waited for an offer, since the beginning */
    psr_queues posted; /* psr_request: by peer and slot, or any */
    psr_queues sends;  /* psr_request: those not matched, by peer and slot */
    /* psr_offer: those not matched, four entries each: by peer and slot, or any */
    psr_queues offers;
    psr_offer *first_offer;
    psr_request *first_probe; /* the probes that wait */
    psr_kept *first_kept;
    psr_request_lane lane;
    psr_group_encoder *encoders;
    psr_group_fold *fold; /* for requests that gather; NULL: there was none */
    float *decoded;       /* [decoded_max] a slice that came encoded */
    size_t decoded_max;
    size_t slices_together; /* most slices of a request that are encoded, and so sent, as one */
    /* those that psr_group_take_ended has not returned yet */
    psr_request *first_ended, *last_ended;
    bool failed; /* a message of this member failed: */
    uint32_t failed_of;
};

typedef enum psr_stream_state {
    PSR_STREAM_GOES,       /* it is over, or has not begun */
    PSR_STREAM_UNTOLD,     /* in the peer's list of these */
    PSR_STREAM_TOLD,       /* counted in told */
    PSR_STREAM_UNCREDITED, /* in the peer's list of these */
    PSR_STREAM_OFFERED,    /* counted in offered */
} psr_stream_state;

/* The transfers of an operation between this rank and another in one direction, or a single one if
 * they overtake one another; or what the operation does on this rank alone. */
struct psr_stream {
    psr_request *request;
    psr_stream *next, *previous; /* in a list of its peer */
    psr_stream_state state;
    bool shown;     /* its sender has shown that it has begun */
    bool by_credit; /* its values wait for credits; else they wait for nothing */
    uint32_t peer;
    uint32_t *actions;     /* in their order */
    uint32_t count, head;  /* the actions before head are complete */
    psr_loan loan;         /* for one that sends: what is lent to its peer */
    uint64_t total_values; /* of all values between the two ranks */
    uint64_t total_slices;
    uint64_t first_slice; /* its first slice among those between the two ranks */
    uint64_t slices;      /* slices that were sent, or taken in */
    uint64_t arrived;     /* slices that were received: taken in, or kept */
    uint64_t allowed;     /* slices that may have been sent */
    /* for a stream that receives: the stream that sends on what came; NULL: none */
    psr_stream *onward;
    /* for one that sends in the order of calls: psr_group_peer.sent_operations before it */
    uint64_t ordinal;
};

typedef struct psr_request_area {
    const uint8_t *read;
    uint8_t *write;
    psr_block block; /* values that are not dense go through a slice's memory */
    bool scattered;
} psr_request_area;

struct psr_request {
    psr_group *group;
    psr_request *next, *previous; /* among those under way: comm/collectives/request_index.h */
    bool listed;                  /* it is among them */
    psr_queued by_tag;            /* among them: messages find it by its tag */
    psr_queued matching;          /* in the group's posted or sends */
    uint64_t post;                /* for a receive: its number among those that were posted */
    psr_request *next_probe;
    psr_offer *own_offer; /* a message to oneself that was announced; NULL: none, or no more */
    psr_request *next_ended, *previous_ended;
    bool ended; /* it is among those that have ended and are not returned yet */
    void *owner;
    psr_call call;
    psr_own_fold own;          /* its fold NULL: the call's reduction */
    psr_msg_call says, before; /* before: see psr_msg_values */
    bool is_message, persistent, uncounted, active;
    /* Of a message, as the caller asked: */
    uint32_t asked_peer, asked_tag; /* may be PSR_RANK_ANY, PSR_MESSAGE_TAG_ANY */
    bool at_most, at_once;
    psr_msg_call asked;
    uint32_t peer;
    bool matched; /* its other end is known, whose count is says.count */
    psr_tag tag;
    psr_schedule schedule;
    psr_request_area *areas;      /* in the allocation of out */
    uint8_t *scratch, *slices[2]; /* slices: for values that are not dense or have gaps */
    size_t value_bytes, slice_values;
    /* How far its actions are: */
    size_t *done;             /* [action] values that are done; owned */
    bool *complete;           /* [action] in the allocation of done */
    uint32_t complete_before; /* all actions before this one are complete */
    psr_stream *out;          /* owned */
    psr_stream *in;           /* in the allocation of out */
    psr_stream local;
    uint32_t out_count, in_count;
    /* in the allocation of done; [rank]: 1 + index of its first stream; 0: none */
    uint32_t *out_of, *in_of;
    uint32_t *stream_actions; /* in the allocation of done: memory of all streams' */
    psr_early *early;         /* [index of in_of]: messages that arrived and are not taken in */
    /* If transfers overtake one another: */
    psr_stream *injection; /* NULL: it injects nothing */
    int32_t priority;
    uint64_t turn;
    uint32_t on_its_way; /* injected slices whose final sum has not come back */
    bool begun_by_all;   /* one of them has come back, so all ranks have begun */
    bool waits_in_lane;
    psr_request *next_in_lane, *previous_in_lane;
    uint64_t asked_slices; /* if it gathers: slices of its own chunk that others may have sent */
    bool past_caches;      /* its result is larger than caches, and stores bypass them */
    psr_compression compression;
    psr_group_encoder *encoder; /* NULL: nothing is encoded */
    float *residual;            /* the maker's; NULL: there is none */
    psr_err (*not_finite)(void *owner);
};

/* The number of a member in lines: its rank among all. */
static inline uint32_t psr_group_name(const psr_group *group, uint32_t rank)
{
    return group->peers[rank].name.rank;
}

/* ---- group.c's, for matching.c ---- */

/* Keeps a message until its operation begins. Takes *message. PROTOCOL: `most` messages of that
 * peer are kept already. NOMEM. */
PSR_MUST_CHECK psr_err psr_group_keep(psr_group *group, uint32_t from, uint32_t which,
                                      uint32_t most, psr_message **message);
/* A send has begun: gives it the oldest CREDIT that was kept for it. */
PSR_MUST_CHECK psr_err psr_group_take_kept_ticket(psr_group *group, psr_request *send);
/* Makes a MISMATCH. they_send: the message between two ranks that it is about goes from them to
 * this rank. Always fails. */
PSR_MUST_CHECK psr_err psr_group_mismatch(const psr_group *group, psr_tag tag, uint32_t from,
                                          bool they_send, const psr_msg_call *theirs,
                                          const psr_msg_call *ours);
/* If the request has ended, removes it from those under way and lists it for
 * psr_group_take_ended. */
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
psr_head psr_request_head(const psr_request *request, const psr_stream *stream);
PSR_MUST_CHECK psr_err psr_request_send(const psr_request *request, const psr_stream *stream,
                                        const psr_head *head, const psr_payload *payload);
PSR_MUST_CHECK psr_err psr_request_send_slice(psr_request *request, psr_stream *stream,
                                              uint32_t index, size_t count);
PSR_MUST_CHECK psr_err psr_request_take_in(psr_request *request, const psr_stream *stream,
                                           const psr_message *message);
void psr_request_slice_done(psr_request *request, psr_stream *stream, size_t count);

/* ---- and the other way ---- */

/* Sends the next unit of a stream, which is complete. *ret_slices: how many slices it took. */
PSR_MUST_CHECK psr_err psr_request_send_unit(psr_request *request, psr_stream *stream,
                                             uint32_t *ret_slices);
/* Does an action ROUND as a whole. */
PSR_MUST_CHECK psr_err psr_request_round(const psr_request *request, const psr_action *action);
/* Injects what the lane allows: slices of this request, and of others that wait. */
PSR_MUST_CHECK psr_err psr_request_inject(psr_request *request);
PSR_MUST_CHECK psr_err psr_request_values_of_transfer(psr_request *request, uint32_t peer,
                                                      const psr_msg_values *says,
                                                      psr_message **message);
/* A slice that this rank injected, or asked for, has its final sum. */
void psr_request_see_return(psr_request *request);
psr_peer psr_request_waits_for(const psr_request *request); /* if it is under way */

/* ---- request_gathering.c: requests whose schedule gathers ---- */

/* NOMEM. The group can fold for such requests. */
PSR_MUST_CHECK psr_err psr_group_make_fold(psr_group *group);
void psr_group_free_fold(psr_group_fold **fold);
/* Which of its streams wait for credits. */
void psr_request_make_gathering(psr_request *request);
/* Its streams are as at the beginning: what may be sent without having been asked for. */
void psr_request_begin_gathering(psr_request *request);
/* How many slices the first CREDIT to a rank allows. Of any request. */
uint64_t psr_request_first_credit(const psr_request *request);
/* Whether the lane may let it ask for more of its own chunk. */
bool psr_request_may_ask(const psr_request *request);
/* Asks all others. *ret_slices: for how many slices more. */
PSR_MUST_CHECK psr_err psr_request_ask(psr_request *request, uint32_t *ret_slices);
/* Takes a slice of a HOLD, which is in order. Takes *message. */
PSR_MUST_CHECK psr_err psr_request_hold(psr_request *request, psr_stream *in,
                                        psr_message **message);
/* Whether all others' slices are here, so that FOLD_HELD can do one. */
bool psr_request_all_held(const psr_request *request);
/* Does one slice of FOLD_HELD, of count values. */
PSR_MUST_CHECK psr_err psr_request_fold_held(psr_request *request, uint32_t index, size_t count);
/* CREDIT for a stream. */
PSR_MUST_CHECK psr_err psr_request_asked_for(psr_request *request, psr_stream *out,
                                             const psr_msg_credit *says,
                                             const psr_message *message);
uint32_t psr_request_gathering_waits_for(const psr_request *request);

/* ---- request.c for request_gathering.c ---- */

/* out = a op b, where the ranks of b come after those of a. */
void psr_request_fold(const psr_request *request, void *out, const void *a, const void *b,
                      size_t count);

/* ---- */

/* Removes it from those under way, without telling anybody. */
void psr_request_leave(psr_request *request);
/* Its tag is set. It does nothing yet. */
void psr_request_begin(psr_request *request);
/* Ends the two ends of a message to oneself, which have begun. */
void psr_request_pass(psr_request *from, psr_request *to);
/* Does all that can be done now. The request may have ended then: see active. */
PSR_MUST_CHECK psr_err psr_request_advance(psr_request *request);
/* Takes a message of the stream's rank, whose call is the same. Takes *message if it is kept. */
PSR_MUST_CHECK psr_err psr_request_values(psr_request *request, psr_stream *in,
                                          const psr_msg_values *says, psr_message **message);
PSR_MUST_CHECK psr_err psr_request_credit(psr_request *request, psr_stream *out,
                                          const psr_msg_credit *says, const psr_message *message);
/* Tells the sender of a stream how many slices it may have sent. */
PSR_MUST_CHECK psr_err psr_request_grant(psr_request *request, psr_stream *in, uint64_t slices);

#endif
