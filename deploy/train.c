/* `psring train`: reads options, makes the plan, launches. */
#include "deploy/commands.h"

#include "base/file.h"
#include "base/options_argp.h"
#include "deploy/launch.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEY_HOSTFILE = 1000, KEY_PS_HOSTFILE, KEY_INTERFACE, KEY_SSH, KEY_REMOTE, KEY_CONFIG };

#define CONFIG_BYTES_MAX (1u << 20)

typedef struct train_options {
    psr_config config;
    const char *hostfile, *host_list, *ps_hostfile, *interface, *ssh, *remote_program;
} train_options;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    train_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->config;
        return 0;
    case 'H':
        o->host_list = arg;
        return 0;
    case KEY_HOSTFILE:
        o->hostfile = arg;
        return 0;
    case KEY_PS_HOSTFILE:
        o->ps_hostfile = arg;
        return 0;
    case KEY_INTERFACE:
        o->interface = arg;
        return 0;
    case KEY_SSH:
        o->ssh = arg;
        return 0;
    case KEY_REMOTE:
        o->remote_program = arg;
        return 0;
    case KEY_CONFIG: /* was read first: options beside it win */
        return 0;
    case ARGP_KEY_ARG: {
        char detail[256];
        snprintf(detail, sizeof detail, "'%.100s' is not an option; options begin with --, and psring train takes nothing else", arg);
        psr_options_refuse(state, detail);
        return EINVAL;
    }
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option own_options[] = {
    {"hostfile", KEY_HOSTFILE, "FILE", 0, "workers go to these hosts, over ssh; lines 'HOST slots=N'", 1},
    {NULL, 'H', "HOST:N,HOST:N", 0, "the same as a list", 1},
    {"ps-hostfile", KEY_PS_HOSTFILE, "FILE", 0, "shards go to these hosts (default: beside the workers, round robin)", 1},
    {"interface", KEY_INTERFACE, "NAME|ADDRESS", 0,
     "network interface to use on every host (default: loopback, or where ssh connects)", 1},
    {"ssh", KEY_SSH, "CMD", 0, "how to reach hosts (default: ssh); host keys are checked", 1},
    {"remote-psring", KEY_REMOTE, "PATH", 0, "psring's path on other hosts (default: the same as here, then PATH)", 1},
    {"config", KEY_CONFIG, "FILE", 0, "an earlier run's run.json: the same run again; options beside it win", 1},
    {0}};

static const char doc[] =
    "Trains a network with parameter servers or with ring all-reduce.\v"
    "Examples:\n"
    "  psring train --workers 3 --mode ps --shards 2 --steps 300\n"
    "  psring train --workers 3 --mode ring --steps 300\n"
    "  psring train --hostfile hosts --mode ring --model resnet50 --epochs 10 \\\n"
    "    --data /data/cifar10 --augment crop-flip\n"
    "  psring train --config psring-runs/A/run.json --mode local --out again\n"
    "\n"
    "Exit status: 0 done; 1 the run failed; 2 bad input; 3 a process broke the\n"
    "protocol; 130 stopped by Ctrl-C, with a checkpoint.\n";

/* The value of --config, found before the other options are read, since they win over it. */
static const char *config_file(int argc, char **argv)
{
    const char *file = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            file = argv[i + 1];
        else if (strncmp(argv[i], "--config=", 9) == 0)
            file = argv[i] + 9;
    }
    return file;
}

static psr_err load_config(const char *path, psr_config *config)
{
    uint8_t *text = NULL;
    size_t size = 0;
    PSR_TRY(psr_file_read(path, CONFIG_BYTES_MAX, &text, &size));
    psr_err err = psr_config_from_json(config, (const char *)text, size);
    free(text);
    if (err)
        return psr_fail_context(err, "--config %s", path);
    config->out[0] = '\0'; /* the same run again, not over the old one */
    config->fault_point[0] = '\0';
    return PSR_OK;
}

static psr_err read_hosts(const train_options *o, psr_hosts *hosts, psr_hosts *ps_hosts)
{
    if (o->hostfile && o->host_list)
        return psr_fail(PSR_ERR_USAGE, "--hostfile and -H say the same thing twice; give one");
    if (o->ps_hostfile && o->config.mode != PSR_MODE_PS)
        return psr_fail(PSR_ERR_USAGE, "--ps-hostfile does not fit this --mode; only --mode ps has shards");
    if (o->hostfile)
        PSR_TRY(psr_hostfile_read(o->hostfile, hosts));
    else if (o->host_list)
        PSR_TRY(psr_hosts_from_list(o->host_list, hosts));
    if (o->ps_hostfile)
        PSR_TRY(psr_hostfile_read(o->ps_hostfile, ps_hosts));
    return PSR_OK;
}

/* psring-runs/20261120-174530-resnet20-ps, and -2, -3 .. when that is taken. */
static void default_out(psr_config *config, const char *mode)
{
    char stamp[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    snprintf(config->out, sizeof config->out, "psring-runs/%s-%s-%s", stamp, config->model, mode);
    size_t stem = strlen(config->out);
    for (int i = 2; access(config->out, F_OK) == 0 && i < 1000; i++)
        snprintf(config->out + stem, sizeof config->out - stem, "-%d", i);
}

static psr_err resolve(train_options *o, psr_hosts *hosts, psr_hosts *ps_hosts, psr_plan *ret_plan)
{
    psr_config *config = &o->config;
    char mode[32];
    PSR_TRY(psr_config_get(config, "mode", mode, sizeof mode));
    PSR_TRY(read_hosts(o, hosts, ps_hosts));
    if (config->workers == 0) /* not given: every slot, or one */
        config->workers = hosts->count ? psr_hosts_slots(hosts) : 1;
    PSR_TRY(psr_config_check(config));
    if (hosts->count == 0)
        PSR_TRY(psr_hosts_add(hosts, "localhost", config->workers));
    if (config->out[0] == '\0')
        default_out(config, mode);
    else if (access(config->out, F_OK) == 0)
        return psr_fail(PSR_ERR_USAGE, "--out %s exists already; name a directory that a run can make", config->out);
    return psr_plan_make(config, hosts, ps_hosts->count ? ps_hosts : NULL, ret_plan);
}

int psr_command_train(int argc, char **argv)
{
    train_options o = {0};
    psr_hosts hosts = {0}, ps_hosts = {0};
    psr_plan plan = {0};
    int status;
    psr_config_defaults(&o.config);
    const char *file = config_file(argc, argv);
    psr_err err = file ? load_config(file, &o.config) : PSR_OK;
    const psr_config earlier = o.config;
    if (!file)
        o.config.workers = 0;
    psr_options_argp *table = psr_options_argp_new();
    if (!err && !table)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for the options");
    if (!err) {
        const struct argp_child children[] = {{psr_options_argp_child(table), 0, NULL, 2}, {0}};
        const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
        psr_options_parse(&argp, argc, argv, 0, NULL, &o);
        psr_config_fit_mode(&o.config, &earlier);
        err = resolve(&o, &hosts, &ps_hosts, &plan);
    }
    if (err) {
        fprintf(stderr, "psring train: %s\n", psr_err_detail());
        status = psr_err_exit_status(err);
    } else {
        psr_launch_options options = {&o.config, &plan, o.interface, o.ssh, o.remote_program};
        status = psr_launch(&options);
    }
    psr_plan_done(&plan);
    psr_hosts_done(&hosts);
    psr_hosts_done(&ps_hosts);
    psr_options_argp_free(table);
    return status;
}
