/* fold: every rank sends its values to worker 0 (GATHER), which adds them slice by slice in ascending order
 * of rank, whatever order they arrive in, and sends each finished slice to all (SPREAD).
 *
 * broadcast: worker 0 sends slices (SPREAD); who has them all answers with an empty GATHER. That answer is
 * what ends it at worker 0: by then the lent bytes have been read.
 *
 * So nobody is ever more than one operation ahead of another: a fold ends by the sum of all, a broadcast at
 * worker 0 by everybody's answer, elsewhere by worker 0's bytes. Messages of the next operation are held
 * until it begins here. */
#include "comm/collective.h"

#include "comm/early.h"
#include "comm/encoding.h"
#include "comm/loan.h"
#include "comm/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum operation { IDLE, FOLD, BROADCAST } operation;

struct psr_collective {
    uint32_t rank, ranks;
    size_t slice_bytes, bytes_max;
    psr_outbox outbox;
    uint64_t number; /* of the operation begun last; 0: none yet */
    operation doing; /* IDLE: it is complete here */
    uint8_t *bytes;  /* the caller's */
    size_t size;     /* in bytes; a fold's are doubles */
    size_t slice;    /* bytes of a whole slice of this operation */
    size_t arrived;  /* elsewhere than at worker 0: bytes received */
    /* Worker 0: */
    size_t *from;          /* [rank]: bytes of the fold received; of a broadcast 1: answered */
    psr_message **waiting; /* [slice][rank]: a fold's slices that came before those of lower ranks */
    uint32_t *next_rank;   /* [slice]: the rank that is to be added next */
    size_t slices_done;
    psr_early *early; /* of the next operation */
};

static size_t slice_count(const psr_collective *c)
{
    return (c->size + c->slice - 1) / c->slice;
}

static size_t slice_size(const psr_collective *c, size_t k)
{
    return c->size - k * c->slice < c->slice ? c->size - k * c->slice : c->slice;
}

/* ---- sending ---- */

static psr_err send(psr_collective *c, uint32_t to, const psr_head *head, const psr_payload *payload)
{
    return c->outbox.send(c->outbox.context, (psr_peer){PSR_ROLE_WORKER, to}, head, payload);
}

static psr_err spread(psr_collective *c, size_t k, bool lend)
{
    psr_span bytes = {k * c->slice, slice_size(c, k)};
    psr_head head = psr_msg_spread_head(&(psr_msg_spread){c->number, bytes});
    psr_payload payload = psr_encode(PSR_ENCODING_BYTES, c->bytes + bytes.offset, bytes.count);
    if (lend) /* a broadcast's bytes, which stand until everybody has answered */
        payload = psr_loan_payload(NULL, payload);
    for (uint32_t r = 1; r < c->ranks; r++)
        PSR_TRY(send(c, r, &head, &payload));
    return PSR_OK;
}

/* Slice k of a fold's values, in doubles. */
static psr_span doubles_of(const psr_collective *c, size_t k)
{
    return (psr_span){k * c->slice / sizeof(double), slice_size(c, k) / sizeof(double)};
}

static psr_err send_to_be_folded(psr_collective *c, size_t k)
{
    psr_span doubles = doubles_of(c, k);
    psr_head head = psr_msg_gather_head(&(psr_msg_gather){c->number, doubles});
    psr_payload payload = psr_encode(PSR_ENCODING_FLOAT64, c->bytes + k * c->slice, doubles.count);
    return send(c, 0, &head, &payload);
}

/* ---- worker 0 ---- */

static void forget_gathered(psr_collective *c)
{
    if (c->waiting != NULL)
        for (size_t i = 0; i < slice_count(c) * c->ranks; i++)
            psr_message_free(&c->waiting[i]);
    free(c->waiting);
    free(c->next_rank);
    c->waiting = NULL;
    c->next_rank = NULL;
}

static void finish(psr_collective *c)
{
    forget_gathered(c);
    c->doing = IDLE;
    c->bytes = NULL;
}

static psr_err add(psr_collective *c, size_t k, const psr_message *message)
{
    double *sum = (double *)(void *)(c->bytes + k * c->slice);
    size_t count = doubles_of(c, k).count;
    const double *values;
    PSR_TRY(psr_decode_doubles(message, count, &values));
    for (size_t i = 0; i < count; i++)
        sum[i] += values[i];
    return PSR_OK;
}

