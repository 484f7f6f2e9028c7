#include "worker/stored/stored_commands.h"

#include "base/text/printable.h"
#include "data/loader.h"
#include "data/opened.h"
#include "worker/stored/stored_backend.h"
#include "worker/views.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS_MAX = 3, LOADER_DEPTH = 2 };

typedef struct evaluating {
    psr_stored_model model;
    psr_opened opened;
    psr_buckets buckets;
    psr_backend *backend;
    psr_loader *loader;
    psr_views *views;
    double loss;
    uint64_t correct, count;
} evaluating;

/* Pixels are normalised as in training, whatever other data these are. */
static psr_err open_data(evaluating *e, const char *data, const char *user_directory,
                         const char *cache)
{
    char spec[PSR_PATH_MAX];
    PSR_TRY(psr_dataset_find(data[0] != '\0' ? data : e->model.config.data, user_directory,
                             e->model.net->classes, spec, sizeof spec));
    PSR_TRY(psr_opened_init(spec, cache, NULL, &e->opened));
    psr_dataset *test = e->opened.test;
    if (test->channels != e->model.net->channels || test->classes > e->model.net->classes)
        return psr_fail(PSR_ERR_USAGE,
                        "%s has %" PRIu32 " channels and labels of %" PRIu32
                        " classes, and %s was trained on %" PRIu32 " channels and %" PRIu32
                        " classes; give --data that fits",
                        test->name, test->channels, test->classes, e->model.file,
                        e->model.net->channels, e->model.net->classes);
    float mean[CHANNELS_MAX], deviation[CHANNELS_MAX];
    if (psr_stored_numbers(e->model.checkpoint, "mean", mean, CHANNELS_MAX) != test->channels ||
        psr_stored_numbers(e->model.checkpoint, "std", deviation, CHANNELS_MAX) != test->channels)
        return psr_fail(PSR_ERR_FORMAT, "%s: its metadata have no mean and std for each channel",
                        e->model.file);
    memcpy(test->mean, mean, test->channels * sizeof *mean);
    memcpy(test->deviation, deviation, test->channels * sizeof *deviation);
    return PSR_OK;
}

static psr_err set_up(evaluating *e, unsigned threads, unsigned batch_size)
{
    const uint32_t count = e->opened.test->count;
    const uint32_t batch = batch_size < count ? batch_size : count;
    PSR_TRY(psr_stored_backend(&e->model, batch, threads, &e->buckets, &e->backend));
    PSR_TRY(psr_views_new(&e->model.config, e->model.net, batch, &e->views));
    psr_augment_plan trained;
    PSR_TRY(psr_augment_plan_of(&e->model.config, &trained));
    const psr_augment_plan plan = psr_augment_plan_evaluation(&trained);
    const psr_loader_options loading = {
        .sampler = {.count = count, .workers = 1, .batch_size = batch},
        .plan = &plan,
        .threads = threads,
        .depth = LOADER_DEPTH,
        .last_epoch = 1};
    return psr_loader_new(e->opened.test, &loading, &e->loader);
}

static psr_err infer(evaluating *e, const psr_loader_batch *loaded)
{
    const psr_batch batch = {.images = loaded->images,
                             .labels = loaded->labels,
                             .samples = loaded->samples,
                             .count = loaded->count,
                             .seed = e->model.config.seed};
    const psr_exec_state state = {.weights = e->model.weights, .buffers = e->model.buffers};
    static const psr_exec_hooks none = {.context = NULL};
    psr_pass_result result;
    PSR_TRY(psr_views_infer(e->views, e->backend, &batch, &state, &none, &result));
    e->loss += result.loss_sum;
    e->correct += result.correct;
    e->count += loaded->count;
    return PSR_OK;
}

static psr_err evaluate(evaluating *e)
{
    while (e->count < e->opened.test->count) {
        const psr_loader_batch *batch = NULL;
        PSR_TRY(psr_loader_next(e->loader, &batch));
        psr_err err = infer(e, batch);
        psr_loader_return(e->loader, batch);
        PSR_TRY(err);
    }
    return PSR_OK;
}

static void clean_up(evaluating *e)
{
    psr_views_free(e->views);
    psr_loader_free(e->loader);
    psr_backend_free(e->backend);
    psr_buckets_done(&e->buckets);
    psr_opened_done(&e->opened);
    psr_stored_done(&e->model);
}

int psr_eval_main(const char *checkpoint, const char *data, unsigned threads, unsigned batch_size,
                  const char *user_directory, const char *cache)
{
    evaluating e = {.count = 0};
    psr_err err = psr_stored_open(checkpoint, &e.model);
    if (err == PSR_OK)
        err = open_data(&e, data, user_directory, cache);
    if (err == PSR_OK)
        err = set_up(&e, threads, batch_size);
    if (err == PSR_OK)
        err = evaluate(&e);
    const psr_eval_tta tta = e.model.config.eval_tta;
    if (err == PSR_OK)
        psr_print(stdout,
                  "%s of %s on %s, content %s\n"
                  "%" PRIu64 " of %" PRIu64 " right%s%s\n"
                  "Test set: Average loss: %.4f, Accuracy: %.2f%%\n",
                  e.model.net->name, e.model.file, e.opened.test->name, e.opened.content.test,
                  e.correct, e.count, tta == PSR_EVAL_TTA_NONE ? "" : ", by --eval-tta ",
                  tta == PSR_EVAL_TTA_NONE ? "" : psr_eval_tta_name(tta), e.loss / (double)e.count,
                  100 * (double)e.correct / (double)e.count);
    else
        psr_print(stderr, "psring eval: %s\n", psr_err_detail());
    clean_up(&e);
    return err == PSR_ERR_FORMAT || err == PSR_ERR_NOT_FOUND ? 2 : psr_err_exit_status(err);
}
