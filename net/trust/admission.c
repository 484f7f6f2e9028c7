#include "net/trust/admission.h"

#include "base/clock.h"
#include "base/system/thread.h"
#include "base/text/secret.h"
#include "net/reserve.h"
#include "net/zmq/sockets.h"
#include "net/zmq/inbox/unknowns.h"
#include "net/trust/zap.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* every build of libzmq since 4.3.0 has it, but declares it only as a draft */
#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93
#endif

#define ZAP_ENDPOINT "inproc://zeromq.zap.01"
#define REFUSALS_ENDPOINT "inproc://psring.refusals"
#define MONITOR_ENDPOINT "inproc://psring.inbox"
#define SEALED_MONITOR_ENDPOINT "inproc://psring.sealed"
#define DOMAIN "psring"
#define SEALED_DOMAIN "psring.sealed"
#define ORDERS_ENDPOINT "inproc://psring.orders"
#define DESCRIPTORS_MAX (1u << 24)
#define USER_MARK '#' /* "worker 1#17" */
#define END_MARK "e"  /* among the lines: a connection has ended */
/* events of the monitor taken before it is checked that there are not too many connections */
#define EVENTS_MAX 16

/* Who may open a second connection; its channel is the place in the list. */
typedef struct expected {
    psr_peer peer;
    char token[PSR_TOKEN_BYTES]; /* "": nobody */
} expected;

struct psr_admission {
    const psr_keys *keys;
    void *router, *sealed;
    pthread_mutex_t expected_lock;
    expected *expected;
    size_t expected_count;
    pthread_t thread;
    _Atomic uint64_t refused;
    atomic_bool members_look;
    atomic_bool tells_ends, any_ended; /* connections */
    void *refusals;                    /* PAIR: the owner's end of the lines */
    void *orders;                      /* PAIR: the owner's end */
    psr_unknowns unknowns;             /* used by both threads */
    /* The thread's: */
    void *zap, *lines, *monitor, *sealed_monitor, *ordered;
    psr_reserve reserve;
    bool pressed; /* a connection was ended for lack of descriptors */
    uint64_t numbers;
    int64_t asked_ms;      /* when the owner was asked to look at its inbox; 0: it was not */
    int64_t ask_again_ms;  /* the owner is not asked again before this */
    size_t half_open_max;  /* PSR_HALF_OPEN_MAX, or fewer where there are few descriptors */
    int64_t in_handshake;  /* connections accepted and neither admitted nor refused */
    uint64_t refused_open; /* refused connections whose DISCONNECTED has not come yet */
    int64_t *accepted_ms;  /* [descriptor] */
    size_t accepted_count;
    uint64_t in_between; /* connections that were admitted and have not ended their handshake */
    int64_t told_ms;     /* when the last of them was admitted */
};

/* ---- names ---- */

void psr_admission_name(psr_peer peer, char name[PSR_ADMISSION_NAME_BYTES])
{
    if (peer.rank == PSR_RANK_ANY)
        snprintf(name, PSR_ADMISSION_NAME_BYTES, "%s any", psr_role_name(peer.role));
    else
        snprintf(name, PSR_ADMISSION_NAME_BYTES, "%s %" PRIu32, psr_role_name(peer.role),
                 peer.rank);
}

/* false: it is no such name. */
static bool read_name(const char *name, psr_peer *ret_peer)
{
    const char *space = strchr(name, ' ');
    if (space == NULL)
        return false;
    psr_peer peer = {.rank = PSR_RANK_ANY};
    for (peer.role = PSR_ROLE_SCHEDULER; peer.role <= PSR_ROLE_WORKER; peer.role++) {
        const char *role = psr_role_name(peer.role);
        if (strlen(role) == (size_t)(space - name) && memcmp(role, name, strlen(role)) == 0)
            break;
    }
    if (peer.role > PSR_ROLE_WORKER)
        return false;
    const char *digits = space + 1;
    if (strcmp(digits, "any") != 0) {
        if (*digits == '\0' || strlen(digits) > 9 || digits[strspn(digits, "0123456789")] != '\0')
            return false;
        peer.rank = (uint32_t)strtoul(digits, NULL, 10);
    }
    *ret_peer = peer;
    return true;
}

