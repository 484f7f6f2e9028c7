/* `psring doctor`: reads options, visits the hosts, prints what it found. */
#include "deploy/commands.h"

#include "base/config/config.h"
#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "deploy/doctor/checkup_json.h"
#include "deploy/doctor/picture.h"
#include "deploy/doctor/visit/visit.h"
#include "deploy/launch/hosts/places.h"
#include "base/show/screen.h"
#include "data/augment/plan.h"
#include "model/networks/network_list.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEADLINE_S 10
#define DEADLINE_S_MAX 600

enum { KEY_DATA = 1000, KEY_OUT, KEY_DEADLINE, KEY_JSON, KEY_CLOCK_FAULT, KEY_FIRST_PLANNED };

/* Options of psring train on which a worker's memory depends. */
static const char *const planned_names[] = {"model",     "batch-size", "image-size", "augment",
                                            "stem",      "se",         "shortcut",   "classes",
                                            "precision", "optimizer",  "accumulate"};

enum { PLANNED = sizeof planned_names / sizeof planned_names[0] };

typedef struct doctor_options {
    psr_places places;
    psr_config config; /* holds the planned options, by the rules of psring train */
    bool plans;        /* one of them was given */
    const char *data, *out;
    const char *clock_fault; /* HOST:SECONDS */
    double deadline_s;
    bool json;
} doctor_options;

static double read_seconds(const struct argp_state *state, const char *option, const char *text)
{
    char *end = NULL, detail[128];
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 1 && value <= DEADLINE_S_MAX)) {
        snprintf(detail, sizeof detail, "%s: '%.40s' is not a number from 1 to %d", option, text,
                 DEADLINE_S_MAX);
        psr_options_refuse(state, detail);
    }
    return value;
}

static void set_planned(const struct argp_state *state, const char *name, const char *text)
{
    doctor_options *o = state->input;
    if (psr_config_set(&o->config, name, text) != PSR_OK)
        psr_options_refuse(state, psr_err_detail());
    o->plans = true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    doctor_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->places;
        return 0;
    case KEY_DATA:
        o->data = arg;
        return 0;
    case KEY_OUT:
        o->out = arg;
        return 0;
    case KEY_DEADLINE:
        o->deadline_s = read_seconds(state, "--deadline", arg);
        return 0;
    case KEY_JSON:
        o->json = true;
        return 0;
    case KEY_CLOCK_FAULT:
        o->clock_fault = arg;
        return 0;
    case ARGP_KEY_ARG:
        psr_options_refuse(state, "it takes options alone; name hosts by -H or --hostfile");
        return 0;
    default:
        if (key < KEY_FIRST_PLANNED || key >= KEY_FIRST_PLANNED + PLANNED)
            return ARGP_ERR_UNKNOWN;
        set_planned(state, planned_names[key - KEY_FIRST_PLANNED], arg);
        return 0;
    }
}

