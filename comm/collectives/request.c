/* Carries out the schedule of an operation. Its actions are divided into streams: what goes to one
 * rank, what comes from one rank, what this rank does alone. A stream is done in order, so only the
 * next slice of its first incomplete action can be done. psr_request_advance looks at each stream
 * until nothing more can be done. */
#include "comm/collectives/group_private.h"

#include "base/arrays/stream.h"
#include "comm/pair.h"
#include "comm/wire/encoding.h"
#include "net/violation.h"

#include <inttypes.h>
#include <string.h>

psr_stream *psr_request_out(const psr_request *request, uint32_t rank)
{
    return request->out_of[rank] > 0 ? &request->out[request->out_of[rank] - 1] : NULL;
}

psr_stream *psr_request_in(const psr_request *request, uint32_t rank)
{
    return request->in_of[rank] > 0 ? &request->in[request->in_of[rank] - 1] : NULL;
}

/* ---- memory ---- */

/* The values of a slice. If they are not dense they are gathered in memory. */
static const uint8_t *values_at(const psr_request *r, psr_area_place place, size_t done,
                                size_t count, uint8_t *memory)
{
    const psr_request_area *area = &r->areas[place.area];
    if (!area->scattered)
        return area->read + (place.offset + done) * r->value_bytes;
    psr_block_read(&area->block, r->value_bytes, place.offset + done, count, memory);
    return memory;
}

/* Where to compute the values of a slice: in place, or in memory. */
static uint8_t *room_at(const psr_request *r, psr_area_place place, size_t done, uint8_t *memory)
{
    const psr_request_area *area = &r->areas[place.area];
    return area->scattered ? memory : area->write + (place.offset + done) * r->value_bytes;
}

static void put(const psr_request *r, psr_area_place place, size_t done, size_t count,
                const void *values)
{
    const psr_request_area *area = &r->areas[place.area];
    if (area->scattered) {
        psr_block_write(&area->block, r->value_bytes, place.offset + done, count, values);
        return;
    }
    uint8_t *to = area->write + (place.offset + done) * r->value_bytes;
    if (to == values) /* in place nothing is copied */
        return;
    if (r->past_caches)
        psr_stream_bytes(to, values, count * r->value_bytes);
    else
        memcpy(to, values, count * r->value_bytes);
}

/* ---- what may happen ---- */

/* Where an action works, for the actions that come after it. */
static psr_area_place place_of(const psr_action *action)
{
    return action->kind == PSR_ACTION_SEND ? action->a : action->to;
}

bool psr_request_may_go(const psr_request *r, uint32_t index)
{
    const psr_action *action = &r->schedule.actions[index];
    if (action->kind == PSR_ACTION_FOLD_HELD)
        return psr_request_all_held(r);
    if (action->after == PSR_AT_ONCE)
        return true;
    if (action->after == PSR_AFTER_ALL)
        return r->complete_before >= index;
    uint32_t before = action->after - 1;
    if (r->complete[before])
        return true;
    psr_area_place mine = place_of(action), other = place_of(&r->schedule.actions[before]);
    if (mine.area != other.area &&
        (action->kind == PSR_ACTION_COPY || action->kind == PSR_ACTION_FOLD))
        mine = action->a;
    return mine.area == other.area &&
           other.offset + r->done[before] >= mine.offset + r->done[index] +
                                                 (action->kind == PSR_ACTION_SEND
                                                      ? psr_request_unit(r, index)
                                                      : psr_request_next_slice(r, index));
}

void psr_request_slice_done(psr_request *r, psr_stream *stream, size_t count)
{
    uint32_t index = stream->actions[stream->head];
    r->done[index] += count;
    if (r->done[index] < r->schedule.actions[index].count)
        return;
    r->complete[index] = true;
    stream->head++;
    while (r->complete_before < r->schedule.count && r->complete[r->complete_before])
        r->complete_before++;
}

/* ---- sending ---- */

psr_err psr_request_send(const psr_request *r, const psr_stream *stream, const psr_head *head,
                         const psr_payload *payload)
{
    const psr_outbox *outbox = &r->group->options.outbox;
    return outbox->send(outbox->context, r->group->peers[stream->peer].name, head, payload);
}

/* An operation that only sends is done when all of it has been copied, and may begin again. Towards
 * a rank that does not read, nothing more is copied then, so that the call waits for that rank. */
static bool much_waits(const psr_request *r, const psr_stream *stream)
{
    const psr_outbox *outbox = &r->group->options.outbox;
    return outbox->waiting != NULL &&
           outbox->waiting(outbox->context, r->group->peers[stream->peer].name) >=
               PSR_COPIES_WAITING;
}

