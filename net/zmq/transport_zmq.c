/* The ZeroMQ transport: beginning and end, and receiving. One context per transport, so that
 * several live in one process. The inbox is a ROUTER under admission (net/trust/admission.h), each
 * channel a DEALER. */
#include "net/zmq/transport_zmq_private.h"

#include "base/clock.h"
#include "net/address/interface.h"
#include "net/reserve.h"
#include "net/zmq/sockets.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#define SOCKETS_MAX 8192
#define PIPED_MOST 64 /* messages of pipes, after which the sockets are looked at */
/* What it costs to wake a process that sleeps in poll: 10 to 50 us on the machines of
 * docs/measurements.md. */
#define LOOK_NS 50000
#define LOOKS 64 /* between two looks at the sockets: about a microsecond */

/* Lets the processor know that this is a loop that waits. */
static inline void psr_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool psr_zmq_is_ipc(const psr_zmq_options *options)
{
    return options->directory != NULL && options->directory[0] != '\0';
}

/* ---- receiving ---- */

/* Events that were consumed before are looked for once, without waiting. */
psr_err psr_zmq_watch(psr_zmq_transport *transport, int which, void *socket)
{
    int fd;
    size_t size = sizeof fd;
    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) != 0)
        return psr_zmq_failed("ZMQ_FD");
    transport->watched[which] = (struct pollfd){.fd = fd, .events = POLLIN};
    atomic_store(&transport->others, true);
    return PSR_OK;
}

/* The sockets' descriptors are watched, not the sockets: only who receives looks at those. libzmq
 * makes a descriptor readable when something happens to a socket whose events have all been taken,
 * as after a receive that found nothing (zmq_getsockopt(3), ZMQ_FD). */
static bool poll_sockets(psr_zmq_transport *transport, int fd, int timeout_ms)
{
    struct pollfd watched[PSR_ZMQ_WATCHED + 1];
    memcpy(watched, transport->watched, sizeof transport->watched);
    watched[PSR_ZMQ_WATCHED] = (struct pollfd){.fd = fd, .events = POLLIN};
    if (poll(watched, PSR_ZMQ_WATCHED + 1, psr_zmq_wait_ms(transport, timeout_ms)) <= 0)
        return false;
    if (watched[PSR_ZMQ_WATCHED_STRANGERS].revents || watched[PSR_ZMQ_WATCHED_REFUSED].revents ||
        watched[PSR_ZMQ_WATCHED_REPLIES].revents || watched[PSR_ZMQ_WATCHED_ANSWERS].revents)
        atomic_store(&transport->others, true);
    if (watched[PSR_ZMQ_WATCHED_LIVES].revents)
        atomic_store(&transport->ends, true);
    if (watched[PSR_ZMQ_WATCHED_FAR].revents)
        atomic_store(&transport->far_answers, true);
    atomic_store(&transport->news, true);
    return true;
}

static void zmq_transport_wait(psr_transport *base, int fd, int timeout_ms)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    psr_pipes_in *pipes = psr_zmq_pipes(transport);
    const bool may_sleep = pipes == NULL || psr_pipes_in_sleep(pipes);
    (void)poll_sockets(transport, fd, may_sleep ? timeout_ms : 0);
    if (pipes != NULL)
        psr_pipes_in_awake(pipes);
}

/* A thread that sleeps is woken by a system call and a switch of threads, on both sides. To look
 * for as long as that takes costs at most twice what the better of both would have cost (Karlin et
 * al., "Competitive randomized algorithms for nonuniform problems", Algorithmica 1994, section 2).
 * Where ranks outnumber cores, the rank that is waited for gets the core by the yield. */
static bool zmq_transport_look(psr_transport *base)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    const psr_pipes_in *pipes = psr_zmq_pipes(transport);
    if (pipes == NULL || !psr_pipes_in_are(pipes))
        return false;
    for (const int64_t end_ns = psr_clock_ns() + LOOK_NS;;) {
        for (int i = 0; i < LOOKS; i++) {
            if (psr_pipes_in_any(pipes) || atomic_load(&transport->woken))
                return true;
            psr_pause();
        }
        if (poll_sockets(transport, -1, 0))
            return true;
        if (psr_clock_ns() > end_ns)
            return false;
        sched_yield();
    }
}

