/* Starts ranks on this machine, each a child of this process. For a program without other
 * threads. */
#ifndef PSR_BENCH_COLLECTIVES_LOCAL_RANKS_H
#define PSR_BENCH_COLLECTIVES_LOCAL_RANKS_H

#include <psring/psring.h>

/* Calls body in each child, with the child's place, and waits for all. Returns the exit status for
 * this process: 0 when body returned 0 in every child. SIGINT and SIGTERM end all children, and so
 * does a child that is killed by a signal. The children meet in a folder that only this user can
 * enter, and which is removed. Where there are as many processors as ranks, each child has its own
 * equal part of them. */
int bench_local_ranks(int ranks, int (*body)(const psring_options *place, void *context),
                      void *context);

#endif
