/* `psring train`: reads options, places the processes, launches. */
#include "deploy/commands.h"

#include "base/attempts.h"
#include "base/config/options_argp.h"
#include "base/text/command_text.h"
#include "base/text/printable.h"
#include "comm/wire/compression/compression.h"
#include "data/augment/plan.h"
#include "deploy/launch/hosts/places.h"
#include "deploy/launch/launch.h"
#include "deploy/recipe/recipe.h"
#include "deploy/report/earlier_run.h"
#include "model/networks/network_list.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_PS_HOSTFILE = 1000, KEY_CONFIG, KEY_PROGRESS, KEY_RECIPE };

typedef struct train_options {
    psr_config config;
    psr_earlier_run earlier;
    psr_recipe *recipe; /* owned; NULL: none */
    psr_places places;
    const char *ps_hostfile;
    bool slices_given;    /* --slice-size or --window, here or in an earlier run */
    bool measures_links;  /* slices follow what the links carry */
    const char *progress; /* NULL: what stdout can show */
} train_options;

/* A terminal that cannot erase (TERM=dumb) gets lines, as a pipe does. */
static psr_show_kind progress_by_default(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && (terminal == NULL || strcmp(terminal, "dumb") != 0)
               ? PSR_SHOW_BAR
               : PSR_SHOW_LINES;
}

/* false: not one of them. */
static bool progress_of(const char *text, psr_show_kind *ret_kind)
{
    static const char *const words[] = {"bar", "lines", "none"}; /* in the order of the enum */
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret_kind = (psr_show_kind)i;
            return true;
        }
    return false;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    train_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->config;
        state->child_inputs[1] = &o->places;
        return 0;
    case 'n':
        if (psr_config_set(&o->config, "workers", psr_places_count(state, arg)) != PSR_OK)
            psr_options_refuse(state, psr_err_detail());
        return 0;
    case KEY_PS_HOSTFILE:
        o->ps_hostfile = arg;
        return 0;
    case KEY_PROGRESS:
        if (!progress_of(arg, &(psr_show_kind){0}))
            psr_options_refuse(state, "--progress: give bar, lines or none");
        o->progress = arg;
        return 0;
    case KEY_CONFIG: /* were read first (read_options) */
    case KEY_RECIPE:
        return 0;
    case ARGP_KEY_ARG: {
        char detail[256];
        snprintf(
            detail, sizeof detail,
            "'%.100s' is not an option; options begin with --, and psring train takes nothing else",
            arg);
        psr_options_refuse(state, detail);
        return EINVAL;
    }
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option own_options[] = {
    {NULL, 'n', "N", 0, "the same as --workers; -np N is the same too", 1},
    {"ps-hostfile", KEY_PS_HOSTFILE, "FILE", 0,
     "shards go to these hosts (default: beside the workers, round robin)", 1},
    {"config", KEY_CONFIG, "RUN|FILE", 0,
     "do an earlier run again: its directory, or its run.json. --transport and --no-encrypt are "
     "not taken from it. Options on this command line win",
     1},
    {"recipe", KEY_RECIPE, "NAME|FILE|list", 0,
     "print and take the options of a recipe: a text file with an option a line, whose path has a "
     "slash in it, or one that came with psring; list: print what there is, and end. Options on "
     "this command line win",
     1},
    {"progress", KEY_PROGRESS, "bar|lines|none", 0,
     "bar: one line that is redrawn; lines: a line every --log-every steps, and after 30 s without "
     "one; none: nothing (default: bar on a terminal, else lines)",
     1},
    {0}};

static const char doc[] =
    "Trains a network with parameter servers or with ring all-reduce.\vExamples:\n"
    "  psring train --workers 3 --mode ps --shards 2 --steps 300\n"
    "  psring train --workers 3 --mode ring --steps 300\n"
    "  psring train --hostfile hosts --mode ring --model resnet50 --epochs 10 \\\n"
    "    --data /data/cifar10 --augment crop-flip\n"
    "  psring train --config psring-runs/A --mode local --out again\n"
    "  psring train --resume psring-runs/A --steps 600\n"
    "  psring train --model resnet18 --init resnet18.safetensors \\\n"
    "    --freeze all-but:fc --freeze-bn --data flowers --epochs 3\n"
    "  psring train --recipe convnet-mnist --workers 2 --batch-size 32\n"
    "\n"
    "Examples for lessons: what an exchange costs, and what one slow worker does:\n"
    "  psring train --workers 3 --mode ring --steps 300 --no-exchange\n"
    "  psring train --workers 3 --mode ps --sync async --steps 300 --slow 2:10\n"
    "\n"
    "Exit status: 0 done; 1 the run failed; 2 bad input; 3 a process broke the\n"
    "protocol; 130 stopped by Ctrl-C, with a checkpoint.\n";

