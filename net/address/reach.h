/* Tests whether TCP connections from this host to others can be made. A test only connects, and
 * closes the connection at once; nothing is sent. (Talking to a process of psring is the
 * transport's work, net/transport.h.) Any thread. */
#ifndef PSR_NET_ADDRESS_REACH_H
#define PSR_NET_ADDRESS_REACH_H

#include "net/address/interface.h"

#include <stdint.h>

typedef struct psr_reach {
    const char *endpoint; /* "tcp://10.0.0.2:4242", borrowed for the call */
    bool reached;
    int64_t taken_us;               /* until it was reached */
    char source[PSR_ADDRESS_BYTES]; /* this host's address on the way there; "": there is no way */
    char failure[96];               /* "": it was reached. In words: "no answer
                                       within 3000 ms", "Connection refused" */
} psr_reach;

/* Tries all at once, in at most timeout_ms. What goes wrong with one is told in its `failure`.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_reach_all(psr_reach *reaches, size_t count, int timeout_ms);

/* What became of a connection to one endpoint. */
typedef enum psr_reach_answer {
    PSR_REACH_NONE_YET,
    PSR_REACH_MADE,    /* something listens there */
    PSR_REACH_REFUSED, /* its host says that nothing listens there */
    PSR_REACH_FAILED   /* another error, which says nothing of who listens */
} psr_reach_answer;

/* Begins to connect, without waiting. NONE_YET: *ret_fd is to be polled for output; the caller
 * closes it. Otherwise it is untouched. */
psr_reach_answer psr_reach_begin(const char *endpoint, int *ret_fd);
/* What became of it. The descriptor stays open. */
psr_reach_answer psr_reach_look(int fd);

/* The other end of a TCP connection, "tcp://10.0.0.2:4242", if `named` is an endpoint with a host's
 * name and that end's port. false: named has an address itself, or fd is no such connection. */
bool psr_reach_end_of(int fd, const char *named, char *ret_endpoint, size_t size);

/* The name of the interface that has this address, and its MTU in bytes. NOT_FOUND: no interface
 * has it. */
PSR_MUST_CHECK psr_err psr_interface_of(const char *address, char *name, size_t size,
                                        uint32_t *ret_mtu);

#endif
