#include "deploy/launch/machine/launch_machine_private.h"

#include "base/system/child.h"
#include "deploy/agent/host.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRACE_MS 1500 /* for processes to end after the run's end, before they are killed */
/* For agents: above the graces that they give, SIGTERM's too. One that is silent, or has broken the
 * protocol, has none. */
#define AGENT_GRACE_MS 10000
/* For the scheduler, from the end of the last agent: it writes their last lines, removes mode.sock
 * from the run's directory, and ends. If it was not the one to say that the run ends, nothing ends
 * it but this. */
#define SCHEDULER_GRACE_MS 10000
#define UNTOLD_GRACE_MS 2500
#define KILL_AGAIN_MS 100
/* Time for scheduler and agents to answer that all are stopped, before the launcher stops
 * itself. */
#define PAUSE_MS 1000

int64_t psr_launch_look(psr_launch_machine *m, int64_t now_ms)
{
    return psr_presence_clock_ms(&m->clock, now_ms);
}

void psr_launch_show(psr_launch_machine *m, void (*action)(void *context, const char *line),
                     const char *format, ...)
{
    char *line = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&line, format, args);
    va_end(args);
    if (size < 0)
        return;
    action(m->act.context, line);
    free(line);
}

void psr_launch_order(psr_launch_machine *m, const psr_order *order)
{
    if (m->scheduler == PSR_LIFE_RUNNING)
        m->act.order(m->act.context, order);
}

static void give_order(psr_launch_machine *m, psr_order_kind kind)
{
    psr_launch_order(m, &(psr_order){.kind = kind});
}

static void command_all(psr_launch_machine *m, psr_launch_command command, int64_t grace_ms)
{
    for (size_t i = 0; i < m->host_count; i++)
        if (m->hosts[i].agent == PSR_LIFE_RUNNING)
            m->act.command(m->act.context, i, command, grace_ms);
}

/* ---- ending ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool all_agents_closed(const psr_launch_machine *m)
{
    bool closed = true;
    for (size_t i = 0; i < m->host_count; i++)
        closed &= m->hosts[i].agent == PSR_LIFE_NOT_STARTED || m->hosts[i].agent == PSR_LIFE_CLOSED;
    return closed;
}

/* The scheduler writes the processes' output to their logs, and stays until the last lines have
 * come. */
static void tell_closed(psr_launch_machine *m, int64_t now_ms)
{
    if (m->told_closed || !m->ended || !all_agents_closed(m))
        return;
    m->told_closed = true;
    m->scheduler_by_ms =
        earlier(m->scheduler_by_ms, now_ms + (m->told_end ? SCHEDULER_GRACE_MS : UNTOLD_GRACE_MS));
    give_order(m, PSR_ORDER_CLOSED);
}

void psr_launch_end(psr_launch_machine *m, int status, const char *line, int64_t now_ms)
{
    if (m->ended)
        return;
    m->ended = true;
    m->status = status;
    snprintf(m->line, sizeof m->line, "%.1023s", line);
    m->end_by_ms = now_ms + AGENT_GRACE_MS;
    m->scheduler_by_ms = INT64_MAX;
    command_all(m, PSR_LAUNCH_END, status == 0 ? GRACE_MS : GRACE_MS / 2);
    tell_closed(m, now_ms);
}

void psr_launch_machine_failed(psr_launch_machine *m, psr_err err, int64_t now_ms)
{
    psr_launch_end(m, psr_err_exit_status(err), psr_err_detail(), now_ms);
}

static bool has_no_grace(const psr_launch_host *h)
{
    return h->lost || h->refused || h->trouble != NULL;
}

static void check_end(psr_launch_machine *m, int64_t now_ms)
{
    if (!m->ended)
        return;
    const bool over = now_ms >= m->end_by_ms;
    for (size_t i = 0; i < m->host_count; i++) {
        psr_launch_host *h = &m->hosts[i];
        if (h->agent != PSR_LIFE_RUNNING || !(over || (has_no_grace(h) && !h->killed)))
            continue;
        h->killed = true;
        m->act.kill_agent(m->act.context, i);
    }
    if (over)
        m->end_by_ms = now_ms + KILL_AGAIN_MS;
    if (now_ms < m->scheduler_by_ms)
        return;
    m->act.kill_scheduler(m->act.context);
    m->scheduler_by_ms = now_ms + KILL_AGAIN_MS;
}

