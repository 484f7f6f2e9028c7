#include "data/command/place.h"

#include "base/system/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)1 << 20)

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status;
    (void)kind;
    (void)at;
    return remove(path);
}

static bool is_among(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* Everything in it but the regular files of these names. */
static void empty_folder(const char *path, const char *const *kept)
{
    DIR *folder = opendir(path);
    const struct dirent *entry = NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char inner[PSR_PATH_MAX + 256];
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (!is_among(entry->d_name, kept) || lstat(inner, &status) != 0 ||
            !S_ISREG(status.st_mode))
            (void)nftw(inner, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    if (folder != NULL)
        closedir(folder);
}

/* Makes the hidden folder and takes it for this process. */
static psr_err lock_folder(psr_data_place *place, const char *const *kept)
{
    struct stat ours, there;
    if (mkdir(place->gathered, 0777) != 0 && errno != EEXIST)
        return psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", place->gathered, strerror(errno));
    place->lock = open(place->gathered, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place->lock < 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be opened: %s", place->gathered, strerror(errno));
    /* whoever finished meanwhile has renamed it */
    if (flock(place->lock, LOCK_EX | LOCK_NB) != 0 || fstat(place->lock, &ours) != 0 ||
        stat(place->gathered, &there) != 0 || ours.st_ino != there.st_ino ||
        ours.st_dev != there.st_dev) {
        close(place->lock);
        place->lock = -1;
        return psr_fail(PSR_ERR_BUSY, "%s: another psring data get is at it", place->final);
    }
    empty_folder(place->gathered, kept);
    return PSR_OK;
}

psr_err psr_data_place_begin(const char *parent, const char *name, const char *const *kept,
                             psr_data_place *ret_place)
{
    psr_data_place place = {.lock = -1};
    int lengths[] = {snprintf(place.parent, sizeof place.parent, "%s", parent),
                     snprintf(place.final, sizeof place.final, "%s/%s", parent, name),
                     snprintf(place.gathered, sizeof place.gathered, "%s/.%s.part", parent, name)};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (lengths[i] < 0 || lengths[i] >= PSR_PATH_MAX)
            return psr_fail(PSR_ERR_USAGE, "--to %s: too long a path", parent);
    PSR_TRY(psr_mkdirs(parent));
    PSR_TRY(lock_folder(&place, kept));
    *ret_place = place;
    return PSR_OK;
}

psr_err psr_data_place_path(const psr_data_place *place, const char *name, char path[PSR_PATH_MAX])
{
    int length = snprintf(path, PSR_PATH_MAX, "%s/%s", place->gathered, name);
    if (length < 0 || length >= PSR_PATH_MAX)
        return psr_fail(PSR_ERR_USAGE, "%s/%s: too long a path", place->gathered, name);
    return PSR_OK;
}

static psr_err write_all(int fd, const char *path, const uint8_t *bytes, size_t size)
{
    return psr_file_write_all(fd, bytes, size) == size
               ? PSR_OK
               : psr_fail(PSR_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
}

static psr_err copy_bytes(int in, const char *from, uint64_t bytes, int out, const char *to,
                          const atomic_bool *stop)
{
    uint8_t *piece = malloc(PIECE_BYTES);
    psr_err err =
        piece != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "%s: no memory to copy it", from);
    for (uint64_t at = 0; at < bytes && err == PSR_OK;) {
        size_t size = bytes - at < PIECE_BYTES ? (size_t)(bytes - at) : PIECE_BYTES;
        err = atomic_load(stop) ? psr_fail(PSR_ERR_CANCELLED, "told to stop")
                                : psr_file_read_at(in, from, piece, size, at);
        if (err == PSR_OK)
            err = write_all(out, to, piece, size);
        at += size;
    }
    if (err == PSR_OK && fsync(out) != 0)
        err = psr_fail(PSR_ERR_IO, "%s: cannot be written: %s", to, strerror(errno));
    free(piece);
    return err;
}

psr_err psr_data_place_copy(const psr_data_place *place, const char *from, const char *name,
                            const atomic_bool *stop)
{
    char to[PSR_PATH_MAX];
    int in = -1;
    uint64_t bytes = 0;
    PSR_TRY(psr_data_place_path(place, name, to));
    PSR_TRY(psr_file_open(from, &in, &bytes));
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    psr_err err = out >= 0 ? copy_bytes(in, from, bytes, out, to, stop)
                           : psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", to, strerror(errno));
    if (out >= 0)
        close(out);
    close(in);
    return err;
}

psr_err psr_data_place_finish(psr_data_place *place)
{
    PSR_TRY(psr_dir_sync(place->gathered));
    if (rename(place->gathered, place->final) != 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be renamed to %s: %s", place->gathered,
                        place->final, strerror(errno));
    close(place->lock);
    place->lock = -1;
    return psr_dir_sync(place->parent);
}

void psr_data_place_leave(psr_data_place *place, bool *ret_left)
{
    *ret_left = false;
    if (place->lock < 0)
        return;
    *ret_left = rmdir(place->gathered) != 0;
    close(place->lock);
    place->lock = -1;
}

void psr_data_place_done(psr_data_place *place)
{
    static const char *const none[] = {NULL};
    bool left = false;
    if (place->lock < 0)
        return;
    empty_folder(place->gathered, none);
    psr_data_place_leave(place, &left);
}
