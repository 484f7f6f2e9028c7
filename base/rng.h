/* Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC11, section 3.3).
 *
 * A number is a pure function of (seed, purpose, epoch, sample, layer, element): never of rank,
 * thread, batch size or world size. Any thread; no state. */
#ifndef PSR_BASE_RNG_H
#define PSR_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef enum psr_rng_purpose {
    PSR_RNG_INIT = 1,    /* initial weights: layer = tensor's index, element within it */
    PSR_RNG_SHUFFLE = 2, /* order of an epoch */
    PSR_RNG_AUGMENT = 3, /* crop and flip of one sample in one epoch */
    PSR_RNG_DROPOUT = 4, /* masks: epoch, sample, layer = node, element within the sample */
    PSR_RNG_SYNTHETIC = 5,
    PSR_RNG_TEST = 6, /* tests and fault schedules */
} psr_rng_purpose;

/* A place in the space of numbers: everything except the element. */
typedef struct psr_rng_at {
    uint64_t seed;
    psr_rng_purpose purpose;
    uint32_t epoch;
    uint32_t sample;
    uint32_t layer; /* below 2^24 */
} psr_rng_at;

/* Four words for block b: elements 4b..4b+3. Key = seed; counter = (b, sample, epoch,
 * purpose << 24 | layer). */
void psr_rng_block(psr_rng_at at, uint32_t block, uint32_t ret_words[4]);

/* The same for blocks first .. first + count - 1, in half the time: ret_words[4 count]. */
void psr_rng_blocks(psr_rng_at at, uint32_t first, size_t count, uint32_t *ret_words);

/* One word for one element. For loops over elements call psr_rng_block once for four. */
uint32_t psr_rng_word(psr_rng_at at, uint64_t element);

/* Uniform in [0, 1) with 24 bits, from one word. */
float psr_rng_unit(uint32_t word);

/* A uniform integer in [0, bound), bound > 0, without bias (Lemire, "Fast random integer generation
 * in an interval", 2019). It may use several elements of a stream, so it advances the element
 * counter. */
uint32_t psr_rng_below(psr_rng_at at, uint64_t *element, uint32_t bound);

/* Two standard normal numbers for elements 2i and 2i+1 (Box-Muller in double on 53-bit
 * uniforms). */
void psr_rng_normal_pair(psr_rng_at at, uint32_t pair, double ret_normal[2]);

#endif