bool psr_launch_machine_is_over(const psr_launch_machine *m)
{
    bool closed = m->scheduler == PSR_LIFE_NOT_STARTED || m->scheduler == PSR_LIFE_CLOSED;
    return m->ended && closed && all_agents_closed(m);
}

/* ---- starting ---- */

const char *psr_launch_interface_for(const psr_launch_machine *m, const psr_launch_host *h)
{
    const psr_reached *elsewhere = NULL;
    for (size_t i = 0; i < m->host_count && elsewhere == NULL; i++)
        elsewhere = m->hosts[i].reached.here ? NULL : &m->hosts[i].reached;
    return psr_reached_interface(m->options.interface, h != NULL ? &h->reached : NULL, elsewhere);
}

/* --no-encrypt without =trusted-network. */
static psr_err check_one_machine(const psr_launch_machine *m)
{
    for (size_t i = 0; i < m->host_count; i++)
        if (!m->hosts[i].same_machine)
            return psr_fail(
                PSR_ERR_USAGE,
                "--no-encrypt: host %s is another machine, and anybody on the network between "
                "could read and change the run; leave it out, or give --no-encrypt=trusted-network",
                m->hosts[i].name);
    return PSR_OK;
}

psr_err psr_launch_begin(psr_launch_machine *m, int64_t now_ms)
{
    bool all_here = true;
    for (size_t i = 0; i < m->host_count; i++)
        all_here &= m->hosts[i].reached.here;
    bool loopback = all_here && (m->options.interface == NULL || m->options.interface_is_loopback);
    if (m->options.config->bare == PSR_BARE_THIS_MACHINE && !loopback)
        PSR_TRY(check_one_machine(m));
    PSR_TRY(psr_launch_bind(m, psr_launch_threads(m)));
    return psr_launch_begin_links(m, now_ms);
}

psr_err psr_launch_begin_run(psr_launch_machine *m, int64_t now_ms)
{
    PSR_TRY(m->act.start_scheduler(m->act.context, psr_launch_threads(m),
                                   psr_launch_interface_for(m, NULL)));
    psr_launch_report_bindings(m);
    m->scheduler = PSR_LIFE_RUNNING;
    m->scheduler_heard_ms = psr_launch_look(m, now_ms);
    if (m->slowest.bits_per_s > 0)
        psr_launch_order(m, &m->slowest);
    return PSR_OK;
}

psr_err psr_launch_spawn_all(psr_launch_machine *m, const char *endpoint)
{
    const psr_placement *placement = m->options.placement;
    for (size_t i = 0; i < placement->count; i++)
        PSR_TRY(m->act.spawn(m->act.context, i,
                             psr_launch_interface_for(m, &m->hosts[placement->items[i].host]),
                             endpoint, m->cpus[i]));
    m->spawned = true;
    return PSR_OK;
}

/* ---- who ends ---- */

void psr_launch_lose_member(psr_launch_machine *m, const psr_launch_host *h, psr_peer peer,
                            bool by_itself, const char *how)
{
    psr_order lost = {.kind = PSR_ORDER_LOST, .peer = peer, .by_itself = by_itself};
    snprintf(lost.host, sizeof lost.host, "%s", h->name);
    snprintf(lost.how, sizeof lost.how, "%s", how);
    psr_launch_order(m, &lost);
}

void psr_launch_machine_agent_ended(psr_launch_machine *m, size_t index)
{
    if (m->hosts[index].agent == PSR_LIFE_RUNNING)
        m->hosts[index].agent = PSR_LIFE_ENDED;
}

/* If an agent ends while the run goes on, its processes end with it. If it ends before that, the
 * run cannot begin. */
