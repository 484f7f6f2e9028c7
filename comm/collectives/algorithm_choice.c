#include "comm/collectives/algorithm_choice.h"

#include "comm/collectives/algorithms/algorithms.h"

#include <stdio.h>
#include <string.h>

static psr_algorithm_writer *const writers[PSR_KINDS][PSR_ALGORITHMS] = {
    [PSR_KIND_ALL_REDUCE] = {[PSR_ALGORITHM_RING] = psr_ring_all_reduce,
                             [PSR_ALGORITHM_DIRECT] = psr_direct_all_reduce,
                             [PSR_ALGORITHM_DOUBLING] = psr_doubling_all_reduce,
                             [PSR_ALGORITHM_HALVING] = psr_halving_all_reduce,
                             [PSR_ALGORITHM_ROOT] = psr_root_all_reduce},
    [PSR_KIND_REDUCE] =
        {[PSR_ALGORITHM_BINOMIAL] = psr_binomial_reduce, [PSR_ALGORITHM_CHAIN] = psr_chain_reduce},
    [PSR_KIND_REDUCE_SCATTER] = {[PSR_ALGORITHM_RING] = psr_ring_reduce_scatter,
                                 [PSR_ALGORITHM_DIRECT] = psr_direct_reduce_scatter,
                                 [PSR_ALGORITHM_HALVING] = psr_halving_reduce_scatter},
    [PSR_KIND_ALL_GATHER] = {[PSR_ALGORITHM_RING] = psr_ring_all_gather,
                             [PSR_ALGORITHM_DIRECT] = psr_direct_all_gather,
                             [PSR_ALGORITHM_BRUCK] = psr_bruck_all_gather},
    [PSR_KIND_BROADCAST] = {[PSR_ALGORITHM_BINOMIAL] = psr_binomial_broadcast,
                            [PSR_ALGORITHM_CHAIN] = psr_chain_broadcast,
                            [PSR_ALGORITHM_ROOT] = psr_root_broadcast},
    [PSR_KIND_GATHER] = {[PSR_ALGORITHM_DIRECT] = psr_direct_gather,
                         [PSR_ALGORITHM_BINOMIAL] = psr_binomial_gather},
    [PSR_KIND_SCATTER] = {[PSR_ALGORITHM_DIRECT] = psr_direct_scatter,
                          [PSR_ALGORITHM_BINOMIAL] = psr_binomial_scatter},
    [PSR_KIND_ALL_TO_ALL] = {[PSR_ALGORITHM_DIRECT] = psr_direct_all_to_all,
                             [PSR_ALGORITHM_BRUCK] = psr_bruck_all_to_all},
    [PSR_KIND_ALL_TO_ALL_V] = {[PSR_ALGORITHM_DIRECT] = psr_direct_all_to_all_v},
    [PSR_KIND_BARRIER] = {[PSR_ALGORITHM_DISSEMINATION] = psr_dissemination_barrier,
                          [PSR_ALGORITHM_ROOT] = psr_root_barrier},
    [PSR_KIND_NEIGHBORS] = {[PSR_ALGORITHM_DIRECT] = psr_direct_neighbors},
    [PSR_KIND_HALO] = {[PSR_ALGORITHM_DIRECT] = psr_direct_neighbors},
    [PSR_KIND_GROUP_SPLIT] = {[PSR_ALGORITHM_RING] = psr_ring_all_gather,
                              [PSR_ALGORITHM_DIRECT] = psr_direct_all_gather,
                              [PSR_ALGORITHM_BRUCK] = psr_bruck_all_gather},
    [PSR_KIND_TABLE_OPEN] = {[PSR_ALGORITHM_RING] = psr_ring_all_gather,
                             [PSR_ALGORITHM_DIRECT] = psr_direct_all_gather,
                             [PSR_ALGORITHM_BRUCK] = psr_bruck_all_gather},
    [PSR_KIND_TABLE_CLOSE] = {[PSR_ALGORITHM_RING] = psr_ring_all_gather,
                              [PSR_ALGORITHM_DIRECT] = psr_direct_all_gather,
                              [PSR_ALGORITHM_BRUCK] = psr_bruck_all_gather},
    [PSR_KIND_TABLE_READ] = {[PSR_ALGORITHM_RING] = psr_ring_all_gather,
                             [PSR_ALGORITHM_DIRECT] = psr_direct_all_gather,
                             [PSR_ALGORITHM_BRUCK] = psr_bruck_all_gather},
    [PSR_KIND_TABLE_WRITE] = {[PSR_ALGORITHM_RING] = psr_ring_all_gather,
                              [PSR_ALGORITHM_DIRECT] = psr_direct_all_gather,
                              [PSR_ALGORITHM_BRUCK] = psr_bruck_all_gather},
    [PSR_KIND_TABLE_SET] = {[PSR_ALGORITHM_RING] = psr_ring_all_gather,
                            [PSR_ALGORITHM_DIRECT] = psr_direct_all_gather,
                            [PSR_ALGORITHM_BRUCK] = psr_bruck_all_gather},
    [PSR_KIND_SCAN] =
        {[PSR_ALGORITHM_DOUBLING] = psr_doubling_scan, [PSR_ALGORITHM_CHAIN] = psr_chain_scan},
    [PSR_KIND_EXSCAN] =
        {[PSR_ALGORITHM_DOUBLING] = psr_doubling_exscan, [PSR_ALGORITHM_CHAIN] = psr_chain_exscan},
    [PSR_KIND_SEND] = {[PSR_ALGORITHM_DIRECT] = psr_direct_send},
    [PSR_KIND_RECEIVE] = {[PSR_ALGORITHM_DIRECT] = psr_direct_receive},
    [PSR_KIND_PROBE] = {[PSR_ALGORITHM_DIRECT] = psr_direct_probe},
};

