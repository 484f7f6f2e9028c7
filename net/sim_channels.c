#include "net/sim_channels.h"

#include <stdlib.h>

static size_t place_of(const psr_sim_channels *channels, psr_peer from, psr_peer to)
{
    const uint64_t ends = ((uint64_t)from.rank << 34 | (uint64_t)to.rank << 4 |
                           (uint64_t)from.role << 2 | (uint64_t)to.role);
    const uint64_t mixed = ends * 0x9e3779b97f4a7c15u; /* Fibonacci hashing */
    size_t i = (size_t)(mixed >> 32) & (channels->capacity - 1);
    for (;; i = (i + 1) & (channels->capacity - 1)) {
        const psr_sim_channel *at = channels->table[i];
        if (at == NULL || (psr_peer_equal(at->from, from) && psr_peer_equal(at->to, to)))
            return i;
    }
}

psr_sim_channel *psr_sim_channels_find(const psr_sim_channels *channels, psr_peer from, psr_peer to)
{
    return channels->count > 0 ? channels->table[place_of(channels, from, to)] : NULL;
}

/* Half of the table stays free. */
static bool reserve_one(psr_sim_channels *channels)
{
    if (2 * (channels->count + 1) <= channels->capacity)
        return true;
    psr_sim_channels larger = {.capacity = channels->capacity ? 2 * channels->capacity : 16,
                               .count = channels->count};
    larger.table = calloc(larger.capacity, sizeof(psr_sim_channel *));
    if (larger.table == NULL)
        return false;
    for (size_t i = 0; i < channels->capacity; i++)
        if (channels->table[i] != NULL)
            larger.table[place_of(&larger, channels->table[i]->from, channels->table[i]->to)] =
                channels->table[i];
    free(channels->table);
    *channels = larger;
    return true;
}

psr_sim_channel *psr_sim_channels_get(psr_sim_channels *channels, psr_peer from, psr_peer to)
{
    psr_sim_channel *found = psr_sim_channels_find(channels, from, to);
    if (found != NULL || !reserve_one(channels))
        return found;
    psr_sim_channel *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    made->from = from;
    made->to = to;
    channels->table[place_of(channels, from, to)] = made;
    channels->count++;
    return made;
}

void psr_sim_channels_done(psr_sim_channels *channels)
{
    for (size_t i = 0; i < channels->capacity; i++)
        free(channels->table[i]);
    free(channels->table);
    *channels = (psr_sim_channels){.table = NULL};
}
