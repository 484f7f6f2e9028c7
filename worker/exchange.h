/* The exchange wall: turns every worker's gradient of a bucket into everybody's new weights. The only place that
 * knows PS from ring from local. Training code calls this and nothing else.
 *
 * One step of one rank, all on the compute thread:
 *     psr_exchange_begin_step       (waits only when the run is being stopped)
 *     forward:  weights_wanted(b)   returns when bucket b of the arena holds the weights of this step and its gradient range may
 *                                   be written again
 *     backward: gradient_ready(b)   lends the gradient to the exchange; b's weights may change from now on
 *     psr_exchange_end_step         every bucket has been reported; does not wait for the exchange
 * A process normally plays one rank; with --mode local one process plays all n in turn (begin..end for rank 0, 1, .. n-1
 * of the same step), and the update happens in the last rank's end_step.
 *
 * Engines (worker/engine_ps.c, engine_ring.c, engine_local.c, engine_none.c) are free of I/O; exchange.c drives them on the exchange
 * thread, which owns all sockets. A failure anywhere (deadline, abort from the scheduler, peer's breach) makes every
 * call return that status at once. */
#ifndef PSR_WORKER_EXCHANGE_H
#define PSR_WORKER_EXCHANGE_H

#include "base/config.h"
#include "model/layout.h"

typedef struct psr_exchange psr_exchange;

typedef struct psr_step {
    uint64_t step;          /* 0-based, of the run */
    uint32_t rank;          /* whose turn (local plays several) */
    uint32_t batch;         /* this rank's samples; 0: its gradient is +0.0, which the exchange writes itself */
    uint32_t global_batch;  /* all ranks' samples in this step */
} psr_step;

typedef struct psr_exchange_figures {
    double wait_s;     /* compute thread waited in the exchange since the last call */
    double exchange_s; /* time from the first gradient ready to the last weights landed, of the last completed step */
    uint64_t bytes_sent, bytes_received; /* since the last call */
    uint64_t staleness; /* largest seen since the last call (SSP, async) */
} psr_exchange_figures;

PSR_MUST_CHECK psr_err psr_exchange_begin_step(psr_exchange *exchange, const psr_step *step);
PSR_MUST_CHECK psr_err psr_exchange_weights_wanted(psr_exchange *exchange, uint32_t bucket);
PSR_MUST_CHECK psr_err psr_exchange_gradient_ready(psr_exchange *exchange, uint32_t bucket);
PSR_MUST_CHECK psr_err psr_exchange_end_step(psr_exchange *exchange);

/* CANCELLED from begin_step means: the run is being stopped in order and this step must not be taken (Ctrl-C); the
 * last step of the run is then psr_exchange_last_step. */
uint64_t psr_exchange_last_step(const psr_exchange *exchange);

/* Waits until every bucket holds the weights after the last step (before evaluation, checkpoint, hash). */
PSR_MUST_CHECK psr_err psr_exchange_drain(psr_exchange *exchange);

/* values (count doubles) become their sum over ranks in ascending order, on every worker. In local mode the caller
 * passes its own already-summed values through unchanged. */
PSR_MUST_CHECK psr_err psr_exchange_sum(psr_exchange *exchange, double *values, size_t count);

/* Bytes of worker 0 to all. */
PSR_MUST_CHECK psr_err psr_exchange_broadcast(psr_exchange *exchange, void *bytes, size_t size);

/* Arenas, borrowed for life. gradients: where the rank whose turn it is must write. */
float *psr_exchange_weights(psr_exchange *exchange);
float *psr_exchange_gradients(psr_exchange *exchange);

/* The compute thread is alive and in this phase (the back end's progress hook; cheap, atomic). */
void psr_exchange_progress(psr_exchange *exchange, int phase);

/* Optimizer state arenas that this process holds (ring, local; 0 in PS mode), for checkpoints and resume. */
uint32_t psr_exchange_slot_count(psr_exchange *exchange);
const char *psr_exchange_slot_name(psr_exchange *exchange, uint32_t slot);
float *psr_exchange_slot(psr_exchange *exchange, uint32_t slot);

/* One metrics line, log text or checkpoint piece to the scheduler; copies; never blocks the compute thread for long. */
PSR_MUST_CHECK psr_err psr_exchange_metrics(psr_exchange *exchange, const char *json);
/* file: psr_checkpoint_file; section: see ps/scheduler.h; offset and count in floats. */
PSR_MUST_CHECK psr_err psr_exchange_checkpoint(psr_exchange *exchange, uint64_t step, uint32_t section, const float *data,
                                               size_t offset, size_t count);

void psr_exchange_take_figures(psr_exchange *exchange, psr_exchange_figures *ret_figures);

#endif
