/* The driver from its first socket to its last: setting up, the loop, and cleaning up. */
#include "ps/scheduler/driver/driver.h"

#include "ps/scheduler/driver/driver_private.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "comm/wire/messages.h"
#include "ps/scheduler/about.h"

#include <stdio.h>
#include <unistd.h>

#define FLUSH_EVERY_MS 500

static const psr_peer scheduler_peer = {PSR_ROLE_SCHEDULER, 0};

void psr_scheduler_driver_log(const psr_scheduler_driver *d, const char *line)
{
    psr_rundir_log(d->rundir, scheduler_peer, line);
}

void psr_scheduler_driver_say(void *driver, const char *line)
{
    psr_scheduler_driver *d = driver;
    psr_scheduler_driver_log(d, line);
    psr_launcher_say(d->launcher, PSR_LOG_OF_RUN, PSR_LOG_INFO, line);
}

static void on_stranger(void *context, const char *line)
{
    psr_scheduler_driver *d = context;
    psr_scheduler_driver_log(d, line);
    psr_launcher_say(d->launcher, PSR_LOG_OF_STRANGER, PSR_LOG_WARN, line);
}

/* ---- the loop ---- */

static void take_message(void *context, psr_message *message, int64_t now_ms)
{
    psr_scheduler_driver *d = context;
    if (message->head.type == PSR_MSG_JOIN)
        psr_fault_point("start", 0);
    psr_msg_done done;
    const psr_msg_limits limits = psr_coordinator_limits(d->coordinator);
    if (message->head.type == PSR_MSG_DONE && psr_msg_done_read(message, &limits, &done) == PSR_OK)
        psr_fault_point("shutdown", done.steps);
    /* The thread that writes a checkpoint may free the message as soon as it has it. */
    const psr_message seen = *message;
    const bool may_be_kept = message->head.type == PSR_MSG_CHECKPOINT;
    d->present = message;
    psr_coordinator_message(d->coordinator, may_be_kept ? &seen : message, now_ms);
    psr_message_free(&d->present);
}

static void lose_inbox(void *context, psr_err err)
{
    psr_coordinator_end(((psr_scheduler_driver *)context)->coordinator, err, NULL);
}

void psr_scheduler_driver_keep_up(psr_scheduler_driver *d, int64_t now_ms)
{
    psr_orders_say_alive(&d->orders, now_ms);
    if (now_ms < d->flush_ms)
        return;
    d->flush_ms = now_ms + FLUSH_EVERY_MS;
    psr_err err = psr_rundir_flush(d->rundir);
    if (err == PSR_OK)
        err = psr_followers_flush(&d->followers);
    if (err != PSR_OK)
        psr_coordinator_end(d->coordinator, err, NULL);
}

static bool between(void *context, int64_t now_ms)
{
    psr_scheduler_driver *d = context;
    const bool more = psr_orders_take(&d->orders, now_ms);
    psr_scheduler_driver_take_checkpoints(d);
    psr_mode_requests_take(&d->asked);
    psr_scheduler_driver_keep_up(d, now_ms);
    return more;
}

static void tick(void *context, int64_t now_ms)
{
    psr_scheduler_driver *d = context;
    psr_scheduler_driver_watch(d, now_ms);
    psr_coordinator_tick(d->coordinator, now_ms);
}

static int64_t next_ms(void *context)
{
    const psr_scheduler_driver *d = context;
    const int64_t tick_ms = psr_coordinator_next_tick(d->coordinator),
                  kept_ms =
                      d->flush_ms < d->orders.say_alive_ms ? d->flush_ms : d->orders.say_alive_ms;
    return tick_ms < kept_ms ? tick_ms : kept_ms;
}

static bool has_ended(void *context)
{
    return psr_coordinator_ended(((const psr_scheduler_driver *)context)->coordinator);
}

/* ---- life ---- */

static void say_shared(void *context, bool shared, const char *line)
{
    (void)context;
    if (!shared)
        psr_log(PSR_LOG_INFO, "%s", line);
}

/* Members of this host give pieces of checkpoints by reference. Where they cannot, those come as
 * messages. */
static void take_memory(psr_scheduler_driver *d)
{
    psr_err err = psr_config_shares_memory(d->config)
                      ? psr_transport_share(d->transport, say_shared, d)
                      : PSR_OK;
    (void)err;
}

