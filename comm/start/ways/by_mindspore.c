/* The variables of MindSpore's dynamic cluster and parameter server (https://www.mindspore.cn/docs,
 * "Dynamic Cluster Startup"): MS_ROLE, MS_WORKER_NUM, MS_SERVER_NUM, MS_SCHED_HOST, MS_SCHED_PORT.
 * They give no ranks: the scheduler gives one to each process that joins. */
#include "comm/start/roles.h"
#include "comm/start/ways/ways.h"

psr_err psr_start_by_mindspore(psr_start *s)
{
    static const psr_start_roles roles = {
        .way = "MindSpore's variables",
        .role = "MS_ROLE",
        .words = {"MS_SCHED", "MS_PSERVER", "MS_WORKER"},
        .workers = "MS_WORKER_NUM",
        .shards = "MS_SERVER_NUM",
        .address = "MS_SCHED_HOST",
        .port = "MS_SCHED_PORT",
    };
    return psr_start_by_roles(&roles, s);
}
