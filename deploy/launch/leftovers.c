#include "deploy/launch/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static DIR *open_below(int above, const char *name)
{
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && directory == NULL)
        close(fd);
    return directory;
}

/* Removes a directory that has only files in it. */
static void remove_part(int above, const char *name)
{
    DIR *part = open_below(above, name);
    if (part == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(part)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(part), entry->d_name, 0);
    closedir(part);
    (void)unlinkat(above, name, AT_REMOVEDIR);
}

static bool begins_and_ends(const char *text, const char *begin, const char *end)
{
    size_t length = strlen(text), from = strlen(begin), to = strlen(end);
    return length >= from + to && strncmp(text, begin, from) == 0 &&
           strcmp(text + length - to, end) == 0;
}

void psr_leftovers_remove(const char *out)
{
    DIR *run = open_below(AT_FDCWD, out);
    if (run == NULL)
        return;
    DIR *checkpoints = open_below(dirfd(run), "checkpoints");
    for (struct dirent *entry; checkpoints != NULL && (entry = readdir(checkpoints)) != NULL;)
        if (begins_and_ends(entry->d_name, ".step-", ".part"))
            remove_part(dirfd(checkpoints), entry->d_name);
    if (checkpoints != NULL)
        closedir(checkpoints);
    for (struct dirent *entry; (entry = readdir(run)) != NULL;)
        if (begins_and_ends(entry->d_name, "run.json.new-", ""))
            (void)unlinkat(dirfd(run), entry->d_name, 0);
    closedir(run);
}