/* A slice of the fold: adds what is in its turn, and goes on with those that came too early. */
static psr_err gather(psr_collective *c, psr_message **message, const psr_msg_gather *says)
{
    uint32_t rank = (*message)->from.rank;
    size_t begin = c->from[rank], k = begin / c->slice;
    if (begin == c->size || says->span.offset != doubles_of(c, k).offset ||
        says->span.count != doubles_of(c, k).count)
        return psr_violation(*message, "%zu of %zu doubles of collective %" PRIu64 " came before",
                             begin / sizeof(double), c->size / sizeof(double), c->number);
    const double *values; /* are added in their turn */
    PSR_TRY(psr_decode_doubles(*message, says->span.count, &values));
    c->from[rank] += slice_size(c, k);
    c->waiting[k * c->ranks + rank] = *message;
    *message = NULL;
    for (psr_message **turn; c->next_rank[k] < c->ranks; c->next_rank[k]++) {
        turn = &c->waiting[k * c->ranks + c->next_rank[k]];
        if (*turn == NULL)
            return PSR_OK;
        PSR_TRY(add(c, k, *turn));
        psr_message_free(turn);
    }
    PSR_TRY(spread(c, k, false));
    if (++c->slices_done == slice_count(c))
        finish(c);
    return PSR_OK;
}

static psr_err answered(psr_collective *c, const psr_message *message, const psr_msg_gather *says)
{
    if (message->payload_bytes != 0 || says->span.count != 0 || c->from[message->from.rank] != 0)
        return psr_violation(message,
                             "collective %" PRIu64 " is a broadcast, which is answered once and by nothing",
                             c->number);
    c->from[message->from.rank] = 1;
    if (++c->slices_done == c->ranks - 1)
        finish(c);
    return PSR_OK;
}

/* ---- the others ---- */

static psr_err land(psr_collective *c, const psr_message *message, const psr_msg_spread *says)
{
    size_t begin = c->arrived, k = begin / c->slice;
    if (says->span.offset != begin || says->span.count != slice_size(c, k))
        return psr_violation(message, "%zu of %zu bytes of collective %" PRIu64 " came before", begin,
                             c->size, c->number);
    const void *bytes;
    PSR_TRY(psr_decode_bytes(message, says->span.count, &bytes));
    memcpy(c->bytes + begin, bytes, says->span.count);
    c->arrived += says->span.count;
    if (c->arrived < c->size)
        return PSR_OK;
    operation was = c->doing;
    finish(c);
    if (was == FOLD)
        return PSR_OK;
    psr_head answer = psr_msg_gather_head(&(psr_msg_gather){.number = c->number});
    return send(c, 0, &answer, NULL);
}

/* ---- messages ---- */

static psr_err hold(psr_collective *c, psr_message **message)
{
    if (psr_early_full(c->early))
        return psr_violation(*message, "no collective is as large as what came of it already");
    psr_early_put(c->early, 0, message);
    return PSR_OK;
}

/* What a message is about is this operation, or one of a rank that is ahead. */
static psr_err check_number(const psr_collective *c, const psr_message *message, uint64_t number,
                            bool *ret_ahead)
{
    uint64_t next = c->number + 1;
    *ret_ahead = number == next;
    if (number == next || (number == c->number && c->doing != IDLE))
        return PSR_OK;
    return psr_violation(message, "collective %" PRIu64 " while %" PRIu64 " is in work or was the last",
                         number, c->number);
}

static psr_err take_gather(psr_collective *c, psr_message **message)
{
    psr_msg_gather says;
    bool ahead;
    PSR_TRY(psr_msg_gather_read(*message, &says));
    PSR_TRY(check_number(c, *message, says.number, &ahead));
    if (ahead)
        return hold(c, message);
    return c->doing == FOLD ? gather(c, message, &says) : answered(c, *message, &says);
}

static psr_err take_spread(psr_collective *c, psr_message **message)
{
    psr_msg_spread says;
    bool ahead;
    PSR_TRY(psr_msg_spread_read(*message, &says));
    PSR_TRY(check_number(c, *message, says.number, &ahead));
    return ahead ? hold(c, message) : land(c, *message, &says);
}

static psr_err take(psr_collective *c, psr_message **message)
{
    psr_message_type type = (*message)->head.type;
    psr_peer from = (*message)->from;
    bool right_way = from.role == PSR_ROLE_WORKER && from.rank != c->rank && from.rank < c->ranks &&
                     (c->rank == 0 ? type == PSR_MSG_GATHER : type == PSR_MSG_SPREAD && from.rank == 0);
    if (!right_way)
        return psr_violation(*message, "worker %" PRIu32 " of %" PRIu32 " does not hear that from there",
                             c->rank, c->ranks);
    return type == PSR_MSG_GATHER ? take_gather(c, message) : take_spread(c, message);
}

