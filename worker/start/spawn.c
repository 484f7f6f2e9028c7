#include "worker/start/spawn.h"

#include "base/log.h"
#include "base/system/child.h"
#include "base/system/environment.h"
#include "base/system/signals.h"
#include "comm/start/start.h"
#include "worker/start/launched_options.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MAX 640 /* bytes of a variable */

/* The variables of a rank's environment that differ from this process's. */
static const char *const names[] = {"RANK",
                                    "LOCAL_RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_WORLD_SIZE",
                                    "GROUP_RANK",
                                    "GROUP_WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "PSRING_KEY_FILE",
                                    "PSRING_INTERFACE",
                                    "PSRING_MEETING",
                                    "PSRING_PORT"};
enum { NAMES = sizeof names / sizeof *names };

typedef struct node {
    uint32_t rank, nodes, local_ranks;
    psr_start_master master;
    char **options;      /* the run's; psr_config_arguments_free */
    psr_child *children; /* how many of them were started */
    uint32_t started;
} node;

/* ---- what there is to start ---- */

static psr_err read_node(const psr_worker_arguments *a, node *n)
{
    const psr_start_options options = {
        .address = a->address, .port = a->master_port, .url = a->url};
    psr_config config = a->config;
    char text[PSR_OPTION_TEXT_MAX], ranks[16];
    n->local_ranks = a->local_ranks != PSR_NOT_GIVEN ? a->local_ranks : 1;
    n->nodes = a->world_size != PSR_NOT_GIVEN ? a->world_size : 1;
    n->rank = a->rank != PSR_NOT_GIVEN ? a->rank : 0;
    if (n->rank >= n->nodes)
        return psr_fail(PSR_ERR_USAGE,
                        "--rank: give a number from 0 to %" PRIu32 ", as --world-size is %" PRIu32
                        " nodes",
                        n->nodes - 1, n->nodes);
    if ((uint64_t)n->nodes * n->local_ranks > 1024)
        return psr_fail(PSR_ERR_USAGE,
                        "--world-size %" PRIu32 " nodes of --nproc-per-node %" PRIu32
                        ": 1024 ranks are the most",
                        n->nodes, n->local_ranks);
    PSR_TRY(psr_start_master_of(&options, &n->master));
    PSR_TRY(psr_launched_take_input(a, &config));
    PSR_TRY(psr_launched_share_batch(a, n->local_ranks, &config));
    snprintf(ranks, sizeof ranks, "%" PRIu32, n->nodes * n->local_ranks);
    PSR_TRY(psr_config_get(&config, "workers", text, sizeof text));
    if (a->gives_workers && strcmp(text, ranks) != 0)
        return psr_fail(
            PSR_ERR_USAGE,
            "--workers is %.20s, and --world-size and --nproc-per-node say %s: leave --workers out",
            text, ranks);
    PSR_TRY(psr_config_set(&config, "workers", ranks));
    PSR_TRY(psr_config_check(&config)); /* once, instead of by each rank */
    return psr_config_to_arguments(&config, &n->options);
}

/* ---- a rank ---- */

/* As "NAME=VALUE"; "": as in this process's own environment. */
static void write_variables(const psr_worker_arguments *a, const node *n, uint32_t local_rank,
                            char values[NAMES][TEXT_MAX])
{
    const uint32_t numbers[] = {n->rank * n->local_ranks + local_rank,
                                local_rank,
                                n->nodes * n->local_ranks,
                                n->local_ranks,
                                n->rank,
                                n->nodes};
    size_t i = 0;
    for (; i < sizeof numbers / sizeof *numbers; i++)
        snprintf(values[i], TEXT_MAX, "%s=%" PRIu32, names[i], numbers[i]);
    snprintf(values[i], TEXT_MAX, "%s=%s", names[i], n->master.address);
    i++;
    snprintf(values[i], TEXT_MAX, "%s=%u", names[i], (unsigned)n->master.port);
    i++;
    if (a->keys != NULL)
        snprintf(values[i], TEXT_MAX, "%s=%.600s", names[i], a->keys);
    i++;
    if (a->interface != NULL)
        snprintf(values[i], TEXT_MAX, "%s=%.600s", names[i], a->interface);
    i++;
    if (a->meeting != NULL)
        snprintf(values[i], TEXT_MAX, "%s=%.600s", names[i], a->meeting);
    i++;
    if (a->port != PSR_NOT_GIVEN)
        snprintf(values[i], TEXT_MAX, "%s=%" PRIu32, names[i], a->port);
}

