#include "data/augment/draws.h"

#include <math.h>

enum { ATTEMPTS = 10, ELEMENT_OF_FLIP = 2, STREAM_BITS = 8 };

psr_draws psr_draws_of(const psr_augment_key *key, const psr_augment_step *step)
{
    const bool is_first = step->kind == PSR_STEP_CROP || step->kind == PSR_STEP_FLIP;
    const uint32_t stream = is_first ? 0 : 1 + (uint32_t)step->kind;
    return (psr_draws){
        .at = {.seed = key->seed,
               .purpose = PSR_RNG_AUGMENT,
               .epoch = key->epoch,
               .sample = key->sample,
               .layer = key->copy << 2 * STREAM_BITS | stream << STREAM_BITS | step->occurrence},
        .element = step->kind == PSR_STEP_FLIP ? ELEMENT_OF_FLIP : 0,
    };
}

uint32_t psr_draw_word(psr_draws *draws)
{
    return psr_rng_word(draws->at, draws->element++);
}

double psr_draw_unit(psr_draws *draws)
{
    return psr_draw_word(draws) * 0x1p-32;
}

double psr_draw_in(psr_draws *draws, psr_bounds span)
{
    return span.least + (span.most - span.least) * psr_draw_unit(draws);
}

uint32_t psr_draw_below(psr_draws *draws, uint32_t bound)
{
    return (uint32_t)((uint64_t)psr_draw_word(draws) * bound >> 32);
}

double psr_draw_normal(psr_draws *draws)
{
    const double pi = 3.14159265358979323846;
    double radius = sqrt(-2 * log(1 - psr_draw_unit(draws)));
    return radius * cos(2 * pi * psr_draw_unit(draws));
}

/* The logarithm of a gamma number of shape alpha >= 1. With d = alpha - 1/3 and c = 1 / sqrt(9 d),
 * d v with v = (1 + c x)^3, x normal, is accepted if log u < x^2 / 2 + d - d v + d log v. */
static double log_gamma_of_large(psr_draws *draws, double alpha)
{
    const double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = psr_draw_normal(draws), root = 1 + c * x;
        double u = 1 - psr_draw_unit(draws);
        if (root <= 0)
            continue;
        double v = root * root * root;
        if (log(u) < x * x / 2 + d - d * v + d * log(v))
            return log(d * v);
    }
}

/* Below 1: a number of shape alpha + 1 times u^(1/alpha); as logarithms, since the power
 * underflows. */
static double log_gamma_number(psr_draws *draws, double alpha)
{
    if (alpha >= 1)
        return log_gamma_of_large(draws, alpha);
    double large = log_gamma_of_large(draws, alpha + 1);
    return large + log(1 - psr_draw_unit(draws)) / alpha;
}

double psr_draw_beta(psr_draws *draws, double alpha)
{
    double x = log_gamma_number(draws, alpha), y = log_gamma_number(draws, alpha);
    return 1 / (1 + exp(y - x));
}

psr_crop psr_draw_crop(const psr_augment_key *key, const psr_augment_step *step,
                       psr_picture_shape shape, uint32_t side, uint32_t padding)
{
    psr_draws draws = psr_draws_of(key, step);
    uint32_t top = psr_draw_below(&draws, shape.height + 2 * padding - side + 1);
    return (psr_crop){top, psr_draw_below(&draws, shape.width + 2 * padding - side + 1)};
}

/* The top bit of a word for one half. */
bool psr_draw_flip(const psr_augment_key *key, const psr_augment_step *step)
{
    psr_augment_key at = *key;
    if (step->as.flip.alternate)
        at.epoch = 0;
    psr_draws draws = psr_draws_of(&at, step);
    const bool flips = psr_draw_unit(&draws) >= 1 - step->as.flip.probability;
    return flips != (step->as.flip.alternate && key->epoch % 2 == 1);
}

psr_box psr_draw_resized_crop(const psr_augment_key *key, const psr_augment_step *step,
                              psr_picture_shape shape)
{
    psr_draws draws = psr_draws_of(key, step);
    const psr_bounds ratio = step->as.resized_crop.ratio;
    const psr_bounds logs = {log(ratio.least), log(ratio.most)};
    const double area = (double)shape.height * shape.width;
    for (int i = 0; i < ATTEMPTS; i++) {
        double target = area * psr_draw_in(&draws, step->as.resized_crop.scale);
        double aspect = exp(psr_draw_in(&draws, logs));
        double width = nearbyint(sqrt(target * aspect));
        double height = nearbyint(sqrt(target / aspect));
        if (width < 1 || height < 1 || width > shape.width || height > shape.height)
            continue;
        psr_box box = {.height = (uint32_t)height, .width = (uint32_t)width};
        box.top = psr_draw_below(&draws, shape.height - box.height + 1);
        box.left = psr_draw_below(&draws, shape.width - box.width + 1);
        return box;
    }
    psr_box box = {0, 0, shape.height, shape.width};
    const double whole = (double)shape.width / shape.height;
    if (whole < ratio.least)
        box.height = (uint32_t)fmax(1, fmin(shape.height, nearbyint(shape.width / ratio.least)));
    else if (whole > ratio.most)
        box.width = (uint32_t)fmax(1, fmin(shape.width, nearbyint(shape.height * ratio.most)));
    box.top = (shape.height - box.height) / 2;
    box.left = (shape.width - box.width) / 2;
    return box;
}

static bool draw_erased(psr_draws *draws, const psr_augment_step *step, psr_picture_shape shape,
                        psr_box *ret_box)
{
    if (psr_draw_unit(draws) < 1 - step->as.erasing.probability)
        return false;
    const psr_bounds ratio = step->as.erasing.ratio;
    const psr_bounds logs = {log(ratio.least), log(ratio.most)};
    const double area = (double)shape.height * shape.width;
    for (int i = 0; i < ATTEMPTS; i++) {
        double target = area * psr_draw_in(draws, step->as.erasing.scale);
        double aspect = exp(psr_draw_in(draws, logs));
        double height = nearbyint(sqrt(target * aspect));
        double width = nearbyint(sqrt(target / aspect));
        if (width < 1 || height < 1 || width >= shape.width || height >= shape.height)
            continue;
        psr_box box = {.height = (uint32_t)height, .width = (uint32_t)width};
        box.top = psr_draw_below(draws, shape.height - box.height + 1);
        box.left = psr_draw_below(draws, shape.width - box.width + 1);
        *ret_box = box;
        return true;
    }
    return false;
}

/* From middle - half to middle + half, cut at 0 and at length. */
static void cut_span(uint32_t middle, uint32_t side, uint32_t length, uint32_t *ret_first,
                     uint32_t *ret_count)
{
    int64_t first = (int64_t)middle - side / 2, last = first + side;
    first = first < 0 ? 0 : first;
    last = last > length ? length : last;
    *ret_first = (uint32_t)first;
    *ret_count = (uint32_t)(last - first);
}

bool psr_draw_hole(const psr_augment_key *key, const psr_augment_step *step,
                   psr_picture_shape shape, psr_box *ret_box)
{
    psr_draws draws = psr_draws_of(key, step);
    if (step->kind == PSR_STEP_RANDOM_ERASING)
        return draw_erased(&draws, step, shape, ret_box);
    uint32_t y = psr_draw_below(&draws, shape.height), x = psr_draw_below(&draws, shape.width);
    cut_span(y, step->as.hole, shape.height, &ret_box->top, &ret_box->height);
    cut_span(x, step->as.hole, shape.width, &ret_box->left, &ret_box->width);
    return true;
}
