/* The variables that Slurm's srun gives each task
 * (https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES): SLURM_PROCID,
 * SLURM_STEP_NUM_TASKS (or SLURM_NTASKS), SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_NUM_NODES,
 * SLURM_STEP_NODELIST, SLURM_JOB_ID, SLURM_STEP_ID and SLURM_RESTART_COUNT. Of a heterogeneous job
 * (https://slurm.schedmd.com/heterogeneous_jobs.html) also SLURM_HET_SIZE,
 * SLURM_JOB_NUM_NODES_HET_GROUP_N and SLURM_STEP_TASKS_PER_NODE.
 *
 * A script of sbatch has some of them too, but no SLURM_STEP_NODELIST: it is no task of a step of
 * srun's. Task 0 is on the step's first node, which is where the scheduler is. */
#include "comm/start/variables.h"
#include "comm/start/ways/ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each job and step takes its own port from this range, so that several on one node rarely take the
 * same one. */
#define PORT_FIRST 30000
#define PORTS 20000

/* The first host of a list such as "node[01-03,7],other" or "rack[1-2]n[4-6]": node01, rack1n4.
 * false: the list has another form, or is too long. */
static bool first_host(const char *list, char ret_host[PSR_HOST_MAX])
{
    size_t length = 0;
    for (const char *at = list; *at != '\0' && *at != ','; at++) {
        if (*at == '[') {
            size_t digits = strspn(at + 1, "0123456789");
            const char *end = strchr(at, ']');
            if (digits == 0 || end == NULL || length + digits >= PSR_HOST_MAX)
                return false;
            memcpy(ret_host + length, at + 1, digits);
            length += digits;
            at = end;
        } else {
            if (length + 1 >= PSR_HOST_MAX)
                return false;
            ret_host[length++] = *at;
        }
    }
    ret_host[length] = '\0';
    return length > 0;
}

static psr_err read_numbers(psr_start *s)
{
    PSR_TRY(
        psr_variable_need("SLURM_PROCID", "SLURM_STEP_NODELIST is: it says which task this is"));
    PSR_TRY(psr_variable_need(s->ranks_variable, "SLURM_PROCID is: it says of how many"));
    PSR_TRY(psr_variable_u32(s->ranks_variable, 1, PSR_START_RANKS_MAX, &s->ranks));
    PSR_TRY(psr_variable_u32("SLURM_PROCID", 0, s->ranks - 1, &s->rank));
    PSR_TRY(psr_variable_u32("SLURM_LOCALID", 0, s->ranks - 1, &s->local_rank));
    PSR_TRY(psr_variable_u32("SLURM_STEP_NUM_NODES", 1, s->ranks, &s->nodes));
    return psr_variable_u32("SLURM_NODEID", 0,
                            s->nodes != PSR_START_UNTOLD ? s->nodes - 1 : s->ranks - 1, &s->node);
}

/* ---- components ---- */

#define COMPONENTS_MAX 128 /* Slurm's limit */

/* The number of nodes of all components of the job, and of the last one. false: not known. */
static bool count_nodes(int64_t components, uint32_t *ret_all, uint32_t *ret_last)
{
    uint32_t all = 0, nodes = 0;
    for (int64_t i = 0; i < components; i++) {
        char name[48];
        snprintf(name, sizeof name, "SLURM_JOB_NUM_NODES_HET_GROUP_%d", (int)i);
        nodes = 0;
        if (psr_variable_u32(name, 1, PSR_START_RANKS_MAX, &nodes) != PSR_OK || nodes == 0)
            return false;
        all += nodes;
    }
    *ret_all = all;
    *ret_last = nodes;
    return true;
}

/* From text such as "2(x3),1": the tasks on all nodes but the first `before`. false: it has another
 * form. */
static bool tasks_behind(const char *text, uint32_t before, uint32_t *ret_tasks)
{
    uint64_t tasks = 0;
    for (const char *at = text;; at++) {
        char *end;
        unsigned long each = strtoul(at, &end, 10), times = 1;
        if (end == at || each > PSR_START_RANKS_MAX)
            return false;
        at = end;
        if (strncmp(at, "(x", 2) == 0) {
            times = strtoul(at + 2, &end, 10);
            if (end == at + 2 || *end != ')' || times > PSR_START_RANKS_MAX)
                return false;
            at = end + 1;
        }
        for (; before > 0 && times > 0; before--)
            times--;
        tasks += (uint64_t)each * times;
        if (*at == '\0')
            break;
        if (*at != ',')
            return false;
    }
    *ret_tasks = (uint32_t)tasks;
    return tasks < PSR_START_RANKS_MAX;
}

/* A step with all nodes of a heterogeneous job has all of its components, in their order. A step of
 * one component has only that component's nodes. */
static psr_err read_components(psr_start *s)
{
    int64_t components = 1;
    uint32_t all = 0, last = 0;
    const char *tasks = psr_variable("SLURM_STEP_TASKS_PER_NODE");
    PSR_TRY(psr_variable_number("SLURM_HET_SIZE", 1, COMPONENTS_MAX, &components));
    if (components == 1 || tasks == NULL || !count_nodes(components, &all, &last) ||
        s->nodes != all)
        return PSR_OK;
    if (!tasks_behind(tasks, all - last, &s->last_component) || s->last_component >= s->ranks)
        return psr_fail(PSR_ERR_USAGE,
                        "SLURM_STEP_TASKS_PER_NODE is \"%.80s\": it should be the tasks of each of "
                        "%u nodes, as 2(x3),1",
                        tasks, all);
    return PSR_OK;
}

psr_err psr_start_by_slurm(psr_start *s)
{
    int64_t job = 0, step = 0, restarts = 0;
    const char *nodes = psr_variable("SLURM_STEP_NODELIST");
    if (nodes == NULL)
        return PSR_ERR_NOT_FOUND;
    s->way = "Slurm's srun";
    s->level = PSR_START_MANAGER;
    s->rank_variable = "SLURM_PROCID";
    s->ranks_variable =
        psr_variable("SLURM_STEP_NUM_TASKS") != NULL ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    s->address_variable = "SLURM_STEP_NODELIST";
    PSR_TRY(read_numbers(s));
    PSR_TRY(read_components(s));
    PSR_TRY(psr_variable_number("SLURM_JOB_ID", 0, UINT32_MAX, &job));
    PSR_TRY(psr_variable_number("SLURM_STEP_ID", 0, UINT32_MAX, &step));
    PSR_TRY(psr_variable_number("SLURM_RESTART_COUNT", 0, UINT32_MAX, &restarts));
    if (!first_host(nodes, s->address))
        return psr_fail(
            PSR_ERR_USAGE,
            "SLURM_STEP_NODELIST is \"%.80s\": it should be a list of nodes as \"node[1-3]\"",
            nodes);
    s->port = (uint16_t)(PORT_FIRST + (job * 16 + step) % PORTS);
    s->starts_scheduler = s->rank == 0;
    char cluster[64] = "";
    PSR_TRY(psr_variable_copy("SLURM_CLUSTER_NAME", cluster, sizeof cluster));
    snprintf(s->job, sizeof s->job, "slurm %s %lld %lld %lld", cluster, (long long)job,
             (long long)step, (long long)restarts);
    return PSR_OK;
}
