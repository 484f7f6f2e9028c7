#include "bench/exchange/peer_program.h"

#include "base/system/child.h"
#include "base/text/printable.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 5000 };

static volatile sig_atomic_t running;     /* its process group; 0: none */
static volatile sig_atomic_t running_end; /* its pidfd */

/* mpirun's ranks are in groups of their own, which it ends if it is asked to. */
void bench_peer_end_running(void)
{
    struct pollfd end = {running_end, POLLIN, 0};
    if (running == 0)
        return;
    (void)kill(-(pid_t)running, SIGTERM);
    (void)poll(&end, 1, PATIENCE_MS);
    (void)kill(-(pid_t)running, SIGKILL);
}

psr_err bench_peer_find_file(const char *name, char ret_path[static PATH_MAX])
{
    static const char *const places[] = {"../share/psring/peers", "../../bench/peers"};
    char own[PATH_MAX];
    PSR_TRY(psr_program_path("psring-bench-exchange", own, sizeof own));
    char *slash = strrchr(own, '/');
    *(slash != NULL ? slash : own) = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int length = snprintf(ret_path, PATH_MAX, "%s/%s/%s", own, places[i], name);
        if (length > 0 && length < PATH_MAX && access(ret_path, R_OK) == 0)
            return PSR_OK;
    }
    return psr_fail(PSR_ERR_NOT_FOUND, "%s is not installed: looked in %s/%s", name, own,
                    places[0]);
}

static void read_all(int fd, char *text)
{
    size_t fill = 0;
    for (ssize_t got;
         fill < BENCH_PEER_OUTPUT_BYTES - 1 &&
         (got = pread(fd, text + fill, BENCH_PEER_OUTPUT_BYTES - 1 - fill, (off_t)fill)) > 0;)
        fill += (size_t)got;
    text[fill] = '\0';
}

static bool says_something(const char *line)
{
    for (; *line != '\0'; line++)
        if (isalnum((unsigned char)*line))
            return true;
    return false;
}

/* The last one that is more than a ruler. */
static const char *last_line(char *text)
{
    for (char *newline; (newline = strrchr(text, '\n')) != NULL; *newline = '\0')
        if (says_something(newline + 1)) {
            psr_printable_line(newline + 1, strlen(newline + 1));
            return newline + 1;
        }
    psr_printable_line(text, strlen(text));
    return says_something(text) ? text : "it said nothing";
}

static psr_err await(char *const *words, int out, int err_file, int *ret_status)
{
    psr_child child;
    const psr_child_surroundings surroundings = {
        .directory = ".", .out = dup(out), .err = dup(err_file), .inherits = -1};
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* a signal's handler ends it: it must know it */
    const psr_err err = psr_child_start_program(words, &surroundings, &child);
    if (err == PSR_OK) {
        running_end = child.pidfd;
        running = child.pid;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    PSR_TRY(err);
    psr_child_wait(&child);
    running = 0;
    *ret_status = child.status;
    psr_child_done(&child);
    return PSR_OK;
}

psr_err bench_peer_run_program(const char *name, char *const *words, char *text)
{
    int status = 0;
    FILE *out = tmpfile(), *errors = tmpfile();
    psr_err err =
        out != NULL && errors != NULL
            ? await(words, fileno(out), fileno(errors), &status)
            : psr_fail(PSR_ERR_IO, "a file for what %s prints: %s", name, strerror(errno));
    if (err == PSR_OK && status != 0) {
        read_all(fileno(errors), text);
        err = psr_fail(PSR_ERR_PEER, "%s failed: %.500s", name, last_line(text));
    } else if (err == PSR_OK) {
        read_all(fileno(out), text);
    }
    if (out != NULL)
        fclose(out);
    if (errors != NULL)
        fclose(errors);
    return err;
}
