#include "bench/predict/inputs.h"

#include "base/system/file.h"
#include "base/text/json.h"
#include "base/text/json_fields.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)256 << 20)
#define IMAGE_MAX 65536u

/* ---- numbers ---- */

typedef struct numbers {
    double *items;
    size_t count, capacity;
} numbers;

static psr_err add(numbers *n, double value)
{
    if (n->count == n->capacity) {
        const size_t capacity = n->capacity > 0 ? 2 * n->capacity : 64;
        double *items = realloc(n->items, capacity * sizeof *items);
        if (items == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for %zu numbers", capacity);
        n->items = items;
        n->capacity = capacity;
    }
    n->items[n->count++] = value;
    return PSR_OK;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* There is one. */
static double median(numbers *n)
{
    qsort(n->items, n->count, sizeof *n->items, compare);
    return (n->items[(n->count - 1) / 2] + n->items[n->count / 2]) / 2;
}

static bool positive(const cJSON *object, const char *name, double *ret_value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble) || item->valuedouble <= 0)
        return false;
    *ret_value = item->valuedouble;
    return true;
}

/* ---- files ---- */

/* The caller owns *ret_text: free(). */
static psr_err read_text(const char *path, char **ret_text, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return psr_fail(errno == ENOENT ? PSR_ERR_NOT_FOUND : PSR_ERR_IO, "%s: %s", path,
                        strerror(errno));
    size_t size = 0, capacity = 1 << 16;
    char *text = malloc(capacity);
    while (text != NULL && !feof(file) && !ferror(file) && size < FILE_BYTES_MAX) {
        size += fread(text + size, 1, capacity - size - 1, file);
        if (size + 1 == capacity) {
            char *larger = realloc(text, capacity *= 2);
            if (larger == NULL)
                free(text);
            text = larger;
        }
    }
    const bool failed = ferror(file) != 0, ended = feof(file) != 0;
    fclose(file);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to read it", path);
    if (failed || !ended) {
        free(text);
        return psr_fail(PSR_ERR_IO, "%s: %s", path,
                        failed ? strerror(EIO) : "it is larger than 256 MiB");
    }
    text[size] = '\0';
    *ret_text = text;
    *ret_size = size;
    return PSR_OK;
}

static psr_err read_json(const char *path, cJSON **ret_json)
{
    char *text = NULL;
    size_t size = 0;
    PSR_TRY(read_text(path, &text, &size));
    cJSON *json = cJSON_ParseWithLength(text, size);
    free(text);
    if (!cJSON_IsObject(json)) {
        cJSON_Delete(json);
        return psr_fail(PSR_ERR_FORMAT, "%s: it is no JSON object", path);
    }
    *ret_json = json;
    return PSR_OK;
}

/* ---- a run ---- */

static psr_err config_of(const char *path, const cJSON *json, psr_config *ret_config)
{
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(json, "config");
    char *text = cJSON_IsObject(config) ? cJSON_PrintUnformatted(config) : NULL;
    if (text == NULL)
        return psr_fail(PSR_ERR_FORMAT, "%s: it has no config: is it of psring train?", path);
    psr_config_defaults(ret_config);
    psr_err err = psr_config_from_json(ret_config, text, strlen(text));
    free(text);
    return err == PSR_OK ? PSR_OK : psr_fail(PSR_ERR_FORMAT, "%s: %s", path, psr_err_detail());
}

static psr_err images_of(const char *path, const cJSON *json, psr_run_input *into)
{
    const cJSON *facts = cJSON_GetObjectItemCaseSensitive(json, "facts");
    double classes, channels, height, width;
    if (!positive(facts, "classes", &classes) || !positive(facts, "channels", &channels) ||
        !positive(facts, "height", &height) || !positive(facts, "width", &width) || classes > 1e6 ||
        channels > 1024 || height > IMAGE_MAX || width > IMAGE_MAX)
        return psr_fail(PSR_ERR_FORMAT, "%s: its facts do not say what the images are", path);
    into->classes = (uint32_t)classes;
    into->channels = (uint32_t)channels;
    into->height = (uint32_t)height;
    into->width = (uint32_t)width;
    return PSR_OK;
}

