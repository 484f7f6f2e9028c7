#include "deploy/launch.h"

#include "base/clock.h"
#include "deploy/host.h"
#include "deploy/show.h"
#include "deploy/sweep.h"
#include "net/keys.h"
#include "net/member.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELLO_MS 20000 /* for ssh and a program's start; not the run's deadline, which may be one second */
#define GRACE_MS 1500  /* between the run's end and killing what is left */
#define AGENT_GRACE_MS 2500
#define HELD_LINES_MAX 64
#define UNREAD_MS 500 /* for a reader of the last words, when told to end at once */

typedef struct launch {
    const psr_launch_options *options;
    psr_config config; /* threads and out resolved */
    psr_host_link *hosts;
    size_t host_count;
    psr_keys *keys; /* scheduler, shards, workers */
    size_t key_count;
    uint32_t shards; /* processes of that role: 0 but in mode ps */
    psr_child scheduler;
    char endpoint[PSR_ENDPOINT_MAX]; /* of the scheduler; "" until it listens */
    bool spawned;
    int signals;
    uint32_t interrupts;
    bool at_once; /* what the last of them asked for */
    psr_screen *screen;
    psr_show show;
    int64_t deadline_ms, alive_ms, scheduler_heard_ms;
    bool ended; /* the scheduler said how the run ended, or we know */
    int status;
    int64_t end_by_ms;    /* when agents that still run are killed */
    char line[1024];      /* why it ended */
    char *held[HELD_LINES_MAX]; /* owned: errors of processes, until it is known whether they tell more than that */
    size_t held_count;
    char last_known[256]; /* what the scheduler told last of the run's progress */
    cJSON *outcome;
} launch;

/* What is known of a process while its line or event is handled. */
typedef struct from_host {
    launch *l;
    psr_host_link *host;
} from_host;

/* ---- ending ---- */

static void end_run(launch *l, int status, const char *line)
{
    if (l->ended)
        return;
    l->ended = true;
    l->status = status;
    snprintf(l->line, sizeof l->line, "%s", line ? line : "");
    l->end_by_ms = psr_clock_ms() + AGENT_GRACE_MS;
    for (size_t i = 0; i < l->host_count; i++)
        psr_json_put(&l->hosts[i].agent.in, "op", "end", "#grace_ms", (double)(status == 0 ? GRACE_MS : GRACE_MS / 2), NULL);
}

static void end_run_err(launch *l, psr_err err)
{
    end_run(l, psr_err_exit_status(err), psr_err_detail());
}

/* ---- starting ---- */

static const psr_keys *keys_of(const launch *l, psr_peer peer)
{
    switch (peer.role) {
    case PSR_ROLE_SCHEDULER:
        return &l->keys[0];
    case PSR_ROLE_SHARD:
        return &l->keys[1 + peer.rank];
    case PSR_ROLE_WORKER:
        break;
    }
    return &l->keys[1 + l->shards + peer.rank];
}

/* The address that a process on host listens on. */
static const char *interface_for(const launch *l, const psr_host_link *host)
{
    if (l->options->interface)
        return l->options->interface;
    if (host && !host->local)
        return host->address;
    /* On this machine: where the first remote host sees us, else loopback. */
    for (size_t i = 0; i < l->host_count; i++)
        if (!l->hosts[i].local)
            return l->hosts[i].launcher_address;
    return "127.0.0.1";
}

static psr_err make_provision(const launch *l, psr_peer peer, const char *host_name, const char *interface, cJSON **ret_json)
{
    psr_provision provision = {.self = peer};
    provision.keys = *keys_of(l, peer);
    snprintf(provision.host, sizeof provision.host, "%s", host_name);
    snprintf(provision.scheduler, sizeof provision.scheduler, "%s", l->endpoint);
    snprintf(provision.interface, sizeof provision.interface, "%s", interface);
    char *text = NULL;
    PSR_TRY(psr_provision_to_json(&provision, &text));
    *ret_json = cJSON_Parse(text);
    memset(text, 0, strlen(text)); /* a secret key */
    free(text);
    return *ret_json ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
}

