/* `psring show [OPTIONS OF psring train]`: what the run's plan is. psring-worker knows the data's
 * shape, and psring-scheduler makes the plan: this asks the one and becomes the other. */
#include "deploy/commands.h"

#include "base/config/options_argp.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "comm/wire/compression/compression.h"
#include "base/system/child.h"
#include "data/augment/plan.h"
#include "deploy/doctor/facts/ask.h"
#include "model/networks/network_list.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_HOSTS = 1000, ASK_MS = 30000, SHAPE = 4 };

typedef struct show_options {
    psr_config config;
    uint32_t hosts;
    const char *file;
} show_options;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    show_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->config;
        return 0;
    case 'n':
        if (psr_config_set(&o->config, "workers", arg) != PSR_OK)
            psr_options_refuse(state, psr_err_detail());
        return 0;
    case 'o':
        o->file = arg;
        return 0;
    case KEY_HOSTS:
        o->hosts = (uint32_t)psr_options_number(state, "hosts", arg, 1, 1024);
        return 0;
    case ARGP_KEY_ARG:
        psr_options_refuse(state, "psring show takes options only, those of psring train");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option own_options[] = {
    {NULL, 'n', "N", 0, "the same as --workers", 1},
    {"hosts", KEY_HOSTS, "N", 0, "as if the workers were on so many hosts, evenly (default: 1)", 1},
    {"output", 'o', "FILE.svg", 0, "also draw a picture into this file", 1},
    {0}};

static const char doc[] =
    "Shows which layers are in which bucket, and who holds which of its slices, for a run with "
    "these options. Nothing is started.\vExamples:\n"
    "  psring show --model resnet20 --workers 3 --shards 2\n"
    "  psring show --model resnet50 --data synthetic:size=224,classes=1000 \\\n"
    "    --mode ring --workers 4 --hosts 4 -o ring.svg\n"
    "\n"
    "Exit status: 0 done; 2 bad input.\n";

static psr_err check(show_options *o)
{
    PSR_TRY(psr_network_check(&o->config));
    PSR_TRY(psr_compression_check_options(o->config.compress, o->config.compress_weights));
    PSR_TRY(psr_augment_check(&o->config));
    if (o->config.steps == 0 && o->config.epochs == 0)
        o->config.steps = 1; /* nothing is trained */
    return psr_config_check(&o->config);
}

/* The shape of the data: channels, height, width, classes, as words. */
static psr_err ask_shape(const show_options *o, char words[static SHAPE][16])
{
    static const char *const names[SHAPE] = {"channels", "height", "width", "classes"};
    const uint32_t asked[SHAPE] = {0, 0, 0, o->config.classes};
    uint32_t shape[SHAPE], side = 0;
    char path[PATH_MAX], word[] = "examine", answer[4096];
    PSR_TRY(psr_program_path("psring-worker", path, sizeof path));
    char *argv[] = {path, word, (char *)(uintptr_t)o->config.data, NULL};
    PSR_TRY(psr_ask_program(argv, ASK_MS, answer, sizeof answer));
    cJSON *json = cJSON_Parse(answer);
    const char *failure = psr_json_text(json, "data_failure");
    psr_err err = failure != NULL ? psr_fail(PSR_ERR_USAGE, "%s", failure) : PSR_OK;
    for (int i = 0; i < SHAPE && err == PSR_OK; i++) {
        uint32_t number = asked[i];
        if (number == 0 && !psr_json_count(json, names[i], UINT32_MAX, &number))
            err = psr_fail(PSR_ERR_FORMAT, "psring-worker does not say the %s of %s", names[i],
                           o->config.data);
        shape[i] = number;
    }
    if (err == PSR_OK)
        err = psr_augment_side_of(&o->config, shape[0], (psr_picture_shape){shape[1], shape[2]},
                                  &side);
    shape[1] = shape[2] = side;
    for (int i = 0; i < SHAPE && err == PSR_OK; i++)
        snprintf(words[i], 16, "%" PRIu32, shape[i]);
    cJSON_Delete(json);
    return err;
}

/* Does not return if it succeeds. */
static psr_err become_scheduler(const show_options *o, char words[static SHAPE][16])
{
    char path[PATH_MAX], word[] = "show", hosts[16], *json = NULL;
    PSR_TRY(psr_program_path("psring-scheduler", path, sizeof path));
    PSR_TRY(psr_config_to_json(&o->config, &json));
    snprintf(hosts, sizeof hosts, "%" PRIu32, o->hosts);
    char *argv[] = {path,     word,     words[0], words[1],
                    words[2], words[3], hosts,    (char *)(uintptr_t)o->file,
                    json,     NULL};
    (void)execv(path, argv);
    psr_err err = psr_fail(PSR_ERR_IO, "%s: %s", path, strerror(errno));
    free(json);
    return err;
}

int psr_command_show(int argc, char **argv)
{
    show_options o = {.hosts = 1, .file = ""};
    char networks[PSR_NETWORK_TEXT_MAX], names[PSR_NETWORK_TEXT_MAX], words[SHAPE][16];
    psr_config_defaults(&o.config);
    psr_network_help(networks, sizeof networks);
    psr_network_names(names, sizeof names);
    psr_options_argp *table = psr_options_argp_new(networks, names);
    psr_err err = table != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for the options");
    if (err == PSR_OK) {
        const struct argp_child children[] = {{psr_options_argp_child(table), 0, NULL, 2}, {0}};
        const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
        psr_options_parse(&argp, argc, argv, 0, NULL, &o);
        err = check(&o);
    }
    if (err == PSR_OK)
        err = ask_shape(&o, words);
    if (err == PSR_OK)
        err = become_scheduler(&o, words);
    psr_print(stderr, "psring show: %s\n", psr_err_detail());
    psr_options_argp_free(table);
    return psr_err_exit_status(err);
}
