#include "deploy/lab/namespaces.h"

#include "base/system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX (4u << 20)

/* ---- the keeper's own ---- */

static psr_err put(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const size_t size = strlen(text);
    const bool whole = fd >= 0 && write(fd, text, size) == (ssize_t)size;
    psr_err err = whole ? PSR_OK : psr_fail(PSR_ERR_IO, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return err;
}

static psr_err not_allowed(const char *what, int number)
{
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    "%s: %s; this kernel makes namespaces for root alone (see sysctl "
                    "user.max_user_namespaces, kernel.unprivileged_userns_clone and "
                    "kernel.apparmor_restrict_unprivileged_userns), so run it as root",
                    what, strerror(number));
}

/* Our user and group are the only ones that a user namespace knows; they are root's in it. */
static psr_err map_user(uid_t uid, gid_t gid)
{
    char map[64];
    PSR_TRY(put("/proc/self/setgroups", "deny"));
    snprintf(map, sizeof map, "0 %u 1", (unsigned)uid);
    PSR_TRY(put("/proc/self/uid_map", map));
    snprintf(map, sizeof map, "0 %u 1", (unsigned)gid);
    return put("/proc/self/gid_map", map);
}

psr_err psr_lab_leave(void)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    /* root of a container may lack the right */
    if (uid == 0 && unshare(CLONE_NEWPID) == 0)
        return PSR_OK;
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        return not_allowed("a user namespace", errno);
    if (map_user(uid, gid) != PSR_OK)
        return not_allowed("a user namespace", EPERM);
    return PSR_OK;
}

static psr_err mount_own(void)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=256m") != 0)
        return not_allowed("/run", errno);
    if (mkdir(PSR_LAB_FOLDER, 0755) != 0 || mkdir(PSR_LAB_OWN, 0700) != 0)
        return psr_fail(PSR_ERR_IO, PSR_LAB_OWN ": %s", strerror(errno));
    /* A container may hide parts of /proc, and the kernel shows no whole one there. */
    if (mount("none", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return psr_fail(PSR_ERR_UNSUPPORTED, "/proc: %s; this container does not allow a lab",
                        strerror(errno));
    return PSR_OK;
}

psr_err psr_lab_settle(void)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC) != 0)
        return not_allowed("a network namespace", errno);
    return mount_own();
}

psr_err psr_lab_write(const char *path, const char *text)
{
    return put(path, text);
}

psr_err psr_lab_replace(const char *path, const char *own_path, const char *text)
{
    PSR_TRY(put(own_path, text));
    if (mount(own_path, path, NULL, MS_BIND, NULL) != 0 && errno != ENOENT)
        return psr_fail(PSR_ERR_IO, "%s: %s", path, strerror(errno));
    return PSR_OK;
}

/* ---- hosts ---- */

/* Tells by one byte that the namespaces are there; else errno's number as the exit status. A
 * terminal's signals reach it too, and are for the command alone. */
static _Noreturn void hold(const char *name, int told)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS) != 0 ||
        sethostname(name, strlen(name)) != 0 ||
        mount("none", PSR_LAB_OWN, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700,size=256m") != 0 ||
        write(told, "", 1) != 1)
        _exit(errno);
    close(told);
    for (;;)
        pause();
}

psr_err psr_lab_hold(const char *name, pid_t *ret_holder)
{
    int told[2], status = 0;
    char byte;
    if (pipe2(told, O_CLOEXEC) != 0)
        return psr_fail(PSR_ERR_IO, "host %s: a pipe: %s", name, strerror(errno));
    const pid_t pid = fork();
    if (pid == 0) {
        close(told[0]);
        hold(name, told[1]);
    }
    close(told[1]);
    const bool held = pid > 0 && read(told[0], &byte, 1) == 1;
    close(told[0]);
    if (pid < 0)
        return psr_fail(PSR_ERR_IO, "host %s: a process: %s", name, strerror(errno));
    if (!held) {
        (void)waitpid(pid, &status, 0);
        return psr_fail(PSR_ERR_IO, "host %s: its namespaces: %s", name,
                        strerror(WEXITSTATUS(status)));
    }
    *ret_holder = pid;
    return PSR_OK;
}

static bool enter_one(pid_t holder, const char *which, int kind)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)holder, which);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool entered = fd >= 0 && setns(fd, kind) == 0;
    if (fd >= 0)
        close(fd);
    return entered;
}

psr_err psr_lab_enter(pid_t holder, bool whole)
{
    if (!enter_one(holder, "net", CLONE_NEWNET) ||
        (whole &&
         (!enter_one(holder, "uts", CLONE_NEWUTS) || !enter_one(holder, "mnt", CLONE_NEWNS))))
        return psr_fail(PSR_ERR_IO, "process %d's host: %s", (int)holder, strerror(errno));
    return PSR_OK;
}

/* ---- tools ---- */

static _Noreturn void become_tool(pid_t holder, char *const argv[], int in, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((holder != 0 && psr_lab_enter(holder, false) != PSR_OK) || dup2(in, 0) < 0 ||
        dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    execv(argv[0], argv);
    _exit(127);
}

static char *read_all(int fd)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    char *text = size >= 0 && size <= OUTPUT_BYTES_MAX ? malloc((size_t)size + 1) : NULL;
    if (text != NULL && pread(fd, text, (size_t)size, 0) == size) {
        text[size] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

static psr_err run_tool(pid_t holder, char *const argv[], int in, int out, char **ret_output)
{
    const char *slash = strrchr(argv[0], '/'), *name = slash != NULL ? slash + 1 : argv[0];
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        become_tool(holder, argv, in, out);
    if (pid < 0)
        return psr_fail(PSR_ERR_IO, "%s: %s", name, strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    char *said = read_all(out);
    if (said == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what %s says", name);
    psr_err err = PSR_OK;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        err = psr_fail(PSR_ERR_IO, "%s: %.*s", name, (int)strcspn(said, "\n"),
                       said[0] != '\0' ? said : "it failed and did not say why");
    if (err == PSR_OK && ret_output != NULL)
        *ret_output = said;
    else
        free(said);
    return err;
}

psr_err psr_lab_tool(pid_t holder, char *const argv[], const char *input, char **ret_output)
{
    const int in = memfd_create("psring-lab-in", MFD_CLOEXEC);
    const int out = memfd_create("psring-lab-out", MFD_CLOEXEC);
    const size_t size = strlen(input);
    psr_err err = PSR_OK;
    if (in < 0 || out < 0 || pwrite(in, input, size, 0) != (ssize_t)size)
        err = psr_fail(PSR_ERR_IO, "memory for the input of %s: %s", argv[0], strerror(errno));
    else
        err = run_tool(holder, argv, in, out, ret_output);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return err;
}
