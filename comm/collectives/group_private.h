/* What a group (group.c: whose message it is) and its operations (request.c: what it does) share. For those two only. */
#ifndef PSR_COMM_COLLECTIVES_GROUP_PRIVATE_H
#define PSR_COMM_COLLECTIVES_GROUP_PRIVATE_H

#include "comm/collectives/group.h"
#include "comm/collectives/message_counts.h"
#include "comm/collectives/request_index.h"
#include "comm/collectives/schedule.h"
#include "comm/operations/early.h"
#include "comm/operations/loan.h"

/* What is kept of messages that come before their operation. */
enum { PSR_KEPT_VALUES, PSR_KEPT_CREDITS, PSR_KEPT };

/* What goes on between this rank and another one. */
typedef struct psr_group_peer {
    psr_peer name;
    uint64_t sent_operations;    /* of the order of calls, in which this rank sends to it */
    uint64_t allowed_operations; /* of those, that may have begun to be sent */
    psr_request *held;           /* under way, the first that may not; NULL: there is none */
    uint64_t heard_operations;   /* of the order of calls, started here, in which it sends to this rank */
    uint32_t kept[PSR_KEPT];     /* messages */
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
    psr_message_counts message_counts;
    psr_early *early; /* [PSR_KEPT_..] */
    size_t early_count[PSR_KEPT];
    psr_request_index under_way;
    psr_request *first_ended, *last_ended; /* that psr_group_take_ended has not told of */
    bool failed;                           /* of a message of this member: */
    uint32_t failed_of;
};

/* The transfers of an operation between this rank and another, in one direction; or what it does by itself. */
typedef struct psr_stream {
    uint32_t peer;
    uint32_t *actions;    /* in their order */
    uint32_t count, head; /* head: those before it are complete */
    uint64_t total_values, total_slices;
    uint64_t slices;  /* sent, or taken in */
    uint64_t arrived; /* slices received: taken in, or kept */
    uint64_t allowed; /* slices that may have been sent */
    uint64_t ordinal; /* of what is sent in the order of calls: psr_group_peer.sent_operations before */
} psr_stream;

typedef struct psr_request_area {
    const uint8_t *read;
    uint8_t *write;
    psr_block block; /* what lies not dense: through a slice's memory */
    bool scattered;
} psr_request_area;

struct psr_request {
    psr_group *group;
    psr_request *next, *previous, *in_place; /* of those under way: comm/collectives/request_index.h */
    bool listed;                             /* it is among them */
    psr_request *next_ended;
    bool ended; /* it is among those that have ended and are not told of */
    void *owner;
    psr_call call;
    psr_msg_call says, before; /* before: as psr_msg_values */
    bool is_message, persistent, uncounted, active;
    uint32_t peer; /* of a message */
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
    uint32_t *out_of, *in_of; /* [rank]: 1 + index of its stream; 0: none */
    uint32_t *stream_actions; /* memory of all streams' */
    psr_early *early;         /* [index of in]: arrived, not taken in */
    psr_loan loan;
};

/* What a member is called in lines: its rank among all. */
static inline uint32_t psr_group_name(const psr_group *group, uint32_t rank)
{
    return group->peers[rank].name.rank;
}

psr_stream *psr_request_out(const psr_request *request, uint32_t rank); /* NULL: it sends that rank nothing */
psr_stream *psr_request_in(const psr_request *request, uint32_t rank);

/* Is under way no longer, and of no interest to anybody. */
void psr_request_leave(psr_request *request);
/* Its tag is set. Nothing is done yet. */
void psr_request_begin(psr_request *request);
/* The two ends of a message to oneself, which have begun: both are over. */
void psr_request_pass(psr_request *from, psr_request *to);
/* Does all that can be done now. It may be over then: active says. */
PSR_MUST_CHECK psr_err psr_request_advance(psr_request *request);
/* A message of the rank that the stream is of, whose call is the same. Takes *message when it is kept. */
PSR_MUST_CHECK psr_err psr_request_values(psr_request *request, psr_stream *in, const psr_msg_values *says,
                                          psr_message **message);
PSR_MUST_CHECK psr_err psr_request_credit(psr_request *request, psr_stream *out, const psr_msg_credit *says,
                                          const psr_message *message);
/* Tells the sender of a stream what it may have sent. */
PSR_MUST_CHECK psr_err psr_request_grant(psr_request *request, psr_stream *in, uint64_t slices);

#endif