static psr_err read_hosts(train_options *o, psr_hosts *hosts, psr_hosts *ps_hosts)
{
    if (o->ps_hostfile != NULL && psr_config_shards(&o->config) == 0)
        return psr_fail(
            PSR_ERR_USAGE,
            "--ps-hostfile is for shards, and this run has none; leave it out, or give --shards");
    PSR_TRY(psr_places_read(&o->places, hosts));
    return o->ps_hostfile != NULL ? psr_hostfile_read(o->ps_hostfile, ps_hosts) : PSR_OK;
}

/* MPI's processes can find each other only if MPI's own launcher starts them. */
static psr_err check_launcher(const psr_config *config)
{
    if (config->mode == PSR_MODE_MPI && config->workers > 1)
        return psr_fail(PSR_ERR_USAGE,
                        "--mode mpi: psring train cannot start MPI's processes; give these options "
                        "to mpirun -n %u psring-worker --mode mpi",
                        config->workers);
    return PSR_OK;
}

static psr_err resolve(train_options *o, psr_hosts *hosts, psr_hosts *ps_hosts,
                       psr_placement *ret_placement)
{
    psr_config *config = &o->config;
    PSR_TRY(psr_network_check(config));
    PSR_TRY(psr_compression_check_options(config->compress, config->compress_weights));
    PSR_TRY(psr_augment_check(config));
    PSR_TRY(read_hosts(o, hosts, ps_hosts));
    if (config->workers == 0) /* not given: every slot, or one */
        config->workers = hosts->count ? psr_hosts_slots(hosts) : 1;
    PSR_TRY(psr_config_check(config));
    if (config->link_rate_bits_per_s > 0 && !o->slices_given)
        psr_config_slices_for((uint64_t)((double)config->link_rate_bits_per_s / config->dilate),
                              psr_config_pushers(config), &config->slice_bytes, &config->window);
    o->measures_links =
        config->exchange && !psr_config_has_link(config) && !o->slices_given &&
        (psr_config_has_mode(config, PSR_MODE_RING) || psr_config_has_mode(config, PSR_MODE_PS));
    PSR_TRY(check_launcher(config));
    if (hosts->count == 0)
        PSR_TRY(psr_hosts_add(hosts, "localhost", config->workers));
    /* A name that the scheduler chooses is free, because the scheduler makes the directory. */
    if (config->out[0] != '\0' && !psr_attempts_are_asked_for(config) &&
        access(config->out, F_OK) == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--out %s exists already; name a directory that a run can make",
                        config->out);
    return psr_placement_make(config, hosts, ps_hosts->count ? ps_hosts : NULL, o->places.map_by,
                              ret_placement);
}

