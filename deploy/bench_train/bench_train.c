#include "deploy/bench_train/bench_train.h"

#include "base/attempts.h"
#include "base/clock.h"
#include "base/config/help_width.h"
#include "base/config/options_argp.h"
#include "base/system/file.h"
#include "base/text/printable.h"
#include "base/text/units.h"
#include "deploy/bench/places.h"
#include "deploy/bench_train/grid.h"
#include "deploy/bench_train/repetition.h"
#include "deploy/bench_train/results.h"
#include "deploy/bench_train/samples.h"
#include "deploy/bench_train/summary.h"
#include "deploy/launch/hosts/places.h"
#include "model/networks/network_list.h"

#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_REPETITIONS = 1000,
    KEY_PS_HOSTFILE,
    KEY_UNTIL_LOSS,
    KEY_UNTIL_ACCURACY,
    KEY_LINK,
    KEY_MPIRUN,
    KEY_KEEP
};

#define DEFAULT_STEPS 60
#define DEFAULT_REPETITIONS 10

typedef struct bench {
    psr_config config;
    const char *lists[PSR_GRID_LISTS];
    const char *const *places;
    const char *ps_hostfile, *mpirun, *link;
    double link_bytes_per_s;
    uint32_t repetitions;
    psr_measure_targets targets;
    bool keep;
    /* while it goes on */
    psr_grid grid;
    psr_results results;
    char directory[PSR_PATH_MAX + 8];
    char slots[16];       /* of the hosts, where --workers does not say how many */
    bool draws;           /* a bar, where stdout is a terminal */
    uint32_t done, total; /* repetitions */
    uint32_t ran;         /* by this call, in ran_s */
    double ran_s, began_s;
    const psr_grid_cell *cell; /* the present one */
    uint32_t failures;
} bench;

/* ---- the command line ---- */

static const struct argp_option own_options[] = {
    {NULL, 'n', "LIST", 0, "the same as --workers", 1},
    {"repetitions", KEY_REPETITIONS, "R", 0,
     "runs of each configuration, in alternating order (default 10; with fewer than 6 nothing can "
     "be "
     "called different)",
     1},
    {"ps-hostfile", KEY_PS_HOSTFILE, "FILE", 0,
     "measure shards on these hosts of their own as well as beside the workers", 1},
    {"until-loss", KEY_UNTIL_LOSS, "X", 0,
     "tell after how many seconds of training the mean loss of ten steps was at most X", 1},
    {"until-accuracy", KEY_UNTIL_ACCURACY, "A", 0,
     "tell after how many seconds of training an evaluation (--eval-every) had at least A right, "
     "from 0 to 1",
     1},
    {"link", KEY_LINK, "RATE", 0,
     "bits per second of each host's link, in each direction (100Mbit, 1Gbit): for the limit and "
     "how busy links are",
     1},
    {"mpirun", KEY_MPIRUN, "CMD", 0, "what starts mode mpi (default mpirun)", 1},
    {"keep-runs", KEY_KEEP, NULL, 0, "keep the run directories, in OUT.runs", 1},
    {0}};

static const char doc[] =
    "Which architecture for my network, with how many shards, and why: trains it in each, several "
    "times in alternating order, and says which differences lie outside the spread.\v"
    "These options of psring train take lists, separated by commas, and every combination is "
    "measured: --mode (ps, ring, mpi, local, none; none is a ring without an exchange; default "
    "ps,ring,none), --shards, --workers, --model, --batch-size, --bucket-size, --sync, --compress. "
    "All other options are the same for all runs. --hostfile, -H and the other words of psring "
    "train that say where processes go are taken too. Without --steps, --epochs or --seconds a run "
    "has 60 steps; it is evaluated only with --until-accuracy.\n"
    "\n"
    "--out FILE has a JSON object for each repetition, written as it ends. The same command again "
    "goes on where it stopped, and runs again what failed; another one is refused. Without it a "
    "file in psring-runs is made.\n"
    "\n"
    "Two configurations are called different only if the rank-sum test gives at most 0.0025, and "
    "their medians are further apart than the wider spread (docs/benchmarking.md).\n"
    "\n"
    "Examples:\n"
    "  psring bench train --model resnet18 --image-size 32 --workers 2 --shards 1,2\n"
    "  psring bench train --hostfile hosts --model resnet50 --link 1Gbit \\\n"
    "    --out r50.jsonl\n"
    "  psring bench train --mode ps --sync bsp,ssp:3,async --slow 1:3 --workers 4 \\\n"
    "    --seconds 20 --until-loss 1.5\n"
    "\n"
    "Exit status: 0 done; 1 a run failed, the others went on; 2 bad input; 130 stopped by "
    "Ctrl-C.\n";

