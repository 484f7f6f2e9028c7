/* What the two halves of an exchange share: exchange.c (the compute thread's calls) and
 * exchange_thread.c; and what the session that it stands on asks it. For those files and session.c
 * only. */
#ifndef PSR_WORKER_EXCHANGE_EXCHANGE_PRIVATE_H
#define PSR_WORKER_EXCHANGE_EXCHANGE_PRIVATE_H

#include "comm/comm.h"
#include "worker/exchange/binding.h"
#include "worker/session_private.h"

struct psr_exchange {
    psr_exchange_options options;
    psr_session *session;               /* the options', at hand */
    psr_ways ways;                      /* of the present view */
    const psr_plan *plan;               /* the present view's */
    const psr_view *view;               /* held; NULL: the first, which is the options' plan */
    psr_binding *binding;               /* made from it */
    bool plays_all;                     /* one process plays every rank */
    bool closing;                       /* nobody hears any more that something came back */
    psr_optimizer *optimizer;           /* NULL as long as shards make all updates */
    psr_group *workers;                 /* all of the run; NULL when this process is the only one */
    psr_fences *fences;                 /* [buckets] gradients that a device is still writing */
    float *weights, *gradients;         /* gradients: NULL when the engine has arenas of its own */
    float **residuals;                  /* [psr_exchange_plays] arenas; NULL: nothing is owed */
    float *own_weights, *own_gradients; /* NULL: they are the owner's */

    /* ---- the compute thread's own ---- */
    psr_step step;
    uint32_t reported; /* buckets of this step */
    uint64_t fenced;   /* gradients with a fence, for an engine that plays all ranks: until now */
    uint64_t operations_begun;
    double pause_s; /* since the figures were last taken */
    /* The operation of all workers that was begun last. Its memory is the exchange's own, which
     * outlives the transport. */
    psr_request_options called;
    void *copied; /* of a caller's values, on which that operation works; NULL: none */
    uint64_t bytes_sent_told, bytes_received_told, bytes_lent_told, gradient_bytes_told,
        gradient_float32_bytes_told;

    /* ---- written by the exchange thread, read by the compute thread ---- */
    _Atomic uint64_t *landed; /* [buckets]: steps whose weights the bucket has */
    _Atomic uint64_t operations_ended;
    _Atomic uint64_t fences_passed; /* of those of `fenced` */
    _Atomic uint64_t bytes_sent, bytes_received, bytes_lent, staleness;
    _Atomic uint64_t gradient_bytes, gradient_float32_bytes; /* counted before they are sent */
    _Atomic int64_t exchange_ns;
    _Atomic bool bound; /* to the view that was asked for last */

    /* ---- the exchange thread's own (the compute thread's, with an engine that plays all ranks)
     * ---- */
    uint64_t operations_taken;
    psr_request *request; /* the operation taken last. Of it the compute
                             thread asks what is lent, once it has ended */
    const psr_view *next; /* handed over with PSR_COMMAND_BIND */
    psr_epoch_gate *gate;
    psr_handover handover; /* to this view from the one before */
    /* The steps now in exchange: when the first gradient was ready, and how many buckets have
     * landed. At most two of a bucket's steps overlap, so the low bit of the step tells them
     * apart. */
    int64_t first_ready_ns[2];
    uint32_t landed_count[2];
};

/* ---- what the compute thread waits for: on that thread, but psr_exchange_waits ---- */

/* The bucket holds the weights of so many steps, and its gradient is not lent. */
bool psr_exchange_has_bucket(psr_exchange *exchange, uint32_t bucket, uint64_t steps);
bool psr_exchange_has_all(psr_exchange *exchange, uint64_t steps);
bool psr_exchange_operations_ended(psr_exchange *exchange);
/* Every gradient with a fence may be read: for an engine that plays all ranks. */
bool psr_exchange_fences_passed(psr_exchange *exchange);
/* The oldest gradient that this process's own device is still writing. false: there is none. The
 * exchange thread's. */
bool psr_exchange_waits_for_device(const psr_exchange *exchange, uint64_t *ret_step,
                                   uint32_t *ret_bucket);
/* Whom it waits for, in an operation of all workers or for weights; step and bucket of the latter.
 * false: nobody. The exchange thread's. */
bool psr_exchange_waits(const psr_exchange *exchange, psr_wait wait, psr_peer *ret_peer,
                        uint64_t *ret_step, uint32_t *ret_bucket);
/* It stands on the view that begin_step asked for. */
bool psr_exchange_is_bound(psr_exchange *exchange);

/* exchange_binding.c. first: from the options. next: from psr_exchange.next, and the hand-over
 * begins. */
psr_err psr_exchange_bind_first(psr_exchange *exchange);
psr_err psr_exchange_bind_next(psr_exchange *exchange);
/* STATE of another member, which is let in. */
psr_err psr_exchange_take_state(psr_exchange *exchange, psr_message **message);

/* exchange_thread.c. take: what a command tells engine or group, on the engine's thread. */
psr_err psr_exchange_take(psr_exchange *exchange, const psr_command *command);
psr_err psr_exchange_open_fences(psr_exchange *exchange);
/* Something woke the exchange thread. */
psr_err psr_exchange_woken(psr_exchange *exchange);
/* The exchange thread has ended: nothing wakes it any more. */
void psr_exchange_stop(psr_exchange *exchange);
/* Its messages come to it from now on. */
void psr_exchange_register(psr_exchange *exchange);
/* Shows the compute thread what was counted. */
void psr_exchange_publish(psr_exchange *exchange);
psr_err psr_exchange_landed(void *exchange, uint64_t step, uint32_t bucket);
/* The engines' way out: says the view's epoch, and counts what gradients take. */
psr_outbox psr_exchange_outbox(psr_exchange *exchange);
/* What waited for the view and may be read now is read. */
psr_err psr_exchange_take_waiting(psr_exchange *exchange);

#endif
