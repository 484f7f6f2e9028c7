/* Small collectives over worker 0: a fold of doubles to everybody (comm/operations/fold_root.c), and a broadcast of bytes
 * (comm/operations/broadcast.c). The same in every mode that has several workers, so the same bits. Free of I/O. Each is an operation
 * (comm/operations/operation.h); a psr_collective is the order of a rank's calls. Every worker starts the same operations in the same
 * order; each has the next number as its round.
 * Sliced at slice_bytes (a multiple of 8 below PSR_PAYLOAD_BYTES_MAX). No window: what is under way is
 * bounded by the size of the data: a fold's is copied, a broadcast's lent.
 * n ranks, M bytes: a fold moves 2(n-1)M through worker 0, a broadcast (n-1)M. One thread. */
#ifndef PSR_COMM_COLLECTIVE_H
#define PSR_COMM_COLLECTIVE_H

#include "comm/operations/operation.h"
#include "comm/outbox.h"

typedef struct psr_collective psr_collective;

/* bytes_max: of any one operation, here or on any other rank. It bounds what comes before its operation begins here. */
PSR_MUST_CHECK psr_err psr_collective_new(uint32_t rank, uint32_t ranks, size_t slice_bytes, size_t bytes_max,
                                          psr_outbox outbox, psr_collective **ret_collective);
void psr_collective_free(psr_collective *collective);

/* Its operations, borrowed from it; begun by psr_collective_start alone.
 * Fold: float64; becomes the sum over ranks in ascending order, from rank 0's values.
 * Broadcast: uint8; worker 0's to all. All know the size. */
psr_operation *psr_collective_fold(psr_collective *collective);
psr_operation *psr_collective_broadcast(psr_collective *collective);

/* Starts the next operation. One at a time. Of no values, or of one rank: finished at once. buffer is borrowed until it is
 * finished (worker 0 has everybody's answer to a broadcast by then, which each gives when it has copied all of it), or on failure until
 * the transport's end: a
 * broadcast's bytes are lent to it. */
PSR_MUST_CHECK psr_err psr_collective_start(psr_collective *collective, psr_operation *operation,
                                            const psr_buffer *buffer);
/* GATHER or SPREAD. Takes *message. PROTOCOL when it is not one that can come now (sender, number, range,
 * repeated, payload size, more than any operation has). */
PSR_MUST_CHECK psr_err psr_collective_message(psr_collective *collective, psr_message **message);
/* True when the operation begun last is complete here. */
bool psr_collective_finished(const psr_collective *collective);
/* Whom it waits for otherwise: the lowest rank. */
bool psr_collective_waits(const psr_collective *collective, psr_waiting *ret_waiting);

#endif
