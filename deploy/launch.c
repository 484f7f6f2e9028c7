/* psring train: starts agents, scheduler and, through the agents, the run's processes; shows how it ended. */
#include "deploy/launch_private.h"

#include "base/printable.h"
#include "base/secret.h"
#include "deploy/summary.h"
#include "deploy/leftovers.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS 1500 /* between the run's end and killing what is left */
#define AGENT_GRACE_MS 2500
#define UNREAD_MS 500 /* for a reader of the last words, when told to end at once */

int64_t psr_launch_look(psr_launch_state *l)
{
    return psr_presence_clock_ms(&l->clock, psr_clock_ms());
}

/* ---- ending ---- */

void psr_launch_end(psr_launch_state *l, int status, const char *line)
{
    if (l->ended)
        return;
    l->ended = true;
    l->status = status;
    snprintf(l->line, sizeof l->line, "%s", line ? line : "");
    l->end_by_ms = psr_clock_ms() + AGENT_GRACE_MS;
    for (size_t i = 0; i < l->host_count; i++)
        psr_json_put(&l->hosts[i].agent.in, "op", "end", "#grace_ms",
                     (double)(status == 0 ? GRACE_MS : GRACE_MS / 2), NULL);
}

void psr_launch_end_err(psr_launch_state *l, psr_err err)
{
    psr_launch_end(l, psr_err_exit_status(err), psr_err_detail());
}

/* ---- starting ---- */

static const psr_keys *keys_of(const psr_launch_state *l, psr_peer peer)
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
static const char *interface_for(const psr_launch_state *l, const psr_host_link *host)
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

static psr_err make_provision(const psr_launch_state *l, psr_peer peer, const char *host_name,
                              const char *interface, cJSON **ret_json)
{
    psr_provision provision = {.self = peer};
    provision.keys = *keys_of(l, peer);
    snprintf(provision.host, sizeof provision.host, "%s", host_name);
    snprintf(provision.scheduler, sizeof provision.scheduler, "%s", l->endpoint);
    snprintf(provision.directory, sizeof provision.directory, "%s", l->sockets.path);
    snprintf(provision.interface, sizeof provision.interface, "%s", l->sockets.path[0] ? "" : interface);
    char *text = NULL;
    psr_err err = psr_provision_to_json(&provision, &text);
    explicit_bzero(&provision.keys, sizeof provision.keys);
    PSR_TRY(err);
    *ret_json = cJSON_Parse(text);
    psr_secret_free(text);
    return *ret_json ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
}

static void free_keys(psr_launch_state *l)
{
    for (size_t i = 0; i < l->key_count; i++)
        psr_keys_done(&l->keys[i]); /* wipes */
    free(l->keys);
    l->keys = NULL;
    l->key_count = 0;
}

psr_err psr_launch_spawn_all(psr_launch_state *l)
{
    const psr_placement *placement = l->options->placement;
    for (size_t i = 0; i < placement->count; i++) {
        const psr_placed *item = &placement->items[i];
        psr_host_link *host = &l->hosts[item->host];
        cJSON *provision = NULL;
        PSR_TRY(make_provision(l, item->peer, host->name, interface_for(l, host), &provision));
        psr_json_put(&host->agent.in, "op", "spawn", "role", psr_role_name(item->peer.role), "#rank",
                     (double)item->peer.rank, "!provision", provision, NULL);
    }
    l->spawned = true;
    free_keys(l); /* each process has its own now */
    return PSR_OK;
}

/* The scheduler gets the whole configuration as options, each as --name=value. */
static psr_err scheduler_arguments(const psr_launch_state *l, char *program, char ***ret_argv)
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

static psr_err start_scheduler(psr_launch_state *l)
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
        l->scheduler_heard_ms = psr_launch_look(l);
        err = make_provision(l, (psr_peer){PSR_ROLE_SCHEDULER, 0}, own, interface_for(l, NULL), &provision);
    }
    if (!err) {
        text = psr_secret_print(provision);
        if (text)
            psr_line_writer_put(&l->scheduler.in, text);
        else
            err = psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
    }
    psr_secret_free(text);
    psr_secret_delete(provision);
    for (size_t i = 1; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
    return err;
}

