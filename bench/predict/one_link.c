#include "bench/predict/one_link.h"

#include <math.h>
#include <stdlib.h>

#define STEPS 8 /* until a step takes as long as the one before */

/* Vocabulary, as in docs/algorithms.md: M bytes of parameters, n workers, w of them on each of H
 * hosts, s shards, B bytes/s of TCP's payload per link and direction, a the time of a message. */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* B, of `connections` on one link: what the line carries, less frames, what is sent again, and the
 * acknowledgements of what comes the other way, for every second segment; on a lossy way what TCP
 * holds on the way. */
static double bytes_per_s(const psr_scenario *k, double connections)
{
    const double line =
        k->bits_per_s / 8 / (1 + 1.5 * k->frame_bytes / PSR_LINK_SEGMENT_BYTES) * (1 - k->loss);
    const double rtt_s = 2 * k->latency_s;
    if (rtt_s <= 0)
        return line;
    double window = k->window_bytes > 0 ? k->window_bytes : INFINITY;
    const double lossy = psr_link_window_of_loss(k->loss, rtt_s);
    window = lossy < window ? lossy : window;
    const double held = connections * window / rtt_s;
    return held < line ? held : line;
}

static double slices_of(const psr_scenario *k, double bytes)
{
    return ceil(bytes / (double)k->config.slice_bytes);
}

/* The most bytes of parameters on a shard, by the plan's rule: the largest bucket first onto the
 * lightest shard. */
static double most_of_a_shard(const psr_scenario *k, uint32_t shards)
{
    double total = psr_scenario_bytes(k), load[256] = {0}, most = 0;
    if (shards > 256)
        return total / shards;
    bool *dealt = calloc(k->buckets.count, sizeof *dealt);
    for (uint32_t i = 0; dealt != NULL && i < k->buckets.count; i++) {
        uint32_t b = UINT32_MAX, lightest = 0;
        for (uint32_t j = 0; j < k->buckets.count; j++)
            if (!dealt[j] &&
                (b == UINT32_MAX || k->buckets.items[j].length > k->buckets.items[b].length))
                b = j;
        dealt[b] = true;
        for (uint32_t j = 1; j < shards; j++)
            lightest = load[j] < load[lightest] ? j : lightest;
        load[lightest] += (double)k->buckets.items[b].length * sizeof(float);
        most = larger(most, load[lightest]);
    }
    free(dealt);
    return most > 0 ? most : total / shards;
}

static void demand_of_ring(const psr_scenario *k, psr_demand *d)
{
    const double H = k->hosts, w = k->workers_per_host, n = H * w, M = psr_scenario_bytes(k),
                 on_wire = psr_scenario_gradient_bytes(k, M), B = bytes_per_s(k, 1),
                 factor = (n - 1) / n + (H - 1) / H, a = k->costs.message_s, hops = 2 * (H - 1),
                 each = k->costs.copy_s_per_byte + k->costs.seal_s_per_byte;
    double messages = 0;
    for (uint32_t b = 0; b < k->buckets.count; b++)
        messages += hops * slices_of(k, (double)k->buckets.items[b].length * sizeof(float) / n) *
                    (w > 1 ? w : 1);
    if (H > 1)
        d->worker_link_s = factor * on_wire / B;
    d->worker_s = (2 * messages * a + 2 * (H > 1 ? factor : 0) * on_wire * each) / w +
                  M * (k->costs.fold_s_per_byte + k->costs.update_s_per_byte);
    d->latency_s = hops * (2 * a + k->latency_s);
}

static void demand_of_ps(const psr_scenario *k, const psr_choice *choice, psr_demand *d)
{
    const double w = k->workers_per_host, n = k->hosts * w, M = psr_scenario_bytes(k),
                 L = most_of_a_shard(k, choice->shards), B = bytes_per_s(k, choice->shards),
                 a = k->costs.message_s, g = psr_scenario_gradient_bytes(k, 1),
                 v = psr_scenario_weight_bytes(k, 1),
                 each = k->costs.copy_s_per_byte + k->costs.seal_s_per_byte,
                 slice = (double)k->config.slice_bytes,
                 others = choice->dedicated ? n : n - w; /* workers that a shard has a link to */
    const bool all_have = !choice->dedicated && choice->shards >= k->hosts;
    if (choice->dedicated || !all_have)
        d->worker_link_s = w * M * larger(g, v) / B;
    if (choice->dedicated)
        d->shard_link_s = n * L * larger(g, v) / B;
    else /* one of its hosts' workers' traffic stays on the host */
        d->shard_link_s =
            larger(w * (M - L) * g + others * L * v, w * (M - L) * v + others * L * g) / B;
    if (k->hosts == 1 && !choice->dedicated)
        d->worker_link_s = d->shard_link_s = 0;
    d->worker_s = 2 * slices_of(k, M) * a + M * (g + v) * each;
    d->shard_s = 2 * n * slices_of(k, L) * a + n * L * k->costs.fold_s_per_byte +
                 L * k->costs.update_s_per_byte + others * L * (g + v) * each;
    d->latency_s = 2 * k->latency_s + 4 * a +
                   (d->worker_link_s > 0 || d->shard_link_s > 0 ? slice * v / B : 0);
}

