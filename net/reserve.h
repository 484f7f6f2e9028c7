/* Descriptors that are reserved for files: a checkpoint, a log or run.json must not fail because
 * sockets use all descriptors. The kernel gives the lowest number that is free, so the last numbers
 * below the limit are used only when all others are in use. While they are, no connection is
 * accepted (net/trust/admission.h). This also keeps libzmq away from the limit: version 4.3.4
 * aborts when it has no descriptor to accept an ipc connection. */
#ifndef PSR_NET_RESERVE_H
#define PSR_NET_RESERVE_H

#include "base/err.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#define PSR_RESERVE_MAX 64
#define PSR_RESERVE_LEAST 64 /* this many descriptors must be free before connections are made */

typedef struct psr_reserve {
    size_t first, count; /* the reserved numbers; count 0: no limit is known */
} psr_reserve;

/* Whether this process may open as many descriptors as connections need at least: libzmq aborts if
 * it has none for its threads. USAGE. */
PSR_MUST_CHECK psr_err psr_reserve_check(void);

/* For this process's present limit. */
void psr_reserve_init(psr_reserve *reserve);

/* Whether a connection that has just got this descriptor leaves too few. */
bool psr_reserve_is_touched(const psr_reserve *reserve, int fd);

/* How many connections of strangers may be held, of `most`, so that there is room for those of
 * members. */
size_t psr_reserve_half_open(const psr_reserve *reserve, size_t most);

#endif
