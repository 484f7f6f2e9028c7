#include "deploy/agent/topology.h"

#include <stdlib.h>

void psr_topology_done(psr_topology *t)
{
    free(t->cores);
    free(t->cpus);
    *t = (psr_topology){0};
}

/* ---- as JSON ---- */

psr_err psr_topology_to_json(const psr_topology *t, cJSON **ret_json)
{
    cJSON *nodes = cJSON_CreateArray(), *node = NULL;
    bool whole = nodes != NULL;
    for (uint32_t i = 0; i < t->core_count && whole; i++) {
        const psr_core *core = &t->cores[i];
        if (i == 0 || core->node != t->cores[i - 1].node)
            whole = cJSON_AddItemToArray(nodes, node = cJSON_CreateArray());
        cJSON *cpus = cJSON_CreateArray();
        whole = whole && cJSON_AddItemToArray(node, cpus);
        for (uint32_t c = 0; c < core->count && whole; c++)
            whole = cJSON_AddItemToArray(cpus, cJSON_CreateNumber(t->cpus[core->first + c]));
    }
    if (!whole) {
        cJSON_Delete(nodes);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the cores of this host");
    }
    *ret_json = nodes;
    return PSR_OK;
}

/* Reads the next core's processors. Processors that were seen before are in `seen`. */
static bool read_core(const cJSON *json, uint32_t node, psr_cpus *seen, psr_topology *t)
{
    const cJSON *cpu;
    psr_core *core = &t->cores[t->core_count++];
    *core = (psr_core){.node = node, .first = t->cpu_count};
    cJSON_ArrayForEach(cpu, json)
    {
        double number = cJSON_IsNumber(cpu) ? cpu->valuedouble : -1;
        if (!(number >= 0 && number < PSR_CPUS_MAX) || number != (uint16_t)number ||
            psr_cpus_has(seen, (uint32_t)number))
            return false;
        psr_cpus_add(seen, (uint32_t)number);
        t->cpus[t->cpu_count++] = (uint16_t)number;
        core->count++;
    }
    return cJSON_IsArray(json) && core->count > 0;
}

static bool read_nodes(const cJSON *nodes, psr_topology *t)
{
    psr_cpus seen = {{0}};
    const cJSON *node, *core;
    cJSON_ArrayForEach(node, nodes)
    {
        if (!cJSON_IsArray(node) || cJSON_GetArraySize(node) == 0)
            return false;
        cJSON_ArrayForEach(core, node)
        {
            if (t->core_count == PSR_CPUS_MAX || !read_core(core, t->node_count, &seen, t))
                return false;
        }
        t->node_count++;
    }
    return cJSON_IsArray(nodes) && t->core_count > 0;
}

static psr_err allocate(psr_topology *t)
{
    t->cores = calloc(PSR_CPUS_MAX, sizeof *t->cores);
    t->cpus = calloc(PSR_CPUS_MAX, sizeof *t->cpus);
    if (t->cores != NULL && t->cpus != NULL)
        return PSR_OK;
    psr_topology_done(t);
    return psr_fail(PSR_ERR_NOMEM, "no memory for the cores of a host");
}

/* Shrinks the arrays to their used size. */
static void shrink(psr_topology *t)
{
    psr_core *cores = realloc(t->cores, t->core_count * sizeof *cores);
    uint16_t *cpus = realloc(t->cpus, t->cpu_count * sizeof *cpus);
    t->cores = cores != NULL ? cores : t->cores;
    t->cpus = cpus != NULL ? cpus : t->cpus;
}

psr_err psr_topology_from_json(const cJSON *json, psr_topology *ret_topology)
{
    psr_topology t = {0};
    PSR_TRY(allocate(&t));
    if (!read_nodes(json, &t)) {
        psr_topology_done(&t);
        return psr_fail(PSR_ERR_FORMAT, "these are not the cores of a host");
    }
    shrink(&t);
    *ret_topology = t;
    return PSR_OK;
}

/* ---- of this host ---- */

#if PSR_HWLOC
#include <hwloc.h>

/* hwloc's topology does not have processors that are offline. Of the others, those count that this
 * process may use. */
static void take_core(hwloc_obj_t core, uint32_t node, const psr_cpus *allowed, psr_topology *t)
{
    unsigned cpu;
    psr_core *to = &t->cores[t->core_count];
    *to = (psr_core){.node = node, .first = t->cpu_count};
    hwloc_bitmap_foreach_begin(cpu, core->cpuset)
    {
        if (cpu < PSR_CPUS_MAX && psr_cpus_has(allowed, cpu)) {
            t->cpus[t->cpu_count++] = (uint16_t)cpu;
            to->count++;
        }
    }
    hwloc_bitmap_foreach_end();
    t->core_count += to->count > 0;
}

static void take_all(hwloc_topology_t hwloc, psr_topology *t)
{
    const psr_cpus allowed = psr_cpus_allowed();
    int nodes = hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_NUMANODE);
    /* Some virtual machines do not tell which processors share a core. */
    hwloc_obj_type_t type =
        hwloc_get_nbobjs_by_type(hwloc, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    for (int n = 0; n < nodes; n++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, (unsigned)n),
                    core = NULL;
        uint32_t before = t->core_count;
        while (node != NULL && t->core_count < PSR_CPUS_MAX &&
               (core = hwloc_get_next_obj_inside_cpuset_by_type(hwloc, node->cpuset, type, core)) !=
                   NULL)
            take_core(core, t->node_count, &allowed, t);
        t->node_count += t->core_count > before; /* some have memory alone */
    }
}

static bool load(hwloc_topology_t *ret_hwloc)
{
    hwloc_topology_t hwloc;
    if (hwloc_topology_init(&hwloc) != 0)
        return false;
    bool good =
        hwloc_topology_set_all_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_NONE) == 0 &&
        hwloc_topology_set_type_filter(hwloc, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL) == 0 &&
        hwloc_topology_load(hwloc) == 0;
    if (good)
        *ret_hwloc = hwloc;
    else
        hwloc_topology_destroy(hwloc);
    return good;
}

psr_err psr_topology_read(psr_topology *ret_topology)
{
    hwloc_topology_t hwloc;
    psr_topology t = {0};
    PSR_TRY(allocate(&t));
    if (load(&hwloc)) {
        take_all(hwloc, &t);
        hwloc_topology_destroy(hwloc);
    }
    if (t.core_count == 0) {
        psr_topology_done(&t);
        return psr_fail(PSR_ERR_IO, "hwloc does not find this host's cores");
    }
    shrink(&t);
    *ret_topology = t;
    return PSR_OK;
}

#else
psr_err psr_topology_read(psr_topology *ret_topology)
{
    (void)ret_topology;
    return psr_fail(PSR_ERR_UNSUPPORTED, "this psring was built without hwloc");
}
#endif
