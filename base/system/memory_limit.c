#include "base/system/memory_limit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* UINT64_MAX: the file says "max", or is not there. */
static uint64_t read_limit(const char *path)
{
    uint64_t bytes = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return bytes;
    if (fscanf(file, "%" SCNu64, &bytes) != 1)
        bytes = UINT64_MAX;
    fclose(file);
    return bytes;
}

/* Of the group at that path and all above it. In a container the path may be the host's, of which
 * only the root is there: that is the container's own group. */
static uint64_t least_limit(const char *mount, const char *folder, const char *group,
                            const char *name)
{
    char path[PATH_MAX], at[PATH_MAX];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%s", strcmp(group, "/") == 0 ? "" : group);
    for (;;) {
        if (snprintf(at, sizeof at, "%s%s%s/%s", mount, folder, path, name) < (int)sizeof at) {
            const uint64_t limit = read_limit(at);
            least = limit < least ? limit : least;
        }
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* Whether `controllers`, separated by commas, has memory. */
static bool has_memory(char *controllers)
{
    char *rest = NULL;
    for (char *one = strtok_r(controllers, ",", &rest); one != NULL;
         one = strtok_r(NULL, ",", &rest))
        if (strcmp(one, "memory") == 0)
            return true;
    return false;
}

/* A line is "NUMBER:CONTROLLERS:PATH". In version 2 there are no controllers. */
static uint64_t limit_of_line(char *line, const char *mount)
{
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL)
        return UINT64_MAX;
    *controllers++ = '\0';
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (*controllers == '\0') {
        const uint64_t own = least_limit(mount, "", group, "memory.max"),
                       beside = least_limit(mount, "/unified", group, "memory.max");
        return own < beside ? own : beside;
    }
    return has_memory(controllers) ? least_limit(mount, "/memory", group, "memory.limit_in_bytes")
                                   : UINT64_MAX;
}

uint64_t psr_memory_limit(const char *groups, const char *mount)
{
    char line[PATH_MAX + 256];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen(groups, "re");
    if (file == NULL)
        return least;
    while (fgets(line, sizeof line, file) != NULL) {
        const uint64_t limit = limit_of_line(line, mount);
        least = limit < least ? limit : least;
    }
    fclose(file);
    return least;
}