/* The head of the stream's next slice. */
psr_head psr_request_head(const psr_request *r, const psr_stream *stream)
{
    return psr_msg_values_head(&(psr_msg_values){.tag = r->tag,
                                                 .call = r->says,
                                                 .total = stream->total_values,
                                                 .slice = stream->first_slice + stream->slices,
                                                 .before = r->before});
}

psr_err psr_request_send_slice(psr_request *r, psr_stream *stream, uint32_t index, size_t count)
{
    const psr_action *action = &r->schedule.actions[index];
    psr_head head = psr_request_head(r, stream);
    if (count == 0)
        return psr_request_send(r, stream, &head, NULL);
    const uint8_t *values = values_at(r, action->a, r->done[index], count, r->slices[0]);
    const bool gaps = psr_type_has_gaps(r->call.type);
    if (gaps) {
        psr_pair_copy(r->call.type, r->slices[0], values, count);
        values = r->slices[0];
    }
    psr_payload payload = psr_encode(&head, PSR_ENCODING_BYTES, values, count * r->value_bytes);
    if (action->lent && !gaps && !r->areas[action->a.area].scattered &&
        (payload.bytes > r->group->options.copied_bytes || much_waits(r, stream))) {
        psr_loan_begin(&stream->loan, 1);
        payload = psr_loan_payload(&stream->loan, payload);
    }
    return psr_request_send(r, stream, &head, &payload);
}

static bool may_send(const psr_request *r, const psr_stream *s)
{
    return s->head < s->count && s->slices < s->allowed &&
           (r->tag.slot > 0 || s->ordinal < r->group->peers[s->peer].allowed_operations) &&
           psr_request_may_go(r, s->actions[s->head]);
}

/* The lane sends what is injected, and what is passed on unchanged is sent when it comes. */
static bool goes_by_itself(const psr_request *r, const psr_stream *s)
{
    const psr_action *action = &r->schedule.actions[s->actions[0]];
    return !r->schedule.overtaking ||
           (s != r->injection && !(action->onward && r->encoder != NULL));
}

static psr_err advance_out(psr_request *r, psr_stream *s, bool *moved)
{
    for (; goes_by_itself(r, s) && may_send(r, s); *moved = true) {
        uint32_t index = s->actions[s->head], slices;
        if (r->encoder != NULL) {
            PSR_TRY(psr_request_send_unit(r, s, &slices));
            continue;
        }
        size_t count = psr_request_next_slice(r, index);
        PSR_TRY(psr_request_send_slice(r, s, index, count));
        s->slices++;
        psr_request_slice_done(r, s, count);
    }
    return PSR_OK;
}

/* ---- taking in ---- */

psr_err psr_request_grant(psr_request *r, psr_stream *in, uint64_t slices)
{
    in->allowed = slices;
    psr_head head =
        psr_msg_credit_head(&(psr_msg_credit){.tag = r->tag, .call = r->says, .slices = slices});
    return psr_request_send(r, in, &head, NULL);
}

/* Grants half a window at a time, and no more than the sender still needs. */
static psr_err grant_more(psr_request *r, psr_stream *in)
{
    uint32_t window = r->group->options.window;
    uint64_t may = in->slices + window;
    if (in->allowed >= in->total_slices || may - in->allowed < (window + 1) / 2)
        return PSR_OK;
    return psr_request_grant(r, in, may);
}

void psr_request_fold(const psr_request *r, void *out, const void *a, const void *b, size_t count)
{
    if (r->own.fold != NULL)
        r->own.fold(r->own.context, out, a, b, count, r->own.type);
    else
        psr_reduce(r->call.type, r->call.reduction, out, a, b, count);
}

psr_err psr_request_take_in(psr_request *r, const psr_stream *s, const psr_message *message)
{
    uint32_t index = s->actions[s->head];
    const psr_action *action = &r->schedule.actions[index];
    size_t count = psr_request_next_slice(r, index), done = r->done[index];
    const void *values;
    PSR_TRY(psr_decode_bytes(message, count * r->value_bytes, &values));
    if (count == 0)
        return PSR_OK;
    if (action->kind == PSR_ACTION_RECEIVE_FOLD) {
        const uint8_t *own = values_at(r, action->a, done, count, r->slices[0]);
        uint8_t *room = room_at(r, action->to, done, r->slices[1]);
        bool is_behind = r->own.in_order && s->peer > r->group->options.rank;
        psr_request_fold(r, room, is_behind ? own : values, is_behind ? values : own, count);
        values = room;
    }
    put(r, action->to, done, count, values);
    return PSR_OK;
}

static psr_err advance_in(psr_request *r, uint32_t number, bool *moved)
{
    psr_stream *s = &r->in[number];
    if (r->schedule.gathers)
        return PSR_OK; /* sums are taken when they come, and FOLD_HELD takes the others */
    for (; psr_early_any(r->early, number) && psr_request_may_go(r, s->actions[s->head]);
         *moved = true) {
        psr_message *message = psr_early_take(r->early, number);
        psr_err err = psr_request_take_in(r, s, message);
        psr_message_free(&message);
        if (err != PSR_OK)
            return err;
        s->slices++;
        psr_request_slice_done(r, s, psr_request_next_slice(r, s->actions[s->head]));
        PSR_TRY(grant_more(r, s));
    }
    return PSR_OK;
}

