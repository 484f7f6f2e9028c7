/* torch.lerp(m, d, take) for one element: computed from the end that is nearer, which has the
 * smaller rounding error. */
#ifndef PSR_MODEL_LERP_H
#define PSR_MODEL_LERP_H

static inline float psr_lerp(float m, float d, float take)
{
    return take < 0.5f ? m + take * (d - m) : d - (d - m) * (1.0f - take);
}

#endif
