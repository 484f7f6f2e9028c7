#include "deploy/bench_train/measure.h"

#include "base/figures.h"
#include "base/show/summary.h"
#include "base/system/file.h"
#include "base/text/json.h"
#include "deploy/report/run_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_BYTES_MAX ((size_t)1 << 30)
#define RANKS_MAX 1024
#define PATH_BYTES 4352
#define LOSS_STEPS 10 /* the loss that is compared with a target is the mean over so many steps */

/* One rank's steps after the warm-up. */
typedef struct rank_steps {
    double count, begun_s, ended_s; /* train_s of the last step of the warm-up, and of the last */
    double compute_s, hidden_s, exposed_s, load_wait_s, drain_s; /* sums */
} rank_steps;

typedef struct reader {
    const psr_config *config;
    const psr_measure_targets *targets;
    double warmup_steps;
    uint32_t ranks;
    rank_steps of[RANKS_MAX];
    double *losses; /* the newest, LOSS_STEPS of each rank, in a ring */
    size_t loss_count;
    double from_unix_s, to_unix_s; /* from the first step's begin to the last one's end */
    double loss_sum, to_loss_s, to_accuracy_s;
} reader;

/* ---- metrics.jsonl ---- */

static double amount(const cJSON *line, const char *name)
{
    const double value = psr_json_number(line, name, 0);
    return isfinite(value) && value > 0 ? value : 0;
}

static void take_times(rank_steps *of, const cJSON *line)
{
    const double drain_s = amount(line, "drain_s"), exposed_s = amount(line, "exposed_s");
    of->count++;
    of->ended_s = amount(line, "train_s");
    of->compute_s += amount(line, "compute_s");
    of->hidden_s += amount(line, "hidden_s");
    of->exposed_s += exposed_s - fmin(exposed_s, drain_s);
    of->load_wait_s += amount(line, "load_wait_s");
    of->drain_s += drain_s;
}

/* The mean of the newest losses of all ranks: its first time at the target. */
static void take_loss(reader *r, const cJSON *line)
{
    const size_t room = (size_t)LOSS_STEPS * r->ranks, at = r->loss_count % room;
    const double loss = psr_json_number(line, "loss", NAN);
    if (!isfinite(loss))
        return;
    if (r->loss_count >= room)
        r->loss_sum -= r->losses[at];
    r->losses[at] = loss;
    r->loss_sum += loss;
    r->loss_count++;
    if (isnan(r->to_loss_s) && r->loss_count >= room &&
        r->loss_sum / (double)room <= r->targets->loss)
        r->to_loss_s = amount(line, "train_s");
}

static void take_line(reader *r, const cJSON *line)
{
    const double rank = psr_json_number(line, "rank", -1), step = psr_json_number(line, "step", -1);
    if (!(rank >= 0 && rank < r->ranks && step >= 1))
        return;
    rank_steps *of = &r->of[(size_t)rank];
    if (step == r->warmup_steps)
        of->begun_s = amount(line, "train_s");
    if (step > r->warmup_steps)
        take_times(of, line);
    const double unix_s = psr_json_number(line, "unix_s", NAN);
    r->from_unix_s = fmin(r->from_unix_s, unix_s - amount(line, "train_s"));
    r->to_unix_s = fmax(r->to_unix_s, unix_s);
    take_loss(r, line);
    if (isnan(r->to_accuracy_s) &&
        psr_json_number(line, "test_accuracy", NAN) >= r->targets->accuracy)
        r->to_accuracy_s = amount(line, "train_s");
}

static psr_err read_metrics(reader *r, const char *directory)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    PSR_TRY(psr_file_read(path, METRICS_BYTES_MAX, &text, &size));
    for (const char *at = (const char *)text, *end = at + size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL)
            break;
        cJSON *line = cJSON_ParseWithLength(at, (size_t)(newline - at));
        take_line(r, line);
        cJSON_Delete(line);
        at = newline + 1;
    }
    free(text);
    return PSR_OK;
}

/* ---- the record ---- */

static bool put(cJSON *record, const char *name, double value)
{
    return isfinite(value) ? cJSON_AddNumberToObject(record, name, value) != NULL
                           : cJSON_AddNullToObject(record, name) != NULL;
}

