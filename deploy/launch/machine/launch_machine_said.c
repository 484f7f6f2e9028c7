#include "deploy/launch/machine/launch_machine_private.h"

#include "deploy/agent/agent_event.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what agents say ---- */

static psr_err on_hello(psr_launch_machine *m, psr_launch_host *h, psr_agent_event *event,
                        int64_t now_ms)
{
    snprintf(h->reached.address, sizeof h->reached.address, "%s", event->address);
    snprintf(h->reached.launcher_address, sizeof h->reached.launcher_address, "%s",
             event->launcher_address);
    h->cores = event->cores;
    if (m->options.bind_to != PSR_BIND_TO_NONE) {
        h->topology = event->topology;
        event->topology = (psr_topology){0};
    }
    h->other_machine = m->options.machine[0] != '\0' && event->machine[0] != '\0' &&
                       strcmp(event->machine, m->options.machine) != 0;
    h->same_machine =
        m->options.machine[0] != '\0' && strcmp(event->machine, m->options.machine) == 0;
    return psr_launch_greeted(m, h, now_ms);
}

/* A process that ends with an error has told the scheduler the reason, or got it from there. The
 * user is told once, in the run's one line. So the process's own line is kept until that line is
 * known. Lines after the run's end only follow from it. */
static void hold_line(psr_launch_machine *m, const psr_launch_host *h, psr_peer peer,
                      const psr_agent_event *event)
{
    if (!m->ended)
        psr_held_lines_add(&m->held, event->log.message, "[%s %" PRIu32 " on %s] %s",
                           psr_role_name(peer.role), peer.rank, h->name, event->text);
}

static void on_process_line(psr_launch_machine *m, const psr_launch_host *h,
                            const psr_agent_event *event)
{
    psr_peer peer = m->options.placement->items[event->item].peer;
    if (m->options.runs_program) {
        m->act.show_output(m->act.context, peer.rank, event->to_stderr, event->text);
        return;
    }
    psr_order log = {.kind = PSR_ORDER_LOG, .peer = peer};
    snprintf(log.line, sizeof log.line, "%s", event->text);
    psr_launch_order(m, &log);
    bool for_log_alone = event->is_log && (event->log.level > PSR_LOG_WARN ||
                                           event->log.kind == PSR_LOG_OF_STRANGER);
    if (!event->to_stderr || for_log_alone)
        return;
    if (event->is_log && event->log.level == PSR_LOG_ERROR)
        hold_line(m, h, peer, event);
    else
        psr_launch_show(m, m->act.show_others_error, "[%s %" PRIu32 " on %s] %s",
                        psr_role_name(peer.role), peer.rank, h->name, event->text);
}

static void on_exited(psr_launch_machine *m, const psr_launch_host *h, const psr_agent_event *event)
{
    psr_peer peer = m->options.placement->items[event->item].peer;
    psr_order left = {.kind = PSR_ORDER_LEFT, .peer = peer};
    snprintf(left.host, sizeof left.host, "%s", h->name);
    if (m->ended)
        return;
    if (!event->ok)
        psr_launch_lose_member(m, h, peer, event->by_itself, event->text);
    else if (m->options.runs_program)
        psr_launch_order(m, &left);
}

static psr_err on_event(psr_launch_machine *m, psr_launch_host *h, psr_agent_event *event,
                        int64_t now_ms)
{
    switch (event->kind) {
    case PSR_AGENT_GREETING:
        psr_launch_remember_words(h, event->text);
        return PSR_OK;
    case PSR_AGENT_HELLO:
        return on_hello(m, h, event, now_ms);
    case PSR_AGENT_ALIVE:
        return PSR_OK;
    case PSR_AGENT_PAUSED:
        h->paused = true;
        return PSR_OK;
    case PSR_AGENT_LISTENS:
        return m->ended ? PSR_OK : psr_launch_listens(m, h, event, now_ms);
    case PSR_AGENT_LINK:
        return m->ended ? PSR_OK : psr_launch_link(m, h, event, now_ms);
    case PSR_AGENT_LINE:
        on_process_line(m, h, event);
        return PSR_OK;
    case PSR_AGENT_EXITED:
        on_exited(m, h, event);
        return PSR_OK;
    }
    return PSR_OK;
}

