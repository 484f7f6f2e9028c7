/* What SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless under nohup) mean to a worker that another
 * launcher has started. Launchers send them to all ranks of a run at once. Rank 0 tells its
 * scheduler, which stops the run in order, with a checkpoint; at a second SIGINT it stops at once.
 * A second one of the other signals changes nothing (base/system/signals.h): srun and Slurm send
 * one each. The other ranks wait for the scheduler. */
#ifndef PSR_WORKER_START_END_SIGNALS_H
#define PSR_WORKER_START_END_SIGNALS_H

/* From now on the death of this process's parent counts as SIGTERM, because an MPI launcher that
 * dies before its ranks tells them nothing. (Only the direct parent is watched, so this does not
 * help where the parent is a shell that outlives the launcher.) */
void psr_end_with_parent(void);

/* Until the process has joined, a signal ends it. Before that it removes this file. */
void psr_end_removing(const char *path);

/* Must be called when the process has joined; before that a signal ends it. orders: a descriptor
 * from which the scheduler reads orders, and to which the signal handler writes. -1: this process
 * has no scheduler. */
void psr_end_by_orders(int orders);

/* For a process that cannot know whether all have joined (a server by role): ignores SIGHUP. A
 * closing terminal ends the whole run, and the scheduler's process does that in order. */
void psr_end_leaving_hangups(void);

/* Restores the signals' default actions, after which `orders` may be closed. A process that has
 * been in a run goes on ignoring signals that are sent to a whole job, since it is ending
 * anyway. */
void psr_end_by_default(void);

#endif
