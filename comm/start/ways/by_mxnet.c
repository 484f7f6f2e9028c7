/* The variables of MXNet's parameter server, ps-lite (https://github.com/dmlc/ps-lite,
 * docs/env.md): DMLC_ROLE, DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT,
 * DMLC_INTERFACE. They give no ranks: the scheduler gives one to each process that joins. */
#include "comm/start/roles.h"
#include "comm/start/variables.h"
#include "comm/start/ways/ways.h"

psr_err psr_start_by_mxnet(psr_start *s)
{
    static const psr_start_roles roles = {
        .way = "MXNet's variables",
        .role = "DMLC_ROLE",
        .words = {"scheduler", "server", "worker"},
        .workers = "DMLC_NUM_WORKER",
        .shards = "DMLC_NUM_SERVER",
        .address = "DMLC_PS_ROOT_URI",
        .port = "DMLC_PS_ROOT_PORT",
    };
    PSR_TRY(psr_start_by_roles(&roles, s));
    return psr_variable_copy("DMLC_INTERFACE", s->tcp_interface, sizeof s->tcp_interface);
}
