#include "data/survey.h"

#include "base/system/thread.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

psr_err psr_data_progress_at(const psr_data_progress *progress, uint64_t done, uint64_t total)
{
    if (progress == NULL)
        return PSR_OK;
    if (progress->stop != NULL && atomic_load_explicit(progress->stop, memory_order_relaxed))
        return psr_fail(PSR_ERR_CANCELLED, "told to stop");
    if (progress->at != NULL)
        progress->at(progress->context, done, total);
    return PSR_OK;
}

/* With S = sum x and Q = sum x^2 over n pixels x in 0..255:
 * mean = S / n / 255, variance = (n Q - S^2) / n^2 / 255^2; n Q and S^2 are exact in 128 bits. */
void psr_constants_of_sums(uint64_t n, uint64_t sum, uint64_t squares, float *ret_mean,
                           float *ret_deviation)
{
    __extension__ typedef unsigned __int128 u128;
    u128 spread = (u128)n * squares - (u128)sum * sum;
    *ret_mean = (float)((double)sum / ((double)n * 255.0));
    *ret_deviation = spread == 0 ? 1.0f : (float)(sqrt((double)spread) / ((double)n * 255.0));
}

typedef struct sums {
    uint64_t pixels, sum[3], squares[3];
} sums;

typedef struct work {
    const psr_picture_source *source;
    const psr_survey_options *options;
    pthread_mutex_t lock; /* of all below */
    uint32_t next;        /* picture that no thread has taken */
    uint32_t done;
    psr_survey survey;
    sums sums;
    psr_err err; /* the first one that ends the survey */
    char detail[1024];
} work;

static void add_row(const uint8_t *row, uint32_t width, size_t step, uint64_t *sum,
                    uint64_t *squares)
{
    uint64_t row_sum = 0, row_squares = 0;
    for (uint32_t x = 0; x < width; x++) {
        uint32_t value = row[x * step];
        row_sum += value;
        row_squares += value * value;
    }
    *sum += row_sum;
    *squares += row_squares;
}

static void add_picture(const psr_picture *picture, sums *s)
{
    s->pixels += (uint64_t)picture->height * picture->width;
    for (uint32_t c = 0; c < picture->channels; c++)
        for (uint32_t y = 0; y < picture->height; y++)
            add_row(picture->pixels + c * picture->plane + y * picture->row, picture->width,
                    picture->step, &s->sum[c], &s->squares[c]);
}

static void add_sums(sums *to, const sums *from)
{
    to->pixels += from->pixels;
    for (int c = 0; c < 3; c++) {
        to->sum[c] += from->sum[c];
        to->squares[c] += from->squares[c];
    }
}

static void widen(uint32_t value, uint32_t *least, uint32_t *most)
{
    *least = *most == 0 || value < *least ? value : *least;
    *most = value > *most ? value : *most;
}

static bool ends_survey(psr_err err)
{
    return err == PSR_ERR_NOMEM || err == PSR_ERR_UNSUPPORTED || err == PSR_ERR_CANCELLED;
}

static void set_failed(work *w, psr_err err)
{
    if (w->err != PSR_OK)
        return;
    w->err = err;
    snprintf(w->detail, sizeof w->detail, "%s", psr_err_detail());
}

/* Takes the next picture's number. false: there is none, or the survey ends. */
static bool take(work *w, uint32_t *ret_sample)
{
    pthread_mutex_lock(&w->lock);
    bool go = w->err == PSR_OK && w->next < w->source->count;
    if (go)
        *ret_sample = w->next++;
    pthread_mutex_unlock(&w->lock);
    return go;
}

/* picture: as err says. */
static void note(work *w, uint32_t sample, psr_err err, const psr_picture *picture)
{
    pthread_mutex_lock(&w->lock);
    if (err == PSR_OK) {
        w->survey.given++;
        w->survey.of_class[w->source->labels[sample]]++;
        widen(picture->height, &w->survey.least_height, &w->survey.most_height);
        widen(picture->width, &w->survey.least_width, &w->survey.most_width);
    } else if (ends_survey(err)) {
        set_failed(w, err);
    } else {
        w->survey.bad++;
        if (w->options->bad != NULL)
            w->options->bad(w->options->context, sample, psr_err_detail());
    }
    w->done++;
    psr_err told = psr_data_progress_at(w->options->progress, w->done, w->source->count);
    if (told != PSR_OK)
        set_failed(w, told);
    pthread_mutex_unlock(&w->lock);
}

static void *survey_thread(void *argument)
{
    work *w = argument;
    psr_picture_scratch scratch = {0};
    sums own = {0};
    uint32_t sample;
    while (take(w, &sample)) {
        psr_picture picture = {0};
        psr_err err = psr_picture_source_get(w->source, sample, NULL, &scratch, &picture);
        if (err == PSR_OK)
            add_picture(&picture, &own);
        note(w, sample, err, &picture);
    }
    pthread_mutex_lock(&w->lock);
    add_sums(&w->sums, &own);
    pthread_mutex_unlock(&w->lock);
    psr_scratch_done(&scratch);
    return NULL;
}

static psr_err run_threads(work *w)
{
    uint32_t threads = w->options->threads > 0 ? w->options->threads : 1, started = 0;
    pthread_t *thread = calloc(threads, sizeof *thread);
    if (thread == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to read the data");
    while (started < threads &&
           psr_thread_start("psr-survey", survey_thread, w, &thread[started]) == PSR_OK)
        started++;
    if (started < threads) /* fewer do it too, and this one */
        (void)survey_thread(w);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    return w->err != PSR_OK ? psr_fail(w->err, "%s", w->detail) : PSR_OK;
}

psr_err psr_survey_make(const psr_picture_source *source, const psr_survey_options *options,
                        psr_survey *ret_survey)
{
    work w = {.source = source, .options = options};
    w.survey.of_class = calloc(source->classes, sizeof *w.survey.of_class);
    if (w.survey.of_class == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to count %" PRIu32 " classes", source->classes);
    pthread_mutex_init(&w.lock, NULL);
    psr_err err = run_threads(&w);
    pthread_mutex_destroy(&w.lock);
    if (err != PSR_OK) {
        psr_survey_done(&w.survey);
        return err;
    }
    for (uint32_t c = 0; c < 3; c++) {
        w.survey.deviation[c] = 1;
        if (c < source->channels && w.sums.pixels > 0)
            psr_constants_of_sums(w.sums.pixels, w.sums.sum[c], w.sums.squares[c],
                                  &w.survey.mean[c], &w.survey.deviation[c]);
    }
    *ret_survey = w.survey;
    return PSR_OK;
}

void psr_survey_done(psr_survey *survey)
{
    free(survey->of_class);
    *survey = (psr_survey){0};
}