void psr_launch_machine_agent_said(psr_launch_machine *m, size_t index, const char *line,
                                   int64_t now_ms)
{
    psr_launch_host *h = &m->hosts[index];
    psr_agent_event event = {0};
    h->heard_ms = psr_launch_look(m, now_ms); /* whatever it says */
    if (h->refused)
        return;
    const psr_agent_context context = {.placement = m->options.placement,
                                       .host = (uint32_t)index,
                                       .greeted = h->greeted,
                                       .asked_to_listen = h->asked_to_listen,
                                       .asked_for_link = h->asked_for_link,
                                       .all_started = m->spawned};
    psr_err err = psr_agent_event_read(&context, line, &event);
    if (err == PSR_OK)
        err = on_event(m, h, &event, now_ms);
    psr_agent_event_done(&event);
    if (err == PSR_OK)
        return;
    h->refused = true; /* the lines of the other hosts are taken all the same */
    if (err == PSR_ERR_VERSION)
        psr_launch_give_up_host(m, h, err, now_ms);
    else
        psr_launch_machine_failed(m, err, now_ms);
}

void psr_launch_machine_agent_complained(psr_launch_machine *m, size_t index, const char *line)
{
    psr_launch_host *h = &m->hosts[index];
    psr_launch_remember_words(h, line);
    if (h->greeted)
        psr_launch_show(m, m->act.show_others_error, "[agent on %s] %s", h->name, line);
}

/* ---- what the scheduler says ---- */

static void on_progress(psr_launch_machine *m, const psr_run_progress *p)
{
    int used = snprintf(m->last_known, sizeof m->last_known, "step %" PRIu64 " of %" PRIu64,
                        p->step, p->total);
    if (isfinite(p->loss))
        snprintf(m->last_known + used, sizeof m->last_known - (size_t)used, ", loss %.4f", p->loss);
    m->act.show_progress(m->act.context, p);
}

/* Strangers are dropped and change nothing, so they are in the log only. A member that ends while
 * it connects looks like a stranger. */
static void on_say(psr_launch_machine *m, const psr_run_say *say)
{
    if (say->kind == PSR_LOG_OF_STRANGER)
        return;
    if (say->level <= PSR_LOG_WARN)
        psr_launch_show(m, m->act.show_others_error, "[scheduler] %s", say->line);
    else
        m->act.show_line(m->act.context, say->line);
}

static void on_run_ended(psr_launch_machine *m, psr_run_ended *ended, int64_t now_ms)
{
    cJSON_Delete(m->outcome);
    m->outcome = ended->outcome;
    ended->outcome = NULL;
    m->told_end = true;
    psr_launch_end(m, ended->status, ended->line, now_ms);
}

static psr_err on_run_event(psr_launch_machine *m, psr_run_event *event, int64_t now_ms)
{
    switch (event->kind) {
    case PSR_RUN_LISTENING:
        return m->spawned || m->ended ? PSR_OK : psr_launch_spawn_all(m, event->endpoint);
    case PSR_RUN_DIRECTORY:
        m->act.show_directory(m->act.context, &event->directory);
        return PSR_OK;
    case PSR_RUN_PROGRESS:
        on_progress(m, &event->progress);
        return PSR_OK;
    case PSR_RUN_EVALUATING:
        m->act.show_evaluating(m->act.context, &event->evaluating);
        return PSR_OK;
    case PSR_RUN_EVALUATED:
        m->act.show_evaluated(m->act.context);
        m->act.show_line(m->act.context, event->evaluated);
        return PSR_OK;
    case PSR_RUN_SAY:
        on_say(m, &event->say);
        return PSR_OK;
    case PSR_RUN_PAUSED:
        m->scheduler_paused = true;
        return PSR_OK;
    case PSR_RUN_ENDED:
        on_run_ended(m, &event->ended, now_ms);
        return PSR_OK;
    case PSR_RUN_JOINED:
    case PSR_RUN_RUNNING:
    case PSR_RUN_ALIVE:
        return PSR_OK;
    }
    return PSR_OK;
}

void psr_launch_machine_scheduler_said(psr_launch_machine *m, const char *line, int64_t now_ms)
{
    psr_run_event event;
    m->scheduler_heard_ms = psr_launch_look(m, now_ms);
    if (psr_run_event_decode(line, &event) != PSR_OK) { /* what a library prints */
        m->act.show_line(m->act.context, line);
        return;
    }
    psr_err err = on_run_event(m, &event, now_ms);
    psr_run_event_done(&event);
    if (err != PSR_OK)
        psr_launch_machine_failed(m, err, now_ms);
}

void psr_launch_machine_scheduler_complained(psr_launch_machine *m, const char *line)
{
    psr_launch_show(m, m->act.show_others_error, "[scheduler] %s", line);
}
