/* The launcher's loop. It waits for all agents, the scheduler and the user at the same time, and
 * passes on to the launch machine what they say and do. */
#include "deploy/launch/launch_private.h"

#include "base/clock.h"
#include "base/system/signals.h"

#include <limits.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define ORDERS_WAITING_MAX (1u << 20) /* bytes for the scheduler, above which agents are not read */

/* Lines of agents are passed on to the scheduler. If an agent says more than the scheduler takes,
 * the rest waits in the pipes. What the pipes do not take is dropped by the process that printed
 * it. */
static bool may_read_agents(const psr_launch_driver *d)
{
    return psr_line_writer_waiting(&d->scheduler.in) < ORDERS_WAITING_MAX;
}

/* ---- what is read ---- */

typedef struct from_host {
    psr_launch_machine *machine;
    size_t host;
} from_host;

static psr_err on_agent_line(void *context, char *line)
{
    const from_host *from = context;
    psr_launch_machine_agent_said(from->machine, from->host, line, psr_clock_ms());
    return PSR_OK;
}

static psr_err on_agent_error_line(void *context, char *line)
{
    const from_host *from = context;
    psr_launch_machine_agent_complained(from->machine, from->host, line);
    return PSR_OK;
}

static psr_err on_scheduler_line(void *context, char *line)
{
    psr_launch_machine_scheduler_said(context, line, psr_clock_ms());
    return PSR_OK;
}

static psr_err on_scheduler_error_line(void *context, char *line)
{
    psr_launch_machine_scheduler_complained(context, line);
    return PSR_OK;
}

/* Takes the lines of one agent, up to a limit, and sends it the lines that wait for it. */
static psr_err attend_host(psr_launch_driver *d, size_t host)
{
    psr_child *agent = &d->hosts[host].agent;
    from_host from = {d->machine, host};
    if (psr_child_reap(agent))
        psr_launch_machine_agent_ended(d->machine, host);
    if (may_read_agents(d))
        PSR_TRY(psr_line_reader_visit(&agent->out, on_agent_line, &from));
    PSR_TRY(psr_line_reader_visit(&agent->err, on_agent_error_line, &from));
    psr_line_writer_flush(&agent->in);
    if (psr_child_said_all(agent))
        psr_launch_machine_agent_closed(d->machine, host, agent->status, psr_clock_ms());
    return PSR_OK;
}

static psr_err attend_scheduler(psr_launch_driver *d)
{
    psr_child *scheduler = &d->scheduler;
    if (psr_child_reap(scheduler))
        psr_launch_machine_scheduler_ended(d->machine);
    PSR_TRY(psr_line_reader_visit(&scheduler->out, on_scheduler_line, d->machine));
    PSR_TRY(psr_line_reader_visit(&scheduler->err, on_scheduler_error_line, d->machine));
    psr_line_writer_flush(&scheduler->in);
    if (psr_child_said_all(scheduler))
        psr_launch_machine_scheduler_closed(d->machine, scheduler->status, psr_clock_ms());
    return PSR_OK;
}

#define FDS_OF_EACH 4

/* Whether poll reported something for that host's agent, or for the scheduler, which comes after
 * the hosts. Of thousands of hosts that is true for few. */
static bool has_event(const psr_launch_driver *d, size_t index)
{
    const struct pollfd *fds = d->fds + 1 + FDS_OF_EACH * index;
    return (fds[0].revents | fds[1].revents | fds[2].revents | fds[3].revents) != 0;
}

static psr_err attend_all(psr_launch_driver *d)
{
    for (size_t i = 0; i < d->polled_hosts; i++)
        if (has_event(d, i))
            PSR_TRY(attend_host(d, i));
    return has_event(d, d->polled_hosts) ? attend_scheduler(d) : PSR_OK;
}

/* ---- signals ---- */

static void end_by_signal(psr_launch_driver *d, int signo)
{
    if (!d->told_to_end || !psr_signal_is_a_jobs(signo))
        psr_launch_machine_interrupted(d->machine, psr_clock_ms());
    d->told_to_end = true;
}

static void on_signal(psr_launch_driver *d, int signo)
{
    if (signo == SIGWINCH)
        psr_show_resized(&d->show);
    else if (signo == SIGTSTP)
        psr_launch_machine_suspended(d->machine, psr_clock_ms());
    else if (signo == SIGCONT)
        psr_launch_machine_continued(d->machine);
    else
        end_by_signal(d, signo);
}

static void take_signals(psr_launch_driver *d)
{
    struct signalfd_siginfo info;
    while (read(d->signals, &info, sizeof info) == (ssize_t)sizeof info)
        on_signal(d, (int)info.ssi_signo);
}

/* ---- the loop ---- */

static nfds_t collect(psr_launch_driver *d)
{
    nfds_t n = 0;
    struct pollfd *fds = d->fds;
    fds[n++] = (struct pollfd){.fd = d->signals, .events = POLLIN};
    d->polled_hosts = d->host_count;
    for (size_t i = 0; i <= d->host_count; i++) {
        const psr_child *child = i < d->host_count ? &d->hosts[i].agent : &d->scheduler;
        bool reads = child == &d->scheduler || may_read_agents(d);
        fds[n++] = (struct pollfd){.fd = child->pidfd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = reads ? child->out.fd : -1, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = child->err.fd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = psr_line_writer_pending(&child->in) ? child->in.fd : -1,
                                   .events = POLLOUT};
    }
    return n;
}

static int timeout_ms(psr_launch_driver *d)
{
    int64_t wait_ms = psr_launch_machine_wait_ms(d->machine, psr_clock_ms());
    return wait_ms < INT_MAX ? (int)wait_ms : INT_MAX;
}

void psr_launch_loop(psr_launch_driver *d)
{
    for (;;) {
        psr_launch_machine_tick(d->machine, may_read_agents(d), psr_clock_ms());
        if (psr_launch_machine_is_over(d->machine))
            return;
        (void)poll(d->fds, collect(d), timeout_ms(d)); /* EINTR: nothing is touched */
        take_signals(d);
        psr_err err = attend_all(d);
        if (err != PSR_OK)
            psr_launch_machine_failed(d->machine, err, psr_clock_ms());
    }
}
