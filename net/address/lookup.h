/* Resolves host names, as this host sees them. Any thread. */
#ifndef PSR_NET_ADDRESS_LOOKUP_H
#define PSR_NET_ADDRESS_LOOKUP_H

#include "net/address/interface.h"

typedef struct psr_lookup {
    const char *name;                /* borrowed for the call */
    char address[PSR_ADDRESS_BYTES]; /* the first one, as a number; "":
                                        none, or no answer in time */
} psr_lookup;

/* Looks all names up at once and returns after timeout_ms at the latest, so a name server that does
 * not answer delays nobody. Sets every address. NOMEM. */
PSR_MUST_CHECK psr_err psr_lookup_all(psr_lookup *lookups, size_t count, int timeout_ms);

#endif
