#include "comm/view/plan.h"

#include "base/arrays/fold.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- cutting: the only place that does it ---- */

enum {
    SLICE_ALIGN = 16,     /* floats of a cache line */
    SLICES_MAX = 1 << 24, /* 640 MiB of slices: limits what a message can ask for */
    HOMES_MAX = 1 << 10,  /* with several hosts: each home is looked at for each bucket */
};

size_t psr_plan_slice_floats(uint64_t slice_bytes)
{
    size_t floats = (size_t)(slice_bytes / sizeof(float)) & ~(size_t)(SLICE_ALIGN - 1);
    return floats < SLICE_ALIGN ? SLICE_ALIGN : floats;
}

/* Floats of a whole slice: few enough to fit into a message with any compression. */
static size_t slice_of(const psr_plan *plan, const psr_plan_bucket *bucket)
{
    const size_t summed = psr_compression_values_max(bucket->compression),
                 pulled = psr_compression_values_max(plan->pulled),
                 most = (summed < pulled ? summed : pulled) & ~(size_t)(SLICE_ALIGN - 1);
    return plan->slice_floats < most ? plan->slice_floats : most;
}

static size_t slices_in(const psr_plan_bucket *bucket, size_t count)
{
    return (count + bucket->slice_floats - 1) / bucket->slice_floats;
}

static uint32_t chunks_of(const psr_plan *plan, const psr_plan_bucket *bucket)
{
    switch (bucket->route) {
    case PSR_ROUTE_RING:
        return plan->ranks;
    case PSR_ROUTE_HOST:
        return plan->chunks;
    case PSR_ROUTE_SHARD:
    case PSR_ROUTE_NONE:
    case PSR_ROUTE_FROZEN:
    case PSR_ROUTES:
        break;
    }
    return 1;
}

psr_span psr_plan_chunk(const psr_plan *plan, uint32_t bucket, uint32_t chunk)
{
    const psr_plan_bucket *b = &plan->buckets[bucket];
    uint32_t chunks = chunks_of(plan, b);
    size_t begin = psr_fold_chunk_begin(b->span.count, chunks, chunk);
    return (psr_span){b->span.offset + begin,
                      psr_fold_chunk_begin(b->span.count, chunks, chunk + 1) - begin};
}

/* All chunks but the one that its right neighbour injects, and sums of all but the neighbour's. */
size_t psr_plan_ring_sends(const psr_plan *plan, uint32_t bucket, uint32_t rank)
{
    const uint32_t place = psr_plan_place(plan, rank), right = (place + 1) % plan->ranks;
    return 2 * plan->buckets[bucket].span.count - psr_plan_chunk(plan, bucket, place).count -
           psr_plan_chunk(plan, bucket, right).count;
}

/* The slices of the first `chunks` chunks. A chunk has the shortest length or one float more.
 * Without the longer ones the first chunks would end where short ones do; each longer one moves the
 * end by one. */
static size_t slices_before(const psr_plan *plan, const psr_plan_bucket *bucket, uint32_t chunks)
{
    size_t length = bucket->span.count, n = chunks_of(plan, bucket), least = length / n;
    size_t longer = psr_fold_chunk_begin(length, (uint32_t)n, chunks) - chunks * least;
    return (chunks - longer) * slices_in(bucket, least) + longer * slices_in(bucket, least + 1);
}

static void cut_bucket(psr_plan *plan, uint32_t b)
{
    psr_plan_bucket *bucket = &plan->buckets[b];
    bucket->first_slice = plan->slice_count;
    for (uint32_t c = 0; c < chunks_of(plan, bucket); c++) {
        psr_span chunk = psr_plan_chunk(plan, b, c);
        for (size_t at = 0; at < chunk.count; at += bucket->slice_floats) {
            size_t left = chunk.count - at;
            psr_span span = {chunk.offset + at,
                             left < bucket->slice_floats ? left : bucket->slice_floats};
            plan->slices[plan->slice_count++] = (psr_slice){b, c, span};
        }
    }
    bucket->slice_count = plan->slice_count - bucket->first_slice;
}

