/* Operations whose transfers overtake one another (comm/collectives/schedule.h): an all-reduce by
 * ring. What a rank injects waits for its turn in the group's lane; all else goes on as soon as it
 * can. A ring without hops injects nothing, but asks: request_gathering.c.
 *
 * Encoded (docs/algorithms.md, "Compression"): what is encoded as one is a unit. With a residual
 * that is what a whole transfer sends, since scale, means or selection are of all of it; else a
 * slice, as every value is rounded by itself. So a unit is sent when it is complete, and its slices
 * go together: of one that stopped at the window no credit would ever come back. Payloads are in
 * memory of their own. A result is encoded by the rank that has it, which takes what the others
 * decode; onward it goes as the bytes that came. */
#include "comm/collectives/group_private.h"

#include "net/violation.h"

#include <inttypes.h>

/* ---- sending ---- */

static float *floats_at(const psr_request *r, psr_area_place place, size_t done)
{
    uint8_t *values = r->areas[place.area].write;
    return (float *)(void *)values + place.offset + done;
}

static const float *read_at(const psr_request *r, psr_area_place place, size_t done)
{
    const uint8_t *values = r->areas[place.area].read;
    return (const float *)(const void *)values + place.offset + done;
}

static psr_err prepare(const psr_request *r, psr_area_place place, size_t done, size_t unit)
{
    float *residual = r->residual != NULL ? r->residual + place.offset + done : NULL;
    psr_err err = psr_encoder_prepare(r->encoder->encoder, read_at(r, place, done), residual, unit);
    return err == PSR_ERR_NUMERIC && r->not_finite != NULL ? r->not_finite(r->owner) : err;
}

/* Sends a slice of the unit that was prepared. */
static psr_err send_encoded(psr_request *r, psr_stream *s, psr_span slice)
{
    const uint32_t index = s->actions[s->head];
    const psr_action *action = &r->schedule.actions[index];
    psr_head head = psr_request_head(r, s);
    psr_payload payload;
    void *memory;
    PSR_TRY(psr_loan_memory(&s->loan, psr_encoder_bytes(r->encoder->encoder, slice), &payload,
                            &memory));
    psr_encode_slice(r->encoder->encoder, &head, slice, memory);
    if (action->result)
        psr_decode_own(r->compression, &payload, slice.count,
                       floats_at(r, action->a, r->done[index]));
    return psr_request_send(r, s, &head, &payload);
}

psr_err psr_request_send_unit(psr_request *r, psr_stream *s, uint32_t *ret_slices)
{
    const uint32_t index = s->actions[s->head];
    const size_t unit = psr_request_unit(r, index), begin = r->done[index];
    uint32_t slices = 0;
    if (r->encoder != NULL)
        PSR_TRY(prepare(r, r->schedule.actions[index].a, begin, unit));
    for (size_t done = 0; done < unit; slices++) {
        size_t count = psr_request_next_slice(r, index);
        PSR_TRY(r->encoder != NULL ? send_encoded(r, s, (psr_span){done, count})
                                   : psr_request_send_slice(r, s, index, count));
        s->slices++;
        done += count;
        psr_request_slice_done(r, s, count);
    }
    *ret_slices = slices;
    return PSR_OK;
}

/* The receiver has begun the operation, since its own values are in what came. */
static psr_err send_onward(psr_request *r, psr_stream *s, const psr_message *message, size_t count)
{
    psr_head head = psr_request_head(r, s);
    psr_payload payload;
    void *memory;
    PSR_TRY(psr_loan_memory(&s->loan, message->payload_bytes, &payload, &memory));
    psr_encode_again(message, &head, memory);
    PSR_TRY(psr_request_send(r, s, &head, &payload));
    s->slices++;
    psr_request_slice_done(r, s, count);
    return PSR_OK;
}

psr_err psr_request_round(const psr_request *r, const psr_action *action)
{
    float *residual = r->residual != NULL ? r->residual + action->to.offset : NULL;
    psr_err err = psr_encoder_round(r->encoder->encoder, floats_at(r, action->to, 0), residual,
                                    action->count);
    return err == PSR_ERR_NUMERIC && r->not_finite != NULL ? r->not_finite(r->owner) : err;
}

/* ---- injecting ---- */

static bool may_inject(const psr_request *r)
{
    if (r->schedule.gathers)
        return psr_request_may_ask(r);
    const psr_stream *s = r->injection;
    return r->active && s != NULL && s->head < s->count && s->slices < s->allowed &&
           (r->tag.slot > 0 || s->ordinal < r->group->peers[s->peer].allowed_operations);
}

static psr_err inject_unit(psr_request *r)
{
    uint32_t slices = 0;
    PSR_TRY(r->schedule.gathers ? psr_request_ask(r, &slices)
                                : psr_request_send_unit(r, r->injection, &slices));
    r->on_its_way += slices;
    r->group->lane.on_their_way += slices;
    r->group->lane.sure += r->begun_by_all ? slices : 0;
    return PSR_OK;
}

