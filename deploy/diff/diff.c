/* `psring diff RUN RUN`: the first step in which two runs have other weights (--hash) or another
 * loss, rank by rank, and the options, versions and data in which they differ. */
#include "deploy/commands.h"

#include "base/config/options_argp.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "deploy/report/run_record.h"
#include "deploy/report/run_steps.h"

#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 2, RANKS_SHOWN = 8 };

typedef struct diff {
    const char *directories[RUNS];
    size_t given;
    psr_run_record records[RUNS];
    psr_run_steps steps[RUNS];
    cJSON *options; /* names of those that differ */
    bool differs;
} diff;

/* ---- the command line ---- */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    diff *d = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (d->given == RUNS)
            psr_options_refuse(state, "more than two runs; psring report compares many");
        d->directories[d->given++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (d->given < RUNS)
            psr_options_refuse(state, "two runs are compared; give two run directories");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Says in which step two runs become different: the first step with another hash of the weights "
    "(of runs made with --hash) and the first with another loss, for each rank, and in what they "
    "differ: options, versions, processor and data.\v"
    "Losses are compared to the last bit. A step that only one of the runs has taken counts as a "
    "difference. Options that change no number (out, deadline, log-every, transport and the like) "
    "are not shown.\n"
    "\n"
    "Examples:\n"
    "  psring train --mode ps   --hash --out a ...\n"
    "  psring train --mode ring --hash --out b ...\n"
    "  psring diff a b\n"
    "\n"
    "Exit status: 0 when all that both runs tell is the same; 1 when it differs; 2 when a run "
    "cannot be read.\n";

/* ---- the options ---- */

/* Of these no hash and no loss depends. */
static bool changes_numbers(const char *option)
{
    static const char *const others[] = {"out",
                                         "log-every",
                                         "deadline",
                                         "trace",
                                         "hash",
                                         "checkpoint-every",
                                         "eval-every",
                                         "eval",
                                         "transport",
                                         "no-encrypt",
                                         "loader-threads",
                                         "slice-size",
                                         "window",
                                         "fault-point",
                                         "metrics-every",
                                         "tensorboard",
                                         "tensorboard-norms",
                                         "metrics-port"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(option, others[i]) == 0)
            return false;
    return true;
}

static void print_options(const diff *d)
{
    bool any = false;
    const cJSON *name;
    cJSON_ArrayForEach(name, d->options)
    {
        if (!changes_numbers(name->valuestring))
            continue;
        const char *one = psr_run_record_option(&d->records[0], name->valuestring),
                   *other = psr_run_record_option(&d->records[1], name->valuestring);
        psr_print(stdout, "%-10s --%s: %s | %s\n", any ? "" : "options", name->valuestring,
                  one != NULL ? one : "-", other != NULL ? other : "-");
        any = true;
    }
    if (!any)
        psr_print(stdout, "options    the same\n");
}

/* ---- versions, processor, data ---- */

/* One line if both tell it and it differs. */
static bool print_other(const char *name, const cJSON *const of[RUNS], const char *field)
{
    const char *one = psr_json_text(of[0], field), *other = psr_json_text(of[1], field);
    if (one == NULL || other == NULL || strcmp(one, other) == 0)
        return false;
    psr_print(stdout, "%-10s %s: %s | %s\n", name, field, one, other);
    return true;
}

/* Those of runs of before have the version alone. */
static void print_versions(const diff *d)
{
    const cJSON *whole[RUNS] = {d->records[0].json, d->records[1].json}, *of[RUNS], *version;
    for (size_t i = 0; i < RUNS; i++)
        of[i] = cJSON_GetObjectItemCaseSensitive(whole[i], "versions");
    bool any = of[0] == NULL || of[1] == NULL ? print_other("versions", whole, "version") : false;
    cJSON_ArrayForEach(version, of[0]) any =
        print_other(any ? "" : "versions", of, version->string) || any;
    if (!any)
        psr_print(stdout, "versions   the same\n");
}

static bool is_number_other(const cJSON *const of[RUNS], const char *field)
{
    const double one = psr_json_number(of[0], field, NAN),
                 other = psr_json_number(of[1], field, NAN);
    return one != other && one == one && other == other;
}

static void print_data(const diff *d)
{
    static const char *const texts[] = {"data_name", "data_train", "data_test"},
                             *const counts[] = {"train_count", "test_count", "classes"},
                             *const lists[] = {"mean", "std"};
    const cJSON *of[RUNS];
    bool any = false;
    for (size_t i = 0; i < RUNS; i++)
        of[i] = cJSON_GetObjectItemCaseSensitive(d->records[i].json, "facts");
    (void)print_other("machine", of, "processor");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        any = print_other(any ? "" : "data", of, texts[i]) || any;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!is_number_other(of, counts[i]))
            continue;
        psr_print(stdout, "%-10s %s: %.0f | %.0f\n", any ? "" : "data", counts[i],
                  psr_json_number(of[0], counts[i], 0), psr_json_number(of[1], counts[i], 0));
        any = true;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const cJSON *one = cJSON_GetObjectItemCaseSensitive(of[0], lists[i]),
                    *other = cJSON_GetObjectItemCaseSensitive(of[1], lists[i]);
        if (one == NULL || other == NULL || cJSON_Compare(one, other, true))
            continue;
        psr_print(stdout, "%-10s %s differs: pixels are normalised otherwise\n", any ? "" : "data",
                  lists[i]);
        any = true;
    }
    if (!any)
        psr_print(stdout, "data       the same\n");
}

