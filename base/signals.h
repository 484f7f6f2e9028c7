/* The signals that end a run, for all programs that take them. No state; any thread. */
#ifndef PSR_BASE_SIGNALS_H
#define PSR_BASE_SIGNALS_H

#include <stdbool.h>

/* SIGTERM, SIGUSR1 or SIGHUP: what resource managers, launchers and terminals that close send to all
 * processes of a job, often twice. However often they come, they say the same; a second SIGINT is a
 * person's, who wants the end at once. */
bool psr_signal_is_a_jobs(int signo);

/* This process ignores it: as it does from its beginning where who started it wants so (nohup). */
bool psr_signal_is_ignored(int signo);

#endif
