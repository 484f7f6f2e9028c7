/* What names of hosts are looked up as on this host. Any thread. */
#ifndef PSR_NET_LOOKUP_H
#define PSR_NET_LOOKUP_H

#include "net/interface.h"

typedef struct psr_lookup {
    const char *name;                /* borrowed for the call */
    char address[PSR_ADDRESS_BYTES]; /* the first one, as a number; "": there is none, or no answer in time */
} psr_lookup;

/* All of them at once, in at most timeout_ms: a name server that does not answer holds nobody up. NOMEM; else addresses are set. */
PSR_MUST_CHECK psr_err psr_lookup_all(psr_lookup *lookups, size_t count, int timeout_ms);

#endif