/* ---- steps ---- */

/* What is compared of a step. */
typedef struct aspect {
    const char *name;
    bool (*has)(const psr_run_step *step);
    bool (*equal)(const psr_run_step *one, const psr_run_step *other);
    void (*print)(const psr_run_step *step, char text[static 32]);
} aspect;

static bool has_hash(const psr_run_step *step)
{
    return step->hash[0] != '\0';
}

static bool equal_hash(const psr_run_step *one, const psr_run_step *other)
{
    return strcmp(one->hash, other->hash) == 0;
}

static void print_hash(const psr_run_step *step, char text[static 32])
{
    snprintf(text, 32, "%s", step->hash);
}

static bool has_loss(const psr_run_step *step)
{
    (void)step;
    return true;
}

/* The file has 17 digits of each, which are all of it. A loss that is none is equal to another. */
static bool equal_loss(const psr_run_step *one, const psr_run_step *other)
{
    return one->loss == other->loss || (one->loss != one->loss && other->loss != other->loss);
}

static void print_loss(const psr_run_step *step, char text[static 32])
{
    snprintf(text, 32, "%.17g", step->loss);
}

static const aspect of_hash = {"hash", has_hash, equal_hash, print_hash},
                    of_loss = {"loss", has_loss, equal_loss, print_loss};

/* The first step of a rank in which it differs. *ret_compared: how many steps both tell. */
static const psr_run_step *first_other(const diff *d, const aspect *a, uint32_t rank,
                                       size_t *ret_compared, const psr_run_step **ret_other)
{
    const psr_run_steps *one = &d->steps[0];
    const psr_run_step *first = NULL;
    *ret_compared = 0;
    for (size_t i = 0; i < one->count && first == NULL; i++) {
        const psr_run_step *step = &one->items[i];
        const psr_run_step *other =
            step->rank == rank ? psr_run_steps_find(&d->steps[1], rank, step->step) : NULL;
        if (other == NULL || !a->has(step) || !a->has(other))
            continue;
        ++*ret_compared;
        if (!a->equal(step, other)) {
            first = step;
            *ret_other = other;
        }
    }
    return first;
}

/* Returns how many steps were compared. */
static size_t compare(diff *d, const aspect *a)
{
    const uint32_t ranks =
        d->steps[0].ranks < d->steps[1].ranks ? d->steps[0].ranks : d->steps[1].ranks;
    size_t all = 0, compared;
    uint32_t differing = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const psr_run_step *other = NULL, *first = first_other(d, a, rank, &compared, &other);
        char texts[RUNS][32];
        all += compared;
        if (first == NULL || ++differing > RANKS_SHOWN)
            continue;
        a->print(first, texts[0]);
        a->print(other, texts[1]);
        psr_print(stdout,
                  "%-10s rank %" PRIu32 ": step %" PRIu64 " is the first that differs: %s | %s\n",
                  differing == 1 ? a->name : "", rank, first->step, texts[0], texts[1]);
    }
    if (differing > RANKS_SHOWN)
        psr_print(stdout, "           and of %" PRIu32 " more ranks\n", differing - RANKS_SHOWN);
    else if (differing == 0 && all > 0)
        psr_print(stdout, "%-10s the same in %zu steps of %" PRIu32 " rank%s\n", a->name,
                  all / ranks, ranks, ranks == 1 ? "" : "s");
    d->differs = d->differs || differing > 0;
    return all;
}

