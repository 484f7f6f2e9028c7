/* When the layers of a pass were computed, by the device's clock, for the hook `layer`
 * (model/backend.h): a layer begins where the stream comes to its first step and ends behind its
 * last one. Timed events (api.h) are ordered there, in passes whose layers somebody wants to see,
 * and read when the pass has ended. They change nothing of what is computed.
 *
 * The device's clock and the host's are compared where a pass begins: the host reads its own before
 * it orders an event on the idle stream, which passes a moment later. So all times of a pass are
 * early by that moment: the way of one order to the device.
 *
 * One thread, that of the back end. */
#ifndef PSR_MODEL_CUDA_LAYERS_H
#define PSR_MODEL_CUDA_LAYERS_H

#include "model/cuda/executable.h"
#include "model/readiness.h"

/* All borrowed for life; stream: that steps are ordered on. NOMEM, COMPUTE. The caller owns
 * *ret_layers: psr_cuda_layers_free. */
PSR_MUST_CHECK psr_err psr_cuda_layers_new(const psr_cuda_api *api, psr_cuda_device *device,
                                           psr_cuda_stream *stream, psr_cuda_layers **ret_layers);
void psr_cuda_layers_free(psr_cuda_layers *layers); /* NULL allowed */

/* A pass of at most so many steps begins. Waits for what the stream was given before. NOMEM,
 * COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_layers_begin(psr_cuda_layers *layers, uint32_t step_count);
/* This step is what the stream is given next. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_layers_step(psr_cuda_layers *layers, const psr_cuda_step *step);
/* The stream may be given something else next, which is no part of a layer. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_layers_pause(psr_cuda_layers *layers);
/* The stream has come to the end of the pass: tells all layers, in the order of their steps.
 * COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_layers_tell(const psr_cuda_layers *layers,
                                            const psr_readiness *readiness);

#endif