/* Handles what does not come by the inbox. *ret_message stays NULL unless it is a message. */
static psr_err serve_others(psr_zmq_transport *transport, psr_message **ret_message)
{
    if (!atomic_exchange(&transport->others, false))
        return PSR_OK;
    psr_inbox_tell_strangers(transport->inbox);
    PSR_TRY(psr_zmq_check_answers(transport));
    PSR_TRY(psr_zmq_check_replies(transport, ret_message));
    return *ret_message == NULL && transport->refused != NULL ? psr_zmq_check_refused(transport)
                                                              : PSR_OK;
}

/* The descriptor is emptied first: a wake that comes between writes nothing, and what it is for is
 * seen after this. */
static bool take_wake(psr_zmq_transport *transport)
{
    uint64_t wakes;
    if (!atomic_load(&transport->woken))
        return false;
    (void)!read(transport->wake_fd, &wakes, sizeof wakes);
    atomic_exchange(&transport->woken, false);
    return true;
}

/* A look at a socket is a system call, where a look at a pipe is a few loads. So while there are
 * pipes, sockets are looked at when a wait has seen something there, once a millisecond, and after
 * some messages of pipes. */
static bool looks_at_sockets(psr_zmq_transport *transport, const psr_pipes_in *pipes)
{
    const int64_t now_ms = pipes != NULL && psr_pipes_in_are(pipes) ? psr_clock_ms() : 0;
    if (!atomic_exchange(&transport->news, false) && now_ms != 0 &&
        now_ms == transport->looked_ms && transport->piped < PIPED_MOST &&
        !psr_inbox_is_due(transport->inbox))
        return false;
    transport->looked_ms = now_ms;
    transport->piped = 0;
    return true;
}

static psr_err take_of_socket(psr_zmq_transport *transport, psr_message **ret_message)
{
    psr_message *message = NULL;
    psr_err err = psr_inbox_take(transport->inbox, &message);
    if (err != PSR_OK || message != NULL)
        atomic_store(&transport->news, true); /* there may be more */
    PSR_TRY(err);
    err = psr_zmq_see_introductions(transport);
    if (err != PSR_OK) /* of another member, perhaps */
        transport->kept = message;
    else
        *ret_message = message;
    return err;
}

/* The next message, of a pipe or of the socket; then what comes beside messages. *ret_message stays
 * NULL if there is none. */
static psr_err take_message(psr_zmq_transport *transport, psr_message **ret_message)
{
    psr_pipes_in *pipes = psr_zmq_pipes(transport);
    if (transport->kept != NULL) {
        *ret_message = transport->kept;
        transport->kept = NULL;
        return PSR_OK;
    }
    if (pipes != NULL && transport->piped < PIPED_MOST) {
        PSR_TRY(psr_inbox_take_piped(transport->inbox, ret_message));
        if (*ret_message != NULL) {
            transport->piped++;
            return PSR_OK;
        }
    }
    if (!looks_at_sockets(transport, pipes)) {
        psr_borrower_settle(psr_sharing_borrower(transport->sharing));
        return PSR_OK;
    }
    PSR_TRY(take_of_socket(transport, ret_message));
    if (*ret_message == NULL)
        PSR_TRY(psr_zmq_serve_sharing(transport));
    /* What has come from a pipe's writer since, or for its wake. */
    return *ret_message == NULL && pipes != NULL
               ? psr_inbox_take_piped(transport->inbox, ret_message)
               : PSR_OK;
}

static psr_err zmq_transport_recv(psr_transport *base, int timeout_ms, psr_message **ret_message)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    int64_t end_ms = timeout_ms > 0 ? psr_clock_ms() + timeout_ms : 0;
    for (bool last = timeout_ms == 0;;) {
        psr_message *message = NULL;
        PSR_TRY(psr_zmq_serve_sealed(transport));
        PSR_TRY(take_message(transport, &message));
        if (message != NULL) {
            if (transport->sharing != NULL)
                psr_borrower_busy(psr_sharing_borrower(transport->sharing));
            psr_zmq_greet_scheduler(transport, message);
            *ret_message = message;
            return PSR_OK;
        }
        if (take_wake(transport))
            return psr_fail(PSR_ERR_CANCELLED, "woken");
        PSR_TRY(serve_others(transport, &message));
        if (message != NULL) {
            *ret_message = message;
            return PSR_OK;
        }
        PSR_TRY(psr_zmq_serve_lives(transport));
        PSR_TRY(psr_zmq_serve_far(transport));
        if (last)
            return psr_fail(PSR_ERR_TIMEOUT, "no message within %d ms", timeout_ms);
        int64_t left_ms = timeout_ms < 0 ? -1 : end_ms - psr_clock_ms();
        if (timeout_ms >= 0 && left_ms <= 0) {
            left_ms = 0;
            last = true;
        }
        zmq_transport_wait(base, -1, (int)left_ms);
    }
}

