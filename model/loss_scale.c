#include "model/loss_scale.h"

/* Of the count of steps: a float has 24 bits. */
#define DIGIT (1u << 24)

psr_loss_scale psr_loss_scale_first(const psr_config *config, const psr_loss_scale *saved)
{
    const bool scales = psr_config_scales_loss(config);
    if (scales && saved->scale > 0)
        return *saved;
    return (psr_loss_scale){.scale = scales ? config->loss_scaling.first : 0,
                            .skipped = saved->skipped};
}

bool psr_loss_scale_is_saved(const psr_loss_scale *scale)
{
    return scale->scale > 0 || scale->skipped > 0;
}

psr_err psr_loss_scale_step(const psr_config *config, bool taken, psr_loss_scale *scale)
{
    if (!taken && scale->scale == PSR_LOSS_SCALE_LEAST)
        return psr_fail(PSR_ERR_NUMERIC,
                        "the gradient is not finite in fp16, though the loss is not scaled any "
                        "more; a lower --lr, --warmup or --precision bf16 would be right");
    scale->skipped += !taken;
    scale->taken = taken ? scale->taken + 1 : 0;
    if (!taken)
        scale->scale /= 2;
    if (scale->taken < config->loss_scaling.growth_steps)
        return PSR_OK;
    scale->taken = 0;
    if (scale->scale < PSR_LOSS_SCALE_MOST)
        scale->scale *= 2;
    return PSR_OK;
}

/* ---- in a checkpoint ---- */

void psr_loss_scale_to_floats(const psr_loss_scale *scale,
                              float ret_numbers[static PSR_LOSS_SCALE_NUMBERS])
{
    ret_numbers[0] = (float)scale->scale;
    ret_numbers[1] = (float)scale->taken; /* below --loss-scale's STEPS */
    ret_numbers[2] = (float)(scale->skipped / DIGIT);
    ret_numbers[3] = (float)(scale->skipped % DIGIT);
}

static bool is_whole(float number, uint32_t most)
{
    return number >= 0 && number <= (float)most && number == (float)(uint32_t)number;
}

bool psr_loss_scale_from_floats(const float numbers[static PSR_LOSS_SCALE_NUMBERS],
                                psr_loss_scale *ret_scale)
{
    if (!is_whole(numbers[0], PSR_LOSS_SCALE_MOST) || !is_whole(numbers[1], DIGIT) ||
        !is_whole(numbers[2], DIGIT) || !is_whole(numbers[3], DIGIT - 1))
        return false;
    const psr_loss_scale scale = {.scale = (uint32_t)numbers[0],
                                  .taken = (uint32_t)numbers[1],
                                  .skipped = (uint64_t)numbers[2] * DIGIT + (uint32_t)numbers[3]};
    if (!psr_loss_scale_is_saved(&scale) || (scale.scale & (scale.scale - 1)) != 0 ||
        (scale.scale == 0 && scale.taken > 0))
        return false;
    *ret_scale = scale;
    return true;
}