/* A recipe stands where an earlier run's options would: below those of the command line. */
static psr_err read_recipe(const char *name, const char *config, const char *resume,
                           train_options *o)
{
    if (config != NULL || resume != NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "--recipe and --%s: both give a run's options; leave one of them out",
                        config != NULL ? "config" : "resume");
    o->recipe = calloc(1, sizeof *o->recipe);
    if (o->recipe == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a recipe");
    PSR_TRY(psr_recipe_read(name, o->recipe));
    memcpy(o->earlier.path, o->recipe->path, sizeof o->earlier.path);
    o->earlier.file = o->earlier.config = o->recipe->config;
    for (size_t i = 0; i < o->recipe->count; i++)
        o->slices_given |= strcmp(o->recipe->names[i], "slice-size") == 0 ||
                           strcmp(o->recipe->names[i], "window") == 0;
    return PSR_OK;
}

/* Reads the options of an earlier run or of a recipe, and then those of the command line, which
 * win. */
static psr_err read_options(const struct argp *argp, int argc, char **argv, train_options *o)
{
    const char *file = NULL, *resume = NULL, *recipe = NULL, *text = NULL;
    psr_options_find(argp, argc, argv, "config", &file);
    psr_given_options given = {
        .steps = psr_options_find(argp, argc, argv, "steps", &text),
        .epochs = psr_options_find(argp, argc, argv, "epochs", &text),
        .init = psr_options_find(argp, argc, argv, "init", &text),
        .resume = psr_options_find(argp, argc, argv, "resume", &resume),
        .eval = psr_options_find(argp, argc, argv, "eval", &text) ||
                psr_options_find(argp, argc, argv, "no-eval", &text),
        .eval_every = psr_options_find(argp, argc, argv, "eval-every", &text),
        .fault_point = psr_options_find(argp, argc, argv, "fault-point", &text),
        .data = psr_options_find(argp, argc, argv, "data", &text),
        .data_content = psr_options_find(argp, argc, argv, "data-content", &text),
    };
    o->slices_given = psr_options_find(argp, argc, argv, "slice-size", &text) ||
                      psr_options_find(argp, argc, argv, "window", &text) || file != NULL ||
                      given.resume;
    /* --init and --resume exclude each other. The message must be about these options, and not
     * about the files that they name. */
    psr_err err = psr_earlier_run_read(file, given.init ? NULL : resume, &o->earlier);
    if (err == PSR_OK && psr_options_find(argp, argc, argv, "recipe", &recipe) && recipe != NULL &&
        strcmp(recipe, "list") != 0)
        err = read_recipe(recipe, file, resume, o);
    if (err == PSR_OK)
        o->config = o->earlier.config;
    if (o->earlier.path[0] == '\0')
        o->config.workers = 0;
    /* An error in the command line itself is reported before one in the file that it names, and
     * --help needs no file. */
    char detail[2048];
    snprintf(detail, sizeof detail, "%s", psr_err_detail());
    psr_options_parse(argp, argc, argv, 0, NULL, o);
    if (err != PSR_OK)
        return psr_fail(err, "%s", detail);
    if (recipe != NULL && strcmp(recipe, "list") == 0) {
        PSR_TRY(psr_recipe_list(stdout));
        exit(0);
    }
    return psr_earlier_run_fit(&o->earlier, &given, &o->config);
}

static void tell_left_out(const train_options *o)
{
    char line[2048];
    psr_earlier_run_left_out(&o->earlier, &o->config, line, sizeof line);
    if (line[0] != '\0')
        psr_print(stderr, "psring train: %s\n", line);
}

int psr_command_train(int argc, char **argv)
{
    train_options o = {0};
    psr_hosts hosts = {0}, ps_hosts = {0};
    psr_placement placement = {0};
    int status;
    psr_config_defaults(&o.config);
    char command[PSR_COMMAND_MAX]; /* before argp puts the words in another order */
    psr_command_text(argc, (const char *const *)argv, command);
    char networks[PSR_NETWORK_TEXT_MAX], names[PSR_NETWORK_TEXT_MAX];
    psr_network_help(networks, sizeof networks);
    psr_network_names(names, sizeof names);
    psr_options_argp *table = psr_options_argp_new(networks, names);
    psr_err err = table != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for the options");
    if (!err) {
        const struct argp_child children[] = {
            {psr_options_argp_child(table), 0, NULL, 2}, {&psr_places_argp, 0, NULL, 0}, {0}};
        const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
        err = read_options(&argp, argc, argv, &o);
    }
    if (!err)
        tell_left_out(&o);
    if (!err)
        err = resolve(&o, &hosts, &ps_hosts, &placement);
    if (!err && o.recipe != NULL)
        psr_recipe_print(o.recipe, &o.config, stdout);
    if (err) {
        psr_print(stderr, "psring train: %s\n", psr_err_detail());
        status = psr_err_exit_status(err);
    } else {
        psr_launch_options options = {.config = &o.config,
                                      .placement = &placement,
                                      .command = command,
                                      .variables = o.places.variables,
                                      .bind_to = o.places.bind_to,
                                      .report_bindings = o.places.report_bindings,
                                      .measures_links = o.measures_links,
                                      .interface = o.places.interface,
                                      .ssh = o.places.ssh,
                                      .progress = progress_by_default(),
                                      .remote_program = o.places.remote_program};
        if (o.progress != NULL)
            (void)progress_of(o.progress, &options.progress);
        status = psr_launch(&options);
    }
    psr_placement_done(&placement);
    psr_places_done(&o.places);
    psr_hosts_done(&hosts);
    psr_hosts_done(&ps_hosts);
    psr_options_argp_free(table);
    free(o.recipe);
    return status;
}
