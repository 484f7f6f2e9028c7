#include "worker/views.h"

#include "model/loss.h"

#include <stdlib.h>
#include <string.h>

typedef struct view {
    int32_t shift;
    bool mirror;
    float share;
} view;

enum { VIEWS_MAX = 6 };

static const struct {
    uint32_t count;
    view views[VIEWS_MAX];
} lists[] = {
    [PSR_EVAL_TTA_NONE] = {1, {{0, false, 1}}},
    [PSR_EVAL_TTA_FLIP] = {2, {{0, false, 0.5f}, {0, true, 0.5f}}},
    [PSR_EVAL_TTA_FLIP_SHIFT] = {6,
                                 {{0, false, 0.25f},
                                  {0, true, 0.25f},
                                  {1, false, 0.125f},
                                  {1, true, 0.125f},
                                  {-1, false, 0.125f},
                                  {-1, true, 0.125f}}},
};

struct psr_views {
    const psr_network *net;
    psr_eval_tta tta;
    double label_smoothing;
    /* [max_batch,C,H,W], [max_batch,classes] twice; NULL where there is one view */
    float *images, *logits;
    psr_real *mean;
};

psr_err psr_views_new(const psr_config *config, const psr_network *net, uint32_t max_batch,
                      psr_views **ret_views)
{
    if (config->eval_tta == PSR_EVAL_TTA_FLIP_SHIFT && (net->height < 2 || net->width < 2))
        return psr_fail(PSR_ERR_USAGE,
                        "--eval-tta flip-shift: images of %u x %u pixels cannot be shifted; give "
                        "flip or none",
                        net->height, net->width);
    psr_views *views = calloc(1, sizeof *views);
    if (views == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to evaluate");
    *views = (psr_views){
        .net = net, .tta = config->eval_tta, .label_smoothing = config->label_smoothing};
    *ret_views = views;
    if (views->tta == PSR_EVAL_TTA_NONE)
        return PSR_OK;
    const size_t pixels = (size_t)net->channels * net->height * net->width;
    views->images = aligned_alloc(64, (max_batch * pixels * sizeof(float) + 63) / 64 * 64);
    views->logits = calloc((size_t)max_batch * net->classes, sizeof *views->logits);
    views->mean = calloc((size_t)max_batch * net->classes, sizeof *views->mean);
    if (views->images != NULL && views->logits != NULL && views->mean != NULL)
        return PSR_OK;
    psr_views_free(views);
    return psr_fail(PSR_ERR_NOMEM, "no memory for the views of %u samples", max_batch);
}

void psr_views_free(psr_views *views)
{
    if (views == NULL)
        return;
    free(views->images);
    free(views->logits);
    free(views->mean);
    free(views);
}

/* Row or column `index` of a picture mirrored at its edges. */
static uint32_t reflected(int64_t index, uint32_t length)
{
    if (index < 0)
        return (uint32_t)-index;
    return (uint32_t)(index < length ? index : 2 * (int64_t)length - 2 - index);
}

static void look(const psr_network *net, const view *v, const float *images, uint32_t count,
                 float *out)
{
    const size_t plane = (size_t)net->height * net->width;
    for (size_t i = 0; i < (size_t)count * net->channels; i++)
        for (uint32_t y = 0; y < net->height; y++) {
            const float *row = images + i * plane +
                               (size_t)reflected((int64_t)y - v->shift, net->height) * net->width;
            for (uint32_t x = 0; x < net->width; x++) {
                const int64_t column = v->mirror ? (int64_t)net->width - 1 - x : x;
                *out++ = row[reflected(column - v->shift, net->width)];
            }
        }
}

psr_err psr_views_infer(psr_views *views, psr_backend *backend, const psr_batch *batch,
                        const psr_exec_state *state, const psr_exec_hooks *hooks,
                        psr_pass_result *ret_result)
{
    if (views->tta == PSR_EVAL_TTA_NONE)
        return psr_backend_infer(backend, batch, state, hooks, NULL, ret_result);
    const size_t count = (size_t)batch->count * views->net->classes;
    psr_batch seen = *batch;
    seen.images = views->images;
    memset(views->mean, 0, count * sizeof *views->mean);
    for (uint32_t i = 0; i < lists[views->tta].count; i++) {
        const view *v = &lists[views->tta].views[i];
        psr_pass_result one;
        look(views->net, v, batch->images, batch->count, views->images);
        PSR_TRY(psr_backend_infer(backend, &seen, state, hooks, views->logits, &one));
        for (size_t k = 0; k < count; k++)
            views->mean[k] += (psr_real)(v->share * views->logits[k]);
    }
    psr_loss_cross_entropy(views->mean, batch->labels, NULL, batch->count, views->net->classes,
                           views->label_smoothing, 1, NULL, ret_result);
    return PSR_OK;
}
