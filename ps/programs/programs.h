/* The scheduler of `psring run`: what stands beside the launcher when the ranks of a run are anybody's program. It hears from the launcher
 * how processes end. The run ends well when all have exited with 0; it fails when one ends in another way, and the line names that
 * rank and its host. One thread. */
#ifndef PSR_PS_PROGRAMS_H
#define PSR_PS_PROGRAMS_H

#include "base/err.h"

/* `psring-scheduler programs RANKS DEADLINE_S`, the launcher's own: argv from "programs" on. A provision as one line on standard input, then
 * orders. Returns the exit status. */
int psr_programs_main(int argc, char **argv);

#endif
