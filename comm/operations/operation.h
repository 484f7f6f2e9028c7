/* An operation of the communicator: a state machine that knows no clock, thread or socket. It is
 * started with a buffer, receives messages and events, sends through the outbox that it was made
 * with, and is done at some point; then it can be started again. Each algorithm has a file of its
 * own. Whoever made an operation defines how its end is reported, and frees it. One thread, except
 * psr_operation_lent. */
#ifndef PSR_COMM_OPERATION_H
#define PSR_COMM_OPERATION_H

#include "comm/buffer.h"
#include "net/message.h"

typedef struct psr_operation psr_operation;

typedef enum psr_event {
    PSR_EVENT_ROOM, /* its lane (comm/operations/lane.h) has room for
                       one more of the messages that it queued there */
} psr_event;

typedef struct psr_waiting {
    psr_peer peer;
    uint64_t round;
} psr_waiting;

typedef struct psr_operation_ops {
    const char *name;
    psr_err (*start)(psr_operation *operation, uint64_t round, const psr_buffer *buffer);
    psr_err (*message)(psr_operation *operation, psr_message **message);
    psr_err (*event)(psr_operation *operation, psr_event event); /* NULL: no event concerns it */
    bool (*done)(const psr_operation *operation);
    bool (*waits)(const psr_operation *operation, psr_waiting *ret_waiting);
    /* NULL: it lends nothing that anybody waits for */
    uint32_t (*lent)(const psr_operation *operation);
} psr_operation_ops;

/* The beginning of every operation. */
struct psr_operation {
    const psr_operation_ops *ops;
};

/* Begins a round; it must be done. buffer: read and written in place, borrowed until it is done and
 * nothing sent from there is lent. PROTOCOL: a message that came early does not belong to this
 * round. */
PSR_MUST_CHECK static inline psr_err psr_operation_start(psr_operation *operation, uint64_t round,
                                                         const psr_buffer *buffer)
{
    return operation->ops->start(operation, round, buffer);
}

/* Takes a message of the operation, which may come before its round has begun here. Takes *message.
 * PROTOCOL: it cannot come now. */
PSR_MUST_CHECK static inline psr_err psr_operation_message(psr_operation *operation,
                                                           psr_message **message)
{
    return operation->ops->message(operation, message);
}

PSR_MUST_CHECK static inline psr_err psr_operation_event(psr_operation *operation, psr_event event)
{
    return operation->ops->event(operation, event);
}

static inline bool psr_operation_done(const psr_operation *operation)
{
    return operation->ops->done(operation);
}

/* The peer that a round under way waits for, and the round's number. false: the operation is
 * done. */
static inline bool psr_operation_waits(const psr_operation *operation, psr_waiting *ret_waiting)
{
    return operation->ops->waits(operation, ret_waiting);
}

/* The number of payloads lent from its buffer. When it is 0 and the operation is done, the buffer
 * may be written again. Any thread. */
static inline uint32_t psr_operation_lent(const psr_operation *operation)
{
    return operation->ops->lent != NULL ? operation->ops->lent(operation) : 0;
}

#endif