bool psr_admission_user_read(const char *user, psr_peer *ret_admitted, uint64_t *ret_number)
{
    char name[PSR_ADMISSION_NAME_BYTES];
    const char *mark = strchr(user, USER_MARK);
    if (mark == NULL || (size_t)(mark - user) >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(mark - user), user);
    if (!read_name(name, ret_admitted))
        return false;
    *ret_number = strtoull(mark + 1, NULL, 10);
    return true;
}

/* ---- the decision ---- */

/* Compares all of both whatever they are, so that the time says nothing of where they differ. */
static bool same_token(const char *token, const uint8_t *claimed, size_t claimed_bytes)
{
    size_t bytes = strlen(token);
    if (bytes == 0 || claimed_bytes != bytes)
        return false;
    unsigned difference = 0;
    for (size_t i = 0; i < bytes; i++)
        difference |= (unsigned)((uint8_t)token[i] ^ claimed[i]);
    return difference == 0;
}

/* The token says which member it is. If the name given is another member's, HELLO repeats it and is
 * refused there. */
static const char *admit_own_token(const psr_admission *admission, const psr_zap_frame *token,
                                   psr_peer *ret_peer)
{
    const struct psr_member_key *whose = NULL;
    for (size_t i = 0; i < admission->keys->member_count; i++)
        if (same_token(admission->keys->members[i].public_key, token->bytes, token->size))
            whose = &admission->keys->members[i];
    if (whose == NULL)
        return "its token is no member's of this run";
    *ret_peer = whose->peer;
    return NULL;
}

static const char *admit_token(const psr_admission *admission, const psr_zap_request *request,
                               psr_peer *ret_peer)
{
    const psr_zap_frame *name = &request->frames[PSR_ZAP_CREDENTIALS], *token = name + 1;
    if (request->count < PSR_ZAP_CREDENTIALS + 2)
        return "no name and token";
    if (admission->keys->member_count > 0)
        return admit_own_token(admission, token, ret_peer);
    if (!same_token(admission->keys->token, token->bytes, token->size))
        return "the token is not this run's";
    char text[PSR_ADMISSION_NAME_BYTES];
    psr_zap_text(name, text, sizeof text);
    return read_name(text, ret_peer) ? NULL : "its name is not one of a member";
}

static const char *admit_key(const psr_admission *admission, const psr_zap_request *request,
                             psr_peer *ret_peer)
{
    const psr_zap_frame *key = &request->frames[PSR_ZAP_CREDENTIALS];
    char text[PSR_KEY_Z85];
    if (key->size != 32 || zmq_z85_encode(text, key->bytes, 32) == NULL)
        return "no key";
    for (size_t i = 0; i < admission->keys->member_count; i++)
        if (strcmp(admission->keys->members[i].public_key, text) == 0) {
            *ret_peer = admission->keys->members[i].peer;
            return NULL;
        }
    return "its key is not on the roster";
}

/* For the second connection. The name is the channel's number. */
static const char *admit_sealed(psr_admission *admission, const psr_zap_request *request,
                                psr_peer *ret_peer)
{
    const psr_zap_frame *name = &request->frames[PSR_ZAP_CREDENTIALS], *token = name + 1;
    char text[12];
    psr_zap_text(name, text, sizeof text);
    if (request->count < PSR_ZAP_CREDENTIALS + 2 || text[0] == '\0' ||
        text[strspn(text, "0123456789")] != '\0')
        return "it names no channel for sealed messages";
    unsigned long long channel = strtoull(text, NULL, 10);
    pthread_mutex_lock(&admission->expected_lock);
    bool is_one = channel < admission->expected_count &&
                  same_token(admission->expected[channel].token, token->bytes, token->size);
    if (is_one)
        *ret_peer = admission->expected[channel].peer;
    pthread_mutex_unlock(&admission->expected_lock);
    return is_one ? NULL : "its token is no channel's for sealed messages";
}

