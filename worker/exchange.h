/* The exchange wall: turns every worker's gradient of a bucket into everybody's new weights. The only place
 * that knows PS from ring from local. Training code calls this and nothing else.
 *
 * One step of one rank, all on the compute thread:
 *     psr_exchange_begin_step       (waits only when the run is being stopped)
 *     forward:  weights_wanted(b)   returns when bucket b of the arena holds the weights of this step and its
 *                                   gradient range may be written again
 *     backward: gradient_ready(b)   lends the gradient to the exchange; b's weights may change from now on
 *     psr_exchange_end_step         every bucket has been reported; does not wait for the exchange
 * A process normally plays one rank; with --mode local one process plays all n in turn (begin..end for rank 0, 1,
 * .. n-1 of the same step), and the update happens in the last rank's end_step.
 *
 * Engines (worker/engine_ps.c, engine_ring.c, engine_none.c) are free of I/O; exchange_thread.c drives them
 * on the exchange thread, which owns all sockets. --mode local has no engine (exchange_local.c): it works on
 * the compute thread. A failure anywhere (deadline, abort from the scheduler, peer's breach) makes every call
 * return that status at once. */
#ifndef PSR_WORKER_EXCHANGE_H
#define PSR_WORKER_EXCHANGE_H

#include "comm/member.h"
#include "worker/engine.h"

typedef struct psr_exchange psr_exchange;

/* All borrowed for life. */
typedef struct psr_exchange_options {
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    uint32_t rank;
    uint64_t first_step, total_steps;
    /* Belong to the exchange thread from psr_exchange_start to psr_exchange_stop; connected to all that this
     * worker sends to. */
    psr_transport *transport;
    psr_member *member;
    const psr_engine_ops *engine; /* NULL: the one that config asks for */
} psr_exchange_options;

/* Arenas (weights zero), engine and queue; no thread yet. ret owns: psr_exchange_free. */
PSR_MUST_CHECK psr_err psr_exchange_new(const psr_exchange_options *options, psr_exchange **ret_exchange);

/* Starts the exchange thread. The member's report callback may call psr_exchange_report from now on. */
PSR_MUST_CHECK psr_err psr_exchange_start(psr_exchange *exchange);

/* Ends the thread. Then, in this order: psr_member_free, psr_transport_free (which gives back what is still
 * lent to it), and psr_exchange_free. NULL allowed, and a second call. */
void psr_exchange_stop(psr_exchange *exchange);

/* After psr_exchange_stop. NULL allowed. */
void psr_exchange_free(psr_exchange *exchange);

/* Tells the scheduler READY (json: may be NULL) and waits for START. */
PSR_MUST_CHECK psr_err psr_exchange_ready(psr_exchange *exchange, const char *json);

/* Tells DONE (steps completed, final figures; whether it left something else out because it was told to stop) and waits for
 * BYE: everything that this worker sent has been dealt with. */
PSR_MUST_CHECK psr_err psr_exchange_done(psr_exchange *exchange, uint64_t steps, bool left_out,
                                         const char *json);

/* The compute thread failed with status and the line of psr_err_detail: the exchange thread tells the
 * scheduler, unless the exchange itself failed first, and ends. */
void psr_exchange_fail(psr_exchange *exchange, psr_err status);

/* A PROGRESS head: what the compute thread does, and whom it waits for. Exchange thread
 * (psr_member_options.report). */
void psr_exchange_report(psr_exchange *exchange, psr_head *head);

typedef struct psr_step {
    uint64_t step;  /* 0-based, of the run */
    uint32_t rank;  /* whose turn (local plays several) */
    uint32_t batch; /* this rank's samples; 0: its gradient is +0.0, which the exchange writes itself */
    uint32_t global_batch; /* all ranks' samples in this step */
} psr_step;

typedef struct psr_exchange_figures {
    double wait_s;     /* compute thread waited for weights since the last call */
    double exchange_s; /* time from the first gradient ready to the last weights landed, of the last completed
                          step */
    uint64_t bytes_sent, bytes_received; /* since the last call */
    uint64_t staleness;                  /* largest seen since the last call (SSP, async) */
} psr_exchange_figures;

