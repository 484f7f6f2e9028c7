#include "deploy/report/curves.h"

#include "deploy/report/run_steps.h"

#include <math.h>
#include <stdlib.h>

#define STEPS_MAX ((uint64_t)1 << 24)

typedef struct step_sum {
    double loss, images; /* loss: the sum over samples */
    double train_s;      /* the latest */
} step_sum;

typedef struct step_sums {
    step_sum *steps; /* from step 1 on */
    size_t count;
} step_sums;

static psr_err add_up(const psr_run_steps *steps, step_sums *sums)
{
    for (size_t i = 0; i < steps->count; i++)
        if (steps->items[i].step <= STEPS_MAX && steps->items[i].step > sums->count)
            sums->count = steps->items[i].step;
    sums->steps = calloc(sums->count + 1, sizeof *sums->steps);
    if (sums->steps == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the losses of %zu steps", sums->count);
    for (size_t i = 0; i < steps->count; i++) {
        const psr_run_step *step = &steps->items[i];
        if (step->step > STEPS_MAX || !isfinite(step->loss) || !isfinite(step->train_s) ||
            !(step->images > 0))
            continue; /* a rank without samples in this step */
        step_sum *sum = &sums->steps[step->step - 1];
        sum->loss += step->loss * step->images;
        sum->images += step->images;
        sum->train_s = fmax(sum->train_s, step->train_s);
    }
    return PSR_OK;
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
    psr_run_steps steps;
    step_sums sums = {0};
    PSR_TRY(psr_run_steps_read(directory, &steps));
    psr_err err = add_up(&steps, &sums);
    if (err == PSR_OK)
        draw_together(&sums, ret_curve);
    psr_run_steps_done(&steps);
    free(sums.steps);
    return err;
}
