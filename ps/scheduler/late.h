/* Processes that join after the run has failed, when not all had joined. The scheduler stays for a
 * moment and answers each JOIN with the line that ended the run (REFUSED), so that all of them end
 * at once. A process that comes even later finds nobody and waits for its own deadline. The
 * scheduler's thread. */
#ifndef PSR_PS_LATE_H
#define PSR_PS_LATE_H

#include "comm/members/coordinator.h"
#include "ps/scheduler/launcher/launcher.h"

#include <sys/types.h>

#define PSR_LATE_MS 10000

typedef struct psr_late {
    psr_transport *transport;
    /* knows which members have not come; NULL: the run failed before it existed */
    psr_coordinator *coordinator;
    const char *line;       /* why it failed, if there is no coordinator */
    uint32_t members;       /* number of members that may come, if there is no coordinator */
    psr_launcher *launcher; /* signals that it reports end the wait */
    pid_t starter;          /* the end of this process ends the wait too; 0: none */
} psr_late;

/* Returns when all have come, after PSR_LATE_MS, or when the process is told to stop. The process
 * should end then. */
void psr_late_answer(psr_late *late);

#endif
