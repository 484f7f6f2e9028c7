/* What agents, their processes and the scheduler say to the launcher, and what comes of it. */
#include "deploy/launch_private.h"

#include "base/printable.h"
#include "deploy/agent_event.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ORDERS_WAITING_MAX (1u << 20) /* bytes for the scheduler, above which agents are not read */

/* What is known of a process while its line or event is handled. */
typedef struct from_host {
    psr_launch_state *l;
    psr_host_link *host;
} from_host;

/* ---- what agents say ---- */

static psr_err on_hello(psr_launch_state *l, psr_host_link *host, const psr_agent_event *event)
{
    snprintf(host->address, sizeof host->address, "%s", event->address);
    snprintf(host->launcher_address, sizeof host->launcher_address, "%s", event->launcher_address);
    host->cores = event->cores;
    char own[PSR_MACHINE_BYTES];
    psr_machine_id(own);
    host->same_machine = own[0] && strcmp(event->machine, own) == 0;
    host->greeted = true;
    for (size_t i = 0; i < l->host_count; i++)
        if (!l->hosts[i].greeted)
            return PSR_OK;
    return l->ended ? PSR_OK : psr_launch_begin(l);
}

/* A process that ends with an error has told the scheduler why, or heard it from there: the person is told once, in the run's one
 * line. Its own line is kept until that line is known. What is said after the run's end follows from it. */
static void hold_line(psr_launch_state *l, const psr_host_link *host, psr_peer peer,
                      const psr_agent_event *event)
{
    if (l->ended || l->held_count == HELD_LINES_MAX)
        return;
    psr_held_line held = {.what = strdup(event->log.message)};
    if (asprintf(&held.line, "[%s %" PRIu32 " on %s] %s", psr_role_name(peer.role), peer.rank, host->name,
                 event->text) < 0)
        held.line = NULL;
    if (held.line && held.what)
        l->held[l->held_count++] = held;
    else
        psr_held_line_done(&held);
}

void psr_held_line_done(psr_held_line *held)
{
    free(held->line);
    free(held->what);
    *held = (psr_held_line){0};
}

/* The errors that say something else than the run's line. */
void psr_launch_show_held(psr_launch_state *l)
{
    for (size_t i = 0; i < l->held_count; i++) {
        const psr_held_line *held = &l->held[i];
        if (!l->line[0] || (!strstr(l->line, held->what) && !strstr(held->what, l->line)))
            psr_show_error(&l->show, "%s", held->line);
        psr_held_line_done(&l->held[i]);
    }
    l->held_count = 0;
}

static void on_process_line(psr_launch_state *l, const psr_host_link *host, const psr_agent_event *event)
{
    psr_peer peer = l->options->placement->items[event->item].peer;
    psr_order order = {.kind = PSR_ORDER_LOG, .peer = peer};
    snprintf(order.line, sizeof order.line, "%s", event->text);
    psr_launch_order(l, &order);
    bool for_log_alone =
        event->is_log && (event->log.level > PSR_LOG_WARN || event->log.kind == PSR_LOG_OF_STRANGER);
    if (!event->to_stderr || for_log_alone)
        return;
    if (event->is_log && event->log.level == PSR_LOG_ERROR)
        hold_line(l, host, peer, event);
    else
        psr_show_others_error(&l->show, "[%s %" PRIu32 " on %s] %s", psr_role_name(peer.role), peer.rank,
                              host->name, event->text);
}

static void tell_lost(psr_launch_state *l, const psr_host_link *host, psr_peer peer, const char *how)
{
    psr_order order = {.kind = PSR_ORDER_LOST, .peer = peer};
    snprintf(order.host, sizeof order.host, "%s", host->name);
    snprintf(order.how, sizeof order.how, "%s", how);
    psr_launch_order(l, &order);
}

static void on_exited(psr_launch_state *l, const psr_host_link *host, const psr_agent_event *event)
{
    if (!event->ok && !l->ended)
        tell_lost(l, host, l->options->placement->items[event->item].peer, event->text);
}

