/* The owner's side: sockets are put under admission, the handler's thread is started and ended, and
 * the owner hears what it has decided. And the other end, which asks for admission. */
#include "net/trust/admission_private.h"

#include "base/system/thread.h"
#include "net/zmq/sockets.h"

#include <inttypes.h>
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
#define ORDERS_ENDPOINT "inproc://psring.orders"

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
        err = guard(NULL, zmq_sealed, PSR_ADMISSION_SEALED_DOMAIN, SEALED_MONITOR_ENDPOINT);
    if (err == PSR_OK)
        err = open_ends(admission, zmq_ctx);
    if (err == PSR_OK)
        err = psr_thread_start("psr-admission", psr_admission_main, admission, &admission->thread);
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

/* ---- what the owner hears and says ---- */

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
    if (bytes == sizeof PSR_ADMISSION_END_MARK - 1 &&
        memcmp(line, PSR_ADMISSION_END_MARK, sizeof PSR_ADMISSION_END_MARK - 1) == 0)
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

/* ---- the other end ---- */

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
