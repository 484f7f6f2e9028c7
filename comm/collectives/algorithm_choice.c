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

static psr_algorithm of_all_reduce(uint64_t bytes, uint32_t ranks, uint64_t k)
{
    const uint64_t direct_kib = ranks <= 2 ? 64 : ranks <= 4 ? 16 : ranks <= 8 ? 1 : 0;
    if (direct_kib > 0 && bytes <= k * direct_kib * 1024)
        return PSR_ALGORITHM_DIRECT;
    if (bytes <= k * 64 * 1024)
        return PSR_ALGORITHM_DOUBLING;
    return bytes <= k * 1024 * 1024 && ranks >= 4 ? PSR_ALGORITHM_HALVING : PSR_ALGORITHM_RING;
}

psr_algorithm psr_algorithm_choose(psr_kind kind, uint64_t bytes, uint32_t ranks, uint32_t hosts)
{
    const uint64_t k = hosts > 1 ? 4 : 1;
    const bool few = bytes <= k * 64 * 1024;
    switch (kind) {
    case PSR_KIND_ALL_REDUCE:
        return of_all_reduce(bytes, ranks, k);
    case PSR_KIND_REDUCE:
    case PSR_KIND_BROADCAST:
        return few || ranks <= 2 ? PSR_ALGORITHM_BINOMIAL : PSR_ALGORITHM_CHAIN;
    case PSR_KIND_SCAN:
    case PSR_KIND_EXSCAN:
        return few || ranks <= 2 ? PSR_ALGORITHM_DOUBLING : PSR_ALGORITHM_CHAIN;
    case PSR_KIND_REDUCE_SCATTER:
        return few ? PSR_ALGORITHM_DIRECT : PSR_ALGORITHM_RING;
    case PSR_KIND_ALL_GATHER:
    case PSR_KIND_GROUP_SPLIT:
    case PSR_KIND_TABLE_OPEN:
    case PSR_KIND_TABLE_CLOSE:
    case PSR_KIND_TABLE_READ:
    case PSR_KIND_TABLE_WRITE:
        return !few ? PSR_ALGORITHM_RING : ranks <= 8 ? PSR_ALGORITHM_DIRECT : PSR_ALGORITHM_BRUCK;
    case PSR_KIND_GATHER:
    case PSR_KIND_SCATTER:
        return bytes / ranks <= k * 4 * 1024 && ranks >= 8 ? PSR_ALGORITHM_BINOMIAL
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
