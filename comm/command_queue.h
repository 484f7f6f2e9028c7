/* What a thread asks of a progress loop: a queue with one producer and one consumer, without locks
 * (Lamport, "Proving the correctness of multiprocess programs", 1977, section on the bounded
 * buffer: each index is written by one side alone). It is bounded, or it grows: then a full ring of
 * slots is followed by one twice as large, which the consumer goes on to.
 *
 * psr_command_push and psr_command_room: the producer's thread; psr_command_pop: the consumer's;
 * new and free: when neither runs. A side may pass from one thread to another through a mutex. */
#ifndef PSR_COMM_COMMAND_QUEUE_H
#define PSR_COMM_COMMAND_QUEUE_H

#include "base/arrays/fence.h"
#include "net/transport.h"

#include <stdbool.h>

enum {
    PSR_COMMAND_SEND,  /* object: a psr_outgoing, malloced, which the loop frees */
    PSR_COMMAND_OWNER, /* from here on kinds are the owner's, and what the fields mean then */
};

/* A message to a peer. */
typedef struct psr_outgoing {
    psr_peer to;
    psr_head head;
    size_t bytes;
    unsigned char payload[];
} psr_outgoing;

typedef struct psr_command {
    uint32_t kind;
    uint32_t bucket, rank;
    uint64_t step;
    void *object;
    psr_fence *fence; /* NULL: what the command speaks of may be read */
} psr_command;

typedef struct psr_command_queue psr_command_queue;

/* Holds at least capacity commands. 0: it grows. ret owns. NOMEM. */
PSR_MUST_CHECK psr_err psr_command_queue_new(uint32_t capacity, psr_command_queue **ret_queue);
/* Frees what SEND commands still own. NULL allowed. */
void psr_command_queue_free(psr_command_queue *queue);

/* false: full; of one that grows: there is no memory. */
bool psr_command_push(psr_command_queue *queue, const psr_command *command);
/* false: empty. */
bool psr_command_pop(psr_command_queue *queue, psr_command *ret_command);
/* Whether a push would succeed now, as far as room goes. */
bool psr_command_room(const psr_command_queue *queue);

#endif