static psr_err spawn_all(launch *l)
{
    const psr_plan *plan = l->options->plan;
    for (size_t i = 0; i < plan->count; i++) {
        const psr_placement *item = &plan->items[i];
        psr_host_link *host = &l->hosts[item->host];
        bool shard = item->peer.role == PSR_ROLE_SHARD;
        cJSON *provision = NULL;
        PSR_TRY(make_provision(l, item->peer, host->name, interface_for(l, host), &provision));
        cJSON *args = cJSON_CreateArray();
        cJSON_AddItemToArray(args, cJSON_CreateString("--provision"));
        cJSON_AddItemToArray(args, cJSON_CreateString("-"));
        psr_json_put(&host->agent.in, "op", "spawn", "role", psr_role_name(item->peer.role), "#rank", (double)item->peer.rank,
                     "program", shard ? "psring-ps" : "psring-worker", "!args", args, "!provision", provision, NULL);
    }
    l->spawned = true;
    return PSR_OK;
}

/* The scheduler gets the whole configuration as options, each as --name=value. */
static psr_err scheduler_arguments(const launch *l, char *program, char ***ret_argv)
{
    size_t count = 0;
    psr_option_info info;
    while (psr_config_option(count, &info))
        count++;
    char **argv = calloc(count + 4, sizeof *argv);
    if (!argv)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the scheduler's options");
    size_t argc = 1;
    argv[0] = program; /* the caller's; the rest is ours */
    psr_err err = PSR_OK;
    for (size_t i = 0; psr_config_option(i, &info) && !err; i++) {
        char value[8192], text[8448];
        err = psr_config_get(&l->config, info.name, value, sizeof value);
        if (err || (value[0] == '\0' && info.argument))
            continue;
        if (info.argument)
            snprintf(text, sizeof text, "--%s=%s", info.name, value);
        else if (strcmp(value, "true") == 0)
            snprintf(text, sizeof text, "--%s", info.name);
        else if (info.negatable)
            snprintf(text, sizeof text, "--no-%s", info.name);
        else
            continue;
        argv[argc] = strdup(text);
        err = argv[argc++] ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for the scheduler's options");
    }
    if (!err && (!(argv[argc++] = strdup("--provision")) || !(argv[argc++] = strdup("-"))))
        err = psr_fail(PSR_ERR_NOMEM, "no memory for the scheduler's options");
    *ret_argv = argv; /* freed by the caller also on failure */
    return err;
}