static bool number_of(const char *text, double low, double high, double *ret_value)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= low && value <= high))
        return false;
    *ret_value = value;
    return true;
}

static bool rate_of(const char *text, double *ret_bytes_per_s)
{
    uint64_t bits_per_s;
    if (!psr_rate_parse(text, strlen(text), &bits_per_s))
        return false;
    *ret_bytes_per_s = (double)bits_per_s / 8;
    return true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    bench *b = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &b->config;
        return 0;
    case KEY_REPETITIONS:
        b->repetitions =
            (uint32_t)psr_options_number(state, "repetitions", arg, 1, PSR_SAMPLES_MAX);
        return 0;
    case KEY_PS_HOSTFILE:
        b->ps_hostfile = arg;
        return 0;
    case KEY_UNTIL_LOSS:
        if (!number_of(arg, -1e300, 1e300, &b->targets.loss))
            psr_options_refuse(state, "--until-loss: give a number, as 1.5");
        return 0;
    case KEY_UNTIL_ACCURACY:
        if (!number_of(arg, 0, 1, &b->targets.accuracy))
            psr_options_refuse(state, "--until-accuracy: give a share from 0 to 1, as 0.9");
        return 0;
    case KEY_LINK:
        if (!rate_of(arg, &b->link_bytes_per_s))
            psr_options_refuse(state, "--link: give bits per second, as 100Mbit or 1Gbit");
        b->link = arg;
        return 0;
    case KEY_MPIRUN:
        b->mpirun = arg;
        return 0;
    case KEY_KEEP:
        b->keep = true;
        return 0;
    case ARGP_KEY_ARG:
        psr_options_refuse(state, "it takes options alone; they begin with --");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The list that a word of the command line gives: PSR_GRID_LISTS, none. *ret_value: what follows
 * "="; NULL: the next word. */
static size_t list_of(const char *word, const char **ret_value)
{
    *ret_value = NULL;
    if (strcmp(word, "-n") == 0 || strcmp(word, "-np") == 0)
        return PSR_GRID_WORKERS;
    for (size_t i = 0; i < PSR_GRID_LISTS; i++) {
        const char *name = psr_grid_list_name((psr_grid_list)i);
        const size_t length = strlen(name);
        if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, length) != 0)
            continue;
        if (word[2 + length] == '=')
            *ret_value = word + 3 + length;
        if (word[2 + length] == '=' || word[2 + length] == '\0')
            return i;
    }
    return PSR_GRID_LISTS;
}

/* Takes the lists out of the command line: argp would refuse them. */
static psr_err take_lists(bench *b, int *argc, char **argv)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        const char *value = NULL;
        const size_t list = list_of(argv[i], &value);
        if (list == PSR_GRID_LISTS) {
            argv[kept++] = argv[i];
            continue;
        }
        if (value == NULL && i + 1 == *argc)
            return psr_fail(PSR_ERR_USAGE, "%s needs a value", argv[i]);
        b->lists[list] = value != NULL ? value : argv[++i];
    }
    argv[kept] = NULL;
    *argc = kept;
    return PSR_OK;
}

/* A worker for each slot of the hosts, as in psring train. */
static psr_err count_workers(bench *b)
{
    psr_places places = {.hostfile = psr_bench_value(b->places, "--hostfile"),
                         .host_list = psr_bench_value(b->places, "-H")};
    psr_hosts hosts = {0};
    if (b->lists[PSR_GRID_WORKERS] != NULL || (places.hostfile == NULL && places.host_list == NULL))
        return PSR_OK;
    PSR_TRY(psr_places_read(&places, &hosts));
    snprintf(b->slots, sizeof b->slots, "%" PRIu32, psr_hosts_slots(&hosts));
    b->lists[PSR_GRID_WORKERS] = b->slots;
    psr_hosts_done(&hosts);
    return PSR_OK;
}

