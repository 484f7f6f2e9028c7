#include "model/optimizers/ema.h"

#include "base/arrays/multiversion.h"
#include "model/optimizers/lerp.h"
#include "model/optimizers/optimizer.h"

#include <string.h>

PSR_MULTIVERSION static void average_all(float *restrict e, const float *restrict w, size_t count,
                                         float take)
{
    for (size_t i = 0; i < count; i++)
        e[i] = psr_lerp(e[i], w[i], take);
}

/* Whether the last averaging before this update was a copy, or there was none. */
static bool copies(const psr_config *config, uint64_t number)
{
    const uint64_t last = (number - 1) / config->ema.every * config->ema.every;
    return last == 0 || psr_schedule_warms_up(config, last - 1);
}

void psr_ema_follow(const psr_config *config, uint64_t number, const float *values, float *average,
                    size_t count)
{
    if (copies(config, number))
        memcpy(average, values, count * sizeof *average);
    else if (number % config->ema.every == 0)
        average_all(average, values, count, (float)(1.0 - config->ema.decay));
}
