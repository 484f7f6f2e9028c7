#include "comm/operations/loan.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>

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

void psr_loan_forgo(psr_loan *loan, uint32_t count)
{
    /* A thread that sees that nothing is lent may free the loan. */
    const psr_loan copy = {.returned = loan->returned, .context = loan->context};
    uint32_t before = atomic_fetch_sub_explicit(&loan->lent, count, memory_order_release);
    if (before == count && copy.returned != NULL)
        copy.returned(copy.context);
}

static void end(void *context)
{
    psr_loan_forgo(context, 1);
}

static void release_nothing(void *context)
{
    (void)context;
}

psr_payload psr_loan_payload(psr_loan *loan, psr_payload payload)
{
    return (psr_payload){payload.data, payload.bytes, loan != NULL ? end : release_nothing, loan};
}

typedef struct own_memory {
    psr_loan *loan;
    alignas(max_align_t) unsigned char bytes[];
} own_memory;

static void end_own(void *context)
{
    own_memory *memory = context;
    psr_loan *loan = memory->loan;
    free(memory);
    end(loan);
}

psr_err psr_loan_memory(psr_loan *loan, size_t bytes, psr_payload *ret_payload, void **ret_memory)
{
    own_memory *memory = malloc(sizeof *memory + bytes);
    if (memory == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a payload of %zu bytes", bytes);
    memory->loan = loan;
    psr_loan_begin(loan, 1);
    *ret_payload = (psr_payload){memory->bytes, bytes, end_own, memory};
    *ret_memory = memory->bytes;
    return PSR_OK;
}

uint32_t psr_loan_lent(const psr_loan *loan)
{
    return atomic_load_explicit(&loan->lent, memory_order_acquire);
}
