/* The values that psring-bench-comm exchanges, and what must come of them. Value i of a rank is a small integer, and what they fold to is exact
 * in every type, in whatever order it is folded. Both repeat after a prime number of values, so that a part at a wrong place shows.
 * No state; any thread. */
#ifndef PSR_BENCH_COLLECTIVES_VALUES_H
#define PSR_BENCH_COLLECTIVES_VALUES_H

#include <psring/psring.h>

/* A source: the first so many ranks' values together. */
#define BENCH_FOLDED(ranks) (-(ranks))

/* A static text; NULL: there is none. */
const char *bench_type_name(psring_type type);
const char *bench_op_name(psring_op op);
bool bench_type_find(const char *name, psring_type *ret_type);
bool bench_op_find(const char *name, psring_op *ret_op);
size_t bench_type_bytes(psring_type type);

/* Whose values, and which: `first` and those behind it. */
typedef struct bench_source {
    psring_type type;
    psring_op op;
    int ranks;
    int rank; /* or BENCH_FOLDED */
    size_t first;
} bench_source;

/* NULL: what these ranks' values fold to is exact. Otherwise why not: a static text. */
const char *bench_values_refuse(psring_type type, psring_op op, int ranks);
void bench_values_write(const bench_source *source, void *data, size_t count);
/* How many of data[count] are something else. */
size_t bench_values_wrong(const bench_source *source, const void *data, size_t count);

#endif