/* A line of metrics.jsonl; one that is torn is left out. */
static psr_err take_line(const char *line, size_t size, numbers *into)
{
    cJSON *object = cJSON_ParseWithLength(line, size);
    double compute_s;
    psr_err err = PSR_OK;
    if (positive(object, "compute_s", &compute_s))
        err = add(into, compute_s);
    cJSON_Delete(object);
    return err;
}

static psr_err compute_of(const char *directory, double *ret_compute_s)
{
    char path[PSR_PATH_MAX + 32], *text = NULL;
    size_t size = 0;
    numbers all = {NULL, 0, 0};
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    PSR_TRY(read_text(path, &text, &size));
    psr_err err = PSR_OK;
    for (size_t at = 0; at < size && err == PSR_OK;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
        err = take_line(text + at, length, &all);
        at += length + 1;
    }
    free(text);
    if (err == PSR_OK && all.count == 0)
        err = psr_fail(PSR_ERR_FORMAT, "%s: no line has a compute_s above 0", path);
    if (err == PSR_OK) {
        numbers steady = {all.items + all.count / 10, all.count - all.count / 10, 0};
        *ret_compute_s = median(&steady);
    }
    free(all.items);
    return err;
}

/* What the scheduler says of the run: a run that has not ended has none of it. Steps are timed
 * until the first worker has computed its last one. At a run's end all wait for that step's weights
 * (drain_s): train_s has one exchange more than there are steps. */
static void take_outcome(const cJSON *outcome, psr_run_input *into)
{
    const cJSON *placement = cJSON_GetObjectItemCaseSensitive(outcome, "placement"), *host;
    double together_s, steps, warmup_s = 0, warmup_steps = 0, workers;
    into->hosts = into->workers_per_host = 0;
    into->step_s = 0;
    if (positive(outcome, "warmup_steps", &warmup_steps) &&
        !positive(outcome, "warmup_s", &warmup_s))
        warmup_steps = 0;
    if (positive(outcome, "together_s", &together_s) && positive(outcome, "own_steps", &steps) &&
        steps > warmup_steps && together_s > warmup_s)
        into->step_s = (together_s - warmup_s) / (steps - warmup_steps);
    cJSON_ArrayForEach(host, cJSON_GetObjectItemCaseSensitive(placement, "hosts"))
    {
        if (!positive(host, "workers", &workers) || workers > 1024)
            continue;
        const uint32_t each = (uint32_t)workers;
        into->workers_per_host = into->hosts++ == 0 || into->workers_per_host == each ? each : 0;
    }
    const char *shards =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(placement, "shards"));
    into->dedicated = shards != NULL && strcmp(shards, "dedicated") == 0;
}

double psr_run_input_alone_s(const psr_run_input *input, uint32_t processors)
{
    const uint32_t threads = input->config.threads > 0 ? input->config.threads : 1;
    const double wanted = (double)input->config.workers * threads;
    if (input->config.backend == PSR_BACKEND_PLAYED)
        return input->compute_s;
    return processors > 0 && wanted > processors ? input->compute_s * processors / wanted
                                                 : input->compute_s;
}

psr_err psr_run_input_read(const char *directory, psr_run_input *ret_input)
{
    char path[PSR_PATH_MAX + 32];
    cJSON *json = NULL;
    psr_run_input input;
    snprintf(path, sizeof path, "%s/run.json", directory);
    psr_err err = read_json(path, &json);
    if (err == PSR_ERR_NOT_FOUND)
        return psr_fail_context(err, "%s is no run's directory", directory);
    PSR_TRY(err);
    err = config_of(path, json, &input.config);
    if (err == PSR_OK)
        err = images_of(path, json, &input);
    take_outcome(cJSON_GetObjectItemCaseSensitive(json, "outcome"), &input);
    cJSON_Delete(json);
    if (err == PSR_OK)
        err = compute_of(directory, &input.compute_s);
    if (err == PSR_OK)
        *ret_input = input;
    return err;
}

