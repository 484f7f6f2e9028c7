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

/* The level of a line of base/log.h ("12:01:02.345 info  worker 1: ..."); "" of any other line. */
static void level_of(const char *text, char level[static 8])
{
    unsigned hours, minutes, seconds, ms;
    if (sscanf(text, "%2u:%2u:%2u.%3u %7s", &hours, &minutes, &seconds, &ms, level) != 5)
        level[0] = '\0';
}

/* A process that ends with an error has told the scheduler why, or heard it from there: the person is told once, in the run's one
 * line. Its own line is kept until that line is known. What is said after the run's end follows from it. */
static void hold_line(psr_launch_state *l, const psr_host_link *host, const char *role, uint32_t rank,
                      const char *text)
{
    if (l->ended || l->held_count == HELD_LINES_MAX)
        return;
    char *line = NULL;
    if (asprintf(&line, "[%s %" PRIu32 " on %s] %s", role, rank, host->name, text) >= 0)
        l->held[l->held_count++] = line;
}

/* The errors that say something else than the run's line. */
void psr_launch_show_held(psr_launch_state *l)
{
    for (size_t i = 0; i < l->held_count; i++) {
        /* "[worker 1 on b] 12:01:02.345 error worker 1: WHAT": WHAT stands in the run's line, or the line stands in WHAT. */
        const char *what = strstr(l->held[i], " error ");
        what = what ? strstr(what, ": ") : NULL;
        if (!what || !l->line[0] || (!strstr(l->line, what + 2) && !strstr(what, l->line)))
            psr_show_error(&l->show, "%s", l->held[i]);
        free(l->held[i]);
    }
    l->held_count = 0;
}

/* Strangers are dropped and change nothing; a member that ends while it connects looks like one. */
static bool is_of_strangers(const char *text)
{
    return strstr(text, "turned away a stranger") || strstr(text, "of a stranger who says");
}

static void on_process_line(psr_launch_state *l, const psr_host_link *host, const psr_agent_event *event)
{
    psr_peer peer = l->options->placement->items[event->item].peer;
    const char *role = psr_role_name(peer.role);
    cJSON *log = cJSON_CreateObject();
    cJSON_AddStringToObject(log, "role", role);
    cJSON_AddNumberToObject(log, "rank", peer.rank);
    cJSON_AddStringToObject(log, "stream", event->to_stderr ? "err" : "out");
    cJSON_AddStringToObject(log, "line", event->text);
    psr_json_put(&l->scheduler.in, "!log", log, NULL);
    char level[8];
    level_of(event->text, level);
    if (!event->to_stderr || strcmp(level, "info") == 0 || strcmp(level, "debug") == 0 ||
        is_of_strangers(event->text))
        return; /* for the log alone */
    if (strcmp(level, "error") == 0)
        hold_line(l, host, role, peer.rank, event->text);
    else
        psr_show_others_error(&l->show, "[%s %" PRIu32 " on %s] %s", role, peer.rank, host->name,
                              event->text);
}

static void tell_lost(psr_launch_state *l, const psr_host_link *host, const char *role, uint32_t rank,
                      const char *how)
{
    cJSON *lost = cJSON_CreateObject();
    cJSON_AddStringToObject(lost, "role", role);
    cJSON_AddNumberToObject(lost, "rank", rank);
    cJSON_AddStringToObject(lost, "host", host->name);
    cJSON_AddStringToObject(lost, "how", how);
    psr_json_put(&l->scheduler.in, "!lost", lost, NULL);
}

static void on_exited(psr_launch_state *l, const psr_host_link *host, const psr_agent_event *event)
{
    psr_peer peer = l->options->placement->items[event->item].peer;
    if (!event->ok && !l->ended)
        tell_lost(l, host, psr_role_name(peer.role), peer.rank, event->text);
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
            tell_lost(l, host, psr_role_name(placement->items[i].peer.role), placement->items[i].peer.rank,
                      how);
    return PSR_OK;
}

/* ---- what the scheduler says ---- */

static psr_err on_scheduler_line(void *context, char *line)
{
    psr_launch_state *l = context;
    l->scheduler_heard_ms = psr_launch_look(l);
    cJSON *event = cJSON_Parse(line);
    const char *kind = psr_json_text(event, "event");
    psr_err err = PSR_OK;
    if (!kind) {
        psr_show_line(&l->show, line);
    } else if (strcmp(kind, "listening") == 0 && !l->spawned && !l->ended) {
        const char *endpoint = psr_json_text(event, "endpoint");
        snprintf(l->endpoint, sizeof l->endpoint, "%s", endpoint ? endpoint : "");
        err = psr_launch_spawn_all(l);
    } else if (strcmp(kind, "progress") == 0) {
        psr_show_progress p = {psr_json_number(event, "step", 0), psr_json_number(event, "total", 0),
                               psr_json_number(event, "loss", NAN),
                               psr_json_number(event, "images_per_s", 0)};
        int used = snprintf(l->last_known, sizeof l->last_known, "step %.0f of %.0f", p.step, p.total);
        if (isfinite(p.loss))
            snprintf(l->last_known + used, sizeof l->last_known - (size_t)used, ", loss %.4f", p.loss);
        psr_show_progress_event(&l->show, &p);
    } else if (strcmp(kind, "evaluating") == 0) {
        psr_show_evaluating e = {psr_json_number(event, "step", 0), psr_json_number(event, "total", 0),
                                 psr_json_number(event, "counted", 0), psr_json_number(event, "samples", 0)};
        psr_show_evaluating_event(&l->show, &e);
    } else if (strcmp(kind, "say") == 0 || strcmp(kind, "evaluated") == 0) {
        const char *text = psr_json_text(event, "line");
        if (strcmp(kind, "evaluated") == 0)
            psr_show_evaluated(&l->show);
        psr_show_line(&l->show, text ? text : "");
    } else if (strcmp(kind, "paused") == 0) {
        l->scheduler_paused = true;
    } else if (strcmp(kind, "ended") == 0) {
        l->outcome = cJSON_DetachItemFromObjectCaseSensitive(event, "outcome");
        psr_launch_end(l, (int)psr_json_number(event, "status", 1), psr_json_text(event, "line"));
    }
    cJSON_Delete(event);
    return err;
}

static psr_err on_scheduler_error_line(void *context, char *line)
{
    psr_launch_state *l = context;
    if (is_of_strangers(line))
        return PSR_OK; /* it is in the scheduler's log */
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
