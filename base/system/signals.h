/* The signals that end a run, for all programs that take them. No state; any thread. */
#ifndef PSR_BASE_SYSTEM_SIGNALS_H
#define PSR_BASE_SYSTEM_SIGNALS_H

#include <stdbool.h>

/* Whether signo is SIGTERM, SIGUSR1 or SIGHUP. Resource managers, launchers and closing terminals
 * send those to all processes of a job, often twice; the second one means nothing new. (A second
 * SIGINT does: a person wants the end at once.) */
bool psr_signal_is_a_jobs(int signo);

/* Whether this process ignores signo. A process that nohup started ignores SIGHUP from its
 * beginning. */
bool psr_signal_is_ignored(int signo);

#endif
