/* What is lent to one peer by reference, until the peer gives it back: payloads under tokens. A token is worth one return: another that was
 * made up, or used before, is found out. One thread. */
#ifndef PSR_NET_LENDS_H
#define PSR_NET_LENDS_H

#include "net/transport.h"

/* More than that wait for nobody: they go as messages. */
#define PSR_LENDS_MAX 4096

typedef struct psr_lend {
    void (*release)(void *context); /* NULL: free */
    void *context;
    uint32_t turn; /* how often this place was used: the token's upper half */
    uint32_t next_free;
} psr_lend;

/* All zero: nothing is lent. */
typedef struct psr_lends {
    psr_lend *items;
    uint32_t capacity, count;
    uint32_t first_free; /* plus one; 0: none */
} psr_lends;

/* Takes over the payload's loan. false: PSR_LENDS_MAX are lent already, or there is no memory; the payload is still the caller's. */
bool psr_lends_put(psr_lends *lends, const psr_payload *payload, uint64_t *ret_token);
/* Calls its release. false: nothing is lent under that token. */
bool psr_lends_end(psr_lends *lends, uint64_t token);
/* Whoever had it is gone: all come back. */
void psr_lends_end_all(psr_lends *lends);
/* When nothing is lent. */
void psr_lends_done(psr_lends *lends);

#endif
