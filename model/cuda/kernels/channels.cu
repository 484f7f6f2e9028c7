/* What knows channels: gates, batch norm by running statistics, option A's shortcut. */
#include "model/cuda/kernels/lanes.h"
#include "model/cuda/kernels/values.h"

/* i / by: 32 bits take a third of the time of 64. */
PSR_DEVICE uint64_t psr_channels_over(uint64_t i, uint32_t by)
{
    return i >> 32 == 0 ? (uint32_t)i / by : i / by;
}

PSR_KERNEL(gate)
{
    const uint32_t all = psr_device_aligned(args.x) && psr_device_aligned(args.s) &&
                         psr_device_aligned(args.y) && args.channels % PSR_DEVICE_GROUP == 0;
    const uint64_t count = (uint64_t)args.samples * args.pixels * args.channels;
    const uint64_t groups = all ? count / PSR_DEVICE_GROUP : 0;
    const uint32_t across = args.channels / PSR_DEVICE_GROUP;
    PSR_EACH(i, groups)
    {
        const uint64_t row = psr_channels_over(i, across), n = psr_channels_over(row, args.pixels);
        float x[PSR_DEVICE_GROUP], s[PSR_DEVICE_GROUP];
        psr_device_get_group(args.x, args.type, i, x);
        psr_device_get_group(args.s, args.type, n * across + (i - row * across), s);
        PSR_UNROLL
        for (uint32_t k = 0; k < PSR_DEVICE_GROUP; k++)
            x[k] *= s[k];
        psr_device_set_group(args.y, args.type, i, x);
    }
    if (all)
        return;
    PSR_EACH(i, count)
    {
        const uint64_t row = psr_channels_over(i, args.channels);
        const uint64_t n = psr_channels_over(row, args.pixels);
        const float s =
            psr_device_get(args.s, args.type, n * args.channels + (i - row * args.channels));
        psr_device_set(args.y, args.type, i, psr_device_get(args.x, args.type, i) * s);
    }
}

/* A block takes 16 channels of a sample. */
PSR_KERNEL(gate_backward)
{
    PSR_SHARED(float, sums, PSR_KERNEL_THREADS);
    const uint32_t C = args.channels, across = (C + PSR_LANES - 1) / PSR_LANES;
    const uint64_t parts = (uint64_t)args.samples * across;
    for (uint64_t part = PSR_BLOCK; part < parts; part += PSR_BLOCKS) {
        const uint64_t n = part / across;
        const uint32_t c = (uint32_t)(part % across) * PSR_LANES + PSR_LANE;
        float sum = 0;
        if (c < C) {
            const float s = psr_device_get(args.s, args.type, n * C + c);
            for (uint32_t p = PSR_LANE_FIRST; p < args.pixels; p += PSR_LANE_STEP) {
                const uint64_t at = (n * args.pixels + p) * C + c;
                const float dy = psr_device_get(args.dy, args.type, at);
                if (args.ds != NULL)
                    sum = PSR_MULTIPLY_ADD(dy, psr_device_get(args.x, args.type, at), sum);
                if (args.dx != NULL)
                    psr_device_set(args.dx, args.type, at, dy * s);
            }
        }
        sum = psr_lanes_sum(sums, sum);
        if (args.ds != NULL && PSR_THREAD < PSR_LANES && c < C)
            psr_device_set(args.ds, args.type, n * C + c, sum);
    }
}

PSR_KERNEL(scale_of_norm)
{
    PSR_EACH(c, args.channels)
    {
        const double scale =
            (double)args.weight[c] / sqrt((double)args.variance[c] + (double)args.epsilon);
        args.scale[c] = (float)scale;
        args.shift[c] = (float)((double)args.bias[c] - (double)args.mean[c] * scale);
    }
}

