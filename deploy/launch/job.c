#include "deploy/launch/job.h"

#include "base/clock.h"

#include <signal.h>

void psr_job_stop(void)
{
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    psr_clock_stop();
    (void)raise(SIGTSTP); /* it waits until it is unblocked */
    pthread_sigmask(SIG_UNBLOCK, &stop, &before);
    /* When it gets here, the process has been stopped and continued. */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    psr_clock_go_on();
}
