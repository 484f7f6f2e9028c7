/* Drives the scheduler's state machine with a transport, the run directory, checkpoints, the
 * launcher's pipes and the clock. Its files are driver.c (from the first socket to the last, and
 * the loop), driver_begin.c (all have joined: plan and files), driver_run.c (what members report),
 * driver_watch.c (the launcher's orders, and deadlines) and driver_end.c (how the run ends). */
#ifndef PSR_PS_SCHEDULER_DRIVER_H
#define PSR_PS_SCHEDULER_DRIVER_H

#include "base/config/config.h"
#include "comm/members/provision.h"
#include "ps/scheduler/launcher/launcher.h"

/* Runs to the end and tells the launcher, of this kind, how it ended. config: checked, with threads
 * and out resolved; series and command: see psr_rundir_new. All are borrowed until it returns.
 * Returns the run's status; its line is the detail. */
PSR_MUST_CHECK psr_err psr_scheduler_drive(const psr_config *config, const char *series,
                                           const char *command, const psr_provision *provision,
                                           psr_launcher_kind kind);

#endif
