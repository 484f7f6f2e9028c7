#include "golden.h"

#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Layers of the stream of test numbers: make_golden.py's IMAGES, LABELS, SIGNS. */
enum { IMAGES = 1, LABELS = 2, SIGNS = 3 };

static psr_err parse_tensor(golden_run *run, char *line)
{
    golden_tensor t;
    int used = 0, settled;
    if (sscanf(line, "tensor %63s %d %lf %lf%n", t.name, &settled, &t.norm, &t.error, &used) != 4 ||
        (settled != 0 && settled != 1))
        return psr_fail(PSR_ERR_FORMAT, "tensor line");
    t.settled = settled;
    char *at = line + used;
    for (int k = 0; k < GOLDEN_PROJECTIONS; k++) {
        char *end;
        t.projections[k] = strtod(at, &end);
        if (end == at)
            return psr_fail(PSR_ERR_FORMAT, "tensor %s has %d projections", t.name, k);
        at = end;
    }
    golden_tensor *grown = realloc(run->tensors, (run->tensor_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return psr_fail(PSR_ERR_NOMEM, "out of memory");
    run->tensors = grown;
    run->tensors[run->tensor_count++] = t;
    return PSR_OK;
}

static psr_err begin_run(golden *g, uint32_t seed)
{
    golden_run *grown = realloc(g->runs, (g->run_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return psr_fail(PSR_ERR_NOMEM, "out of memory");
    g->runs = grown;
    g->runs[g->run_count++] = (golden_run){.seed = seed};
    return PSR_OK;
}

static psr_err parse_case_line(golden *g, const char *line)
{
    if (sscanf(line, "model %31s", g->model) == 1 || sscanf(line, "classes %u", &g->classes) == 1 ||
        sscanf(line, "channels %u", &g->channels) == 1 || sscanf(line, "size %u", &g->size) == 1 ||
        sscanf(line, "batch %u", &g->batch) == 1 || sscanf(line, "lr %lf", &g->lr) == 1 ||
        sscanf(line, "momentum %lf", &g->momentum) == 1 ||
        sscanf(line, "weight-decay %lf", &g->weight_decay) == 1 ||
        sscanf(line, "settled-steps %u", &g->settled_steps) == 1)
        return PSR_OK;
    return psr_fail(PSR_ERR_FORMAT, "\"%.20s\" is no word of a golden file", line);
}

static psr_err parse_line(golden *g, char *line)
{
    uint32_t seed, step;
    double truth, single;
    if (line[0] == '#')
        return PSR_OK;
    if (sscanf(line, "seed %u", &seed) == 1)
        return begin_run(g, seed);
    if (g->run_count == 0)
        return parse_case_line(g, line);
    golden_run *run = &g->runs[g->run_count - 1];
    if (strncmp(line, "tensor ", 7) == 0)
        return parse_tensor(run, line);
    if (sscanf(line, "loss %u %lf %lf", &step, &truth, &single) == 3 && step >= 1 &&
        step <= GOLDEN_STEPS) {
        run->losses64[step - 1] = truth;
        run->losses32[step - 1] = single;
        return PSR_OK;
    }
    if (sscanf(line, "weights-hash %16s", run->weights_hash) == 1 ||
        sscanf(line, "images-crc32 %8s", run->images_crc32) == 1)
        return PSR_OK;
    return psr_fail(PSR_ERR_FORMAT, "\"%.20s\" is no word of a golden file", line);
}

psr_err golden_read(const char *path, golden *ret_golden)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return psr_fail(PSR_ERR_NOT_FOUND, "%s: %s", path, strerror(errno));
    golden g = {.model = ""};
    psr_err err = PSR_OK;
    char line[2048];
    for (int number = 1; err == PSR_OK && fgets(line, sizeof(line), file) != NULL; number++) {
        err = parse_line(&g, line);
        if (err != PSR_OK)
            psr_fail_context(err, "%s:%d", path, number);
    }
    fclose(file);
    if (err == PSR_OK && (g.batch == 0 || g.run_count == 0))
        err = psr_fail(PSR_ERR_FORMAT, "%s: holds no run", path);
    if (err != PSR_OK) {
        golden_done(&g);
        return err;
    }
    *ret_golden = g;
    return PSR_OK;
}

void golden_done(golden *g)
{
    for (size_t r = 0; r < g->run_count; r++)
        free(g->runs[r].tensors);
    free(g->runs);
    g->runs = NULL;
    g->run_count = 0;
}

static psr_rng_at stream(uint32_t seed, uint32_t sample, uint32_t layer)
{
    return (psr_rng_at){.seed = seed, .purpose = PSR_RNG_TEST, .sample = sample, .layer = layer};
}

void golden_batch(const golden *g, uint32_t seed, float *images, uint32_t *labels)
{
    const size_t count = (size_t)g->channels * g->size * g->size;
    const float deviation = 3.46410161513775458705f; /* sqrt(12): uniform numbers of variance 1 */
    for (uint32_t n = 0; n < g->batch; n++) {
        for (size_t i = 0; i < count; i += 4) {
            uint32_t words[4];
            psr_rng_block(stream(seed, n, IMAGES), (uint32_t)(i / 4), words);
            for (size_t j = i; j < count && j < i + 4; j++)
                images[n * count + j] = (psr_rng_unit(words[j - i]) - 0.5f) * deviation;
        }
        labels[n] = psr_rng_word(stream(seed, n, LABELS), 0) % g->classes;
    }
}

void golden_project(uint32_t seed, uint32_t index, const float *values, size_t count,
                    double ret_projections[GOLDEN_PROJECTIONS])
{
    double set[GOLDEN_PROJECTIONS] = {0}; /* sum of the elements whose bit k is set */
    double all = 0;
    for (size_t i = 0; i < count; i += 4) {
        uint32_t words[4];
        psr_rng_block(stream(seed, index, SIGNS), (uint32_t)(i / 4), words);
        for (size_t j = i; j < count && j < i + 4; j++) {
            all += values[j];
            for (int k = 0; k < GOLDEN_PROJECTIONS; k++)
                set[k] += words[j - i] >> k & 1 ? values[j] : 0;
        }
    }
    for (int k = 0; k < GOLDEN_PROJECTIONS; k++)
        ret_projections[k] = 2 * set[k] - all;
}
