#include "ps/scheduler/metrics/figures.h"

#include "ps/scheduler/metrics/hashes.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WARMUP_MAX 10 /* base/figures.c's */
#define RECENT_S 5.0

/* One step of the warm-up, of one rank. */
typedef struct warm_step {
    double train_s; /* when the step ended; NaN: not reported */
    double images;
} warm_step;

typedef struct rank_figures {
    uint64_t step; /* the newest step that was reported */
    /* of that step: when it was computed, before a wait for its weights; and its images */
    double computed_s, images;
    warm_step first[WARMUP_MAX];
} rank_figures;

/* The figures that a worker reports: some in its line of each step, which are shown as mean and
 * range over workers, and some in its DONE for all steps together, which are shown as the sum of
 * all workers. */
enum { OVER_WORKERS = 6, SUMS = 8 };
static const psr_figure sum_figures[SUMS] = {
    PSR_FIGURE_WAIT_S,         PSR_FIGURE_COMPUTE_S,
    PSR_FIGURE_LOAD_WAIT_S,    PSR_FIGURE_HIDDEN_S,
    PSR_FIGURE_EXPOSED_S,      PSR_FIGURE_DRAIN_S,
    PSR_FIGURE_GRADIENT_BYTES, PSR_FIGURE_GRADIENT_FLOAT32_BYTES};

typedef struct worker_figures {
    double train_s, sums[SUMS];
} worker_figures;

/* A point in time: the run's training time, and the images until then. */
typedef struct mark {
    double train_s, images;
} mark;

typedef struct shard_figures {
    bool done;
    psr_traffic traffic;
} shard_figures;

/* Steps between two changes of the architecture. */
typedef struct stretch {
    psr_mode mode;
    uint64_t first_step; /* from 0 */
    double images, pause_s;
    /* for each worker: the seconds of its steps, without the pause; and how long it waited in
     * them */
    double *took_s, *wait_s;
} stretch;

struct psr_figures {
    psr_figures_options options;
    /* number of processes: fewer than options.workers (ranks) if one computes all */
    uint32_t worker_count;
    rank_figures *ranks;
    worker_figures *workers;
    shard_figures *shards;
    stretch stretches[PSR_STRETCHES_MAX];
    uint32_t stretch_count;
    double *stretch_times; /* theirs, owned: [PSR_STRETCHES_MAX][took_s, wait_s][workers] */
    uint64_t warmup_steps;
    mark now;
    /* when all ranks had computed a step: the last time, and two that are RECENT_S of training
     * apart */
    mark whole, newer, older;
    uint64_t whole_steps; /* of the last time */
    /* when the first worker had computed its last step, INFINITY before; and the images that ranks
     * had computed later, but for the last step of each */
    double together_s, later_images;
    double bytes_sent, bytes_lent;
    double staleness, staleness_max, steps_told; /* sums over lines, but for the most */
    double loss, test_loss, test_accuracy, test_top5, train_accuracy, test_count;
    double ema_loss, ema_accuracy, ema_top5;
    double skipped_steps, loss_scale;
    char hash[PSR_HASH_DIGITS + 1];
};

/* ---- life ---- */

psr_err psr_figures_new(const psr_figures_options *o, psr_figures **ret_figures)
{
    psr_figures *f = calloc(1, sizeof *f);
    if (f != NULL)
        *f = (psr_figures){.options = *o,
                           .worker_count = o->in_turn ? 1 : o->workers,
                           .ranks = calloc(o->workers, sizeof *f->ranks),
                           .workers = calloc(o->workers, sizeof *f->workers),
                           /* also for no shards */
                           .shards = calloc(o->shards + 1, sizeof *f->shards),
                           .stretch_times = calloc((size_t)PSR_STRETCHES_MAX * 2 * o->workers,
                                                   sizeof *f->stretch_times),
                           .warmup_steps = psr_warmup_steps(
                               o->total_steps > o->first_step ? o->total_steps - o->first_step : 0),
                           .together_s = INFINITY,
                           .loss = NAN,
                           .test_loss = NAN,
                           .test_accuracy = NAN,
                           .ema_loss = NAN,
                           .ema_accuracy = NAN,
                           .ema_top5 = NAN,
                           .test_top5 = NAN,
                           .train_accuracy = NAN,
                           .test_count = NAN,
                           .skipped_steps = NAN,
                           .loss_scale = NAN};
    if (f == NULL || f->ranks == NULL || f->workers == NULL || f->shards == NULL ||
        f->stretch_times == NULL) {
        psr_figures_free(f);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the figures of %u workers", o->workers);
    }
    for (uint32_t r = 0; r < o->workers; r++) {
        f->ranks[r].step = o->first_step;
        for (size_t i = 0; i < WARMUP_MAX; i++)
            f->ranks[r].first[i].train_s = NAN;
    }
    f->whole_steps = o->first_step;
    psr_figures_stretch_decided(f, o->mode, o->first_step);
    *ret_figures = f;
    return PSR_OK;
}

