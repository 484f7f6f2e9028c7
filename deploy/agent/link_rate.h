/* How fast the link into this host is: before a run begins, the agents of all hosts send to their
 * next one at the same time, as in a ring, and each says what came in. Plain TCP without any
 * values: zeros behind a token that the launcher made up. One thread; psr_link_measure blocks for
 * PSR_LINK_MEASURE_MS at most. */
#ifndef PSR_DEPLOY_AGENT_LINK_RATE_H
#define PSR_DEPLOY_AGENT_LINK_RATE_H

#include "net/address/interface.h"

#define PSR_LINK_MEASURE_MS 300
#define PSR_LINK_TOKEN_BYTES 32 /* hexadecimal digits, without the zero behind them */

typedef struct psr_link_listener {
    int fd; /* -1: none */
    char address[PSR_ADDRESS_BYTES];
    uint16_t port;
} psr_link_listener;

/* Listens on that interface (net/address/interface.h), at a port that the kernel gives. USAGE, IO.
 * The caller owns *ret_listener: psr_link_listener_done. */
PSR_MUST_CHECK psr_err psr_link_listen(const char *interface, psr_link_listener *ret_listener);
void psr_link_listener_done(psr_link_listener *listener);

/* Whom this host sends to, and by which tokens connections are known. Borrowed for the call. */
typedef struct psr_link_way {
    const char *address; /* numeric */
    uint16_t port;
    const char *token, *own_token; /* PSR_LINK_TOKEN_BYTES characters each */
} psr_link_way;

/* Sends there for a tenth of a second, or 16 MiB, and takes what comes from the one that knows
 * own_token. *ret_bits_per_s: of the latter; its last half counts, when TCP has come up to speed.
 * UNSUPPORTED: the address is this host's own, where there is no link. IO: no connection.
 * TIMEOUT: too few bytes came. */
PSR_MUST_CHECK psr_err psr_link_measure(const psr_link_listener *listener, const psr_link_way *way,
                                        uint64_t *ret_bits_per_s);

/* So many bytes had come by then. */
typedef struct psr_link_sample {
    int64_t at_ns;
    uint64_t bytes;
} psr_link_sample;

/* The rate of the last half of the bytes; 0: there are too few to tell. */
uint64_t psr_link_rate_of(const psr_link_sample *samples, size_t count);

#endif
