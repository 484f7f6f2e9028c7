/* Whether members' processes live, of those that are on this host and known to it: who was started
 * by somebody else's launcher has a place in the job's directory (comm/start/job_folder.h), and the
 * kernel tells when its process ends. psring's own launcher tells of its processes itself. A thread
 * waits; the rest is one thread's. */
#ifndef PSR_PS_LIVES_H
#define PSR_PS_LIVES_H

#include "comm/comm.h"

typedef struct psr_lives psr_lives;

/* directory: of the run's sockets; borrowed for life. wake: called on the other thread when a
 * process has ended. ret owns. NOMEM, IO. */
PSR_MUST_CHECK psr_err psr_lives_new(const char *directory, void (*wake)(void *context),
                                     void *context, psr_lives **ret_lives);
/* NULL allowed. */
void psr_lives_free(psr_lives *lives);

/* Watches that member's process from now on; one that is not known is not watched. NULL allowed. */
void psr_lives_watch(psr_lives *lives, psr_peer peer);

/* The next whose process has ended, without waiting. false: there is none. NULL allowed. */
bool psr_lives_ended(psr_lives *lives, psr_peer *ret_peer);

#endif
