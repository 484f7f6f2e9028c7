/* --update-on device: the weights and the optimizer's state are held by the back end, which updates
 * them from the sums that the exchange makes (model/backend.h has when). The host's arenas, those
 * of psr_exchange_first_weights and psr_exchange_slot, are copies, taken where something on the
 * host reads them: a checkpoint, a hash, and the average of --ema, which is the host's.
 *
 * Without the option all functions do nothing. `steps`: the complete ones, so many updates the
 * weights have had. One thread: the compute thread. */
#ifndef PSR_WORKER_DEVICE_UPDATE_H
#define PSR_WORKER_DEVICE_UPDATE_H

#include "worker/trainer.h"

/* After psr_snapshot_load: gives the back end what the run starts from. */
PSR_MUST_CHECK psr_err psr_device_update_begin(const psr_trainer *trainer);

/* Passes from now on read the weights after so many steps. */
void psr_device_update_due(const psr_trainer *trainer, uint64_t steps);
/* Instead, for a rank that has no samples in the step behind them: no pass makes the updates, and
 * zeros are about to be written where the sums are; where these stay on the device, by this. */
PSR_MUST_CHECK psr_err psr_device_update_without_pass(const psr_trainer *trainer, uint64_t steps);

/* After a drain: copies the weights; or all that this worker sends for a checkpoint. */
PSR_MUST_CHECK psr_err psr_device_update_copy_weights(const psr_trainer *trainer, uint64_t steps);
PSR_MUST_CHECK psr_err psr_device_update_copy_state(const psr_trainer *trainer, uint64_t steps);

/* --ema, after a drain, once after the same steps. Must be called after every EVERY-th step, and
 * before the average is read. */
PSR_MUST_CHECK psr_err psr_device_update_average(const psr_trainer *trainer, uint64_t steps);

/* Passes read weights that they are given, until _resume: then those after so many steps again. */
PSR_MUST_CHECK psr_err psr_device_update_pause(const psr_trainer *trainer, uint64_t steps);
PSR_MUST_CHECK psr_err psr_device_update_resume(const psr_trainer *trainer, uint64_t steps);

#endif
