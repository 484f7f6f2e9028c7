#include "base/system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_ATTEMPTS 200
#define OPEN_AGAIN_MS 5

/* errno, as it is now, as one of our codes with the path. */
static psr_err fail_errno(const char *path, const char *what)
{
    int number = errno;
    psr_err code =
        number == ENOENT || number == ENOTDIR ? PSR_ERR_NOT_FOUND : psr_err_of_write(number);
    return psr_fail(code, "%s: %s: %s", path, what, strerror(number));
}

static psr_err check_regular(const char *path, int fd, uint64_t *ret_size)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return fail_errno(path, "cannot be examined");
    if (!S_ISREG(status.st_mode))
        return psr_fail(PSR_ERR_IO, "%s: is %s, not a file", path,
                        S_ISDIR(status.st_mode) ? "a directory" : "something special");
    *ret_size = (uint64_t)status.st_size; /* off_t, and never below 0 for a regular file */
    return PSR_OK;
}

bool psr_file_try_again(unsigned attempt)
{
    int failed = errno;
    if ((failed != EMFILE && failed != ENFILE) || attempt >= OPEN_ATTEMPTS)
        return false;
    (void)poll(NULL, 0, OPEN_AGAIN_MS); /* nothing tells when a descriptor is free */
    errno = failed;
    return true;
}

static int open_again(const char *path, int flags)
{
    int fd = open(path, flags);
    for (unsigned attempt = 0; fd < 0 && psr_file_try_again(attempt); attempt++)
        fd = open(path, flags);
    return fd;
}

psr_err psr_file_open(const char *path, int *ret_fd, uint64_t *ret_size)
{
    /* Without O_NONBLOCK the open of a FIFO would wait for a writer, before it can be refused. */
    int fd = open_again(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fail_errno(path, "cannot be opened");
    psr_err err = check_regular(path, fd, ret_size);
    if (err != PSR_OK) {
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return PSR_OK;
}

psr_err psr_file_read_at(int fd, const char *path, void *to, size_t size, uint64_t offset)
{
    uint8_t *bytes = to;
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, bytes + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(path, "cannot be read");
        if (got == 0)
            return psr_fail(PSR_ERR_IO, "%s: became shorter while it was read", path);
        done += (size_t)got;
    }
    return PSR_OK;
}

psr_err psr_file_read(const char *path, size_t limit_bytes, uint8_t **ret_data, size_t *ret_size)
{
    int fd = -1;
    uint64_t whole = 0;
    PSR_TRY(psr_file_open(path, &fd, &whole));
    psr_err err = PSR_OK;
    uint8_t *data = NULL;
    if (whole > limit_bytes) {
        err = psr_fail(PSR_ERR_FORMAT, "%s: %" PRIu64 " bytes are too many; %zu is the limit", path,
                       whole, limit_bytes);
        goto out;
    }
    size_t size = (size_t)whole;
    data = malloc(size + 1);
    if (data == NULL) {
        err = psr_fail(PSR_ERR_NOMEM, "%s: no memory for %zu bytes", path, size);
        goto out;
    }
    err = psr_file_read_at(fd, path, data, size, 0);
    if (err != PSR_OK)
        goto out;
    data[size] = 0;
    *ret_data = data;
    *ret_size = size;
    data = NULL;
out:
    free(data);
    close(fd);
    return err;
}

size_t psr_file_write_all(int fd, const void *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t put = write(fd, (const uint8_t *)data + done, size - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            break;
        done += (size_t)put;
    }
    return done;
}

/* Directory part of path: "." when there is none. */
static void directory_of(const char *path, char directory[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        snprintf(directory, PATH_MAX, ".");
    else if (slash == path)
        snprintf(directory, PATH_MAX, "/");
    else
        snprintf(directory, PATH_MAX, "%.*s", (int)(slash - path), path);
}

/* mkostemp makes files private, and what is written here is to be as any other new file. The mask
 * can be asked by umask() only while setting it, for all threads; /proc tells it without. */
static mode_t process_umask(void)
{
    unsigned mask = 022;
    FILE *status = fopen("/proc/self/status", "re");
    if (status == NULL)
        return mask;
    char line[128];
    while (fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "Umask: %o", &mask) == 1)
            break;
    }
    fclose(status);
    return mask;
}

psr_err psr_file_write_atomic(const char *path, const void *data, size_t size)
{
    char beside[PATH_MAX], directory[PATH_MAX];
    directory_of(path, directory);
    int fd = -1;
    for (unsigned attempt = 0; fd < 0; attempt++) {
        /* a failure leaves it undefined */
        int length = snprintf(beside, sizeof beside, "%s.new-XXXXXX", path);
        if (length < 0 || (size_t)length >= sizeof beside)
            return psr_fail(PSR_ERR_IO, "%.64s...: the path is too long", path);
        fd = mkostemp(beside, O_CLOEXEC);
        if (fd < 0 && !psr_file_try_again(attempt))
            break;
    }
    if (fd < 0)
        return fail_errno(path, "cannot be made");

    psr_err err =
        psr_file_write_all(fd, data, size) == size ? PSR_OK : fail_errno(path, "cannot be written");
    if (err == PSR_OK && fchmod(fd, 0666 & ~process_umask()) != 0)
        err = fail_errno(path, "cannot be given its mode");
    if (err == PSR_OK && fsync(fd) != 0)
        err = fail_errno(path, "cannot be flushed to the disk");
    if (close(fd) != 0 && err == PSR_OK)
        err = fail_errno(path, "cannot be written");
    if (err == PSR_OK && rename(beside, path) != 0)
        err = fail_errno(path, "cannot be put in place");
    if (err != PSR_OK) {
        unlink(beside);
        return err;
    }
    return psr_dir_sync(directory);
}

psr_err psr_dir_sync(const char *path)
{
    int fd = open_again(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(path, "cannot be opened");
    psr_err err = PSR_OK;
    /* Some file systems cannot flush a directory and say EINVAL: there is nothing to be done
     * there. */
    if (fsync(fd) != 0 && errno != EINVAL)
        err = fail_errno(path, "cannot be flushed to the disk");
    close(fd);
    return err;
}

static psr_err make_one(const char *path)
{
    struct stat status;
    if (mkdir(path, 0777) == 0)
        return PSR_OK;
    int number = errno;
    if (stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            return PSR_OK;
        return psr_fail(PSR_ERR_IO, "%s: exists, and is not a directory", path);
    }
    return psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", path, strerror(number));
}

psr_err psr_mkdirs(const char *path)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return psr_fail(PSR_ERR_IO, "'%.64s': is not the path of a directory", path);
    memcpy(part, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        if (part[i] == '/' && part[i - 1] != '/') {
            part[i] = '\0';
            PSR_TRY(make_one(part));
            part[i] = '/';
        }
    }
    return make_one(part);
}

bool psr_dir_is_private(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_mode & 077) == 0;
}

bool psr_dir_make_private(const char *path)
{
    char above[PATH_MAX];
    directory_of(path, above);
    if (psr_mkdirs(above) == PSR_OK)
        (void)mkdir(path, 0700); /* whether it exists and who owns it is checked next */
    return psr_dir_is_private(path);
}
