#include "worker/whiten.h"

#include "model/networks/whitening.h"

enum { BATCH = 100 };

static psr_err add_images(const psr_trainer *t, psr_whitening *whitening)
{
    const psr_augment_plan plan = psr_augment_plan_evaluation(&t->plan);
    const psr_loader_options options = {
        .sampler = {.count = t->train->count, .workers = 1, .batch_size = BATCH},
        .plan = &plan,
        .threads = t->config->loader_threads,
        .depth = 2,
        .last_epoch = 1};
    psr_loader *loader = NULL;
    PSR_TRY(psr_loader_new(t->train, &options, &loader));
    psr_err err = PSR_OK;
    uint32_t left = t->train->count < PSR_WHITENING_IMAGES ? t->train->count : PSR_WHITENING_IMAGES;
    while (left > 0 && err == PSR_OK) {
        const psr_loader_batch *batch = NULL;
        err = psr_loader_next(loader, &batch);
        if (err != PSR_OK)
            break;
        const uint32_t count = batch->count < left ? batch->count : left;
        psr_whitening_add(whitening, batch->images, count);
        left -= count;
        psr_loader_return(loader, batch);
        psr_session_progress(t->session, PSR_PHASE_START);
    }
    psr_loader_free(loader);
    return err;
}

psr_err psr_whiten(const psr_trainer *t, float *weights)
{
    psr_whitening *whitening = NULL;
    psr_err err = psr_whitening_new(t->net, &whitening);
    if (err == PSR_ERR_NOT_FOUND)
        return PSR_OK;
    if (err == PSR_OK)
        err = add_images(t, whitening);
    if (err == PSR_OK)
        err = psr_whitening_finish(whitening, weights);
    psr_whitening_free(whitening);
    return err;
}
