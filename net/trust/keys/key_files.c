#include "net/trust/keys/keys.h"

#include "base/system/file.h"
#include "base/text/secret.h"
#include "net/trust/keys/zpl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A field that only the file has by which a job's hosts meet (comm/start/meeting_file.c). */
#define MEETING_FIELD "\"job\":"

/* As psr_secret_free, for text that may contain a byte 0. */
static void free_text(char *text, size_t size)
{
    if (text != NULL)
        explicit_bzero(text, size);
    free(text);
}

/* By its beginning: it has a public key and no secret. */
static bool is_public(int fd)
{
    char text[4096];
    const ssize_t bytes = pread(fd, text, sizeof text, 0);
    psr_zpl zpl = psr_zpl_begin(text, bytes > 0 ? (size_t)bytes : 0);
    psr_zpl_item item;
    bool end = false, has_public_key = false;
    while (psr_zpl_next(&zpl, &item, &end) == PSR_OK && !end) {
        if (item.level == 0 && !psr_zpl_is(item.name, "metadata") &&
            !psr_zpl_is(item.name, "curve"))
            return false;
        if (psr_zpl_is(item.name, "secret-key"))
            return false;
        has_public_key |= psr_zpl_is(item.name, "public-key");
    }
    return has_public_key;
}

/* Refused as ssh refuses a private key: what others could have read is no secret. */
static psr_err check_private(const char *path, int fd)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return psr_fail(PSR_ERR_IO, "key file %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return psr_fail(PSR_ERR_USAGE, "key file %s is not a regular file", path);
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "key file %s belongs to user %u: it should belong to the one who runs this",
                        path, (unsigned)info.st_uid);
    if ((info.st_mode & 077) != 0 && is_public(fd))
        return psr_fail(PSR_ERR_USAGE,
                        "key file %s is a public certificate: the secret one, %s" PSR_KEYS_SECRET
                        ", is not beside it",
                        path, path);
    if ((info.st_mode & 077) != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "key file %s can be used by others (mode %04o): chmod 600 %s", path,
                        (unsigned)info.st_mode & 07777, path);
    if (info.st_size > PSR_KEYS_TEXT_MAX)
        return psr_fail(PSR_ERR_FORMAT, "key file %s has %lld bytes: %u is the most", path,
                        (long long)info.st_size, PSR_KEYS_TEXT_MAX);
    return PSR_OK;
}

static psr_err read_all(const char *path, int fd, char *text, size_t capacity, size_t *ret_size)
{
    size_t size = 0;
    while (size < capacity) {
        ssize_t bytes = read(fd, text + size, capacity - size);
        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes < 0)
            return psr_fail(PSR_ERR_IO, "key file %s: %s", path, strerror(errno));
        if (bytes == 0)
            break;
        size += (size_t)bytes;
    }
    *ret_size = size;
    return PSR_OK;
}

/* With another user's link, that user would choose which of this user's files is read. */
static psr_err check_link(const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode) && info.st_uid != geteuid() &&
        info.st_uid != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "key file %s is a link of user %u's: it should be of the one who runs this",
                        path, (unsigned)info.st_uid);
    return PSR_OK;
}

/* flags: O_NOFOLLOW or 0. ret_linked: the file has a name; memory that is inherited has none. */
static psr_err read_private(const char *path, int flags, char **ret_text, size_t *ret_size,
                            bool *ret_linked)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags); /* a fifo must not keep us */
    if (fd < 0 && errno == ELOOP && flags != 0)
        return psr_fail(PSR_ERR_USAGE, "key file %s is a link: it should be a file", path);
    if (fd < 0)
        return psr_fail(errno == ENOENT ? PSR_ERR_NOT_FOUND : PSR_ERR_IO, "key file %s: %s", path,
                        strerror(errno));
    char *text = NULL;
    size_t size = 0;
    struct stat info = {0};
    psr_err err = check_private(path, fd);
    if (err == PSR_OK && (text = calloc(1, PSR_KEYS_TEXT_MAX + 2)) == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a key file");
    if (err == PSR_OK)
        err = read_all(path, fd, text, PSR_KEYS_TEXT_MAX + 1, &size);
    *ret_linked = fstat(fd, &info) == 0 && info.st_nlink > 0;
    close(fd);
    if (err != PSR_OK) {
        free_text(text, size);
        return err;
    }
    *ret_text = text;
    *ret_size = size;
    return PSR_OK;
}

psr_err psr_keys_read_private(const char *path, char **ret_text)
{
    size_t size;
    bool linked;
    return read_private(path, O_NOFOLLOW, ret_text, &size, &linked);
}

static bool is_json(const char *text, size_t size)
{
    size_t spaces = 0;
    while (spaces < size && strchr(" \t\r\n", text[spaces]) != NULL && text[spaces] != '\0')
        spaces++;
    return spaces < size && text[spaces] == '{';
}