/* Its output goes to ours. */
static psr_err start_child(char *const argv[], char *const *environment, psr_child *ret_child)
{
    const psr_child_surroundings with = {.directory = ".",
                                         .setting = {.environment = environment},
                                         .out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0),
                                         .err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0),
                                         .inherits = -1};
    if (with.out >= 0 && with.err >= 0)
        return psr_child_start_program(argv, &with, ret_child);
    psr_err err = psr_fail(PSR_ERR_IO, "the output of a rank: %s", strerror(errno));
    if (with.out >= 0)
        close(with.out);
    return err;
}

static psr_err start_rank(const psr_worker_arguments *a, node *n, char *const argv[])
{
    char values[NAMES][TEXT_MAX] = {""};
    psr_environment environment;
    write_variables(a, n, n->started, values);
    PSR_TRY(psr_environment_begin(NAMES, &environment));
    for (size_t i = 0; i < NAMES; i++)
        if (values[i][0] != '\0')
            psr_environment_set(&environment, values[i]);
    psr_err err = start_child(argv, environment.items, &n->children[n->started]);
    psr_environment_done(&environment);
    n->started += err == PSR_OK;
    return err;
}

static psr_err start_all(const psr_worker_arguments *a, node *n)
{
    char path[4096];
    size_t count = 0;
    PSR_TRY(psr_program_path("psring-worker", path, sizeof path));
    while (n->options[count] != NULL)
        count++;
    char **argv = calloc(count + 2, sizeof *argv);
    n->children = calloc(n->local_ranks, sizeof *n->children);
    psr_err err = argv != NULL && n->children != NULL
                      ? PSR_OK
                      : psr_fail(PSR_ERR_NOMEM, "no memory for the ranks");
    if (err == PSR_OK) {
        argv[0] = path;
        memcpy(argv + 1, n->options, count * sizeof *argv);
    }
    while (err == PSR_OK && n->started < n->local_ranks)
        err = start_rank(a, n, argv);
    free(argv);
    return err;
}

/* ---- until they have ended ---- */

static int say_end(const node *n, uint32_t local_rank)
{
    char how[64];
    int status = n->children[local_rank].status;
    if (status == 0)
        return 0;
    psr_child_describe(status, how, sizeof how);
    psr_log(PSR_LOG_ERROR, "rank %" PRIu32 ": %s", n->rank * n->local_ranks + local_rank, how);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void pass_on(const node *n, int signals)
{
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    for (uint32_t i = 0; i < n->started; i++)
        psr_child_signal(&n->children[i], (int)info.ssi_signo);
}

/* Waits until all have ended; they end by themselves, since each has deadlines. Returns the first
 * status that is not 0. */
static int wait_for_all(const node *n, int signals, struct pollfd *fds)
{
    int first = 0;
    for (;;) {
        uint32_t running = 0;
        for (uint32_t i = 0; i < n->started; i++) {
            psr_child *child = &n->children[i];
            bool before = child->ended;
            if (psr_child_reap(child) && !before) {
                int status = say_end(n, i);
                first = first == 0 ? status : first;
            }
            running += !child->ended;
            fds[i] = (struct pollfd){.fd = child->pidfd, .events = POLLIN};
        }
        if (running == 0)
            return first;
        fds[n->started] = (struct pollfd){.fd = signals, .events = POLLIN};
        if (poll(fds, n->started + 1, -1) > 0 && fds[n->started].revents != 0)
            pass_on(n, signals);
    }
}

static int take_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    if (!psr_signal_is_ignored(SIGHUP)) /* nohup */
        sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static psr_err run(const psr_worker_arguments *a, node *n, int *ret_status)
{
    PSR_TRY(read_node(a, n));
    int signals = take_signals();
    struct pollfd *fds = calloc(n->local_ranks + 1, sizeof *fds);
    psr_err err = PSR_OK;
    if (signals < 0 || fds == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for the ranks");
    else
        err = start_all(a, n);
    if (err == PSR_OK) {
        psr_log(PSR_LOG_INFO,
                "ranks %" PRIu32 " to %" PRIu32 " of %" PRIu32
                " from --rank and --world-size (spawned)",
                n->rank * n->local_ranks, (n->rank + 1) * n->local_ranks - 1,
                n->nodes * n->local_ranks);
        *ret_status = wait_for_all(n, signals, fds);
    }
    if (signals >= 0)
        close(signals);
    free(fds);
    return err;
}

int psr_spawn_ranks(const psr_worker_arguments *arguments)
{
    node n = {0};
    int status = 0;
    psr_err err = run(arguments, &n, &status);
    if (err != PSR_OK)
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    for (uint32_t i = 0; i < n.started; i++)
        psr_child_done(&n.children[i]); /* kills what still runs */
    free(n.children);
    psr_config_arguments_free(n.options);
    return err != PSR_OK ? psr_err_exit_status(err) : status;
}