/* ---- what this rank does alone ---- */

static psr_err act(const psr_request *r, uint32_t index, size_t count)
{
    const psr_action *action = &r->schedule.actions[index];
    size_t done = r->done[index];
    if (action->kind == PSR_ACTION_ROUND)
        return psr_request_round(r, action);
    uint8_t *room = room_at(r, action->to, done, r->slices[1]);
    if (action->kind == PSR_ACTION_FINISH) { /* never for a block */
        psr_reduce_finish(r->call.type, r->call.reduction, room, count, r->group->options.ranks);
        return PSR_OK;
    }
    const uint8_t *values = values_at(r, action->a, done, count, r->slices[0]);
    if (action->kind == PSR_ACTION_FOLD) {
        const uint8_t *others = values_at(r, action->b, done, count, r->slices[1]);
        psr_request_fold(r, room, values, others, count);
        values = room;
    }
    put(r, action->to, done, count, values);
    return PSR_OK;
}

static psr_err advance_local(psr_request *r, bool *moved)
{
    for (psr_stream *s = &r->local;
         s->head < s->count && psr_request_may_go(r, s->actions[s->head]); *moved = true) {
        uint32_t index = s->actions[s->head];
        const bool whole = r->schedule.actions[index].kind == PSR_ACTION_ROUND;
        size_t count = whole ? r->schedule.actions[index].count : psr_request_next_slice(r, index);
        PSR_TRY(r->schedule.actions[index].kind == PSR_ACTION_FOLD_HELD
                    ? psr_request_fold_held(r, index, count)
                    : act(r, index, count));
        psr_request_slice_done(r, s, count);
    }
    return PSR_OK;
}

/* ---- the whole ---- */

static void rewind_streams(psr_stream *streams, uint32_t count, uint64_t allowed)
{
    for (uint32_t i = 0; i < count; i++) {
        streams[i].head = 0;
        streams[i].slices = streams[i].arrived = 0;
        streams[i].shown = false;
        streams[i].allowed = allowed;
    }
}

void psr_request_begin(psr_request *r)
{
    /* In the order of calls, and if all requests are started, slices may come before they are asked
     * for. */
    const bool ring = r->schedule.overtaking;
    uint64_t allowed = r->tag.slot == 0 && !r->is_message ? r->group->options.window : 0;
    if (ring && (r->tag.slot == 0 || r->group->options.starts_all))
        allowed = UINT64_MAX;
    r->turn = r->group->lane.turns++;
    r->begun_by_all = false;
    rewind_streams(r->out, r->out_count, allowed);
    rewind_streams(r->in, r->in_count, allowed);
    rewind_streams(&r->local, 1, 0);
    if (r->schedule.gathers)
        psr_request_begin_gathering(r);
    memset(r->done, 0, r->schedule.count * sizeof *r->done);
    memset(r->complete, 0, r->schedule.count * sizeof *r->complete);
    r->complete_before = 0;
    r->active = true;
}

psr_err psr_request_advance(psr_request *r)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < r->in_count; i++)
            PSR_TRY(advance_in(r, i, &moved));
        PSR_TRY(advance_local(r, &moved));
        for (uint32_t i = 0; i < r->out_count; i++)
            PSR_TRY(advance_out(r, &r->out[i], &moved));
    }
    r->active = r->complete_before < r->schedule.count;
    return r->schedule.overtaking ? psr_request_inject(r) : PSR_OK;
}

void psr_request_pass(psr_request *from, psr_request *to)
{
    if (from->call.count > 0)
        memmove(to->areas[PSR_AREA_RECEIVE].write, from->areas[PSR_AREA_SEND].read,
                from->call.count * from->value_bytes);
    from->complete_before = from->schedule.count;
    to->complete_before = to->schedule.count;
    from->active = to->active = false;
}

/* ---- messages ---- */

static psr_err check_values(const psr_request *r, const psr_stream *in, const psr_msg_values *says,
                            const psr_message *message)
{
    const uint32_t self = psr_group_name(r->group, r->group->options.rank);
    if (says->total != in->total_values)
        return psr_fail(PSR_ERR_MISMATCH,
                        "rank %" PRIu32 " sends rank %" PRIu32 " %" PRIu64
                        " values in %s%s, where rank %" PRIu32 " expects %" PRIu64,
                        psr_group_name(r->group, in->peer), self, says->total,
                        psr_kind_name(r->call.kind),
                        psr_kind_has_blocks(r->call.kind) ? ", in all blocks together" : "", self,
                        in->total_values);
    if (r->schedule.overtaking)
        return PSR_OK;
    if (says->slice != in->arrived || in->arrived >= in->total_slices)
        return psr_violation(message, "%" PRIu64 " of %" PRIu64 " slices came before", in->arrived,
                             in->total_slices);
    if (in->arrived >= in->allowed)
        return psr_violation(message, "it had credit for %" PRIu64 " slices", in->allowed);
    return PSR_OK;
}