void psr_launch_machine_agent_closed(psr_launch_machine *m, size_t index, int wait_status,
                                     int64_t now_ms)
{
    psr_launch_host *h = &m->hosts[index];
    bool before = h->agent == PSR_LIFE_CLOSED;
    h->agent = PSR_LIFE_CLOSED;
    tell_closed(m, now_ms);
    if (before || m->ended || h->lost)
        return;
    if (!h->greeted || m->scheduler == PSR_LIFE_NOT_STARTED) {
        psr_err err = psr_host_no_agent(h->name, h->reached.here, wait_status, h->last_words);
        psr_launch_give_up_host(m, h, err, now_ms);
        return;
    }
    char how[PSR_HOST_NAME_MAX + 256], ended[128];
    psr_child_describe(wait_status, ended, sizeof ended);
    snprintf(how, sizeof how, "with host %s, whose %s ended (%s)", h->name,
             h->reached.here ? "agent" : "ssh connection", ended);
    h->lost = true;
    const psr_placement *placement = m->options.placement;
    for (size_t i = 0; i < placement->count; i++)
        if (placement->items[i].host == index)
            psr_launch_lose_member(m, h, placement->items[i].peer, false, how);
}

void psr_launch_machine_scheduler_ended(psr_launch_machine *m)
{
    if (m->scheduler == PSR_LIFE_RUNNING)
        m->scheduler = PSR_LIFE_ENDED;
}

static void lose_scheduler(psr_launch_machine *m, int status, const char *how, int64_t now_ms)
{
    char line[1024];
    snprintf(line, sizeof line, "scheduler 0 on %s: %s; the run was at %s", m->options.host, how,
             m->last_known[0] != '\0' ? m->last_known : "its start");
    psr_launch_end(m, status, line, now_ms);
}

/* Handles a scheduler that ended without reporting how the run ended; if it did report, that
 * counts. A scheduler that ends before it listens has refused the user's options. */
void psr_launch_machine_scheduler_closed(psr_launch_machine *m, int wait_status, int64_t now_ms)
{
    char how[128];
    m->scheduler = PSR_LIFE_CLOSED;
    psr_child_describe(wait_status, how, sizeof how);
    lose_scheduler(m, wait_status != 0 && !m->spawned ? 2 : 1, how, now_ms);
}

/* ---- Ctrl-C ---- */

void psr_launch_machine_interrupted(psr_launch_machine *m, int64_t now_ms)
{
    m->interrupts++;
    if (m->interrupts == 1 && m->spawned && !m->ended) {
        give_order(m, PSR_ORDER_STOP);
        if (m->options.runs_program)
            psr_launch_end(m, 130, "interrupted", now_ms);
        else
            m->act.show_line(
                m->act.context,
                "stopping after this step, with a checkpoint; once more to end at once");
    } else {
        psr_launch_end(m, 130, "interrupted", now_ms);
        m->end_by_ms = m->scheduler_by_ms = now_ms;
        m->at_once = true;
    }
}

/* ---- Ctrl-Z ---- */

/* A run that is ending must not be continued. */
void psr_launch_machine_suspended(psr_launch_machine *m, int64_t now_ms)
{
    m->act.end_bar(m->act.context);
    if (m->pausing)
        return;
    m->pausing = true;
    m->pause_by_ms = now_ms + PAUSE_MS;
    m->scheduler_paused = false;
    for (size_t i = 0; i < m->host_count; i++)
        m->hosts[i].paused = false;
    if (m->ended)
        return;
    give_order(m, PSR_ORDER_PAUSE);
    command_all(m, PSR_LAUNCH_PAUSE, 0);
}

static void end_pause(psr_launch_machine *m)
{
    m->pausing = false;
    if (m->ended)
        return;
    give_order(m, PSR_ORDER_GO_ON);
    command_all(m, PSR_LAUNCH_GO_ON, 0);
    m->act.draw_bar_again(m->act.context);
}

void psr_launch_machine_continued(psr_launch_machine *m)
{
    if (m->pausing)
        end_pause(m);
}

