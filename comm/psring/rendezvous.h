/* Keys in memory, and ranks that find each other by a key-value store of the program. Any
 * thread. */
#ifndef PSR_COMM_PSRING_RENDEZVOUS_H
#define PSR_COMM_PSRING_RENDEZVOUS_H

#include "base/err.h"
#include "comm/psring/psring.h"

/* What the options borrow until psring_init has ended. */
typedef struct psr_rendezvous {
    char scheduler[128]; /* HOST:PORT */
    char *key;           /* owned */
    int port;            /* descriptor that keeps the port for the scheduler; -1: none */
} psr_rendezvous;
#define PSR_RENDEZVOUS_NONE ((psr_rendezvous){.port = -1})

/* Replaces options->store by a scheduler and a key: rank 0 makes and puts them, the others get
 * them. USAGE, or the store's failure. The caller owns *ret_rendezvous: psr_rendezvous_done when
 * all have joined, on failure too. */
PSR_MUST_CHECK psr_err psr_rendezvous_meet(psring_options *options, int64_t deadline_ms,
                                           psr_rendezvous *ret_rendezvous);
void psr_rendezvous_done(psr_rendezvous *rendezvous);

#endif
