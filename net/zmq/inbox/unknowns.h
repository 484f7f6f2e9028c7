/* Connections of which nobody knows yet whose they are (net/zmq/inbox/half_open.h), and of which
 * member so many of them were let in. Shared by admission's thread and the inbox's: any function
 * from either. */
#ifndef PSR_NET_ZMQ_INBOX_UNKNOWNS_H
#define PSR_NET_ZMQ_INBOX_UNKNOWNS_H

#include "net/trust/admission.h"
#include "net/zmq/inbox/half_open.h"

#include <pthread.h>

struct psr_unknown;

typedef struct psr_unknowns {
    pthread_mutex_t lock;
    psr_half_open half_open;
    bool shared;                /* all share one token: names count for nothing */
    struct psr_unknown *let_in; /* in the order in which they were */
    size_t count, capacity;
    bool *known; /* [descriptor]: the owner knows whose that connection is */
    size_t known_count;
} psr_unknowns;

void psr_unknowns_init(psr_unknowns *unknowns, bool curve, bool shared);
void psr_unknowns_done(psr_unknowns *unknowns);

/* libzmq has accepted fd. end: it goes at once. bytes_max: as of psr_half_open_add. */
void psr_unknowns_accepted(psr_unknowns *unknowns, int fd, uint64_t bytes_max, bool end);
/* libzmq has closed fd. Whether the owner knew whose it was. */
bool psr_unknowns_closed(psr_unknowns *unknowns, int fd);

/* A connection of that member is to be let in; process: at the other end of a Unix socket, else 0.
 * false: it has PSR_UNKNOWN_MAX already (all together PSR_UNKNOWN_SHARED_MAX, where they share a
 * token), or there is no memory. */
bool psr_unknowns_let_in(psr_unknowns *unknowns, psr_peer peer, pid_t process);

/* As psr_admission_awaits, psr_admission_known and psr_admission_unknown. */
bool psr_unknowns_await(psr_unknowns *unknowns, psr_peer admitted);
psr_connection psr_unknowns_known(psr_unknowns *unknowns, psr_peer admitted, int fd);
void psr_unknowns_again(psr_unknowns *unknowns, psr_connection connection);

/* As those of psr_half_open. */
void psr_unknowns_end(psr_unknowns *unknowns, int fd);
bool psr_unknowns_count(psr_unknowns *unknowns);
size_t psr_unknowns_end_greedy(psr_unknowns *unknowns);
void psr_unknowns_trim(psr_unknowns *unknowns, size_t most, bool settled);
size_t psr_unknowns_end_silent(psr_unknowns *unknowns, int64_t until_ms);
int64_t psr_unknowns_oldest_ms(psr_unknowns *unknowns);

#endif