/* A step, split: compute, what the exchange adds at the worker that waits least, and the rest. */
static bool put_step(const reader *r, cJSON *record)
{
    double step_s = 0, compute_s = 0, hidden_s = 0, exposed_s = 0, least_s = INFINITY, load_s = 0;
    for (uint32_t k = 0; k < r->ranks; k++) {
        const rank_steps *of = &r->of[k];
        const double share = of->count > 0 ? 1 / (of->count * r->ranks) : NAN;
        step_s += (of->ended_s - of->begun_s - of->drain_s) * share;
        compute_s += of->compute_s * share;
        hidden_s += of->hidden_s * share;
        exposed_s += of->exposed_s * share;
        load_s += of->load_wait_s * share;
        least_s = fmin(least_s, of->exposed_s * share * r->ranks);
    }
    if (r->config->mode == PSR_MODE_LOCAL) /* one process computes rank by rank */
        compute_s *= r->ranks;
    return put(record, "step_s", step_s) && put(record, "compute_s", compute_s) &&
           put(record, "hidden_s", hidden_s) && put(record, "exposed_s", least_s) &&
           put(record, "waiting_s", fmax(step_s - compute_s - least_s, 0)) &&
           put(record, "exposed_mean_s", exposed_s) && put(record, "load_wait_s", load_s) &&
           put(record, "steps_from_unix_s", r->from_unix_s) &&
           put(record, "steps_to_unix_s", r->to_unix_s);
}

static double figure(const cJSON *outcome, psr_figure which)
{
    return psr_summary_figure(outcome, which);
}

static bool put_rates(const psr_run_record *run, cJSON *record)
{
    const double together = figure(run->outcome, PSR_FIGURE_TOGETHER_IMAGES_PER_S);
    return put(record, "images_per_s",
               isfinite(together) ? together : figure(run->outcome, PSR_FIGURE_IMAGES_PER_S)) &&
           put(record, "whole_images_per_s", figure(run->outcome, PSR_FIGURE_IMAGES_PER_S)) &&
           put(record, "steps", figure(run->outcome, PSR_FIGURE_STEPS)) &&
           put(record, "train_s", figure(run->outcome, PSR_FIGURE_TRAIN_S)) &&
           put(record, "staleness", figure(run->outcome, PSR_FIGURE_STALENESS)) &&
           put(record, "staleness_max", figure(run->outcome, PSR_FIGURE_STALENESS_MAX)) &&
           put(record, "loss", figure(run->outcome, PSR_FIGURE_LOSS)) &&
           put(record, "test_accuracy", figure(run->outcome, PSR_FIGURE_TEST_ACCURACY));
}

/* What the busiest host sends or receives, in a step. */
static double busiest_bytes(const cJSON *outcome, double steps)
{
    double most = 0;
    const cJSON *host, *row,
        *hosts = cJSON_GetObjectItemCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(outcome, "placement"), "hosts");
    cJSON_ArrayForEach(host, hosts)
    {
        const char *name = psr_json_text(host, "host");
        double out = 0, in = 0;
        cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(outcome, "links"))
        {
            const char *from = psr_json_text(row, "from"), *to = psr_json_text(row, "to");
            if (name == NULL || from == NULL || to == NULL || strcmp(from, to) == 0)
                continue;
            out += strcmp(from, name) == 0 ? amount(row, "bytes") : 0;
            in += strcmp(to, name) == 0 ? amount(row, "bytes") : 0;
        }
        most = fmax(most, fmax(out, in));
    }
    return steps > 0 ? most / steps : NAN;
}

static bool put_bytes(const psr_config *config, const psr_run_record *run, cJSON *record)
{
    const double steps = figure(run->outcome, PSR_FIGURE_OWN_STEPS),
                 parameters = psr_json_number(cJSON_GetObjectItemCaseSensitive(run->json, "facts"),
                                              "parameter_count", NAN);
    const cJSON *links = cJSON_GetObjectItemCaseSensitive(run->outcome, "links"),
                *placement = cJSON_GetObjectItemCaseSensitive(run->outcome, "placement");
    /* MPI carries the gradients by itself, and tells nobody how many bytes that are. */
    const bool counted = config->mode != PSR_MODE_MPI;
    return put(record, "parameter_bytes", parameters * sizeof(float)) &&
           put(record, "step_bytes",
               counted ? figure(run->outcome, PSR_FIGURE_BYTES_SENT) / steps : NAN) &&
           put(record, "link_bytes", counted ? busiest_bytes(run->outcome, steps) : NAN) &&
           put(record, "least_link_bytes",
               psr_measure_least_bytes(config, placement, parameters * sizeof(float))) &&
           (links == NULL ||
            cJSON_AddItemToObject(record, "links", cJSON_Duplicate(links, true))) &&
           (placement == NULL ||
            cJSON_AddItemToObject(record, "placement", cJSON_Duplicate(placement, true)));
}

