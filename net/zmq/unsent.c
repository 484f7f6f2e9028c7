#include "net/zmq/unsent.h"

#include <stdatomic.h>
#include <stdlib.h>

struct psr_unsent {
    atomic_size_t holders; /* its owner, and each message that waits */
};

psr_err psr_unsent_new(psr_unsent **ret_unsent)
{
    psr_unsent *unsent = malloc(sizeof *unsent);
    if (unsent == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a count of messages");
    atomic_init(&unsent->holders, 1);
    *ret_unsent = unsent;
    return PSR_OK;
}

void psr_unsent_free(psr_unsent *unsent)
{
    if (unsent != NULL)
        psr_unsent_left(unsent);
}

void psr_unsent_add(psr_unsent *unsent)
{
    atomic_fetch_add(&unsent->holders, 1);
}

void psr_unsent_left(psr_unsent *unsent)
{
    if (atomic_fetch_sub(&unsent->holders, 1) == 1)
        free(unsent);
}

size_t psr_unsent_count(const psr_unsent *unsent)
{
    return atomic_load(&unsent->holders) - 1;
}