void psr_figures_free(psr_figures *figures)
{
    if (figures == NULL)
        return;
    free(figures->ranks);
    free(figures->workers);
    free(figures->shards);
    free(figures->stretch_times);
    free(figures);
}

/* ---- what workers tell ---- */

static double number_or_nan(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) && isfinite(item->valuedouble) ? item->valuedouble : NAN;
}

/* A number of seconds or a count, from 0 to the largest integer that a double holds exactly; any
 * other value counts as not reported. */
static double amount(const cJSON *object, const char *name)
{
    double value = number_or_nan(object, name);
    return value >= 0 && value < 0x1p53 ? value : 0;
}

void psr_figures_stretch_decided(psr_figures *f, psr_mode mode, uint64_t first_step)
{
    uint32_t i = f->stretch_count;
    while (i > 0 && f->stretches[i - 1].first_step >= first_step)
        i--;
    if (i == PSR_STRETCHES_MAX)
        return;
    const uint32_t workers = f->options.workers;
    double *times = f->stretch_times + (size_t)i * 2 * workers;
    memset(times, 0, (size_t)2 * workers * sizeof *times);
    f->stretches[i] = (stretch){
        .mode = mode, .first_step = first_step, .took_s = times, .wait_s = times + workers};
    f->stretch_count = i + 1;
}

void psr_figures_stretch_begun(psr_figures *f, uint64_t first_step, double pause_s)
{
    for (uint32_t i = 0; i < f->stretch_count; i++)
        if (f->stretches[i].first_step == first_step)
            f->stretches[i].pause_s = pause_s;
}

/* step: from 1 */
static stretch *stretch_of(psr_figures *f, uint64_t step)
{
    uint32_t i = f->stretch_count - 1;
    while (i > 0 && f->stretches[i].first_step >= step)
        i--;
    return &f->stretches[i];
}

/* The time of a step is the difference of the worker's training clock since its previous step, less
 * the pause in that time. Both are read on the same clock, and a step computes outside of its
 * pause, so the result is above 0. */
static void add_to_stretch(psr_figures *f, const psr_metrics_line *line, double images,
                           double train_s)
{
    stretch *s = stretch_of(f, line->step);
    const double since_s = fmax(train_s - f->workers[line->worker].train_s, 0);
    s->images += images;
    s->took_s[line->worker] += fmax(since_s - amount(line->fields, "pause_s"), 0);
    s->wait_s[line->worker] += amount(line->fields, psr_figure_definitions[PSR_FIGURE_WAIT_S].name);
}

/* The rank has computed another step. */
static void see_computed(psr_figures *f, rank_figures *r, double computed_s, double images)
{
    if (r->computed_s > f->together_s)
        f->later_images += r->images;
    r->computed_s = computed_s;
    r->images = images;
}

static uint64_t completed_by_all(const psr_figures *f)
{
    uint64_t steps = UINT64_MAX;
    for (uint32_t r = 0; r < f->options.workers; r++)
        steps = f->ranks[r].step < steps ? f->ranks[r].step : steps;
    return steps;
}

/* Only whole steps count: between the lines of two ranks there may be a part of a long step, and
 * all its time. */
static void move_marks(psr_figures *f)
{
    const uint64_t steps = completed_by_all(f);
    if (steps == f->whole_steps)
        return;
    f->whole_steps = steps;
    f->whole = f->now;
    if (f->whole.train_s - f->newer.train_s >= RECENT_S) {
        f->older = f->newer;
        f->newer = f->whole;
    }
}

