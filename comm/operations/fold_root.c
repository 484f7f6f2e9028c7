/* The all-reduce "root": every rank sends its values to worker 0 (GATHER), which adds them slice by slice in ascending
 * order of rank, whatever order they arrive in, and sends each finished slice to all (SPREAD). */
#include "comm/operations/collective_private.h"

#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct fold {
    psr_operation base;
    const psr_collective_env *env;
    psr_sliced values;
    uint64_t round;
    bool active;
    /* Worker 0: */
    psr_message **waiting; /* [slice][rank]: slices that came before those of lower ranks */
    uint32_t *next_rank;   /* [slice]: the rank that is to be added next */
    size_t slices_done;
    size_t from[]; /* [rank]: bytes received */
} fold;

static void finish(fold *f)
{
    if (f->waiting != NULL)
        for (size_t i = 0; i < psr_sliced_count(&f->values) * f->env->ranks; i++)
            psr_message_free(&f->waiting[i]);
    free(f->waiting);
    free(f->next_rank);
    f->waiting = NULL;
    f->next_rank = NULL;
    f->active = false;
}

/* Slice k, in doubles. */
static psr_span doubles_of(const fold *f, size_t k)
{
    psr_span bytes = psr_sliced_bytes(&f->values, k);
    return (psr_span){bytes.offset / sizeof(double), bytes.count / sizeof(double)};
}

static double *values_of(const fold *f, size_t k)
{
    return (double *)(void *)(f->values.bytes + k * f->values.slice);
}

/* ---- worker 0 ---- */

static psr_err prepare_gathering(fold *f)
{
    size_t slices = psr_sliced_count(&f->values);
    f->slices_done = 0;
    memset(f->from, 0, f->env->ranks * sizeof *f->from);
    f->waiting = calloc(slices * f->env->ranks, sizeof *f->waiting);
    f->next_rank = malloc(slices * sizeof *f->next_rank);
    if (f->waiting == NULL || f->next_rank == NULL) {
        finish(f);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a sum over %" PRIu32 " workers", f->env->ranks);
    }
    for (size_t k = 0; k < slices; k++)
        f->next_rank[k] = 1; /* rank 0's values are in place */
    return PSR_OK;
}

static psr_err add(fold *f, size_t k, const psr_message *message)
{
    double *sum = values_of(f, k);
    size_t count = doubles_of(f, k).count;
    const double *values;
    PSR_TRY(psr_decode_doubles(message, count, &values));
    for (size_t i = 0; i < count; i++)
        sum[i] += values[i];
    return PSR_OK;
}

/* Adds what is in its turn, and goes on with those that came too early. */
static psr_err gather(fold *f, psr_message **message)
{
    psr_msg_gather says;
    PSR_TRY(psr_msg_gather_read(*message, &says));
    uint32_t rank = (*message)->from.rank, ranks = f->env->ranks;
    size_t begin = f->from[rank], k = begin / f->values.slice;
    if (begin == f->values.size || says.span.offset != doubles_of(f, k).offset ||
        says.span.count != doubles_of(f, k).count)
        return psr_violation(*message, "%zu of %zu doubles of collective %" PRIu64 " came before",
                             begin / sizeof(double), f->values.size / sizeof(double), f->round);
    const double *values; /* are added in their turn */
    PSR_TRY(psr_decode_doubles(*message, says.span.count, &values));
    f->from[rank] += says.span.count * sizeof(double);
    f->waiting[k * ranks + rank] = *message;
    *message = NULL;
    for (; f->next_rank[k] < ranks; f->next_rank[k]++) {
        psr_message **turn = &f->waiting[k * ranks + f->next_rank[k]];
        if (*turn == NULL)
            return PSR_OK;
        PSR_TRY(add(f, k, *turn));
        psr_message_free(turn);
    }
    PSR_TRY(psr_sliced_spread(f->env, &f->values, f->round, k, false));
    if (++f->slices_done == psr_sliced_count(&f->values))
        finish(f);
    return PSR_OK;
}

/* ---- the others ---- */

static psr_err send_to_be_folded(const fold *f, size_t k)
{
    psr_span doubles = doubles_of(f, k);
    psr_head head = psr_msg_gather_head(&(psr_msg_gather){f->round, doubles});
    psr_payload payload = psr_encode(&head, PSR_ENCODING_FLOAT64, values_of(f, k), doubles.count);
    return f->env->outbox.send(f->env->outbox.context, (psr_peer){PSR_ROLE_WORKER, 0}, &head, &payload);
}

static psr_err take_sum(fold *f, psr_message **message)
{
    bool whole = false;
    PSR_TRY(psr_sliced_land(&f->values, f->round, message, &whole));
    if (whole)
        finish(f);
    return PSR_OK;
}

/* ---- the operation ---- */

static psr_err fold_start(psr_operation *operation, uint64_t round, const psr_buffer *buffer)
{
    fold *f = (fold *)operation;
    f->values = psr_sliced_of(f->env, buffer, PSR_TYPE_FLOAT64);
    f->round = round;
    f->active = true;
    if (f->env->rank == 0)
        return prepare_gathering(f);
    for (size_t k = 0; k < psr_sliced_count(&f->values); k++)
        PSR_TRY(send_to_be_folded(f, k));
    return PSR_OK;
}

static psr_err fold_message(psr_operation *operation, psr_message **message)
{
    fold *f = (fold *)operation;
    psr_err err = f->env->rank == 0 ? gather(f, message) : take_sum(f, message);
    psr_message_free(message);
    return err;
}

static bool fold_done(const psr_operation *operation)
{
    return !((const fold *)operation)->active;
}

static bool fold_waits(const psr_operation *operation, psr_waiting *ret_waiting)
{
    const fold *f = (const fold *)operation;
    uint32_t rank = f->env->rank == 0 ? 1 : 0;
    while (rank > 0 && rank < f->env->ranks - 1 && f->from[rank] == f->values.size)
        rank++;
    *ret_waiting = (psr_waiting){{PSR_ROLE_WORKER, rank}, f->round};
    return f->active;
}

static const psr_operation_ops fold_ops = {
    .name = "fold, root",
    .start = fold_start,
    .message = fold_message,
    .done = fold_done,
    .waits = fold_waits,
};

psr_err psr_fold_root_new(const psr_collective_env *env, psr_operation **ret_operation)
{
    fold *f = calloc(1, sizeof *f + env->ranks * sizeof f->from[0]);
    if (f == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a fold of %" PRIu32 " workers", env->ranks);
    f->base.ops = &fold_ops;
    f->env = env;
    *ret_operation = &f->base;
    return PSR_OK;
}

void psr_fold_root_free(psr_operation *operation)
{
    if (operation != NULL)
        finish((fold *)operation);
    free(operation);
}
