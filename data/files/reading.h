/* Counts how much of a data set was read. The thread that reads counts. Another thread may look at
 * the count, and may stop the reading. In place; all zero: nothing was read yet. */
#ifndef PSR_DATA_READING_H
#define PSR_DATA_READING_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_reading {
    _Atomic uint64_t moves; /* grows at least once for every PSR_READING_BYTES */
    _Atomic bool stop;      /* set: reading ends with CANCELLED */
} psr_reading;

#define PSR_READING_BYTES ((size_t)4 << 20)

/* Counts one step of reading. NULL allowed. CANCELLED: the reading was stopped. */
PSR_MUST_CHECK static inline psr_err psr_reading_moved(psr_reading *reading)
{
    if (reading == NULL)
        return PSR_OK;
    atomic_fetch_add_explicit(&reading->moves, 1, memory_order_relaxed);
    return atomic_load_explicit(&reading->stop, memory_order_relaxed)
               ? psr_fail(PSR_ERR_CANCELLED, "the data set is not wanted any more")
               : PSR_OK;
}

#endif