static psr_err cut(psr_plan *plan)
{
    size_t total = 0;
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        psr_plan_bucket *bucket = &plan->buckets[b];
        bucket->slice_floats = slice_of(plan, bucket);
        if (psr_plan_exchanges(bucket))
            total += slices_before(plan, bucket, chunks_of(plan, bucket));
    }
    if (total > SLICES_MAX)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "%zu slices are too many: larger slices or buckets are needed", total);
    plan->slices = calloc(total + 1, sizeof *plan->slices);
    if (plan->slices == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu slices", total);
    for (uint32_t b = plan->bucket_count; b-- > 0;)
        if (psr_plan_exchanges(&plan->buckets[b]))
            cut_bucket(plan, b);
    return PSR_OK;
}

uint32_t psr_plan_slice_at(const psr_plan *plan, uint32_t bucket, uint32_t chunk, size_t begin)
{
    const psr_plan_bucket *b = &plan->buckets[bucket];
    return b->first_slice + (uint32_t)(slices_before(plan, b, chunk) + begin / b->slice_floats);
}

psr_err psr_plan_find(const psr_plan *plan, const psr_message *message, uint32_t bucket,
                      psr_span span, uint32_t *ret_slice)
{
    if (bucket >= plan->bucket_count)
        return psr_violation(message, "there are %" PRIu32 " buckets", plan->bucket_count);
    const psr_plan_bucket *b = &plan->buckets[bucket];
    if (!psr_plan_exchanges(b))
        return psr_violation(message, "the bucket is not exchanged");
    if (span.offset < b->span.offset || span.offset >= psr_span_end(b->span))
        return psr_violation(message, "no slice of the bucket begins there");
    const uint32_t chunk =
        psr_fold_chunk_of(b->span.count, chunks_of(plan, b), span.offset - b->span.offset);
    const size_t begin = span.offset - psr_plan_chunk(plan, bucket, chunk).offset;
    if (begin % b->slice_floats != 0)
        return psr_violation(message, "no slice of the bucket begins there");
    const uint32_t number = psr_plan_slice_at(plan, bucket, chunk, begin);
    const size_t count = plan->slices[number].span.count;
    if (span.count != count)
        return psr_violation(message, "the slice has %zu floats", count);
    *ret_slice = number;
    return PSR_OK;
}

/* ---- sharing out: the only function that does it ---- */

/* What moves to a shard as a whole: a part, or all parts with the same `unit`. */
typedef struct unit {
    size_t count;          /* in floats */
    uint32_t first, parts; /* indices of the plan's buckets */
} unit;

static int compare_units(const void *a, const void *b)
{
    const unit *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* The processes that share all buckets: the shards, or the workers of a host. Hosts with the same
 * number of workers share in the same way, and are one group. */
typedef struct sharers {
    uint32_t count;
    size_t *load; /* [count] floats */
} sharers;

/* How much the holders of a home's buckets hold already, weighed so that the size of their host
 * does not matter. */
static size_t fullness(const sharers *groups, uint32_t group_count, uint32_t home)
{
    size_t sum = 0;
    for (uint32_t g = 0; g < group_count; g++)
        sum += groups[g].count * groups[g].load[home % groups[g].count];
    return sum;
}

static uint32_t lightest(const sharers *groups, uint32_t group_count, uint32_t homes)
{
    uint32_t found = 0;
    for (uint32_t home = 1; home < homes; home++)
        if (fullness(groups, group_count, home) < fullness(groups, group_count, found))
            found = home;
    return found;
}

static uint32_t make_units(const psr_plan *plan, psr_route route, const psr_part *parts,
                           unit *units)
{
    uint32_t count = 0;
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        if (plan->buckets[b].route != route)
            continue;
        if (b > 0 && parts[b].unit == parts[b - 1].unit) {
            assert(plan->buckets[b - 1].route == route);
            units[count - 1].count += parts[b].span.count;
            units[count - 1].parts++;
        } else {
            units[count++] = (unit){parts[b].span.count, b, 1};
        }
    }
    qsort(units, count, sizeof *units, compare_units);
    return count;
}

static void give(psr_plan *plan, psr_route route, const unit *u, sharers *groups,
                 uint32_t group_count)
{
    const uint32_t home = lightest(groups, group_count, psr_plan_homes(plan, route));
    for (uint32_t g = 0; g < group_count; g++)
        groups[g].load[home % groups[g].count] += u->count;
    for (uint32_t b = 0; b < u->parts; b++)
        plan->buckets[u->first + b].home = home;
}