/* A process that has not started yet gets the order when it has. */
static bool all_paused(const psr_launch_machine *m)
{
    bool paused = m->scheduler != PSR_LIFE_RUNNING || m->scheduler_paused;
    for (size_t i = 0; i < m->host_count; i++) {
        const psr_launch_host *h = &m->hosts[i];
        paused &= h->agent != PSR_LIFE_RUNNING || !h->greeted || h->paused;
    }
    return paused;
}

static void check_pause(psr_launch_machine *m, int64_t now_ms)
{
    if (!m->pausing || (!m->ended && !all_paused(m) && now_ms < m->pause_by_ms))
        return;
    m->act.stop(m->act.context);
    end_pause(m);
}

/* ---- who is silent ---- */

static void say_alive(psr_launch_machine *m, int64_t now_ms)
{
    if (now_ms < m->alive_ms)
        return;
    m->alive_ms = now_ms + m->deadline_ms / 4 + 1;
    give_order(m, PSR_ORDER_ALIVE);
    command_all(m, PSR_LAUNCH_ALIVE, 0);
}

static void check_scheduler(psr_launch_machine *m, int64_t now_ms)
{
    int64_t silent_ms = psr_launch_look(m, now_ms) - m->scheduler_heard_ms;
    if (m->scheduler != PSR_LIFE_RUNNING || silent_ms < m->deadline_ms)
        return;
    char how[64];
    snprintf(how, sizeof how, "no sign of life for %.1f s", (double)silent_ms / 1000);
    lose_scheduler(m, 1, how, now_ms);
    m->scheduler_by_ms = now_ms; /* it has had its time */
}

static bool is_watched(const psr_launch_host *h)
{
    return h->greeted && !h->lost && h->agent == PSR_LIFE_RUNNING;
}

/* The scheduler asks all processes what they are doing, and ends the run. Without a scheduler the
 * run ends here. */
static void on_silent_agent(psr_launch_machine *m, psr_launch_host *h, int64_t silent_ms,
                            int64_t now_ms)
{
    psr_order silent = {.kind = PSR_ORDER_AGENT};
    char how[64], line[PSR_HOST_NAME_MAX + 128];
    h->lost = true;
    snprintf(how, sizeof how, "no sign of life for %.1f s", (double)silent_ms / 1000);
    if (m->scheduler != PSR_LIFE_RUNNING) {
        snprintf(line, sizeof line, "agent on %s: %s", h->name, how);
        psr_launch_end(m, 1, line, now_ms);
        return;
    }
    snprintf(silent.host, sizeof silent.host, "%s", h->name);
    snprintf(silent.how, sizeof silent.how, "%s", how);
    psr_launch_order(m, &silent);
}

/* If an agent is silent its processes go on, so nothing but this check would notice it before the
 * end. */
static void check_agents(psr_launch_machine *m, bool agents_are_heard, int64_t now_ms)
{
    int64_t present_ms = psr_launch_look(m, now_ms);
    for (size_t i = 0; i < m->host_count && !m->ended; i++) {
        psr_launch_host *h = &m->hosts[i];
        if (!is_watched(h))
            continue;
        if (!agents_are_heard)
            h->heard_ms = present_ms;
        if (present_ms - h->heard_ms >= m->deadline_ms)
            on_silent_agent(m, h, present_ms - h->heard_ms, now_ms);
    }
}

/* ---- time ---- */

void psr_launch_machine_tick(psr_launch_machine *m, bool agents_are_heard, int64_t now_ms)
{
    check_pause(m, now_ms);
    if (!m->ended)
        psr_launch_connect(m, now_ms);
    if (!m->ended) {
        const psr_err err = psr_launch_check_links(m, now_ms);
        if (err != PSR_OK)
            psr_launch_machine_failed(m, err, now_ms);
    }
    if (!m->ended) {
        check_scheduler(m, now_ms);
        check_agents(m, agents_are_heard, now_ms);
    }
    check_end(m, now_ms);
    say_alive(m, now_ms);
}

