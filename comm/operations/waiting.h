/* What an operation or a request waits for. Plain data. */
#ifndef PSR_COMM_WAITING_H
#define PSR_COMM_WAITING_H

#include "net/message.h"

typedef struct psr_waiting {
    psr_peer peer;
    uint64_t round;
} psr_waiting;

#endif