void psr_figures_take_metrics(psr_figures *f, const psr_metrics_line *line)
{
    const char *drain = psr_figure_definitions[PSR_FIGURE_DRAIN_S].name;
    rank_figures *r = &f->ranks[line->rank];
    worker_figures *w = &f->workers[line->worker];
    double images = amount(line->fields, "images"), train_s = amount(line->fields, "train_s");
    see_computed(f, r, train_s - amount(line->fields, drain), images);
    const uint64_t before = r->step;
    r->step = line->step;
    if (line->step == f->options.total_steps)
        f->together_s = fmin(f->together_s, r->computed_s);
    uint64_t number = line->step - f->options.first_step - 1;
    if (number < f->warmup_steps)
        r->first[number] = (warm_step){train_s, images};
    add_to_stretch(f, line, images, train_s);
    w->train_s = fmax(w->train_s, train_s);
    for (size_t i = 0; i < SUMS; i++)
        w->sums[i] += amount(line->fields, psr_figure_definitions[sum_figures[i]].name);
    f->bytes_sent += amount(line->fields, "bytes_sent");
    f->bytes_lent += amount(line->fields, "bytes_lent");
    f->steps_told++;
    f->staleness += amount(line->fields, "staleness");
    f->staleness_max = fmax(f->staleness_max, amount(line->fields, "staleness"));
    f->now.images += images;
    f->now.train_s = fmax(f->now.train_s, train_s);
    if (before <= f->whole_steps)
        move_marks(f);
}

static void take_outcome(psr_figures *f, uint32_t from, const cJSON *outcome)
{
    /* The worker's own sums are used, because they contain the wait for the last weights of a run
     * that was stopped. */
    worker_figures *w = &f->workers[from];
    w->train_s = fmax(w->train_s, amount(outcome, "train_s"));
    for (size_t i = 0; i < SUMS; i++)
        w->sums[i] = fmax(w->sums[i], amount(outcome, psr_figure_definitions[sum_figures[i]].name));
    f->now.train_s = fmax(f->now.train_s, w->train_s);
    /* A run that was stopped, or that --seconds has ended, has another last step. */
    if (w->train_s > 0 && f->ranks[from].step > f->options.first_step)
        f->together_s = fmin(f->together_s, f->ranks[from].computed_s);
    if (from != 0)
        return;
    f->loss = number_or_nan(outcome, "loss");
    f->test_loss = number_or_nan(outcome, "test_loss");
    f->test_accuracy = number_or_nan(outcome, "test_accuracy");
    f->test_top5 = number_or_nan(outcome, "test_top5");
    f->ema_loss = number_or_nan(outcome, "ema_loss");
    f->ema_accuracy = number_or_nan(outcome, "ema_accuracy");
    f->ema_top5 = number_or_nan(outcome, "ema_top5");
    f->train_accuracy = number_or_nan(outcome, "train_accuracy");
    f->test_count = number_or_nan(outcome, "test_count");
    f->skipped_steps = number_or_nan(outcome, "skipped_steps");
    f->loss_scale = number_or_nan(outcome, "loss_scale");
    const char *hash = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(outcome, "hash"));
    if (psr_hash_is(hash))
        memcpy(f->hash, hash, sizeof f->hash);
}

void psr_figures_take_done(psr_figures *f, uint32_t from, const char *json, size_t size)
{
    cJSON *outcome = cJSON_ParseWithLength(json, size);
    if (from < f->worker_count && cJSON_IsObject(outcome))
        take_outcome(f, from, outcome);
    cJSON_Delete(outcome);
}

void psr_figures_take_shard(psr_figures *f, uint32_t shard, const psr_traffic *traffic)
{
    if (shard >= f->options.shards)
        return;
    f->shards[shard].done = true;
    f->shards[shard].traffic = *traffic;
}

/* ---- the figures ---- */

double psr_figures_recent_rate(const psr_figures *f)
{
    double seconds = f->whole.train_s - f->older.train_s;
    return seconds > 0 ? (f->whole.images - f->older.images) / seconds : NAN;
}

/* The time at which the first rank had completed its warm-up, and the images that all ranks had
 * completed by then. Of each rank only images of its warm-up count. */
