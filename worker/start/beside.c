#include "worker/start/beside.h"

#include "base/system/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/secret.h"
#include "base/system/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

struct psr_beside {
    void (*lost)(void *context, bool killed, psr_err status, const char *line);
    void *context;
    psr_child children[PSR_BESIDE_MAX];
    char names[PSR_BESIDE_MAX][40]; /* "psring-ps (shard 1)" */
    size_t count;
    int ending; /* an eventfd that tells the thread to end */
    pthread_t thread;
    bool watched;
};

psr_err psr_beside_new(void (*lost)(void *context, bool killed, psr_err status, const char *line),
                       void *context, psr_beside **ret_beside)
{
    psr_beside *beside = calloc(1, sizeof *beside);
    if (beside == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for processes beside this one");
    beside->lost = lost;
    beside->context = context;
    beside->ending = eventfd(0, EFD_CLOEXEC);
    if (beside->ending < 0) {
        free(beside);
        return psr_fail(PSR_ERR_IO, "no descriptor for processes beside this one: %s",
                        strerror(errno));
    }
    signal(SIGPIPE, SIG_IGN); /* one of them may end before it has read its provision */
    *ret_beside = beside;
    return PSR_OK;
}

/* ---- starting ---- */

/* The line may be longer than the pipe holds, but the process reads it at once. */
static psr_err write_line(int fd, const char *line)
{
    size_t size = strlen(line), sent = 0;
    while (sent <= size) {
        ssize_t put = sent < size ? write(fd, line + sent, size - sent) : write(fd, "\n", 1);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return psr_fail(PSR_ERR_PEER, "it ended before it had read its provision: %s",
                            strerror(errno));
        sent += (size_t)put;
    }
    return PSR_OK;
}

static psr_err tell(psr_child *child, const psr_provision *provision)
{
    char *text = NULL;
    PSR_TRY(psr_provision_to_json(provision, &text));
    (void)fcntl(child->in.fd, F_SETFL, fcntl(child->in.fd, F_GETFL) & ~O_NONBLOCK);
    psr_err err = write_line(child->in.fd, text);
    psr_secret_free(text);
    return err;
}

psr_err psr_beside_start(psr_beside *beside, const char *program, char *const options[],
                         const psr_provision *provision)
{
    char path[4096], *argv[512];
    size_t argc = 1;
    if (beside->count == PSR_BESIDE_MAX)
        return psr_fail(PSR_ERR_USAGE, "more than %d processes beside one worker", PSR_BESIDE_MAX);
    PSR_TRY(psr_program_path(program, path, sizeof path));
    argv[0] = path;
    for (; *options != NULL && argc + 1 < sizeof argv / sizeof *argv; options++)
        argv[argc++] = *options;
    argv[argc] = NULL;
    psr_child *child = &beside->children[beside->count];
    bool is_scheduler = provision->self.role == PSR_ROLE_SCHEDULER;
    unsigned flags = PSR_CHILD_KEEP_STDERR | PSR_CHILD_LEAVES_TERM |
                     (is_scheduler ? PSR_CHILD_SEES_END | PSR_CHILD_KEEP_STDOUT : 0);
    PSR_TRY(psr_child_start(argv, flags, child));
    if (is_scheduler)
        snprintf(beside->names[beside->count], sizeof *beside->names, "the scheduler");
    else
        snprintf(beside->names[beside->count], sizeof *beside->names, "%s %u",
                 psr_role_name(provision->self.role), provision->self.rank);
    psr_log(PSR_LOG_INFO, "%s is beside this process: process %ld", beside->names[beside->count],
            (long)child->pid);
    beside->count++;
    psr_err err = tell(child, provision);
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "%s", beside->names[beside->count - 1]);
}

int psr_beside_orders(const psr_beside *beside)
{
    return beside->children[0].in.fd;
}

/* ---- watching ---- */

/* With status 0 the process has done its part. With another status it has told all others of its
 * failure, and the log says why. */
static void tell_end(psr_beside *beside, size_t i)
{
    char how[64], line[160];
    int status = beside->children[i].status;
    if (status == 0)
        return;
    psr_child_describe(status, how, sizeof how);
    snprintf(line, sizeof line, "%s, which this process started, has ended: %s", beside->names[i],
             how);
    beside->lost(beside->context, WIFSIGNALED(status),
                 WIFEXITED(status) && WEXITSTATUS(status) == 2   ? PSR_ERR_USAGE
                 : WIFEXITED(status) && WEXITSTATUS(status) == 3 ? PSR_ERR_PROTOCOL
                                                                 : PSR_ERR_PEER,
                 line);
}

/* Waits until all have ended, or for deadline_ms (-1: no limit), or for an order to stop. Returns
 * whether all have ended. */
static bool wait_for_ends(psr_beside *beside, int64_t deadline_ms, bool tells)
{
    struct pollfd fds[PSR_BESIDE_MAX + 1];
    for (;;) {
        size_t running = 0;
        for (size_t i = 0; i < beside->count; i++) {
            psr_child *child = &beside->children[i];
            bool before = child->ended;
            if (psr_child_reap(child) && !before && tells)
                tell_end(beside, i);
            running += !child->ended;
            fds[i] = (struct pollfd){.fd = child->ended ? -1 : child->pidfd, .events = POLLIN};
        }
        int64_t left_ms = deadline_ms < 0 ? -1 : deadline_ms - psr_clock_ms();
        if (running == 0 || (deadline_ms >= 0 && left_ms <= 0))
            return running == 0;
        fds[beside->count] = (struct pollfd){.fd = tells ? beside->ending : -1, .events = POLLIN};
        if (poll(fds, beside->count + 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) > 0 &&
            fds[beside->count].revents != 0)
            return false;
    }
}

static void *watch(void *context)
{
    (void)wait_for_ends(context, -1, true);
    return NULL;
}

psr_err psr_beside_watch(psr_beside *beside)
{
    PSR_TRY(psr_thread_start("psr-beside", watch, beside, &beside->thread));
    beside->watched = true;
    return PSR_OK;
}

/* ---- the end ---- */

static void stop_watching(psr_beside *beside)
{
    const uint64_t one = 1;
    if (!beside->watched)
        return;
    (void)!write(beside->ending, &one, sizeof one);
    pthread_join(beside->thread, NULL);
    beside->watched = false;
}

int psr_beside_end(psr_beside *beside, bool in_order, int64_t patience_ms)
{
    int status = 0;
    if (beside == NULL)
        return 0;
    stop_watching(beside);
    bool ended = in_order && wait_for_ends(beside, psr_clock_ms() + patience_ms, false);
    for (size_t i = 0; i < beside->count && !ended; i++)
        psr_line_writer_done(&beside->children[i].in); /* this ends its input */
    if (!ended)
        (void)wait_for_ends(beside, psr_clock_ms() + patience_ms, false);
    for (size_t i = 0; i < beside->count; i++)
        psr_child_done(&beside->children[i]);
    if (beside->count > 0)
        status =
            WIFEXITED(beside->children[0].status) ? WEXITSTATUS(beside->children[0].status) : 1;
    close(beside->ending);
    free(beside);
    return status;
}
