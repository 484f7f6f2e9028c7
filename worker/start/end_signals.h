/* What SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless under nohup) mean to a worker that another
 * launcher has started. Launchers send them to all ranks of a run at once. Rank 0 tells its
 * scheduler, which stops the run in order, with a checkpoint; at a second SIGINT it stops at once.
 * A second one of the other signals changes nothing (base/system/signals.h): srun and Slurm send
 * one each. The other ranks wait for the scheduler. */
#ifndef PSR_WORKER_START_END_SIGNALS_H
#define PSR_WORKER_START_END_SIGNALS_H

/* From now on the death of this process's parent counts as SIGTERM: an MPI launcher that dies
 * before its ranks tells them nothing. (Only the direct parent is watched, so this does not help
 * where the parent is a shell that outlives the launcher.) */
void psr_end_with_parent(void);

/* Until the process has joined, a signal ends it. That file is removed first. */
void psr_end_removing(const char *path);

/* To be called once the process has joined; before that a signal ends it. orders: the descriptor on
 * which the scheduler reads orders; a signal's handler writes to it. -1: this process has no
 * scheduler. */
void psr_end_by_orders(int orders);

/* For a process that cannot know whether the run has been joined (a server by role): ignores
 * SIGHUP. A closing terminal means the whole run, which the scheduler's process ends in order. */
void psr_end_leaving_hangups(void);

/* Restores the signals' default actions, after which `orders` may be closed. Signals that are sent
 * to a whole job stay ignored in a process that has been in a run: it is ending anyway. */
void psr_end_by_default(void);

#endif