static const struct argp_option own_options[] = {
    {"data", KEY_DATA, "DIR|NAME", 0,
     "data that a run would train on: is it there, and the same, on each host?", 1},
    {"model", KEY_FIRST_PLANNED, "NAME", 0,
     "network that would be trained on it: is there memory for its workers? (default resnet20)", 1},
    {"batch-size", KEY_FIRST_PLANNED + 1, "N", 0, "samples per worker and step (default 64)", 1},
    {"image-size", KEY_FIRST_PLANNED + 2, "PX", 0,
     "side of the images (default: the data set's own)", 1},
    {"augment", KEY_FIRST_PLANNED + 3, "LIST", 0,
     "what pictures go through, whose last resize or crop says the side of the images", 1},
    {"stem", KEY_FIRST_PLANNED + 4, "large|small", 0, "first layers of torchvision's networks", 1},
    {"se", KEY_FIRST_PLANNED + 5, "RATIO", 0, "squeeze and excitation in every residual block", 1},
    {"shortcut", KEY_FIRST_PLANNED + 6, "a|b", 0, "shortcuts of resnet20 and its like", 1},
    {"classes", KEY_FIRST_PLANNED + 7, "N", 0, "outputs of the network (default: the data's)", 1},
    {"precision", KEY_FIRST_PLANNED + 8, "fp32|bf16", 0, "of the arithmetic (default fp32)", 1},
    {"optimizer", KEY_FIRST_PLANNED + 9, "NAME", 0,
     "adam, for one, has more arrays than sgd (default sgd)", 1},
    {"accumulate", KEY_FIRST_PLANNED + 10, "K", 0,
     "batches per worker and step, whose gradients are added in further arrays", 1},
    {"out", KEY_OUT, "DIR", 0, "where run directories would be made on this machine", 1},
    {"deadline", KEY_DEADLINE, "SECONDS", 0,
     "for a host's answer to each question, after which it is given up and named (default 10)", 1},
    {"json", KEY_JSON, NULL, 0, "all facts, ways and findings as one JSON object", 1},
    {"clock-fault", KEY_CLOCK_FAULT, "HOST:SECONDS", OPTION_HIDDEN,
     "for tests: that host's clock is told so much wrong", 1},
    {0}};

static const char doc[] =
    "Looks at the hosts of a hostfile, or at this machine, as a run would find them: can each be "
    "reached and reach all others, do they agree on version, back end and data, how fast is each "
    "way between them, and what would stop a run or slow it down.\vExamples:\n"
    "  psring doctor\n"
    "  psring doctor --hostfile hosts --data /data/cifar10 --out runs\n"
    "  psring doctor --hostfile hosts --data /data/cifar10 --model resnet50 \\\n"
    "    --batch-size 128\n"
    "  psring doctor --data cifar10 --model resnet50 --augment resize:224\n"
    "  psring doctor -H node1:2,node2:2 --interface ib0 --json\n"
    "\n"
    "It takes seconds: all hosts are asked at once, by a probe that listens as a\n"
    "worker would (CURVE, a port that the kernel gives) and ends with it. Nothing\n"
    "is changed and nothing is left on any host. docs/doctor.md has each check,\n"
    "why it matters and what to do.\n"
    "\n"
    "Exit status: 0 nothing would stop a run; 1 something would; 2 bad input;\n"
    "130 ended by Ctrl-C.\n";

/* A network's memory depends on the size of its images. */
static psr_err check_planned(const doctor_options *o)
{
    PSR_TRY(psr_network_check(&o->config));
    PSR_TRY(psr_augment_check(&o->config));
    if (o->plans && o->data == NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "--model, --batch-size and the like say what would be trained on "
                        "--data; give --data too (synthetic:SPEC has images of any size)");
    return PSR_OK;
}

/* This machine alone, if no hosts are named. */
static psr_err read_hosts(psr_places *places, psr_hosts *hosts)
{
    if (places->map_by != PSR_MAP_BY_SLOT || places->bind_to != PSR_BIND_TO_NONE ||
        places->report_bindings)
        return psr_fail(PSR_ERR_USAGE,
                        "--map-by, --bind-to and --report-bindings: nothing is placed on the hosts "
                        "here; leave them out");
    PSR_TRY(psr_places_read(places, hosts));
    return hosts->count > 0 ? PSR_OK : psr_hosts_add(hosts, "localhost", 1);
}

/* "HOST:SECONDS" */
static psr_err read_clock_fault(const char *text, const psr_hosts *hosts,
                                psr_visit_options *options)
{
    const char *colon = text != NULL ? strrchr(text, ':') : NULL;
    char *end = NULL;
    options->clock_fault_host = SIZE_MAX;
    if (text == NULL)
        return PSR_OK;
    for (size_t i = 0; i < hosts->count && colon != NULL; i++)
        if (strncmp(hosts->items[i].name, text, (size_t)(colon - text)) == 0 &&
            hosts->items[i].name[colon - text] == '\0')
            options->clock_fault_host = i;
    options->clock_fault_s = colon != NULL ? strtod(colon + 1, &end) : 0;
    if (options->clock_fault_host == SIZE_MAX || end == colon + 1 || *end != '\0' ||
        !isfinite(options->clock_fault_s))
        return psr_fail(PSR_ERR_USAGE,
                        "--clock-fault '%.100s': give HOST:SECONDS of one of the hosts", text);
    return PSR_OK;
}