psr_algorithm_writer *psr_algorithm_of(psr_kind kind, psr_algorithm algorithm)
{
    return (unsigned)kind < PSR_KINDS && (unsigned)algorithm < PSR_ALGORITHMS
               ? writers[kind][algorithm]
               : NULL;
}

bool psr_algorithm_fits(psr_algorithm algorithm, psr_kind kind)
{
    return psr_algorithm_of(kind, algorithm) != NULL;
}

void psr_algorithm_list(psr_kind kind, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (psr_algorithm algorithm = PSR_ALGORITHM_RING; algorithm < PSR_ALGORITHMS && used < size;
         algorithm++)
        if (psr_algorithm_fits(algorithm, kind))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     psr_algorithm_name(algorithm));
}

psr_err psr_algorithm_find(psr_kind kind, const char *name, psr_algorithm *ret_algorithm)
{
    for (psr_algorithm algorithm = PSR_ALGORITHM_AUTO; algorithm < PSR_ALGORITHMS; algorithm++)
        if (strcmp(name, psr_algorithm_name(algorithm)) == 0 &&
            (algorithm == PSR_ALGORITHM_AUTO || psr_algorithm_fits(algorithm, kind))) {
            *ret_algorithm = algorithm;
            return PSR_OK;
        }
    char list[128];
    psr_algorithm_list(kind, list, sizeof list);
    return psr_fail(PSR_ERR_USAGE, "%s has no algorithm %s: there are auto, %s",
                    psr_kind_name(kind), name, list);
}

psr_rank_hosts psr_rank_hosts_of(const uint32_t *host_of, uint32_t ranks)
{
    psr_rank_hosts at = {.ranks = ranks};
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t before = 0, here = 0, hops = 0;
        for (uint32_t k = 0; k < ranks; k++) {
            if (host_of[k] != host_of[r])
                continue;
            before += k < r;
            here++;
            hops += host_of[(k + 1) % ranks] != host_of[r];
        }
        at.hosts += before == 0;
        at.most_on_one = here > at.most_on_one ? here : at.most_on_one;
        at.hops = hops > at.hops ? hops : at.hops;
    }
    return at;
}

/* ---- on one host ---- */

static psr_algorithm all_reduce_here(uint64_t bytes, uint32_t ranks)
{
    const uint64_t direct_kib = ranks <= 2 ? 64 : ranks <= 4 ? 16 : ranks <= 8 ? 1 : 0;
    if (direct_kib > 0 && bytes <= direct_kib * 1024)
        return PSR_ALGORITHM_DIRECT;
    if (bytes <= 64 * 1024)
        return PSR_ALGORITHM_DOUBLING;
    return bytes <= 1024 * 1024 && ranks >= 4 ? PSR_ALGORITHM_HALVING : PSR_ALGORITHM_RING;
}

/* ---- over links ---- */

/* A step takes as long as so many bytes on a link (a B): 0.1 ms at 320 Mbit/s, in the middle of
 * 100 Mbit/s and 1 Gbit/s. */
