/* Small collectives over worker 0: a fold of doubles to everybody, and a broadcast of bytes. The same in
 * every mode that has several workers, so the same bits. A fold sums ranks in ascending order from rank 0's
 * values. Free of I/O. Every worker calls the same operations in the same order; each has the next number.
 * Sliced at slice_bytes (a multiple of 8 below PSR_PAYLOAD_BYTES_MAX). No window: what is under way is
 * bounded by the size of the data (statistics: 0.5 MB for ResNet-50, copied; initial weights: 102 MB, lent).
 * n ranks, M bytes: a fold moves 2(n-1)M through worker 0, a broadcast (n-1)M. One thread. */
#ifndef PSR_COMM_COLLECTIVE_H
#define PSR_COMM_COLLECTIVE_H

#include "comm/ring.h"

typedef struct psr_collective psr_collective;

/* bytes_max: of any one operation, here or on any other rank. It bounds what comes before its operation begins here. */
PSR_MUST_CHECK psr_err psr_collective_new(uint32_t rank, uint32_t ranks, size_t slice_bytes, size_t bytes_max,
                                          psr_outbox outbox, psr_collective **ret_collective);
void psr_collective_free(psr_collective *collective);

/* Begins the next operation: values (count doubles) become the sum over ranks in ascending order. Borrowed
 * until finished. One operation at a time. Of no values, or of one rank: finished at once. */
PSR_MUST_CHECK psr_err psr_collective_fold(psr_collective *collective, double *values, size_t count);
/* Begins the next operation: bytes of worker 0 to all. All know the size. Borrowed until finished (worker 0
 * has everybody's answer by then), or on failure until the transport's end: they are lent to it. */
PSR_MUST_CHECK psr_err psr_collective_broadcast(psr_collective *collective, void *bytes, size_t size);
/* GATHER or SPREAD. Takes *message. PROTOCOL when it is not one that can come now (sender, number, range,
 * repeated, payload size, more than any operation has). */
PSR_MUST_CHECK psr_err psr_collective_message(psr_collective *collective, psr_message **message);
/* True when the operation begun last is complete here. */
bool psr_collective_finished(const psr_collective *collective);
/* The lowest rank that an unfinished operation waits for. */
uint32_t psr_collective_waits(const psr_collective *collective);

#endif
