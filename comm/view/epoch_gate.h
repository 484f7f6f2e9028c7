/* The gate for messages about buckets while members change from one view to the next, which they do
 * not do at the same moment. Each message says the epoch of the view under which it was sent. A
 * message of an older view is dropped, since nobody needs it any more. A message of a newer view
 * waits until that view is bound here. The limit on waiting messages is what honest members may
 * send before this member has changed. In a message that has passed, the epoch is set to 0, so that
 * readers need not know epochs. One thread. */
#ifndef PSR_COMM_EPOCH_GATE_H
#define PSR_COMM_EPOCH_GATE_H

#include "net/message.h"

typedef struct psr_epoch_gate psr_epoch_gate;

/* Open, at epoch 0. limit: most messages that may wait. NOMEM. The caller owns *ret_gate:
 * psr_epoch_gate_free. */
PSR_MUST_CHECK psr_err psr_epoch_gate_new(size_t limit, psr_epoch_gate **ret_gate);
/* Frees the waiting messages too. NULL allowed. */
void psr_epoch_gate_free(psr_epoch_gate *gate);

/* Leaves *message if it is due now, to be read. Otherwise takes it: an older one is freed and
 * counted, a newer one waits. While the gate is open for state only, all messages but STATE wait
 * too. PROTOCOL: too many wait. */
PSR_MUST_CHECK psr_err psr_epoch_gate_pass(psr_epoch_gate *gate, psr_message **message);

/* This member has changed to the view of that epoch. state_alone: the state that is handed over
 * must come first. limit: see psr_epoch_gate_new. */
void psr_epoch_gate_move(psr_epoch_gate *gate, uint32_t epoch, size_t limit);
/* Everything has been handed over. */
void psr_epoch_gate_open(psr_epoch_gate *gate);
/* The oldest waiting message that is due now; the caller owns it. NULL: there is none. Call it
 * until then, after psr_epoch_gate_move and psr_epoch_gate_open. */
psr_message *psr_epoch_gate_next(psr_epoch_gate *gate);

/* The oldest message that waits for the view of that epoch. Borrowed until the gate is changed.
 * NULL: there is none. */
const psr_message *psr_epoch_gate_waiting(const psr_epoch_gate *gate, uint32_t epoch);
uint32_t psr_epoch_gate_epoch(const psr_epoch_gate *gate);

#endif
