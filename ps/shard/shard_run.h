/* A shard in its run, from WELCOME to BYE: what its scheduler and the workers tell it, what it
 * tells them, and when. Free of I/O and of clocks: messages in, messages out. ps/shard/shard_main.c
 * drives it over sockets, the simulated cluster of the tests without.
 *
 *     INIT from worker 0   -> READY, when its part is complete
 *     START, pushes, pulls -> what comm/tables/table_shard.h answers; pieces of checkpoints
 *     VIEW                 -> what it held is another's now, or the other way round: when worker 0
 *                          says that the view has
 *                             begun, STATE to and from the others, and BOUND when all that it gets
 *                             has come
 *     STOP_AT
 *     the last step        -> DONE; who holds nothing: STOP_AT of that step
 *     BYE: it may leave
 * One thread. */
#ifndef PSR_PS_SHARD_RUN_H
#define PSR_PS_SHARD_RUN_H

#include "comm/observer.h"
#include "comm/wire/messages.h"
#include "base/arrays/blocks.h"
#include "ps/shard/shard.h"
#include "ps/traffic.h"

typedef struct psr_shard_run psr_shard_run;

/* options: those of psr_shard_new, except context and checkpoint, which it sets; the outbox takes
 * messages to workers and to the scheduler. The caller owns *ret_run, and frees it after the
 * transport. */
PSR_MUST_CHECK psr_err psr_shard_run_new(const psr_shard_options *options, psr_shard_run **ret_run);
/* How many blocks one checkpoint takes of the pool that psr_shard_run_copy_to names. */
size_t psr_shard_run_kept_pieces(const psr_shard_run *run);
/* From now on large pieces of checkpoints are copied into blocks of PSR_PAYLOAD_BYTES_MAX, which
 * are lent until they have left. blocks: borrowed for life. */
void psr_shard_run_copy_to(psr_shard_run *run, psr_blocks *blocks);
void psr_shard_run_free(psr_shard_run *run);

/* Does what is due before any message: a shard that holds nothing is ready. Call it once. */
PSR_MUST_CHECK psr_err psr_shard_run_begin(psr_shard_run *run);
/* Takes a message of a worker or of the scheduler. Takes *message. PROTOCOL, NUMERIC: see
 * psr_table_shard_message; PROTOCOL also for a message that no scheduler sends to a shard. */
PSR_MUST_CHECK psr_err psr_shard_run_message(psr_shard_run *run, psr_message **message);
/* The most messages that an honest worker leaves unread: for psr_transport_bound. */
size_t psr_shard_run_waiting_max(const psr_shard_run *run);
/* BYE has come. */
bool psr_shard_run_left(const psr_shard_run *run);
/* A psr_observer's see, for whoever drives the shard: run is a psr_shard_run, which adds up its
 * traffic from what is observed, and gives it to its tracer. With one, it wants to hear of work. */
void psr_shard_run_see(void *run, const psr_observed *observed);
/* What it has exchanged, as it was observed, after it has sent DONE; NULL before. Borrowed for
 * life. */
const psr_traffic *psr_shard_run_traffic(const psr_shard_run *run);
/* Fills a report (psr_member_options.report). */
void psr_shard_run_report(const psr_shard_run *run, psr_msg_progress *progress);

#endif
