#include "deploy/launch/hosts/allocation.h"

#include <stdlib.h>
#include <string.h>

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* "2", "2(x3)": reads to the word's end. */
static bool read_tasks(const char **at, uint32_t *ret_tasks, uint32_t *ret_times)
{
    size_t digits = strspn(*at, "0123456789");
    *ret_times = 1;
    if (!psr_slots_parse(*at, digits, ret_tasks))
        return false;
    *at += digits;
    if (strncmp(*at, "(x", 2) == 0) {
        *at += 2;
        digits = strspn(*at, "0123456789");
        if (digits == 0 || digits > 5 || (*at)[digits] != ')')
            return false;
        *ret_times = (uint32_t)strtoul(*at, NULL, 10);
        *at += digits + 1;
    }
    return **at == ',' || **at == '\0';
}

/* Reads a variable of this name that has a number for each of Slurm's nodes, in order: "2(x3),1" is
 * 2, 2, 2, 1. FORMAT: it has another form, or another number of nodes. */
static psr_err read_all_tasks(const char *name, const char *text, uint32_t *ret_tasks, size_t count)
{
    char quoted[PSR_HOST_QUOTE_BYTES];
    size_t filled = 0;
    for (const char *at = text;; at++) {
        uint32_t tasks = 0, times = 0;
        bool good = read_tasks(&at, &tasks, &times);
        if (!good || times > count - filled)
            return psr_fail(PSR_ERR_FORMAT,
                            "%s is %s: it should be the number of each of %zu nodes, as 2(x3),1",
                            name, psr_host_quote(text, strlen(text), quoted), count);
        while (times-- > 0)
            ret_tasks[filled++] = tasks;
        if (*at == '\0')
            break;
    }
    return filled == count
               ? PSR_OK
               : psr_fail(PSR_ERR_FORMAT,
                          "%s is %s: it is of %zu nodes, and SLURM_JOB_NODELIST has %zu", name,
                          psr_host_quote(text, strlen(text), quoted), filled, count);
}

/* Several launchers would start several runs, so only one may be started. */
static psr_err check_alone(void)
{
    const char *tasks = variable("SLURM_STEP_NUM_TASKS");
    if (variable("SLURM_STEP_NODELIST") == NULL || tasks == NULL || strcmp(tasks, "1") == 0)
        return PSR_OK;
    return psr_fail(
        PSR_ERR_USAGE,
        "srun has started this program %.10s times, but it must be started once, since it "
        "starts the workers itself; call it without srun or by srun -n 1, or give srun "
        "psring-worker",
        tasks);
}

bool psr_allocation_is_there(void)
{
    return variable("SLURM_JOB_ID") != NULL;
}

/* Within a step, SLURM_TASKS_PER_NODE counts the step's tasks, and this process is the only one. So
 * the job's processors are counted instead. */
static const char *slots_variable(void)
{
    return variable("SLURM_STEP_NODELIST") != NULL ? "SLURM_JOB_CPUS_PER_NODE"
                                                   : "SLURM_TASKS_PER_NODE";
}

psr_err psr_allocation_read(psr_hosts *ret_hosts)
{
    const char *nodes = variable("SLURM_JOB_NODELIST"), *per_node = variable(slots_variable());
    if (variable("SLURM_JOB_ID") == NULL || nodes == NULL)
        return PSR_ERR_NOT_FOUND;
    PSR_TRY(check_alone());
    psr_hosts hosts = {0};
    if (psr_hosts_from_list(nodes, &hosts) != PSR_OK) {
        char quoted[PSR_HOST_QUOTE_BYTES];
        return psr_fail(PSR_ERR_USAGE,
                        "SLURM_JOB_NODELIST is %s: it should be a list of nodes as node[1-3],other",
                        psr_host_quote(nodes, strlen(nodes), quoted));
    }
    uint32_t *tasks = calloc(hosts.count, sizeof *tasks);
    psr_err err =
        tasks != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for %zu hosts", hosts.count);
    if (err == PSR_OK && per_node != NULL)
        err = read_all_tasks(slots_variable(), per_node, tasks, hosts.count);
    for (size_t i = 0; err == PSR_OK && i < hosts.count; i++)
        hosts.items[i].slots = per_node != NULL ? tasks[i] : 1;
    free(tasks);
    if (err != PSR_OK) {
        psr_hosts_done(&hosts);
        return err == PSR_ERR_FORMAT ? PSR_ERR_USAGE : err;
    }
    *ret_hosts = hosts;
    return PSR_OK;
}
