#include "bench/exchange/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Noreturn void bench_die(const char *what)
{
    fprintf(stderr, "psring bench exchange: %s: %s\n", what,
            psr_err_detail()[0] ? psr_err_detail() : strerror(errno));
    _exit(1);
}

void bench_must(psr_err err, const char *what)
{
    if (err)
        bench_die(what);
}

bool bench_hear(int fd, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t got = read(fd, at, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

void bench_read(int fd, void *data, size_t size)
{
    if (!bench_hear(fd, data, size))
        _exit(1);
}

/* MSG_NOSIGNAL: nobody needs a signal for an end that is gone. */
void bench_write(int fd, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return;
        at += sent;
        size -= (size_t)sent;
    }
}
