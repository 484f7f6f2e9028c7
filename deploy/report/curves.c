#include "deploy/report/curves.h"

#include "base/system/file.h"
#include "base/text/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_BYTES_MAX ((size_t)1 << 30)
#define STEPS_MAX ((size_t)1 << 24)
#define PATH_BYTES 4352

typedef struct step_sum {
    double loss, images; /* loss: the sum over samples */
    double train_s;      /* the latest */
} step_sum;

typedef struct step_sums {
    step_sum *steps; /* from step 1 on */
    size_t count, room;
} step_sums;

static psr_err make_room(step_sums *sums, size_t count)
{
    if (count > sums->room) {
        size_t room = count * 2 < 1024 ? 1024 : count * 2;
        step_sum *grown = realloc(sums->steps, room * sizeof *grown);
        if (grown == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for the losses of %zu steps", count);
        memset(grown + sums->room, 0, (room - sums->room) * sizeof *grown);
        sums->steps = grown;
        sums->room = room;
    }
    if (count > sums->count)
        sums->count = count;
    return PSR_OK;
}

static psr_err add_line(step_sums *sums, const cJSON *line)
{
    double step = psr_json_number(line, "step", NAN), loss = psr_json_number(line, "loss", NAN);
    double images = psr_json_number(line, "images", NAN);
    double train_s = psr_json_number(line, "train_s", NAN);
    if (!(step >= 1 && step <= (double)STEPS_MAX) || !isfinite(loss) || !isfinite(train_s) ||
        !(images > 0))
        return PSR_OK; /* a rank without samples in this step, or no line of metrics */
    size_t i = (size_t)step;
    PSR_TRY(make_room(sums, i));
    step_sum *sum = &sums->steps[i - 1];
    sum->loss += loss * images;
    sum->images += images;
    sum->train_s = fmax(sum->train_s, train_s);
    return PSR_OK;
}

static psr_err add_lines(step_sums *sums, const char *text, size_t size)
{
    psr_err err = PSR_OK;
    for (const char *at = text, *end = text + size; at < end && err == PSR_OK;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL)
            break;
        cJSON *line = cJSON_ParseWithLength(at, (size_t)(newline - at));
        err = add_line(sums, line);
        cJSON_Delete(line);
        at = newline + 1;
    }
    return err;
}

/* Each point stands for as many steps, so that there are not too many points to draw. */
static void draw_together(const step_sums *sums, psr_curve *curve)
{
    size_t each = (sums->count + PSR_CURVE_POINTS_MAX - 1) / PSR_CURVE_POINTS_MAX;
    *curve = (psr_curve){.steps_per_point = each};
    for (size_t first = 0; first < sums->count; first += each) {
        psr_curve_point point = {0};
        double images = 0;
        for (size_t i = first; i < first + each && i < sums->count; i++) {
            const step_sum *sum = &sums->steps[i];
            if (sum->images == 0)
                continue; /* nobody reported it: a step before a resume */
            point.loss += sum->loss;
            images += sum->images;
            point.step = (double)(i + 1);
            point.train_s = fmax(point.train_s, sum->train_s);
        }
        if (images == 0)
            continue;
        point.loss /= images;
        curve->points[curve->count++] = point;
    }
}

psr_err psr_curve_read(const char *directory, psr_curve *ret_curve)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    size_t size = 0;
    step_sums sums = {0};
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    PSR_TRY(psr_file_read(path, METRICS_BYTES_MAX, &text, &size));
    psr_err err = add_lines(&sums, (const char *)text, size);
    if (err == PSR_OK)
        draw_together(&sums, ret_curve);
    free(text);
    free(sums.steps);
    return err;
}