static psr_err on_event(psr_launch_state *l, psr_host_link *host, const psr_agent_event *event)
{
    switch (event->kind) {
    case PSR_AGENT_GREETING:
        snprintf(host->last_words, sizeof host->last_words, "%s", event->text);
        return PSR_OK;
    case PSR_AGENT_HELLO:
        return on_hello(l, host, event);
    case PSR_AGENT_ALIVE:
        return PSR_OK;
    case PSR_AGENT_PAUSED:
        host->paused = true;
        return PSR_OK;
    case PSR_AGENT_LINE:
        on_process_line(l, host, event);
        return PSR_OK;
    case PSR_AGENT_EXITED:
        on_exited(l, host, event);
        return PSR_OK;
    }
    return PSR_OK;
}

static psr_err on_agent_line(void *context, char *line)
{
    from_host *from = context;
    psr_launch_state *l = from->l;
    psr_host_link *host = from->host;
    psr_agent_event event = {0};
    host->heard_ms = psr_launch_look(l); /* whatever it says */
    if (host->refused)
        return PSR_OK;
    psr_err err = psr_agent_event_read(l->options->placement, (uint32_t)(host - l->hosts), host, l->spawned,
                                       line, &event);
    if (err == PSR_OK)
        err = on_event(l, host, &event);
    psr_agent_event_done(&event);
    if (err != PSR_OK) { /* and the other hosts are attended to all the same */
        host->refused = true;
        psr_launch_end_err(l, err);
    }
    return PSR_OK;
}

static psr_err on_agent_error_line(void *context, char *line)
{
    from_host *from = context;
    snprintf(from->host->last_words, sizeof from->host->last_words, "%s", line);
    if (from->host->greeted)
        psr_show_others_error(&from->l->show, "[agent on %s] %s", from->host->name, line);
    return PSR_OK;
}

/* An agent that ended while the run went on takes its processes with it. */
static psr_err on_agent_end(psr_launch_state *l, psr_host_link *host)
{
    if (!host->greeted)
        return psr_host_no_agent(host);
    char how[256], ended[128];
    psr_child_describe(&host->agent, ended, sizeof ended);
    snprintf(how, sizeof how, "with host %s, whose %s ended (%s)", host->name,
             host->local ? "agent" : "ssh connection", ended);
    host->lost = true;
    const psr_placement *placement = l->options->placement;
    for (size_t i = 0; i < placement->count; i++)
        if (&l->hosts[placement->items[i].host] == host)
            tell_lost(l, host, placement->items[i].peer, how);
    return PSR_OK;
}

/* ---- what the scheduler says ---- */

void psr_launch_order(psr_launch_state *l, const psr_order *order)
{
    char *text = NULL;
    if (psr_order_encode(order, &text) == PSR_OK)
        psr_line_writer_put(&l->scheduler.in, text);
    free(text);
}

static void on_progress(psr_launch_state *l, const psr_run_progress *p)
{
    int used =
        snprintf(l->last_known, sizeof l->last_known, "step %" PRIu64 " of %" PRIu64, p->step, p->total);
    if (isfinite(p->loss))
        snprintf(l->last_known + used, sizeof l->last_known - (size_t)used, ", loss %.4f", p->loss);
    psr_show_progress_event(&l->show, p);
}

/* Strangers are dropped and change nothing, and a member that ends while it connects looks like one: they are in the log. */
static void on_say(psr_launch_state *l, const psr_run_say *say)
{
    if (say->kind == PSR_LOG_OF_STRANGER)
        return;
    if (say->level <= PSR_LOG_WARN)
        psr_show_others_error(&l->show, "[scheduler] %s", say->line);
    else
        psr_show_line(&l->show, say->line);
}