/* Before anything starts: are all processes of the run on this host, and is it to use ipc sockets? */
static psr_err choose_transport(psr_launch_state *l)
{
    const psr_hosts *hosts = &l->options->placement->hosts;
    const char *elsewhere = NULL;
    for (size_t i = 0; i < hosts->count && !elsewhere; i++)
        elsewhere = psr_host_is_here(hosts->items[i].name) ? NULL : hosts->items[i].name;
    bool asked = l->config.transport == PSR_TRANSPORT_IPC;
    if (asked && elsewhere)
        return psr_fail(
            PSR_ERR_USAGE,
            "--transport ipc: host %s cannot be reached by it; leave it out, or give --transport tcp",
            elsewhere);
    if (asked && l->options->interface)
        return psr_fail(
            PSR_ERR_USAGE,
            "--interface does not go with --transport ipc, which uses none; leave one of them out");
    if (l->config.transport == PSR_TRANSPORT_TCP || elsewhere || l->options->interface)
        return PSR_OK;
    if (l->config.bare != PSR_BARE_NOWHERE)
        return psr_fail(PSR_ERR_USAGE, "--no-encrypt: a run on one host uses ipc sockets, where nothing is "
                                       "encrypted; leave it out, or add --transport tcp");
    return psr_socket_directory_make(getenv("XDG_RUNTIME_DIR"), &l->sockets);
}

/* --no-encrypt without a network that is called trusted. */
static psr_err check_one_machine(const psr_launch_state *l)
{
    for (size_t i = 0; i < l->host_count; i++)
        if (!l->hosts[i].same_machine)
            return psr_fail(PSR_ERR_USAGE,
                            "--no-encrypt: host %s is another machine, and who is on the way could read and "
                            "change the run; leave it out, or "
                            "give --no-encrypt=trusted-network",
                            l->hosts[i].name);
    return PSR_OK;
}

/* All agents have said hello: threads can be shared out, keys made, the scheduler started. */
psr_err psr_launch_begin(psr_launch_state *l)
{
    bool all_local = true;
    uint32_t cores = UINT32_MAX;
    for (size_t i = 0; i < l->host_count; i++) {
        all_local &= l->hosts[i].local;
        if (l->hosts[i].cores < cores)
            cores = l->hosts[i].cores;
        if (!l->hosts[i].local && !l->options->interface && !l->hosts[i].address[0])
            return psr_fail(PSR_ERR_USAGE,
                            "host %s does not tell the address that ssh reached it by; name the interface "
                            "with --interface",
                            l->hosts[i].name);
    }
    if (l->config.threads == 0) {
        uint32_t most = l->options->placement->workers_most;
        l->config.threads = cores / (most ? most : 1);
        if (l->config.threads == 0)
            l->config.threads = 1;
    }
    bool loopback = all_local && (!l->options->interface || psr_host_is_here(l->options->interface) ||
                                  strcmp(l->options->interface, "lo") == 0);
    if (l->config.bare == PSR_BARE_THIS_MACHINE && !loopback)
        PSR_TRY(check_one_machine(l));
    bool bare = l->config.bare != PSR_BARE_NOWHERE, ipc = l->sockets.path[0] != '\0';
    uint32_t workers = l->config.mode == PSR_MODE_LOCAL ? 1 : l->config.workers;
    l->shards = l->config.mode == PSR_MODE_PS ? l->config.shards : 0;
    PSR_TRY(psr_keys_generate(workers, l->shards, !ipc && !bare, &l->keys, &l->key_count));
    for (size_t i = 0; i < l->key_count; i++)
        l->keys[i].bare = bare;
    psr_show_configuration(&l->show, &l->config, l->options->placement, l->sockets.path);
    return start_scheduler(l);
}

/* ---- the whole ---- */

