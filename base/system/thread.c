#include "base/system/thread.h"

#include <signal.h>
#include <string.h>

psr_err psr_thread_start(const char *name, void *(*run)(void *), void *argument,
                         pthread_t *ret_thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a thread inherits the mask */
    int code = pthread_create(ret_thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0)
        return psr_fail(PSR_ERR_IO, "thread %s could not be started: %s", name, strerror(code));
    pthread_setname_np(*ret_thread, name);
    return PSR_OK;
}
