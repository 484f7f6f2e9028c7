#include "ps/scheduler/metrics/progress.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

#define SHOW_EVERY_MS 100

typedef struct rank_state {
    uint64_t step;
    double loss;
    uint64_t counted; /* samples counted in the evaluation after evaluating_step */
} rank_state;

struct psr_progress {
    rank_state *ranks;
    psr_progress_options options;
    double train_s; /* the latest of any rank */
    uint64_t shown_step;
    int64_t shown_ms;
    uint64_t evaluating_step; /* the newest that was reported */
    bool evaluating;          /* that evaluation goes on */
    uint64_t shown_counted;   /* samples; UINT64_MAX: the evaluation was not shown yet */
    int64_t shown_counted_ms;
    psr_progress_evaluation evaluation; /* the newest */
    bool evaluation_told;
};

psr_err psr_progress_new(const psr_progress_options *options, psr_progress **ret_progress)
{
    psr_progress *progress = calloc(1, sizeof *progress);
    if (progress != NULL)
        *progress = (psr_progress){.ranks = calloc(options->ranks, sizeof *progress->ranks),
                                   .options = *options,
                                   .evaluation_told = true};
    if (progress == NULL || progress->ranks == NULL) {
        psr_progress_free(progress);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u ranks", options->ranks);
    }
    *ret_progress = progress;
    return PSR_OK;
}

void psr_progress_free(psr_progress *progress)
{
    if (progress == NULL)
        return;
    free(progress->ranks);
    free(progress);
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

psr_progress_evaluation psr_progress_evaluation_of(const psr_metrics_line *line)
{
    const double ema_accuracy = number(line->fields, "ema_accuracy");
    return (psr_progress_evaluation){.step = line->step,
                                     .accuracy = number(line->fields, "test_accuracy"),
                                     .loss = number(line->fields, "test_loss"),
                                     .has_ema = isfinite(ema_accuracy),
                                     .ema_accuracy = ema_accuracy,
                                     .ema_loss = number(line->fields, "ema_loss")};
}

void psr_progress_take(psr_progress *progress, const psr_metrics_line *line)
{
    const psr_progress_evaluation told = psr_progress_evaluation_of(line);
    if (isfinite(told.accuracy) && line->rank == 0) { /* every rank tells the same */
        progress->evaluation = told;
        progress->evaluation_told = false;
        progress->evaluating = false;
    }
    rank_state *state = &progress->ranks[line->rank];
    state->step = line->step;
    state->loss = number(line->fields, "loss");
    progress->train_s = fmax(progress->train_s, number(line->fields, "train_s"));
}

/* How many steps the run will have, when it has so many now. */
static uint64_t total_at(const psr_progress *progress, uint64_t step)
{
    const double seconds = progress->options.seconds;
    if (!(seconds > 0) || !(progress->train_s > 0) || progress->train_s >= seconds)
        return seconds > 0 && progress->train_s >= seconds ? step : progress->options.total;
    const double expected = ceil((double)step * seconds / progress->train_s);
    return expected < (double)progress->options.total ? (uint64_t)expected
                                                      : progress->options.total;
}

bool psr_progress_look(psr_progress *progress, int64_t now_ms, psr_progress_now *ret_now)
{
    psr_progress_now now = {.step = UINT64_MAX};
    double losses = 0;
    uint32_t with_loss = 0;
    for (uint32_t r = 0; r < progress->options.ranks; r++) {
        const rank_state *state = &progress->ranks[r];
        now.step = state->step < now.step ? state->step : now.step;
        if (isfinite(state->loss)) {
            losses += state->loss;
            with_loss++;
        }
    }
    now.total = total_at(progress, now.step);
    now.loss = with_loss ? losses / with_loss : NAN;
    bool at_once = now.step == now.total || now.step % progress->options.round_every == 0;
    if (now.step == progress->shown_step ||
        (!at_once && now_ms - progress->shown_ms < SHOW_EVERY_MS))
        return false;
    progress->shown_step = now.step;
    progress->shown_ms = now_ms;
    *ret_now = now;
    return true;
}

void psr_progress_counted(psr_progress *progress, uint32_t rank, uint64_t step, uint64_t counted)
{
    if (rank >= progress->options.ranks || step < progress->evaluating_step ||
        (step == progress->evaluating_step && !progress->evaluating)) /* it has ended */
        return;
    if (step > progress->evaluating_step || !progress->evaluating) {
        progress->evaluating_step = step;
        progress->evaluating = true;
        progress->shown_counted = UINT64_MAX;
        for (uint32_t r = 0; r < progress->options.ranks; r++)
            progress->ranks[r].counted = 0;
    }
    progress->ranks[rank].counted = counted;
}

bool psr_progress_look_evaluating(psr_progress *progress, int64_t now_ms,
                                  psr_progress_evaluating *ret_evaluating)
{
    uint64_t counted = 0;
    for (uint32_t r = 0; r < progress->options.ranks; r++)
        counted += progress->ranks[r].counted;
    bool first = progress->shown_counted == UINT64_MAX;
    if (!progress->evaluating || counted == progress->shown_counted ||
        (!first && now_ms - progress->shown_counted_ms < SHOW_EVERY_MS))
        return false;
    progress->shown_counted = counted;
    progress->shown_counted_ms = now_ms;
    *ret_evaluating = (psr_progress_evaluating){.step = progress->evaluating_step,
                                                .total = progress->options.total,
                                                .counted = counted,
                                                .samples = progress->options.samples};
    return true;
}

bool psr_progress_evaluated(psr_progress *progress, psr_progress_evaluation *ret_evaluation)
{
    if (progress->evaluation_told)
        return false;
    progress->evaluation_told = true;
    *ret_evaluation = progress->evaluation;
    return true;
}
