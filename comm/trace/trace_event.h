/* What a trace is made of: spans of time and moments of one thread, and their form in a message
 * (TRACE). comm/trace/tracer.h records them, ps/scheduler/trace/trace_file.h writes them for
 * people. Plain data; any thread. */
#ifndef PSR_COMM_TRACE_EVENT_H
#define PSR_COMM_TRACE_EVENT_H

#include "comm/wire/messages.h"

typedef enum psr_trace_kind {
    /* of the compute thread; spans */
    PSR_TRACE_STEP,    /* index: the rank whose turn it is */
    PSR_TRACE_FORWARD, /* the forward pass, or the backward pass, as a whole */
    PSR_TRACE_BACKWARD,
    PSR_TRACE_LAYER,       /* index: the first node, count: how many are computed as one; forward */
    PSR_TRACE_LAYER_BACK,  /* the same, backward */
    PSR_TRACE_DATA,        /* for the loader */
    PSR_TRACE_WAIT_BUCKET, /* for the weights of a bucket, which is the index, after the step */
    PSR_TRACE_WAIT_ALL,    /* for all weights after the step */
    PSR_TRACE_WAIT_ROOM,   /* for room in the queue to the exchange thread */
    PSR_TRACE_WAIT_OTHERS, /* for other members: a barrier, a hold, a checkpoint */
    PSR_TRACE_EVALUATION,
    PSR_TRACE_CHECKPOINT,
    /* of the thread that exchanges; index: the bucket */
    PSR_TRACE_BEGIN, /* a moment, as LANDED (comm/observer.h) */
    PSR_TRACE_LANDED,
    PSR_TRACE_OUT,  /* a span: a message is handed to the transport */
    PSR_TRACE_IN,   /* a span: a message is dealt with, which came at its beginning */
    PSR_TRACE_FOLD, /* spans: see FOLDS and UPDATES in comm/observer.h */
    PSR_TRACE_UPDATE,
    PSR_TRACE_KINDS
} psr_trace_kind;

#define PSR_TRACE_NO_INDEX UINT32_MAX

typedef struct psr_trace_event {
    psr_trace_kind kind;
    uint32_t index, count;
    uint64_t step;                 /* of the run, from 0 */
    int64_t begin_ns, duration_ns; /* by the recorder's psr_clock_ns; a moment has no duration */
    /* OUT, IN; of the others zero */
    psr_message_type type;
    psr_peer peer;
    uint64_t bytes, part; /* as in psr_observed */
} psr_trace_event;

/* Whether it belongs to the thread that computes; otherwise to the one that exchanges. */
bool psr_trace_is_computing(psr_trace_kind kind);
/* Whether it is a pass, or a layer in it: what a GPU does, where there is one. */
bool psr_trace_is_of_pass(psr_trace_kind kind);

#define PSR_TRACE_EVENT_BYTES 56
/* The most in one message. */
#define PSR_TRACE_EVENTS_PER_MESSAGE 1024

void psr_trace_event_write(const psr_trace_event *event,
                           uint8_t bytes[static PSR_TRACE_EVENT_BYTES]);

/* Event number i of a TRACE. PROTOCOL: a number in it is beyond what there is: members and buckets
 * against limits, nodes against the network's. Times are so small that they can be added. */
PSR_MUST_CHECK psr_err psr_trace_event_read(const psr_message *message, size_t i,
                                            const psr_msg_limits *limits, uint32_t nodes,
                                            psr_trace_event *ret_event);
/* How many events a TRACE has. PROTOCOL: its payload is not a whole number of them, or too many. */
PSR_MUST_CHECK psr_err psr_trace_events_in(const psr_message *message, size_t *ret_count);

#endif
