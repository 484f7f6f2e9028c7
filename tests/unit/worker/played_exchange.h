/* The front of session and exchange and their thread, between an engine, a member and a transport
 * that are played here: the real ones have tests of their own, and played ones can wait for each
 * other. */
#ifndef PSR_TESTS_PLAYED_EXCHANGE_H
#define PSR_TESTS_PLAYED_EXCHANGE_H

#include "tests/unit/expect.h"

#include "worker/exchange/exchange.h"
#include "worker/session_private.h"

enum { BUCKETS = 3, LENGTH = 16 * BUCKETS };

/* ---- the network ---- */

/* What came out of the exchange thread, in order. */
typedef struct event {
    const char *what; /* "ready", or what was told or sent: "tell", "send", "failed" */
    psr_head head;    /* "tell", "send" */
    psr_peer to;
    uint64_t step;   /* "ready" */
    uint32_t bucket; /* "ready" */
    psr_err status;  /* "failed" */
    size_t bytes;
    const void *payload; /* where it lay: there still when it was lent */
    float first;         /* of the payload */
    char text[256];
} event;

/* Waits for the n-th event (from 0). */
event *event_at(uint32_t n);

/* A message. Copies. deliver: from rank 0 of that role. */
void deliver_from(psr_peer from, psr_head head, const void *payload, size_t bytes);
void deliver(psr_role role, psr_head head, const void *payload, size_t bytes);
void deliver_landed(uint64_t step, uint32_t bucket);

/* What receives fails so from now on. */
void break_network(psr_err error);

/* ---- the engine ---- */

extern const psr_engine_ops played_ops, played_with_shards;

/* An ACK made the played engine lend a slice, which was sent. */
void give_back_the_loan(void);
uint32_t slices_lent(void);

/* ---- one exchange for each test ---- */

extern psr_config config;
extern psr_buckets buckets;
extern psr_session *session;
extern psr_exchange *exchange;

/* set_up_config: the test starts the exchange, when it has changed the configuration. */
int set_up_config(void **state);
void start(const psr_engine_ops *ops);
int set_up(void **state);
int tear_down(void **state);

void begin(uint64_t step, uint32_t batch);
void whole_step(uint64_t step);

/* The compute thread waits for this now. */
void until_it_waits_for(psr_wait wait);

/* Something to do on another thread while the test's own, the compute thread, waits. */
void meanwhile(void *(*function)(void *));
void *helper_result(void);

#endif
