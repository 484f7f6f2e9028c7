/* The payloads that are lent to one peer by reference, each under a token, until the peer returns
 * them. A token is good for one return; one that was made up or used before is detected. One
 * thread. */
#ifndef PSR_NET_SHARING_LENDS_H
#define PSR_NET_SHARING_LENDS_H

#include "net/transport.h"

/* At most so many loans at a time; further payloads are sent as messages. */
#define PSR_LENDS_MAX 4096

typedef struct psr_lend {
    void (*release)(void *context); /* NULL: free */
    void *context;
    uint32_t turn; /* how often this entry was used: the token's upper half */
    uint32_t next_free;
} psr_lend;

/* All zero: nothing is lent. */
typedef struct psr_lends {
    psr_lend *items;
    uint32_t capacity, count;
    uint32_t first_free; /* plus one; 0: none */
} psr_lends;

/* Takes over the payload's loan. false: PSR_LENDS_MAX are lent already, or there is no memory; the
 * caller still owns the loan. */
bool psr_lends_put(psr_lends *lends, const psr_payload *payload, uint64_t *ret_token);
/* Ends the loan under that token: calls its release. false: nothing is lent under it. */
bool psr_lends_end(psr_lends *lends, uint64_t token);
/* The peer is gone: ends all loans. */
void psr_lends_end_all(psr_lends *lends);
/* Frees the table. Nothing may be lent any more. */
void psr_lends_done(psr_lends *lends);

#endif
