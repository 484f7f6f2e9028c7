#include "base/system/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

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

void psr_machine_processor(char *name, size_t size)
{
    static const char key[] = "model name";
    char line[512];
    struct utsname system;
    snprintf(name, size, "%s", uname(&system) == 0 ? system.machine : "");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, sizeof key - 1) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(name, size, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    fclose(file);
}