/* What all runs have in common, beside the lists. */
static psr_err complete(bench *b)
{
    psr_config *config = &b->config;
    PSR_TRY(count_workers(b));
    if (config->resume[0] != '\0' || psr_attempts_are_asked_for(config))
        return psr_fail(PSR_ERR_USAGE, "--resume: every run begins anew here; --init gives all the "
                                       "same weights");
    if (config->steps == 0 && config->epochs == 0 && config->seconds == 0)
        config->steps = DEFAULT_STEPS;
    if (isnan(b->targets.accuracy))
        config->eval = false;
    else if (psr_duration_is_none(config->eval_every) || !config->eval)
        return psr_fail(PSR_ERR_USAGE, "--until-accuracy: nobody would see it; give --eval-every "
                                       "too, and no --no-eval");
    return PSR_OK;
}

/* ---- what is measured ---- */

static bool put_text(cJSON *object, const char *name, const char *text)
{
    return text == NULL || cJSON_AddStringToObject(object, name, text) != NULL;
}

static bool add_options(const bench *b, cJSON *header)
{
    char *json = NULL;
    psr_config config = b->config;
    config.out[0] = '\0';
    if (psr_config_to_json(&config, &json) != PSR_OK)
        return false;
    cJSON *options = cJSON_Parse(json);
    free(json);
    for (size_t i = 0; i < PSR_GRID_LISTS; i++) /* lists has them */
        if (b->lists[i] != NULL || i == PSR_GRID_MODE)
            cJSON_DeleteItemFromObjectCaseSensitive(options, psr_grid_list_name((psr_grid_list)i));
    return cJSON_AddItemToObject(header, "options", options);
}

static cJSON *header_of(const bench *b)
{
    cJSON *header = cJSON_CreateObject(), *lists = cJSON_CreateObject(),
          *places = cJSON_CreateArray();
    bool whole =
        put_text(header, "bench", "train") && put_text(header, "psring", PSR_VERSION) &&
        put_text(lists, "mode", b->lists[PSR_GRID_MODE] ? b->lists[PSR_GRID_MODE] : "ps,ring,none");
    for (size_t i = 0; i < PSR_GRID_LISTS; i++)
        if (i != PSR_GRID_MODE)
            whole = whole && put_text(lists, psr_grid_list_name((psr_grid_list)i), b->lists[i]);
    for (const char *const *place = b->places; *place != NULL; place++)
        whole = whole && cJSON_AddItemToArray(places, cJSON_CreateString(*place));
    whole = whole && put_text(header, "ps-hostfile", b->ps_hostfile) &&
            (isnan(b->targets.loss) ||
             cJSON_AddNumberToObject(header, "until-loss", b->targets.loss) != NULL) &&
            (isnan(b->targets.accuracy) ||
             cJSON_AddNumberToObject(header, "until-accuracy", b->targets.accuracy) != NULL);
    whole = whole && add_options(b, header) && cJSON_AddItemToObject(header, "lists", lists) &&
            cJSON_AddItemToObject(header, "places", places);
    if (whole)
        return header;
    cJSON_Delete(header);
    return NULL;
}

/* Makes the folder of the file, which the person names or psr_results_name. */
static psr_err name_out(bench *b)
{
    char folder[PSR_PATH_MAX];
    if (b->config.out[0] == '\0')
        psr_results_name(b->config.out, sizeof b->config.out);
    snprintf(b->directory, sizeof b->directory, "%s.runs", b->config.out);
    snprintf(folder, sizeof folder, "%s", b->config.out);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder)
        return PSR_OK;
    *slash = '\0';
    return psr_mkdirs(folder);
}

