/* What the two halves of an exchange share: exchange.c (the compute thread's calls) and exchange_thread.c; and what the
 * session that it stands on asks it. For those files and session.c only. */
#ifndef PSR_WORKER_EXCHANGE_PRIVATE_H
#define PSR_WORKER_EXCHANGE_PRIVATE_H

#include "comm/comm.h"
#include "worker/session_private.h"

struct psr_exchange {
    psr_exchange_options options;
    psr_session *session;      /* the options', at hand */
    const psr_engine_ops *ops; /* the options' */
    psr_engine *engine;
    psr_optimizer *optimizer;           /* NULL when shards update */
    psr_collective *collective;         /* NULL when this process is the only worker */
    float *weights, *gradients;         /* gradients: NULL when the engine has arenas of its own */
    float **residuals;                  /* [psr_exchange_plays] arenas; NULL: nothing is owed */
    float *own_weights, *own_gradients; /* NULL: they are the owner's */

    /* ---- the compute thread's own ---- */
    psr_step step;
    uint32_t reported; /* buckets of this step */
    uint64_t operations_begun;
    void *collected; /* the copy of a caller's values on which a collective works; NULL: none */
    uint64_t bytes_sent_told, bytes_received_told, bytes_lent_told, gradient_bytes_told,
        gradient_float32_bytes_told;

    /* ---- written by the exchange thread, read by the compute thread ---- */
    _Atomic uint64_t *landed; /* [buckets]: steps whose weights the bucket has */
    _Atomic uint64_t operations_ended;
    _Atomic uint64_t bytes_sent, bytes_received, bytes_lent, staleness;
    _Atomic uint64_t gradient_bytes, gradient_float32_bytes; /* counted before they are sent */
    _Atomic int64_t exchange_ns;

    /* ---- the exchange thread's own (the compute thread's, with an engine that plays all ranks) ---- */
    uint64_t operations_taken;
    /* The steps now in exchange: when the first gradient was ready, and how many buckets have landed. At most
     * two of a bucket's steps overlap, so the low bit of the step tells them apart. */
    int64_t first_ready_ns[2];
    uint32_t landed_count[2];
};

/* ---- what the compute thread waits for: on that thread, but psr_exchange_waits ---- */

/* The bucket holds the weights of so many steps, and its gradient is not lent. */
bool psr_exchange_has_bucket(psr_exchange *exchange, uint32_t bucket, uint64_t steps);
bool psr_exchange_has_all(psr_exchange *exchange, uint64_t steps);
bool psr_exchange_operations_ended(psr_exchange *exchange);
/* Whom it waits for, in a collective or for weights; step and bucket of the latter. false: nobody. The exchange thread's. */
bool psr_exchange_waits(const psr_exchange *exchange, bool collective, psr_peer *ret_peer, uint64_t *ret_step,
                        uint32_t *ret_bucket);

/* exchange_thread.c. take: what a command tells engine or collective, on the engine's thread. */
psr_err psr_exchange_take(psr_exchange *exchange, const psr_command *command);
/* Something woke the exchange thread. */
psr_err psr_exchange_woken(psr_exchange *exchange);
/* The exchange thread has ended: nothing wakes it any more. */
void psr_exchange_stop(psr_exchange *exchange);
/* Its messages come to it from now on. */
void psr_exchange_register(psr_exchange *exchange);
/* Shows the compute thread what was counted. */
void psr_exchange_publish(psr_exchange *exchange);
psr_err psr_exchange_landed(void *exchange, uint64_t step, uint32_t bucket);
/* The engine's way out: counts what gradients take. */
psr_outbox psr_exchange_outbox(psr_exchange *exchange);

#endif
