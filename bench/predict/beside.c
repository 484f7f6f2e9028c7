#include "bench/predict/beside.h"

#include "base/text/json_fields.h"
#include "bench/predict/emulate.h"
#include "bench/predict/inputs.h"
#include "bench/predict/question.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RUNS_MAX 256
#define LAB_FRAME_BYTES 66 /* as tc counts frames */
#define WHY_BYTES 256

typedef enum from { FROM_OPTIONS, FROM_A_RUN_WITHOUT_EXCHANGE, FROM_ITSELF } from;

typedef struct measured {
    char path[PSR_PATH_MAX];
    psr_run_input input;
    psr_prediction predicted;
    double bits_per_s; /* of the slowest link */
    from compute;
    char why[WHY_BYTES]; /* it is not predicted; "": it is */
} measured;

typedef struct table {
    psr_predict_options *options;
    measured *runs; /* owned */
    uint32_t count;
} table;

/* ---- which runs ---- */

static psr_err add_run(table *t, const char *path)
{
    if (t->count == RUNS_MAX)
        return psr_fail(PSR_ERR_USAGE, "more than %d runs; give fewer", RUNS_MAX);
    measured *m = &t->runs[t->count];
    if (snprintf(m->path, sizeof m->path, "%s", path) >= (int)sizeof m->path)
        return psr_fail(PSR_ERR_USAGE, "'%.64s..': the name is too long", path);
    PSR_TRY(psr_run_input_read(path, &m->input));
    t->count++;
    return PSR_OK;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* The run directories that psring bench train --keep-runs has put beside its file. */
static psr_err add_bench(table *t, const char *file)
{
    char path[2 * PSR_PATH_MAX];
    struct dirent **entries = NULL;
    snprintf(path, sizeof path, "%.*s.runs", PSR_PATH_MAX, file);
    const int count = scandir(path, &entries, is_visible, alphasort);
    psr_err err = count > 0
                      ? PSR_OK
                      : psr_fail(PSR_ERR_USAGE,
                                 "%s is a file without run directories in %s; give runs, or what "
                                 "psring bench train --keep-runs has written",
                                 file, path);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%.*s.runs/%s", PSR_PATH_MAX, file, entries[i]->d_name);
        if (err == PSR_OK)
            err = add_run(t, path);
        free(entries[i]);
    }
    free(entries);
    return err;
}

static psr_err collect(table *t)
{
    for (uint32_t i = 0; i < t->options->run_count; i++) {
        struct stat status;
        const char *run = t->options->runs[i];
        const bool is_file = stat(run, &status) == 0 && S_ISREG(status.st_mode);
        PSR_TRY(is_file ? add_bench(t, run) : add_run(t, run));
    }
    return PSR_OK;
}

/* ---- one run ---- */

static bool is_alike(const psr_run_input *a, const psr_run_input *b)
{
    return strcmp(a->config.model, b->config.model) == 0 &&
           a->config.batch_size == b->config.batch_size && a->config.workers == b->config.workers &&
           a->config.threads == b->config.threads;
}

/* The median of the runs that are like it and exchange nothing: it was measured apart. */
static double compute_of(const table *t, measured *m)
{
    double sum_s = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->count; i++)
        if (!t->runs[i].input.config.exchange && is_alike(&t->runs[i].input, &m->input)) {
            sum_s +=
                psr_run_input_alone_s(&t->runs[i].input, t->options->question.scenario.processors);
            count++;
        }
    m->compute = count > 0 ? FROM_A_RUN_WITHOUT_EXCHANGE : FROM_ITSELF;
    return count > 0 ? sum_s / count
                     : psr_run_input_alone_s(&m->input, t->options->question.scenario.processors);
}

