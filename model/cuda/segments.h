/* The steps of an executable in segments: steps between which nothing else is ordered on their
 * stream, and the host waits for nothing. So a segment ends where a bucket's weights are asked for
 * or its gradient is complete, and where the backward pass begins.
 *
 * The first time the steps of a segment are ordered one by one, which also makes the device load
 * what they need. The second time they are recorded (api.h), and from then on the recording is run,
 * which is one order. A recording repeats what was ordered, so the bits are the same. A step whose
 * arguments are others in each pass is a segment by itself, and never recorded; nor is any that the
 * device cannot record. In a pass whose layers somebody wants to see (layers.h) nothing is recorded
 * and no recording is run.
 *
 * One thread, that of the back end. */
#ifndef PSR_MODEL_CUDA_SEGMENTS_H
#define PSR_MODEL_CUDA_SEGMENTS_H

#include "model/cuda/executable.h"

typedef struct psr_cuda_segments_options {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    psr_cuda_stream *stream;
    bool unrecorded; /* nothing is recorded */
    /* [node_count]: buckets' weights are asked for before this node's steps, or their gradients
     * complete behind them. Borrowed for the call. */
    const bool *has_buckets;
} psr_cuda_segments_options;

/* The rest is borrowed for life. NOMEM. The caller owns *ret_segments: psr_cuda_segments_free. */
PSR_MUST_CHECK psr_err psr_cuda_segments_new(const psr_cuda_segments_options *options,
                                             const psr_cuda_executable *executable,
                                             psr_cuda_segments **ret_segments);
/* Nothing of it is under way. NULL allowed. */
void psr_cuda_segments_free(psr_cuda_segments *segments);

/* Addresses are others now (psr_cuda_executable_bind): what was recorded holds no more. Nothing of
 * it is under way. NULL allowed. */
void psr_cuda_segments_forget(psr_cuda_segments *segments);

/* Orders the segment whose first step is number first; *ret_next: the step behind it. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_segments_run(psr_cuda_segments *segments, uint32_t first,
                                             const psr_cuda_pass *pass, void *workspace,
                                             uint32_t *ret_next);

#endif