psr_err psr_admission_expect(psr_admission *admission, uint32_t channel, const char *token,
                             psr_peer admitted)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&admission->expected_lock);
    if (channel >= admission->expected_count) {
        size_t count = 2 * (size_t)channel + 16;
        expected *grown = psr_secret_grow(
            admission->expected, admission->expected_count * sizeof *grown, count * sizeof *grown);
        if (grown == NULL) {
            err = psr_fail(PSR_ERR_NOMEM, "no memory for %zu channels", count);
        } else {
            memset(grown + admission->expected_count, 0,
                   (count - admission->expected_count) * sizeof *grown);
            admission->expected = grown;
            admission->expected_count = count;
        }
    }
    if (err == PSR_OK) {
        expected *e = &admission->expected[channel];
        e->peer = admitted;
        snprintf(e->token, sizeof e->token, "%s", token);
    }
    pthread_mutex_unlock(&admission->expected_lock);
    return err;
}

void psr_admission_expect_no_more(psr_admission *admission, uint32_t channel)
{
    pthread_mutex_lock(&admission->expected_lock);
    if (channel < admission->expected_count)
        explicit_bzero(&admission->expected[channel], sizeof *admission->expected);
    pthread_mutex_unlock(&admission->expected_lock);
}

/* How libzmq calls the other end of an ipc socket. */
static bool read_ipc_address(const char *address, unsigned *ret_uid, unsigned *ret_gid,
                             int *ret_process)
{
    return sscanf(address, "localhost:%u:%u:%d", ret_uid, ret_gid, ret_process) == 3;
}

static void tell(psr_admission *admission, const char *address, const char *reason)
{
    char line[256], from[128] = "";
    unsigned uid, gid;
    int process;
    if (read_ipc_address(address, &uid, &gid, &process))
        snprintf(from, sizeof from, " (process %d of user %u)", process, uid);
    else if (*address != '\0')
        snprintf(from, sizeof from, " from %.64s", address);
    int bytes = snprintf(line, sizeof line, "turned away a stranger%s: %s", from, reason);
    /* If the queue is full the line is lost; its length is the high-water mark. The count is still
     * kept. */
    (void)zmq_send(admission->lines, line,
                   (size_t)(bytes < (int)sizeof line ? bytes : (int)sizeof line - 1), ZMQ_DONTWAIT);
}

static void count_refused(psr_admission *admission, size_t connections)
{
    atomic_fetch_add_explicit(&admission->refused, connections, memory_order_relaxed);
    admission->refused_open += connections;
}

/* One whose handshake it was. */
static void count_handshake(psr_admission *admission)
{
    admission->in_handshake--;
    count_refused(admission, 1);
}

static void refuse(psr_admission *admission, const char *address, const char *reason)
{
    count_handshake(admission);
    tell(admission, address, reason);
}

/* ---- connections that are not known yet ---- */

/* false: too many connections of the member are unknown. */
static bool note_let_in(psr_admission *admission, psr_peer peer, const char *address)
{
    unsigned uid, gid;
    int process = 0;
    if (read_ipc_address(address, &uid, &gid, &process) && process <= 0)
        process = PSR_HALF_OPEN_FOREIGN;
    return psr_unknowns_let_in(&admission->unknowns, peer, process);
}

psr_connection psr_admission_known(psr_admission *admission, psr_peer admitted, int fd)
{
    return psr_unknowns_known(&admission->unknowns, admitted, fd);
}

void psr_admission_unknown(psr_admission *admission, psr_connection connection)
{
    psr_unknowns_again(&admission->unknowns, connection);
}

void psr_admission_end(psr_admission *admission, int fd)
{
    psr_unknowns_end(&admission->unknowns, fd);
}

/* The owner's inbox was empty after it was asked: who came before and is unknown still has said
 * nothing, or what nobody wanted to hear. */
static void end_silent(psr_admission *admission)
{
    int64_t until_ms = admission->asked_ms - PSR_SILENT_MS;
    admission->asked_ms = 0;
    size_t ended = psr_unknowns_end_silent(&admission->unknowns, until_ms);
    count_refused(admission, ended);
    for (size_t i = 0; i < ended; i++)
        tell(admission, "", "it was let in and said nothing that a member would say");
}

