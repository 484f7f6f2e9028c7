#include "comm/operations/loan.h"

void psr_loan_init(psr_loan *loan, const psr_outbox *outbox)
{
    atomic_init(&loan->lent, 0);
    loan->returned = outbox->returned;
    loan->context = outbox->context;
}

void psr_loan_begin(psr_loan *loan, uint32_t count)
{
    atomic_fetch_add_explicit(&loan->lent, count, memory_order_relaxed);
}

static void end(void *context)
{
    psr_loan *loan = context;
    uint32_t before = atomic_fetch_sub_explicit(&loan->lent, 1, memory_order_release);
    if (before == 1 && loan->returned != NULL)
        loan->returned(loan->context);
}

static void end_unasked(void *context)
{
    (void)context;
}

psr_payload psr_loan_payload(psr_loan *loan, psr_payload payload)
{
    return (psr_payload){payload.data, payload.bytes, loan != NULL ? end : end_unasked, loan};
}

uint32_t psr_loan_lent(const psr_loan *loan)
{
    return atomic_load_explicit(&loan->lent, memory_order_acquire);
}
