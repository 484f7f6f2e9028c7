#include "net/zmq/inbox/unknowns.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

typedef struct psr_unknown {
    psr_peer peer;
    int64_t since_ms;
} psr_unknown;

void psr_unknowns_init(psr_unknowns *unknowns, bool curve, bool shared)
{
    *unknowns = (psr_unknowns){.shared = shared};
    pthread_mutex_init(&unknowns->lock, NULL);
    psr_half_open_init(&unknowns->half_open, curve);
}

void psr_unknowns_done(psr_unknowns *unknowns)
{
    psr_half_open_done(&unknowns->half_open);
    pthread_mutex_destroy(&unknowns->lock);
    free(unknowns->let_in);
    free(unknowns->known);
}

/* Without memory it is taken for one that is not known. */
static void note_known(psr_unknowns *unknowns, int fd, bool known)
{
    if (known && (size_t)fd >= unknowns->known_count) {
        const size_t count = (size_t)fd + 64;
        bool *grown = realloc(unknowns->known, count * sizeof *grown);
        if (grown == NULL)
            return;
        memset(grown + unknowns->known_count, 0, (count - unknowns->known_count) * sizeof *grown);
        unknowns->known = grown;
        unknowns->known_count = count;
    }
    if ((size_t)fd < unknowns->known_count)
        unknowns->known[fd] = known;
}

void psr_unknowns_accepted(psr_unknowns *unknowns, int fd, uint64_t bytes_max, bool end)
{
    pthread_mutex_lock(&unknowns->lock);
    note_known(unknowns, fd,
               psr_half_open_add(&unknowns->half_open, fd, bytes_max, psr_clock_ms()));
    if (end)
        psr_half_open_end(&unknowns->half_open, fd);
    pthread_mutex_unlock(&unknowns->lock);
}

bool psr_unknowns_closed(psr_unknowns *unknowns, int fd)
{
    pthread_mutex_lock(&unknowns->lock);
    const bool known = (size_t)fd < unknowns->known_count && unknowns->known[fd];
    note_known(unknowns, fd, false);
    pthread_mutex_unlock(&unknowns->lock);
    return known;
}

bool psr_unknowns_count(psr_unknowns *unknowns)
{
    pthread_mutex_lock(&unknowns->lock);
    bool counts = psr_half_open_counts(&unknowns->half_open);
    pthread_mutex_unlock(&unknowns->lock);
    return counts;
}

size_t psr_unknowns_end_greedy(psr_unknowns *unknowns)
{
    pthread_mutex_lock(&unknowns->lock);
    size_t ended = psr_half_open_end_greedy(&unknowns->half_open);
    pthread_mutex_unlock(&unknowns->lock);
    return ended;
}

/* ---- those that were let in ---- */

static size_t count_of(const psr_unknowns *unknowns, psr_peer peer)
{
    size_t count = 0;
    for (size_t i = 0; i < unknowns->count; i++)
        count += unknowns->shared || psr_peer_equal(unknowns->let_in[i].peer, peer);
    return count;
}

bool psr_unknowns_await(psr_unknowns *unknowns, psr_peer admitted)
{
    pthread_mutex_lock(&unknowns->lock);
    bool awaits = count_of(unknowns, admitted) > 0;
    pthread_mutex_unlock(&unknowns->lock);
    return awaits;
}

static bool note(psr_unknowns *unknowns, psr_peer peer)
{
    if (unknowns->count == unknowns->capacity) {
        size_t capacity = unknowns->capacity * 2 + 16;
        psr_unknown *grown = realloc(unknowns->let_in, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        unknowns->let_in = grown;
        unknowns->capacity = capacity;
    }
    unknowns->let_in[unknowns->count++] = (psr_unknown){.peer = peer, .since_ms = psr_clock_ms()};
    return true;
}

bool psr_unknowns_let_in(psr_unknowns *unknowns, psr_peer peer, pid_t process)
{
    const size_t most = unknowns->shared ? PSR_UNKNOWN_SHARED_MAX : PSR_UNKNOWN_MAX;
    pthread_mutex_lock(&unknowns->lock);
    bool may = count_of(unknowns, peer) < most && note(unknowns, peer);
    if (may && process != 0)
        psr_half_open_let_in(&unknowns->half_open, process);
    pthread_mutex_unlock(&unknowns->lock);
    return may;
}

/* The first one: they are all alike. */
static void forget_one_of(psr_unknowns *unknowns, psr_peer peer)
{
    for (size_t i = 0; i < unknowns->count; i++)
        if (psr_peer_equal(unknowns->let_in[i].peer, peer)) {
            memmove(&unknowns->let_in[i], &unknowns->let_in[i + 1],
                    (unknowns->count - i - 1) * sizeof *unknowns->let_in);
            unknowns->count--;
            return;
        }
}

psr_connection psr_unknowns_known(psr_unknowns *unknowns, psr_peer admitted, int fd)
{
    pthread_mutex_lock(&unknowns->lock);
    forget_one_of(unknowns, admitted);
    psr_connection connection = {.fd = fd, .cookie = psr_half_open_known(&unknowns->half_open, fd)};
    if (connection.cookie != 0)
        note_known(unknowns, fd, true);
    pthread_mutex_unlock(&unknowns->lock);
    return connection;
}

void psr_unknowns_again(psr_unknowns *unknowns, psr_connection connection)
{
    if (connection.cookie == 0)
        return;
    pthread_mutex_lock(&unknowns->lock);
    if (psr_half_open_unknown(&unknowns->half_open, connection.fd, connection.cookie,
                              psr_clock_ms()))
        note_known(unknowns, connection.fd, false);
    pthread_mutex_unlock(&unknowns->lock);
}

/* ---- too many, and silent ---- */

void psr_unknowns_end(psr_unknowns *unknowns, int fd)
{
    pthread_mutex_lock(&unknowns->lock);
    psr_half_open_end(&unknowns->half_open, fd);
    pthread_mutex_unlock(&unknowns->lock);
}

void psr_unknowns_trim(psr_unknowns *unknowns, size_t most, bool settled)
{
    pthread_mutex_lock(&unknowns->lock);
    psr_half_open_trim(&unknowns->half_open, most, settled);
    pthread_mutex_unlock(&unknowns->lock);
}

size_t psr_unknowns_end_silent(psr_unknowns *unknowns, int64_t until_ms)
{
    size_t over = 0;
    pthread_mutex_lock(&unknowns->lock);
    while (over < unknowns->count && unknowns->let_in[over].since_ms <= until_ms)
        over++;
    if (over > 0)
        memmove(unknowns->let_in, unknowns->let_in + over,
                (unknowns->count - over) * sizeof *unknowns->let_in);
    unknowns->count -= over;
    size_t ended = psr_half_open_end_silent(&unknowns->half_open, until_ms);
    pthread_mutex_unlock(&unknowns->lock);
    return ended;
}

int64_t psr_unknowns_oldest_ms(psr_unknowns *unknowns)
{
    pthread_mutex_lock(&unknowns->lock);
    int64_t oldest_ms = psr_half_open_oldest_ms(&unknowns->half_open);
    if (unknowns->count > 0 && unknowns->let_in[0].since_ms < oldest_ms)
        oldest_ms = unknowns->let_in[0].since_ms;
    pthread_mutex_unlock(&unknowns->lock);
    return oldest_ms;
}