static uint32_t workers_on(const psr_host_ranks *hosts, uint32_t host)
{
    return hosts->first[host + 1] - hosts->first[host];
}

/* groups: room for one of each host. load: room for all workers, or shards; zeros. */
static uint32_t find_sharers(const psr_plan *plan, psr_route route, sharers *groups, size_t *load)
{
    const psr_host_ranks *hosts = &plan->hosts;
    if (route == PSR_ROUTE_SHARD) {
        groups[0] = (sharers){plan->shards, load};
        return 1;
    }
    uint32_t count = 0;
    for (uint32_t h = 0; h < hosts->count; h++) {
        const uint32_t workers = workers_on(hosts, h);
        bool known = false;
        for (uint32_t g = 0; g < count && !known; g++)
            known = groups[g].count == workers;
        if (known)
            continue;
        groups[count++] = (sharers){workers, load};
        load += workers;
    }
    return count;
}

static psr_err share_out(psr_plan *plan, psr_route route, const psr_part *parts)
{
    if (!psr_plan_has_route(plan, route))
        return PSR_OK;
    if (psr_plan_homes(plan, route) == 0)
        return psr_fail(PSR_ERR_USAGE, "0 %s: at least 1 is needed",
                        route == PSR_ROUTE_SHARD ? "shards" : "hosts");
    const bool workers = route == PSR_ROUTE_HOST;
    unit *units = calloc((size_t)plan->bucket_count + 1, sizeof *units);
    sharers *groups = calloc(workers ? plan->hosts.count : 1, sizeof *groups);
    size_t *load = calloc(workers ? plan->ranks : plan->shards, sizeof *load);
    psr_err err = PSR_OK;
    if (units != NULL && groups != NULL && load != NULL) {
        const uint32_t group_count = find_sharers(plan, route, groups, load);
        const uint32_t unit_count = make_units(plan, route, parts, units);
        for (uint32_t u = 0; u < unit_count; u++)
            give(plan, route, &units[u], groups, group_count);
    } else {
        err = psr_fail(PSR_ERR_NOMEM,
                       "no memory to share out %" PRIu32 " buckets to %" PRIu32 " homes",
                       plan->bucket_count, psr_plan_homes(plan, route));
    }
    free(units);
    free(groups);
    free(load);
    return err;
}

/* ---- hosts ---- */

psr_err psr_plan_spans(const psr_plan *plan, psr_span **ret_spans)
{
    psr_span *spans = calloc((size_t)plan->bucket_count + 1, sizeof *spans);
    if (spans == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the runs of %" PRIu32 " buckets",
                        plan->bucket_count);
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        spans[b] = plan->buckets[b].span;
    *ret_spans = spans;
    return PSR_OK;
}

uint32_t psr_plan_host_of(const psr_plan *plan, uint32_t rank)
{
    uint32_t host = 0;
    while (plan->hosts.first[host + 1] <= rank)
        host++;
    return host;
}

static bool sends_by_host(const psr_plan *plan, uint32_t rank, uint32_t other)
{
    const uint32_t host = psr_plan_host_of(plan, rank), to = psr_plan_host_of(plan, other);
    if (host == to)
        return true;
    for (uint32_t b = 0; to == (host + 1) % plan->hosts.count && b < plan->bucket_count; b++)
        if (plan->buckets[b].route == PSR_ROUTE_HOST && psr_plan_holder(plan, b, host) == rank &&
            psr_plan_holder(plan, b, to) == other)
            return true;
    return false;
}

