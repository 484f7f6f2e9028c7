/* The launcher at work: waits for all whom it watches at once, misses those that fall silent, and obeys Ctrl-C and Ctrl-Z. */
#include "deploy/launch_private.h"

#include "deploy/job.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define HELLO_MS 20000 /* for ssh and a program's start; not the run's deadline, which may be one second */
/* For scheduler and agents to answer that all is stopped, before the launcher stops itself. */
#define PAUSE_MS 1000
#define LAST_LINE_MS 200 /* for the screen to take what is said before Ctrl-Z stops the launcher */

/* ---- Ctrl-C ---- */

static void on_interrupt(psr_launch_state *l)
{
    l->interrupts++;
    if (l->interrupts == 1 && l->spawned && !l->ended) {
        psr_launch_order(l, &(psr_order){.kind = PSR_ORDER_STOP});
        psr_show_line(&l->show, "stopping after this step, with a checkpoint; once more to end at once");
    } else {
        psr_launch_end(l, 130, "interrupted");
        l->end_by_ms = psr_clock_ms();
        l->at_once = true;
    }
}

/* ---- Ctrl-Z ---- */

/* First scheduler and agents stop all that works and counts time; when they have said so, or in a second at most, this process stops
 * itself. A run that is ending needs no one to let it go on. */
static void begin_pause(psr_launch_state *l)
{
    psr_show_end(&l->show);
    if (l->pausing)
        return;
    l->pausing = true;
    l->pause_by_ms = psr_clock_ms() + PAUSE_MS;
    l->scheduler_paused = false;
    if (l->ended)
        return;
    psr_launch_order(l, &(psr_order){.kind = PSR_ORDER_PAUSE});
    for (size_t i = 0; i < l->host_count; i++) {
        l->hosts[i].paused = false;
        psr_json_put(&l->hosts[i].agent.in, "op", "pause", NULL);
    }
}

static void end_pause(psr_launch_state *l)
{
    l->pausing = false;
    if (l->ended)
        return;
    psr_launch_order(l, &(psr_order){.kind = PSR_ORDER_GO_ON});
    for (size_t i = 0; i < l->host_count; i++)
        psr_json_put(&l->hosts[i].agent.in, "op", "go_on", NULL);
    psr_show_again(&l->show);
}

/* Who has not come up yet finds the order when it has. */
static bool all_paused(const psr_launch_state *l)
{
    bool paused = l->scheduler.pid == 0 || l->scheduler_paused;
    for (size_t i = 0; i < l->host_count; i++)
        paused &= l->hosts[i].agent.pid == 0 || !l->hosts[i].greeted || l->hosts[i].paused;
    return paused;
}

static void check_pause(psr_launch_state *l)
{
    if (!l->pausing || (!l->ended && !all_paused(l) && psr_clock_ms() < l->pause_by_ms))
        return;
    psr_screen_drain(l->screen, -1, LAST_LINE_MS);
    psr_job_stop();
    end_pause(l);
}

static void on_signal(psr_launch_state *l, int signo)
{
    if (signo == SIGWINCH)
        psr_show_resized(&l->show);
    else if (signo == SIGTSTP)
        begin_pause(l);
    else if (signo == SIGCONT && l->pausing) /* it comes before the stop */
        end_pause(l);
    else if (signo != SIGCONT)
        on_interrupt(l);
}

/* ---- who is silent ---- */

static void say_alive(psr_launch_state *l, int64_t now)
{
    if (now < l->alive_ms)
        return;
    l->alive_ms = now + l->deadline_ms / 4 + 1;
    psr_launch_order(l, &(psr_order){.kind = PSR_ORDER_ALIVE});
    for (size_t i = 0; i < l->host_count; i++)
        psr_json_put(&l->hosts[i].agent.in, "op", "alive", NULL);
}

/* The scheduler asks all what they are doing, and ends the run; without one it ends here. */
static void on_silent_agent(psr_launch_state *l, psr_host_link *host, int64_t silent_ms)
{
    char line[512];
    psr_order order = {.kind = PSR_ORDER_AGENT};
    host->lost = true;
    snprintf(order.host, sizeof order.host, "%s", host->name);
    snprintf(order.how, sizeof order.how, "no sign of life for %.1f s", (double)silent_ms / 1000);
    snprintf(line, sizeof line, "agent on %s: %.64s", host->name, order.how);
    if (l->scheduler.pid == 0)
        psr_launch_end(l, 1, line);
    else
        psr_launch_order(l, &order);
}

/* Its processes go on without it, so that nobody else would miss it before the end. */
static void check_agents(psr_launch_state *l)
{
    int64_t now = psr_launch_look(l);
    for (size_t i = 0; i < l->host_count && !l->ended; i++) {
        psr_host_link *host = &l->hosts[i];
        if (!host->greeted || host->lost || host->agent.ended)
            continue;
        if (!psr_launch_may_read_agents(l))
            host->heard_ms = now; /* it is not listened to */
        if (now - host->heard_ms >= l->deadline_ms)
            on_silent_agent(l, host, now - host->heard_ms);
    }
}

