/* What SIGINT, SIGTERM and SIGUSR1 mean to a worker that somebody else's launcher has started: launchers send them to all ranks of a run at once. Rank 0,
 * whose scheduler stops the run in order, with a checkpoint, tells it so; with the second SIGINT at once. A second one of the others says nothing new: srun and Slurm send one each. The other ranks leave it to that. */
#ifndef PSR_WORKER_END_SIGNALS_H
#define PSR_WORKER_END_SIGNALS_H

/* A launcher of MPI's that dies before its ranks has told them nothing: as if it had sent SIGTERM. (Of this process's parent, so not for those whose parent may
 * be a shell that goes on.) */
void psr_end_with_parent(void);

/* Until the process has joined, a signal ends it; that file goes before it does. */
void psr_end_removing(const char *path);

/* orders: the descriptor on which the scheduler hears orders, written to by a signal's handler; -1: this process has none. Once the process has
 * joined: before that a signal ends it. */
void psr_end_by_orders(int orders);

/* As at a process's beginning; orders may be closed then. */
void psr_end_by_default(void);

#endif