psr_err psr_collective_message(psr_collective *collective, psr_message **message)
{
    psr_err err = take(collective, message);
    psr_message_free(message);
    return err;
}

/* What came before the operation began. */
static psr_err take_early(psr_collective *c)
{
    psr_err err = PSR_OK;
    for (psr_message *message; err == PSR_OK && (message = psr_early_take(c->early, 0)) != NULL;) {
        err = take(c, &message);
        psr_message_free(&message);
    }
    return err;
}

/* ---- operations ---- */

static void begin(psr_collective *c, operation doing, void *bytes, size_t size, size_t unit)
{
    assert(c->doing == IDLE && size <= c->bytes_max);
    c->number++;
    c->doing = doing;
    c->bytes = bytes;
    c->size = size;
    c->slice = c->slice_bytes / unit * unit;
    c->arrived = 0;
    c->slices_done = 0;
    memset(c->from, 0, c->ranks * sizeof *c->from);
}

static psr_err prepare_gathering(psr_collective *c)
{
    c->waiting = calloc(slice_count(c) * c->ranks, sizeof *c->waiting);
    c->next_rank = malloc(slice_count(c) * sizeof *c->next_rank);
    if (c->waiting == NULL || c->next_rank == NULL) {
        finish(c);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a sum over %" PRIu32 " workers", c->ranks);
    }
    for (size_t k = 0; k < slice_count(c); k++)
        c->next_rank[k] = 1; /* rank 0's values are in place */
    return PSR_OK;
}

psr_err psr_collective_fold(psr_collective *collective, double *values, size_t count)
{
    if (count == 0 || collective->ranks == 1) /* everywhere alike: it takes no number */
        return PSR_OK;
    begin(collective, FOLD, values, count * sizeof(double), sizeof(double));
    if (collective->rank == 0)
        PSR_TRY(prepare_gathering(collective));
    else
        for (size_t k = 0; k < slice_count(collective); k++)
            PSR_TRY(send_to_be_folded(collective, k));
    return take_early(collective);
}

psr_err psr_collective_broadcast(psr_collective *collective, void *bytes, size_t size)
{
    if (size == 0 || collective->ranks == 1)
        return PSR_OK;
    begin(collective, BROADCAST, bytes, size, 1);
    if (collective->rank == 0)
        for (size_t k = 0; k < slice_count(collective); k++)
            PSR_TRY(spread(collective, k, true));
    return take_early(collective);
}

bool psr_collective_finished(const psr_collective *collective)
{
    return collective->doing == IDLE;
}

uint32_t psr_collective_waits(const psr_collective *collective)
{
    if (collective->rank != 0 || collective->doing == IDLE)
        return 0;
    size_t whole = collective->doing == FOLD ? collective->size : 1;
    uint32_t rank = 1;
    while (rank < collective->ranks - 1 && collective->from[rank] == whole)
        rank++;
    return rank;
}

/* ---- beginning and end ---- */

psr_err psr_collective_new(uint32_t rank, uint32_t ranks, size_t slice_bytes, size_t bytes_max,
                           psr_outbox outbox, psr_collective **ret_collective)
{
    assert(rank < ranks && slice_bytes >= sizeof(double));
    psr_early *early = NULL;
    size_t slices_max = bytes_max / (slice_bytes / sizeof(double) * sizeof(double)) + 1;
    PSR_TRY(psr_early_new(1, slices_max * (ranks - 1), &early));
    psr_collective *c = calloc(1, sizeof *c);
    size_t *from = calloc(ranks, sizeof *from);
    if (c == NULL || from == NULL) {
        psr_early_free(early);
        free(c);
        free(from);
        return psr_fail(PSR_ERR_NOMEM, "no memory for collectives of %" PRIu32 " workers", ranks);
    }
    *c = (psr_collective){
        .rank = rank,
        .ranks = ranks,
        .slice_bytes = slice_bytes,
        .bytes_max = bytes_max,
        .outbox = outbox,
        .from = from,
        .early = early,
    };
    *ret_collective = c;
    return PSR_OK;
}

void psr_collective_free(psr_collective *collective)
{
    if (collective == NULL)
        return;
    forget_gathered(collective);
    psr_early_free(collective->early);
    free(collective->from);
    free(collective);
}
