#include "base/rng.h"

#include "base/arrays/multiversion.h"

#include <math.h>

/* Philox4x32-10, Salmon et al., SC11, section 3.3: per round, with counter (c0, c1, c2, c3) and key
 * (k0, k1),
 *     hi0:lo0 = M0 * c0,  hi1:lo1 = M1 * c2,
 *     counter = (hi1 ^ c1 ^ k0, lo1, hi0 ^ c3 ^ k1, lo0),  key += (W0, W1). */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

/* One round. A macro, because the compiler takes several counters at a time only where the rounds
 * are no loop. */
#define PHILOX_ROUND(c0, c1, c2, c3, k0, k1)                                                       \
    do {                                                                                           \
        const uint64_t product0 = (uint64_t)PHILOX_M0 * c0, product1 = (uint64_t)PHILOX_M1 * c2;   \
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;                                                 \
        c1 = (uint32_t)product1;                                                                   \
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;                                                 \
        c3 = (uint32_t)product0;                                                                   \
        k0 += PHILOX_W0;                                                                           \
        k1 += PHILOX_W1;                                                                           \
    } while (0)

/* The last word of a counter, which has no block in it. */
static uint32_t counter_end(psr_rng_at at)
{
    return (uint32_t)at.purpose << 24 | (at.layer & 0xFFFFFFu);
}

void psr_rng_block(psr_rng_at at, uint32_t block, uint32_t ret_words[4])
{
    uint32_t c0 = block, c1 = at.sample, c2 = at.epoch, c3 = counter_end(at);
    uint32_t k0 = (uint32_t)at.seed, k1 = (uint32_t)(at.seed >> 32);
    for (int round = 0; round < 10; round++)
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
    ret_words[0] = c0;
    ret_words[1] = c1;
    ret_words[2] = c2;
    ret_words[3] = c3;
}

PSR_MULTIVERSION static void blocks_at_once(psr_rng_at at, uint32_t first, size_t count,
                                            uint32_t *ret_words)
{
    const uint32_t last = counter_end(at), key0 = (uint32_t)at.seed,
                   key1 = (uint32_t)(at.seed >> 32);
    for (size_t i = 0; i < count; i++) {
        uint32_t c0 = first + (uint32_t)i, c1 = at.sample, c2 = at.epoch, c3 = last;
        uint32_t k0 = key0, k1 = key1;
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        PHILOX_ROUND(c0, c1, c2, c3, k0, k1);
        ret_words[4 * i] = c0;
        ret_words[4 * i + 1] = c1;
        ret_words[4 * i + 2] = c2;
        ret_words[4 * i + 3] = c3;
    }
}

void psr_rng_blocks(psr_rng_at at, uint32_t first, size_t count, uint32_t *ret_words)
{
    blocks_at_once(at, first, count, ret_words);
}

uint32_t psr_rng_word(psr_rng_at at, uint64_t element)
{
    uint32_t words[4];
    psr_rng_block(at, (uint32_t)(element / 4), words);
    return words[element % 4];
}

float psr_rng_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

uint32_t psr_rng_below(psr_rng_at at, uint64_t *element, uint32_t bound)
{
    /* Lemire's multiply: the high half is the answer, unless the low half falls into the 2^32 mod
     * bound values that would make some answers likelier than others. */
    uint32_t reject_below = (uint32_t)-bound % bound;
    for (;;) {
        uint64_t product = (uint64_t)psr_rng_word(at, (*element)++) * bound;
        if ((uint32_t)product >= reject_below)
            return (uint32_t)(product >> 32);
    }
}

/* (0, 1]: the logarithm below is finite. */
static double uniform53(uint32_t high, uint32_t low)
{
    uint64_t bits = ((uint64_t)high << 32 | low) >> 11;
    return (double)(bits + 1) * 0x1p-53;
}

void psr_rng_normal_pair(psr_rng_at at, uint32_t pair, double ret_normal[2])
{
    uint32_t words[4];
    psr_rng_block(at, pair, words);
    double radius = sqrt(-2.0 * log(uniform53(words[0], words[1])));
    double angle = 6.283185307179586476925286766559 * uniform53(words[2], words[3]);
    ret_normal[0] = radius * cos(angle);
    ret_normal[1] = radius * sin(angle);
}
