/* Dropout by the CPU's random numbers: base/rng.c, model/dropout.c. */
#include "model/cuda/kernels/values.h"

#define PSR_DROPOUT_PURPOSE 4u /* PSR_RNG_DROPOUT */

/* Philox4x32-10: the four words of a block. */
PSR_DEVICE void psr_dropout_words(const psr_cuda_dropout_args *args, uint32_t sample,
                                  uint32_t block, uint32_t words[4])
{
    uint32_t k0 = (uint32_t)args->seed, k1 = (uint32_t)(args->seed >> 32);
    words[0] = block;
    words[1] = sample;
    words[2] = args->epoch;
    words[3] = PSR_DROPOUT_PURPOSE << 24 | (args->node & 0xffffffu);
    for (uint32_t round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)0xd2511f53u * words[0];
        const uint64_t product1 = (uint64_t)0xcd9e8d57u * words[2];
        words[0] = (uint32_t)(product1 >> 32) ^ words[1] ^ k0;
        words[1] = (uint32_t)product1;
        words[2] = (uint32_t)(product0 >> 32) ^ words[3] ^ k1;
        words[3] = (uint32_t)product0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

PSR_DEVICE void psr_dropout_value(const psr_cuda_dropout_args *args, uint64_t at, uint32_t word)
{
    const float unit = (float)(word >> 8) * 5.9604644775390625e-8f; /* 2^-24 */
    const float value = psr_device_get(args->x, args->type, at);
    psr_device_set(args->y, args->type, at, unit >= args->drop ? value * args->scale : 0);
}

/* The four elements of a block of random numbers by one thread. They are counted in the order
 * channel, pixel; neighbouring threads take neighbouring channels where blocks hold pixels of one
 * channel alone. */
PSR_DEVICE void psr_dropout_of_elements(const psr_cuda_dropout_args *args)
{
    const uint32_t C = args->channels, P = args->height * args->width, size = C * P;
    const uint32_t quads = size / 4 + (size % 4 != 0), of_channel = P % 4 == 0 ? P / 4 : 0;
    const uint64_t count = (uint64_t)args->count * quads;
    PSR_EACH(i, count)
    {
        const uint64_t n = i / quads;
        const uint32_t j = (uint32_t)(i - n * quads);
        const uint32_t quad = of_channel != 0 ? j % C * of_channel + j / C : j;
        uint32_t words[4];
        psr_dropout_words(args, args->samples[n], quad, words);
        PSR_UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t element = 4 * quad + k;
            if (element < size)
                psr_dropout_value(args, (n * P + element % P) * C + element / P, words[k]);
        }
    }
}

/* Four channels of a pixel. */
PSR_DEVICE void psr_dropout_of_channels(const psr_cuda_dropout_args *args)
{
    const uint32_t C = args->channels, P = args->height * args->width;
    const uint32_t quads = C / 4 + (C % 4 != 0);
    const uint64_t count = (uint64_t)args->count * P * quads;
    PSR_EACH(i, count)
    {
        const uint64_t pixel = i / quads;
        const uint32_t quad = (uint32_t)(i - pixel * quads);
        uint32_t words[4];
        psr_dropout_words(args, args->samples[pixel / P], quad, words);
        PSR_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            if (4 * quad + k < C)
                psr_dropout_value(args, pixel * C + 4 * quad + k, words[k]);
    }
}

PSR_KERNEL(dropout)
{
    if (args.whole_channels)
        psr_dropout_of_channels(&args);
    else
        psr_dropout_of_elements(&args);
}
