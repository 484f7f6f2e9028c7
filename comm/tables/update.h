/* Updates: the functions, known by name, by which a shard changes its part of a table when values
 * are pushed. The communicator has two: "sum" adds the pushed values, "assign" replaces by them.
 * Users register others, such as optimizers, when they open a table. */
#ifndef PSR_COMM_UPDATE_H
#define PSR_COMM_UPDATE_H

#include "base/err.h"
#include "base/span.h"

/* A run of one part. All borrowed for the call. */
typedef struct psr_table_run {
    uint32_t part;
    psr_span span;       /* of the table, in floats */
    uint64_t step;       /* of the table, from 0: pushes of each
                            worker that came before; for schedules */
    uint64_t number;     /* of the update of these values, from 1: in
                            BSP step + 1, else that of the push */
    const float *pushed; /* [span.count] in BSP the sum over all workers, else one worker's */
    float *values;       /* [span.count] in and out */
} psr_table_run;

typedef struct psr_table_update {
    const char *name;
    void *context;                                  /* the functions' */
    uint32_t state_count;                           /* at most 31: arrays beside the
                                                       values, as long as the table */
    float *(*state)(void *context, uint32_t state); /* the update's own; NULL when there are none */

    /* Called once for every pushed value, in runs of any length, on the shard's thread. A failure
     * ends the table and is returned to its caller. */
    psr_err (*apply)(void *context, const psr_table_run *run);

    /* NULL: a slice is finished, and answered, when all of it has been applied. Otherwise it is
     * finished when the update says so (psr_table_shard_updated), in this call or a later one. So
     * an update that needs more than one slice can collect what apply is given, and change the
     * values when all is there. BSP only. slice: the shard's number of it. */
    psr_err (*applied)(void *context, uint32_t slice, uint64_t step);
} psr_table_update;

/* Of those registered, then of the communicator's own, the first with that name, borrowed. USAGE:
 * there is none (the detail lists those that there are). */
PSR_MUST_CHECK psr_err psr_table_update_find(const char *name, const psr_table_update *registered,
                                             uint32_t count, const psr_table_update **ret_update);

#endif
