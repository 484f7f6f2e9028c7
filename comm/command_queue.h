/* Commands from a thread to a progress loop: a queue with one producer and one consumer, without
 * locks (Lamport, "Proving the correctness of multiprocess programs", 1977, section on the bounded
 * buffer: each index is written by one side only). It is bounded, or it grows: then a full ring of
 * slots is followed by one twice as large, to which the consumer goes on.
 *
 * The producer's thread calls psr_command_push and psr_command_room, the consumer's thread
 * psr_command_pop. New and free are called when neither runs. A side may pass from one thread to
 * another through a mutex. */
#ifndef PSR_COMM_COMMAND_QUEUE_H
#define PSR_COMM_COMMAND_QUEUE_H

#include "base/arrays/fence.h"
#include "net/transport.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    PSR_COMMAND_SEND,  /* object: a psr_outgoing, which the loop frees */
    PSR_COMMAND_OWNER, /* kinds from here on, and the meaning of their fields, are the owner's */
};

/* A message to a peer. */
typedef struct psr_outgoing {
    psr_peer to;
    psr_head head;
    size_t bytes;
    bool is_block;                                /* of base/arrays/blocks.h; false: malloc'ed */
    alignas(max_align_t) unsigned char payload[]; /* for values, which may be lent (net/sharing) */
} psr_outgoing;

/* Of a psr_outgoing. Any thread. NULL allowed. */
void psr_outgoing_free(void *message);

typedef struct psr_command {
    uint32_t kind;
    uint32_t bucket, rank;
    uint64_t step;
    void *object;
    psr_fence *fence; /* passes when the command's data may be read; NULL: now */
} psr_command;

typedef struct psr_command_queue psr_command_queue;

/* Holds at least capacity commands. 0: it grows. NOMEM. The caller owns *ret_queue. */
PSR_MUST_CHECK psr_err psr_command_queue_new(uint32_t capacity, psr_command_queue **ret_queue);
/* Frees it and the messages of SEND commands in it. NULL allowed. */
void psr_command_queue_free(psr_command_queue *queue);

/* false: it is full; if it grows: there is no memory. */
bool psr_command_push(psr_command_queue *queue, const psr_command *command);
/* false: it is empty. */
bool psr_command_pop(psr_command_queue *queue, psr_command *ret_command);
/* Whether there is room for a push now. */
bool psr_command_room(const psr_command_queue *queue);

#endif
