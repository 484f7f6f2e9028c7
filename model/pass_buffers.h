/* Plans a pass's memory, the workspace: which buffer lies at which bytes, computed from lifetimes
 * before anything runs. For back ends that know all steps of a pass (model/onednn, model/cuda).
 *
 * A pass is a row of steps; the planner counts them in `now`. A buffer lives from the step in which
 * it is added to the last one that uses it, and two buffers may share bytes when no step sees both.
 * Placing is first fit by falling size (Pisarchyk and Lee, "Efficient memory management for deep
 * neural net inference", 2020, section 4.3 "greedy by size"): the largest first, each at the lowest
 * offset that is free for its whole life. So the gradients of activations, which live for two or
 * three steps, end up in the few slots that the activations behind them have left.
 *
 * One thread. */
#ifndef PSR_MODEL_PASS_BUFFERS_H
#define PSR_MODEL_PASS_BUFFERS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct psr_pass_buffer {
    size_t bytes;
    uint32_t first, last; /* steps, inclusive */
    size_t offset;        /* from the workspace's start; known after placing */
} psr_pass_buffer;

typedef struct psr_pass_buffers {
    psr_pass_buffer *items;
    uint32_t count, capacity;
    uint32_t now;
    size_t bytes; /* of the workspace; known after placing */
} psr_pass_buffers;

/* Adds a buffer that lives in step `now`. NOMEM. */
PSR_MUST_CHECK psr_err psr_pass_buffer_add(psr_pass_buffers *buffers, size_t bytes,
                                           uint32_t *ret_buffer);
/* Extends its life to step `now`. */
void psr_pass_buffer_use(psr_pass_buffers *buffers, uint32_t buffer);
/* Makes it live in every step: what all primitives share. */
void psr_pass_buffer_keep(psr_pass_buffers *buffers, uint32_t buffer);
/* Makes it at least so large. */
void psr_pass_buffer_grow(psr_pass_buffers *buffers, uint32_t buffer, size_t bytes);

/* Gives every buffer its offset, a multiple of 4096 bytes. NOMEM. */
PSR_MUST_CHECK psr_err psr_pass_buffers_place(psr_pass_buffers *buffers);
void psr_pass_buffers_done(psr_pass_buffers *buffers);

#endif
