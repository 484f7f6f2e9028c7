/* Whether TCP connections from this host to others come about: nothing but connecting is tried, and each is closed at once. How a process
 * of psring is reached, with what it says and hears, is the transport's. Any thread. */
#ifndef PSR_NET_REACH_H
#define PSR_NET_REACH_H

#include "net/interface.h"

#include <stdint.h>

typedef struct psr_reach {
    const char *endpoint; /* "tcp://10.0.0.2:4242", borrowed for the call */
    bool reached;
    int64_t taken_us;               /* until it was reached */
    char source[PSR_ADDRESS_BYTES]; /* this host's address on the way there; "": there is no way */
    char failure[96]; /* "": it was reached. In words: "no answer within 3000 ms", "Connection refused" */
} psr_reach;

/* Tries all at once, in at most timeout_ms. What goes wrong with one is its failure. NOMEM. */
PSR_MUST_CHECK psr_err psr_reach_all(psr_reach *reaches, size_t count, int timeout_ms);

/* The interface that has this address, and the most bytes of a packet on it. NOT_FOUND: none has. */
PSR_MUST_CHECK psr_err psr_interface_of(const char *address, char *name, size_t size, uint32_t *ret_mtu);

#endif
