/* Messages of buckets between members that change from one view to the next, not all at the same
 * moment: each says the epoch of the view that it is sent under. One of an older view is dropped,
 * since nobody needs it any more; one of a newer view waits until that is bound here. The bound is
 * what honest members may send ahead of this one.
 *
 * Who reads a message that the gate has let pass finds epoch 0 in it, as there were no others. One
 * thread. */
#ifndef PSR_COMM_EPOCH_GATE_H
#define PSR_COMM_EPOCH_GATE_H

#include "net/message.h"

typedef struct psr_epoch_gate psr_epoch_gate;

/* Open, at epoch 0. limit: messages that may wait. NOMEM. ret owns: psr_epoch_gate_free. */
PSR_MUST_CHECK psr_err psr_epoch_gate_new(size_t limit, psr_epoch_gate **ret_gate);
/* Frees those that wait. NULL allowed. */
void psr_epoch_gate_free(psr_epoch_gate *gate);

/* Takes *message, unless it is due now: that one stays, to be read. An older one is freed and
 * counted, a newer one waits; so does, while the gate is open for state alone, what is not STATE.
 * PROTOCOL: too many wait. */
PSR_MUST_CHECK psr_err psr_epoch_gate_pass(psr_epoch_gate *gate, psr_message **message);

/* This member stands on that view from now on. state_alone: what is handed over comes first. limit:
 * as above. */
void psr_epoch_gate_move(psr_epoch_gate *gate, uint32_t epoch, size_t limit);
/* All has been handed over. */
void psr_epoch_gate_open(psr_epoch_gate *gate);
/* The oldest of those that wait which is due now, to be read. ret owns. NULL: none is. To be asked
 * again until then, after psr_epoch_gate_move and _open. */
psr_message *psr_epoch_gate_next(psr_epoch_gate *gate);

/* The oldest of those that wait for the view of that epoch. Borrowed until the gate is changed.
 * NULL: none does. */
const psr_message *psr_epoch_gate_waiting(const psr_epoch_gate *gate, uint32_t epoch);
uint32_t psr_epoch_gate_epoch(const psr_epoch_gate *gate);
/* Messages of older views, so far. */
uint64_t psr_epoch_gate_dropped(const psr_epoch_gate *gate);

#endif