/* When the oldest unknown one has had its time: 0: now, -1: there is none. */
static int silent_timeout_ms(psr_admission *admission)
{
    if (admission->asked_ms != 0)
        return -1; /* the owner's answer comes as a message */
    int64_t now_ms = psr_clock_ms();
    int64_t oldest_ms = psr_unknowns_oldest_ms(&admission->unknowns);
    if (oldest_ms == INT64_MAX)
        return -1;
    int64_t due_ms = oldest_ms + PSR_SILENT_MS;
    due_ms = due_ms > admission->ask_again_ms ? due_ms : admission->ask_again_ms;
    return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

/* The next time that something is due. */
static int timeout_ms(psr_admission *admission)
{
    int silent_ms = silent_timeout_ms(admission);
    if (!psr_unknowns_count(&admission->unknowns))
        return silent_ms;
    return silent_ms < 0 || silent_ms > PSR_HALF_OPEN_LOOK_MS ? PSR_HALF_OPEN_LOOK_MS : silent_ms;
}

static void end_greedy(psr_admission *admission)
{
    size_t ended = psr_unknowns_end_greedy(&admission->unknowns);
    count_refused(admission, ended);
    for (size_t i = 0; i < ended; i++)
        tell(admission, "", "it was let in and sent more than a member would");
}

/* Sends an empty line: the owner looks at its inbox before it reads it. */
static void ask_owner(psr_admission *admission)
{
    if (zmq_send(admission->lines, "", 0, ZMQ_DONTWAIT) == 0)
        admission->asked_ms = psr_clock_ms();
    else /* there are lines that it has not read */
        admission->ask_again_ms = psr_clock_ms() + PSR_HANDSHAKE_MS;
}

static void answer_request(psr_admission *admission, const psr_zap_request *request)
{
    const psr_zap_frame *mechanism = &request->frames[PSR_ZAP_MECHANISM];
    psr_peer peer;
    const char *refusal = "no security mechanism";
    if (request->count <= PSR_ZAP_MECHANISM ||
        !psr_zap_is(&request->frames[PSR_ZAP_VERSION], "1.0"))
        refusal = "a request that libzmq does not make";
    else if (psr_zap_is(&request->frames[PSR_ZAP_DOMAIN], SEALED_DOMAIN))
        refusal =
            psr_zap_is(mechanism, "PLAIN") ? admit_sealed(admission, request, &peer) : refusal;
    else if (admission->keys->curve && psr_zap_is(mechanism, "CURVE"))
        refusal = admit_key(admission, request, &peer);
    else if (!admission->keys->curve && psr_zap_is(mechanism, "PLAIN"))
        refusal = admit_token(admission, request, &peer);

    char address[128], user[PSR_ADMISSION_USER_BYTES] = "";
    psr_zap_text(&request->frames[PSR_ZAP_ADDRESS], address, sizeof address);
    psr_zap_verdict verdict = refusal == NULL ? PSR_ZAP_LET_IN : PSR_ZAP_REFUSED;
    if (refusal == NULL && !note_let_in(admission, peer, address)) {
        verdict = PSR_ZAP_LATER;
        refusal = "its member has too many connections";
    }
    if (refusal == NULL) {
        psr_admission_name(peer, user);
        snprintf(user + strlen(user), 24, "%c%" PRIu64, USER_MARK, ++admission->numbers);
        admission->in_between++;
        admission->told_ms = psr_clock_ms();
    } else {
        refuse(admission, address, refusal);
    }
    psr_zap_answer(admission->zap, request, verdict, refusal, user);
}

/* ---- connections that never reach ZAP, from libzmq's monitor ----
 *
 * An event is a frame of u16 event and u32 value, in the machine's order, and a frame of the
 * endpoint.
 *
 * Not every failure has an event of its own: what is no greeting at all just ends in DISCONNECTED,
 * as a member's connection does. The two are told apart by whether any connection is still in its
 * handshake and whether this one is young enough to be. */

static bool read_event(void *monitor, uint16_t *ret_event, uint32_t *ret_value)
{
    uint8_t event[6], endpoint;
    if (zmq_recv(monitor, event, sizeof event, ZMQ_DONTWAIT) != (int)sizeof event ||
        zmq_recv(monitor, &endpoint, sizeof endpoint, ZMQ_DONTWAIT) < 0)
        return false;
    memcpy(ret_event, event, 2);
    memcpy(ret_value, event + 2, 4);
    return true;
}

/* When descriptor fd was accepted; NULL: no memory, or not one. */
static int64_t *accepted_at(psr_admission *admission, uint32_t fd)
{
    if (fd >= admission->accepted_count) {
        size_t count = (size_t)fd + 64;
        int64_t *grown =
            fd < DESCRIPTORS_MAX ? realloc(admission->accepted_ms, count * sizeof *grown) : NULL;
        if (grown == NULL)
            return NULL;
        memset(grown + admission->accepted_count, 0,
               (count - admission->accepted_count) * sizeof *grown);
        admission->accepted_ms = grown;
        admission->accepted_count = count;
    }
    return &admission->accepted_ms[fd];
}

static bool may_be_in_handshake(psr_admission *admission, uint32_t fd)
{
    const int64_t *at = accepted_at(admission, fd);
    return admission->in_handshake > 0 && at != NULL && psr_clock_ms() - *at < 2 * PSR_HANDSHAKE_MS;
}

/* Where descriptors run out it goes at once, member or not: it comes again, and what files need is
 * not there twice. */
static void add_half_open(psr_admission *admission, int fd, uint64_t bytes_max)
{
    bool pressed = psr_reserve_is_touched(&admission->reserve, fd);
    psr_unknowns_accepted(&admission->unknowns, fd, bytes_max, pressed);
    if (pressed) {
        tell(admission, "", "this process has no descriptors left for connections (ulimit -n)");
        admission->pressed = true;
    }
}

/* Whose it was the owner finds out. */
static void tell_end(psr_admission *admission)
{
    if (atomic_load(&admission->tells_ends) && !atomic_exchange(&admission->any_ended, true))
        (void)zmq_send(admission->lines, END_MARK, sizeof END_MARK - 1, ZMQ_DONTWAIT);
}

/* bytes_max: of a connection that is accepted. */
static void take_event(psr_admission *admission, uint16_t event, uint32_t value, uint64_t bytes_max)
{
    int64_t *at;
    switch (event) {
    case ZMQ_EVENT_ACCEPTED:
        admission->in_handshake++;
        if ((at = accepted_at(admission, value)) != NULL)
            *at = psr_clock_ms();
        add_half_open(admission, (int)value, bytes_max);
        break;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        admission->in_handshake--;
        if (admission->in_between > 0)
            admission->in_between--;
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        refuse(admission, "", "what it sends is not our protocol");
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        if (atomic_load(&admission->members_look))
            count_handshake(admission);
        else
            refuse(admission, "", "it went away or fell silent in the handshake");
        break;
    case ZMQ_EVENT_DISCONNECTED:
        tell_end(admission);
        if (admission->refused_open > 0)
            admission->refused_open--;
        else if (may_be_in_handshake(admission, value)) {
            refuse(admission, "", "what it sends is not our protocol");
            admission->refused_open--;
        }
        break;
    }
}

/* Nobody is let in but by this thread, so while nobody is in between, what was not let in before
 * will not be. One that dies in between is forgotten when its handshake would have timed out. */
static void end_the_oldest(psr_admission *admission)
{
    if (admission->in_between > 0 && psr_clock_ms() - admission->told_ms > 2 * PSR_HANDSHAKE_MS)
        admission->in_between = 0;
    size_t most = admission->pressed ? 0 : admission->half_open_max;
    psr_unknowns_trim(&admission->unknowns, most, admission->in_between == 0);
    admission->pressed = false;
}

/* libzmq reports that it has accepted a connection before it asks about it: so all its events are
 * taken before a request is answered. */
static void take_events(psr_admission *admission)
{
    uint16_t event;
    uint32_t value;
    void *const monitors[] = {admission->monitor, admission->sealed_monitor};
    unsigned taken = 0;
    for (size_t i = 0; i < 2 && monitors[i] != NULL; i++)
        while (read_event(monitors[i], &event, &value)) {
            take_event(admission, event, value, i == 1 ? PSR_HALF_OPEN_BYTES_MAX : 0);
            if (++taken % EVENTS_MAX == 0)
                end_the_oldest(admission);
        }
    end_the_oldest(admission);
}

/* false: the handler must end. */
static bool take_order(psr_admission *admission)
{
    char order;
    if (zmq_recv(admission->ordered, &order, sizeof order, ZMQ_DONTWAIT) == 0)
        return false;
    if (admission->asked_ms != 0)
        end_silent(admission);
    return true;
}

static void *admission_main(void *context)
{
    psr_admission *admission = context;
    zmq_pollitem_t items[] = {
        {.socket = admission->zap, .events = ZMQ_POLLIN},
        {.socket = admission->ordered, .events = ZMQ_POLLIN},
        {.socket = admission->monitor, .events = ZMQ_POLLIN},
        {.socket = admission->sealed_monitor, .events = ZMQ_POLLIN},
    };
    const int count = admission->sealed_monitor != NULL ? 4 : 3;
    int ready;
    while ((ready = zmq_poll(items, count, timeout_ms(admission))) >= 0 || errno == EINTR) {
        if (ready < 0)
            continue;
        if (items[1].revents && !take_order(admission))
            break;
        take_events(admission);
        psr_zap_request request;
        if (items[0].revents && psr_zap_receive(admission->zap, &request))
            answer_request(admission, &request);
        end_greedy(admission);
        if (silent_timeout_ms(admission) == 0)
            ask_owner(admission);
    }
    return NULL;
}

/* ---- setting up ---- */

static psr_err set_key(void *socket, int option, const char *z85, const char *what)
{
    return zmq_setsockopt(socket, option, z85, PSR_KEY_Z85) == 0 ? PSR_OK : psr_zmq_failed(what);
}

/* An inproc socket. bound: this end must be made first. hwm: most messages that may wait; 0: no
 * limit. */
static psr_err open_end(void *zmq_ctx, int type, const char *endpoint, bool bound, int hwm,
                        void **ret_socket)
{
    void *socket = zmq_socket(zmq_ctx, type);
    if (socket == NULL)
        return psr_zmq_failed("making a socket");
    *ret_socket = socket;
    PSR_TRY(psr_zmq_set(socket, ZMQ_LINGER, 0, "ZMQ_LINGER"));
    PSR_TRY(psr_zmq_set(socket, ZMQ_RCVHWM, hwm, "ZMQ_RCVHWM"));
    if ((bound ? zmq_bind(socket, endpoint) : zmq_connect(socket, endpoint)) != 0)
        return psr_zmq_failed(endpoint);
    return PSR_OK;
}

/* keys: NULL for the socket of sealed messages. */
static psr_err guard(const psr_keys *keys, void *socket, const char *domain, const char *monitor)
{
    PSR_TRY(psr_zmq_set_text(socket, ZMQ_ZAP_DOMAIN, domain, "ZMQ_ZAP_DOMAIN"));
    /* Without it CURVE lets everybody in while there is no handler, as when this one has ended
     * before the router. */
    PSR_TRY(psr_zmq_set(socket, ZMQ_ZAP_ENFORCE_DOMAIN, 1, "ZMQ_ZAP_ENFORCE_DOMAIN"));
    PSR_TRY(psr_zmq_set(socket, ZMQ_HANDSHAKE_IVL, PSR_HANDSHAKE_MS, "ZMQ_HANDSHAKE_IVL"));
    if (keys == NULL || !keys->curve)
        PSR_TRY(psr_zmq_set(socket, ZMQ_PLAIN_SERVER, 1, "ZMQ_PLAIN_SERVER"));
    else {
        PSR_TRY(psr_zmq_set(socket, ZMQ_CURVE_SERVER, 1, "ZMQ_CURVE_SERVER"));
        PSR_TRY(set_key(socket, ZMQ_CURVE_SECRETKEY, keys->secret_key, "ZMQ_CURVE_SECRETKEY"));
    }
    if (zmq_socket_monitor(
            socket, monitor,
            ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) != 0)
        return psr_zmq_failed("zmq_socket_monitor");
    return PSR_OK;
}

/* The monitor's end must take any number: libzmq's I/O thread would wait for room. */
static psr_err open_ends(psr_admission *admission, void *zmq_ctx)
{
    PSR_TRY(open_end(zmq_ctx, ZMQ_REP, ZAP_ENDPOINT, true, 0, &admission->zap));
    PSR_TRY(open_end(zmq_ctx, ZMQ_PAIR, REFUSALS_ENDPOINT, true, 100, &admission->refusals));
    PSR_TRY(open_end(zmq_ctx, ZMQ_PAIR, REFUSALS_ENDPOINT, false, 100, &admission->lines));
    PSR_TRY(open_end(zmq_ctx, ZMQ_PAIR, ORDERS_ENDPOINT, true, 0, &admission->ordered));
    PSR_TRY(open_end(zmq_ctx, ZMQ_PAIR, ORDERS_ENDPOINT, false, 0, &admission->orders));
    if (admission->sealed != NULL)
        PSR_TRY(open_end(zmq_ctx, ZMQ_PAIR, SEALED_MONITOR_ENDPOINT, false, 0,
                         &admission->sealed_monitor));
    return open_end(zmq_ctx, ZMQ_PAIR, MONITOR_ENDPOINT, false, 0, &admission->monitor);
}

/* A monitor that nobody reads would stop libzmq's I/O thread, so it is ended first. */
static void close_ends(psr_admission *admission)
{
    (void)zmq_socket_monitor(admission->router, NULL, 0);
    if (admission->sealed != NULL)
        (void)zmq_socket_monitor(admission->sealed, NULL, 0);
    void *ends[] = {admission->zap,           admission->refusals, admission->lines,
                    admission->ordered,       admission->orders,   admission->monitor,
                    admission->sealed_monitor};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends[i] != NULL)
            zmq_close(ends[i]);
}

