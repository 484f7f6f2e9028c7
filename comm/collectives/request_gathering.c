/* Operations that gather (comm/collectives/algorithms/gathered.c): each rank folds its own chunk
 * where the others' values lie, when all have sent their slice.
 *
 * Who decides what goes next. If each rank sent by its own lane what is most urgent to it, two
 * ranks could fill their windows with slices of two requests, and each would wait for the other's.
 * So the rank that folds a slice asks for it, by a CREDIT to all others, and they send what they
 * are asked for. Its lane decides for which request it asks next (request_lane.h); a slice is on
 * its way from then until it is folded. The first slice of each request is sent without having been
 * asked for, or when a rank hears that the other has begun; more are asked for when it has been
 * folded, since then all ranks have begun. No credit is needed for sums: who receives one has sent
 * what is in it. */
#include "comm/collectives/group_private.h"

#include "base/arrays/fold.h"
#include "base/arrays/stream.h"
#include "comm/wire/encoding.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- beginning ---- */

psr_err psr_group_make_fold(psr_group *group)
{
    if (group->fold != NULL)
        return PSR_OK;
    const uint32_t n = group->options.ranks;
    psr_group_fold *fold = calloc(1, sizeof *fold);
    if (fold != NULL) {
        fold->messages = malloc(n * sizeof *fold->messages);
        fold->values = malloc(n * sizeof *fold->values);
    }
    if (fold == NULL || fold->messages == NULL || fold->values == NULL) {
        psr_group_free_fold(&fold);
        return psr_fail(PSR_ERR_NOMEM, "no memory to fold the values of %" PRIu32 " ranks", n);
    }
    group->fold = fold;
    return PSR_OK;
}

void psr_group_free_fold(psr_group_fold **fold)
{
    if (*fold == NULL)
        return;
    free((*fold)->messages);
    free((*fold)->values);
    free(*fold);
    *fold = NULL;
}

void psr_request_make_gathering(psr_request *r)
{
    for (uint32_t i = 0; i < r->out_count; i++)
        r->out[i].by_credit = !r->schedule.actions[r->out[i].actions[0]].result;
    for (uint32_t i = 0; i < r->in_count; i++)
        r->in[i].by_credit = r->schedule.actions[r->in[i].actions[0]].kind == PSR_ACTION_HOLD;
}

/* A HOLD, all of which have as many slices. NULL: this rank's chunk is empty. */
static const psr_stream *any_hold(const psr_request *r)
{
    return r->in_count > 0 && r->in[0].by_credit ? &r->in[0] : NULL;
}

uint64_t psr_request_first_credit(const psr_request *r)
{
    return r->schedule.gathers ? 1 : r->group->options.window;
}

static void begin_streams(psr_stream *streams, uint32_t count, uint64_t allowed)
{
    for (uint32_t i = 0; i < count; i++)
        streams[i].allowed = streams[i].by_credit ? allowed : UINT64_MAX;
}

void psr_request_begin_gathering(psr_request *r)
{
    const bool unasked = r->tag.slot == 0 || r->group->options.starts_all;
    const uint64_t allowed = unasked ? psr_request_first_credit(r) : 0;
    begin_streams(r->out, r->out_count, allowed);
    begin_streams(r->in, r->in_count, allowed);
    r->asked_slices = any_hold(r) != NULL ? psr_request_first_credit(r) : 0;
    r->on_its_way = (uint32_t)r->asked_slices;
    r->group->lane.on_their_way += r->asked_slices;
}

/* ---- asking ---- */

bool psr_request_may_ask(const psr_request *r)
{
    const psr_stream *hold = any_hold(r);
    return r->active && r->begun_by_all && hold != NULL && r->asked_slices < hold->total_slices;
}

psr_err psr_request_ask(psr_request *r, uint32_t *ret_slices)
{
    const uint64_t left = r->in[0].total_slices - r->asked_slices;
    const uint32_t half = (r->group->options.window + 1) / 2;
    const uint32_t slices = left < half ? (uint32_t)left : half;
    r->asked_slices += slices;
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i].by_credit)
            PSR_TRY(psr_request_grant(r, &r->in[i], r->asked_slices));
    *ret_slices = slices;
    return PSR_OK;
}

psr_err psr_request_asked_for(psr_request *r, psr_stream *out, const psr_msg_credit *says,
                              const psr_message *message)
{
    if (!out->by_credit)
        return psr_violation(message, "rank %" PRIu32 " has no values of its own for it",
                             psr_group_name(r->group, r->group->options.rank));
    if (says->slices <= out->allowed || says->slices > out->total_slices)
        return psr_violation(message, "of %" PRIu64 " slices %" PRIu64 " were allowed",
                             out->total_slices, out->allowed);
    out->allowed = says->slices;
    return psr_request_advance(r);
}

