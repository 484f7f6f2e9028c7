/* psring train and psring run. Starts agents, the scheduler and, through the agents, the run's
 * processes. Carries out what the launch machine decides, and shows it to the user. */
#include "deploy/launch/launch_private.h"

#include "base/clock.h"
#include "base/system/machine.h"
#include "base/system/signals.h"
#include "base/text/printable.h"
#include "base/text/secret.h"
#include "base/text/units.h"
#include "comm/launcher_line.h"
#include "comm/members/provision.h"
#include "deploy/launch/hosts/allocation.h"
#include "deploy/launch/job.h"
#include "deploy/launch/leftovers.h"
#include "net/address/interface.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* how long the screen may take to print waiting text before Ctrl-Z stops the launcher */
#define LAST_LINE_MS 200
#define DESCRIPTORS_BESIDE 64 /* descriptors that the launcher itself needs */
/* How long the last lines wait, after an order to end at once, for a reader that takes none of
 * them. One more order ends the wait. */
#define UNREAD_MS 5000

/* ---- what a process is started with ---- */

static psr_keys *keys_of(const psr_launch_driver *d, psr_peer peer)
{
    switch (peer.role) {
    case PSR_ROLE_SCHEDULER:
        return &d->keys[0];
    case PSR_ROLE_SHARD:
        return &d->keys[1 + peer.rank];
    case PSR_ROLE_WORKER:
        break;
    }
    return &d->keys[1 + d->shards + peer.rank];
}

static psr_err make_provision(psr_launch_driver *d, psr_peer peer, const char *host_name,
                              const char *interface, const char *endpoint, cJSON **ret_json)
{
    psr_provision provision = {.self = peer};
    provision.keys = *keys_of(d, peer);
    snprintf(provision.host, sizeof provision.host, "%s", host_name);
    snprintf(provision.scheduler, sizeof provision.scheduler, "%s", endpoint);
    snprintf(provision.directory, sizeof provision.directory, "%s", d->sockets);
    snprintf(provision.interface, sizeof provision.interface, "%s", d->sockets[0] ? "" : interface);
    char *text = NULL;
    psr_err err = psr_provision_to_json(&provision, &text);
    explicit_bzero(&provision.keys, sizeof provision.keys);
    psr_keys_done(keys_of(d, peer)); /* its process has it now */
    PSR_TRY(err);
    *ret_json = cJSON_Parse(text);
    psr_secret_free(text);
    return *ret_json != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
}

static void free_keys(psr_launch_driver *d)
{
    for (size_t i = 0; i < d->key_count; i++)
        psr_keys_done(&d->keys[i]); /* wipes */
    free(d->keys);
    d->keys = NULL;
    d->key_count = 0;
}

/* ---- the scheduler ---- */

