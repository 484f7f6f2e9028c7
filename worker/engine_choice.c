#include "worker/engine.h"

psr_err psr_engine_choose(const psr_config *config, const psr_engine_ops **ret_engine)
{
    const psr_engine_ops *engine = NULL;
    switch (config->mode) {
    case PSR_MODE_PS:
        engine = &psr_engine_ps;
        break;
    case PSR_MODE_RING:
        engine = config->exchange ? &psr_engine_ring : &psr_engine_none;
        break;
    case PSR_MODE_LOCAL:
        engine = &psr_engine_local;
        break;
    case PSR_MODE_MPI:
#if PSR_MPI
        engine = &psr_engine_mpi;
#endif
        break;
    case PSR_MODE_NCCL:
        break;
    }
    if (engine == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "--mode: this build has no exchange of that kind");
    *ret_engine = engine;
    return PSR_OK;
}
