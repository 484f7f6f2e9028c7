/* Ranks on this machine, each a child of this process. For a program without other threads. */
#ifndef PSR_BENCH_COLLECTIVES_LOCAL_RANKS_H
#define PSR_BENCH_COLLECTIVES_LOCAL_RANKS_H

#include <psring/psring.h>

/* Calls body in each child, with its place, and waits for all. Returns this process's exit status: 0 when body returned 0 in all of them.
 * A SIGINT or SIGTERM ends them all, and so does the death of one by a signal. They meet in a folder of this user's alone, which is removed. */
int bench_local_ranks(int ranks, int (*body)(const psring_options *place, void *context), void *context);

#endif
