/* Members on other hosts whose process has ended, and a scheduler that has. No kernel tells this
 * process of that, but two together do: the one of this host, that the member's connection is
 * closed, and the one of the member's host, that nothing listens at its endpoint any more. So when
 * a connection has ended, who had it is looked for, and its endpoint is connected to: three times,
 * with pauses, in which a member that lives would connect again. It has ended if all are refused
 * and it has not come back.
 *
 * No living member is taken for one that has ended. It listens as long as it lives, and a kernel
 * refuses only where nothing listens: a listener with too many connections is not refused, it gets
 * no answer. Nor is a host that is silent, or a port that another process has by now, a proof: the
 * deadline tells then. (A firewall that cuts both ways and refuses in a host's name is believed; it
 * has cut the member off for good.) */
#include "net/zmq/transport_zmq_private.h"

#include "base/clock.h"
#include "net/address/reach.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A peer that lives comes back after 50 to 100 ms, or 200 more (ZMQ_RECONNECT_IVL). So it is asked
 * for 100, 300 and 700 ms after its connection has ended. */
#define FIRST_MS 100
#define REFUSALS 3
#define ANSWER_MS 1000 /* how long an answer is awaited, and between two tries without one */
#define MADE_MOST 2    /* a listener that answers so often is not about to end */

#define NEVER INT64_MAX

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

static void hang_up(const psr_zmq_transport *transport, psr_zmq_far *far)
{
    if (far->fd < 0)
        return;
    (void)epoll_ctl(transport->far, EPOLL_CTL_DEL, far->fd, NULL);
    close(far->fd);
    far->fd = -1;
}

/* ---- beginning and end ---- */

psr_err psr_zmq_watch_far(psr_zmq_transport *transport)
{
    transport->far = epoll_create1(EPOLL_CLOEXEC);
    if (transport->far < 0)
        return psr_fail(PSR_ERR_IO, "no descriptor to wait on");
    transport->watched[PSR_ZMQ_WATCHED_FAR] =
        (struct pollfd){.fd = transport->far, .events = POLLIN};
    psr_inbox_tell_ends(transport->inbox);
    transport->far_look_ms = NEVER;
    atomic_store(&transport->far_due_ms, NEVER);
    return PSR_OK;
}

void psr_zmq_close_far(psr_zmq_transport *transport)
{
    if (transport->far >= 0)
        close(transport->far);
}