static psr_err open_results(bench *b)
{
    cJSON *header = header_of(b);
    if (header == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what is measured");
    psr_err err = psr_results_open(b->config.out, header, &b->results);
    cJSON_Delete(header);
    return err;
}

/* ---- what a person sees ---- */

static void print_left(const bench *b, char text[static 32])
{
    const double left_s =
        b->ran > 0 ? b->ran_s / b->ran * (b->total - b->done) - (psr_clock_s() - b->began_s) : NAN;
    const int s = left_s > 0 ? (int)left_s : 0;
    snprintf(text, 32, "%d:%02d:%02d left", s / 3600, s / 60 % 60, s % 60);
    if (b->ran == 0)
        text[0] = '\0';
}

/* One line of at most 79 columns, drawn over the one before. */
static void draw(void *context)
{
    const bench *b = context;
    char left[32], bar[21] = "";
    if (!b->draws || b->cell == NULL)
        return;
    print_left(b, left);
    const unsigned full = b->total > 0 ? b->done * 20 / b->total : 0;
    for (unsigned i = 0; i < 20; i++)
        bar[i] = i < full ? '#' : '.';
    psr_print(stdout, "\r[%s] %" PRIu32 "/%" PRIu32 "  %-20.20s %s", bar, b->done, b->total,
              b->cell->name, left);
    psr_print(stdout, "   ");
    fflush(stdout);
}

static void clear(const bench *b)
{
    if (b->draws)
        psr_print(stdout, "\r%78s\r", "");
}

static void say_end(const bench *b, const char *group, uint32_t repetition, const cJSON *record)
{
    const cJSON *rate = cJSON_GetObjectItemCaseSensitive(record, "images_per_s"),
                *line = cJSON_GetObjectItemCaseSensitive(record, "line");
    clear(b);
    if (!psr_results_is_done(record))
        psr_print(stderr, "psring bench train: %s, %s, repetition %" PRIu32 " failed: %s\n", group,
                  b->cell->name, repetition, cJSON_IsString(line) ? line->valuestring : "?");
    else if (!b->draws)
        psr_print(stdout, "%" PRIu32 "/%" PRIu32 "  %s, %s: %.1f images/s\n", b->done, b->total,
                  group, b->cell->name, cJSON_IsNumber(rate) ? rate->valuedouble : NAN);
    fflush(stdout);
}

/* ---- the runs ---- */

static uint32_t count_done(const bench *b)
{
    uint32_t done = 0;
    for (size_t i = 0; i < b->grid.count; i++) {
        char group[PSR_GRID_NAME_MAX];
        psr_grid_group_name(&b->grid, b->grid.cells[i].group, group, sizeof group);
        for (uint32_t k = 1; k <= b->repetitions; k++)
            done +=
                psr_results_is_done(psr_results_find(&b->results, group, b->grid.cells[i].name, k));
    }
    return done;
}

static psr_repetition_options options_of(bench *b)
{
    return (psr_repetition_options){.mpirun = b->mpirun,
                                    .places = b->places,
                                    .ps_hostfile = b->ps_hostfile,
                                    .directory = b->directory,
                                    .keep = b->keep,
                                    .targets = b->targets,
                                    .tick = draw,
                                    .context = b};
}

static psr_err record_end(bench *b, const char *group, uint32_t repetition, cJSON *record)
{
    const bool whole = cJSON_AddStringToObject(record, "group", group) != NULL &&
                       cJSON_AddStringToObject(record, "configuration", b->cell->name) != NULL &&
                       cJSON_AddNumberToObject(record, "repetition", repetition) != NULL;
    if (!whole) {
        cJSON_Delete(record);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a record");
    }
    say_end(b, group, repetition, record);
    return psr_results_add(&b->results, record);
}

/* CANCELLED: it was told to stop. USAGE: the first run was refused, as all would be. */
static psr_err repeat(bench *b, size_t index, uint32_t repetition)
{
    char group[PSR_GRID_NAME_MAX], name[64];
    cJSON *record = NULL;
    psr_repetition_end end;
    const psr_repetition_options options = options_of(b);
    b->cell = &b->grid.cells[index];
    psr_grid_group_name(&b->grid, b->cell->group, group, sizeof group);
    if (psr_results_is_done(psr_results_find(&b->results, group, b->cell->name, repetition)))
        return PSR_OK;
    snprintf(name, sizeof name, "%zu-%" PRIu32, index + 1, repetition);
    b->began_s = psr_clock_s();
    draw(b);
    PSR_TRY(psr_repetition_run(&options, b->cell, name, &end, &record));
    if (end == PSR_REPETITION_STOPPED)
        return psr_fail(PSR_ERR_CANCELLED, "stopped; the same command goes on with --out %s",
                        b->config.out);
    b->done++;
    b->ran++;
    b->ran_s += psr_clock_s() - b->began_s;
    b->failures += end != PSR_REPETITION_DONE;
    return record_end(b, group, repetition, record);
}

/* A run that is not recorded: it brings programs and data into memory. */
static psr_err warm_up(bench *b)
{
    cJSON *record = NULL;
    psr_repetition_end end;
    psr_repetition_options options = options_of(b);
    char line[1024];
    options.keep = false; /* so that a report does not take it for a repetition */
    b->cell = &b->grid.cells[0];
    draw(b);
    PSR_TRY(psr_repetition_run(&options, b->cell, "warm-up", &end, &record));
    const char *said = cJSON_GetStringValue(cJSON_GetObjectItem(record, "line"));
    snprintf(line, sizeof line, "%s", said != NULL ? said : "");
    cJSON_Delete(record);
    if (end == PSR_REPETITION_STOPPED)
        return psr_fail(PSR_ERR_CANCELLED, "stopped before the first repetition");
    return end == PSR_REPETITION_REFUSED ? psr_fail(PSR_ERR_USAGE, "%s", line) : PSR_OK;
}

/* Each repetition of all, there and back, so that what drifts is the same for all. */
static psr_err run_all(bench *b)
{
    PSR_TRY(psr_mkdirs(b->directory));
    b->total = (uint32_t)b->grid.count * b->repetitions;
    b->done = count_done(b);
    psr_err err = b->done < b->total ? warm_up(b) : PSR_OK;
    for (uint32_t k = 1; k <= b->repetitions && err == PSR_OK; k++)
        for (size_t i = 0; i < b->grid.count && err == PSR_OK; i++)
            err = repeat(b, k % 2 == 1 ? i : b->grid.count - 1 - i, k);
    clear(b);
    (void)rmdir(b->directory); /* unless they are kept */
    return err;
}

static psr_err summarise(const bench *b)
{
    const psr_bench_summary summary = {.grid = &b->grid,
                                       .results = &b->results,
                                       .repetitions = b->repetitions,
                                       .link_bytes_per_s = b->link_bytes_per_s,
                                       .targets = b->targets};
    PSR_TRY(psr_bench_summary_print(&summary, stdout));
    psr_print(stdout, "\n");
    psr_help_wrap(
        stdout,
        "ms are of a step, medians over repetitions; hidden is beside compute, the others "
        "add up to the step. docs/benchmarking.md defines all.",
        0, 0);
    psr_print(stdout, "written    %s\n", b->config.out);
    return PSR_OK;
}

static psr_err bench_all(bench *b)
{
    PSR_TRY(complete(b));
    PSR_TRY(psr_grid_make(&b->config, b->lists, b->ps_hostfile != NULL, &b->grid));
    PSR_TRY(name_out(b));
    PSR_TRY(open_results(b));
    psr_repetition_watch_signals();
    psr_err err = run_all(b);
    if (err == PSR_ERR_USAGE && cJSON_GetArraySize(b->results.records) == 0)
        (void)unlink(b->config.out); /* nothing was measured */
    return err == PSR_OK ? summarise(b) : err;
}

int psr_bench_train(int argc, char **argv, const char *const *places)
{
    bench b = {.places = places,
               .mpirun = "mpirun",
               .link_bytes_per_s = NAN,
               .repetitions = DEFAULT_REPETITIONS,
               .targets = {NAN, NAN},
               .results = {.fd = -1},
               .draws = isatty(STDOUT_FILENO) != 0};
    char networks[PSR_NETWORK_TEXT_MAX], names[PSR_NETWORK_TEXT_MAX];
    psr_config_defaults(&b.config);
    psr_network_help(networks, sizeof networks);
    psr_network_names(names, sizeof names);
    psr_options_argp *table = psr_options_argp_new(networks, names);
    psr_err err = table != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for the options");
    if (err == PSR_OK)
        err = take_lists(&b, &argc, argv);
    if (err == PSR_OK) {
        const struct argp_child children[] = {{psr_options_argp_child(table), 0, NULL, 2}, {0}};
        const struct argp argp = {own_options, parse, NULL, doc, children, NULL, NULL};
        psr_options_parse(&argp, argc, argv, 0, NULL, &b);
        err = bench_all(&b);
    }
    if (err != PSR_OK)
        psr_print(stderr, "psring bench train: %s\n", psr_err_detail());
    psr_results_done(&b.results);
    psr_grid_done(&b.grid);
    psr_options_argp_free(table);
    return err != PSR_OK ? psr_err_exit_status(err) : b.failures > 0;
}
