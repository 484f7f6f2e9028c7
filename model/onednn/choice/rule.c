#include "model/onednn/choice/rule.h"

#include <math.h>

/* Winograd has to win clearly: the formula is right to about a tenth. */
#define CLEARLY 0.85

/* a and b of the header; a = 0: there is no such algorithm. */
typedef struct cost {
    double of_tiles, of_weights;
} cost;

static const cost float32_costs[][PSR_ONEDNN_ALGORITHMS] = {
    [PSR_ONEDNN_FORWARD] = {[PSR_ONEDNN_OWN_WINOGRAD] = {0.40, 0.42}},
    [PSR_ONEDNN_BACKWARD_DATA] =
        {[PSR_ONEDNN_OWN_WINOGRAD] = {0.40, 0.42}, [PSR_ONEDNN_WINOGRAD] = {0.38, 0.15}},
    [PSR_ONEDNN_BACKWARD_WEIGHTS] =
        {[PSR_ONEDNN_OWN_WINOGRAD] = {0.37, 0.15}, [PSR_ONEDNN_WINOGRAD] = {0.35, 0.16}},
};

static const cost bf16_costs[][PSR_ONEDNN_ALGORITHMS] = {
    [PSR_ONEDNN_FORWARD] = {[PSR_ONEDNN_OWN_WINOGRAD] = {0.50, 0.20}},
    [PSR_ONEDNN_BACKWARD_DATA] = {[PSR_ONEDNN_OWN_WINOGRAD] = {0.50, 0.10}},
    [PSR_ONEDNN_BACKWARD_WEIGHTS] = {[PSR_ONEDNN_OWN_WINOGRAD] = {0.65, 0.10}},
};

static const cost *cost_of(const psr_conv_shape *shape, psr_onednn_direction direction,
                           psr_onednn_algorithm algorithm)
{
    return shape->bf16 ? &bf16_costs[direction][algorithm] : &float32_costs[direction][algorithm];
}

/* Channels with which the transformations take as long as the products. */
#define FEW_CHANNELS 20
/* c: about a million multiplications and additions for each thread beyond the first. */
#define OF_THREADS 1e6

static double tiles_along(uint32_t pixels, uint32_t tile)
{
    return (double)((pixels + tile - 1) / tile);
}

double psr_onednn_rule_ratio(const psr_conv_shape *shape, psr_onednn_direction direction,
                             psr_onednn_algorithm algorithm)
{
    if (algorithm == PSR_ONEDNN_DIRECT)
        return 1;
    const double pixels = (double)shape->images * shape->height * shape->width;
    const cost *c = cost_of(shape, direction, algorithm);
    const uint32_t tile = shape->bf16 ? 2 : 4;
    const double tiles =
        shape->images * tiles_along(shape->height, tile) * tiles_along(shape->width, tile);
    const double channels = sqrt((double)shape->in * shape->out), threads = shape->threads;
    return c->of_tiles * (1 + FEW_CHANNELS / channels) * tile * tile * tiles / pixels +
           c->of_weights * channels * threads / pixels +
           OF_THREADS * (threads - 1) / (pixels * channels * channels);
}

psr_onednn_algorithm psr_onednn_rule(const psr_conv_shape *shape, psr_onednn_direction direction,
                                     const bool exists[PSR_ONEDNN_ALGORITHMS])
{
    psr_onednn_algorithm best = PSR_ONEDNN_DIRECT;
    double least = CLEARLY;
    for (int i = PSR_ONEDNN_DIRECT + 1; i < PSR_ONEDNN_ALGORITHMS; i++) {
        const psr_onednn_algorithm algorithm = (psr_onednn_algorithm)i;
        if (!exists[i] || cost_of(shape, direction, algorithm)->of_tiles == 0)
            continue;
        const double ratio = psr_onednn_rule_ratio(shape, direction, algorithm);
        if (ratio < least) {
            best = algorithm;
            least = ratio;
        }
    }
    return best;
}