bool psr_plan_sends(const psr_plan *plan, uint32_t rank, uint32_t other)
{
    const uint32_t next = (psr_plan_place(plan, rank) + 1) % plan->ranks;
    if (psr_plan_has_route(plan, PSR_ROUTE_RING) && psr_plan_place(plan, other) == next)
        return true;
    return psr_plan_has_route(plan, PSR_ROUTE_HOST) && sends_by_host(plan, rank, other);
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint32_t psr_host_ranks_homes(const psr_host_ranks *hosts)
{
    uint64_t most = 0, homes = 1;
    for (uint32_t h = 0; h < hosts->count; h++) {
        const uint64_t workers = workers_on(hosts, h);
        most = workers > most ? workers : most;
        if (homes <= HOMES_MAX)
            homes *= workers / greatest_common_divisor(homes, workers);
    }
    return (uint32_t)(homes <= HOMES_MAX ? homes : most);
}

/* Copies hosts from .. from + count - 1 into the plan. */
static psr_err keep_hosts(psr_plan *plan, const psr_host_ranks *hosts, uint32_t from,
                          uint32_t count)
{
    const size_t bytes = ((size_t)count + 1) * sizeof *hosts->first;
    plan->hosts = (psr_host_ranks){count, malloc(bytes)};
    if (plan->hosts.first == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " hosts", count);
    memcpy(plan->hosts.first, hosts->first + from, bytes);
    plan->homes = psr_host_ranks_homes(&plan->hosts);
    return PSR_OK;
}

psr_err psr_plan_within(const psr_plan *plan, uint32_t rank, psr_plan *ret_plan)
{
    const uint32_t host = psr_plan_host_of(plan, rank);
    psr_plan within = *plan;
    within.hosts.first = NULL;
    within.buckets = calloc((size_t)plan->bucket_count + 1, sizeof *within.buckets);
    within.slices = calloc((size_t)plan->slice_count + 1, sizeof *within.slices);
    psr_err err = within.buckets != NULL && within.slices != NULL
                      ? keep_hosts(&within, &plan->hosts, host, 1)
                      : psr_fail(PSR_ERR_NOMEM, "no memory for the plan of a host");
    if (err != PSR_OK) {
        psr_plan_done(&within);
        return err;
    }
    within.ranks = within.homes;
    memcpy(within.slices, plan->slices, plan->slice_count * sizeof *within.slices);
    memcpy(within.buckets, plan->buckets, plan->bucket_count * sizeof *within.buckets);
    for (uint32_t b = 0; b < within.bucket_count; b++)
        within.buckets[b].home %= within.ranks;
    *ret_plan = within;
    return PSR_OK;
}

/* ---- making ---- */

static psr_err begin_plan(const psr_plan_options *options, uint32_t count, psr_plan *plan)
{
    *plan = (psr_plan){.bucket_count = count,
                       .ranks = options->ranks,
                       .shards = options->shards,
                       .chunks = 1,
                       .slice_floats = options->slice_floats,
                       .window = options->window,
                       .pulled = options->pulled != NULL ? *options->pulled : PSR_COMPRESSION_NONE,
                       .reversed = options->reversed};
    if (options->hosts != NULL) {
        PSR_TRY(keep_hosts(plan, options->hosts, 0, options->hosts->count));
        plan->chunks = options->hosts->count > 1 ? options->ranks : 1;
    }
    plan->buckets = calloc((size_t)count + 1, sizeof *plan->buckets);
    if (plan->buckets != NULL)
        return PSR_OK;
    psr_plan_done(plan);
    return psr_fail(PSR_ERR_NOMEM, "no memory to plan %" PRIu32 " buckets", count);
}

static psr_err check_compressions(const psr_plan *plan)
{
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if ((!psr_compression_is_none(plan->buckets[b].compression) ||
             psr_plan_pulls_differences(plan)) &&
            plan->buckets[b].span.count > UINT32_MAX)
            return psr_fail(PSR_ERR_UNSUPPORTED,
                            "bucket %" PRIu32 " of %zu values is too long to be compressed as one",
                            b, plan->buckets[b].span.count);
    return PSR_OK;
}

/* Between hosts chunks follow the hosts' ranks, which ascend. */
static psr_err check_order(const psr_plan *plan)
{
    if (plan->reversed && plan->hosts.count > 1)
        return psr_fail(PSR_ERR_USAGE, "a sum over hosts counts the ranks from the first one");
    return PSR_OK;
}

static psr_err end_plan(psr_plan *plan, psr_err err, psr_plan *ret_plan)
{
    if (err == PSR_OK)
        err = check_order(plan);
    if (err == PSR_OK)
        err = check_compressions(plan);
    if (err == PSR_OK)
        err = cut(plan);
    if (err != PSR_OK) {
        psr_plan_done(plan);
        return err;
    }
    *ret_plan = *plan;
    return PSR_OK;
}

psr_err psr_plan_make(const psr_plan_options *options, const psr_part *parts, uint32_t count,
                      psr_plan *ret_plan)
{
    psr_plan plan;
    PSR_TRY(begin_plan(options, count, &plan));
    for (uint32_t b = 0; b < count; b++)
        plan.buckets[b] = (psr_plan_bucket){
            .span = parts[b].span,
            .route = options->routes != NULL ? options->routes[b] : options->route,
            .compression =
                options->compression != NULL ? *options->compression : PSR_COMPRESSION_NONE};
    psr_err err = share_out(&plan, PSR_ROUTE_SHARD, parts);
    if (err == PSR_OK)
        err = share_out(&plan, PSR_ROUTE_HOST, parts);
    return end_plan(&plan, err, ret_plan);
}

psr_err psr_plan_of(const psr_plan_options *options, const psr_plan_bucket *buckets, uint32_t count,
                    psr_plan *ret_plan)
{
    psr_plan plan;
    PSR_TRY(begin_plan(options, count, &plan));
    for (uint32_t b = 0; b < count; b++)
        plan.buckets[b] = (psr_plan_bucket){.span = buckets[b].span,
                                            .route = buckets[b].route,
                                            .home = buckets[b].home,
                                            .compression = buckets[b].compression};
    return end_plan(&plan, PSR_OK, ret_plan);
}

void psr_plan_done(psr_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->buckets);
    free(plan->slices);
    free(plan->hosts.first);
    *plan = (psr_plan){0};
}

