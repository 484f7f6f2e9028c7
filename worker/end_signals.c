#include "worker/end_signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t orders_fd = -1; /* a handler has no other way to know it */
static volatile sig_atomic_t ordered;        /* to stop, at least once */

static void order_stop(int signo)
{
    static const char line[] = "{\"order\": \"stop\"}\n";
    int kept = errno;
    if (signo != SIGINT && ordered)
        return;
    ordered = 1;
    (void)!write(orders_fd, line, sizeof line - 1);
    errno = kept;
}

static void set_handler(void (*handler)(int))
{
    struct sigaction action = {.sa_flags = SA_RESTART};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

void psr_end_by_orders(int orders)
{
    orders_fd = orders;
    set_handler(orders >= 0 ? order_stop : SIG_IGN);
}

void psr_end_by_default(void)
{
    set_handler(SIG_DFL);
    orders_fd = -1;
}