static const char *why_not(const psr_run_input *run)
{
    const psr_config *c = &run->config;
    if (!c->exchange)
        return "it exchanges nothing";
    if (c->mode != PSR_MODE_PS && c->mode != PSR_MODE_RING)
        return "neither ps nor ring from the first step to the last";
    if (c->sync != PSR_SYNC_BSP)
        return "it is not bulk synchronous";
    if (run->step_s <= 0)
        return "its steps were not timed: it failed, or is too short";
    if (run->hosts == 0 || run->workers_per_host == 0)
        return "its hosts have different numbers of workers, or are not known";
    return NULL;
}

static psr_err take_links(const table *t, const measured *m, psr_scenario *k)
{
    const psr_predict_options *o = t->options;
    double bits_per_s[PSR_SCENARIO_HOSTS_MAX], slowest = INFINITY;
    uint32_t count = 0;
    psr_err err = psr_run_links_read(m->path, PSR_SCENARIO_HOSTS_MAX, bits_per_s, k->slow_of,
                                     &count, &k->loss);
    if (err != PSR_OK && err != PSR_ERR_NOT_FOUND)
        return err;
    if (err == PSR_OK) {
        for (uint32_t h = 0; h < count; h++)
            slowest = fmin(slowest, bits_per_s[h]);
        for (uint32_t h = 0; h < count; h++)
            k->link_of[h] = bits_per_s[h] / slowest;
        k->different_hosts = count;
        k->bits_per_s = slowest;
        if (o->question.scenario.frame_bytes < 0)
            k->frame_bytes = LAB_FRAME_BYTES;
        return PSR_OK;
    }
    if (m->input.config.link_rate_bits_per_s > 0) {
        k->bits_per_s = (double)m->input.config.link_rate_bits_per_s;
        k->latency_s = (double)m->input.config.link_delay_ns / 1e9;
        k->frame_bytes = k->window_bytes = 0; /* there is no TCP in these links */
        return PSR_OK;
    }
    if (o->link_bits_per_s < 0 && o->doctor == NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "what its links carry is not known: give --link or --doctor");
    return PSR_OK;
}

/* Its processes have a link each with --link-rate, as if each were on a host of its own. */
static void take_places(const measured *m, psr_scenario *k, psr_choice *choice)
{
    const psr_config *c = &m->input.config;
    const bool each = c->link_rate_bits_per_s > 0;
    *choice = (psr_choice){c->mode, c->mode == PSR_MODE_PS ? psr_config_shards(c) : 0,
                           c->mode == PSR_MODE_PS && (each || m->input.dedicated)};
    k->hosts = each ? c->workers : m->input.hosts;
    k->workers_per_host = each ? 1 : m->input.workers_per_host;
}

static psr_err predict(table *t, measured *m)
{
    psr_predict_options of_run = *t->options;
    psr_scenario *k = &of_run.question.scenario;
    psr_choice choice;
    const char *why = why_not(&m->input);
    if (why != NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "%s", why);
    of_run.runs[0] = m->path;
    of_run.run_count = 1;
    if (of_run.compute_s < 0 && of_run.profile == NULL)
        of_run.compute_s = compute_of(t, m);
    PSR_TRY(psr_predict_question_make(&of_run));
    take_places(m, k, &choice);
    psr_err err = take_links(t, m, k);
    if (err == PSR_OK)
        err = psr_emulate(k, &choice, 0, &m->predicted);
    m->bits_per_s = k->bits_per_s;
    psr_scenario_done(k);
    return err;
}

/* ---- showing them ---- */

static void describe(const measured *m, char *text, size_t size)
{
    char what[64];
    psr_choice_describe(&m->predicted.choice, what, sizeof what);
    snprintf(text, size, "%u x %s", m->predicted.workers, what);
}

