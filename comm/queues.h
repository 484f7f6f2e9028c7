/* Queues that are found by a key, however many and however long they are. To add, to find the first
 * and to remove takes the same time with one thing in them as with 100,000. The things link
 * themselves (psr_queued is a member of theirs), so nothing is allocated for one of them. The table
 * of keys grows and shrinks with the number of queues; if it gets no memory it stays as it is, and
 * finding takes longer. One thread. */
#ifndef PSR_COMM_QUEUES_H
#define PSR_COMM_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_queue_key {
    uint64_t a, b;
} psr_queue_key;

/* All zero: it is in no queue. It may not be moved while it is in one. */
typedef struct psr_queued psr_queued;
struct psr_queued {
    psr_queue_key key;
    psr_queued *next; /* the next in its queue; NULL: it is the last */
    /* the previous in its queue; for the first: the last. NULL: it is in no queue */
    psr_queued *previous;
    /* for the first in its queue: the first of another queue in the same place of the table */
    psr_queued *chain;
};

/* All zero: empty. It may not be moved. */
typedef struct psr_queues {
    psr_queued *few;    /* the queues of a small table */
    psr_queued **heads; /* [size] for a larger table; owned */
    size_t size;        /* 0, or a power of two */
    size_t count;       /* number of queues that are not empty */
    uint64_t visited;   /* first entries that were looked at; for tests */
} psr_queues;

/* The things in the queues are left as they are. */
void psr_queues_done(psr_queues *queues);

/* Adds it after all others of that key. It must be in no queue. */
void psr_queues_add(psr_queues *queues, psr_queued *queued, psr_queue_key key);
/* Does nothing if it is in no queue. */
void psr_queues_remove(psr_queues *queues, psr_queued *queued);
/* The one of that key that was added first. NULL: there is none. */
psr_queued *psr_queues_first(psr_queues *queues, psr_queue_key key);

static inline bool psr_queued_is_in(const psr_queued *queued)
{
    return queued->previous != NULL;
}

/* The thing whose member is queued. queued NULL: NULL. */
#define PSR_QUEUED_OF(queued, type, member)                                                        \
    ((queued) != NULL ? (type *)(void *)((char *)(queued)-offsetof(type, member)) : NULL)

#endif
