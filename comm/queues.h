/* Queues that are found by a key, however many there are and however long they are: to add, to
 * find the first and to take out takes the same time with one thing under way as with 100,000.
 * The things link themselves (psr_queued is a member of theirs), so nothing is allocated for one
 * of them. The table of keys grows and shrinks with the number of queues; where it gets no memory
 * it stays as it is, and finding takes longer. One thread. */
#ifndef PSR_COMM_QUEUES_H
#define PSR_COMM_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_queue_key {
    uint64_t a, b;
} psr_queue_key;

/* All zero: it is in no queue. It stays where it is in memory while it is in one. */
typedef struct psr_queued psr_queued;
struct psr_queued {
    psr_queue_key key;
    psr_queued *next;     /* in its queue; NULL: it is the last */
    psr_queued *previous; /* in its queue; of the first: the last. NULL: it is in no queue */
    psr_queued *chain;    /* of the first in its queue: the first of another queue */
};

/* All zero: there are none. It stays where it is in memory. */
typedef struct psr_queues {
    psr_queued *few;    /* the queues of a small table */
    psr_queued **heads; /* [size] of a larger one; owned */
    size_t size;        /* 0, or a power of two */
    size_t count;       /* queues; empty ones are not there */
    uint64_t visited;   /* first ones that were looked at: for tests */
} psr_queues;

/* What is in the queues is left as it is. */
void psr_queues_done(psr_queues *queues);

/* Behind all others of that key. It is in no queue. */
void psr_queues_add(psr_queues *queues, psr_queued *queued, psr_queue_key key);
/* Nothing, where it is in none. */
void psr_queues_remove(psr_queues *queues, psr_queued *queued);
/* The one of that key that was added first. NULL: there is none. */
psr_queued *psr_queues_first(psr_queues *queues, psr_queue_key key);

static inline bool psr_queued_is_in(const psr_queued *queued)
{
    return queued->previous != NULL;
}

/* The thing that has it as that member. queued NULL: NULL. */
#define PSR_QUEUED_OF(queued, type, member)                                                        \
    ((queued) != NULL ? (type *)(void *)((char *)(queued)-offsetof(type, member)) : NULL)

#endif
