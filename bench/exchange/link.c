#include "bench/exchange/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
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

void bench_read(int fd, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t got = read(fd, at, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            _exit(1); /* the other end is gone: it has said why */
        at += got;
        size -= (size_t)got;
    }
}

void bench_write(int fd, const void *data, size_t size)
{
    if (write(fd, data, size) != (ssize_t)size)
        bench_die("the link between the processes");
}
