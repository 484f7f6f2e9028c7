/* Processes that a worker starts beside itself, where no launcher of psring's has: the run's scheduler, and shards. Each is told on its standard
 * input what it is, sees the end of that when this process dies, and ends. A thread waits for their ends.
 *
 * Made, and given processes, by the thread that is the last of this process to end: a shard dies with the thread that started it. */
#ifndef PSR_WORKER_BESIDE_H
#define PSR_WORKER_BESIDE_H

#include "comm/comm.h"

#define PSR_BESIDE_MAX 257 /* the scheduler, and as many shards as a run has */

typedef struct psr_beside psr_beside;

/* lost: one of them has ended, and not well: killed by a signal, or with the exit status that status becomes; the line names it. On another
 * thread. ret owns: psr_beside_end.
 * NOMEM, IO. */
PSR_MUST_CHECK psr_err psr_beside_new(void (*lost)(void *context, bool killed, psr_err status,
                                                   const char *line),
                                      void *context, psr_beside **ret_beside);

/* Starts one of psring's programs, from beside this one, with these options behind its name (ends with NULL) and the provision on its
 * standard input; standard error is this process's, and of the scheduler standard output too. NOT_FOUND; IO. */
PSR_MUST_CHECK psr_err psr_beside_start(psr_beside *beside, const char *program, char *const options[],
                                        const psr_provision *provision);

/* Once all are started. IO. */
PSR_MUST_CHECK psr_err psr_beside_watch(psr_beside *beside);

/* The descriptor on which the process that was started first, the scheduler, hears orders (comm/launcher_line.h), for a signal's handler. */
int psr_beside_orders(const psr_beside *beside);

/* Waits until all have ended by themselves; in_order: the run has, and so will they, within patience_ms. Otherwise, or then, each sees its
 * input end, and after patience_ms more it is killed. Returns the exit status of the first, the scheduler's where there is one; 0 where
 * there is none. NULL allowed. */
int psr_beside_end(psr_beside *beside, bool in_order, int64_t patience_ms);

#endif
