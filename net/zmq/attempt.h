/* Whether the TCP connection of a channel has been made, according to libzmq's monitor of its
 * socket: libzmq itself tries again for ever and reports nothing. The socket is watched until it is
 * connected for the first time; then its connection gets its congestion control
 * (net/address/tcp_congestion.h). For net's own files; one thread. */
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

/* Call it before the socket connects. number: a new one for each socket of the context. IO. */
PSR_MUST_CHECK psr_err psr_attempt_begin(void *zmq_ctx, void *dealer, uint64_t number,
                                         psr_attempt *ret_attempt);

/* Whether it still has no connection. Once it has one, the watching ends. */
bool psr_attempt_goes_on(psr_attempt *attempt);

/* Call it before the socket is closed. Does nothing for one that is not watched. */
void psr_attempt_done(psr_attempt *attempt);

#endif
