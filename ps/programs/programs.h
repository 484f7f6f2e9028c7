/* The scheduler of `psring run`: what stands beside the launcher when the ranks of a run are
 * anybody's program. It gives who calls psring_init its place among the others (comm/node/judge.h),
 * again when all have called psring_close, and hears from the launcher how processes end. One that
 * never joins runs as well: nothing but its end is waited for.
 *
 * Of the ranks the last may be shards, psring-ps's (`psring run --shards`): they join once one of
 * the program's has, and leave when those have.
 *
 * The run ends well when all processes of the program have exited with 0. It fails, with a line
 * that names the rank and its host, when one ends in another way, and when one exits while others
 * that have joined would wait for it. Where the calls of all who have joined failed before, the
 * line says why they did. One thread. */
#ifndef PSR_PS_PROGRAMS_H
#define PSR_PS_PROGRAMS_H

#include "base/err.h"

/* `psring-scheduler programs RANKS DEADLINE_S SHARDS`, the launcher's own: argv from "programs" on.
 * A provision as one line on standard input, then orders. Returns the exit status. */
int psr_programs_main(int argc, char **argv);

#endif
