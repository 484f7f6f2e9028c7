/* Watches whether members' processes on this host live, if another launcher has started them: such
 * a process has a place in the job's directory (comm/start/job_folder.h), and the kernel reports
 * its end. psring's own launcher reports the ends of its processes itself. A thread waits for the
 * ends; all calls come from one other thread. */
#ifndef PSR_PS_LIVES_H
#define PSR_PS_LIVES_H

#include "base/err.h"
#include "net/message.h"

typedef struct psr_lives psr_lives;

/* directory: that of the run's sockets; borrowed for life. wake: called on the waiting thread when
 * a process has ended. The caller owns *ret_lives. NOMEM, IO. */
PSR_MUST_CHECK psr_err psr_lives_new(const char *directory, void (*wake)(void *context),
                                     void *context, psr_lives **ret_lives);
/* NULL allowed. */
void psr_lives_free(psr_lives *lives);

/* Watches that member's process from now on. A process that is not known is not watched. NULL
 * allowed. */
void psr_lives_watch(psr_lives *lives, psr_peer peer);

/* The next member whose process has ended, without waiting. false: there is none. NULL allowed. */
bool psr_lives_ended(psr_lives *lives, psr_peer *ret_peer);

#endif
