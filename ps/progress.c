#include "ps/progress.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

#define SHOW_EVERY_MS 100

typedef struct rank_state {
    uint64_t step;
    double loss, images_per_s;
} rank_state;

struct psr_progress {
    rank_state *ranks;
    uint32_t count;
    bool in_turn;
    uint64_t total, shown_step;
    int64_t shown_ms;
    psr_progress_evaluation evaluation; /* the newest */
    bool evaluation_told;
};

psr_err psr_progress_new(uint32_t ranks, bool in_turn, uint64_t total, psr_progress **ret_progress)
{
    psr_progress *progress = calloc(1, sizeof *progress);
    if (progress)
        *progress = (psr_progress){.ranks = calloc(ranks, sizeof *progress->ranks),
                                   .count = ranks,
                                   .in_turn = in_turn,
                                   .total = total,
                                   .evaluation_told = true};
    if (!progress || !progress->ranks) {
        psr_progress_free(progress);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u ranks", ranks);
    }
    *ret_progress = progress;
    return PSR_OK;
}

void psr_progress_free(psr_progress *progress)
{
    if (!progress)
        return;
    free(progress->ranks);
    free(progress);
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

uint64_t psr_progress_take(psr_progress *progress, const char *json, size_t size)
{
    cJSON *object = cJSON_ParseWithLength(json, size);
    double rank = number(object, "rank"), step = number(object, "step");
    double loss = number(object, "loss"), rate = number(object, "images_per_s");
    double accuracy = number(object, "test_accuracy"), test_loss = number(object, "test_loss");
    cJSON_Delete(object);
    if (!(step >= 0 && step < 0x1p53))
        return 0;
    if (isfinite(accuracy) && rank == 0) { /* every rank tells the same */
        progress->evaluation = (psr_progress_evaluation){(uint64_t)step, accuracy, test_loss};
        progress->evaluation_told = false;
    }
    if (rank >= 0 && rank < progress->count)
        progress->ranks[(uint32_t)rank] = (rank_state){(uint64_t)step, loss, isfinite(rate) ? rate : 0};
    return (uint64_t)step;
}

bool psr_progress_look(psr_progress *progress, int64_t now_ms, psr_progress_now *ret_now)
{
    psr_progress_now now = {.step = UINT64_MAX, .total = progress->total};
    double losses = 0;
    uint32_t with_loss = 0;
    for (uint32_t r = 0; r < progress->count; r++) {
        const rank_state *state = &progress->ranks[r];
        now.step = state->step < now.step ? state->step : now.step;
        now.images_per_s += progress->in_turn ? state->images_per_s / progress->count : state->images_per_s;
        if (isfinite(state->loss)) {
            losses += state->loss;
            with_loss++;
        }
    }
    now.loss = with_loss ? losses / with_loss : NAN;
    bool last = now.step == now.total;
    if (now.step == progress->shown_step || (!last && now_ms - progress->shown_ms < SHOW_EVERY_MS))
        return false;
    progress->shown_step = now.step;
    progress->shown_ms = now_ms;
    *ret_now = now;
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
