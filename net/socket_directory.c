#include "net/socket_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCHEME "ipc://"
#define PREFIX "psring-"

/* Of this user, and of nobody else's use. */
static bool is_private(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & 077) == 0;
}

/* -1: it is not there, or not a private directory. */
static int open_private(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !is_private(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void unlink_sockets(int directory)
{
    int own = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = own >= 0 ? fdopendir(own) : NULL;
    if (list == NULL) {
        if (own >= 0)
            close(own);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
        struct stat info;
        if (fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(info.st_mode))
            (void)unlinkat(directory, entry->d_name, 0);
    }
    closedir(list);
}

/* Those below parent that nobody holds: their run was killed as a whole. */
static void remove_abandoned(const char *parent)
{
    DIR *list = opendir(parent);
    if (list == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0 ||
            strlen(entry->d_name) != sizeof PREFIX - 1 + 6)
            continue;
        int fd = open_private(dirfd(list), entry->d_name);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            unlink_sockets(fd);
            (void)unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
        }
        close(fd);
    }
    closedir(list);
}

/* It is made under a name that remove_abandoned does not look at and gets its own once it is held. */
static psr_err make_below(const char *parent, psr_socket_directory *ret_directory)
{
    char hidden[PSR_SOCKET_DIRECTORY_BYTES + 1];
    snprintf(hidden, sizeof hidden, "%s/." PREFIX "XXXXXX", parent);
    psr_socket_directory made = PSR_SOCKET_DIRECTORY_NONE;
    if (mkdtemp(hidden) == NULL)
        return psr_fail(PSR_ERR_IO, "a directory for sockets in %s: %s", parent, strerror(errno));
    snprintf(made.path, sizeof made.path, "%s/%s", parent, strrchr(hidden, '/') + 2);
    made.hold = open_private(AT_FDCWD, hidden);
    if (made.hold < 0 || flock(made.hold, LOCK_SH | LOCK_NB) != 0 || rename(hidden, made.path) != 0) {
        psr_err err = psr_fail(PSR_ERR_IO, "a directory for sockets, %s: %s", made.path, strerror(errno));
        psr_socket_directory_release(&made);
        (void)rmdir(hidden);
        return err;
    }
    *ret_directory = made;
    return PSR_OK;
}

psr_err psr_socket_directory_make(const char *runtime_directory, psr_socket_directory *ret_directory)
{
    const char *parent = "/tmp";
    if (runtime_directory != NULL && runtime_directory[0] == '/' &&
        strlen(runtime_directory) + sizeof "/." PREFIX "XXXXXX" <= PSR_SOCKET_DIRECTORY_BYTES) {
        int fd = open_private(AT_FDCWD, runtime_directory);
        if (fd >= 0) {
            close(fd);
            parent = runtime_directory;
        }
    }
    remove_abandoned(parent);
    return make_below(parent, ret_directory);
}

psr_err psr_socket_directory_hold(const char *path, psr_socket_directory *ret_directory)
{
    psr_socket_directory held = PSR_SOCKET_DIRECTORY_NONE;
    if (path[0] != '/' || strlen(path) >= sizeof held.path)
        return psr_fail(PSR_ERR_USAGE,
                        "the sockets' directory %.100s: it should be a path from /, of at most %zu bytes",
                        path, sizeof held.path - 1);
    held.hold = open_private(AT_FDCWD, path);
    struct stat status;
    if (held.hold < 0 && lstat(path, &status) != 0 && errno == ENOENT)
        return psr_fail(PSR_ERR_NOT_FOUND, "the sockets' directory %s is not there: its run is over", path);
    if (held.hold < 0)
        return psr_fail(
            PSR_ERR_USAGE,
            "the sockets' directory %s: it should be a directory of the user who runs this, of mode 0700",
            path);
    if (flock(held.hold, LOCK_SH | LOCK_NB) != 0) {
        psr_socket_directory_release(&held);
        return psr_fail(PSR_ERR_NOT_FOUND, "the sockets' directory %s is being removed: its run is over",
                        path);
    }
    memcpy(held.path, path, strlen(path) + 1);
    *ret_directory = held;
    return PSR_OK;
}

void psr_socket_directory_remove(psr_socket_directory *directory)
{
    if (directory->hold >= 0) {
        unlink_sockets(directory->hold);
        (void)rmdir(directory->path); /* another may have been quicker */
    }
    psr_socket_directory_release(directory);
}

void psr_socket_directory_release(psr_socket_directory *directory)
{
    if (directory->hold >= 0)
        close(directory->hold);
    *directory = PSR_SOCKET_DIRECTORY_NONE;
}

psr_err psr_socket_directory_of(const char *endpoint, char ret_path[PSR_SOCKET_DIRECTORY_BYTES])
{
    const char *path = endpoint + sizeof SCHEME - 1;
    const char *slash = strncmp(endpoint, SCHEME "/", sizeof SCHEME) == 0 ? strrchr(path, '/') : NULL;
    if (slash == NULL || slash == path || slash[1] == '\0' ||
        (size_t)(slash - path) >= PSR_SOCKET_DIRECTORY_BYTES)
        return psr_fail(PSR_ERR_USAGE, "endpoint %.120s: it should be ipc:///DIRECTORY/SOCKET", endpoint);
    memcpy(ret_path, path, (size_t)(slash - path));
    ret_path[slash - path] = '\0';
    return PSR_OK;
}
