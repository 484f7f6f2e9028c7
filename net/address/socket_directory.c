#include "net/address/socket_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SCHEME "ipc://"
#define PREFIX "psring-"
#define JOB_PREFIX PREFIX "job-"
#define RUN_PREFIX PREFIX "run-" /* of the same length */
#define DIGITS 16
#define ENTER_TRIES 100 /* attempts to enter a directory that its last holder is just removing */
#define YOUNG_S 60      /* an empty directory that nobody holds may be about to be held */
#define CLAIM ".claim"  /* the end of the name of a file that says who has claimed something */

/* It belongs to this user, and only this user can use it. */
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

/* The claim of a process that is gone, or of this process. */
static bool is_claim(const char *name)
{
    size_t length = strlen(name);
    return length > sizeof CLAIM - 1 && strcmp(name + length - (sizeof CLAIM - 1), CLAIM) == 0;
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
        if (fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            (S_ISSOCK(info.st_mode) || (S_ISREG(info.st_mode) && is_claim(entry->d_name))))
            (void)unlinkat(directory, entry->d_name, 0);
    }
    closedir(list);
}

static bool is_number_behind(const char *prefix, const char *name)
{
    const char *digits = name + strlen(prefix);
    return strncmp(name, prefix, strlen(prefix)) == 0 && strlen(digits) == DIGITS &&
           strspn(digits, "0123456789abcdef") == DIGITS;
}

/* It is a job's directory, or a run's. */
static bool is_ours(const char *name)
{
    return is_number_behind(JOB_PREFIX, name) || is_number_behind(RUN_PREFIX, name);
}

/* Its maker holds it right after, so an older one is nobody's. */
static bool may_be_just_made(int fd)
{
    struct stat info;
    struct timespec now;
    return fstat(fd, &info) == 0 && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
           now.tv_sec - info.st_mtim.tv_sec < YOUNG_S;
}

static bool is_empty(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = own >= 0 ? fdopendir(own) : NULL;
    int entries = 0;
    if (list == NULL) {
        if (own >= 0)
            close(own);
        return false;
    }
    while (entries <= 2 && readdir(list) != NULL) /* "." and ".." */
        entries++;
    closedir(list);
    return entries <= 2;
}

/* Those below parent that nobody holds: all processes of their run were killed. */
static void remove_abandoned(const char *parent)
{
    DIR *list = opendir(parent);
    if (list == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
        if (!is_ours(entry->d_name))
            continue;
        int fd = open_private(dirfd(list), entry->d_name);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && !(is_empty(fd) && may_be_just_made(fd))) {
            unlink_sockets(fd);
            (void)unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
        }
        close(fd);
    }
    closedir(list);
}

/* name_bytes: what must fit after it. */
static const char *choose_parent(const char *runtime_directory, size_t name_bytes)
{
    if (runtime_directory == NULL || runtime_directory[0] != '/' ||
        strlen(runtime_directory) + name_bytes > PSR_SOCKET_DIRECTORY_BYTES)
        return "/tmp";
    int fd = open_private(AT_FDCWD, runtime_directory);
    if (fd < 0)
        return "/tmp";
    close(fd);
    return runtime_directory;
}

psr_err psr_socket_directory_hold(const char *path, psr_socket_directory *ret_directory)
{
    psr_socket_directory held = PSR_SOCKET_DIRECTORY_NONE;
    if (path[0] != '/' || strlen(path) >= sizeof held.path)
        return psr_fail(
            PSR_ERR_USAGE,
            "the sockets' directory %.100s: it should be a path from /, of at most %zu bytes", path,
            sizeof held.path - 1);
    held.hold = open_private(AT_FDCWD, path);
    struct stat status;
    if (held.hold < 0 && lstat(path, &status) != 0 && errno == ENOENT)
        return psr_fail(PSR_ERR_NOT_FOUND,
                        "the sockets' directory %s is not there: its run is over", path);
    if (held.hold < 0)
        return psr_fail(PSR_ERR_USAGE,
                        "the sockets' directory %s: it should be a directory of the user who runs "
                        "this, of mode 0700",
                        path);
    if (flock(held.hold, LOCK_SH | LOCK_NB) != 0) {
        psr_socket_directory_release(&held);
        return psr_fail(PSR_ERR_NOT_FOUND,
                        "the sockets' directory %s is being removed: its run is over", path);
    }
    memcpy(held.path, path, strlen(path) + 1);
    *ret_directory = held;
    return PSR_OK;
}

/* ---- its path, and making it ---- */

