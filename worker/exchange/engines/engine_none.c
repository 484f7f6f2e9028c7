/* --no-exchange: workers that compute beside each other and exchange nothing. What a step costs
 * then is the base line for what the exchange adds. Weights never change, so every step costs the
 * same. */
#include "worker/exchange/engines/engine.h"

#include <stdlib.h>

struct psr_engine {
    psr_engine_env env;
};

static psr_err none_open(const psr_engine_env *env, psr_engine **ret_engine)
{
    psr_engine *engine = malloc(sizeof *engine);
    if (engine == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an engine");
    engine->env = *env;
    *ret_engine = engine;
    return PSR_OK;
}

static void none_close(psr_engine *engine)
{
    free(engine);
}

static psr_err none_ready(psr_engine *engine, uint64_t step, uint32_t bucket)
{
    return engine->env.landed(engine->env.context, step, bucket);
}

const psr_engine_ops psr_engine_none = {
    .name = "none",
    .waits_in = PSR_PHASE_RING,
    .open = none_open,
    .close = none_close,
    .ready = none_ready,
};
