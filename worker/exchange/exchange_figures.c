#include "worker/exchange/exchange_figures.h"

#include <string.h>

void psr_exchange_tally_init(psr_exchange_tally *tally, uint32_t buckets)
{
    memset(tally, 0, sizeof *tally);
    tally->buckets = buckets;
}

static void add(_Atomic uint64_t *count, uint64_t more)
{
    atomic_fetch_add_explicit(count, more, memory_order_relaxed);
}

int64_t psr_exchange_tally_busy_ns(const psr_exchange_tally *tally, int64_t now_ns)
{
    const int64_t word = atomic_load(&tally->busy);
    return (word & 1) != 0 ? now_ns - (word >> 1) : word >> 1;
}

static void bucket_begins(psr_exchange_tally *tally, int64_t now_ns)
{
    if (tally->buckets_under_way++ == 0)
        atomic_store(&tally->busy, ((now_ns - psr_exchange_tally_busy_ns(tally, now_ns)) * 2) | 1);
}

/* Weights that a shard was given at the start land without having begun. */
static void bucket_ends(psr_exchange_tally *tally, int64_t now_ns)
{
    if (tally->buckets_under_way > 0 && --tally->buckets_under_way == 0)
        atomic_store(&tally->busy, psr_exchange_tally_busy_ns(tally, now_ns) * 2);
}

static void see_begin(psr_exchange_tally *tally, const psr_observed *observed)
{
    bucket_begins(tally, observed->stamp_ns);
    add(&tally->gradient_float32, observed->ring_floats * sizeof(float));
    if (tally->under_way[observed->step & 1].steps == observed->step + 1)
        return;
    tally->under_way[observed->step & 1].steps = observed->step + 1;
    tally->under_way[observed->step & 1].begun_ns = observed->stamp_ns;
    tally->under_way[observed->step & 1].landed = 0;
}

static void see_landed(psr_exchange_tally *tally, const psr_observed *observed)
{
    bucket_ends(tally, observed->stamp_ns);
    if (++tally->under_way[observed->step & 1].landed == tally->buckets)
        atomic_store(&tally->exchange_ns,
                     observed->stamp_ns - tally->under_way[observed->step & 1].begun_ns);
}

/* Before the message is handed over, and so before anything of it can land: what a drained bucket
 * has sent is counted. */
static void see_out(psr_exchange_tally *tally, const psr_observed *observed)
{
    add(&tally->sent, observed->bytes);
    if (!psr_observed_is_gradient(observed))
        return;
    add(&tally->gradient, observed->bytes);
    add(&tally->gradient_float32, observed->span.count * sizeof(float));
}

void psr_exchange_tally_see(void *context, const psr_observed *observed)
{
    psr_exchange_tally *tally = context;
    switch (observed->kind) {
    case PSR_OBSERVED_BEGIN:
        see_begin(tally, observed);
        break;
    case PSR_OBSERVED_OUT:
        see_out(tally, observed);
        break;
    case PSR_OBSERVED_IN:
        add(&tally->received, observed->bytes);
        break;
    case PSR_OBSERVED_LANDED:
        see_landed(tally, observed);
        break;
    default: /* work says nothing of bytes */
        break;
    }
}

void psr_exchange_tally_exposed(psr_exchange_tally *tally, int64_t ns)
{
    tally->exposed_ns += ns;
}

static void take_times(psr_exchange_tally *tally, int64_t now_ns, psr_exchange_figures *figures)
{
    const int64_t busy_ns = psr_exchange_tally_busy_ns(tally, now_ns);
    /* The clock may be read here before a stamp that is counted already. */
    const int64_t since_ns = busy_ns > tally->busy_taken_ns ? busy_ns - tally->busy_taken_ns : 0;
    const int64_t exposed_ns = tally->exposed_ns < since_ns ? tally->exposed_ns : since_ns;
    tally->busy_taken_ns += since_ns;
    tally->exposed_ns = 0;
    figures->exposed_s = (double)exposed_ns * 1e-9;
    figures->hidden_s = (double)(since_ns - exposed_ns) * 1e-9;
}

void psr_exchange_tally_take(psr_exchange_tally *tally, int64_t now_ns,
                             psr_exchange_figures *figures)
{
    take_times(tally, now_ns, figures);
    const psr_exchange_bytes now = {atomic_load(&tally->sent), atomic_load(&tally->received),
                                    atomic_load(&tally->gradient),
                                    atomic_load(&tally->gradient_float32)};
    const psr_exchange_bytes before = tally->taken;
    tally->taken = now;
    figures->exchange_s = (double)atomic_load(&tally->exchange_ns) * 1e-9;
    figures->bytes_sent = now.sent - before.sent;
    figures->bytes_received = now.received - before.received;
    figures->gradient_bytes = now.gradient - before.gradient;
    figures->gradient_float32_bytes = now.gradient_float32 - before.gradient_float32;
}