psr_err psr_zmq_begin_far(psr_zmq_transport *transport, psr_peer peer, psr_zmq_far *far,
                          const char *endpoint)
{
    if (transport->far < 0 || strncmp(endpoint, "tcp://", 6) != 0 ||
        (peer.role == PSR_ROLE_SCHEDULER) != transport->options.misses_scheduler)
        return PSR_OK;
    char *copy = strdup(endpoint);
    if (copy == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a channel");
    *far = (psr_zmq_far){.endpoint = copy, .fd = -1, .due_ms = NEVER};
    return PSR_OK;
}

/* If the connection has ended meanwhile, the descriptor may be another one of this process; it is
 * none to that port of another host. */
void psr_zmq_far_connected(psr_zmq_transport *transport, int fd)
{
    psr_zmq_channel *c = psr_zmq_channel_of(transport, (psr_peer){PSR_ROLE_SCHEDULER, 0});
    char endpoint[PSR_ADDRESS_BYTES + 16];
    if (c == NULL || c->far.endpoint == NULL ||
        !psr_reach_end_of(fd, c->far.endpoint, endpoint, sizeof endpoint))
        return;
    char *copy = strdup(endpoint);
    if (copy == NULL)
        return; /* then silence tells */
    free(c->far.endpoint);
    c->far.endpoint = copy;
}

void psr_zmq_end_far(psr_zmq_transport *transport, psr_zmq_far *far)
{
    if (far->endpoint == NULL)
        return;
    hang_up(transport, far);
    free(far->endpoint);
    *far = (psr_zmq_far){.endpoint = NULL};
}

/* ---- asking for a member ---- */

static void take_answer(psr_zmq_transport *transport, psr_peer peer, psr_zmq_far *far,
                        psr_reach_answer answer, int64_t now_ms)
{
    const psr_half_open_state state = psr_inbox_state_of(transport->inbox, peer);
    hang_up(transport, far);
    if (state == PSR_HALF_OPEN_CONNECTED) {
        far->due_ms = NEVER; /* it is back */
    } else if (answer == PSR_REACH_REFUSED) {
        far->refused++;
        far->due_ms = now_ms + ((int64_t)FIRST_MS << (far->refused < REFUSALS ? far->refused : 0));
        far->ended = far->refused >= REFUSALS && state == PSR_HALF_OPEN_ENDED;
    } else {
        far->refused = 0;
        far->made += answer == PSR_REACH_MADE;
        far->due_ms = far->made < MADE_MOST ? now_ms + ANSWER_MS : NEVER;
    }
    if (far->ended)
        far->due_ms = NEVER;
}

static void ask(psr_zmq_transport *transport, psr_peer peer, psr_zmq_far *far, int64_t now_ms)
{
    int fd = -1;
    const psr_reach_answer answer = psr_reach_begin(far->endpoint, &fd);
    if (answer != PSR_REACH_NONE_YET) {
        take_answer(transport, peer, far, answer, now_ms);
        return;
    }
    struct epoll_event event = {.events = EPOLLOUT};
    (void)epoll_ctl(transport->far, EPOLL_CTL_ADD, fd, &event); /* if not, it is looked at later */
    far->fd = fd;
    far->due_ms = now_ms + ANSWER_MS;
}

static void go_on(psr_zmq_transport *transport, psr_peer peer, psr_zmq_far *far, int64_t now_ms)
{
    const psr_reach_answer answer = far->fd >= 0 ? psr_reach_look(far->fd) : PSR_REACH_NONE_YET;
    if (answer != PSR_REACH_NONE_YET)
        take_answer(transport, peer, far, answer, now_ms);
    else if (far->fd >= 0 && far->due_ms <= now_ms)
        take_answer(transport, peer, far, PSR_REACH_FAILED, now_ms);
    else if (far->fd < 0 && far->due_ms <= now_ms)
        ask(transport, peer, far, now_ms);
}

/* Some connection has ended a while ago: asks for the member whose it was. */
static void look(psr_zmq_transport *transport, psr_peer peer, psr_zmq_far *far, int64_t now_ms)
{
    const psr_half_open_state state = psr_inbox_state_of(transport->inbox, peer);
    if (state == PSR_HALF_OPEN_ENDING)
        transport->far_look_ms = now_ms + FIRST_MS;
    if (state != PSR_HALF_OPEN_ENDED || far->due_ms != NEVER || far->ended)
        return;
    far->refused = far->made = 0;
    far->due_ms = now_ms;
}

/* Calls one of them for every member that may be on another host. */
static void for_each(psr_zmq_transport *transport,
                     void (*call)(psr_zmq_transport *transport, psr_peer peer, psr_zmq_far *far,
                                  int64_t now_ms),
                     int64_t now_ms)
{
    for (uint32_t role = 0; role < PSR_ZMQ_ROLES; role++)
        for (uint32_t rank = 0; rank < transport->channel_counts[role]; rank++) {
            psr_zmq_far *far = &transport->channels[role][rank].far;
            if (far->endpoint != NULL)
                call(transport, (psr_peer){(psr_role)role, rank}, far, now_ms);
        }
}

static void note_due(psr_zmq_transport *transport, psr_peer peer, psr_zmq_far *far, int64_t now_ms)
{
    (void)peer, (void)now_ms;
    transport->far_any_ended = transport->far_any_ended || (far->ended && !far->told);
    atomic_store(&transport->far_due_ms, earlier(atomic_load(&transport->far_due_ms), far->due_ms));
}

bool psr_zmq_far_ended(psr_zmq_transport *transport, psr_peer *ret_peer)
{
    for (uint32_t role = 0; role < PSR_ZMQ_ROLES && transport->far_any_ended; role++)
        for (uint32_t rank = 0; rank < transport->channel_counts[role]; rank++) {
            psr_zmq_far *far = &transport->channels[role][rank].far;
            if (far->endpoint == NULL || !far->ended || far->told)
                continue;
            far->told = true;
            *ret_peer = (psr_peer){(psr_role)role, rank};
            return true;
        }
    transport->far_any_ended = false;
    return false;
}

psr_err psr_zmq_serve_far(psr_zmq_transport *transport)
{
    if (transport->far < 0)
        return PSR_OK;
    const bool answered = atomic_load(&transport->far_answers);
    const bool ended = psr_inbox_any_ended(transport->inbox);
    const int64_t due_ms = atomic_load(&transport->far_due_ms);
    if (!answered && !ended && due_ms == NEVER)
        return PSR_OK;
    const int64_t now_ms = psr_clock_ms();
    atomic_store(&transport->far_answers, false);
    if (ended)
        transport->far_look_ms = earlier(transport->far_look_ms, now_ms + FIRST_MS);
    if (!answered && !ended && now_ms < due_ms)
        return PSR_OK;
    if (transport->far_look_ms <= now_ms) {
        transport->far_look_ms = NEVER;
        for_each(transport, look, now_ms);
    }
    for_each(transport, go_on, now_ms);
    atomic_store(&transport->far_due_ms, transport->far_look_ms);
    for_each(transport, note_due, now_ms);
    if (!transport->far_any_ended)
        return PSR_OK;
    if (!transport->options.misses_scheduler)
        return psr_fail(PSR_ERR_CANCELLED, "a member has ended");
    psr_peer ended_peer;
    while (psr_zmq_far_ended(transport, &ended_peer))
        ; /* it is told here, once */
    return psr_fail(PSR_ERR_PEER, "the scheduler at %s: its process has ended",
                    transport->scheduler);
}

int psr_zmq_far_wait_ms(const psr_zmq_transport *transport, int timeout_ms)
{
    const int64_t due_ms = transport->far >= 0 ? atomic_load(&transport->far_due_ms) : NEVER;
    if (due_ms == NEVER)
        return timeout_ms;
    const int64_t left_ms = due_ms - psr_clock_ms();
    /* at least 1: another thread may be the one that goes on */
    const int most_ms = left_ms > 1 ? (int)left_ms : 1;
    return timeout_ms < 0 || timeout_ms > most_ms ? most_ms : timeout_ms;
}
