#include "worker/evaluate.h"

#include "base/arrays/arena.h"
#include "base/arrays/finite.h"
#include "base/log.h"
#include "model/optimizers/optimizer.h"
#include "worker/device_update.h"
#include "worker/views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The counts of one rank, as a row of psr_exchange_average. All but the loss are whole numbers far
 * below 2^53. */
enum { SUM_LOSS, SUM_CORRECT, SUM_TOP5, SUM_COUNT, SUM_FIELDS };

/* An evaluation under way. A worker that leaves it has counted fewer samples than its share, and
 * all workers take part in the sum of the counts. So all workers see in that sum whether the
 * evaluation was left, whichever of them was told of the stop. */
typedef struct evaluating {
    psr_trainer *t;
    psr_views *views; /* owned */
    uint64_t steps;   /* the steps after which it takes place */
    uint64_t counted; /* samples counted, of all ranks that this process computes */
    const float *weights;
    float *buffers;
} evaluating;

psr_err psr_average_buffers(psr_trainer *t, psr_statistics which, float *averaged)
{
    size_t length = t->net->buffers.length, width = length + 1;
    if (length == 0)
        return PSR_OK;
    double *rows = malloc(t->replica_count * width * sizeof *rows);
    if (rows == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to average the batch-norm statistics");
    for (uint32_t r = 0; r < t->replica_count; r++) {
        const psr_replica *replica = &t->replicas[r];
        const float *own = which == PSR_STATISTICS_EMA ? replica->ema_buffers : replica->buffers;
        for (size_t i = 0; i < length; i++)
            rows[r * width + i] = (double)own[i];
        rows[r * width + length] = 1;
    }
    psr_err err = psr_exchange_average(t->exchange, rows, width);
    for (size_t i = 0; i < length && err == PSR_OK; i++)
        averaged[i] = (float)rows[i];
    free(rows);
    return err;
}

/* The run is being stopped and takes no further step. */
static bool is_left(const evaluating *e)
{
    return !e->t->evaluates_at_end && psr_session_stops_after(e->t->session, e->steps);
}

static void count_progress(void *context)
{
    const evaluating *e = context;
    psr_session_progress(e->t->session, PSR_PHASE_EVALUATION);
}

/* The weights are there already. This only checks whether to go on. */
static psr_err weights_wanted(void *context, uint32_t bucket)
{
    const evaluating *e = context;
    (void)bucket;
    return is_left(e) ? psr_fail(PSR_ERR_CANCELLED, "the evaluation is left out") : PSR_OK;
}

static psr_err infer(evaluating *e, const psr_loader_batch *loaded, double sums[static SUM_FIELDS])
{
    psr_trainer *t = e->t;
    const psr_batch batch = {.images = loaded->images,
                             .bytes = loaded->bytes,
                             .labels = loaded->labels,
                             .samples = loaded->samples,
                             .count = loaded->count,
                             .seed = t->config->seed};
    const psr_exec_state state = {.weights = e->weights, .buffers = e->buffers};
    const psr_exec_hooks hooks = {
        .context = e, .weights_wanted = weights_wanted, .progress = count_progress};
    psr_pass_result result;
    PSR_TRY(psr_views_infer(e->views, t->executors->backend, &batch, &state, &hooks, &result));
    sums[SUM_LOSS] += result.loss_sum;
    sums[SUM_CORRECT] += result.correct;
    sums[SUM_TOP5] += result.top5;
    sums[SUM_COUNT] += loaded->count;
    e->counted += loaded->count;
    psr_session_evaluating(t->session, e->counted);
    return PSR_OK;
}

/* One rank's share of the test split. */
static psr_err count_share(evaluating *e, const psr_sampler *sampler, uint32_t rank,
                           double sums[static SUM_FIELDS])
{
    psr_trainer *t = e->t;
    if (psr_sampler_share(sampler, rank) == 0)
        return PSR_OK;
    const psr_augment_plan plan = psr_augment_plan_evaluation(&t->plan);
    const psr_loader_options options = {.sampler = *sampler,
                                        .rank = rank,
                                        .plan = &plan,
                                        .wants_bytes = psr_trainer_wants_bytes(t) &&
                                                       t->config->eval_tta == PSR_EVAL_TTA_NONE,
                                        .threads = t->config->loader_threads,
                                        .depth = 2,
                                        .last_epoch = 1};
    psr_loader *loader = NULL;
    PSR_TRY(psr_loader_new(t->test, &options, &loader));
    psr_err err = PSR_OK;
    uint32_t steps = psr_sampler_steps(sampler);
    for (uint32_t step = 0; step < steps && err == PSR_OK; step++) {
        const psr_loader_batch *batch = NULL;
        err = psr_loader_next(loader, &batch);
        if (err == PSR_OK && batch->count > 0)
            err = infer(e, batch, sums);
        if (batch != NULL)
            psr_loader_return(loader, batch);
    }
    psr_loader_free(loader);
    if (err == PSR_ERR_CANCELLED && is_left(e))
        return PSR_OK; /* the missing samples say so */
    return err;
}

/* Row 0 of sums becomes the result of all workers. */
static psr_err count_all(evaluating *e, double *sums)
{
    psr_trainer *t = e->t;
    psr_sampler sampler = psr_trainer_sampler(t->config, t->ranks, t->test->count);
    sampler.partition = PSR_PARTITION_EXACT;
    sampler.shuffle = false;
    sampler.drop_last = false;
    sampler.batch_size = t->config->batch_size; /* not a whole step's */
    e->counted = 0;
    psr_session_evaluating(t->session, 0);
    for (uint32_t r = 0; r < t->replica_count; r++)
        PSR_TRY(count_share(e, &sampler, t->replicas[r].rank, sums + r * SUM_FIELDS));
    return psr_exchange_average(t->exchange, sums, SUM_FIELDS);
}

static psr_err evaluate_weights(evaluating *e, double *sums, psr_evaluation *result)
{
    psr_trainer *t = e->t;
    PSR_TRY(psr_average_buffers(t, PSR_STATISTICS_OWN, e->buffers));
    e->weights = psr_exchange_weights(t->exchange);
    psr_device_update_due(t, e->steps);
    PSR_TRY(count_all(e, sums));
    result->count = (uint64_t)sums[SUM_COUNT];
    result->accuracy = sums[SUM_CORRECT];
    result->top5 = sums[SUM_TOP5];
    result->loss = sums[SUM_LOSS];
    result->left_out = sums[SUM_COUNT] < t->test->count;
    return PSR_OK;
}

/* Before the first step there is no average. */
static psr_err evaluate_ema(evaluating *e, double *sums, psr_evaluation *result)
{
    psr_trainer *t = e->t;
    uint32_t slot;
    if (e->steps == 0 || result->left_out || !psr_optimizer_ema_slot(t->config, &slot))
        return PSR_OK;
    PSR_TRY(psr_average_buffers(t, PSR_STATISTICS_EMA, e->buffers));
    PSR_TRY(psr_exchange_fetch_slot(t->exchange, slot, &e->weights));
    PSR_TRY(psr_device_update_pause(t, e->steps));
    PSR_TRY(count_all(e, sums));
    PSR_TRY(psr_device_update_resume(t, e->steps));
    result->has_ema = true;
    result->ema_accuracy = sums[SUM_CORRECT];
    result->ema_top5 = sums[SUM_TOP5];
    result->ema_loss = sums[SUM_LOSS];
    result->left_out = sums[SUM_COUNT] < t->test->count;
    return PSR_OK;
}

psr_err psr_evaluate(psr_trainer *t, uint64_t steps, psr_evaluation *ret_evaluation)
{
    const size_t row_bytes = SUM_FIELDS * sizeof(double);
    evaluating e = {.t = t, .steps = steps};
    psr_evaluation result = {.count = 0};
    psr_session_evaluating(t->session, 0);
    psr_session_progress(t->session, PSR_PHASE_EVALUATION);
    double *sums = calloc(t->replica_count, row_bytes);
    psr_err err = sums != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for an evaluation");
    if (err == PSR_OK)
        err = psr_arena_new(t->net->buffers.length, &e.buffers);
    if (err == PSR_OK)
        err = psr_views_new(t->config, t->net, t->config->batch_size, &e.views);
    if (err == PSR_OK)
        err = evaluate_weights(&e, sums, &result);
    if (err == PSR_OK) {
        memset(sums, 0, t->replica_count * row_bytes);
        err = evaluate_ema(&e, sums, &result);
    }
    psr_session_evaluated(t->session);
    psr_views_free(e.views);
    psr_arena_free(e.buffers, t->net->buffers.length);
    free(sums);
    if (err == PSR_OK)
        *ret_evaluation = result;
    return err;
}

/* ---- what worker 0 says of it ---- */

static void log_torch(const psr_trainer *t, const char *of, double loss, double accuracy)
{
    if (t->config->eval_format == PSR_EVAL_FORMAT_TORCH)
        psr_log_plain("%s: Average loss: %.4f, Accuracy: %.2f%%", of, psr_shown(loss),
                      100 * accuracy);
}

void psr_evaluation_log(const psr_trainer *t, uint64_t steps, const psr_evaluation *e)
{
    if (!psr_trainer_is_first(t))
        return;
    if (e->left_out) {
        psr_log(PSR_LOG_INFO, "evaluation step=%" PRIu64 " left out: the run is being stopped",
                steps);
        return;
    }
    psr_log(PSR_LOG_INFO,
            "evaluation step=%" PRIu64 " accuracy=%.4f top5=%.4f loss=%.4f samples=%" PRIu64, steps,
            e->accuracy, e->top5, psr_shown(e->loss), e->count);
    log_torch(t, "Test set", e->loss, e->accuracy);
    if (!e->has_ema)
        return;
    psr_log(PSR_LOG_INFO,
            "evaluation of the average step=%" PRIu64 " accuracy=%.4f top5=%.4f loss=%.4f "
            "samples=%" PRIu64,
            steps, e->ema_accuracy, e->ema_top5, psr_shown(e->ema_loss), e->count);
    log_torch(t, "Test set, average of the weights", e->ema_loss, e->ema_accuracy);
}