/* ---- a run's lab ---- */

static psr_err take_links(const char *path, const cJSON *hosts, bool of_workers, uint32_t hosts_max,
                          double *bits_per_s, double *slow, uint32_t *count)
{
    const cJSON *host;
    cJSON_ArrayForEach(host, hosts)
    {
        double slots;
        if (positive(host, "slots", &slots) != of_workers)
            continue;
        if (*count == hosts_max || !positive(host, "rate_bits_per_s", &bits_per_s[*count]) ||
            !positive(host, "slow", &slow[*count]))
            return psr_fail(PSR_ERR_FORMAT, "%s: its hosts do not say what their links carry",
                            path);
        ++*count;
    }
    return PSR_OK;
}

/* The share of packets that all hosts lose; 0 in files of versions whose labs lost none. */
static psr_err take_loss(const char *path, const cJSON *hosts, double *ret_loss)
{
    const cJSON *host;
    const double loss = psr_json_number(cJSON_GetArrayItem(hosts, 0), "loss", 0);
    cJSON_ArrayForEach(host, hosts)
    {
        if (!(loss >= 0 && loss <= 0.5) || psr_json_number(host, "loss", 0) != loss)
            return psr_fail(PSR_ERR_FORMAT,
                            "%s: its hosts do not lose one share of their packets, from 0 to half, "
                            "and others are not predicted",
                            path);
    }
    *ret_loss = loss;
    return PSR_OK;
}

psr_err psr_run_links_read(const char *directory, uint32_t hosts_max, double *ret_bits_per_s,
                           double *ret_slow, uint32_t *ret_count, double *ret_loss)
{
    char path[PSR_PATH_MAX + 32];
    cJSON *json = NULL;
    uint32_t count = 0;
    snprintf(path, sizeof path, "%s/lab.json", directory);
    PSR_TRY(read_json(path, &json));
    const cJSON *hosts = cJSON_GetObjectItemCaseSensitive(json, "hosts");
    psr_err err = take_links(path, hosts, true, hosts_max, ret_bits_per_s, ret_slow, &count);
    if (err == PSR_OK)
        err = take_links(path, hosts, false, hosts_max, ret_bits_per_s, ret_slow, &count);
    if (err == PSR_OK)
        err = take_loss(path, hosts, ret_loss);
    cJSON_Delete(json);
    if (err == PSR_OK && count == 0)
        err = psr_fail(PSR_ERR_FORMAT, "%s: it has no hosts", path);
    if (err == PSR_OK)
        *ret_count = count;
    return err;
}

/* ---- doctor ---- */

static psr_err take_pairs(const cJSON *pairs, numbers *rates, numbers *trips)
{
    const cJSON *pair;
    cJSON_ArrayForEach(pair, pairs)
    {
        double value;
        if (positive(pair, "bytes_per_s", &value))
            PSR_TRY(add(rates, 8 * value));
        if (positive(pair, "round_trip_ns", &value))
            PSR_TRY(add(trips, value / 1e9));
    }
    return PSR_OK;
}

psr_err psr_doctor_input_read(const char *path, psr_doctor_input *ret_input)
{
    cJSON *json = NULL;
    numbers rates = {NULL, 0, 0}, trips = {NULL, 0, 0};
    PSR_TRY(read_json(path, &json));
    psr_err err = take_pairs(cJSON_GetObjectItemCaseSensitive(json, "pairs"), &rates, &trips);
    const int hosts = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "hosts"));
    if (err == PSR_OK && (rates.count == 0 || trips.count == 0))
        err = psr_fail(PSR_ERR_FORMAT,
                       "%s: it has no way between two hosts that was measured: make it with "
                       "psring doctor --hostfile FILE --json",
                       path);
    if (err == PSR_OK)
        *ret_input = (psr_doctor_input){(uint32_t)hosts, median(&rates), median(&trips)};
    free(rates.items);
    free(trips.items);
    cJSON_Delete(json);
    return err;
}