#define STEP_BYTES 4000.0
/* What a message of a direct operation costs, its process and its head: 10 us. */
#define MESSAGE_BYTES 400.0
/* In direct operations all send to one rank at the same time. Beyond so many bytes that fills the
 * queue in front of its link. */
#define AT_ONCE_BYTES_MAX ((uint64_t)256 * 1024)
#define FOLDED 16.0         /* bytes that a rank folds while a link carries one (c = 1 / (16 B)) */
#define PIECE_BYTES 32768.0 /* of a chain: what a rank has before it sends on */

typedef struct cost {
    psr_algorithm algorithm;
    double bytes; /* the time of all steps, and what the busiest link carries in one direction */
} cost;

static double log2_up(uint32_t n)
{
    uint32_t levels = 0;
    while (((uint64_t)1 << levels) < n)
        levels++;
    return levels;
}

static bool is_power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

static psr_algorithm least_of(const cost *costs, size_t count)
{
    size_t least = 0;
    for (size_t i = 1; i < count; i++)
        if (costs[i].bytes < costs[least].bytes)
            least = i;
    return costs[least].algorithm;
}

/* Each rank sends so many bytes to each other one: the step, and what the busiest link carries. */
static double to_each(const psr_rank_hosts *at, double bytes)
{
    const double messages = (double)at->most_on_one * (at->ranks - at->most_on_one);
    return STEP_BYTES + messages * (MESSAGE_BYTES + bytes);
}

/* Of M, what it carries while halves, quarters, .. go at distance n/2, n/4, ..: where ranks of a
 * host follow one another the large parts go between hosts, otherwise the small ones. */
static double halves(const psr_rank_hosts *at)
{
    const double others = (double)(at->hosts - 1) / at->hosts;
    return at->hops == 1 ? at->most_on_one * others : others;
}

static psr_algorithm all_reduce_over_links(uint64_t bytes, const psr_rank_hosts *at)
{
    const double m = (double)bytes, n = at->ranks, w = at->most_on_one;
    const double odd = is_power_of_two(at->ranks) ? 0 : 2; /* steps of all the values */
    const double levels = log2_up(at->ranks), folded = m / FOLDED;
    const cost costs[] = {
        {PSR_ALGORITHM_RING,
         2 * (n - 1) * STEP_BYTES + 2 * at->hops * (n - 1) / n * m + (n - 1) / n * folded},
        {PSR_ALGORITHM_HALVING, (2 * levels + odd) * STEP_BYTES + (2 * halves(at) + odd * w) * m +
                                    ((n - 1) / n + odd / 2) * folded},
        {PSR_ALGORITHM_DOUBLING, (levels + odd) * STEP_BYTES + w * (log2_up(at->hosts) + odd) * m +
                                     (levels + odd / 2) * folded},
        {PSR_ALGORITHM_DIRECT, to_each(at, m) + (n - 1) * folded},
    };
    return least_of(costs, bytes <= AT_ONCE_BYTES_MAX ? 4 : 3);
}

/* reduce, broadcast, scan: a tree, at whose root a link carries all values once for each level
 * between hosts (of a scan: each rank's), or a chain, in which pieces follow one another. */
static psr_algorithm tree_or_chain(psr_algorithm tree, double senders, double m,
                                   const psr_rank_hosts *at)
{
    const double n = at->ranks, piece = m < PIECE_BYTES ? m : PIECE_BYTES;
    const cost costs[] = {
        {tree, log2_up(at->ranks) * STEP_BYTES + senders * log2_up(at->hosts) * m},
        {PSR_ALGORITHM_CHAIN, (n - 1) * STEP_BYTES + at->hops * (m + (at->hosts - 1.0) * piece)},
    };
    return least_of(costs, 2);
}

static psr_algorithm reduce_scatter_over_links(uint64_t bytes, const psr_rank_hosts *at)
{
    const double m = (double)bytes, n = at->ranks;
    const double odd = is_power_of_two(at->ranks) ? 0 : 2;
    const cost costs[] = {
        {PSR_ALGORITHM_RING, (n - 1) * STEP_BYTES + at->hops * (n - 1) / n * m},
        {PSR_ALGORITHM_HALVING,
         (log2_up(at->ranks) + odd) * STEP_BYTES + (halves(at) + odd * at->most_on_one) * m},
        {PSR_ALGORITHM_DIRECT, to_each(at, m / n)},
    };
    return least_of(costs, bytes <= AT_ONCE_BYTES_MAX ? 3 : 2);
}

