/* What the files of an emulated run share: emulation.c (processes and time), emulated_scheduler.c,
 * emulated_member.c (joining, shards) and emulated_worker.c. For those alone. */
#ifndef PSR_BENCH_EMULATION_PRIVATE_H
#define PSR_BENCH_EMULATION_PRIVATE_H

#include "bench/emulation/emulation.h"

/* emulated_scheduler.c */
PSR_MUST_CHECK psr_err psr_emulated_scheduler_make(psr_emulation *e);
void psr_emulated_scheduler_turn(psr_emulation *e);

/* emulated_member.c */
void psr_emulated_start(psr_emulated *p);
/* What lies in its inbox, what its compute thread has for it, and what the time asks for. */
void psr_emulated_member_turn(psr_emulated *p);
/* The process ends by itself, with this status and the detail: it tells the scheduler, as the
 * programs do. */
void psr_emulated_fail(psr_emulated *p, psr_err status);
void psr_emulated_shard_done(psr_emulated_shard *s);
/* Of a process that shares in an exchange: what is observed there, by the simulation's clock. */
void psr_emulated_see(void *process, const psr_observed *observed);
int64_t psr_emulated_now_ns(void *process);

/* emulated_worker.c */
PSR_MUST_CHECK psr_err psr_emulated_worker_welcomed(psr_emulated_worker *w);
void psr_emulated_worker_report(void *context, psr_msg_progress *progress);
/* Its compute thread goes on, until it waits, computes or has ended. */
void psr_emulated_worker_resume(psr_emulated_worker *w);
void psr_emulated_worker_done(psr_emulated_worker *w);

#endif
