/* The scheduler of `psring run`, beside the launcher, for ranks that run any program. It gives each
 * process that calls psring_init its place among the others (comm/node/judge.h), and again when all
 * have called psring_close. The launcher tells it how processes end. A process that never joins is
 * allowed: it is only expected to end. The last ranks may be shards, psring-ps's (`psring run
 * --shards`): they join when a rank of the program has joined, and leave when those have left.
 *
 * The run ends well when all processes of the program have exited with 0. It fails, with a line
 * that names the rank and its host, if a process ends in another way, or exits while others that
 * have joined would wait for it. If the calls of all that have joined had failed before, the line
 * says why they did. One thread. */
#ifndef PSR_PS_PROGRAMS_H
#define PSR_PS_PROGRAMS_H

#include "base/err.h"

/* `psring-scheduler programs RANKS DEADLINE_S SHARDS`, which only the launcher calls; argv from
 * "programs" on. Reads a provision as one line of standard input, then orders. Returns the exit
 * status. */
int psr_programs_main(int argc, char **argv);

#endif