/* dscale and dbias: a block sums 16 channels. */
PSR_DEVICE void psr_norm_sums(const psr_cuda_norm_gradient_args *args, float *sums)
{
    const uint32_t C = args->channels;
    for (uint32_t c0 = PSR_BLOCK * PSR_LANES; c0 < C; c0 += PSR_BLOCKS * PSR_LANES) {
        const uint32_t c = c0 + PSR_LANE;
        float dbias = 0, dscale = 0;
        if (c < C) {
            const float mean = args->mean[c];
            for (uint64_t r = PSR_LANE_FIRST; r < args->rows; r += PSR_LANE_STEP) {
                const float dy = psr_device_get(args->dy, args->type, r * C + c);
                const float off = psr_device_get(args->x, args->type, r * C + c) - mean;
                dbias += dy;
                dscale = PSR_MULTIPLY_ADD(dy, off, dscale);
            }
        }
        dbias = psr_lanes_sum(sums, dbias);
        dscale = psr_lanes_sum(sums, dscale);
        if (PSR_THREAD < PSR_LANES && c < C) {
            const double deviation = sqrt((double)args->variance[c] + (double)args->epsilon);
            args->dbias[c] = dbias;
            args->dscale[c] = (float)((double)dscale / deviation);
        }
    }
}

PSR_KERNEL(norm_gradient)
{
    PSR_SHARED(float, sums, PSR_KERNEL_THREADS);
    if (args.dscale != NULL)
        psr_norm_sums(&args, sums);
    if (args.dx == NULL)
        return;
    /* The slope is computed for each value, while the GPU waits for memory. */
    const uint64_t count = args.rows * args.channels;
    PSR_EACH(i, count)
    {
        const uint32_t c = (uint32_t)(i - psr_channels_over(i, args.channels) * args.channels);
        const float slope = args.weight[c] / sqrtf(args.variance[c] + args.epsilon);
        psr_device_set(args.dx, args.type, i, slope * psr_device_get(args.dy, args.type, i));
    }
}

/* ---- option A ---- */

/* Where a value of an image lies: [sample,row,column,channel]. */
typedef struct psr_channels_place {
    uint64_t n;
    uint32_t h, w, c;
} psr_channels_place;

PSR_DEVICE psr_channels_place psr_channels_place_of(uint64_t i, uint32_t height, uint32_t width,
                                                    uint32_t channels)
{
    psr_channels_place at;
    const uint64_t pixel = psr_channels_over(i, channels), row = psr_channels_over(pixel, width);
    at.c = (uint32_t)(i - pixel * channels);
    at.w = (uint32_t)(pixel - row * width);
    at.n = psr_channels_over(row, height);
    at.h = (uint32_t)(row - at.n * height);
    return at;
}

PSR_KERNEL(shortcut)
{
    const uint32_t height = (args.height - 1) / args.stride + 1;
    const uint32_t width = (args.width - 1) / args.stride + 1;
    const uint32_t before = (args.out - args.in) / 2; /* new channels before the old ones */
    const uint64_t count = (uint64_t)args.samples * height * width * args.out;
    PSR_EACH(i, count)
    {
        const psr_channels_place to = psr_channels_place_of(i, height, width, args.out);
        float value = 0;
        if (to.c >= before && to.c - before < args.in)
            value = psr_device_get(
                args.x, args.type,
                ((to.n * args.height + to.h * args.stride) * args.width + to.w * args.stride) *
                        args.in +
                    to.c - before);
        psr_device_set(args.y, args.type, i, value);
    }
}

PSR_KERNEL(shortcut_backward)
{
    const uint32_t height = (args.height - 1) / args.stride + 1;
    const uint32_t width = (args.width - 1) / args.stride + 1;
    const uint32_t before = (args.out - args.in) / 2;
    const uint64_t count = (uint64_t)args.samples * args.height * args.width * args.in;
    PSR_EACH(i, count)
    {
        const psr_channels_place to = psr_channels_place_of(i, args.height, args.width, args.in);
        float value = 0;
        if (to.h % args.stride == 0 && to.w % args.stride == 0)
            value = psr_device_get(
                args.x, args.type,
                ((to.n * height + to.h / args.stride) * width + to.w / args.stride) * args.out +
                    before + to.c);
        psr_device_set(args.y, args.type, i, value);
    }
}
