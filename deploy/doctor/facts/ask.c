#include "deploy/doctor/facts/ask.h"

#include "base/clock.h"
#include "base/system/child.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

typedef struct heard {
    char first[4096]; /* of its standard output */
    char last[512];   /* of its standard error */
} heard;

static psr_err on_line(void *context, char *line)
{
    heard *h = context;
    if (h->first[0] == '\0')
        snprintf(h->first, sizeof h->first, "%s", line);
    return PSR_OK;
}

static psr_err on_error_line(void *context, char *line)
{
    heard *h = context;
    if (line[0] != '\0')
        snprintf(h->last, sizeof h->last, "%s", line);
    return PSR_OK;
}

/* Reads until the process has ended and all its output was read. */
static psr_err listen_to(psr_child *child, const char *name, int timeout_ms, heard *h)
{
    const int64_t end_ms = psr_clock_ms() + timeout_ms;
    for (;;) {
        (void)psr_child_reap(child);
        PSR_TRY(psr_line_reader_visit(&child->out, on_line, h));
        PSR_TRY(psr_line_reader_visit(&child->err, on_error_line, h));
        if (psr_child_said_all(child))
            return PSR_OK;
        int64_t left_ms = end_ms - psr_clock_ms();
        if (left_ms <= 0)
            return psr_fail(PSR_ERR_TIMEOUT, "%s did not end within %d ms", name, timeout_ms);
        struct pollfd fds[] = {{.fd = child->ended ? -1 : child->pidfd, .events = POLLIN},
                               {.fd = child->out.fd, .events = POLLIN},
                               {.fd = child->err.fd, .events = POLLIN}};
        /* EINTR needs no handling: everything is checked anyway */
        (void)poll(fds, sizeof fds / sizeof *fds, (int)left_ms);
    }
}

static psr_err judge(const psr_child *child, const char *name, const heard *h)
{
    char how[128];
    if (child->status != 0) {
        psr_child_describe(child->status, how, sizeof how);
        return psr_fail(PSR_ERR_PEER, "%s: %s%s%s", name, how, h->last[0] ? ": " : "", h->last);
    }
    return h->first[0] ? PSR_OK : psr_fail(PSR_ERR_FORMAT, "%s said nothing", name);
}

psr_err psr_ask_program(char *const argv[], int timeout_ms, char *answer, size_t size)
{
    psr_child child;
    heard h = {"", ""};
    PSR_TRY(psr_child_start(argv, 0, &child));
    psr_err err = listen_to(&child, argv[0], timeout_ms, &h);
    if (err == PSR_OK)
        err = judge(&child, argv[0], &h);
    if (err == PSR_OK)
        snprintf(answer, size, "%s", h.first);
    psr_child_done(&child);
    return err;
}