static psr_err tell(const psr_checkup *checkup, bool json, int *ret_status)
{
    psr_findings findings;
    char *text = NULL;
    PSR_TRY(psr_findings_make(checkup, &findings));
    psr_err err = json ? psr_checkup_to_json(checkup, &findings, &text) : PSR_OK;
    if (err == PSR_OK && json)
        psr_print(stdout, "%s\n", text);
    else if (err == PSR_OK)
        psr_picture_print(stdout, checkup, &findings);
    *ret_status = psr_findings_at(&findings, PSR_FINDING_STOPS) > 0;
    free(text);
    psr_findings_done(&findings);
    return err;
}

/* Shows the present stage on a terminal: one line, which the next one and the result replace. */
static void show_progress(void *context, const char *what, size_t answered, size_t asked)
{
    psr_screen_draw(context, "\r%s: %zu of %zu\033[K", what, answered, asked);
}

#define ERASE_MS 1000 /* so that a stopped terminal does not delay the result for ever */

/* Without a terminal, and with --json, no progress is shown. */
static psr_err visit_watched(psr_visit_options *visit, bool json, psr_checkup *checkup)
{
    psr_screen *screen = NULL;
    if (json || !isatty(STDOUT_FILENO))
        return psr_visit(visit, checkup);
    PSR_TRY(psr_screen_new(&screen));
    visit->progress = show_progress;
    visit->progress_context = screen;
    psr_err err = psr_visit(visit, checkup);
    psr_screen_draw(screen, "\r\033[K");
    psr_screen_drain(screen, -1, ERASE_MS);
    psr_screen_free(screen);
    return err;
}

static psr_err examine(const doctor_options *o, const psr_hosts *hosts, int *ret_status)
{
    psr_visit_options visit = {.ssh = o->places.ssh,
                               .remote_program = o->places.remote_program,
                               .variables = o->places.variables,
                               .deadline_ms = (int64_t)(o->deadline_s * 1000)};
    psr_checkup checkup;
    char *planned = NULL;
    PSR_TRY(read_clock_fault(o->clock_fault, hosts, &visit));
    PSR_TRY(psr_checkup_init(hosts, &checkup));
    checkup.interface = o->places.interface;
    checkup.data = o->data;
    checkup.model = o->data != NULL ? o->config.model : NULL;
    checkup.batch_size = o->config.batch_size;
    checkup.out = o->out;
    psr_checkup_look_at_out(&checkup);
    psr_err err = checkup.model != NULL ? psr_config_to_json(&o->config, &planned) : PSR_OK;
    checkup.options = planned;
    if (err == PSR_OK)
        err = visit_watched(&visit, o->json, &checkup);
    if (err == PSR_OK)
        err = tell(&checkup, o->json, ret_status);
    psr_checkup_done(&checkup);
    free(planned);
    return err;
}

int psr_command_doctor(int argc, char **argv)
{
    static const struct argp_child children[] = {{&psr_places_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
    doctor_options o = {.deadline_s = DEADLINE_S};
    psr_config_defaults(&o.config);
    psr_hosts hosts = {0};
    int status = 0;
    psr_options_parse(&argp, argc, argv, 0, NULL, &o);
    psr_err err = check_planned(&o);
    if (err == PSR_OK)
        err = read_hosts(&o.places, &hosts);
    if (err == PSR_OK)
        err = examine(&o, &hosts, &status);
    if (err != PSR_OK) {
        psr_print(stderr, "psring doctor: %s\n", psr_err_detail());
        status = psr_err_exit_status(err);
    }
    psr_hosts_done(&hosts);
    psr_places_done(&o.places);
    return status;
}
