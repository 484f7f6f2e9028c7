/* Runs of the arena, in float32: sgd, adam and finite. Every operation rounds as the CPU's
 * does, so that bits are equal: nvcc is told not to contract any (-fmad=false). */
#include "model/cuda/kernels/values.h"

/* Values before the first multiple of 16 bytes. */
PSR_DEVICE uint32_t psr_arena_head(const float *x)
{
    return (uint32_t)(0 - (uintptr_t)x / sizeof(float)) & 3u;
}

/* How a run is walked: single values up to head, groups, single values again. */
typedef struct psr_arena_walk {
    uint32_t group; /* values of one */
    uint64_t head, groups, singles;
} psr_arena_walk;

PSR_DEVICE psr_arena_walk psr_arena_walk_of(uint64_t count, uint32_t group, uint32_t head,
                                            uint32_t all_alike)
{
    psr_arena_walk walk;
    walk.group = group;
    walk.head = head < count ? head : count;
    walk.groups = all_alike ? (count - walk.head) / group : 0;
    walk.singles = count - walk.groups * group;
    return walk;
}

/* The single value of that number. */
PSR_DEVICE uint64_t psr_arena_single(const psr_arena_walk *walk, uint64_t i)
{
    return i < walk->head ? i : i + walk->groups * walk->group;
}

PSR_DEVICE void psr_arena_get(const float *x, uint64_t group, float values[PSR_DEVICE_GROUP])
{
    psr_device_get_group(x, PSR_CUDA_FLOAT32, group, values);
}

PSR_DEVICE void psr_arena_set(float *x, uint64_t group, const float values[PSR_DEVICE_GROUP])
{
    psr_device_set_group(x, PSR_CUDA_FLOAT32, group, values);
}

PSR_DEVICE void psr_arena_get_four(const float *x, uint64_t i, float values[4])
{
    uint32_t words[4];
    psr_device_get_words(x, i, words);
    PSR_UNROLL
    for (uint32_t k = 0; k < 4; k++)
        values[k] = PSR_FLOAT_OF(words[k]);
}

PSR_DEVICE void psr_arena_set_four(float *x, uint64_t i, const float values[4])
{
    uint32_t words[4];
    PSR_UNROLL
    for (uint32_t k = 0; k < 4; k++)
        words[k] = PSR_BITS(values[k]);
    psr_device_set_words(x, i, words);
}

/* v: NULL without momentum. */
PSR_DEVICE void psr_arena_sgd(const psr_cuda_sgd_args *args, float *w, float g, float *v)
{
    const float d = g + args->decay * *w;
    if (v == NULL) {
        *w -= args->lr * d;
        return;
    }
    *v = args->momentum * *v + d;
    *w -= args->lr * (args->nesterov ? d + args->momentum * *v : *v);
}

PSR_KERNEL(sgd)
{
    const uint32_t with_momentum = args.momentum_buffer != NULL, head = psr_arena_head(args.w);
    const uint32_t alike = psr_arena_head(args.g) == head &&
                           (!with_momentum || psr_arena_head(args.momentum_buffer) == head);
    const psr_arena_walk walk = psr_arena_walk_of(args.count, PSR_DEVICE_GROUP, head, alike);
    PSR_EACH(i, walk.groups)
    {
        float w[PSR_DEVICE_GROUP], g[PSR_DEVICE_GROUP], v[PSR_DEVICE_GROUP];
        psr_arena_get(args.w + walk.head, i, w);
        psr_arena_get(args.g + walk.head, i, g);
        if (with_momentum)
            psr_arena_get(args.momentum_buffer + walk.head, i, v);
        PSR_UNROLL
        for (uint32_t k = 0; k < PSR_DEVICE_GROUP; k++)
            psr_arena_sgd(&args, &w[k], g[k], with_momentum ? &v[k] : NULL);
        psr_arena_set(args.w + walk.head, i, w);
        if (with_momentum)
            psr_arena_set(args.momentum_buffer + walk.head, i, v);
    }
    PSR_EACH(i, walk.singles)
    {
        const uint64_t at = psr_arena_single(&walk, i);
        psr_arena_sgd(&args, args.w + at, args.g[at],
                      with_momentum ? args.momentum_buffer + at : NULL);
    }
}

PSR_DEVICE void psr_arena_adam(const psr_cuda_adam_args *args, float *w, float g, float *m,
                               float *v)
{
    const float d = g + args->decay * *w, kept = *w * args->keep, take = args->mean_take;
    *m = take < 0.5f ? *m + take * (d - *m) : d - (d - *m) * (1.0f - take);
    *v = *v * args->square_keep + args->square_take * d * d;
    const float denominator = sqrtf(*v) / args->correction + args->epsilon;
    *w = kept + args->step * *m / denominator;
}

/* Four at a time: eight would not find room in a thread's registers. */
PSR_KERNEL(adam)
{
    const uint32_t head = psr_arena_head(args.w);
    const uint32_t alike = psr_arena_head(args.g) == head && psr_arena_head(args.m) == head &&
                           psr_arena_head(args.v) == head;
    const psr_arena_walk walk = psr_arena_walk_of(args.count, 4, head, alike);
    PSR_EACH(i, walk.groups)
    {
        float w[4], g[4], m[4], v[4];
        psr_arena_get_four(args.w + walk.head, i, w);
        psr_arena_get_four(args.g + walk.head, i, g);
        psr_arena_get_four(args.m + walk.head, i, m);
        psr_arena_get_four(args.v + walk.head, i, v);
        PSR_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            psr_arena_adam(&args, &w[k], g[k], &m[k], &v[k]);
        psr_arena_set_four(args.w + walk.head, i, w);
        psr_arena_set_four(args.m + walk.head, i, m);
        psr_arena_set_four(args.v + walk.head, i, v);
    }
    PSR_EACH(i, walk.singles)
    {
        const uint64_t at = psr_arena_single(&walk, i);
        psr_arena_adam(&args, args.w + at, args.g[at], args.m + at, args.v + at);
    }
}

/* Whether the exponent is the one that infinities and NaNs have. */
PSR_DEVICE uint32_t psr_arena_is_odd(float value)
{
    return (PSR_BITS(value) & 0x7f800000u) == 0x7f800000u;
}

PSR_KERNEL(finite)
{
    const psr_arena_walk walk =
        psr_arena_walk_of(args.count, PSR_DEVICE_GROUP, psr_arena_head(args.x), 1);
    uint32_t odd = 0;
    PSR_EACH(i, walk.groups)
    {
        float x[PSR_DEVICE_GROUP];
        psr_arena_get(args.x + walk.head, i, x);
        PSR_UNROLL
        for (uint32_t k = 0; k < PSR_DEVICE_GROUP; k++) {
            x[k] *= args.factor;
            odd |= psr_arena_is_odd(x[k]);
        }
        if (args.factor != 1)
            psr_arena_set(args.x + walk.head, i, x);
    }
    PSR_EACH(i, walk.singles)
    {
        const uint64_t at = psr_arena_single(&walk, i);
        const float x = args.x[at] * args.factor;
        odd |= psr_arena_is_odd(x);
        if (args.factor != 1)
            args.x[at] = x;
    }
    if (odd)
        PSR_WRITE_ALIKE(args.not_finite, 1u);
}