static bool end_of_warmup(const psr_figures *f, mark *ret_end)
{
    mark end = {.train_s = INFINITY};
    for (uint32_t r = 0; f->warmup_steps > 0 && r < f->options.workers; r++)
        /* fmin leaves out a NaN */
        end.train_s = fmin(end.train_s, f->ranks[r].first[f->warmup_steps - 1].train_s);
    for (uint32_t r = 0; r < f->options.workers; r++)
        for (uint64_t i = 0; i < f->warmup_steps; i++)
            if (f->ranks[r].first[i].train_s <= end.train_s)
                end.images += f->ranks[r].first[i].images;
    *ret_end = end;
    return isfinite(end.train_s);
}

/* Mean, least and most over workers: at[0..2]. */
static void over_workers(const psr_figures *f, size_t i, double *at)
{
    double sum = 0, least = INFINITY, most = 0;
    for (uint32_t w = 0; w < f->worker_count; w++) {
        sum += f->workers[w].sums[i];
        least = fmin(least, f->workers[w].sums[i]);
        most = fmax(most, f->workers[w].sums[i]);
    }
    at[0] = sum / f->worker_count;
    at[1] = least;
    at[2] = most;
}

/* Those that were computed until all had still trained. */
static double images_together(const psr_figures *f)
{
    double images = f->now.images - f->later_images;
    for (uint32_t r = 0; r < f->options.workers; r++)
        if (f->ranks[r].computed_s > f->together_s)
            images -= f->ranks[r].images;
    return images;
}

static void values_together(const psr_figures *f, const mark *warm, double *v)
{
    const bool ended = isfinite(f->together_s);
    v[PSR_FIGURE_TOGETHER_S] = ended ? f->together_s : NAN;
    v[PSR_FIGURE_TOGETHER_IMAGES_PER_S] =
        ended && f->together_s > warm->train_s && images_together(f) > warm->images
            ? (images_together(f) - warm->images) / (f->together_s - warm->train_s)
            : NAN;
}

void psr_figures_values(const psr_figures *f, double v[static PSR_FIGURE_COUNT])
{
    mark warm;
    uint64_t steps = completed_by_all(f);
    double images = f->now.images, train_s = f->now.train_s;
    v[PSR_FIGURE_STEPS] = (double)steps;
    v[PSR_FIGURE_OWN_STEPS] = (double)(steps - f->options.first_step);
    v[PSR_FIGURE_IMAGES] = images;
    v[PSR_FIGURE_TRAIN_S] = train_s;
    v[PSR_FIGURE_IMAGES_PER_S] = train_s > 0 ? images / train_s : NAN;
    v[PSR_FIGURE_WARMUP_STEPS] = (double)f->warmup_steps;
    bool is_warm = end_of_warmup(f, &warm);
    v[PSR_FIGURE_WARMUP_S] = is_warm ? warm.train_s : NAN;
    bool is_steady = is_warm && steps - f->options.first_step > f->warmup_steps;
    v[PSR_FIGURE_STEADY_IMAGES_PER_S] = is_steady && images > warm.images && train_s > warm.train_s
                                            ? (images - warm.images) / (train_s - warm.train_s)
                                            : NAN;
    values_together(f, &warm, v);
    for (size_t i = 0; i < OVER_WORKERS; i++)
        over_workers(f, i, &v[sum_figures[i]]);
    for (size_t i = OVER_WORKERS; i < SUMS; i++) {
        v[sum_figures[i]] = 0;
        for (uint32_t w = 0; w < f->worker_count; w++)
            v[sum_figures[i]] += f->workers[w].sums[i];
    }
    v[PSR_FIGURE_BYTES_SENT] = f->bytes_sent;
    v[PSR_FIGURE_BYTES_LENT] = f->bytes_lent;
    v[PSR_FIGURE_STALENESS] = f->steps_told > 0 ? f->staleness / f->steps_told : NAN;
    v[PSR_FIGURE_STALENESS_MAX] = f->steps_told > 0 ? f->staleness_max : NAN;
    v[PSR_FIGURE_LOSS] = f->loss;
    v[PSR_FIGURE_TEST_LOSS] = f->test_loss;
    v[PSR_FIGURE_TEST_ACCURACY] = f->test_accuracy;
    v[PSR_FIGURE_TEST_TOP5] = f->test_top5;
    v[PSR_FIGURE_EMA_LOSS] = f->ema_loss;
    v[PSR_FIGURE_EMA_ACCURACY] = f->ema_accuracy;
    v[PSR_FIGURE_EMA_TOP5] = f->ema_top5;
    v[PSR_FIGURE_TRAIN_ACCURACY] = f->train_accuracy;
    v[PSR_FIGURE_TEST_COUNT] = f->test_count;
    v[PSR_FIGURE_SKIPPED_STEPS] = f->skipped_steps;
    v[PSR_FIGURE_LOSS_SCALE] = f->loss_scale;
}

