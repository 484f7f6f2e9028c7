#include "base/system/signals.h"

#include <signal.h>
#include <stddef.h>

bool psr_signal_is_a_jobs(int signo)
{
    return signo == SIGTERM || signo == SIGUSR1 || signo == SIGHUP;
}

bool psr_signal_is_ignored(int signo)
{
    struct sigaction action;
    return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}
