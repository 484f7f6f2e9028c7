/* Memory that is lent to a transport. The transport sends the bytes from where they lie, and ends
 * the loan, on a thread of its own, when they have left. Or it passes a reference to a receiver
 * that reads them in place, and ends the loan when the receiver has freed its message. A psr_loan
 * counts the payloads of one piece of memory (a bucket's gradient) that are lent or about to be;
 * until there are none, the memory must not change. */
#ifndef PSR_COMM_LOAN_H
#define PSR_COMM_LOAN_H

#include "comm/outbox.h"

#include <stdatomic.h>

/* May not be moved; outlives the transport that it is lent to. */
typedef struct psr_loan {
    _Atomic uint32_t lent;           /* payloads */
    void (*returned)(void *context); /* the outbox's */
    void *context;
} psr_loan;

/* Starts with nothing lent. When the last loan ends, outbox->returned is called on the thread that
 * ended it. */
void psr_loan_init(psr_loan *loan, const psr_outbox *outbox);

/* count payloads more are to be sent from the memory. Its owner's thread. */
void psr_loan_begin(psr_loan *loan, uint32_t count);
/* count of the announced payloads will not be sent. */
void psr_loan_forgo(psr_loan *loan, uint32_t count);
/* Makes one of the announced payloads a lent one, for the transport to send. loan NULL: the bytes
 * never change while anybody, the receiver included, can read them. */
psr_payload psr_loan_payload(psr_loan *loan, psr_payload payload);

/* A payload of so many bytes in memory of its own, which the caller writes. It is lent with the
 * others, and its memory is freed when it comes back. *ret_memory is aligned for any type. NOMEM:
 * nothing is begun. */
PSR_MUST_CHECK psr_err psr_loan_memory(psr_loan *loan, size_t bytes, psr_payload *ret_payload,
                                       void **ret_memory);

/* The number of payloads that are lent or announced; when it is 0 the memory may be written again.
 * Any thread. */
uint32_t psr_loan_lent(const psr_loan *loan);

#endif