static bool fill(const reader *r, const psr_run_record *run, cJSON *record)
{
    const char *hash = psr_run_record_hash(run);
    return cJSON_AddStringToObject(record, "status", "done") != NULL && put_rates(run, record) &&
           put_step(r, record) && put_bytes(r->config, run, record) &&
           (isnan(r->targets->loss) || put(record, "to_loss_s", r->to_loss_s)) &&
           (isnan(r->targets->accuracy) || put(record, "to_accuracy_s", r->to_accuracy_s)) &&
           (hash == NULL || cJSON_AddStringToObject(record, "hash", hash) != NULL);
}

psr_err psr_measure_failed(cJSON *record, const char *line)
{
    cJSON_DeleteItemFromObjectCaseSensitive(record, "status");
    cJSON_DeleteItemFromObjectCaseSensitive(record, "line");
    return cJSON_AddStringToObject(record, "status", "failed") != NULL &&
                   cJSON_AddStringToObject(record, "line", line) != NULL
               ? PSR_OK
               : psr_fail(PSR_ERR_NOMEM, "no memory for a record");
}

static psr_err read_run(reader *r, const char *directory, const psr_run_record *run, cJSON *record)
{
    if (run->status != PSR_RUN_DONE)
        return psr_measure_failed(record, run->why);
    r->warmup_steps = figure(run->outcome, PSR_FIGURE_WARMUP_STEPS);
    r->ranks = r->config->workers <= RANKS_MAX ? r->config->workers : RANKS_MAX;
    r->losses = calloc((size_t)LOSS_STEPS * r->ranks, sizeof *r->losses);
    if (r->losses == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the losses of %u workers", r->ranks);
    if (read_metrics(r, directory) != PSR_OK) {
        char line[512];
        snprintf(line, sizeof line, "%s", psr_err_detail());
        return psr_measure_failed(record, line);
    }
    return fill(r, run, record) ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a record");
}

psr_err psr_measure_run(const char *directory, const psr_config *config,
                        const psr_measure_targets *targets, cJSON *record)
{
    psr_run_record run;
    reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a run's metrics");
    *r = (reader){.config = config,
                  .targets = targets,
                  .from_unix_s = NAN,
                  .to_unix_s = NAN,
                  .to_loss_s = NAN,
                  .to_accuracy_s = NAN};
    psr_run_record_read(directory, &run);
    psr_err err = read_run(r, directory, &run, record);
    psr_run_record_done(&run);
    free(r->losses);
    free(r);
    return err;
}

/* ---- the limit ---- */

/* Shards: of each worker's gradient and weights, the parts of the shards of other hosts cross its
 * host's link; and of each shard, its part for each worker of another host. */
static double least_of_shards(const cJSON *hosts, double workers, double shards, double bytes)
{
    double most = 0;
    const cJSON *host;
    cJSON_ArrayForEach(host, hosts)
    {
        const double w = psr_json_number(host, "workers", 0),
                     s = psr_json_number(host, "shards", 0);
        most = fmax(most, (w * (shards - s) + s * (workers - w)) * bytes / shards);
    }
    return most;
}

double psr_measure_least_bytes(const psr_config *config, const cJSON *placement, double bytes)
{
    const cJSON *hosts = cJSON_GetObjectItemCaseSensitive(placement, "hosts"), *host;
    const double n = config->workers;
    double with_workers = 0, shards = 0;
    cJSON_ArrayForEach(host, hosts)
    {
        with_workers += psr_json_number(host, "workers", 0) > 0;
        shards += psr_json_number(host, "shards", 0);
    }
    if (hosts == NULL || strcmp(config->compress, "none") != 0 ||
        strcmp(config->compress_weights, "none") != 0)
        return NAN;
    if (cJSON_GetArraySize(hosts) < 2 || !config->exchange || config->mode == PSR_MODE_LOCAL)
        return 0;
    if (config->mode == PSR_MODE_PS)
        return shards > 0 ? least_of_shards(hosts, n, shards, bytes) : NAN;
    if (with_workers < n) /* a ring over hosts */
        return ((n - 1) / n + (with_workers - 1) / with_workers) * bytes;
    return 2 * (n - 1) / n * bytes;
}