static psr_err start_scheduler(launch *l)
{
    char path[4096], own[256] = "localhost";
    char **argv = NULL;
    cJSON *provision = NULL;
    char *text = NULL;
    psr_err err = psr_program_path("psring-scheduler", path, sizeof path);
    if (!err)
        err = scheduler_arguments(l, path, &argv);
    if (!err)
        err = psr_child_start(argv, PSR_CHILD_SEES_END, &l->scheduler);
    if (!err) {
        (void)gethostname(own, sizeof own - 1);
        l->scheduler_heard_ms = psr_clock_ms();
        err = make_provision(l, (psr_peer){PSR_ROLE_SCHEDULER, 0}, own, interface_for(l, NULL), &provision);
    }
    if (!err) {
        text = cJSON_PrintUnformatted(provision);
        if (text)
            psr_line_writer_put(&l->scheduler.in, text);
        else
            err = psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
    }
    cJSON_free(text);
    cJSON_Delete(provision);
    for (size_t i = 1; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
    return err;
}

/* All agents have said hello: threads can be shared out, keys made, the scheduler started. */
static psr_err begin(launch *l)
{
    bool all_local = true;
    uint32_t cores = UINT32_MAX;
    for (size_t i = 0; i < l->host_count; i++) {
        all_local &= l->hosts[i].local;
        if (l->hosts[i].cores < cores)
            cores = l->hosts[i].cores;
        if (!l->hosts[i].local && !l->options->interface && !l->hosts[i].address[0])
            return psr_fail(PSR_ERR_USAGE, "host %s does not tell the address that ssh reached it by; name the interface with --interface",
                            l->hosts[i].name);
    }
    if (l->config.threads == 0) {
        uint32_t most = l->options->plan->workers_most;
        l->config.threads = cores / (most ? most : 1);
        if (l->config.threads == 0)
            l->config.threads = 1;
    }
    bool loopback = all_local && (!l->options->interface || psr_host_is_here(l->options->interface) || strcmp(l->options->interface, "lo") == 0);
    uint32_t workers = l->config.mode == PSR_MODE_LOCAL ? 1 : l->config.workers;
    l->shards = l->config.mode == PSR_MODE_PS ? l->config.shards : 0;
    PSR_TRY(psr_keys_generate(workers, l->shards, !loopback, &l->keys, &l->key_count));
    psr_show_configuration(&l->show, &l->config, l->options->plan);
    return start_scheduler(l);
}

/* ---- what agents say ---- */

static psr_err on_hello(launch *l, psr_host_link *host, const cJSON *event)
{
    const char *version = psr_json_text(event, "version");
    if (!version || strcmp(version, PSR_VERSION) != 0)
        return psr_fail(PSR_ERR_VERSION, "host %s has psring %s, this is %s; install the same version on both", host->name,
                        version ? version : "of an unknown version", PSR_VERSION);
    const char *address = psr_json_text(event, "address"), *launcher = psr_json_text(event, "launcher_address");
    snprintf(host->address, sizeof host->address, "%s", address ? address : "");
    snprintf(host->launcher_address, sizeof host->launcher_address, "%s", launcher ? launcher : "");
    host->cores = (uint32_t)psr_json_number(event, "cores", 1);
    host->greeted = true;
    for (size_t i = 0; i < l->host_count; i++)
        if (!l->hosts[i].greeted)
            return PSR_OK;
    return begin(l);
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
static void hold_line(launch *l, const psr_host_link *host, const char *role, double rank, const char *text)
{
    if (l->ended || l->held_count == HELD_LINES_MAX)
        return;
    char *line = NULL;
    if (asprintf(&line, "[%s %.0f on %s] %s", role, rank, host->name, text) >= 0)
        l->held[l->held_count++] = line;
}

/* The errors that say something else than the run's line. */
static void show_held(launch *l)
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

static void on_process_line(launch *l, const psr_host_link *host, const cJSON *event)
{
    const char *role = psr_json_text(event, "role"), *stream = psr_json_text(event, "stream"), *text = psr_json_text(event, "text");
    if (!role || !stream || !text)
        return;
    double rank = psr_json_number(event, "rank", 0);
    cJSON *log = cJSON_CreateObject();
    cJSON_AddStringToObject(log, "role", role);
    cJSON_AddNumberToObject(log, "rank", rank);
    cJSON_AddStringToObject(log, "stream", stream);
    cJSON_AddStringToObject(log, "line", text);
    psr_json_put(&l->scheduler.in, "!log", log, NULL);
    char level[8];
    level_of(text, level);
    if (strcmp(stream, "err") != 0 || strcmp(level, "info") == 0 || strcmp(level, "debug") == 0 || is_of_strangers(text))
        return; /* for the log alone */
    if (strcmp(level, "error") == 0)
        hold_line(l, host, role, rank, text);
    else
        psr_show_error(&l->show, "[%s %.0f on %s] %s", role, rank, host->name, text);
}

static void tell_lost(launch *l, const psr_host_link *host, const char *role, double rank, const char *how)
{
    cJSON *lost = cJSON_CreateObject();
    cJSON_AddStringToObject(lost, "role", role);
    cJSON_AddNumberToObject(lost, "rank", rank);
    cJSON_AddStringToObject(lost, "host", host->name);
    cJSON_AddStringToObject(lost, "how", how);
    psr_json_put(&l->scheduler.in, "!lost", lost, NULL);
}

static psr_err on_agent_line(void *context, char *line)
{
    from_host *from = context;
    launch *l = from->l;
    cJSON *event = cJSON_Parse(line);
    const char *kind = psr_json_text(event, "event");
    psr_err err = PSR_OK;
    if (!kind)
        snprintf(from->host->last_words, sizeof from->host->last_words, "%s", line); /* a login shell's greeting, say */
    else if (strcmp(kind, "hello") == 0)
        err = on_hello(l, from->host, event);
    else if (strcmp(kind, "line") == 0)
        on_process_line(l, from->host, event);
    else if (strcmp(kind, "exited") == 0 && !psr_json_true(event, "ok") && !l->ended) {
        const char *role = psr_json_text(event, "role"), *how = psr_json_text(event, "how");
        tell_lost(l, from->host, role ? role : "?", psr_json_number(event, "rank", 0), how ? how : "?");
    }
    cJSON_Delete(event);
    return err;
}

static psr_err on_agent_error_line(void *context, char *line)
{
    from_host *from = context;
    snprintf(from->host->last_words, sizeof from->host->last_words, "%s", line);
    if (from->host->greeted)
        psr_show_error(&from->l->show, "[agent on %s] %s", from->host->name, line);
    return PSR_OK;
}

/* An agent that ended while the run went on takes its processes with it. */
static psr_err on_agent_end(launch *l, psr_host_link *host)
{
    if (!host->greeted)
        return psr_host_no_agent(host);
    char how[256], ended[128];
    psr_child_describe(&host->agent, ended, sizeof ended);
    snprintf(how, sizeof how, "with host %s, whose %s ended (%s)", host->name, host->local ? "agent" : "ssh connection", ended);
    host->lost = true;
    const psr_plan *plan = l->options->plan;
    for (size_t i = 0; i < plan->count; i++)
        if (&l->hosts[plan->items[i].host] == host)
            tell_lost(l, host, psr_role_name(plan->items[i].peer.role), plan->items[i].peer.rank, how);
    return PSR_OK;
}

/* ---- what the scheduler says ---- */

static psr_err on_scheduler_line(void *context, char *line)
{
    launch *l = context;
    l->scheduler_heard_ms = psr_clock_ms();
    cJSON *event = cJSON_Parse(line);
    const char *kind = psr_json_text(event, "event");
    psr_err err = PSR_OK;
    if (!kind) {
        psr_show_line(&l->show, line);
    } else if (strcmp(kind, "listening") == 0) {
        const char *endpoint = psr_json_text(event, "endpoint");
        snprintf(l->endpoint, sizeof l->endpoint, "%s", endpoint ? endpoint : "");
        err = spawn_all(l);
    } else if (strcmp(kind, "progress") == 0) {
        psr_show_progress p = {psr_json_number(event, "step", 0), psr_json_number(event, "total", 0), psr_json_number(event, "loss", 0),
                               psr_json_number(event, "images_per_s", 0)};
        snprintf(l->last_known, sizeof l->last_known, "step %.0f of %.0f, loss %.4f", p.step, p.total, p.loss);
        psr_show_progress_event(&l->show, &p);
    } else if (strcmp(kind, "say") == 0) {
        const char *text = psr_json_text(event, "line");
        psr_show_line(&l->show, text ? text : "");
    } else if (strcmp(kind, "ended") == 0) {
        l->outcome = cJSON_DetachItemFromObjectCaseSensitive(event, "outcome");
        end_run(l, (int)psr_json_number(event, "status", 1), psr_json_text(event, "line"));
    }
    cJSON_Delete(event);
    return err;
}

static psr_err on_scheduler_error_line(void *context, char *line)
{
    launch *l = context;
    if (is_of_strangers(line))
        return PSR_OK; /* it is in the scheduler's log */
    psr_show_error(&l->show, "[scheduler] %s", line);
    return PSR_OK;
}

static void on_scheduler_end(launch *l)
{
    char host[256] = "?", how[128], line[1024];
    (void)gethostname(host, sizeof host - 1);
    psr_child_describe(&l->scheduler, how, sizeof how);
    snprintf(line, sizeof line, "scheduler 0 on %s: %s; the run was at %s", host, how, l->last_known[0] ? l->last_known : "its start");
    end_run(l, l->scheduler.status != 0 && !l->spawned ? 2 : 1, line);
}

/* ---- the loop ---- */

static void on_interrupt(launch *l)
{
    l->interrupts++;
    psr_show_end(&l->show);
    if (l->interrupts == 1 && l->spawned && !l->ended) {
        psr_json_put(&l->scheduler.in, "?stop", 1, NULL);
        psr_show_line(&l->show, "stopping after this step, with a checkpoint; once more to end at once");
    } else {
        end_run(l, 130, "interrupted");
        l->end_by_ms = psr_clock_ms();
        l->at_once = true;
    }
}

static void say_alive(launch *l, int64_t now)
{
    if (now < l->alive_ms)
        return;
    l->alive_ms = now + l->deadline_ms / 4;
    psr_json_put(&l->scheduler.in, "?alive", 1, NULL);
    for (size_t i = 0; i < l->host_count; i++)
        psr_json_put(&l->hosts[i].agent.in, "op", "alive", NULL);
}

static void check_deadlines(launch *l, int64_t began_ms, int64_t now)
{
    char line[1024];
    for (size_t i = 0; i < l->host_count && !l->ended; i++) {
        if (!l->hosts[i].greeted && now - began_ms >= HELLO_MS) {
            snprintf(line, sizeof line, "host %s: its agent did not answer within %d s%s%s", l->hosts[i].name, HELLO_MS / 1000,
                     l->hosts[i].last_words[0] ? ": " : "", l->hosts[i].last_words);
            end_run(l, 1, line);
        }
    }
    int64_t silent = now - l->scheduler_heard_ms;
    if (!l->ended && l->scheduler.pid > 0 && silent >= l->deadline_ms) {
        char host[256] = "?";
        (void)gethostname(host, sizeof host - 1);
        snprintf(line, sizeof line, "scheduler 0 on %s: no sign of life for %.1f s; the run was at %s", host, (double)silent / 1000,
                 l->last_known[0] ? l->last_known : "its start");
        end_run(l, 1, line);
    }
}

static size_t collect(launch *l, struct pollfd *fds)
{
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    for (size_t i = 0; i <= l->host_count; i++) {
        const psr_child *child = i < l->host_count ? &l->hosts[i].agent : &l->scheduler;
        fds[n++] = (struct pollfd){.fd = child->pidfd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = child->out.fd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = child->err.fd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = psr_line_writer_pending(&child->in) ? child->in.fd : -1, .events = POLLOUT};
    }
    return n;
}

static psr_err attend_hosts(launch *l)
{
    for (size_t i = 0; i < l->host_count; i++) {
        psr_host_link *host = &l->hosts[i];
        from_host from = {l, host};
        bool ended = psr_child_reap(&host->agent);
        PSR_TRY(psr_line_reader_drain(&host->agent.out, on_agent_line, &from));
        PSR_TRY(psr_line_reader_drain(&host->agent.err, on_agent_error_line, &from));
        psr_line_writer_flush(&host->agent.in);
        if (ended && !l->ended && !host->lost)
            PSR_TRY(on_agent_end(l, host));
    }
    return PSR_OK;
}

static psr_err attend_scheduler(launch *l)
{
    bool was_there = l->scheduler.pid > 0 || l->scheduler.ended;
    bool ended = was_there && psr_child_reap(&l->scheduler);
    PSR_TRY(psr_line_reader_drain(&l->scheduler.out, on_scheduler_line, l));
    PSR_TRY(psr_line_reader_drain(&l->scheduler.err, on_scheduler_error_line, l));
    psr_line_writer_flush(&l->scheduler.in);
    if (ended && !l->ended)
        on_scheduler_end(l);
    return PSR_OK;
}

static bool all_gone(launch *l)
{
    bool gone = l->scheduler.pid == 0;
    for (size_t i = 0; i < l->host_count; i++)
        gone &= l->hosts[i].agent.pid == 0;
    return gone;
}

static int timeout_ms(const launch *l, int64_t now)
{
    int64_t next = l->alive_ms;
    if (l->scheduler.pid > 0 && !l->ended && l->scheduler_heard_ms + l->deadline_ms < next)
        next = l->scheduler_heard_ms + l->deadline_ms;
    if (l->ended && l->end_by_ms < next)
        next = l->end_by_ms;
    return next <= now ? 0 : (int)(next - now);
}

static void run_loop(launch *l, struct pollfd *fds)
{
    int64_t began_ms = psr_clock_ms();
    while (!l->ended || !all_gone(l)) {
        int64_t now = psr_clock_ms();
        say_alive(l, now);
        (void)poll(fds, collect(l, fds), timeout_ms(l, now));
        struct signalfd_siginfo info;
        while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info)
            on_interrupt(l);
        psr_err err = attend_hosts(l);
        if (!err)
            err = attend_scheduler(l);
        if (err)
            end_run_err(l, err);
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

static void show_outcome(launch *l)
{
    const cJSON *o = l->outcome;
    psr_show_end(&l->show);
    show_held(l);
    if (l->status != 0 || !cJSON_IsObject(o)) {
        if (l->line[0] && l->status == 0)
            psr_show_line(&l->show, l->line);
        else if (l->line[0])
            psr_show_error(&l->show, "psring train: %s", l->line);
        if (l->interrupts == 1 && cJSON_IsObject(o))
            psr_screen_out(l->screen, "to go on   psring train --config %s/run.json --resume %s\n", l->config.out, l->config.out);
        return;
    }
    psr_screen_out(l->screen, "done       %.0f steps in %.1f s, %.0f images/s, %.2f s waiting for the exchange\n", psr_json_number(o, "steps", 0),
                   psr_json_number(o, "seconds", 0), psr_json_number(o, "images_per_s", 0), psr_json_number(o, "wait_s", 0));
    psr_screen_out(l->screen, "result     loss %.4f, test accuracy %.2f%%, weight hash %s\n", psr_json_number(o, "loss", 0),
                   100 * psr_json_number(o, "accuracy", 0), psr_json_text(o, "hash") ? psr_json_text(o, "hash") : "-");
    psr_screen_out(l->screen, "written    %s\n", l->config.out);
}

int psr_launch(const psr_launch_options *options)
{
    launch l = {.options = options, .config = *options->config, .host_count = options->plan->hosts.count};
    l.scheduler.pidfd = l.scheduler.in.fd = l.scheduler.out.fd = l.scheduler.err.fd = -1;
    l.deadline_ms = (int64_t)(options->config->deadline_s * 1000);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    l.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    psr_err err = psr_screen_new(&l.screen);
    if (err) {
        fprintf(stderr, "psring train: %s\n", psr_err_detail());
        close(l.signals);
        return psr_err_exit_status(err);
    }
    psr_show_init(&l.show, l.screen);
    l.hosts = calloc(l.host_count, sizeof *l.hosts);
    struct pollfd *fds = calloc(1 + 4 * (l.host_count + 1), sizeof *fds);
    err = l.hosts && fds && l.signals >= 0 ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for %zu hosts", l.host_count);
    size_t started = 0;
    for (; started < l.host_count && !err; started++) {
        err = psr_host_start(&l.hosts[started], options->plan->hosts.items[started].name, options->ssh, options->remote_program);
        if (!err)
            psr_json_put(&l.hosts[started].agent.in, "op", "begin", "#deadline_s", options->config->deadline_s, NULL);
    }
    l.host_count = started;
    if (err)
        end_run_err(&l, err);
    run_loop(&l, fds);
    if (l.scheduler.ended && WIFSIGNALED(l.scheduler.status))
        psr_sweep_run(l.config.out);
    show_outcome(&l);
    psr_screen_drain(l.screen, l.signals, l.at_once ? UNREAD_MS : -1);
    psr_screen_free(l.screen);
    for (size_t i = 0; i < l.host_count; i++)
        psr_child_done(&l.hosts[i].agent);
    psr_child_done(&l.scheduler);
    for (size_t i = 0; i < l.key_count; i++)
        psr_keys_done(&l.keys[i]);
    free(l.keys);
    cJSON_Delete(l.outcome);
    close(l.signals);
    free(l.hosts);
    free(fds);
    return l.status;
}
