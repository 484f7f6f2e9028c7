/* Folds that the program defines. */
#include "comm/psring/internal.h"

#include <string.h>

_Static_assert(PSR_REDUCTION_OWN > PSRING_MAXLOC,
               "an op of the program's is none of the library's");

/* context: a psr_defined_fold. */
static void call_fold(void *context, void *out, const void *a, const void *b, size_t count,
                      int type)
{
    const psring_fold *f = &((const psr_defined_fold *)context)->fold;
    f->fold(f->context, out, a, b, count, (psring_type)type);
}

/* NULL: there is none of that number. */
static psr_defined_fold *find(psring_comm *comm, psring_op op)
{
    unsigned number = (unsigned)op - PSR_REDUCTION_OWN;
    if ((unsigned)op < PSR_REDUCTION_OWN || number >= PSR_REDUCTIONS_OWN ||
        comm->folds[number].fold.fold == NULL)
        return NULL;
    return &comm->folds[number];
}

psr_err psr_comm_own_fold(psring_comm *comm, psring_op op, psring_type type,
                          psr_request_options *options, psr_defined_fold **ret_fold)
{
    psr_defined_fold *d = find(comm, op);
    if (d == NULL)
        return psr_fail(PSR_ERR_USAGE, "%s: there is no operation %d", psr_kind_name(options->kind),
                        (int)op);
    options->own = (psr_own_fold){
        .fold = call_fold, .context = d, .type = (int)type, .in_order = !d->fold.commutative};
    *ret_fold = d;
    return PSR_OK;
}

/* The lowest number that is free, so that ranks that make and free folds in the same order get the
 * same numbers. */
static psr_err make(psring_comm *comm, const psring_fold *given, psring_op *ret_op)
{
    psring_fold fold;
    PSR_TRY(psr_options_read("psring_fold", given, sizeof *given, &fold, sizeof fold));
    if (fold.fold == NULL)
        return psr_fail(PSR_ERR_USAGE, "psring_op_make: fold is NULL");
    for (unsigned i = 0; i < PSR_REDUCTIONS_OWN; i++) {
        if (comm->folds[i].fold.fold != NULL)
            continue;
        comm->folds[i] = (psr_defined_fold){.fold = fold};
        *ret_op = (psring_op)(PSR_REDUCTION_OWN + i);
        return PSR_OK;
    }
    return psr_fail(PSR_ERR_UNSUPPORTED, "there are %u folds of the program's already",
                    PSR_REDUCTIONS_OWN);
}

static psr_err release(psring_comm *comm, psring_op op)
{
    psr_defined_fold *d = find(comm, op);
    if (d == NULL)
        return psr_fail(PSR_ERR_USAGE, "psring_op_free: there is no operation %d", (int)op);
    if (d->users > 0)
        return psr_fail(PSR_ERR_BUSY, "psring_op_free: %zu requests that use it are not freed",
                        d->users);
    *d = (psr_defined_fold){0};
    return PSR_OK;
}

psring_err psring_op_make(psring_comm *comm, const psring_fold *fold, psring_op *ret_op)
{
    psr_err err = psr_comm_need(comm, "psring_op_make: comm");
    if (err == PSR_OK)
        err = psr_comm_need(fold, "psring_op_make: fold");
    if (err == PSR_OK)
        err = psr_comm_need(ret_op, "psring_op_make: ret_op");
    if (err == PSR_OK)
        err = psr_comm_enter(comm);
    return err == PSR_OK ? psr_comm_leave(comm, make(comm, fold, ret_op)) : (psring_err)err;
}

psring_err psring_op_free(psring_comm *comm, psring_op op)
{
    psr_err err = psr_comm_need(comm, "psring_op_free: comm");
    if (err == PSR_OK)
        err = psr_comm_enter(comm);
    return err == PSR_OK ? psr_comm_leave(comm, release(comm, op)) : (psring_err)err;
}
