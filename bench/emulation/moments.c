#include "bench/emulation/moments.h"

#include <stdlib.h>

static uint32_t earlier(const psr_moments *m, uint32_t a, uint32_t b)
{
    return m->at_us[b] < m->at_us[a] ? b : a;
}

/* The number that leads at a node: an inner one, or a leaf. */
static uint32_t leader(const psr_moments *m, uint32_t node)
{
    return node < m->leaves ? m->winner[node] : node - m->leaves;
}

static void play(psr_moments *m, uint32_t node)
{
    m->winner[node] = earlier(m, leader(m, 2 * node), leader(m, 2 * node + 1));
}

psr_err psr_moments_init(psr_moments *moments, uint32_t count)
{
    psr_moments m = {.leaves = 2};
    while (m.leaves < count)
        m.leaves *= 2;
    m.at_us = calloc(m.leaves, sizeof *m.at_us);
    m.winner = calloc(m.leaves, sizeof *m.winner);
    if (m.at_us == NULL || m.winner == NULL) {
        psr_moments_done(&m);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u times", count);
    }
    for (uint32_t i = 0; i < m.leaves; i++)
        m.at_us[i] = INT64_MAX;
    for (uint32_t node = m.leaves; node-- > 1;)
        play(&m, node);
    *moments = m;
    return PSR_OK;
}

void psr_moments_done(psr_moments *moments)
{
    free(moments->at_us);
    free(moments->winner);
    *moments = (psr_moments){.at_us = NULL};
}

void psr_moments_set(psr_moments *m, uint32_t number, int64_t at_us)
{
    if (m->at_us[number] == at_us)
        return;
    m->at_us[number] = at_us;
    for (uint32_t node = (m->leaves + number) / 2; node > 0; node /= 2)
        play(m, node);
}

uint32_t psr_moments_first(const psr_moments *m)
{
    return m->winner[1];
}
