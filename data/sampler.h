/* The distributed sampler: which samples, in which order, a rank sees in an epoch. Pure functions
 * of (seed, epoch, count, workers, partition): threads and order of arrival change nothing. As in
 * torch.utils.data.DistributedSampler, rank r takes positions r, r+n, r+2n, .. of the epoch's
 * order.
 *   exact: every sample exactly once across ranks; the last ranks may have one fewer;
 *   drop:  samples at the end are left out, so that n divides the rest (drop_last=True);
 *   pad:   samples from the order's head are added until n divides it (drop_last=False).
 * With copies c (repeated augmentation: Hoffer et al., "Augment your batch", 2020; Berman et al.,
 * "MultiGrain", 2019) position p of the order holds what position p / c holds without: each of the
 * first count / c samples stands c times in a row, so that its copies go to different ranks, and
 * the epoch is as long as before (torchvision's RASampler).
 * An epoch has ceil(largest share / batch_size) steps. All ranks take all of them; a rank whose
 * share has run out contributes an empty batch. With drop_last the steps end where the first batch
 * would be incomplete. Steps take the order from its head, so what is left of an epoch is a shorter
 * order, of the samples after the first `used`, and can be dealt out to other workers. Any
 * thread. */
#ifndef PSR_DATA_SAMPLER_H
#define PSR_DATA_SAMPLER_H

#include "base/config/config.h"

typedef struct psr_sampler {
    uint64_t seed;
    uint32_t count, workers, batch_size;
    psr_partition partition;
    bool shuffle;
    bool drop_last;
    uint32_t used;           /* samples at the order's head that are not dealt out any more */
    uint32_t shuffle_buffer; /* 0: a shuffle of the whole epoch */
    uint32_t copies;         /* of each sample in an epoch, which then has fewer samples; 0 is 1 */
} psr_sampler;

/* Samples of rank in one epoch. */
uint32_t psr_sampler_share(const psr_sampler *sampler, uint32_t rank);
/* How it deals out an epoch. */
psr_deal psr_sampler_deal(const psr_sampler *sampler);
/* Steps in one epoch, the same for every rank. */
uint32_t psr_sampler_steps(const psr_sampler *sampler);
/* Size of rank's batch at step (0-based in the epoch); may be 0. */
uint32_t psr_sampler_batch(const psr_sampler *sampler, uint32_t rank, uint32_t step);
/* The fewest samples of a batch of the epoch that is not empty. */
uint32_t psr_sampler_least_batch(const psr_sampler *sampler);
/* Sum of psr_sampler_batch over all ranks: the N of the mean. */
uint32_t psr_sampler_global_batch(const psr_sampler *sampler, uint32_t step);

/* The epoch's order, count entries: Fisher-Yates from PSR_RNG_SHUFFLE when shuffle, else
 * 0..count-1; then copies. With a shuffle_buffer of K as streaming loaders do (tf.data's shuffle):
 * a buffer has the first K samples; each entry is a random one of the buffer, whose place the next
 * sample takes. order: count entries, caller's. */
void psr_sampler_order(const psr_sampler *sampler, uint32_t epoch, uint32_t *order);
/* Which copy of its sample (0..copies-1) entry i of rank's share is. */
uint32_t psr_sampler_copy(const psr_sampler *sampler, uint32_t rank, uint32_t i);
/* The samples of rank, in their order, after the used ones. share: psr_sampler_share entries.
 * order: from psr_sampler_order. */
void psr_sampler_select(const psr_sampler *sampler, const uint32_t *order, uint32_t rank,
                        uint32_t *share);

#endif