/* The scheduler gets the whole configuration as options. */
static psr_err scheduler_arguments(const psr_launch_driver *d, char *program, char ***ret_argv)
{
    char **options = NULL;
    size_t count = 0;
    PSR_TRY(psr_config_to_arguments(&d->config, &options));
    while (options[count] != NULL)
        count++;
    char **argv = calloc(count + 6, sizeof *argv);
    if (argv == NULL) {
        psr_config_arguments_free(options);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the scheduler's options");
    }
    argv[0] = program; /* the caller's; the rest is ours */
    memcpy(argv + 1, options, count * sizeof *argv);
    free(options);
    *ret_argv = argv; /* freed by the caller also on failure */
    if ((argv[count + 1] = strdup("--provision")) == NULL ||
        (argv[count + 2] = strdup("-")) == NULL ||
        (argv[count + 3] = strdup("--command")) == NULL ||
        (argv[count + 4] = strdup(d->options->command != NULL ? d->options->command : "")) == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the scheduler's options");
    return PSR_OK;
}

/* For a program the scheduler needs fewer options. */
static psr_err programs_arguments(const psr_launch_driver *d, char *program, char ***ret_argv)
{
    char **argv = calloc(6, sizeof *argv);
    if (argv == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the scheduler's options");
    argv[0] = program; /* the caller's; the rest is ours */
    *ret_argv = argv;  /* freed by the caller also on failure */
    if ((argv[1] = strdup("programs")) == NULL ||
        asprintf(&argv[2], "%" PRIu32, d->config.workers) < 0 ||
        asprintf(&argv[3], "%.17g", d->config.deadline_s) < 0 ||
        asprintf(&argv[4], "%" PRIu32, d->options->program->shards) < 0)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the scheduler's options");
    return PSR_OK;
}

/* On this host. */
static psr_err start_scheduler_process(psr_launch_driver *d, const char *interface)
{
    char path[4096], own[256] = "localhost";
    char **argv = NULL;
    cJSON *provision = NULL;
    char *text = NULL;
    psr_err err = psr_program_path("psring-scheduler", path, sizeof path);
    if (!err)
        err = d->options->program ? programs_arguments(d, path, &argv)
                                  : scheduler_arguments(d, path, &argv);
    if (!err)
        err = psr_child_start(
            argv, PSR_CHILD_SEES_END | (psr_allocation_is_there() ? PSR_CHILD_LEAVES_TERM : 0),
            &d->scheduler);
    if (!err) {
        (void)gethostname(own, sizeof own - 1);
        err = make_provision(d, (psr_peer){PSR_ROLE_SCHEDULER, 0}, own, interface, "", &provision);
    }
    if (!err) {
        text = psr_secret_print(provision);
        if (text != NULL)
            psr_line_writer_put(&d->scheduler.in, text);
        else
            err = psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
    }
    psr_secret_free(text);
    psr_secret_delete(provision);
    for (size_t i = 1; argv != NULL && argv[i] != NULL; i++)
        free(argv[i]);
    free(argv);
    return err;
}

/* ---- what the machine asks for ---- */

static psr_err name_program(psr_launch_driver *d, psr_host_link *host)
{
    cJSON *program = NULL;
    if (d->options->program == NULL)
        return PSR_OK;
    PSR_TRY(psr_program_to_object(d->options->program, &program));
    psr_json_put(&host->agent.in, "op", "program", "!program", program, NULL);
    return PSR_OK;
}

/* Hosts are started in their order. */
static psr_err start_agent(void *context, size_t index, bool *ret_here)
{
    psr_launch_driver *d = context;
    psr_host_link *host = &d->hosts[index];
    PSR_TRY(psr_host_start(host, d->options->placement->hosts.items[index].name, d->options->ssh,
                           d->options->remote_program));
    d->host_count = index + 1;
    *ret_here = host->local;
    psr_json_put(&host->agent.in, "op", "begin", "#deadline_s", d->config.deadline_s, "?share",
                 d->shares, d->sockets[0] ? "sockets" : NULL, d->sockets, NULL);
    PSR_TRY(name_program(d, host));
    return psr_host_set_variables(host, d->options->variables);
}

static void drop_agent(void *context, size_t index)
{
    psr_launch_driver *d = context;
    psr_child_signal(&d->hosts[index].agent, SIGKILL);
}

/* The scheduler listens at the address from which the first other host sees this machine. That host
 * reports the address, so we check that it is really an address of this machine. */
static psr_err check_own_address(const psr_launch_driver *d, const char *interface)
{
    char address[PSR_ADDRESS_BYTES];
    psr_err err = d->options->interface == NULL && d->sockets[0] == '\0'
                      ? psr_interface_address(interface, address)
                      : PSR_OK;
    for (size_t i = 0; err != PSR_OK && i < d->host_count; i++)
        if (!d->hosts[i].local)
            return psr_fail_context(err,
                                    "host %s sees this machine at an address that this machine "
                                    "does not have; name one of its interfaces with --interface",
                                    d->options->placement->hosts.items[i].name);
    return err;
}

/* Counts the hosts that have at least two processes of which one sends values to the other that can
 * be lent. */
static size_t sharing_hosts(const psr_config *config, const psr_placement *placement)
{
    size_t sharing = 0;
    for (size_t h = 0; h < placement->hosts.count; h++) {
        size_t shards = 0, workers = 0;
        for (size_t i = 0; i < placement->count; i++) {
            bool here = placement->items[i].host == h;
            shards += here && placement->items[i].peer.role == PSR_ROLE_SHARD;
            workers += here && placement->items[i].peer.role == PSR_ROLE_WORKER;
        }
        sharing += (psr_config_needs_shards(config) && shards > 0 && workers > 0) ||
                   (psr_config_has_mode(config, PSR_MODE_RING) && workers > 1);
    }
    return sharing;
}

static void show_configuration(psr_launch_driver *d)
{
    const psr_placement *placement = d->options->placement;
    psr_show_place place = {.host_count = placement->hosts.count,
                            .sharing = d->shares ? sharing_hosts(&d->config, placement) : 0,
                            .sockets = d->sockets};
    for (size_t i = 0; i < placement->hosts.count && i < PSR_SHOW_HOSTS; i++)
        place.hosts[i] = placement->hosts.items[i].name;
    psr_show_configuration(&d->show, &d->config, &place);
}

/* ---- the links ---- */

static psr_err make_token(char text[static PSR_LINK_TOKEN_BYTES + 1])
{
    uint8_t random[PSR_LINK_TOKEN_BYTES / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(text + 2 * i, 3, "%02x", random[i]);
    return PSR_OK;
}

static psr_err ask_to_listen(void *context, size_t host, const char *interface)
{
    psr_launch_driver *d = context;
    if (d->tokens == NULL)
        d->tokens = calloc(d->host_count, sizeof *d->tokens);
    if (d->tokens == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu hosts", d->host_count);
    PSR_TRY(make_token(d->tokens[host]));
    psr_json_put(&d->hosts[host].agent.in, "op", "listen", "interface", interface, NULL);
    return PSR_OK;
}

static void measure_link(void *context, size_t host, size_t next, const char *address,
                         uint16_t port)
{
    psr_launch_driver *d = context;
    psr_json_put(&d->hosts[host].agent.in, "op", "link", "address", address, "#port", (double)port,
                 "token", d->tokens[next], "own_token", d->tokens[host], NULL);
}

static void take_links(void *context, const psr_order *slowest)
{
    psr_launch_driver *d = context;
    d->slowest = *slowest;
    psr_config_slices_for(slowest->bits_per_s, psr_config_pushers(&d->config),
                          &d->config.slice_bytes, &d->config.window);
}

static void show_links(psr_launch_driver *d)
{
    char rate[PSR_RATE_TEXT_BYTES], slice[32], line[1024];
    const uint64_t measured = d->slowest.bits_per_s, unit = measured < 10000000 ? 1000 : 1000000;
    if (measured == 0 || psr_config_get(&d->config, "slice-size", slice, sizeof slice) != PSR_OK)
        return;
    psr_rate_print(measured / unit * unit, rate);
    snprintf(line, sizeof line,
             "links: %s from %s to %s, the slowest as measured: slices of %s, %" PRIu32
             " in flight",
             rate, d->slowest.host, d->slowest.to, slice, d->config.window);
    psr_show_line(&d->show, line);
}

static psr_err start_scheduler(void *context, uint32_t threads, const char *interface)
{
    psr_launch_driver *d = context;
    d->config.threads = threads;
    bool bare = d->config.bare != PSR_BARE_NOWHERE, ipc = d->sockets[0] != '\0';
    uint32_t workers = d->config.mode == PSR_MODE_LOCAL ? 1 : d->config.workers;
    d->shards = psr_config_shards(&d->config);
    PSR_TRY(check_own_address(d, interface));
    PSR_TRY(psr_keys_generate(workers, d->shards, !ipc && !bare, &d->keys, &d->key_count));
    for (size_t i = 0; i < d->key_count; i++)
        d->keys[i].bare = bare;
    if (d->options->program == NULL)
        show_configuration(d);
    show_links(d);
    return start_scheduler_process(d, interface);
}

/* The local rank of a rank of a program: its place among the ranks on its host that are not shards.
 * For others 0 of 0. */
static psr_program_place local_place(const psr_launch_driver *d, const psr_placed *placed)
{
    const psr_placement *placement = d->options->placement;
    const psr_program *program = d->options->program;
    psr_program_place place = {0};
    const uint32_t ranks = program != NULL ? program->ranks - program->shards : 0;
    for (size_t i = 0; i < placement->count && placed->peer.rank < ranks; i++) {
        const psr_placed *other = &placement->items[i];
        bool counts = other->host == placed->host && other->peer.rank < ranks;
        place.local_ranks += counts;
        place.local_rank += counts && other->peer.rank < placed->peer.rank;
    }
    return place;
}

static psr_err spawn(void *context, size_t item, const char *interface, const char *endpoint,
                     const char *cpus)
{
    psr_launch_driver *d = context;
    const psr_placed *placed = &d->options->placement->items[item];
    const char *host_name = d->options->placement->hosts.items[placed->host].name;
    cJSON *provision = NULL;
    PSR_TRY(make_provision(d, placed->peer, host_name, interface, endpoint, &provision));
    const psr_program_place place = local_place(d, placed);
    psr_json_put(&d->hosts[placed->host].agent.in, "op", "spawn", "role",
                 psr_role_name(placed->peer.role), "#rank", (double)placed->peer.rank, "!provision",
                 provision, "#local_rank", (double)place.local_rank, "#local_ranks",
                 (double)place.local_ranks, "?gpu", psr_config_uses_gpu(&d->config, NULL),
                 cpus != NULL ? "cpus" : NULL, cpus, NULL);
    return PSR_OK;
}

static void order(void *context, const psr_order *order)
{
    psr_launch_driver *d = context;
    char *text = NULL;
    if (psr_order_encode(order, &text) == PSR_OK) /* without memory it is not reported */
        psr_line_writer_put(&d->scheduler.in, text);
    free(text);
}

static void command(void *context, size_t host, psr_launch_command command, int64_t grace_ms)
{
    psr_launch_driver *d = context;
    psr_line_writer *in = &d->hosts[host].agent.in;
    switch (command) {
    case PSR_LAUNCH_ALIVE:
        psr_json_put(in, "op", "alive", NULL);
        return;
    case PSR_LAUNCH_PAUSE:
        psr_json_put(in, "op", "pause", NULL);
        return;
    case PSR_LAUNCH_GO_ON:
        psr_json_put(in, "op", "go_on", NULL);
        return;
    case PSR_LAUNCH_END:
        psr_json_put(in, "op", "end", "#grace_ms", (double)grace_ms, NULL);
        return;
    }
}

static void kill_agent(void *context, size_t host)
{
    psr_launch_driver *d = context;
    psr_child_signal(&d->hosts[host].agent, SIGKILL); /* its processes die with it */
}

static void kill_scheduler(void *context)
{
    psr_child_signal(&((psr_launch_driver *)context)->scheduler, SIGKILL);
}

static void stop(void *context)
{
    psr_launch_driver *d = context;
    psr_screen_drain(d->screen, -1, LAST_LINE_MS);
    psr_job_stop();
}

static void show_line(void *context, const char *line)
{
    psr_launch_driver *d = context;
    psr_show_line(&d->show, line);
}

static void show_error(void *context, const char *line)
{
    psr_launch_driver *d = context;
    psr_show_error(&d->show, "%s", line);
}

static void show_others_error(void *context, const char *line)
{
    psr_launch_driver *d = context;
    psr_show_others_error(&d->show, "%s", line);
}

static void show_output(void *context, uint32_t rank, bool to_stderr, const char *line)
{
    psr_launch_driver *d = context;
    char name[32] = "";
    if (!psr_screen_has_room(d->screen))
        return;
    if (d->names_ranks[to_stderr])
        snprintf(name, sizeof name, "[%" PRIu32 "] ", rank);
    if (to_stderr)
        psr_screen_err(d->screen, "%s%s\n", name, line);
    else
        psr_screen_out(d->screen, "%s%s\n", name, line);
}

static void show_connecting(void *context, size_t there, size_t troubles, size_t hosts)
{
    psr_launch_driver *d = context;
    psr_show_connecting(&d->show, there, troubles, hosts, d->options->program != NULL);
}

static void show_directory(void *context, const psr_run_directory *directory)
{
    psr_launch_driver *d = context;
    snprintf(d->out, sizeof d->out, "%s", directory->out);
    psr_show_run(&d->show, directory->out, directory->resumed);
}

static void show_progress(void *context, const psr_run_progress *progress)
{
    psr_launch_driver *d = context;
    psr_show_step(&d->show, progress->step, progress->total, progress->loss,
                  progress->images_per_s);
}

static void show_evaluating(void *context, const psr_run_evaluating *evaluating)
{
    psr_launch_driver *d = context;
    psr_show_evaluating(&d->show, evaluating->step, evaluating->total, evaluating->counted,
                        evaluating->samples);
}

static void show_evaluated(void *context)
{
    psr_launch_driver *d = context;
    psr_show_evaluated(&d->show);
}

static void end_bar(void *context)
{
    psr_launch_driver *d = context;
    psr_show_end(&d->show);
}

static void draw_bar_again(void *context)
{
    psr_launch_driver *d = context;
    psr_show_again(&d->show);
}

static void show_resumable(void *context)
{
    psr_launch_driver *d = context;
    char how[PSR_PATH_MAX + 32];
    snprintf(how, sizeof how, "psring train --resume %s", d->out);
    psr_show_how_to_go_on(&d->show, how);
}

static void show_outcome(void *context, const cJSON *outcome)
{
    psr_launch_driver *d = context;
    psr_show_outcome(&d->show, &d->config, d->out, outcome);
}

/* ---- before the first agent ---- */

/* Decides before anything starts whether all processes of the run are on this host, whether it uses
 * ipc sockets, and whether memory is shared. */
static psr_err choose_transport(psr_launch_driver *d)
{
    const psr_hosts *hosts = &d->options->placement->hosts;
    const char *elsewhere = NULL;
    for (size_t i = 0; i < hosts->count && elsewhere == NULL; i++)
        elsewhere = psr_host_is_here(hosts->items[i].name) ? NULL : hosts->items[i].name;
    bool ipc = d->config.transport == PSR_TRANSPORT_IPC;
    if (ipc && elsewhere != NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "--transport ipc: host %s cannot be reached by it; leave it out, or give "
                        "--transport tcp",
                        elsewhere);
    if (ipc && d->options->interface != NULL)
        return psr_fail(
            PSR_ERR_USAGE,
            "--interface does not go with --transport ipc, which uses none; leave one of them out");
    if (d->config.transport == PSR_TRANSPORT_TCP || elsewhere != NULL ||
        d->options->interface != NULL) {
        d->shares = d->config.transport != PSR_TRANSPORT_TCP && !psr_config_has_link(&d->config);
        return PSR_OK;
    }
    if (d->config.bare != PSR_BARE_NOWHERE)
        return psr_fail(PSR_ERR_USAGE,
                        "--no-encrypt: a run on one host uses ipc sockets, where nothing is "
                        "encrypted; leave it out, or add --transport tcp");
    return psr_socket_directory_of_run(getenv("XDG_RUNTIME_DIR"), d->sockets);
}

static psr_err make_machine(psr_launch_driver *d, const char *host, const char *machine)
{
    const char *interface = d->options->interface;
    const psr_launch_machine_options options = {
        .placement = d->options->placement,
        .config = d->options->config,
        .runs_program = d->options->program != NULL,
        .bind_to = d->options->bind_to,
        .report_bindings = d->options->report_bindings,
        .measures_links = d->options->measures_links,
        .interface = interface,
        .interface_is_loopback =
            interface != NULL && (psr_host_is_here(interface) || strcmp(interface, "lo") == 0),
        .host = host,
        .machine = machine,
    };
    const psr_launch_actions actions = {
        .context = d,
        .start_agent = start_agent,
        .drop_agent = drop_agent,
        .ask_to_listen = ask_to_listen,
        .measure_link = measure_link,
        .take_links = take_links,
        .start_scheduler = start_scheduler,
        .spawn = spawn,
        .order = order,
        .command = command,
        .kill_agent = kill_agent,
        .kill_scheduler = kill_scheduler,
        .stop = stop,
        .show_line = show_line,
        .show_error = show_error,
        .show_others_error = show_others_error,
        .show_output = show_output,
        .show_connecting = show_connecting,
        .show_directory = show_directory,
        .show_progress = show_progress,
        .show_evaluating = show_evaluating,
        .show_evaluated = show_evaluated,
        .end_bar = end_bar,
        .draw_bar_again = draw_bar_again,
        .show_resumable = show_resumable,
        .show_outcome = show_outcome,
    };
    return psr_launch_machine_new(&options, &actions, psr_clock_ms(), &d->machine);
}

/* ---- signals ---- */

/* The signals that end the run, and those that only a working launcher uses. */
static void signals_to_take(sigset_t *set, bool at_work)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGUSR1);            /* Slurm's --signal=B:USR1@60, before the time limit */
    if (!psr_signal_is_ignored(SIGHUP)) /* nohup */
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

/* The run is over, and only its last lines are still to be printed. A signal that comes from now on
 * is an order to leave that. */
static void keep_signals_to_end(const psr_launch_driver *d)
{
    sigset_t signals;
    signals_to_take(&signals, false);
    (void)signalfd(d->signals, &signals, 0);
    sigprocmask(SIG_SETMASK, &signals, NULL);
}

/* ---- the whole ---- */

/* Removes the run's directory, because the processes that hold it may have been killed. */
static void remove_sockets(const psr_launch_driver *d)
{
    psr_socket_directory left;
    if (d->sockets[0] != '\0' && psr_socket_directory_hold(d->sockets, &left) == PSR_OK)
        psr_socket_directory_remove(&left);
}

/* Carries out the run, from the first agent to the last line. Returns the exit status. */
static int run(psr_launch_driver *d)
{
    psr_err err = choose_transport(d);
    if (err)
        psr_launch_machine_failed(d->machine, err, psr_clock_ms());
    psr_launch_loop(d);
    if (d->out[0] != '\0' && d->scheduler.ended && WIFSIGNALED(d->scheduler.status))
        psr_leftovers_remove(d->out);
    remove_sockets(d);
    psr_launch_machine_conclude(d->machine);
    keep_signals_to_end(d);
    psr_screen_drain(d->screen, d->signals,
                     psr_launch_machine_ends_at_once(d->machine) ? UNREAD_MS : -1);
    return psr_launch_machine_status(d->machine);
}

/* Four descriptors for each host: three pipes, and one that tells when the agent's process ends. */
static psr_err allow_descriptors(size_t host_count)
{
    struct rlimit limit;
    rlim_t needed = 4 * (rlim_t)host_count + DESCRIPTORS_BESIDE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return PSR_OK;
    limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
    if (limit.rlim_max < needed || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "%zu hosts need %llu open files here, and %llu are allowed; allow more by "
                        "ulimit -n, or by a line 'nofile' in /etc/security/limits.conf",
                        host_count, (unsigned long long)needed, (unsigned long long)limit.rlim_max);
    return PSR_OK;
}

static psr_err set_up(psr_launch_driver *d, const char *host, const char *machine)
{
    size_t host_count = d->options->placement->hosts.count;
    PSR_TRY(psr_screen_new(&d->screen));
    psr_show_init(&d->show, d->screen, d->options->progress, (double)d->config.log_every);
    d->names_ranks[0] = isatty(STDOUT_FILENO);
    d->names_ranks[1] = isatty(STDERR_FILENO);
    PSR_TRY(allow_descriptors(host_count));
    d->hosts = calloc(host_count, sizeof *d->hosts);
    d->fds = calloc(1 + 4 * (host_count + 1), sizeof *d->fds);
    if (d->hosts == NULL || d->fds == NULL || d->signals < 0)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu hosts", host_count);
    return make_machine(d, host, machine);
}

static void clean_up(psr_launch_driver *d)
{
    psr_screen_free(d->screen);
    for (size_t i = 0; i < d->host_count; i++)
        psr_child_done(&d->hosts[i].agent);
    psr_child_done(&d->scheduler);
    psr_launch_machine_free(d->machine);
    free_keys(d);
    close(d->signals);
    free(d->tokens);
    free(d->hosts);
    free(d->fds);
}

int psr_launch(const psr_launch_options *options)
{
    char host[256] = "?", machine[PSR_MACHINE_BYTES];
    (void)gethostname(host, sizeof host - 1);
    psr_machine_id(machine);
    psr_launch_driver d = {
        .options = options, .config = *options->config, .signals = open_signals()};
    d.scheduler.pidfd = d.scheduler.in.fd = d.scheduler.out.fd = d.scheduler.err.fd = -1;
    signal(SIGPIPE, SIG_IGN);
    psr_err err = set_up(&d, host, machine);
    int status = psr_err_exit_status(err);
    if (err)
        psr_print(stderr, "psring %s: %s\n", options->program != NULL ? "run" : "train",
                  psr_err_detail());
    else
        status = run(&d);
    clean_up(&d);
    return status;
}
