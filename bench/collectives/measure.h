/* Times an operation of one size, and checks all that every call of it receives. One thread for
 * each communicator. */
#ifndef PSR_BENCH_COLLECTIVES_MEASURE_H
#define PSR_BENCH_COLLECTIVES_MEASURE_H

#include "bench/collectives/operations.h"

#include <stdint.h>

/* What is measured; the same on all ranks. All is borrowed. */
typedef struct bench_task {
    const bench_operation *operation;
    psring_type type;
    psring_op op;
    int root;
    const char *algorithm; /* NULL: the library's choice */
    const char *encoding;  /* "fp16", "bf16"; NULL: values are sent as they are */
    psring_comm *shares;   /* the arrays lie in its shared memory; NULL: in memory of malloc */
    size_t unit;           /* values */
    uint32_t warmup, iterations;
} bench_task;

/* docs/figures.md defines them. */
typedef struct bench_figures {
    const char *algorithm; /* a static text */
    double median_s, least_s, most_s;
    int64_t wrong; /* values, of all ranks and calls */
} bench_figures;

/* Called by all ranks of the group with the same task. Other errors than NOMEM are the
 * library's. */
psring_err bench_measure(psring_group *group, const bench_task *task, bench_figures *ret_figures);

#endif