static void name_it(const char *runtime_directory, const char *prefix, uint64_t number,
                    char ret_path[PSR_SOCKET_DIRECTORY_BYTES])
{
    const char *parent = choose_parent(runtime_directory, sizeof "/" JOB_PREFIX + DIGITS);
    snprintf(ret_path, PSR_SOCKET_DIRECTORY_BYTES, "%s/%s%0*" PRIx64, parent, prefix, DIGITS,
             number);
}

void psr_socket_directory_of_job(const char *runtime_directory, uint64_t job,
                                 char ret_path[PSR_SOCKET_DIRECTORY_BYTES])
{
    name_it(runtime_directory, JOB_PREFIX, job, ret_path);
}

psr_err psr_socket_directory_of_run(const char *runtime_directory,
                                    char ret_path[PSR_SOCKET_DIRECTORY_BYTES])
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    name_it(runtime_directory, RUN_PREFIX, number, ret_path);
    return PSR_OK;
}

bool psr_socket_directory_is_a_jobs(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && is_number_behind(JOB_PREFIX, slash + 1);
}

static psr_err refuse_shared(const char *path)
{
    return psr_fail(PSR_ERR_USAGE,
                    "the sockets' directory %s: it should be a directory of the user who runs "
                    "this, of mode 0700; somebody else has put something there",
                    path);
}

/* One try. *ret_gone: it was removed meanwhile. Who removes one has the lock for a moment only, and
 * waits for nobody. */
static psr_err enter_once(const char *path, bool may_be_there, psr_socket_directory *ret_directory,
                          bool *ret_gone)
{
    struct stat info;
    if (mkdir(path, 0700) != 0 && (errno != EEXIST || !may_be_there))
        return errno == EEXIST
                   ? refuse_shared(path)
                   : psr_fail(PSR_ERR_IO, "a directory for sockets, %s: %s", path, strerror(errno));
    int fd = open_private(AT_FDCWD, path);
    if (fd < 0) {
        *ret_gone = lstat(path, &info) != 0 && errno == ENOENT;
        return *ret_gone ? PSR_OK : refuse_shared(path);
    }
    int refused;
    while ((refused = flock(fd, LOCK_SH)) != 0 && errno == EINTR)
        continue;
    *ret_gone = refused == 0 && fstat(fd, &info) == 0 && info.st_nlink == 0;
    if (refused != 0 || *ret_gone) {
        psr_err err = refused == 0
                          ? PSR_OK
                          : psr_fail(PSR_ERR_IO, "the lock of %s: %s", path, strerror(errno));
        close(fd);
        return err;
    }
    ret_directory->hold = fd;
    memcpy(ret_directory->path, path, strlen(path) + 1);
    return PSR_OK;
}

static psr_err check_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (path[0] != '/' || !is_ours(slash + 1) || strlen(path) >= PSR_SOCKET_DIRECTORY_BYTES)
        return psr_fail(PSR_ERR_USAGE, "the sockets' directory %.100s is not a job's or a run's",
                        path);
    return PSR_OK;
}

static void remove_abandoned_beside(const char *path)
{
    char parent[PSR_SOCKET_DIRECTORY_BYTES];
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    remove_abandoned(parent);
}

psr_err psr_socket_directory_enter(const char *path, psr_socket_directory *ret_directory)
{
    PSR_TRY(check_name(path));
    if (!psr_socket_directory_is_a_jobs(path))
        return psr_socket_directory_hold(path, ret_directory);
    remove_abandoned_beside(path);
    for (int tries = 0; tries < ENTER_TRIES; tries++) {
        psr_socket_directory entered = PSR_SOCKET_DIRECTORY_NONE;
        bool gone = false;
        PSR_TRY(enter_once(path, true, &entered, &gone));
        if (!gone) {
            *ret_directory = entered;
            return PSR_OK;
        }
    }
    return psr_fail(PSR_ERR_IO, "the sockets' directory %s is removed again and again", path);
}

psr_err psr_socket_directory_make_named(const char *path, psr_socket_directory *ret_directory)
{
    psr_socket_directory made = PSR_SOCKET_DIRECTORY_NONE;
    bool gone = false;
    PSR_TRY(check_name(path));
    remove_abandoned_beside(path);
    PSR_TRY(enter_once(path, false, &made, &gone));
    if (gone) /* its name is no secret any more */
        return psr_fail(PSR_ERR_IO, "the sockets' directory %s was removed as it was made", path);
    *ret_directory = made;
    return PSR_OK;
}

psr_err psr_socket_directory_make(const char *runtime_directory,
                                  psr_socket_directory *ret_directory)
{
    char path[PSR_SOCKET_DIRECTORY_BYTES];
    PSR_TRY(psr_socket_directory_of_run(runtime_directory, path));
    return psr_socket_directory_make_named(path, ret_directory);
}

