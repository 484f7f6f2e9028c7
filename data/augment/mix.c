#include "data/augment/mix.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static psr_mix draw_box(psr_draws *draws, double own, uint32_t side)
{
    const uint32_t x = psr_draw_below(draws, side), y = psr_draw_below(draws, side);
    const uint32_t half = (uint32_t)(0.5 * sqrt(1 - own) * side);
    const uint32_t left = x > half ? x - half : 0, top = y > half ? y - half : 0;
    const uint32_t right = x + half < side ? x + half : side;
    const uint32_t bottom = y + half < side ? y + half : side;
    const psr_box box = {top, left, bottom - top, right - left};
    const double area = (double)box.height * box.width / ((double)side * side);
    return (psr_mix){.share = (float)(1 - area), .has_box = true, .box = box};
}

psr_mix psr_draw_mix(const psr_augment_plan *plan, const psr_augment_key *key, uint32_t count,
                     uint32_t side)
{
    const psr_augment_step *steps = plan->steps + plan->bytes + plan->erasing;
    psr_draws draws = psr_draws_of(key, &steps[0]);
    const uint32_t partner = psr_draw_below(&draws, count);
    const psr_augment_step *step = &steps[psr_draw_below(&draws, plan->mixing)];
    const double own = psr_draw_beta(&draws, step->as.alpha);
    psr_mix mix = {.share = (float)own};
    if (step->kind == PSR_STEP_CUTMIX)
        mix = draw_box(&draws, own, side);
    mix.partner = partner;
    return mix;
}

void psr_mix_apply(const psr_mix *mix, uint32_t channels, uint32_t side, float *image,
                   const float *partner)
{
    const size_t plane = (size_t)side * side;
    if (!mix->has_box) {
        const float own = mix->share, other = 1.0f - own;
        for (size_t i = 0; i < channels * plane; i++)
            image[i] = own * image[i] + other * partner[i];
        return;
    }
    for (uint32_t c = 0; c < channels; c++) {
        for (uint32_t y = mix->box.top; y < mix->box.top + mix->box.height; y++) {
            const size_t at = c * plane + (size_t)y * side + mix->box.left;
            memcpy(image + at, partner + at, mix->box.width * sizeof *image);
        }
    }
}