/* Secrets of Kubernetes are links. */
static psr_err load_file(const char *path, psr_peer self, psr_keys *ret_keys)
{
    char *text = NULL;
    size_t size;
    bool linked;
    PSR_TRY(check_link(path));
    PSR_TRY(read_private(path, 0, &text, &size, &linked));
    const bool json = is_json(text, size);
    psr_err err = json ? psr_keys_from_json(text, size, self, ret_keys)
                       : psr_keys_from_certificate(text, size, self, ret_keys);
    if (err == PSR_OK)
        ret_keys->old_file = json && linked && strstr(text, MEETING_FIELD) == NULL;
    free_text(text, size);
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "key file %s", path);
}

static bool is_secret_name(const char *path)
{
    const size_t length = strlen(path), end = strlen(PSR_KEYS_SECRET);
    return length > end && strcmp(path + length - end, PSR_KEYS_SECRET) == 0;
}

/* The secret one of a process's two files, which path or path_secret is. */
static psr_err load_secret(const char *path, psr_peer self, psr_keys *ret_keys)
{
    char secret[PATH_MAX];
    struct stat info;
    int length = snprintf(secret, sizeof secret, "%s" PSR_KEYS_SECRET, path);
    if (length < 0 || (size_t)length >= sizeof secret || is_secret_name(path))
        return load_file(path, self, ret_keys);
    if (lstat(secret, &info) == 0)
        return load_file(secret, self, ret_keys);
    return load_file(path, self, ret_keys);
}

psr_err psr_keys_path(const char *folder, psr_peer self, char *path, size_t size)
{
    if (self.rank == PSR_RANK_ANY)
        return psr_fail(PSR_ERR_USAGE,
                        "keys in %s: which rank this %s is must be said: give --rank N", folder,
                        psr_role_name(self.role));
    char own[PATH_MAX];
    int length = snprintf(own, sizeof own, "%s/%s-%" PRIu32 ".key", folder,
                          psr_role_name(self.role), self.rank);
    if (length < 0 || (size_t)length >= sizeof own || (size_t)length >= size)
        return psr_fail(PSR_ERR_USAGE, "keys in %s: the path is too long", folder);
    memcpy(path, own, (size_t)length + 1);
    return PSR_OK;
}

psr_err psr_keys_load(const char *path, psr_peer self, psr_keys *ret_keys)
{
    char own[PATH_MAX];
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return load_secret(path, self, ret_keys);
    PSR_TRY(psr_keys_path(path, self, own, sizeof own));
    return load_secret(own, self, ret_keys);
}

static psr_err write_all(int fd, const char *text, size_t size)
{
    return psr_file_write_all(fd, text, size) == size && fsync(fd) == 0
               ? PSR_OK
               : psr_fail(PSR_ERR_IO, "%s", strerror(errno));
}

/* Not rename, which would replace the keys that are there. */
static psr_err put_new(const char *part, const char *path)
{
    psr_err err = link(part, path) == 0 ? PSR_OK
                  : errno == EEXIST
                      ? psr_fail(PSR_ERR_USAGE, "exists already, and keys are not replaced")
                      : psr_fail(PSR_ERR_IO, "%s", strerror(errno));
    unlink(part);
    return err;
}

static psr_err replace(const char *part, const char *path)
{
    if (rename(part, path) == 0)
        return PSR_OK;
    psr_err err = psr_fail(PSR_ERR_IO, "%s", strerror(errno));
    unlink(part);
    return err;
}

/* mode: of the file; nobody else can use it before it is complete. */
static psr_err save(const char *text, const char *path, mode_t mode,
                    psr_err (*put)(const char *part, const char *path))
{
    char *part = NULL;
    psr_err err = PSR_OK;
    int fd = -1;
    if (asprintf(&part, "%s.XXXXXX", path) < 0) {
        part = NULL;
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a path");
        goto out;
    }
    fd = mkostemp(part, O_CLOEXEC); /* mode 0600 from the first byte on */
    if (fd < 0) {
        err = psr_fail(PSR_ERR_IO, "%s", strerror(errno));
        goto out;
    }
    err = write_all(fd, text, strlen(text));
    if (err == PSR_OK && fchmod(fd, mode) != 0)
        err = psr_fail(PSR_ERR_IO, "%s", strerror(errno));
    if (err == PSR_OK)
        err = put(part, path);
    else
        unlink(part);
out:
    if (fd >= 0)
        close(fd);
    if (err != PSR_OK)
        err = psr_fail_context(err, "key file %s", path);
    free(part);
    return err;
}

psr_err psr_keys_write_private(const char *text, const char *path)
{
    return save(text, path, 0600, replace);
}

psr_err psr_keys_write_public(const char *text, const char *path)
{
    const mode_t mask = umask(0);
    umask(mask);
    return save(text, path, 0644 & ~mask, replace);
}

psr_err psr_keys_save_private(const char *text, const char *path)
{
    return save(text, path, 0600, put_new);
}
