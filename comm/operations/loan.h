/* Memory that is lent to a transport: it sends from where the bytes lie, and gives them back on a thread of its own when they have
 * left; or lends them on to a receiver that reads them there, and gives them back when that has freed its message. A loan
 * counts what of one thing (a bucket's gradient) must stay as it is: what is lent, and what waits to be. */
#ifndef PSR_COMM_LOAN_H
#define PSR_COMM_LOAN_H

#include "comm/outbox.h"

#include <stdatomic.h>

/* In place; outlives the transport that it is lent to. */
typedef struct psr_loan {
    _Atomic uint32_t lent;           /* payloads */
    void (*returned)(void *context); /* the outbox's */
    void *context;
} psr_loan;

/* Nothing is lent. When the last payload has come back, outbox->returned is called on the thread that gave it back. */
void psr_loan_init(psr_loan *loan, const psr_outbox *outbox);

/* count payloads more are to be sent from the memory. Its owner's thread. */
void psr_loan_begin(psr_loan *loan, uint32_t count);
/* So many of them will not be sent. */
void psr_loan_forgo(psr_loan *loan, uint32_t count);
/* One of them, lent: for the transport to send. loan NULL: its bytes stand for as long as anybody, the receiver too, could read them. */
psr_payload psr_loan_payload(psr_loan *loan, psr_payload payload);

/* A payload of so many bytes in memory of its own, which its maker writes: it is lent with the others, and the memory is freed when it comes
 * back. ret_memory is aligned for any type. NOMEM: nothing is begun. */
PSR_MUST_CHECK psr_err psr_loan_memory(psr_loan *loan, size_t bytes, psr_payload *ret_payload,
                                       void **ret_memory);

/* Payloads that have not come back; when 0 the memory may be written again. Any thread. */
uint32_t psr_loan_lent(const psr_loan *loan);

#endif