/* Slices on their way of requests that some rank may not have begun may stay there until this rank
 * has ended another request. So if all slices on their way are of such requests, a full window of
 * them does not keep a request waiting that has none on its way. */
static psr_request *next_to_inject(const psr_group *group)
{
    psr_request *next = group->lane.first;
    if (group->lane.on_their_way < group->options.window)
        return next;
    if (group->options.starts_all || group->lane.sure > 0)
        return NULL;
    while (next != NULL && next->on_its_way > 0)
        next = next->next_in_lane;
    return next;
}

psr_err psr_request_inject(psr_request *r)
{
    psr_request_lane *lane = &r->group->lane;
    if (!r->waits_in_lane && may_inject(r))
        psr_request_lane_add(lane, r);
    for (psr_request *next; (next = next_to_inject(r->group)) != NULL;) {
        psr_request_lane_remove(lane, next);
        PSR_TRY(inject_unit(next));
        if (may_inject(next))
            psr_request_lane_add(lane, next);
    }
    return PSR_OK;
}

/* ---- arrivals ---- */

static psr_err fold_in(const psr_request *r, const psr_action *action, size_t done,
                       const float *values, size_t count)
{
    float *sum = floats_at(r, action->to, done);
    psr_reduce(r->call.type, r->call.reduction, sum, values, read_at(r, action->a, done), count);
    return PSR_OK;
}

static psr_err decode_in(const psr_request *r, const psr_action *action, size_t done, size_t count,
                         const psr_message *message)
{
    if (action->kind == PSR_ACTION_RECEIVE)
        return psr_decode_slice(message, r->compression, count, floats_at(r, action->to, done));
    PSR_TRY(psr_decode_slice(message, r->compression, count, r->group->decoded));
    return fold_in(r, action, done, r->group->decoded, count);
}

static bool is_due(const psr_request *r, const psr_stream *in)
{
    return r->active && in->head < in->count && psr_request_may_go(r, in->actions[in->head]);
}

/* All ranks have added to it. */
void psr_request_see_return(psr_request *r)
{
    psr_request_lane *lane = &r->group->lane;
    if (!r->begun_by_all)
        lane->sure += r->on_its_way;
    r->begun_by_all = true;
    r->on_its_way--;
    lane->on_their_way--;
    lane->sure--;
}

static psr_err take(psr_request *r, psr_stream *in, const psr_message *message)
{
    const uint32_t index = in->actions[in->head];
    const psr_action *action = &r->schedule.actions[index];
    const size_t count = psr_request_next_slice(r, index);
    PSR_TRY(r->encoder != NULL ? decode_in(r, action, r->done[index], count, message)
                               : psr_request_take_in(r, in, message));
    in->slices++;
    in->arrived++;
    psr_request_slice_done(r, in, count);
    if (r->encoder != NULL && in->onward != NULL)
        PSR_TRY(send_onward(r, in->onward, message, count));
    if (action->returns)
        psr_request_see_return(r);
    return psr_request_advance(r);
}

/* The transfer to which a slice belongs, by its number. NULL: there is none. */
static psr_stream *stream_of(const psr_request *r, uint32_t peer, uint64_t slice)
{
    for (uint32_t i = 0; i < r->in_count; i++) {
        psr_stream *s = &r->in[i];
        if (s->peer == peer && slice >= s->first_slice && slice - s->first_slice < s->total_slices)
            return s;
    }
    return NULL;
}

psr_err psr_request_values_of_transfer(psr_request *r, uint32_t peer, const psr_msg_values *says,
                                       psr_message **message)
{
    psr_stream *in = stream_of(r, peer, says->slice);
    if (in == NULL || says->slice != in->first_slice + in->arrived)
        return psr_violation(*message, "no slice %" PRIu64 " is due", says->slice);
    if (r->schedule.gathers && in->by_credit)
        return psr_request_hold(r, in, message);
    if (!is_due(r, in))
        return psr_violation(*message,
                             "it claims a sum to which rank %" PRIu32 " has not contributed",
                             psr_group_name(r->group, r->group->options.rank));
    return take(r, in, *message);
}

/* ---- what others ask ---- */

/* The peer of the first transfer that has not come. A request that could not inject waits for the
 * rank that has not begun, or for what comes back. */
psr_peer psr_request_waits_for(const psr_request *r)
{
    if (r->schedule.gathers)
        return r->group->peers[psr_request_gathering_waits_for(r)].name;
    uint32_t peer = r->in[0].peer;
    for (uint32_t i = r->in_count; i-- > 0;)
        if (r->in[i].head < r->in[i].count)
            peer = r->in[i].peer;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i].head < r->out[i].count && r->out[i].allowed == 0)
            peer = r->out[i].peer;
    return r->group->peers[peer].name;
}
