/* Value by value: cast and add. Eight at once where the arrays begin at multiples of 16 bytes. */
#include "model/cuda/kernels/values.h"

PSR_KERNEL(cast)
{
    const uint32_t both = psr_device_aligned(args.x) && psr_device_aligned(args.y);
    const uint64_t groups = both ? args.count / PSR_DEVICE_GROUP : 0;
    PSR_EACH(i, groups)
    {
        float values[PSR_DEVICE_GROUP];
        psr_device_get_group(args.x, args.from, i, values);
        psr_device_set_group(args.y, args.to, i, values);
    }
    const uint64_t done = groups * PSR_DEVICE_GROUP;
    PSR_EACH(i, args.count - done)
    psr_device_set(args.y, args.to, done + i, psr_device_get(args.x, args.from, done + i));
}

PSR_KERNEL(add)
{
    const uint32_t all =
        psr_device_aligned(args.a) && psr_device_aligned(args.b) && psr_device_aligned(args.y);
    const uint64_t groups = all ? args.count / PSR_DEVICE_GROUP : 0;
    PSR_EACH(i, groups)
    {
        float a[PSR_DEVICE_GROUP], b[PSR_DEVICE_GROUP];
        psr_device_get_group(args.a, args.type, i, a);
        psr_device_get_group(args.b, args.type, i, b);
        PSR_UNROLL
        for (uint32_t k = 0; k < PSR_DEVICE_GROUP; k++)
            a[k] += b[k];
        psr_device_set_group(args.y, args.type, i, a);
    }
    const uint64_t done = groups * PSR_DEVICE_GROUP;
    PSR_EACH(i, args.count - done)
    psr_device_set(args.y, args.type, done + i,
                   psr_device_get(args.a, args.type, done + i) +
                       psr_device_get(args.b, args.type, done + i));
}

/* What is no number stays none forward, as cuDNN has it. */
PSR_KERNEL(relu)
{
    PSR_EACH(i, args.count)
    {
        const float x = psr_device_get(args.x, args.type, i);
        float y = x < 0 ? 0 : x;
        if (args.dy != NULL)
            y = x > 0 ? psr_device_get(args.dy, args.type, i) : 0;
        psr_device_set(args.y, args.type, i, y);
    }
}