PSR_MUST_CHECK psr_err psr_exchange_begin_step(psr_exchange *exchange, const psr_step *step);
PSR_MUST_CHECK psr_err psr_exchange_weights_wanted(psr_exchange *exchange, uint32_t bucket);
PSR_MUST_CHECK psr_err psr_exchange_gradient_ready(psr_exchange *exchange, uint32_t bucket);
PSR_MUST_CHECK psr_err psr_exchange_end_step(psr_exchange *exchange);

/* CANCELLED from begin_step means: the run is being stopped in order and this step must not be taken
 * (Ctrl-C); the last step of the run is then psr_exchange_last_step. */
uint64_t psr_exchange_last_step(psr_exchange *exchange);

/* The run is being stopped, and takes no step after the first `steps`, which this worker has taken: what only looks at their
 * outcome may be left out. A worker that asks between them and what all workers do together before another step is right to
 * take any order to stop for that: nobody has begun one. */
bool psr_exchange_stops_after(psr_exchange *exchange, uint64_t steps);

/* Waits until every bucket holds the weights after the last step (before evaluation, checkpoint, hash). */
PSR_MUST_CHECK psr_err psr_exchange_drain(psr_exchange *exchange);

/* values (count doubles) become their sum over ranks in ascending order, on every worker. In local mode the
 * caller passes its own already-summed values through unchanged. */
PSR_MUST_CHECK psr_err psr_exchange_sum(psr_exchange *exchange, double *values, size_t count);

/* Bytes of worker 0 to all. */
PSR_MUST_CHECK psr_err psr_exchange_broadcast(psr_exchange *exchange, void *bytes, size_t size);

/* Worker 0 to the shards, before READY: their part of an arena; what: 0 weights, 1 + i optimizer slot i.
 * Copies. Does nothing in modes without shards. */
PSR_MUST_CHECK psr_err psr_exchange_init_shards(psr_exchange *exchange, uint32_t what, const float *arena);

/* The next RESTORE message of the scheduler, in order; waits for it. ret owns. Only before READY. */
PSR_MUST_CHECK psr_err psr_exchange_restored(psr_exchange *exchange, psr_message **ret_message);

/* Arenas, borrowed for life. gradients: where the rank whose turn it is must write. */
float *psr_exchange_weights(psr_exchange *exchange);
float *psr_exchange_gradients(psr_exchange *exchange);

/* The compute thread is alive and in this phase (the back end's progress hook; cheap, atomic). */
void psr_exchange_progress(psr_exchange *exchange, int phase);

/* For reports: an evaluation goes on, and this process has counted so many samples of the test set; none goes on any more. */
void psr_exchange_evaluating(psr_exchange *exchange, uint64_t samples);
void psr_exchange_evaluated(psr_exchange *exchange);

/* Does nothing for that long, or until the exchange fails (--slow). */
PSR_MUST_CHECK psr_err psr_exchange_pause(psr_exchange *exchange, double seconds);

/* Optimizer state arenas that this process holds (ring, local; 0 in PS mode), for checkpoints and resume. */
uint32_t psr_exchange_slot_count(psr_exchange *exchange);
const char *psr_exchange_slot_name(psr_exchange *exchange, uint32_t slot);
float *psr_exchange_slot(psr_exchange *exchange, uint32_t slot);

/* Waits until the checkpoint after `steps` steps, which this worker has sent, is in place; 0: none was sent. So at most
 * one is on its way to the disk while the next one is sent, however slow the disk is. */
PSR_MUST_CHECK psr_err psr_exchange_await_saved(psr_exchange *exchange, uint64_t steps);
/* One line of metrics.jsonl to the scheduler. Copies; waits only for room in the queue. */
PSR_MUST_CHECK psr_err psr_exchange_metrics(psr_exchange *exchange, const char *json);
/* [0, count) floats of a section (comm/member.h) of the checkpoint after `step` steps, in pieces. Copies, as
 * above. */
PSR_MUST_CHECK psr_err psr_exchange_checkpoint(psr_exchange *exchange, uint64_t step, uint32_t section,
                                               const float *data, size_t count);

void psr_exchange_take_figures(psr_exchange *exchange, psr_exchange_figures *ret_figures);

#endif
