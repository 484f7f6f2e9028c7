/* What SIGINT, SIGTERM, SIGUSR1 and SIGHUP (but under nohup) mean to a worker that somebody else's launcher has started: launchers send them to all ranks of a run at once. Rank 0,
 * whose scheduler stops the run in order, with a checkpoint, tells it so; with the second SIGINT at once. A second one of the others says nothing new (base/signals.h): srun and Slurm send one each. The other ranks leave it to that. */
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

/* Of a process of a run that cannot say whether it has joined, a server by role: a terminal that closes means
 * the run, which the scheduler's process ends in order. */
void psr_end_leaving_hangups(void);

/* As at a process's beginning; orders may be closed then. But what is sent to a whole job says nothing new to a process
 * that has been of a run: it ends. */
void psr_end_by_default(void);

#endif
