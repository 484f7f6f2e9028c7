/* The other ranks of a benchmark that a launcher has started on several hosts. A process of its own
 * speaks to them by psring/psring.h, so that this one has no thread of the library's and may fork.
 * One thread. */
#ifndef PSR_BENCH_EXCHANGE_MEETING_H
#define PSR_BENCH_EXCHANGE_MEETING_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_HOST_BYTES 64

typedef struct bench_meeting bench_meeting;

/* Whether a launcher has given this process a rank; then it must take part. USAGE: what it has
 * given makes no sense. */
PSR_MUST_CHECK psr_err bench_meeting_is_called(bool *ret_called);

/* Joins, and waits for all. A failure was told: the program ends with status 1. NOMEM, IO. The
 * caller owns *ret_meeting: bench_meeting_end. */
PSR_MUST_CHECK psr_err bench_meeting_join(bench_meeting **ret_meeting);

uint32_t bench_meeting_rank(const bench_meeting *meeting);
uint32_t bench_meeting_size(const bench_meeting *meeting);
/* Borrowed for life. */
const char *bench_meeting_host(const bench_meeting *meeting, uint32_t rank);
/* Address or name of the interface by which the others are reached. Borrowed for life. */
const char *bench_meeting_interface(const bench_meeting *meeting);

/* Everybody's bytes, as many of each: all[size][bytes], in the order of ranks. All ranks must call
 * it alike. If that fails, or another rank has ended, this program ends with status 1. */
void bench_meeting_gather(bench_meeting *meeting, const void *own, size_t bytes, void *all);

/* Leaves when all ranks do so. NULL allowed. */
void bench_meeting_end(bench_meeting *meeting);

#endif
