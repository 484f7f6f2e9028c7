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

/* Which files of a group say it, by the version of control groups. */
typedef struct group_files {
    const char *limit, *used;
    const char *cached[2]; /* fields of memory.stat: pages of files */
} group_files;

static const group_files version_1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}};
static const group_files version_2 = {
    "memory.max", "memory.current", {"active_file", "inactive_file"}};

/* The field of a file with lines of "NAME NUMBER" or "NAME: NUMBER kB"; 0: it is not there. */
static uint64_t read_field(const char *path, const char *name)
{
    char line[256], word[128];
    uint64_t value = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%127s %" SCNu64, word, &value) == 2 && strcmp(word, name) == 0)
            break;
        else
            value = 0;
    fclose(file);
    return value;
}

/* What is asked of a group's folder. UINT64_MAX: no limit. */
typedef uint64_t group_question(const char *folder, const group_files *files);

static uint64_t ask_limit(const char *folder, const group_files *files)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, files->limit);
    return read_limit(path);
}

static uint64_t ask_room(const char *folder, const group_files *files)
{
    char path[PATH_MAX + 32];
    const uint64_t limit = ask_limit(folder, files);
    if (limit == UINT64_MAX)
        return UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, files->used);
    uint64_t used = read_limit(path);
    if (used == UINT64_MAX)
        return limit;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    for (int i = 0; i < 2; i++) {
        const uint64_t cached = read_field(path, files->cached[i]);
        used -= cached < used ? cached : used;
    }
    return limit > used ? limit - used : 0;
}

/* Of the group at that path and all above it. In a container the path may be the host's, of which
 * only the root is there: that is the container's own group. */
static uint64_t least_of_groups(const char *mount, const char *folder, const char *group,
                                const group_files *files, group_question *ask)
{
    char path[PATH_MAX], at[PATH_MAX];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%s", strcmp(group, "/") == 0 ? "" : group);
    for (;;) {
        if (snprintf(at, sizeof at, "%s%s%s", mount, folder, path) < (int)sizeof at) {
            const uint64_t answer = ask(at, files);
            least = answer < least ? answer : least;
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
static uint64_t least_of_line(char *line, const char *mount, group_question *ask)
{
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL)
        return UINT64_MAX;
    *controllers++ = '\0';
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (*controllers == '\0') {
        const uint64_t own = least_of_groups(mount, "", group, &version_2, ask),
                       beside = least_of_groups(mount, "/unified", group, &version_2, ask);
        return own < beside ? own : beside;
    }
    return has_memory(controllers) ? least_of_groups(mount, "/memory", group, &version_1, ask)
                                   : UINT64_MAX;
}

static uint64_t least_of_all(const char *groups, const char *mount, group_question *ask)
{
    char line[PATH_MAX + 256];
    uint64_t least = UINT64_MAX;
    FILE *file = fopen(groups, "re");
    if (file == NULL)
        return least;
    while (fgets(line, sizeof line, file) != NULL) {
        const uint64_t answer = least_of_line(line, mount, ask);
        least = answer < least ? answer : least;
    }
    fclose(file);
    return least;
}

uint64_t psr_memory_limit(const char *groups, const char *mount)
{
    return least_of_all(groups, mount, ask_limit);
}

uint64_t psr_memory_available(const char *meminfo, const char *groups, const char *mount)
{
    const uint64_t kib = read_field(meminfo, "MemAvailable:"),
                   room = least_of_all(groups, mount, ask_room);
    return kib > 0 && kib * 1024 < room ? kib * 1024 : room;
}
