/* The values that psring-bench-comm exchanges, and the results that they must give. Value i of a
 * rank is a small integer, and the folded values are exact in every type and in any order. Both
 * repeat after a prime number of values, so that data at a wrong offset are noticed. No state; any
 * thread. */
#ifndef PSR_BENCH_COLLECTIVES_VALUES_H
#define PSR_BENCH_COLLECTIVES_VALUES_H

#include <psring/psring.h>

/* As a source: the folded values of the first `ranks` ranks. */
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

/* Why the folded values of these ranks are not exact, as a static text; NULL: they are exact. */
const char *bench_values_refuse(psring_type type, psring_op op, int ranks);
/* The same if they are sent in this encoding: "fp16" or "bf16". */
const char *bench_values_refuse_encoded(psring_type type, psring_op op, int ranks,
                                        const char *encoding);
void bench_values_write(const bench_source *source, void *data, size_t count);
/* How many of data[count] differ from the source's values. */
size_t bench_values_wrong(const bench_source *source, const void *data, size_t count);

#endif
