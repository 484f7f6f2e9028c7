/* How many messages of each tag went to and came from each rank of a group: their numbers. However many tags there are one is found at
 * once; none is forgotten before the group ends, since the other end counts on. One thread. */
#ifndef PSR_COMM_COLLECTIVES_MESSAGE_COUNTS_H
#define PSR_COMM_COLLECTIVES_MESSAGE_COUNTS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages of one tag, to or from one rank. */
typedef struct psr_message_count {
    uint32_t peer, slot;
    bool received;
    uint64_t count; /* started; 0: there is none here */
} psr_message_count;

/* All zero: there are none. */
typedef struct psr_message_counts {
    psr_message_count *entries; /* [size]: each where its key says, or behind it; owned */
    size_t size, used;          /* size: 0, or a power of two */
} psr_message_counts;

/* The number of the next one, from 1. NOMEM. */
PSR_MUST_CHECK psr_err psr_message_counts_next(psr_message_counts *counts, uint32_t peer, uint32_t slot,
                                               bool received, uint64_t *ret_number);
void psr_message_counts_done(psr_message_counts *counts);

#endif