static void show_outcome(psr_launch_state *l)
{
    const cJSON *o = l->outcome;
    psr_show_end(&l->show);
    psr_launch_show_held(l);
    if (l->status != 0 || !cJSON_IsObject(o)) {
        if (l->line[0] && l->status == 0)
            psr_show_line(&l->show, l->line);
        else if (l->line[0])
            psr_show_error(&l->show, "psring train: %s", l->line);
        if (l->interrupts == 1 && cJSON_IsObject(o))
            psr_screen_out(l->screen, "to go on   psring train --resume %s\n", l->config.out);
        return;
    }
    char text[PSR_SUMMARY_BYTES];
    psr_summary_print(o, text);
    psr_screen_out(l->screen, "%s", text);
    psr_show_traffic(&l->show, o);
    if (l->config.bare != PSR_BARE_NOWHERE)
        psr_screen_out(l->screen, "bare       %s\n", psr_show_bare(&l->config));
    psr_screen_out(l->screen, "written    %s\n", l->config.out);
}

/* The signals to end with, and those that only a launcher at work has a use for. */
static void signals_to_take(sigset_t *set, bool at_work)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    const int of_work[] = {SIGWINCH, SIGTSTP, SIGCONT};
    for (size_t i = 0; i < sizeof of_work / sizeof *of_work && at_work; i++)
        sigaddset(set, of_work[i]);
}

static int open_signals(void)
{
    sigset_t signals;
    signals_to_take(&signals, true);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The run is over, and what is still to be done is to get the last words out: what can be read from the descriptor from now on is an
 * order to leave that. */
static void keep_signals_to_end(const psr_launch_state *l)
{
    sigset_t signals;
    signals_to_take(&signals, false);
    (void)signalfd(l->signals, &signals, 0);
    sigprocmask(SIG_SETMASK, &signals, NULL);
}

int psr_launch(const psr_launch_options *options)
{
    psr_launch_state l = {.options = options,
                          .config = *options->config,
                          .host_count = options->placement->hosts.count,
                          .sockets = PSR_SOCKET_DIRECTORY_NONE};
    l.scheduler.pidfd = l.scheduler.in.fd = l.scheduler.out.fd = l.scheduler.err.fd = -1;
    l.deadline_ms = (int64_t)(options->config->deadline_s * 1000);
    l.clock = psr_presence_clock_for(psr_clock_ms(), l.deadline_ms);
    l.signals = open_signals();
    signal(SIGPIPE, SIG_IGN);
    psr_err err = psr_screen_new(&l.screen);
    if (err) {
        psr_print(stderr, "psring train: %s\n", psr_err_detail());
        close(l.signals);
        return psr_err_exit_status(err);
    }
    psr_show_init(&l.show, l.screen, options->progress, (double)options->config->log_every);
    l.hosts = calloc(l.host_count, sizeof *l.hosts);
    struct pollfd *fds = calloc(1 + 4 * (l.host_count + 1), sizeof *fds);
    err = l.hosts && fds && l.signals >= 0 ? PSR_OK
                                           : psr_fail(PSR_ERR_NOMEM, "no memory for %zu hosts", l.host_count);
    if (!err)
        err = choose_transport(&l);
    size_t started = 0;
    for (; started < l.host_count && !err; started++) {
        err = psr_host_start(&l.hosts[started], options->placement->hosts.items[started].name, options->ssh,
                             options->remote_program);
        if (!err)
            psr_json_put(&l.hosts[started].agent.in, "op", "begin", "#deadline_s",
                         options->config->deadline_s, l.sockets.path[0] ? "sockets" : NULL, l.sockets.path,
                         NULL);
    }
    l.host_count = started;
    if (err)
        psr_launch_end_err(&l, err);
    psr_launch_loop(&l, fds);
    if (l.scheduler.ended && WIFSIGNALED(l.scheduler.status))
        psr_leftovers_remove(l.config.out);
    psr_socket_directory_remove(&l.sockets);
    show_outcome(&l);
    keep_signals_to_end(&l);
    psr_screen_drain(l.screen, l.signals, l.at_once ? UNREAD_MS : -1);
    psr_screen_free(l.screen);
    for (size_t i = 0; i < l.host_count; i++)
        psr_child_done(&l.hosts[i].agent);
    psr_child_done(&l.scheduler);
    free_keys(&l);
    cJSON_Delete(l.outcome);
    close(l.signals);
    free(l.hosts);
    free(fds);
    return l.status;
}