psr_err psr_request_values(psr_request *r, psr_stream *in, const psr_msg_values *says,
                           psr_message **message)
{
    PSR_TRY(check_values(r, in, says, *message));
    if (r->schedule.overtaking)
        return psr_request_values_of_transfer(r, in->peer, says, message);
    in->arrived++;
    psr_early_put(r->early, (uint32_t)(in - r->in), message);
    return psr_request_advance(r);
}

/* One CREDIT says that the receiver has begun; the sums that come back do the rest. */
static psr_err let_all_go(psr_request *r, const psr_stream *first, const psr_message *message)
{
    if (first->allowed > 0)
        return psr_violation(message, "it has given credit for all of this operation before");
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i].peer == first->peer)
            r->out[i].allowed = UINT64_MAX;
    return psr_request_advance(r);
}

psr_err psr_request_credit(psr_request *r, psr_stream *out, const psr_msg_credit *says,
                           const psr_message *message)
{
    if (r->schedule.gathers)
        return psr_request_asked_for(r, out, says, message);
    if (r->schedule.overtaking)
        return let_all_go(r, out, message);
    if (says->slices <= out->allowed || says->slices > out->slices + r->group->options.window)
        return psr_violation(message, "%" PRIu64 " slices were sent, and %" PRIu64 " were allowed",
                             out->slices, out->allowed);
    out->allowed = says->slices;
    return psr_request_advance(r);
}

/* ---- what others ask ---- */

bool psr_request_done(const psr_request *request)
{
    return !request->active;
}

uint32_t psr_request_lent(const psr_request *request)
{
    uint32_t lent = 0;
    for (uint32_t i = 0; i < request->out_count; i++)
        lent += psr_loan_lent(&request->out[i].loan);
    return lent;
}

bool psr_request_lent_to(const psr_request *request, psr_peer *ret_peer)
{
    for (uint32_t i = 0; i < request->out_count; i++)
        if (psr_loan_lent(&request->out[i].loan) > 0) {
            *ret_peer = request->group->peers[request->out[i].peer].name;
            return true;
        }
    return false;
}

const psr_call *psr_request_call(const psr_request *request)
{
    return &request->call;
}

bool psr_request_waits(const psr_request *request, psr_waiting *ret_waiting)
{
    if (!request->active || psr_request_waits_for_any(request))
        return false;
    if (request->call.kind == PSR_KIND_PROBE) {
        *ret_waiting = (psr_waiting){request->group->peers[request->peer].name, 0};
        return true;
    }
    if (request->schedule.overtaking) {
        *ret_waiting = (psr_waiting){psr_request_waits_for(request), request->tag.round};
        return true;
    }
    /* The first incomplete action depends on no incomplete one, and what this rank does alone is
     * done. So another rank keeps it waiting. */
    const psr_action *action = &request->schedule.actions[request->complete_before];
    *ret_waiting = (psr_waiting){request->group->peers[action->peer].name, request->tag.round};
    return true;
}

bool psr_request_waits_for_any(const psr_request *request)
{
    return request->active && request->is_message && !request->matched &&
           request->asked_peer == PSR_RANK_ANY;
}

static bool lacks_credit(const psr_stream *out)
{
    return out->by_credit && out->slices < out->total_slices && out->slices >= out->allowed;
}

bool psr_request_lacks(const psr_request *r, uint32_t name)
{
    if (!r->active || psr_request_waits_for_any(r))
        return false;
    if (r->is_message && !r->matched)
        return psr_group_name(r->group, r->peer) == name;
    for (uint32_t i = 0; i < r->in_count; i++)
        if (psr_group_name(r->group, r->in[i].peer) == name &&
            r->in[i].arrived < r->in[i].total_slices)
            return true;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (psr_group_name(r->group, r->out[i].peer) == name && lacks_credit(&r->out[i]))
            return true;
    return false;
}

bool psr_request_came(const psr_request *request, uint32_t *ret_from, uint32_t *ret_tag,
                      uint64_t *ret_count, psr_type *ret_type)
{
    if (request->call.kind == PSR_KIND_PROBE && !request->matched)
        return false;
    *ret_from = request->peer;
    *ret_tag = request->tag.slot - PSR_MESSAGE_TAG_MAX - 1;
    *ret_count = request->says.count;
    *ret_type = psr_call_type(&request->says);
    return true;
}
