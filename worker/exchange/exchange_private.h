/* What the two halves of an exchange share: exchange.c (the compute thread's calls) and
 * exchange_thread.c; and what its session asks of it. For those files and session.c only. */
#ifndef PSR_WORKER_EXCHANGE_EXCHANGE_PRIVATE_H
#define PSR_WORKER_EXCHANGE_EXCHANGE_PRIVATE_H

#include "comm/collectives/group.h"
#include "comm/command_queue.h"
#include "comm/view/epoch_gate.h"
#include "comm/view/handover.h"
#include "comm/operations/fences.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "comm/view/view.h"
#include "worker/exchange/binding.h"
#include "worker/exchange/link_bytes.h"
#include "worker/session_private.h"

struct psr_exchange {
    psr_exchange_options options;
    psr_session *session;       /* the options' */
    psr_ways ways;              /* the present view's */
    const psr_plan *plan;       /* the present view's */
    const psr_view *view;       /* held; NULL: the first view, whose plan is the options' */
    psr_binding *binding;       /* made from it */
    bool computes_all_ranks;    /* one process computes every rank */
    bool closing;               /* nobody is told any more that loans have ended */
    psr_optimizer *optimizer;   /* NULL while shards make all updates */
    psr_group *workers;         /* the group of all workers; NULL if this process is the only one */
    psr_fences *fences;         /* [buckets] gradients that a device is still writing */
    float *weights, *gradients; /* gradients: NULL when the engine has arenas of its own */
    float **residuals;          /* [psr_exchange_plays] arenas; NULL: there are no residuals */
    float *own_weights, *own_gradients; /* NULL: the arenas are the owner's */

    /* ---- used by the compute thread only ---- */
    psr_step step;
    uint32_t reported; /* buckets reported in this step */
    uint64_t fenced;   /* gradients with a fence so far, for an engine that computes all ranks */
    uint64_t operations_begun;
    double pause_s, sums_wait_s; /* since the figures were last taken */
    uint64_t fetches_begun;
    float *fetched; /* an arena for what other members hold of a slot; NULL: not asked for yet */
    /* The last operation of all workers that was begun. Its memory belongs to the exchange, which
     * outlives the transport. */
    psr_request_options called;
    void *copied; /* copies of a caller's values, on which that operation works; NULL: none */
    uint64_t bytes_lent_told;

    /* ---- written by the exchange thread, read by the compute thread ---- */
    _Atomic uint64_t *landed; /* [buckets]: steps whose weights the bucket has */
    _Atomic uint64_t operations_ended;
    _Atomic uint64_t fetches_ended;
    _Atomic uint64_t fences_passed; /* how many of those `fenced` have passed */
    _Atomic uint64_t staleness;
    _Atomic double norm; /* of the gradient of the last of norm_steps */
    _Atomic uint64_t norm_steps;
    /* --tensorboard-norms: [layout's tensors] sums of squares of the gradient of the last of
     * tensor_steps; otherwise NULL */
    double *tensor_squares;
    _Atomic uint64_t tensor_steps;
    psr_exchange_tally tally;
    psr_link_bytes links;
    _Atomic bool bound; /* changed to the view that was asked for last */

    /* ---- used by the exchange thread only (with an engine that computes all ranks: the compute
     * thread) ---- */
    uint64_t operations_taken;
    /* the last operation taken. When it has ended the compute thread asks whether it is lent */
    psr_request *request;
    const psr_view *next; /* the view of PSR_COMMAND_BIND */
    psr_epoch_gate *gate;
    psr_handover handover; /* from the view before to this one */
};

/* ---- what the compute thread waits for; called on it, except psr_exchange_waits ---- */

/* The bucket holds the weights after that many steps, and its gradient is not lent. */
bool psr_exchange_has_bucket(psr_exchange *exchange, uint32_t bucket, uint64_t steps);
bool psr_exchange_has_all(psr_exchange *exchange, uint64_t steps);
bool psr_exchange_has_norm(psr_exchange *exchange, uint64_t steps);
bool psr_exchange_operations_ended(psr_exchange *exchange);
/* What was fetched of other members' state is there. */
bool psr_exchange_has_fetched(psr_exchange *exchange);
/* Every gradient with a fence may be read; for an engine that computes all ranks. */
bool psr_exchange_fences_passed(psr_exchange *exchange);
/* The oldest gradient that this process's own device is still writing. false: there is none.
 * Exchange thread. */
bool psr_exchange_waits_for_device(const psr_exchange *exchange, uint64_t *ret_step,
                                   uint32_t *ret_bucket);
/* What it waits for, in an operation of all workers or for weights; step and bucket of the latter.
 * false: nothing. Exchange thread. */
bool psr_exchange_waits(const psr_exchange *exchange, psr_wait wait, psr_peer *ret_peer,
                        uint64_t *ret_step, uint32_t *ret_bucket);
/* It has changed to the view that begin_step asked for. */
bool psr_exchange_is_bound(psr_exchange *exchange);

/* exchange.c, for exchange_state.c: worker 0's arena, which is the exchange's own, to all. */
psr_err psr_exchange_broadcast_arena(psr_exchange *exchange, float *arena);

/* exchange_binding.c. first: binds the options' plan. next: binds psr_exchange.next, and begins the
 * hand-over. */
psr_err psr_exchange_bind_first(psr_exchange *exchange);
psr_err psr_exchange_bind_next(psr_exchange *exchange);
/* Takes a STATE of another member, which has passed the epoch gate. */
psr_err psr_exchange_take_state(psr_exchange *exchange, psr_message **message);

/* exchange_thread.c. Carries out a command for an engine or the group, on the engine's thread. */
psr_err psr_exchange_take(void *exchange, const psr_command *command);
psr_err psr_exchange_open_fences(psr_exchange *exchange);
/* Something woke the exchange thread. */
psr_err psr_exchange_woken(void *exchange);
/* The exchange thread has ended: nothing may wake it any more. */
void psr_exchange_stop(psr_exchange *exchange);
/* From now on its messages come to it. */
void psr_exchange_register(psr_exchange *exchange);
psr_err psr_exchange_fetched(void *exchange, uint32_t bucket);
psr_err psr_exchange_landed(void *exchange, uint64_t step, uint32_t bucket);
void psr_exchange_stale(void *exchange, uint64_t steps);
void psr_exchange_clipped(void *exchange, uint64_t step, double norm);
void psr_exchange_normed(void *exchange, uint64_t step, const double *squares);
/* The outbox of the engines: it sets the view's epoch. */
psr_outbox psr_exchange_outbox(psr_exchange *exchange);
/* Reads messages that waited for the view and may be read now. */
psr_err psr_exchange_take_waiting(psr_exchange *exchange);

#endif
