/* What a person asks of a run by psring mode: which mode it is in, and to change it. The words come
 * and the answers go by ps/scheduler/mode/mode_socket.h. In place, zeros at first; one thread. */
#ifndef PSR_PS_MODE_REQUESTS_H
#define PSR_PS_MODE_REQUESTS_H

#include "ps/scheduler/scheduler.h"

typedef struct psr_mode_requests {
    psr_scheduler *scheduler;
    struct psr_mode_socket *socket; /* owned; NULL: nobody can ask */
    uint64_t asker;                 /* who waits for the change; 0: nobody */
    bool asker_wants_json;
    double pause_s; /* of the last change */
} psr_mode_requests;

/* From now on people can ask. scheduler is borrowed until the end. Fails as psr_mode_socket_new:
 * then nobody can ask. */
PSR_MUST_CHECK psr_err psr_mode_requests_begin(psr_mode_requests *requests,
                                               psr_scheduler *scheduler, const char *directory,
                                               void (*wake)(void *context), void *context);
void psr_mode_requests_done(psr_mode_requests *requests);

/* Takes what has been asked; while the run has not ended. */
void psr_mode_requests_take(psr_mode_requests *requests);
/* Answers whoever waits for a change: it has happened, or will not. */
void psr_mode_requests_changed(psr_mode_requests *requests, bool ok, const char *line);

#endif
