#include "worker/start/end_signals.h"

#include "base/system/signals.h"
#include "comm/start/start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile sig_atomic_t orders_fd = -1; /* a signal handler has no other way to get this */
static volatile sig_atomic_t ordered;        /* how often it was told to stop */
static bool was_of_a_run;
/* A file that is removed before the process ends. It is written only while no handler is set. */
static char removed[PSR_START_LINE_MAX];

static void order_stop(int signo)
{
    static const char line[] = "{\"order\": \"stop\"}\n";
    int kept = errno;
    if (ordered && psr_signal_is_a_jobs(signo))
        return;
    ordered = 1;
    (void)!write(orders_fd, line, sizeof line - 1);
    errno = kept;
}

/* false under nohup. This reads how the signal was handled when this process began, before a
 * handler is set. */
static bool takes_hangup(void)
{
    static bool is_known, takes;
    if (!is_known)
        takes = !psr_signal_is_ignored(SIGHUP);
    is_known = true;
    return takes;
}

static void set_handler(void (*handler)(int))
{
    struct sigaction action = {.sa_flags = SA_RESTART};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    if (takes_hangup())
        sigaction(SIGHUP, &action, NULL);
}

/* The signal is blocked until the handler returns; then its default action follows. */
static void remove_and_end(int signo)
{
    (void)unlink(removed);
    signal(signo, SIG_DFL);
    (void)raise(signo);
}

void psr_end_with_parent(void)
{
    /* if the system refuses this, the ranks go on to the end of the run */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
}

void psr_end_removing(const char *path)
{
    snprintf(removed, sizeof removed, "%s", path);
    set_handler(remove_and_end);
}

void psr_end_by_orders(int orders)
{
    orders_fd = orders;
    was_of_a_run = true;
    set_handler(orders >= 0 ? order_stop : SIG_IGN);
}

void psr_end_leaving_hangups(void)
{
    if (takes_hangup())
        signal(SIGHUP, SIG_IGN);
}

void psr_end_by_default(void)
{
    set_handler(was_of_a_run ? SIG_IGN : SIG_DFL);
    signal(SIGINT, SIG_DFL);
    orders_fd = -1;
}