static void done(psr_admission *admission)
{
    close_ends(admission);
    psr_unknowns_done(&admission->unknowns);
    free(admission->accepted_ms);
    if (admission->expected != NULL)
        explicit_bzero(admission->expected,
                       admission->expected_count * sizeof *admission->expected);
    free(admission->expected);
    pthread_mutex_destroy(&admission->expected_lock);
    free(admission);
}

psr_err psr_admission_new(void *zmq_ctx, void *zmq_router, void *zmq_sealed, const psr_keys *keys,
                          psr_admission **ret_admission)
{
    if (keys->curve && !zmq_has("curve"))
        return psr_fail(PSR_ERR_UNSUPPORTED, "this libzmq was built without CURVE");
    if (!keys->curve && keys->member_count == 0 && keys->token[0] == '\0')
        return psr_fail(PSR_ERR_USAGE, "no keys: neither a CURVE key pair nor a token");
    psr_admission *admission = calloc(1, sizeof *admission);
    if (admission == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an inbox");
    admission->keys = keys;
    admission->router = zmq_router;
    admission->sealed = zmq_sealed;
    pthread_mutex_init(&admission->expected_lock, NULL);
    psr_unknowns_init(&admission->unknowns, keys->curve, !keys->curve && keys->member_count == 0);
    psr_reserve_init(&admission->reserve);
    admission->half_open_max = psr_reserve_half_open(&admission->reserve, PSR_HALF_OPEN_MAX);
    psr_err err = guard(keys, zmq_router, DOMAIN, MONITOR_ENDPOINT);
    if (err == PSR_OK && zmq_sealed != NULL)
        err = guard(NULL, zmq_sealed, SEALED_DOMAIN, SEALED_MONITOR_ENDPOINT);
    if (err == PSR_OK)
        err = open_ends(admission, zmq_ctx);
    if (err == PSR_OK)
        err = psr_thread_start("psr-admission", admission_main, admission, &admission->thread);
    if (err != PSR_OK) {
        done(admission);
        return err;
    }
    *ret_admission = admission;
    return PSR_OK;
}

void psr_admission_members_look(psr_admission *admission)
{
    atomic_store(&admission->members_look, true);
}

void psr_admission_free(psr_admission *admission)
{
    if (admission == NULL)
        return;
    (void)zmq_send(admission->orders, "", 0, 0);
    pthread_join(admission->thread, NULL);
    done(admission);
}

psr_err psr_admission_apply(const psr_keys *keys, psr_peer self, void *zmq_dealer,
                            const char *peer_key)
{
    const bool one_token = !keys->curve && keys->member_count == 0;
    if (!one_token && (peer_key == NULL || strlen(peer_key) != PSR_KEY_Z85 - 1))
        return psr_fail(PSR_ERR_USAGE, "no %s is known for the peer",
                        keys->curve ? "CURVE key" : "token");
    if (keys->curve) {
        PSR_TRY(set_key(zmq_dealer, ZMQ_CURVE_SERVERKEY, peer_key, "ZMQ_CURVE_SERVERKEY"));
        PSR_TRY(set_key(zmq_dealer, ZMQ_CURVE_PUBLICKEY, keys->public_key, "ZMQ_CURVE_PUBLICKEY"));
        return set_key(zmq_dealer, ZMQ_CURVE_SECRETKEY, keys->secret_key, "ZMQ_CURVE_SECRETKEY");
    }
    char name[PSR_ADMISSION_NAME_BYTES];
    psr_admission_name(self, name);
    PSR_TRY(psr_zmq_set_text(zmq_dealer, ZMQ_PLAIN_USERNAME, name, "ZMQ_PLAIN_USERNAME"));
    return psr_zmq_set_text(zmq_dealer, ZMQ_PLAIN_PASSWORD, one_token ? keys->token : peer_key,
                            "ZMQ_PLAIN_PASSWORD");
}

psr_err psr_admission_apply_sealed(void *zmq_push, uint32_t channel, const char *token)
{
    char name[12];
    snprintf(name, sizeof name, "%" PRIu32, channel);
    PSR_TRY(psr_zmq_set_text(zmq_push, ZMQ_PLAIN_USERNAME, name, "ZMQ_PLAIN_USERNAME"));
    return psr_zmq_set_text(zmq_push, ZMQ_PLAIN_PASSWORD, token, "ZMQ_PLAIN_PASSWORD");
}

void *psr_admission_refusals(psr_admission *admission)
{
    return admission->refusals;
}

bool psr_admission_refusal(psr_admission *admission, char *line, size_t line_size)
{
    int bytes = psr_zmq_receive(admission->refusals, line, line_size - 1);
    if (bytes < 0)
        return false;
    if (bytes == 0) { /* asked to look at the inbox, which the owner has done */
        (void)psr_zmq_send(admission->orders, "l", 1, false);
        return psr_admission_refusal(admission, line, line_size);
    }
    if (bytes == sizeof END_MARK - 1 && memcmp(line, END_MARK, sizeof END_MARK - 1) == 0)
        return psr_admission_refusal(admission, line, line_size);
    line[(size_t)bytes < line_size - 1 ? (size_t)bytes : line_size - 1] = '\0';
    return true;
}

void psr_admission_tell_ends(psr_admission *admission)
{
    atomic_store(&admission->tells_ends, true);
}

bool psr_admission_any_ended(psr_admission *admission)
{
    return atomic_load(&admission->any_ended) && atomic_exchange(&admission->any_ended, false);
}

bool psr_admission_awaits(psr_admission *admission, psr_peer admitted)
{
    return psr_unknowns_await(&admission->unknowns, admitted);
}

uint64_t psr_admission_refused(const psr_admission *admission)
{
    return atomic_load_explicit(&admission->refused, memory_order_relaxed);
}