/* What each shard exchanged; nothing before all are done. */
static bool add_shards(const psr_figures *f, cJSON *object)
{
    for (uint32_t s = 0; s < f->options.shards; s++)
        if (!f->shards[s].done)
            return true;
    cJSON *shards = f->options.shards > 0 ? cJSON_AddArrayToObject(object, "shards") : NULL;
    for (uint32_t s = 0; shards != NULL && s < f->options.shards; s++) {
        const psr_traffic *traffic = &f->shards[s].traffic;
        cJSON *shard = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(shards, shard) ||
            cJSON_AddNumberToObject(shard, "rank", s) == NULL ||
            cJSON_AddNumberToObject(shard, "gradient_bytes", (double)traffic->gradient_bytes) ==
                NULL ||
            cJSON_AddNumberToObject(shard, "weight_bytes", (double)traffic->weight_bytes) == NULL)
            return false;
    }
    return shards != NULL || f->options.shards == 0;
}

static bool add_number(cJSON *object, const char *name, double value)
{
    return isfinite(value) ? cJSON_AddNumberToObject(object, name, value) != NULL
                           : cJSON_AddNullToObject(object, name) != NULL;
}

/* last: the last of its steps that all workers have completed, from 1. */
static bool add_stretch(const psr_figures *f, const stretch *s, uint64_t last, cJSON *stretches)
{
    double sum = 0, least = INFINITY, most = 0, seconds = 0;
    for (uint32_t w = 0; w < f->worker_count; w++) {
        sum += s->wait_s[w];
        least = fmin(least, s->wait_s[w]);
        most = fmax(most, s->wait_s[w]);
        seconds = fmax(seconds, s->took_s[w]);
    }
    cJSON *o = cJSON_CreateObject();
    return cJSON_AddItemToArray(stretches, o) &&
           cJSON_AddStringToObject(o, "mode", psr_mode_name(s->mode)) != NULL &&
           add_number(o, "first_step", (double)s->first_step + 1) &&
           add_number(o, "steps", (double)(last - s->first_step)) &&
           add_number(o, "seconds", seconds) &&
           add_number(o, "images_per_s", seconds > 0 ? s->images / seconds : NAN) &&
           add_number(o, "wait_s", sum / f->worker_count) && add_number(o, "wait_s_min", least) &&
           add_number(o, "wait_s_max", most) && add_number(o, "pause_s", s->pause_s);
}

/* The stretches of which all workers have completed a step; nothing if there is only one. */
static bool add_stretches(const psr_figures *f, cJSON *object)
{
    const uint64_t steps = completed_by_all(f);
    uint32_t count = 0;
    while (count < f->stretch_count && f->stretches[count].first_step < steps)
        count++;
    if (count < 2)
        return true;
    cJSON *stretches = cJSON_AddArrayToObject(object, "stretches");
    bool whole = stretches != NULL;
    for (uint32_t i = 0; i < count && whole; i++)
        whole = add_stretch(f, &f->stretches[i],
                            i + 1 < count ? f->stretches[i + 1].first_step : steps, stretches);
    return whole;
}

psr_err psr_figures_to_json(const psr_figures *f, char **ret_json)
{
    double values[PSR_FIGURE_COUNT];
    psr_figures_values(f, values);
    cJSON *object = cJSON_CreateObject();
    bool whole = object != NULL;
    for (size_t i = 0; i < PSR_FIGURE_COUNT && whole; i++) {
        const char *name = psr_figure_definitions[i].name;
        whole = isfinite(values[i]) ? cJSON_AddNumberToObject(object, name, values[i]) != NULL
                                    : cJSON_AddNullToObject(object, name) != NULL;
    }
    if (whole && f->hash[0])
        whole = cJSON_AddStringToObject(object, "hash", f->hash) != NULL;
    whole = whole && add_shards(f, object) && add_stretches(f, object);
    char *text = whole ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a run's figures");
    *ret_json = text;
    return PSR_OK;
}
