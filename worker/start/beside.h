/* The processes that a worker starts on its host when psring's launcher did not: the run's
 * scheduler, and shards. Each gets its rank and keys on its standard input. When this process dies,
 * that input ends, and the process ends too. A thread waits for their ends.
 *
 * These functions must be called by the thread that ends last in this process, because a shard dies
 * with the thread that started it. */
#ifndef PSR_WORKER_START_BESIDE_H
#define PSR_WORKER_START_BESIDE_H

#include "comm/members/provision.h"

#define PSR_BESIDE_MAX 257 /* the scheduler, and the most shards that a run has */

typedef struct psr_beside psr_beside;

/* lost: called, on another thread, when one of them was killed by a signal or ended with another
 * exit status than 0 (status: the error that it stands for); the line names it. The caller owns
 * *ret_beside: psr_beside_end. NOMEM, IO. */
PSR_MUST_CHECK psr_err psr_beside_new(void (*lost)(void *context, bool killed, psr_err status,
                                                   const char *line),
                                      void *context, psr_beside **ret_beside);

/* Starts one of psring's programs, from the directory of this one, with these options after its
 * name (the list ends with NULL) and the provision on its standard input. Its standard error is
 * this process's; so is the scheduler's standard output. NOT_FOUND; IO. */
PSR_MUST_CHECK psr_err psr_beside_start(psr_beside *beside, const char *program,
                                        char *const options[], const psr_provision *provision);

/* Must be called when all processes have been started. IO. */
PSR_MUST_CHECK psr_err psr_beside_watch(psr_beside *beside);

/* The descriptor for orders (comm/launcher_line.h) to the process that was started first, the
 * scheduler. A signal handler may write to it. */
int psr_beside_orders(const psr_beside *beside);

/* Ends all of them. in_order: the run has ended in order, so waits up to patience_ms until they
 * have ended by themselves. Then, or at once when not in_order, closes their inputs, and kills
 * those that are left after patience_ms more. Returns the exit status of the process that was
 * started first (the scheduler, where there is one); 0 when none was started. NULL allowed. */
int psr_beside_end(psr_beside *beside, bool in_order, int64_t patience_ms);

#endif