bool psr_plan_has_residual(const psr_plan *plan)
{
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if (psr_compression_has_residual(plan->buckets[b].compression))
            return true;
    return false;
}

bool psr_plan_has_route(const psr_plan *plan, psr_route route)
{
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if (plan->buckets[b].route == route)
            return true;
    return false;
}

bool psr_plan_all_go(const psr_plan *plan, psr_route route)
{
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if (plan->buckets[b].route != route && plan->buckets[b].route != PSR_ROUTE_FROZEN)
            return false;
    return true;
}

psr_peer psr_plan_home(const psr_plan *plan, uint32_t bucket)
{
    switch (plan->buckets[bucket].route) {
    case PSR_ROUTE_SHARD:
        return (psr_peer){PSR_ROLE_SHARD, plan->buckets[bucket].home};
    case PSR_ROUTE_HOST:
        return (psr_peer){PSR_ROLE_WORKER, psr_plan_holder(plan, bucket, 0)};
    case PSR_ROUTE_RING:
    case PSR_ROUTE_NONE:
    case PSR_ROUTE_FROZEN:
    case PSR_ROUTES:
        break;
    }
    return (psr_peer){PSR_ROLE_WORKER, 0};
}

bool psr_plan_holds(const psr_plan *plan, uint32_t bucket, psr_peer peer)
{
    const psr_route route = plan->buckets[bucket].route;
    if (route == PSR_ROUTE_SHARD || peer.role != PSR_ROLE_WORKER)
        return route == PSR_ROUTE_SHARD && psr_peer_equal(peer, psr_plan_home(plan, bucket));
    return route != PSR_ROUTE_HOST ||
           psr_plan_holder(plan, bucket, psr_plan_host_of(plan, peer.rank)) == peer.rank;
}

psr_span psr_plan_next_run(const psr_plan *plan, psr_peer peer, bool held, uint32_t *bucket)
{
    uint32_t b = *bucket; /* the buckets below it are left; spans ascend as their numbers descend */
    while (b > 0 && psr_plan_holds(plan, b - 1, peer) != held)
        b--;
    psr_span run = {b > 0 ? plan->buckets[b - 1].span.offset : 0, 0};
    for (; b > 0 && psr_plan_holds(plan, b - 1, peer) == held; b--)
        run.count += plan->buckets[b - 1].span.count;
    *bucket = b;
    return run;
}

void psr_plan_loads(const psr_plan *plan, psr_route route, uint64_t *ret_bytes)
{
    memset(ret_bytes, 0, psr_plan_homes(plan, route) * sizeof *ret_bytes);
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if (plan->buckets[b].route == route)
            ret_bytes[plan->buckets[b].home] += plan->buckets[b].span.count * sizeof(float);
}