static void zmq_transport_wake(psr_transport *base)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    uint64_t one = 1;
    if (!atomic_exchange(&transport->woken, true))
        (void)!write(transport->wake_fd, &one, sizeof one);
}

/* ---- the inbox ---- */

static void zmq_transport_retire(psr_transport *base, psr_peer peer)
{
    psr_inbox_retire(((psr_zmq_transport *)base)->inbox, peer);
}

static void zmq_transport_refuse(psr_transport *base, const psr_message *message, psr_err status,
                                 const char *line)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    psr_inbox_refuse(transport->inbox, message, status, line);
    atomic_store(&transport->news, true); /* what it uses the socket for may hide input */
}

static void zmq_transport_refuse_peer(psr_transport *base, psr_peer peer, psr_err status,
                                      const char *line)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    psr_inbox_refuse_peer(transport->inbox, peer, status, line);
    atomic_store(&transport->news, true);
}

static const char *zmq_transport_endpoint(const psr_transport *base)
{
    return psr_inbox_endpoint(((const psr_zmq_transport *)base)->inbox);
}

static uint64_t zmq_transport_strangers(const psr_transport *base)
{
    return psr_inbox_strangers(((const psr_zmq_transport *)base)->inbox);
}

/* ---- beginning and end ---- */

static void zmq_transport_free(psr_transport *base, int linger_ms)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    psr_zmq_drain_sealed(transport, linger_ms);
    psr_message_free(&transport->kept);
    psr_inbox_free(transport->inbox, linger_ms);
    for (size_t role = 0; role < PSR_ZMQ_ROLES; role++) {
        for (size_t rank = 0; rank < transport->channel_counts[role]; rank++)
            if (transport->channels[role][rank].dealer != NULL) {
                psr_zmq_end_attempt(transport, &transport->channels[role][rank].way);
                psr_zmq_end_far(transport, &transport->channels[role][rank].far);
                psr_zmq_end_sealing(transport, &transport->channels[role][rank], linger_ms);
                psr_zmq_close_dealer(transport->channels[role][rank].dealer, linger_ms);
                psr_unsent_free(transport->channels[role][rank].unsent);
            }
        free(transport->channels[role]);
    }
    if (transport->refused != NULL)
        zmq_close(transport->refused);
    while (transport->ctx != NULL && zmq_ctx_term(transport->ctx) != 0 && zmq_errno() == EINTR)
        ;
    psr_zmq_close_sealed(transport);
    /* Last: what was sent still refers to it, and stays mapped where it has arrived. */
    psr_sharing_free(transport->sharing);
    psr_stage_free(transport->stage);
    psr_zmq_close_lives(transport);
    psr_zmq_close_far(transport);
    if (transport->wake_fd >= 0)
        close(transport->wake_fd);
    free(transport);
}

