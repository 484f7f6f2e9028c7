/* What a thread asks of a progress loop: a bounded queue with one producer and one consumer,
 * without locks (Lamport, "Proving the correctness of multiprocess programs", 1977, section on the bounded
 * buffer: each index is written by one side alone).
 *
 * psr_command_push: the producer's thread; psr_command_pop: the consumer's; new and free: when neither runs.
 */
#ifndef PSR_COMM_COMMAND_QUEUE_H
#define PSR_COMM_COMMAND_QUEUE_H

#include "comm/operations/operation.h"

enum {
    PSR_COMMAND_SEND,  /* head and data (size bytes, owned: malloc) to a peer */
    PSR_COMMAND_OWNER, /* kinds from here on are the loop's owner's, and what the fields mean then */
};

typedef struct psr_command {
    uint32_t kind;
    /* SEND: */
    psr_peer to;
    psr_head head;
    void *data;
    size_t size;
    /* The owner's kinds: */
    uint32_t bucket, rank;
    uint64_t step;
    psr_operation *operation;
    psr_buffer buffer;
} psr_command;

typedef struct psr_command_queue psr_command_queue;

/* Holds at least capacity commands. ret owns. NOMEM. */
PSR_MUST_CHECK psr_err psr_command_queue_new(uint32_t capacity, psr_command_queue **ret_queue);
/* Frees what SEND commands still own. NULL allowed. */
void psr_command_queue_free(psr_command_queue *queue);

/* false: full. */
bool psr_command_push(psr_command_queue *queue, const psr_command *command);
/* false: empty. */
bool psr_command_pop(psr_command_queue *queue, psr_command *ret_command);
/* Whether a push would succeed now. Producer's thread. */
bool psr_command_room(const psr_command_queue *queue);

#endif
