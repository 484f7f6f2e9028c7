#include "worker/process/lost_process.h"

#include <stdio.h>

void psr_lost_process_note(void *context, bool killed, psr_err status, const char *line)
{
    psr_lost_process *lost = context;
    pthread_mutex_lock(&lost->mutex);
    if (lost->status == PSR_OK && (killed || !lost->joined)) {
        lost->status = status;
        snprintf(lost->line, sizeof lost->line, "%s", line);
        if (lost->session != NULL)
            psr_session_break(lost->session, status, line);
        else if (lost->transport != NULL)
            psr_transport_wake(lost->transport);
    }
    pthread_mutex_unlock(&lost->mutex);
}

psr_err psr_lost_process_watch(psr_lost_process *lost, psr_transport *transport,
                               psr_session *session, bool joined)
{
    char line[PSR_START_LINE_MAX];
    pthread_mutex_lock(&lost->mutex);
    lost->transport = transport;
    lost->session = session;
    lost->joined = joined;
    psr_err status = lost->status;
    snprintf(line, sizeof line, "%s", lost->line);
    pthread_mutex_unlock(&lost->mutex);
    return status == PSR_OK ? PSR_OK : psr_fail(status, "%s", line);
}
