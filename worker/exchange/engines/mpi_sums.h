/* Sums over the processes that an MPI launcher has started, by MPI_Iallreduce on MPI's own
 * transport. The only place that knows MPI.
 *
 * One thread of its own makes all calls of MPI. MPI has no call that waits for a request or for a
 * socket, whichever comes first, and MPI_Init and MPI_Finalize wait for all other processes without
 * a deadline; so the thread that has the sockets never calls it, and hears of a peer's death, and
 * of the run's end, while MPI stands still. While sums are under way the thread calls MPI_Testsome
 * and yields the processor in turns, as MPI's own waits do: MPI moves data when it is called. While
 * none is, it sleeps.
 *
 * The order in which a sum adds is MPI's own, which may be another for another size, library or
 * machine. */
#ifndef PSR_WORKER_EXCHANGE_MPI_SUMS_H
#define PSR_WORKER_EXCHANGE_MPI_SUMS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_mpi_sums psr_mpi_sums;

typedef struct psr_mpi_sums_options {
    uint32_t processes; /* how many take part; MPI must find this number */
    uint32_t most;      /* most sums that may be under way at a time */
    void *context;
    /* A sum has ended, or all have failed. Called on MPI's thread, until psr_mpi_sums_free; it may
     * call no function of this header. */
    void (*changed)(void *context);
} psr_mpi_sums_options;

/* Starts the thread, which calls MPI_Init; once in a process. psr_mpi_sums_take returns its
 * failure. The caller owns *ret_sums: psr_mpi_sums_free. NOMEM, IO. */
PSR_MUST_CHECK psr_err psr_mpi_sums_new(const psr_mpi_sums_options *options,
                                        psr_mpi_sums **ret_sums);

/* Replaces values[0, count) by their sums over all processes; they are borrowed until the sum has
 * ended. All processes start the same sums in the same order. number: the caller's name for it.
 * USAGE: more than `most` are under way. */
PSR_MUST_CHECK psr_err psr_mpi_sums_start(psr_mpi_sums *sums, uint32_t number, float *values,
                                          size_t count);

/* The next sum that has ended; *ret_any false: none. IO: MPI failed, with its words. USAGE: MPI
 * found another number of processes; the line says what to do. */
PSR_MUST_CHECK psr_err psr_mpi_sums_take(psr_mpi_sums *sums, bool *ret_any, uint32_t *ret_number);

/* Calls MPI_Finalize if nothing failed and no sum is under way; it waits for all other processes to
 * do so. If they have not within linger_ms, the thread is left behind with what it uses, since the
 * process is about to end. NULL allowed. */
void psr_mpi_sums_free(psr_mpi_sums *sums, int linger_ms);

/* "Open MPI v4.1.4": what is linked. */
void psr_mpi_library(char *text, size_t size);

#endif