/* The process that has a claim, as its file says; 0: not known. */
static long holder_of(int fd)
{
    char text[24] = "";
    return pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

#define CLAIM_FILE_BYTES 64

/* The file by which a name is held, for a lock. ret_file: what it is called in the directory. */
static psr_err open_claim(const psr_socket_directory *directory, const char *name,
                          char ret_file[CLAIM_FILE_BYTES], int *ret_fd)
{
    snprintf(ret_file, CLAIM_FILE_BYTES, "%.48s" CLAIM, name);
    int fd = openat(directory->hold, ret_file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return psr_fail(PSR_ERR_IO, "%s/%s: %s", directory->path, ret_file, strerror(errno));
    *ret_fd = fd;
    return PSR_OK;
}

psr_err psr_socket_directory_claim(const psr_socket_directory *directory, const char *name,
                                   const char *what, int *ret_fd)
{
    char file[CLAIM_FILE_BYTES];
    int fd = -1;
    PSR_TRY(open_claim(directory, name, file, &fd));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        psr_err err =
            psr_fail(PSR_ERR_USAGE,
                     "%s is taken: process %ld of this job (%s) has it; each is to be started "
                     "once, and two jobs that run at once need something that tells them apart",
                     what, holder_of(fd), directory->path);
        close(fd);
        return err;
    }
    if (ftruncate(fd, 0) != 0 || dprintf(fd, "%ld\n", (long)getpid()) < 0) {
        psr_err err = psr_fail(PSR_ERR_IO, "%s/%s: %s", directory->path, file, strerror(errno));
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return PSR_OK;
}

/* ---- turns ---- */

psr_err psr_socket_directory_turn(const psr_socket_directory *directory, const char *name,
                                  const char *holder, int *ret_fd)
{
    char file[CLAIM_FILE_BYTES];
    int fd = -1;
    PSR_TRY(open_claim(directory, name, file, &fd));
    int refused;
    while ((refused = flock(fd, LOCK_EX)) != 0 && errno == EINTR)
        continue;
    if (refused != 0 || ftruncate(fd, 0) != 0 || dprintf(fd, "%s", holder) < 0) {
        psr_err err = psr_fail(PSR_ERR_IO, "%s/%s: %s", directory->path, file, strerror(errno));
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return PSR_OK;
}

void psr_socket_directory_turn_path(const psr_socket_directory *directory, const char *name,
                                    char *ret_path, size_t size)
{
    int length = snprintf(ret_path, size, "%s/%.48s" CLAIM, directory->path, name);
    if (length < 0 || (size_t)length >= size)
        ret_path[0] = '\0';
}

/* ---- the end ---- */

static bool others_hold(const psr_socket_directory *directory)
{
    return psr_socket_directory_is_a_jobs(directory->path) &&
           flock(directory->hold, LOCK_EX | LOCK_NB) != 0;
}

void psr_socket_directory_remove(psr_socket_directory *directory)
{
    if (directory->hold >= 0 && !others_hold(directory)) {
        unlink_sockets(directory->hold);
        (void)rmdir(directory->path); /* another process may have been faster */
    }
    psr_socket_directory_release(directory);
}

void psr_socket_directory_release(psr_socket_directory *directory)
{
    if (directory->hold >= 0)
        close(directory->hold);
    *directory = PSR_SOCKET_DIRECTORY_NONE;
}

psr_err psr_socket_directory_name(const char *directory, const char *of, size_t size,
                                  char *ret_path)
{
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    char path[PSR_SOCKET_DIRECTORY_BYTES + 64];
    int length = snprintf(path, sizeof path, "%s/%s-%08" PRIx32, directory, of, random);
    if (length < 0 || (size_t)length >= sizeof path || (size_t)length >= size)
        return psr_fail(PSR_ERR_USAGE, "the path of %s's socket in %s is too long", of, directory);
    char *space = strchr(path + strlen(directory), ' ');
    if (space != NULL)
        *space = '-';
    memcpy(ret_path, path, (size_t)length + 1);
    return PSR_OK;
}

psr_err psr_socket_directory_of(const char *endpoint, char ret_path[PSR_SOCKET_DIRECTORY_BYTES])
{
    const char *path = endpoint + sizeof SCHEME - 1;
    const char *slash =
        strncmp(endpoint, SCHEME "/", sizeof SCHEME) == 0 ? strrchr(path, '/') : NULL;
    if (slash == NULL || slash == path || slash[1] == '\0' ||
        (size_t)(slash - path) >= PSR_SOCKET_DIRECTORY_BYTES)
        return psr_fail(PSR_ERR_USAGE, "endpoint %.120s: it should be ipc:///DIRECTORY/SOCKET",
                        endpoint);
    memcpy(ret_path, path, (size_t)(slash - path));
    ret_path[slash - path] = '\0';
    return PSR_OK;
}
