/* Test-time augmentation (--eval-tta): a sample is judged by the mean of its logits over several
 * views of its picture x. With m(x) its mirror image and s(x, d) x shifted by d pixels down and to
 * the right, what comes in being the picture mirrored at its edge, which is not doubled:
 *   flip        1/2 x + 1/2 m(x)
 *   flip-shift  1/4 x + 1/4 m(x) + 1/8 (s(x, 1) + m(s(x, 1)) + s(x, -1) + m(s(x, -1)))
 *               (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, section 3.5)
 * The loss is that of the mean logits. One thread. */
#ifndef PSR_WORKER_VIEWS_H
#define PSR_WORKER_VIEWS_H

#include "model/backend.h"
#include "model/networks/network.h"

typedef struct psr_views psr_views;

/* The most samples of a batch: max_batch. NOMEM. net is borrowed for life; pictures are of 2 pixels
 * or more a side for flip-shift: USAGE. The caller owns *ret_views: psr_views_free. */
PSR_MUST_CHECK psr_err psr_views_new(const psr_config *config, const psr_network *net,
                                     uint32_t max_batch, psr_views **ret_views);
void psr_views_free(psr_views *views); /* NULL allowed */

/* psr_backend_infer on every view of the batch; without test-time augmentation on the batch
 * itself. */
PSR_MUST_CHECK psr_err psr_views_infer(psr_views *views, psr_backend *backend,
                                       const psr_batch *batch, const psr_exec_state *state,
                                       const psr_exec_hooks *hooks, psr_pass_result *ret_result);

#endif
