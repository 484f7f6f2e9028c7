/* What bench_exchange's processes say to each other by socket pairs, and how they fail: with a
 * line, at once. */
#ifndef PSR_BENCH_EXCHANGE_LINK_H
#define PSR_BENCH_EXCHANGE_LINK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a process is reached: for messages, and to share memory. */
typedef struct bench_places {
    char endpoint[128], memory[128];
} bench_places;

/* When a round began and ended at a worker, by its host's CLOCK_MONOTONIC, and how many bytes it
 * has sent and received meanwhile. */
typedef struct bench_answer {
    int64_t begin_ns, end_ns;
    uint64_t bytes_sent, bytes_received;
} bench_answer;

/* what: was to be done. Says the last failure too. */
_Noreturn void bench_die(const char *what);
void bench_must(psr_err err, const char *what);

/* All of it. false: the other end is gone. */
bool bench_hear(int fd, void *data, size_t size);
/* The same for a member: if its other end is gone it ends. */
void bench_read(int fd, void *data, size_t size);
/* Likewise; whoever reads what is answered finds out that the other end is gone. */
void bench_write(int fd, const void *data, size_t size);

#endif
