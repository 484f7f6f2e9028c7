/* The loss of a process that this one has started (worker/start/beside.h). The thread that waits
 * for these processes notes it; it wakes a worker that joins, and ends one that trains. */
#ifndef PSR_WORKER_PROCESS_LOST_PROCESS_H
#define PSR_WORKER_PROCESS_LOST_PROCESS_H

#include "comm/start/start.h"
#include "net/transport.h"
#include "worker/session.h"

#include <pthread.h>

/* May not be moved. */
typedef struct psr_lost_process {
    pthread_mutex_t mutex;
    psr_err status; /* PSR_OK: nothing is lost */
    char line[PSR_START_LINE_MAX];
    bool joined;
    psr_transport *transport; /* the transport to wake; NULL: not yet, or no more */
    psr_session *session;     /* the session to break; NULL: likewise */
} psr_lost_process;

/* An initializer. */
#define PSR_LOST_PROCESS_NONE                                                                      \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

/* A process has ended: psr_beside_new's lost, with a psr_lost_process as its context. If the
 * process exits by itself after all have joined, nothing is noted: it has told the others why, and
 * its message is on its way here. Any thread. */
void psr_lost_process_note(void *context, bool killed, psr_err status, const char *line);

/* Sets which transport and session are told of a loss from now on; each may be NULL. Returns the
 * status of what was lost before, with its line. */
psr_err psr_lost_process_watch(psr_lost_process *lost, psr_transport *transport,
                               psr_session *session, bool joined);

#endif
