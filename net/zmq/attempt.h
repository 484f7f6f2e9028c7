/* Whether the TCP connection of a channel has come about, as libzmq's monitor of its socket tells:
 * libzmq itself tries again without end and without a word. Watched until it has, once. For net's
 * own files; one thread. */
#ifndef PSR_NET_ZMQ_ATTEMPT_H
#define PSR_NET_ZMQ_ATTEMPT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct psr_attempt {
    void *dealer;  /* borrowed, until psr_attempt_done */
    void *monitor; /* NULL: it is connected, or not watched */
    int64_t since_ms;
} psr_attempt;

/* Before the socket connects. number: another each time in this context. IO. */
PSR_MUST_CHECK psr_err psr_attempt_begin(void *zmq_ctx, void *dealer, uint64_t number,
                                         psr_attempt *ret_attempt);

/* Whether it is still without a connection; the first time that it is not, the watching ends. */
bool psr_attempt_goes_on(psr_attempt *attempt);

/* Before the socket is closed. Of one that is not watched: does nothing. */
void psr_attempt_done(psr_attempt *attempt);

#endif