/* The time at which one of those that we watch will have been silent for the deadline. */
static int64_t silence_due_ms(psr_launch_machine *m, int64_t now_ms)
{
    int64_t oldest_ms = INT64_MAX, present_ms = psr_launch_look(m, now_ms);
    if (m->scheduler == PSR_LIFE_RUNNING)
        oldest_ms = m->scheduler_heard_ms;
    for (size_t i = 0; i < m->host_count; i++)
        if (is_watched(&m->hosts[i]) && m->hosts[i].heard_ms < oldest_ms)
            oldest_ms = m->hosts[i].heard_ms;
    return oldest_ms == INT64_MAX ? INT64_MAX : now_ms + (oldest_ms + m->deadline_ms - present_ms);
}

int64_t psr_launch_machine_wait_ms(psr_launch_machine *m, int64_t now_ms)
{
    int64_t next = m->alive_ms;
    if (m->ended)
        next = earlier(earlier(next, m->end_by_ms), m->scheduler_by_ms);
    else
        next = earlier(earlier(next, psr_launch_links_due_ms(m)),
                       earlier(silence_due_ms(m, now_ms), psr_launch_hello_due_ms(m)));
    if (m->pausing)
        next = earlier(next, m->pause_by_ms);
    return next <= now_ms ? 0 : next - now_ms;
}

/* ---- the end ---- */

void psr_launch_machine_conclude(psr_launch_machine *m)
{
    m->act.end_bar(m->act.context);
    for (size_t i = 0; i < m->held.count; i++)
        if (psr_held_line_says_more(&m->held.items[i], m->line))
            m->act.show_error(m->act.context, m->held.items[i].line);
    if (m->status == 0 && m->outcome != NULL) {
        m->act.show_outcome(m->act.context, m->outcome);
        return;
    }
    bool well = m->status == 0;
    if (m->line[0] != '\0' && well && !m->options.runs_program) /* stdout is the program's */
        m->act.show_line(m->act.context, m->line);
    else if (m->line[0] != '\0' && !well)
        psr_launch_show(m, m->act.show_error, "psring %s: %s",
                        m->options.runs_program ? "run" : "train", m->line);
    psr_launch_show_troubles(m);
    if (m->interrupts == 1 && m->outcome != NULL)
        m->act.show_resumable(m->act.context);
}

int psr_launch_machine_status(const psr_launch_machine *m)
{
    return m->status;
}

bool psr_launch_machine_ends_at_once(const psr_launch_machine *m)
{
    return m->at_once;
}

/* ---- life ---- */

psr_err psr_launch_machine_new(const psr_launch_machine_options *options,
                               const psr_launch_actions *actions, int64_t now_ms,
                               psr_launch_machine **ret_machine)
{
    size_t host_count = options->placement->hosts.count;
    psr_launch_machine *m = calloc(1, sizeof *m);
    psr_launch_host *hosts = calloc(host_count, sizeof *hosts);
    char **cpus = calloc(options->placement->count, sizeof *cpus);
    if (m == NULL || hosts == NULL || cpus == NULL) {
        free(m);
        free(hosts);
        free(cpus);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu hosts", host_count);
    }
    for (size_t i = 0; i < host_count; i++)
        hosts[i].name = options->placement->hosts.items[i].name;
    int64_t deadline_ms = (int64_t)(options->config->deadline_s * 1000);
    *m = (psr_launch_machine){.options = *options,
                              .act = *actions,
                              .hosts = hosts,
                              .host_count = host_count,
                              .cpus = cpus,
                              .deadline_ms = deadline_ms,
                              .clock = psr_presence_clock_for(now_ms, deadline_ms)};
    *ret_machine = m;
    return PSR_OK;
}

void psr_launch_machine_free(psr_launch_machine *m)
{
    if (m == NULL)
        return;
    psr_held_lines_done(&m->held);
    cJSON_Delete(m->outcome);
    for (size_t i = 0; i < m->host_count; i++) {
        free(m->hosts[i].trouble);
        psr_topology_done(&m->hosts[i].topology);
    }
    for (size_t i = 0; i < m->options.placement->count; i++)
        free(m->cpus[i]);
    free(m->cpus);
    free(m->hosts);
    free(m);
}
