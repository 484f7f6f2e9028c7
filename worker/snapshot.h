/* Brings a run's first state into its processes, and sends checkpoints out of them. Collective: all
 * workers call at the same step. One thread: the compute thread.
 *
 * Who sends and who receives which section (sections of net/message.h):
 *     out   weights (or what it has of them, if they come as differences), averaged statistics:
 *           worker 0; own statistics (both of these also of --ema's averages), and what is owed of
 *           gradients (--compress): each rank; the scale of the loss (fp16): worker 0, which gets
 *           it back with the step that begins; optimizer slots: who makes the updates: the shards,
 *           worker 0, or each worker of the buckets that it holds. All as CHECKPOINT pieces to the
 *           scheduler.
 *     in    worker 0 has them from psr_network_init, --init or the scheduler's RESTORE pieces,
 *           broadcasts every rank's statistics and installs weights and slots where they are worked
 *           with (psr_exchange_install). What a rank owes comes to itself as RESTORE pieces. */
#ifndef PSR_WORKER_SNAPSHOT_H
#define PSR_WORKER_SNAPSHOT_H

#include "worker/trainer.h"

/* Before READY: brings weights, statistics and optimizer state of step trainer->first_step into
 * exchange, replicas and shards. Fails with what reading the file of --init returns (it names the
 * file); with PROTOCOL: a RESTORE piece does not fit; or as the exchange does. */
PSR_MUST_CHECK psr_err psr_snapshot_load(psr_trainer *trainer);

/* How many large pieces (psr_kept_pieces) a worker, the first one or another, sends of one
 * checkpoint, as the ways of the buckets are now. */
size_t psr_snapshot_pieces(psr_exchange *exchange, const psr_layout *params,
                           const psr_buckets *buckets, bool first);

/* After psr_snapshot_load: takes the memory in which this worker's pieces of each checkpoint will
 * be copied, if there will be several, so that no step waits for new pages. NOMEM. */
PSR_MUST_CHECK psr_err psr_snapshot_prepare(psr_trainer *trainer);

/* After psr_exchange_drain: sends this worker's pieces of the checkpoint after `steps` steps. */
PSR_MUST_CHECK psr_err psr_snapshot_save(psr_trainer *trainer, uint64_t steps);

#endif
