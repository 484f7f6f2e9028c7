#include "data/sampler.h"

#include "base/rng.h"

static uint32_t dealt(const psr_sampler *sampler)
{
    return sampler->used < sampler->count ? sampler->count - sampler->used : 0;
}

uint32_t psr_sampler_share(const psr_sampler *sampler, uint32_t rank)
{
    uint32_t whole = dealt(sampler) / sampler->workers;
    uint32_t left = dealt(sampler) % sampler->workers;
    switch (sampler->partition) {
    case PSR_PARTITION_DROP:
        return whole;
    case PSR_PARTITION_PAD:
        return whole + (left > 0);
    case PSR_PARTITION_EXACT:
        break;
    }
    return whole + (rank < left);
}

psr_deal psr_sampler_deal(const psr_sampler *sampler)
{
    return (psr_deal){.count = sampler->count,
                      .workers = sampler->workers,
                      .batch_size = sampler->batch_size,
                      .partition = (uint32_t)sampler->partition,
                      .drop_last = sampler->drop_last};
}

uint32_t psr_sampler_steps(const psr_sampler *sampler)
{
    const psr_deal deal = psr_sampler_deal(sampler);
    return (uint32_t)psr_deal_steps(&deal, sampler->used);
}

uint32_t psr_sampler_batch(const psr_sampler *sampler, uint32_t rank, uint32_t step)
{
    uint64_t begin = (uint64_t)step * sampler->batch_size;
    uint32_t share = psr_sampler_share(sampler, rank);
    if (begin >= share)
        return 0;
    uint64_t left = share - begin;
    return left < sampler->batch_size ? (uint32_t)left : sampler->batch_size;
}

uint32_t psr_sampler_least_batch(const psr_sampler *sampler)
{
    const uint32_t steps = psr_sampler_steps(sampler);
    uint32_t least = sampler->batch_size;
    for (uint32_t rank = 0; rank < sampler->workers && steps > 0; rank++)
        for (uint32_t step = steps; step-- > 0;) {
            const uint32_t batch = psr_sampler_batch(sampler, rank, step);
            least = batch > 0 && batch < least ? batch : least;
            if (batch > 0) /* only a rank's last one is incomplete */
                break;
        }
    return least;
}

uint32_t psr_sampler_global_batch(const psr_sampler *sampler, uint32_t step)
{
    uint32_t sum = 0;
    for (uint32_t rank = 0; rank < sampler->workers; rank++)
        sum += psr_sampler_batch(sampler, rank, step);
    return sum;
}

/* order has 0..count-1. Its entries before the one that is written have been given, so a buffer of
 * K entries is what follows it: the chosen one is swapped to the front, and the next sample enters
 * behind the others, which stands there already. */
static void shuffle_by_buffer(const psr_sampler *sampler, psr_rng_at at, uint32_t *order)
{
    uint64_t element = 0;
    for (uint32_t i = 0; i + 1 < sampler->count; i++) {
        const uint32_t left = sampler->count - i;
        const uint32_t held = left < sampler->shuffle_buffer ? left : sampler->shuffle_buffer;
        const uint32_t j = i + psr_rng_below(at, &element, held);
        const uint32_t swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}

/* From behind, where what is read has not been overwritten. */
static void repeat(const psr_sampler *sampler, uint32_t *order)
{
    for (uint32_t p = sampler->count; sampler->copies > 1 && p-- > 0;)
        order[p] = order[p / sampler->copies];
}

/* As psr_sampler_order without copies. */
static void order_once(const psr_sampler *sampler, uint32_t epoch, uint32_t *order)
{
    for (uint32_t i = 0; i < sampler->count; i++)
        order[i] = i;
    if (!sampler->shuffle)
        return;
    psr_rng_at at = {.seed = sampler->seed, .purpose = PSR_RNG_SHUFFLE, .epoch = epoch};
    if (sampler->shuffle_buffer > 0) {
        shuffle_by_buffer(sampler, at, order);
        return;
    }
    uint64_t element = 0;
    for (uint32_t i = sampler->count; i > 1; i--) {
        uint32_t j = psr_rng_below(at, &element, i);
        uint32_t swapped = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swapped;
    }
}

void psr_sampler_order(const psr_sampler *sampler, uint32_t epoch, uint32_t *order)
{
    order_once(sampler, epoch, order);
    repeat(sampler, order);
}

uint32_t psr_sampler_copy(const psr_sampler *sampler, uint32_t rank, uint32_t i)
{
    const uint64_t position =
        (sampler->used + rank + (uint64_t)i * sampler->workers) % sampler->count;
    return sampler->copies > 1 ? (uint32_t)(position % sampler->copies) : 0;
}

void psr_sampler_select(const psr_sampler *sampler, const uint32_t *order, uint32_t rank,
                        uint32_t *share)
{
    uint32_t share_count = psr_sampler_share(sampler, rank);
    uint64_t position = (uint64_t)sampler->used + rank;
    for (uint32_t i = 0; i < share_count; i++, position += sampler->workers)
        /* Only with padding a position lies past the end; the order is then repeated from its head,
         * several times if necessary. */
        share[i] = order[position < sampler->count ? position : position % sampler->count];
}
