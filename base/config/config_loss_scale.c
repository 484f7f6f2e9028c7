/* --loss-scale: reads and prints what model/loss_scale.c goes by. */
#include "base/config/config_table.h"

#include <inttypes.h>
#include <stdio.h>

#define GROWTH_STEPS 2000 /* torch.amp.GradScaler's */

/* Other factors would round the gradients that they are taken out of again. */
static bool read_scale(const char *text, uint32_t *ret_scale)
{
    uint64_t scale;
    if (!psr_parse_u64(text, &scale) || scale < PSR_LOSS_SCALE_LEAST ||
        scale > PSR_LOSS_SCALE_MOST || (scale & (scale - 1)) != 0)
        return false;
    *ret_scale = (uint32_t)scale;
    return true;
}

psr_err psr_config_read_loss_scale(psr_config *config, const char *text)
{
    psr_loss_scaling scaling;
    char scale[32];
    if (!psr_parse_counted(text, scale, sizeof scale, GROWTH_STEPS, &scaling.growth_steps) ||
        !read_scale(scale, &scaling.first))
        return psr_fail(PSR_ERR_USAGE,
                        "'%.64s' is no scale of the loss; give a power of two from %d to %d "
                        "(65536), or S:STEPS with the steps after which it doubles (65536:2000)",
                        text, PSR_LOSS_SCALE_LEAST, PSR_LOSS_SCALE_MOST);
    config->loss_scaling = scaling;
    return PSR_OK;
}

void psr_config_print_loss_scale(const psr_config *config, char *text, size_t size)
{
    const psr_loss_scaling *s = &config->loss_scaling;
    if (s->growth_steps == GROWTH_STEPS)
        snprintf(text, size, "%" PRIu32, s->first);
    else
        snprintf(text, size, "%" PRIu32 ":%" PRIu32, s->first, s->growth_steps);
}