static uint64_t last_step(const psr_run_steps *steps)
{
    uint64_t last = 0;
    for (size_t i = 0; i < steps->count; i++)
        last = steps->items[i].step > last ? steps->items[i].step : last;
    return last;
}

/* Steps and ranks that one of the two does not have. */
static void compare_extent(diff *d)
{
    const uint64_t steps[] = {last_step(&d->steps[0]), last_step(&d->steps[1])};
    if (d->steps[0].ranks != d->steps[1].ranks)
        psr_print(stdout, "ranks      %" PRIu32 " | %" PRIu32 "\n", d->steps[0].ranks,
                  d->steps[1].ranks);
    if (steps[0] != steps[1])
        psr_print(stdout, "last step  %" PRIu64 " | %" PRIu64 "\n", steps[0], steps[1]);
    d->differs = d->differs || d->steps[0].ranks != d->steps[1].ranks || steps[0] != steps[1] ||
                 d->steps[0].count != d->steps[1].count;
}

/* The weights at the end, which run.json has with and without --hash. */
static void compare_ends(diff *d)
{
    const char *one = psr_run_record_hash(&d->records[0]),
               *other = psr_run_record_hash(&d->records[1]);
    if (one == NULL || other == NULL) {
        psr_print(stdout, "weights    unknown: %s has no hash of its last ones\n",
                  d->directories[one == NULL ? 0 : 1]);
        return;
    }
    const bool same = strcmp(one, other) == 0;
    psr_print(stdout,
              same ? "weights    the same at the end: %s\n" : "weights    %s | %s at the end\n",
              one, other);
    d->differs = d->differs || !same;
}

/* ---- the command ---- */

static psr_err run_diff(diff *d)
{
    for (size_t i = 0; i < RUNS; i++) {
        psr_run_record_read(d->directories[i], &d->records[i]);
        if (d->records[i].status == PSR_RUN_UNREADABLE)
            return psr_fail(PSR_ERR_USAGE, "%s", d->records[i].why);
        psr_err err = psr_run_steps_read(d->directories[i], &d->steps[i]);
        if (err != PSR_OK)
            return err == PSR_ERR_NOMEM ? err : psr_fail(PSR_ERR_USAGE, "%s", psr_err_detail());
        psr_run_steps_tell_torn(&d->steps[i], "psring diff", d->directories[i]);
    }
    PSR_TRY(psr_run_records_differ(d->records, RUNS, &d->options));
    print_options(d);
    print_versions(d);
    print_data(d);
    compare_extent(d);
    if (compare(d, &of_hash) == 0)
        psr_print(stdout, "hash       not compared: runs with --hash have them\n");
    if (compare(d, &of_loss) == 0)
        return psr_fail(PSR_ERR_USAGE, "%s and %s have no step in common", d->directories[0],
                        d->directories[1]);
    compare_ends(d);
    return PSR_OK;
}

int psr_command_diff(int argc, char **argv)
{
    static const struct argp_option none[] = {{0}};
    static const struct argp argp = {none, parse, "RUN RUN", doc, NULL, NULL, NULL};
    diff d = {.given = 0};
    psr_options_parse(&argp, argc, argv, 0, NULL, &d);
    psr_err err = run_diff(&d);
    if (err != PSR_OK)
        psr_print(stderr, "psring diff: %s\n", psr_err_detail());
    for (size_t i = 0; i < RUNS; i++) {
        psr_run_record_done(&d.records[i]);
        psr_run_steps_done(&d.steps[i]);
    }
    cJSON_Delete(d.options);
    return err != PSR_OK ? psr_err_exit_status(err) : d.differs;
}