static double off_of(const measured *m)
{
    return m->predicted.step_s / m->input.step_s - 1;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_worst(const table *t)
{
    double off[RUNS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->count; i++)
        if (t->runs[i].why[0] == '\0')
            off[count++] = fabs(off_of(&t->runs[i]));
    if (count == 0)
        return;
    qsort(off, count, sizeof *off, compare);
    printf("\nof %u: %.1f%% off in the median, %.1f%% at most\n", count,
           50 * (off[(count - 1) / 2] + off[count / 2]), 100 * off[count - 1]);
}

static void print_table(const table *t)
{
    bool itself = false;
    printf("%-36s %10s %10s %8s  %s\n", "run", "measured", "predicted", "off", "");
    for (uint32_t i = 0; i < t->count; i++) {
        const measured *m = &t->runs[i];
        char what[96];
        const size_t length = strlen(m->path);
        printf("%-36s ", length > 36 ? m->path + length - 36 : m->path);
        if (m->why[0] != '\0') {
            printf("%10s %10s  %s\n", "-", "-", m->why);
            continue;
        }
        describe(m, what, sizeof what);
        printf("%8.4f s %8.4f s %+7.1f%%  %s%s\n", m->input.step_s, m->predicted.step_s,
               100 * off_of(m), m->compute == FROM_ITSELF ? "* " : "", what);
        itself = itself || m->compute == FROM_ITSELF;
    }
    print_worst(t);
    if (itself)
        printf("* its computing time is its own, which the exchange may have lengthened; give a "
               "run\n  with --no-exchange too, or --compute\n");
}

static void put_double(psr_fields_writer *w, const char *name, double value)
{
    psr_fields_put_item(w, name, cJSON_CreateNumber(value));
}

static cJSON *row_json(const measured *m)
{
    static const char *const compute_from[] = {"options", "a run without exchange", "itself"};
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_text(&w, "run", m->path);
    if (m->why[0] != '\0') {
        psr_fields_put_text(&w, "not_predicted", m->why);
    } else {
        const bool ps = m->predicted.choice.mode == PSR_MODE_PS;
        psr_fields_put_text(&w, "mode", ps ? "ps" : "ring");
        psr_fields_put_number(&w, "workers", m->predicted.workers);
        if (ps) {
            psr_fields_put_number(&w, "shards", m->predicted.choice.shards);
            psr_fields_put_text(&w, "placement",
                                m->predicted.choice.dedicated ? "dedicated" : "beside");
        }
        put_double(&w, "link_bits_per_s", m->bits_per_s);
        psr_fields_put_text(&w, "compute_from", compute_from[m->compute]);
        put_double(&w, "measured_step_s", m->input.step_s);
        put_double(&w, "predicted_step_s", m->predicted.step_s);
        psr_fields_put_text(&w, "limited_by", psr_limit_name(m->predicted.limit));
    }
    if (!w.failed)
        return w.object;
    cJSON_Delete(w.object);
    return NULL;
}

static psr_err print_json(const table *t)
{
    psr_fields_writer w = psr_fields_begin();
    cJSON *rows = cJSON_CreateArray();
    char *json = NULL;
    for (uint32_t i = 0; i < t->count; i++)
        cJSON_AddItemToArray(rows, row_json(&t->runs[i]));
    psr_fields_put_text(&w, "format", "psring predicted 1");
    psr_fields_put_item(&w, "beside", rows);
    PSR_TRY(psr_fields_finish(&w, &json));
    printf("%s\n", json);
    free(json);
    return PSR_OK;
}

psr_err psr_predict_beside(psr_predict_options *options)
{
    table t = {.options = options, .runs = calloc(RUNS_MAX, sizeof *t.runs)};
    psr_err err = t.runs != NULL ? collect(&t) : psr_fail(PSR_ERR_NOMEM, "no memory for runs");
    for (uint32_t i = 0; i < t.count && err == PSR_OK; i++)
        if (predict(&t, &t.runs[i]) != PSR_OK)
            snprintf(t.runs[i].why, sizeof t.runs[i].why, "%s", psr_err_detail());
    if (err == PSR_OK && options->json)
        err = print_json(&t);
    else if (err == PSR_OK)
        print_table(&t);
    free(t.runs);
    return err;
}
