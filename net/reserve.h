/* Descriptors that are kept for files: a checkpoint, a log or run.json must not fail because others
 * hold sockets. The kernel gives the lowest number that is free, so the last numbers below the
 * limit are used only when all others are. While they are, no connection is taken
 * (net/trust/admission.h). It also keeps libzmq from the limit itself: version 4.3.4 aborts when it
 * cannot accept a connection over ipc for want of a descriptor. */
#ifndef PSR_NET_RESERVE_H
#define PSR_NET_RESERVE_H

#include "base/err.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#define PSR_RESERVE_MAX 64
#define PSR_RESERVE_LEAST 64 /* descriptors that must be free before there are connections */

typedef struct psr_reserve {
    size_t first, count; /* of the numbers that are kept; none: there is no limit that is known */
} psr_reserve;

/* Whether this process may open as many as connections need at least: libzmq aborts where it lacks
 * one for its threads. USAGE. */
PSR_MUST_CHECK psr_err psr_reserve_check(void);

/* Of this process's limit as it is now. */
void psr_reserve_init(psr_reserve *reserve);

/* Whether a connection that has just got this descriptor leaves too few. */
bool psr_reserve_is_touched(const psr_reserve *reserve, int fd);

/* How many strangers' connections may be held, of `most`, so that members have room beside them. */
size_t psr_reserve_half_open(const psr_reserve *reserve, size_t most);

#endif
