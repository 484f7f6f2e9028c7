/* Transports over real loopback sockets, for the tests of net. */
#ifndef PSR_TESTS_NETWORK_FIXTURE_H
#define PSR_TESTS_NETWORK_FIXTURE_H

#include "base/clock.h"
#include "net/trust/keys/keys.h"
#include "net/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WAIT_MS 100000 /* far above what anything takes here: only a failure waits so long */

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};
__attribute__((unused)) static const psr_peer shard0 = {PSR_ROLE_SHARD, 0};
__attribute__((unused)) static const psr_peer worker0 = {PSR_ROLE_WORKER, 0};
__attribute__((unused)) static const psr_peer worker1 = {PSR_ROLE_WORKER, 1};

#define assert_ok(expr)                                                                            \
    do {                                                                                           \
        psr_err assert_ok_err_ = (expr);                                                           \
        if (assert_ok_err_ != PSR_OK)                                                              \
            fail_msg("%s: %s: %s", #expr, psr_err_name(assert_ok_err_), psr_err_detail());         \
    } while (0)

#define assert_fails(expr, code, text)                                                             \
    do {                                                                                           \
        psr_err assert_fails_err_ = (expr);                                                        \
        assert_string_equal(psr_err_name(assert_fails_err_), psr_err_name(code));                  \
        if (strstr(psr_err_detail(), text) == NULL)                                                \
            fail_msg("\"%s\" lacks \"%s\"", psr_err_detail(), text);                               \
    } while (0)

/* The keys of a run with one scheduler, one shard and two workers: in that order. */
typedef struct run_keys {
    psr_keys *sets;
    size_t count;
} run_keys;

static inline run_keys make_keys(bool curve)
{
    run_keys keys;
    assert_ok(psr_keys_generate(2, 1, curve, &keys.sets, &keys.count));
    for (size_t i = 0; i < keys.count; i++)
        keys.sets[i].bare = !curve; /* most tests are about TCP without CURVE */
    return keys;
}

/* The same without CURVE, where all share one token and names are believed. */
static inline run_keys make_one_token(void)
{
    run_keys keys = make_keys(false);
    char *json;
    assert_ok(psr_keys_to_shared_json(keys.sets, &json));
    for (size_t i = 0; i < keys.count; i++) {
        psr_keys_done(&keys.sets[i]);
        assert_ok(psr_keys_from_json(json, strlen(json), scheduler, &keys.sets[i]));
    }
    free(json);
    return keys;
}

static inline void free_keys(run_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        psr_keys_done(&keys->sets[i]);
    free(keys->sets);
}

static inline const psr_keys *keys_of(const run_keys *keys, psr_peer peer)
{
    return &keys->sets[peer.role == PSR_ROLE_SCHEDULER ? 0
                       : peer.role == PSR_ROLE_SHARD   ? 1
                                                       : 2 + peer.rank];
}

/* What the last transport said about strangers. */
static char stranger_lines[65536];

static inline void note_stranger(void *context, const char *line)
{
    (void)context;
    size_t used = strlen(stranger_lines);
    snprintf(stranger_lines + used, sizeof stranger_lines - used, "%s\n", line);
}

static inline psr_transport *open_as(const psr_keys *keys, psr_peer self)
{
    psr_zmq_options options = {
        .self = self, .keys = keys, .watches_ways = true, .log_stranger = note_stranger};
    psr_transport *transport;
    assert_ok(psr_transport_zmq_new(&options, &transport));
    return transport;
}

static inline psr_transport *open_member(const run_keys *keys, psr_peer self)
{
    return open_as(keys_of(keys, self), self);
}

static inline void join_to(psr_transport *from, psr_peer peer, const psr_transport *to)
{
    assert_ok(psr_transport_connect(from, peer, psr_transport_endpoint(to), NULL));
}

static inline psr_message *receive(psr_transport *transport)
{
    psr_message *message = NULL;
    assert_ok(psr_transport_recv(transport, WAIT_MS, &message));
    return message;
}

static inline void send_number(psr_transport *transport, psr_peer to, uint64_t number)
{
    psr_head head = {.type = PSR_MSG_HELD, .fields = {number}};
    assert_ok(psr_transport_send(transport, to, &head, NULL));
}

static inline void receive_number(psr_transport *transport, psr_peer from, uint64_t number)
{
    psr_message *message = receive(transport);
    assert_true(psr_peer_equal(message->from, from));
    assert_int_equal(message->head.type, PSR_MSG_HELD);
    assert_int_equal(message->head.fields[0], number);
    psr_message_free(&message);
}

/* Serves the transport until it has counted so many strangers; nothing may be delivered
 * meanwhile. */
static inline void await_strangers(psr_transport *transport, uint64_t count)
{
    int64_t end_ms = psr_clock_ms() + WAIT_MS;
    for (;;) {
        psr_transport_counts counts;
        psr_transport_counts_get(transport, &counts);
        psr_message *message = NULL;
        psr_err err = psr_transport_recv(transport, counts.strangers >= count ? 0 : 20, &message);
        if (err != PSR_ERR_TIMEOUT)
            fail_msg("%s: %s", psr_err_name(err), psr_err_detail());
        if (counts.strangers >= count)
            return;
        if (psr_clock_ms() > end_ms)
            fail_msg("%llu strangers rather than %llu", (unsigned long long)counts.strangers,
                     (unsigned long long)count);
    }
}

/* The same until it has said that of a stranger, who is counted before that. */
static inline void await_line(psr_transport *transport, const char *text)
{
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; strstr(stranger_lines, text) == NULL;) {
        psr_message *message = NULL;
        psr_err err = psr_transport_recv(transport, 20, &message);
        if (err != PSR_ERR_TIMEOUT)
            fail_msg("%s: %s", psr_err_name(err), psr_err_detail());
        if (psr_clock_ms() > end_ms)
            fail_msg("\"%s\" lacks \"%s\"", stranger_lines, text);
    }
}

#endif