/* Connections of strangers cost descriptors until their handshake times out: as many as this
 * process may have. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static psr_err open_all(psr_zmq_transport *transport, const char *address)
{
    transport->ctx = zmq_ctx_new();
    transport->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (transport->ctx == NULL || transport->wake_fd < 0)
        return psr_fail(PSR_ERR_IO, "no descriptors for sockets: %s", strerror(errno));
    (void)zmq_ctx_set(transport->ctx, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    PSR_TRY(psr_inbox_new(transport->ctx, &transport->options, address, &transport->inbox));
    psr_zmq_name_share_path(transport);
    transport->watched[PSR_ZMQ_WATCHED_WAKE] =
        (struct pollfd){.fd = transport->wake_fd, .events = POLLIN};
    static const int not_yet[] = {PSR_ZMQ_WATCHED_REFUSED, PSR_ZMQ_WATCHED_REPLIES,
                                  PSR_ZMQ_WATCHED_SHARED,  PSR_ZMQ_WATCHED_SEALED,
                                  PSR_ZMQ_WATCHED_ROOM,    PSR_ZMQ_WATCHED_ANSWERS,
                                  PSR_ZMQ_WATCHED_FAR};
    for (size_t i = 0; i < sizeof not_yet / sizeof *not_yet; i++)
        transport->watched[not_yet[i]].fd = -1;
    PSR_TRY(psr_zmq_open_lives(transport));
    if (transport->options.misses_scheduler && address != NULL)
        PSR_TRY(psr_zmq_watch_far(transport));
    PSR_TRY(psr_zmq_open_sealed(transport));
    PSR_TRY(psr_zmq_watch(transport, PSR_ZMQ_WATCHED_INBOX, psr_inbox_socket(transport->inbox)));
    return psr_zmq_watch(transport, PSR_ZMQ_WATCHED_STRANGERS,
                         psr_inbox_strangers_socket(transport->inbox));
}

psr_err psr_transport_zmq_new(const psr_zmq_options *options, psr_transport **ret_transport)
{
    static const psr_transport_ops ops = {
        .send = psr_zmq_transport_send,
        .waiting = psr_zmq_transport_waiting,
        .recv = zmq_transport_recv,
        .wake = zmq_transport_wake,
        .wait = zmq_transport_wait,
        .look = zmq_transport_look,
        .connect = psr_zmq_transport_connect,
        .disconnect = psr_zmq_transport_disconnect,
        .retire = zmq_transport_retire,
        .refuse = zmq_transport_refuse,
        .unreached = psr_zmq_transport_unreached,
        .unsealed = psr_zmq_transport_unsealed,
        .awaits_sealing = psr_zmq_transport_awaits_sealing,
        .refuse_peer = zmq_transport_refuse_peer,
        .endpoint = zmq_transport_endpoint,
        .rename = psr_zmq_transport_rename,
        .strangers = zmq_transport_strangers,
        .share = psr_zmq_transport_share,
        .share_path = psr_zmq_transport_share_path,
        .lend_to = psr_zmq_transport_lend_to,
        .lend_from = psr_zmq_transport_lend_from,
        .lend_no_more = psr_zmq_transport_lend_no_more,
        .give_back = psr_zmq_transport_give_back,
        .lend_copies = psr_zmq_transport_lend_copies,
        .lends_to = psr_zmq_transport_lends_to,
        .watch_members = psr_zmq_transport_watch_members,
        .ended = psr_zmq_transport_ended,
        .scheduler_ended = psr_zmq_transport_scheduler_ended,
        .scheduler_rank = psr_zmq_transport_scheduler_rank,
        .free = zmq_transport_free,
    };
    const char *interface =
        options->interface != NULL && *options->interface ? options->interface : "127.0.0.1";
    char address[PSR_ADDRESS_BYTES];
    if (psr_zmq_is_ipc(options)) {
        PSR_TRY(psr_zmq_check_directory(options->directory));
    } else {
        PSR_TRY(psr_interface_address(interface, address));
        if (!options->keys->curve && !options->keys->bare)
            return psr_fail(PSR_ERR_USAGE, "interface %s: TCP needs CURVE keys (psring keygen)",
                            interface);
    }
    raise_descriptors();
    PSR_TRY(psr_reserve_check());
    psr_zmq_transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a transport");
    *transport = (psr_zmq_transport){.base.ops = &ops,
                                     .options = *options,
                                     .self = options->self,
                                     .wake_fd = -1,
                                     .answers = -1,
                                     .far = -1};
    psr_err err = open_all(transport, psr_zmq_is_ipc(options) ? NULL : address);
    if (err != PSR_OK) {
        zmq_transport_free(&transport->base, 0);
        return err;
    }
    *ret_transport = &transport->base;
    return PSR_OK;
}

void psr_transport_library(char *text, size_t size)
{
    int major, minor, patch;
    zmq_version(&major, &minor, &patch);
    snprintf(text, size, "libzmq %d.%d.%d", major, minor, patch);
}
