/* psring-bench-comm's table: a line for each operation and size, for a person, as JSON, or as CSV.
 * One thread. */
#ifndef PSR_BENCH_COLLECTIVES_TABLE_H
#define PSR_BENCH_COLLECTIVES_TABLE_H

#include "bench/collectives/measure.h"

#include <stdio.h>

typedef enum bench_format { BENCH_TEXT, BENCH_JSON, BENCH_CSV } bench_format;

typedef struct bench_table {
    FILE *file;
    bench_format format;
    int ranks, hosts;
    bool shared; /* the arrays lie in memory that is shared */
    uint32_t rows;
} bench_table;

void bench_table_begin(bench_table *table, uint32_t warmup, uint32_t iterations);
void bench_table_add(bench_table *table, const bench_task *task, const bench_figures *figures);
/* counts: of the rank that writes. False: it could not be written. */
bool bench_table_end(bench_table *table, const psring_counts *counts);

#endif