static psr_err on_run_event(psr_launch_state *l, psr_run_event *event)
{
    switch (event->kind) {
    case PSR_RUN_LISTENING:
        if (l->spawned || l->ended)
            return PSR_OK;
        memcpy(l->endpoint, event->endpoint, sizeof l->endpoint);
        return psr_launch_spawn_all(l);
    case PSR_RUN_PROGRESS:
        on_progress(l, &event->progress);
        return PSR_OK;
    case PSR_RUN_EVALUATING:
        psr_show_evaluating_event(&l->show, &event->evaluating);
        return PSR_OK;
    case PSR_RUN_EVALUATED:
        psr_show_evaluated(&l->show);
        psr_show_line(&l->show, event->evaluated);
        return PSR_OK;
    case PSR_RUN_SAY:
        on_say(l, &event->say);
        return PSR_OK;
    case PSR_RUN_PAUSED:
        l->scheduler_paused = true;
        return PSR_OK;
    case PSR_RUN_ENDED:
        if (!l->outcome) {
            l->outcome = event->ended.outcome;
            event->ended.outcome = NULL;
        }
        psr_launch_end(l, event->ended.status, event->ended.line);
        return PSR_OK;
    case PSR_RUN_JOINED:
    case PSR_RUN_RUNNING:
    case PSR_RUN_ALIVE:
        return PSR_OK;
    }
    return PSR_OK;
}

static psr_err on_scheduler_line(void *context, char *line)
{
    psr_launch_state *l = context;
    psr_run_event event;
    l->scheduler_heard_ms = psr_launch_look(l);
    if (psr_run_event_decode(line, &event) != PSR_OK) { /* what a library prints */
        psr_show_line(&l->show, line);
        return PSR_OK;
    }
    psr_err err = on_run_event(l, &event);
    psr_run_event_done(&event);
    return err;
}

static psr_err on_scheduler_error_line(void *context, char *line)
{
    psr_launch_state *l = context;
    psr_show_others_error(&l->show, "[scheduler] %s", line);
    return PSR_OK;
}

static void on_scheduler_end(psr_launch_state *l)
{
    char host[256] = "?", how[128], line[1024];
    (void)gethostname(host, sizeof host - 1);
    psr_child_describe(&l->scheduler, how, sizeof how);
    snprintf(line, sizeof line, "scheduler 0 on %s: %s; the run was at %s", host, how,
             l->last_known[0] ? l->last_known : "its start");
    psr_launch_end(l, l->scheduler.status != 0 && !l->spawned ? 2 : 1, line);
}

/* What agents say goes on to the scheduler. Of one that says more than the scheduler takes the rest waits in the pipes, and what
 * those do not take is dropped where it was printed. */
bool psr_launch_may_read_agents(const psr_launch_state *l)
{
    return psr_line_writer_waiting(&l->scheduler.in) < ORDERS_WAITING_MAX;
}

psr_err psr_launch_attend_hosts(psr_launch_state *l)
{
    for (size_t i = 0; i < l->host_count; i++) {
        psr_host_link *host = &l->hosts[i];
        from_host from = {l, host};
        (void)psr_child_reap(&host->agent);
        if (psr_launch_may_read_agents(l))
            PSR_TRY(psr_line_reader_visit(&host->agent.out, on_agent_line, &from));
        PSR_TRY(psr_line_reader_visit(&host->agent.err, on_agent_error_line, &from));
        psr_line_writer_flush(&host->agent.in);
        if (psr_child_said_all(&host->agent) && !l->ended && !host->lost)
            PSR_TRY(on_agent_end(l, host));
    }
    return PSR_OK;
}

psr_err psr_launch_attend_scheduler(psr_launch_state *l)
{
    (void)psr_child_reap(&l->scheduler);
    PSR_TRY(psr_line_reader_visit(&l->scheduler.out, on_scheduler_line, l));
    PSR_TRY(psr_line_reader_visit(&l->scheduler.err, on_scheduler_error_line, l));
    psr_line_writer_flush(&l->scheduler.in);
    if (psr_child_said_all(&l->scheduler) && !l->ended)
        on_scheduler_end(l);
    return PSR_OK;
}