static psr_err open_transport(psr_scheduler_driver *d)
{
    psr_zmq_options zmq = psr_provision_zmq(d->provision);
    zmq.self = scheduler_peer;
    zmq.watches_ways = true;
    zmq.members_look = d->starter != 0; /* a rank started this process, and others may do so too */
    zmq.log_stranger = on_stranger;
    zmq.log_context = d;
    PSR_TRY(psr_transport_zmq_new(&zmq, &d->transport));
    take_memory(d);
    d->loop = (psr_scheduler_loop){.transport = d->transport,
                                   .provision = d->provision,
                                   .deadline_ms = d->deadline_ms,
                                   .context = d,
                                   .take = take_message,
                                   .failed = lose_inbox,
                                   .between = between,
                                   .ended = d->by_hand ? psr_scheduler_driver_lose_member : NULL,
                                   .host_rank = PSR_RANK_ANY,
                                   .tick = tick,
                                   .next_ms = next_ms,
                                   .over = has_ended};
    return PSR_OK;
}

static psr_err set_up(psr_scheduler_driver *d)
{
    psr_scheduler_events events = {
        .context = d,
        .ways = psr_scheduler_loop_ways(&d->loop),
        .say = psr_scheduler_driver_say,
    };
    psr_scheduler_driver_begin_events(&events);
    psr_scheduler_driver_run_events(&events);
    psr_scheduler_driver_end_events(&events);
    PSR_TRY(psr_fault_point_set(d->config->fault_point, "scheduler", 0));
    PSR_TRY(psr_followers_init(&d->followers, d->config));
    PSR_TRY(psr_rundir_new(d->config, d->series, d->command, &d->rundir));
    if (psr_followers_url(&d->followers) != NULL)
        psr_rundir_metrics_url(d->rundir, psr_followers_url(&d->followers));
    if (d->config->resume[0])
        PSR_TRY(
            psr_resume_open(d->config->resume, d->config, psr_scheduler_driver_say, d, &d->resume));
    int64_t now_ms = psr_clock_ms();
    d->flush_ms = now_ms;
    d->orders = psr_scheduler_driver_orders(d);
    psr_orders_begin(&d->orders, now_ms);
    PSR_TRY(psr_scheduler_new(d->config, &events, d->host, now_ms, &d->scheduler));
    d->coordinator = psr_scheduler_coordinator(d->scheduler);
    psr_launcher_listening(d->launcher, psr_transport_endpoint(d->transport));
    return PSR_OK;
}

static void clean_up(psr_scheduler_driver *d)
{
    /* The threads of the first three wake the transport. */
    psr_mode_requests_done(&d->asked);
    psr_launcher_free(d->launcher);
    psr_checkpoints_free(d->checkpoints);
    psr_kept_free(d->kept);
    psr_about_pairs_free(d->about);
    bool in_order = d->status == PSR_OK || d->status == PSR_ERR_CANCELLED;
    psr_transport_free(&d->transport, d->closed  ? 0
                                      : in_order ? PSR_SCHEDULER_LINGER_MS
                                                 : PSR_SCHEDULER_ABORT_LINGER_MS);
    psr_resume_free(d->resume);
    psr_sections_done(&d->sections);
    psr_scheduler_free(d->scheduler);
    psr_progress_free(d->progress);
    psr_figures_free(d->figures);
    psr_links_free(d->links);
    psr_followers_done(&d->followers);
    psr_rundir_free(d->rundir);
}

psr_err psr_scheduler_drive(const psr_config *config, const char *series, const char *command,
                            const psr_provision *provision, psr_launcher_kind kind)
{
    psr_scheduler_driver d = {.config = config,
                              .series = series,
                              .command = command,
                              .provision = provision,
                              .by_hand = kind != PSR_LAUNCHER_WHOLE};
    d.starter = kind == PSR_LAUNCHER_WORKER ? getppid() : 0;
    d.deadline_ms = (int64_t)(config->deadline_s * 1000);
    snprintf(d.host, sizeof d.host, "%s", provision->host);
    if (d.host[0] == '\0' && gethostname(d.host, sizeof d.host - 1) != 0)
        snprintf(d.host, sizeof d.host, "localhost");

    psr_err err = open_transport(&d);
    if (err == PSR_OK)
        err = psr_launcher_new(kind, config, psr_scheduler_loop_wake, &d.loop, &d.launcher);
    if (err == PSR_OK)
        err = set_up(&d);
    if (err == PSR_OK) {
        psr_scheduler_loop_run(&d.loop);
        psr_scheduler_driver_take_last_lines(&d);
        psr_scheduler_driver_answer_late(&d);
        err = d.status;
    } else {
        snprintf(d.line, sizeof d.line, "%s", psr_err_detail());
        if (d.launcher != NULL)
            psr_launcher_ended(d.launcher, err, d.line, NULL, NULL);
        else
            psr_log(PSR_LOG_ERROR, "%s", d.line);
        psr_scheduler_driver_answer_late(&d);
    }
    clean_up(&d);
    return err == PSR_OK ? PSR_OK : psr_fail(err, "%s", d.line);
}
