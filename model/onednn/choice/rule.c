#include "model/onednn/choice/rule.h"

#include <math.h>

/* Winograd has to win clearly: the formula is right to about a tenth. */
#define CLEARLY 0.85

#define TILE 4

/* a and b of the header, by direction and algorithm; a = 0: there is no such one. */
static const struct {
    double of_tiles, of_weights;
} costs[][PSR_ONEDNN_ALGORITHMS] = {
    [PSR_ONEDNN_FORWARD] = {[PSR_ONEDNN_OWN_WINOGRAD] = {0.40, 0.42}},
    [PSR_ONEDNN_BACKWARD_DATA] =
        {[PSR_ONEDNN_OWN_WINOGRAD] = {0.40, 0.42}, [PSR_ONEDNN_WINOGRAD] = {0.38, 0.15}},
    [PSR_ONEDNN_BACKWARD_WEIGHTS] =
        {[PSR_ONEDNN_OWN_WINOGRAD] = {0.37, 0.15}, [PSR_ONEDNN_WINOGRAD] = {0.35, 0.16}},
};
/* Channels with which the transformations take as long as the products. */
#define FEW_CHANNELS 20
/* c: about a million multiplications and additions for each thread beyond the first. */
#define OF_THREADS 1e6

static double tiles_along(uint32_t pixels)
{
    return (double)((pixels + TILE - 1) / TILE);
}

double psr_onednn_rule_ratio(const psr_conv_shape *shape, psr_onednn_direction direction,
                             psr_onednn_algorithm algorithm)
{
    if (algorithm == PSR_ONEDNN_DIRECT)
        return 1;
    const double pixels = (double)shape->images * shape->height * shape->width;
    const double tiles = shape->images * tiles_along(shape->height) * tiles_along(shape->width);
    const double channels = sqrt((double)shape->in * shape->out), threads = shape->threads;
    return costs[direction][algorithm].of_tiles * (1 + FEW_CHANNELS / channels) * TILE * TILE *
               tiles / pixels +
           costs[direction][algorithm].of_weights * channels * threads / pixels +
           OF_THREADS * (threads - 1) / (pixels * channels * channels);
}

psr_onednn_algorithm psr_onednn_rule(const psr_conv_shape *shape, psr_onednn_direction direction,
                                     const bool exists[PSR_ONEDNN_ALGORITHMS])
{
    psr_onednn_algorithm best = PSR_ONEDNN_DIRECT;
    double least = CLEARLY;
    for (int i = PSR_ONEDNN_DIRECT + 1; i < PSR_ONEDNN_ALGORITHMS; i++) {
        const psr_onednn_algorithm algorithm = (psr_onednn_algorithm)i;
        if (!exists[i] || costs[direction][i].of_tiles == 0)
            continue;
        const double ratio = psr_onednn_rule_ratio(shape, direction, algorithm);
        if (ratio < least) {
            best = algorithm;
            least = ratio;
        }
    }
    return best;
}