void psr_one_link_demand(const psr_scenario *scenario, const psr_choice *choice,
                         psr_demand *ret_demand)
{
    *ret_demand = (psr_demand){0};
    if (scenario->hosts * scenario->workers_per_host == 1 && choice->mode == PSR_MODE_RING)
        return;
    if (choice->mode == PSR_MODE_RING)
        demand_of_ring(scenario, ret_demand);
    else
        demand_of_ps(scenario, choice, ret_demand);
}

static double busiest(const psr_demand *d, psr_limit *ret_limit)
{
    const struct {
        double s;
        psr_limit limit;
    } all[] = {{d->worker_link_s, PSR_LIMIT_WORKER_LINK},
               {d->shard_link_s, PSR_LIMIT_SHARD_LINK},
               {d->worker_s, PSR_LIMIT_WORKER},
               {d->shard_s, PSR_LIMIT_SHARD}};
    size_t most = 0;
    for (size_t i = 1; i < sizeof all / sizeof *all; i++)
        most = all[i].s > all[most].s ? i : most;
    *ret_limit = all[most].limit;
    return all[most].s;
}

typedef struct bucket_times {
    double service_s, left_s, ready_s, landed_s;
} bucket_times;

/* Serves what is ready, the bucket that is needed first before all others. */
static void serve(bucket_times *t, uint32_t count, double latency_s)
{
    double now_s = t[0].ready_s;
    for (uint32_t done = 0; done < count;) {
        uint32_t first = UINT32_MAX;
        double next_s = INFINITY;
        for (uint32_t b = 0; b < count; b++) {
            if (t[b].left_s > 0 && t[b].ready_s <= now_s)
                first = b;
            else if (t[b].left_s > 0 && t[b].ready_s < next_s)
                next_s = t[b].ready_s;
        }
        if (first == UINT32_MAX) {
            now_s = next_s;
            continue;
        }
        const double until_s = now_s + t[first].left_s;
        if (until_s > next_s) {
            t[first].left_s -= next_s - now_s;
            now_s = next_s;
            continue;
        }
        t[first].left_s = 0;
        t[first].landed_s = until_s + latency_s;
        now_s = until_s;
        done++;
    }
}

static double step_of(const psr_scenario *k, bucket_times *t, double latency_s)
{
    const psr_compute_profile *p = &k->profile;
    double now_s = 0, before_s = 0;
    for (int step = 0; step < STEPS; step++) {
        before_s = now_s;
        now_s += p->before * k->compute_s;
        for (uint32_t b = p->buckets; b-- > 0;)
            now_s = larger(now_s, t[b].landed_s) + p->forward[b] * k->compute_s;
        for (uint32_t b = 0; b < p->buckets; b++) {
            now_s += p->backward[b] * k->compute_s;
            t[b].ready_s = t[b].landed_s = now_s;
            t[b].left_s = t[b].service_s;
        }
        for (uint32_t b = 0; b < p->buckets; b++)
            if (t[b].left_s <= 0)
                t[b].landed_s += latency_s;
        bool any = false;
        for (uint32_t b = 0; b < p->buckets; b++)
            any = any || t[b].left_s > 0;
        if (any)
            serve(t, p->buckets, latency_s);
    }
    return now_s - before_s;
}

psr_err psr_one_link_predict(const psr_scenario *k, const psr_choice *choice,
                             psr_prediction *ret_prediction)
{
    psr_demand d;
    psr_limit limit;
    psr_one_link_demand(k, choice, &d);
    const double total_s = busiest(&d, &limit), M = psr_scenario_bytes(k);
    bucket_times *t = calloc(k->buckets.count, sizeof *t);
    if (t == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u buckets", k->buckets.count);
    for (uint32_t b = 0; b < k->buckets.count; b++)
        t[b].service_s = total_s * (double)k->buckets.items[b].length * sizeof(float) / M;
    const double last_s = t[k->buckets.count - 1].service_s, step_s = step_of(k, t, d.latency_s),
                 n = (double)k->hosts * k->workers_per_host;
    free(t);
    if (step_s < k->compute_s * 1.02)
        limit = PSR_LIMIT_COMPUTE;
    else if (d.latency_s > total_s)
        limit = PSR_LIMIT_LATENCY;
    *ret_prediction = (psr_prediction){
        .choice = *choice,
        .workers = (uint32_t)n,
        .step_s = step_s,
        .images_per_s = n * psr_config_step_samples(&k->config) / step_s,
        .efficiency = k->compute_s / step_s,
        .least_s = larger(k->compute_s, total_s - last_s) + last_s + d.latency_s,
        .most_s = k->compute_s + total_s + d.latency_s,
        .limit = limit,
        .link_busy = larger(d.worker_link_s, d.shard_link_s) / step_s,
        .process_busy = larger(d.worker_s, d.shard_s) / step_s,
    };
    return PSR_OK;
}