static void check_scheduler(psr_launch_state *l)
{
    char host[256] = "?", line[1024];
    int64_t silent = psr_launch_look(l) - l->scheduler_heard_ms;
    if (l->ended || l->scheduler.pid == 0 || silent < l->deadline_ms)
        return;
    (void)gethostname(host, sizeof host - 1);
    snprintf(line, sizeof line, "scheduler 0 on %s: no sign of life for %.1f s; the run was at %s", host,
             (double)silent / 1000, l->last_known[0] ? l->last_known : "its start");
    psr_launch_end(l, 1, line);
}

static void check_deadlines(psr_launch_state *l, int64_t began_ms, int64_t now)
{
    char line[1024];
    for (size_t i = 0; i < l->host_count && !l->ended; i++) {
        if (!l->hosts[i].greeted && now - began_ms >= HELLO_MS) {
            snprintf(line, sizeof line, "host %s: its agent did not answer within %d s%s%s", l->hosts[i].name,
                     HELLO_MS / 1000, l->hosts[i].last_words[0] ? ": " : "", l->hosts[i].last_words);
            psr_launch_end(l, 1, line);
        }
    }
    check_scheduler(l);
    check_agents(l);
}

/* ---- the loop ---- */

static size_t collect(psr_launch_state *l, struct pollfd *fds)
{
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    for (size_t i = 0; i <= l->host_count; i++) {
        const psr_child *child = i < l->host_count ? &l->hosts[i].agent : &l->scheduler;
        bool reads = child == &l->scheduler || psr_launch_may_read_agents(l);
        fds[n++] = (struct pollfd){.fd = child->pidfd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = reads ? child->out.fd : -1, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = child->err.fd, .events = POLLIN};
        fds[n++] =
            (struct pollfd){.fd = psr_line_writer_pending(&child->in) ? child->in.fd : -1, .events = POLLOUT};
    }
    return n;
}

/* All have ended, and all they said was read. */
static bool all_gone(psr_launch_state *l)
{
    bool gone = l->scheduler.pid == 0 && (!l->scheduler.ended || psr_child_said_all(&l->scheduler));
    for (size_t i = 0; i < l->host_count; i++)
        gone &= l->hosts[i].agent.pid == 0 &&
                (!l->hosts[i].agent.ended || psr_child_said_all(&l->hosts[i].agent));
    return gone;
}

/* When one of those whom we watch will have been silent for the deadline, in so many ms. */
static int64_t silence_due_ms(psr_launch_state *l)
{
    int64_t oldest_ms = INT64_MAX, now = psr_launch_look(l);
    if (l->scheduler.pid > 0)
        oldest_ms = l->scheduler_heard_ms;
    for (size_t i = 0; i < l->host_count; i++) {
        const psr_host_link *host = &l->hosts[i];
        if (host->greeted && !host->lost && !host->agent.ended && host->heard_ms < oldest_ms)
            oldest_ms = host->heard_ms;
    }
    return oldest_ms == INT64_MAX ? INT64_MAX : oldest_ms + l->deadline_ms - now;
}

static int timeout_ms(psr_launch_state *l, int64_t now)
{
    int64_t next = l->alive_ms, silence_ms = l->ended ? INT64_MAX : silence_due_ms(l);
    if (silence_ms < next - now)
        next = now + silence_ms;
    if (l->ended && l->end_by_ms < next)
        next = l->end_by_ms;
    if (l->pausing && l->pause_by_ms < next)
        next = l->pause_by_ms;
    return next <= now ? 0 : (int)(next - now);
}

void psr_launch_loop(psr_launch_state *l, struct pollfd *fds)
{
    int64_t began_ms = psr_clock_ms();
    while (!l->ended || !all_gone(l)) {
        int64_t now = psr_clock_ms();
        say_alive(l, now);
        (void)poll(fds, collect(l, fds), timeout_ms(l, now));
        struct signalfd_siginfo info;
        while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info)
            on_signal(l, (int)info.ssi_signo);
        psr_err err = psr_launch_attend_hosts(l);
        if (!err)
            err = psr_launch_attend_scheduler(l);
        if (err)
            psr_launch_end_err(l, err);
        check_pause(l);
        now = psr_clock_ms();
        check_deadlines(l, began_ms, now);
        if (l->ended && now >= l->end_by_ms) {
            for (size_t i = 0; i < l->host_count; i++)
                psr_child_signal(&l->hosts[i].agent, SIGKILL); /* its processes die with it */
            psr_child_signal(&l->scheduler, SIGKILL);
            l->end_by_ms = now + 100;
        }
    }
}
