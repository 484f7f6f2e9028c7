/* psr_hostfile_parse and psr_hosts_from_list over hostile bytes. */
#include "deploy/launch/hosts/hostfile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(psr_hosts *hosts)
{
    if (hosts->count == 0 || psr_hosts_slots(hosts) < hosts->count)
        abort();
    for (size_t i = 0; i < hosts->count; i++)
        if (hosts->items[i].name[0] == '-' || strpbrk(hosts->items[i].name, " ;'\"$`\n") != NULL)
            abort(); /* would reach ssh's command line */
    psr_hosts_done(hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    psr_hosts hosts = {0};
    if (psr_hostfile_parse("fuzz", (const char *)data, size, &hosts) == PSR_OK)
        use(&hosts);
    char *list = malloc(size + 1);
    if (list == NULL)
        return 0;
    if (size)
        memcpy(list, data, size);
    list[size] = '\0';
    if (psr_hosts_from_list(list, &hosts) == PSR_OK)
        use(&hosts);
    free(list);
    return 0;
}
