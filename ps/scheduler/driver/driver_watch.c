/* What comes to the scheduler from outside of the run's messages: the launcher's orders, and that a
 * process has ended, the launcher is silent, the disk takes nothing, or a member cannot be
 * reached. */
#include "ps/scheduler/driver/driver_private.h"

#include "comm/launcher_line.h"
#include "comm/members/unreached.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- orders ---- */

static void stop(void *context)
{
    psr_scheduler_driver *d = context;
    if (d->stops++ == 0)
        psr_scheduler_stop(d->scheduler);
    else
        psr_coordinator_end(d->coordinator, PSR_ERR_CANCELLED, "told to stop twice: ended at once");
}

static void obey(void *context, const psr_order *order, int64_t now_ms)
{
    psr_scheduler_driver *d = context;
    switch (order->kind) {
    case PSR_ORDER_LOST:
        psr_coordinator_lost(d->coordinator, order->peer, order->host[0] ? order->host : NULL,
                             order->by_itself, order->how, now_ms);
        return;
    case PSR_ORDER_AGENT:
        psr_coordinator_agent_lost(d->coordinator, order->host, order->how, now_ms);
        return;
    case PSR_ORDER_LOG:
        if (psr_coordinator_has(d->coordinator, order->peer)) /* each has a file */
            psr_rundir_log(d->rundir, order->peer, order->line);
        return;
    case PSR_ORDER_LINKS:
        psr_rundir_links(d->rundir, order->bits_per_s, order->host, order->to);
        return;
    case PSR_ORDER_CLOSED:
        d->closed = true;
        return;
    default: /* LEFT: in training a process may end only when the run ends */
        return;
    }
}

static void say_bad_order(void *context)
{
    psr_scheduler_driver *d = context;
    char line[512];
    snprintf(line, sizeof line, "the launcher sent a line that is not an order: %s",
             psr_err_detail());
    psr_launcher_say(d->launcher, PSR_LOG_OF_RUN, PSR_LOG_WARN, line);
}

static void lose_launcher(void *context, int64_t now_ms)
{
    psr_scheduler_driver *d = context;
    d->launcher_gone = true;
    if (d->by_hand)
        psr_coordinator_end(d->coordinator, PSR_ERR_PEER,
                            "the process that started the scheduler is gone");
    else
        psr_coordinator_launcher_lost(d->coordinator, PSR_ERR_PEER, "gone without a word", now_ms);
}

psr_orders psr_scheduler_driver_orders(psr_scheduler_driver *d)
{
    return (psr_orders){.launcher = d->launcher,
                        .deadline_ms = d->deadline_ms,
                        .context = d,
                        .obey = obey,
                        .stop = stop,
                        .gone = lose_launcher,
                        .bad = say_bad_order};
}

/* ---- deadlines ---- */

static void check_launcher(psr_scheduler_driver *d, int64_t now_ms)
{
    int64_t silent_ms = psr_orders_silent_ms(&d->orders, now_ms);
    if (d->by_hand || silent_ms <= d->deadline_ms)
        return;
    char how[64];
    snprintf(how, sizeof how, "no sign of life for %.1f s", (double)silent_ms / 1000);
    psr_coordinator_launcher_lost(d->coordinator, PSR_ERR_TIMEOUT, how, now_ms);
}

/* The disk may be slow, and then the workers wait for it; but it has the deadline too. */
static void check_disk(psr_scheduler_driver *d, int64_t now_ms)
{
    psr_checkpoints_pace pace;
    if (d->checkpoints == NULL || !psr_checkpoints_writing(d->checkpoints, &pace))
        return;
    char line[PSR_HOST_MAX + PSR_PATH_MAX + 160];
    int64_t back_ms = d->orders.presence.back_ms;
    int64_t idle_ms = now_ms - (pace.moved_ms > back_ms ? pace.moved_ms : back_ms);
    if (idle_ms > d->deadline_ms) {
        snprintf(line, sizeof line,
                 "scheduler 0 on %s: the disk has taken nothing for %.1f s of the checkpoint of "
                 "step %" PRIu64 " in %s/checkpoints; %.0f%% of it is written",
                 d->host, (double)idle_ms / 1000, pace.step, psr_rundir_path(d->rundir),
                 100 * pace.written);
        psr_coordinator_end(d->coordinator, PSR_ERR_TIMEOUT, line);
        return;
    }
    psr_coordinator_works(d->coordinator, now_ms);
    /* say so once a while */
    if (pace.busy_ms < d->deadline_ms / 4 || now_ms - d->slow_said_ms < d->deadline_ms)
        return;
    d->slow_said_ms = now_ms;
    snprintf(line, sizeof line,
             "the disk is slow: %.0f%% of the checkpoint of step %" PRIu64
             " is written after %.1f s",
             100 * pace.written, pace.step, (double)pace.busy_ms / 1000);
    psr_scheduler_driver_say(d, line);
}

/* The member has joined, but cannot be sent the reason; it gets it on its own connection. */
static void check_ways(psr_scheduler_driver *d)
{
    psr_unreached unreached;
    char name[PSR_MEMBER_NAME_MAX], line[1024];
    if (!psr_transport_unreached(d->transport, psr_unreached_patience_ms(d->deadline_ms),
                                 &unreached))
        return;
    psr_coordinator_name(d->coordinator, unreached.peer, name);
    psr_unreached_describe(&unreached, name, line, sizeof line);
    psr_transport_refuse_peer(d->transport, unreached.peer, PSR_ERR_PEER, line);
    psr_coordinator_end(d->coordinator, PSR_ERR_PEER, line);
}

void psr_scheduler_driver_watch(psr_scheduler_driver *d, int64_t now_ms)
{
    check_launcher(d, now_ms);
    check_disk(d, now_ms);
    check_ways(d);
}

/* By itself or not. A message in which such a member says why it ended may still be on its way. */
void psr_scheduler_driver_lose_member(void *driver, psr_peer peer, int64_t now_ms)
{
    const psr_scheduler_driver *d = driver;
    psr_coordinator_lost(d->coordinator, peer, NULL, true, "its process has ended", now_ms);
}
