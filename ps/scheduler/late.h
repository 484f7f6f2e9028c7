/* Who comes when the run has failed before all had joined. The scheduler's process stays for a
 * moment and answers each JOIN with the line that ended the run (REFUSED), so that everyone ends
 * with it at once: who comes later still finds nobody, and waits for its own deadline. */
#ifndef PSR_PS_LATE_H
#define PSR_PS_LATE_H

#include "comm/comm.h"
#include "ps/scheduler/launcher.h"

#include <sys/types.h>

#define PSR_LATE_MS 10000

typedef struct psr_late {
    psr_transport *transport;
    psr_coordinator *coordinator; /* which knows who has not come; NULL:
                                     the run failed before there was one */
    const char *line;             /* why, where there is no coordinator */
    uint32_t members;             /* who may come, where there is none */
    psr_launcher *launcher;       /* its signals end the wait */
    pid_t starter;                /* so does that process's end; 0: nobody's */
} psr_late;

/* Returns when all have come, after PSR_LATE_MS, or when the process is told to stop. The process
 * should end then. */
void psr_late_answer(psr_late *late);

#endif
