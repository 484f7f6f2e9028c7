#include "base/system/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS (8 * sizeof(unsigned long))

void psr_cpus_add(psr_cpus *cpus, uint32_t cpu)
{
    cpus->words[cpu / WORD_BITS] |= 1ul << cpu % WORD_BITS;
}

bool psr_cpus_has(const psr_cpus *cpus, uint32_t cpu)
{
    return cpus->words[cpu / WORD_BITS] >> cpu % WORD_BITS & 1;
}

uint32_t psr_cpus_count(const psr_cpus *cpus)
{
    uint32_t count = 0;
    for (uint32_t cpu = 0; cpu < PSR_CPUS_MAX; cpu++)
        count += psr_cpus_has(cpus, cpu);
    return count;
}

psr_cpus psr_cpus_allowed(void)
{
    psr_cpus cpus = {{0}};
    if (sched_getaffinity(0, sizeof cpus.words, (cpu_set_t *)cpus.words) != 0)
        return (psr_cpus){{0}};
    return cpus;
}

psr_err psr_cpus_print(const psr_cpus *cpus, char **ret_list)
{
    char *list = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&list, &size);
    if (to == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a list of processors");
    for (uint32_t cpu = 0; cpu < PSR_CPUS_MAX; cpu++) {
        uint32_t last = cpu;
        if (!psr_cpus_has(cpus, cpu))
            continue;
        while (last + 1 < PSR_CPUS_MAX && psr_cpus_has(cpus, last + 1))
            last++;
        fprintf(to, last > cpu ? "%s%u-%u" : "%s%u", ftell(to) > 0 ? "," : "", cpu, last);
        cpu = last;
    }
    if (fclose(to) != 0) {
        free(list);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a list of processors");
    }
    *ret_list = list;
    return PSR_OK;
}

static bool read_number(const char **at, uint32_t *ret_cpu)
{
    char *end = NULL;
    if (**at < '0' || **at > '9')
        return false;
    unsigned long cpu = strtoul(*at, &end, 10);
    *at = end;
    *ret_cpu = (uint32_t)cpu;
    return cpu < PSR_CPUS_MAX;
}

psr_err psr_cpus_parse(const char *list, psr_cpus *ret_cpus)
{
    psr_cpus cpus = {{0}};
    for (const char *at = list; *at != '\0';) {
        uint32_t first, last;
        bool good = read_number(&at, &first);
        last = first;
        if (good && *at == '-') {
            at++;
            good = read_number(&at, &last);
        }
        if (!good || last < first || (*at != ',' && *at != '\0') || (*at == ',' && at[1] == '\0'))
            return psr_fail(PSR_ERR_FORMAT, "'%.100s' is no list of processors, as 0-3,8, below %d",
                            list, PSR_CPUS_MAX);
        for (uint32_t cpu = first; cpu <= last; cpu++)
            psr_cpus_add(&cpus, cpu);
        at += *at == ',';
    }
    *ret_cpus = cpus;
    return PSR_OK;
}
