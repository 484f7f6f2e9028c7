/* Initial weights that the training set decides: those of a layer that whitens
 * (model/networks/whitening.h). The compute thread. */
#ifndef PSR_WORKER_WHITEN_H
#define PSR_WORKER_WHITEN_H

#include "worker/trainer.h"

/* Sets them in weights (net->params.length floats) from the first PSR_WHITENING_IMAGES samples of
 * the training set, as an evaluation would give them to the network; nothing if no layer of the
 * network whitens. NOMEM, and errors of the data. */
PSR_MUST_CHECK psr_err psr_whiten(const psr_trainer *t, float *weights);

#endif