static psr_algorithm all_gather_over_links(uint64_t bytes, const psr_rank_hosts *at)
{
    const double m = (double)bytes, n = at->ranks;
    const double to_others = (double)at->most_on_one * (at->ranks - at->most_on_one) / n * m;
    const cost costs[] = {
        {PSR_ALGORITHM_RING, (n - 1) * STEP_BYTES + at->hops * (n - 1) / n * m},
        {PSR_ALGORITHM_BRUCK, log2_up(at->ranks) * STEP_BYTES + to_others},
        {PSR_ALGORITHM_DIRECT, to_each(at, m / n)},
    };
    return least_of(costs, bytes <= AT_ONCE_BYTES_MAX ? 3 : 1);
}

/* ---- either ---- */

static psr_algorithm tree_of(psr_kind kind)
{
    return kind == PSR_KIND_SCAN || kind == PSR_KIND_EXSCAN ? PSR_ALGORITHM_DOUBLING
                                                            : PSR_ALGORITHM_BINOMIAL;
}

psr_algorithm psr_algorithm_choose(psr_kind kind, uint64_t bytes, const psr_rank_hosts *at)
{
    const bool links = at->hosts > 1, few = bytes <= 64 * 1024;
    switch (kind) {
    case PSR_KIND_ALL_REDUCE:
        return links ? all_reduce_over_links(bytes, at) : all_reduce_here(bytes, at->ranks);
    case PSR_KIND_REDUCE:
    case PSR_KIND_BROADCAST:
    case PSR_KIND_SCAN:
    case PSR_KIND_EXSCAN:
        if (links)
            return tree_or_chain(tree_of(kind),
                                 tree_of(kind) == PSR_ALGORITHM_DOUBLING ? at->most_on_one : 1,
                                 (double)bytes, at);
        return few || at->ranks <= 2 ? tree_of(kind) : PSR_ALGORITHM_CHAIN;
    case PSR_KIND_REDUCE_SCATTER:
        if (links)
            return reduce_scatter_over_links(bytes, at);
        return few ? PSR_ALGORITHM_DIRECT : PSR_ALGORITHM_RING;
    case PSR_KIND_ALL_GATHER:
    case PSR_KIND_GROUP_SPLIT:
    case PSR_KIND_TABLE_OPEN:
    case PSR_KIND_TABLE_CLOSE:
    case PSR_KIND_TABLE_READ:
    case PSR_KIND_TABLE_WRITE:
    case PSR_KIND_TABLE_SET:
        if (links)
            return all_gather_over_links(bytes, at);
        return !few             ? PSR_ALGORITHM_RING
               : at->ranks <= 8 ? PSR_ALGORITHM_DIRECT
                                : PSR_ALGORITHM_BRUCK;
    case PSR_KIND_GATHER:
    case PSR_KIND_SCATTER:
        return bytes / at->ranks <= (links ? 16 : 4) * 1024 && at->ranks >= 8
                   ? PSR_ALGORITHM_BINOMIAL
                   : PSR_ALGORITHM_DIRECT;
    case PSR_KIND_BARRIER:
        return PSR_ALGORITHM_DISSEMINATION;
    default:
        return PSR_ALGORITHM_DIRECT;
    }
}

static bool is_of_same_bytes(psr_kind kind)
{
    switch (kind) {
    case PSR_KIND_ALL_REDUCE:
    case PSR_KIND_REDUCE:
    case PSR_KIND_BROADCAST:
    case PSR_KIND_REDUCE_SCATTER:
    case PSR_KIND_ALL_GATHER:
    case PSR_KIND_GATHER:
    case PSR_KIND_SCATTER:
    case PSR_KIND_SCAN:
    case PSR_KIND_EXSCAN:
    case PSR_KIND_SEND:
    case PSR_KIND_RECEIVE:
        return true;
    default:
        return false;
    }
}

size_t psr_slice_choose(psr_kind kind, uint64_t bytes, size_t least, size_t most)
{
    enum { SLICES_LEAST = 32 };
    size_t slice = least;
    while (is_of_same_bytes(kind) && 2 * slice <= most && bytes / (2 * slice) >= SLICES_LEAST)
        slice *= 2;
    return slice;
}
