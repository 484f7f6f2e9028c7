/* What the compute thread asks of the exchange thread: a bounded queue with one producer and one consumer,
 * without locks (Lamport, "Proving the correctness of multiprocess programs", 1977, section on the bounded
 * buffer: each index is written by one side alone).
 *
 * psr_command_push: the producer's thread; psr_command_pop: the consumer's; new and free: when neither runs.
 */
#ifndef PSR_WORKER_COMMAND_QUEUE_H
#define PSR_WORKER_COMMAND_QUEUE_H

#include "net/message.h"

typedef enum psr_command_kind {
    PSR_COMMAND_BEGIN,     /* a step begins: head.step */
    PSR_COMMAND_READY,     /* the gradient of head.bucket of head.step is in the arena */
    PSR_COMMAND_END,       /* the step head.step of rank to.rank has ended */
    PSR_COMMAND_FOLD,      /* collective: data (size doubles, borrowed until it has finished) */
    PSR_COMMAND_BROADCAST, /* collective: data (size bytes, borrowed until it has finished) */
    PSR_COMMAND_SEND,      /* head and data (size bytes, owned: malloc) to a peer */
} psr_command_kind;

typedef struct psr_command {
    psr_command_kind kind;
    psr_peer to;
    psr_head head;
    void *data;
    size_t size;
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
