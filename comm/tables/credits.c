#include "comm/tables/credits.h"

#include <stdlib.h>

psr_err psr_credits_init(psr_credits *credits, uint32_t workers, uint64_t of_step, uint64_t ahead,
                         uint64_t at_once)
{
    *credits = (psr_credits){.received = calloc(workers, sizeof *credits->received),
                             .told = calloc(workers, sizeof *credits->told),
                             .near = calloc(workers, sizeof *credits->near),
                             .workers = workers,
                             .of_step = of_step,
                             .ahead = ahead,
                             .at_once = at_once,
                             .least = UINT64_MAX};
    return credits->received != NULL && credits->told != NULL && credits->near != NULL
               ? PSR_OK
               : psr_fail(PSR_ERR_NOMEM, "no memory for %u workers", workers);
}

void psr_credits_done(psr_credits *credits)
{
    free(credits->received);
    free(credits->told);
    free(credits->near);
    *credits = (psr_credits){0};
}

static uint64_t find_least(const psr_credits *c)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t w = 0; w < c->workers; w++)
        if (!c->near[w] && c->received[w] % c->of_step != 0 && c->received[w] < least)
            least = c->received[w];
    return least;
}

bool psr_credits_set_near(psr_credits *c, uint32_t worker)
{
    const uint64_t least = c->least;
    c->near[worker] = true;
    c->least = find_least(c);
    return c->least > least;
}

bool psr_credits_take(psr_credits *c, uint32_t worker)
{
    const uint64_t before = c->received[worker]++;
    if (c->ahead == 0 || c->near[worker])
        return false;
    if (before % c->of_step == 0) { /* it begins a step */
        if (c->of_step > 1 && c->received[worker] < c->least)
            c->least = c->received[worker];
        return false;
    }
    if (before > c->least)
        return false;
    c->least = find_least(c);
    return c->least > before;
}

static uint64_t credit_of(const psr_credits *c, uint32_t worker)
{
    const uint64_t received = c->received[worker], told = c->told[worker];
    if (c->ahead == 0 || c->near[worker] || c->least == UINT64_MAX ||
        received <= c->least + c->ahead)
        return received;
    return told > c->least + c->ahead ? told : c->least + c->ahead;
}

bool psr_credits_due(const psr_credits *c, uint32_t worker)
{
    return credit_of(c, worker) - c->told[worker] >= c->at_once;
}

uint64_t psr_credits_tell(psr_credits *c, uint32_t worker)
{
    return c->told[worker] = credit_of(c, worker);
}
