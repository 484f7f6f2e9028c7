/* A network compiled for one batch size and one kind of pass. It has no memory of its own: it works
 * in a workspace that all executables of a back end share, in which nothing outlives a pass. One
 * thread, the compute thread. */
#ifndef PSR_MODEL_ONEDNN_EXEC_H
#define PSR_MODEL_ONEDNN_EXEC_H

#include "model/onednn/private.h"

/* Everything borrowed for the executable's life. The caller owns *ret_exec: psr_onednn_exec_free.
 * NOMEM, COMPUTE, UNSUPPORTED. */
PSR_MUST_CHECK psr_err psr_onednn_exec_new(const psr_onednn_context *context,
                                           const psr_network *net, const psr_fusion_groups *groups,
                                           const char *choices, uint32_t count, bool training,
                                           psr_onednn_exec **ret_exec);
void psr_onednn_exec_free(psr_onednn_exec *exec);

/* What a pass works on: workspace has at least exec->buffers.bytes, at a 64-byte boundary. As
 * psr_backend_train and psr_backend_infer otherwise. */
typedef struct psr_onednn_pass {
    void *workspace;
    const psr_batch *batch; /* of exec->count samples */
    const psr_exec_state *state;
    psr_readiness *readiness;
    double label_smoothing;
} psr_onednn_pass;
PSR_MUST_CHECK psr_err psr_onednn_exec_train(psr_onednn_exec *exec, const psr_onednn_pass *pass,
                                             float loss_scale, psr_pass_result *ret_result);
/* With context->sync_norms instead: as psr_backend_begin and psr_backend_advance. What pass points
 * to is borrowed until the pass has ended. */
PSR_MUST_CHECK psr_err psr_onednn_exec_begin(psr_onednn_exec *exec, const psr_onednn_pass *pass,
                                             float loss_scale);
PSR_MUST_CHECK psr_err psr_onednn_exec_advance(psr_onednn_exec *exec, psr_norm_sums *ret_sums,
                                               psr_pass_result *ret_result);
/* logits: NULL or [count, classes]. */
PSR_MUST_CHECK psr_err psr_onednn_exec_infer(psr_onednn_exec *exec, const psr_onednn_pass *pass,
                                             float *logits, psr_pass_result *ret_result);

/* Bytes of the heap that its plan takes, oneDNN's own objects left out. */
size_t psr_onednn_exec_bytes(const psr_onednn_exec *exec);

#endif