/* ---- folding ---- */

psr_err psr_request_hold(psr_request *r, psr_stream *in, psr_message **message)
{
    const size_t before = in->arrived * r->slice_values,
                 left = r->schedule.actions[in->actions[0]].count - before;
    const void *values; /* looked at later, and checked now, when it is known who has sent it */
    if (in->arrived >= in->allowed)
        return psr_violation(*message, "it had credit for %" PRIu64 " slices", in->allowed);
    PSR_TRY(psr_decode_bytes(
        *message, (left < r->slice_values ? left : r->slice_values) * r->value_bytes, &values));
    in->arrived++;
    psr_early_put(r->early, (uint32_t)(in - r->in), message);
    return psr_request_advance(r);
}

bool psr_request_all_held(const psr_request *r)
{
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i].by_credit && !psr_early_any(r->early, i))
            return false;
    return true;
}

/* Folds x[0] op x[1] op .. in blocks that stay in the cache. The last one is this rank's own, and
 * may be in out's place. */
static void fold_blocks(const psr_request *r, const uint8_t *const *x, uint8_t *out, size_t count)
{
    uint8_t *const block = r->group->fold->block;
    const uint32_t n = r->group->options.ranks;
    const size_t most = PSR_GROUP_FOLD_BYTES / r->value_bytes;
    const bool finishes = r->own.fold == NULL && psr_reduction_finishes(r->call.reduction),
               past_caches = r->past_caches && x[n - 1] != out;
    for (size_t done = 0; done < count;) {
        const size_t values = count - done < most ? count - done : most, at = done * r->value_bytes;
        uint8_t *const last = past_caches ? block : out + at;
        const uint8_t *sum = x[0] + at;
        for (uint32_t p = 1; p < n; p++) {
            uint8_t *to = p + 1 < n ? block : last;
            psr_request_fold(r, to, sum, x[p] + at, values);
            sum = to;
        }
        if (finishes)
            psr_reduce_finish(r->call.type, r->call.reduction, last, values, n);
        if (past_caches)
            psr_stream_bytes(out + at, block, values * r->value_bytes);
        done += values;
    }
}

psr_err psr_request_fold_held(psr_request *r, uint32_t index, size_t count)
{
    const psr_action *action = &r->schedule.actions[index];
    const uint32_t n = r->group->options.ranks, rank = r->group->options.rank;
    const size_t at = r->done[index] * r->value_bytes;
    psr_group_fold *f = r->group->fold;
    psr_err err = PSR_OK;
    for (uint32_t p = 0; p + 1 < n; p++) {
        psr_stream *in = psr_request_in(r, psr_fold_rank_at(n, rank, p));
        const void *values = NULL;
        f->messages[p] = psr_early_take(r->early, (uint32_t)(in - r->in));
        if (err == PSR_OK)
            err = psr_decode_bytes(f->messages[p], count * r->value_bytes, &values);
        f->values[p] = values;
        in->slices++;
        psr_request_slice_done(r, in, count);
    }
    f->values[n - 1] = r->areas[action->a.area].read + action->a.offset * r->value_bytes + at;
    if (err == PSR_OK)
        fold_blocks(r, f->values,
                    r->areas[action->to.area].write + action->to.offset * r->value_bytes + at,
                    count);
    for (uint32_t p = 0; p + 1 < n; p++)
        psr_message_free(&f->messages[p]);
    psr_request_see_return(r);
    return err;
}

/* ---- what others ask ---- */

static bool is_whole(const psr_stream *s)
{
    return s->head >= s->count;
}

/* Who has not begun; else who has not sent what it was asked for; else whose sum has not come; else
 * who has not asked for what is left. With none of them it is this rank's lane that it waits for,
 * and some other rank whose values are to come. */
uint32_t psr_request_gathering_waits_for(const psr_request *r)
{
    for (uint32_t i = 0; i < r->out_count; i++)
        if (!is_whole(&r->out[i]) && r->out[i].allowed == 0)
            return r->out[i].peer;
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i].by_credit && !is_whole(&r->in[i]) && r->in[i].arrived < r->in[i].allowed &&
            !psr_early_any(r->early, i))
            return r->in[i].peer;
    for (uint32_t i = 0; i < r->in_count; i++)
        if (!r->in[i].by_credit && !is_whole(&r->in[i]))
            return r->in[i].peer;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (!is_whole(&r->out[i]))
            return r->out[i].peer;
    return r->in_count > 0 ? r->in[0].peer : r->out[0].peer;
}
