/* The library's operations as psring-bench-comm calls them: how much data each moves, how it is
 * called, and which values must result. No state; any thread. */
#ifndef PSR_BENCH_COLLECTIVES_OPERATIONS_H
#define PSR_BENCH_COLLECTIVES_OPERATIONS_H

#include <psring/psring.h>

/* One call. All is borrowed. */
typedef struct bench_call {
    psring_group *group;
    int rank, ranks, root;
    psring_type type;
    psring_op op;
    size_t unit;                /* values of the smallest part that the operation has */
    const void *send;           /* this rank's values, from the first on */
    void *receive;              /* broadcast: the data, both ways */
    size_t *counts;             /* [2 * ranks], scratch of all_to_all_v */
    const psring_call *options; /* NULL: defaults */
} bench_call;

/* A part of what is received: values of one rank, or of several folded. */
typedef struct bench_part {
    int source; /* rank, or BENCH_FOLDED */
    size_t first, count;
} bench_part;

typedef struct bench_operation {
    const char *name;
    bool folds, has_root, in_place;
    bool scans;            /* it folds, and has no mean */
    bool count_is_of_rank; /* the table's count is one rank's part, not the whole */
    int least_ranks;
    size_t (*units)(int ranks); /* how many units its size is. 0: it has no size */
    double (*bus_factor)(int ranks);
    /* values that this rank sends, and the parts that it receives */
    size_t (*sent)(const bench_call *call);
    size_t (*received)(const bench_call *call, bench_part *parts); /* at most ranks + 2 */
    /* ret_request NULL: returns when the operation has ended, as the library's calls do. Otherwise
     * the caller waits for the request and frees it. */
    psring_err (*start)(const bench_call *call, psring_request **ret_request);
} bench_operation;

extern const bench_operation bench_operations[];
extern const size_t bench_operation_count;

#endif
