#include "base/system/machine.h"

#include <stdio.h>
#include <string.h>

void psr_machine_id(char id[PSR_MACHINE_BYTES])
{
    id[0] = '\0';
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL)
        return;
    if (fgets(id, PSR_MACHINE_BYTES, file) == NULL)
        id[0] = '\0';
    fclose(file);
    id[strcspn(id, "\n")] = '\0';
}
