#include "comm/collectives/matching.h"

#include "comm/collectives/algorithm_choice.h"
#include "comm/collectives/group_private.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>

#define ANY_SLOT 0u /* no message has this slot */
/* The round of a send that was offered and has no ticket: this bit and the offer's number. */
#define OFFERED (UINT64_C(1) << 63)

/* The keys by which an offer is found: with its peer or any, and with its tag or any. */
enum { ANY_TAG = 1, ANY_PEER = 2, KEYS = 4 };

struct psr_offer {
    psr_queued by[KEYS];
    psr_offer *next, *previous; /* of all */
    uint32_t from, slot;
    uint64_t number;
    psr_msg_call call;
    psr_request *own; /* a message to oneself: its send; NULL: the message is another rank's */
};

static psr_queue_key key_of(uint32_t peer, uint32_t slot, unsigned any)
{
    return (psr_queue_key){any & ANY_PEER ? PSR_RANK_ANY : peer, any & ANY_TAG ? ANY_SLOT : slot};
}

static uint32_t self_of(const psr_group *group)
{
    return group->options.rank;
}

static psr_err say(const psr_group *group, uint32_t to, const psr_head *head)
{
    const psr_outbox *outbox = &group->options.outbox;
    return outbox->send(outbox->context, group->peers[to].name, head, NULL);
}

/* ---- lists of streams ---- */

static void put(psr_stream_list *list, psr_stream *s, psr_stream_state state)
{
    s->state = state;
    s->next = NULL;
    s->previous = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = s;
    list->last = s;
}

static void take_out(psr_stream_list *list, psr_stream *s)
{
    *(s->previous != NULL ? &s->previous->next : &list->first) = s->next;
    *(s->next != NULL ? &s->next->previous : &list->last) = s->previous;
    s->next = s->previous = NULL;
    s->state = PSR_STREAM_GOES;
}

/* ---- streams that this rank lets come ---- */

static psr_err tell(psr_group *group, psr_stream *in)
{
    in->state = PSR_STREAM_TOLD;
    group->peers[in->peer].told++;
    return psr_request_grant(in->request, in, psr_request_first_credit(in->request));
}

static psr_err tell_more(psr_group *group, uint32_t from)
{
    psr_group_peer *peer = &group->peers[from];
    while (peer->untold.first != NULL && peer->told < PSR_CREDITS_KEPT) {
        psr_stream *in = peer->untold.first;
        take_out(&peer->untold, in);
        PSR_TRY(tell(group, in));
    }
    return PSR_OK;
}

static psr_err listen(psr_group *group, uint32_t to)
{
    psr_group_peer *peer = &group->peers[to];
    if (peer->listens || to == self_of(group))
        return PSR_OK;
    peer->listens = true;
    psr_head head = psr_msg_listen_head(group->options.epoch, group->options.id);
    return say(group, to, &head);
}

psr_err psr_matching_shown(psr_group *group, psr_stream *in)
{
    if (in->state != PSR_STREAM_TOLD)
        return PSR_OK;
    in->state = PSR_STREAM_GOES;
    group->peers[in->peer].told--;
    return tell_more(group, in->peer);
}

/* ---- streams that this rank offers ---- */

static psr_err offer_more(psr_group *group, uint32_t to)
{
    psr_group_peer *peer = &group->peers[to];
    while (peer->listened && peer->uncredited.first != NULL && peer->offered < PSR_OFFERS_KEPT) {
        psr_stream *out = peer->uncredited.first;
        psr_request *r = out->request;
        take_out(&peer->uncredited, out);
        out->state = PSR_STREAM_OFFERED;
        peer->offered++;
        if (r->is_message) {
            r->tag.round = OFFERED | ++peer->offers;
            psr_request_index_name(&group->under_way, r);
        }
        psr_head head = psr_msg_offer_head(&(psr_msg_offer){.tag = r->tag, .call = r->says});
        PSR_TRY(say(group, to, &head));
    }
    return PSR_OK;
}

psr_err psr_matching_credited(psr_group *group, psr_stream *out)
{
    psr_group_peer *peer = &group->peers[out->peer];
    if (out->state == PSR_STREAM_UNCREDITED)
        take_out(&peer->uncredited, out);
    if (out->state != PSR_STREAM_OFFERED)
        return PSR_OK;
    out->state = PSR_STREAM_GOES;
    peer->offered--;
    return offer_more(group, out->peer);
}

psr_err psr_matching_take_listen(psr_group *group, uint32_t from, const psr_message *message)
{
    if (group->peers[from].listened)
        return psr_violation(message, "it said LISTEN before");
    group->peers[from].listened = true;
    return offer_more(group, from);
}

/* ---- persistent operations ---- */

psr_err psr_matching_open(psr_group *group, psr_request *r)
{
    if (r->schedule.overtaking && group->options.starts_all)
        return PSR_OK; /* they come without a credit */
    for (uint32_t i = 0; i < r->out_count; i++)
        if (psr_request_out(r, r->out[i].peer) == &r->out[i] && r->out[i].by_credit)
            put(&group->peers[r->out[i].peer].uncredited, &r->out[i], PSR_STREAM_UNCREDITED);
    for (uint32_t i = 0; i < r->in_count; i++) {
        psr_stream *in = &r->in[i];
        psr_group_peer *peer = &group->peers[in->peer];
        if (psr_request_in(r, in->peer) != in || !in->by_credit)
            continue; /* one LISTEN serves for all of that rank */
        if (peer->told < PSR_CREDITS_KEPT) {
            PSR_TRY(tell(group, in));
            continue;
        }
        put(&peer->untold, in, PSR_STREAM_UNTOLD);
        PSR_TRY(listen(group, in->peer));
    }
    return PSR_OK;
}

psr_err psr_matching_opened(psr_group *group, psr_request *r)
{
    for (uint32_t i = 0; i < r->out_count; i++)
        PSR_TRY(offer_more(group, r->out[i].peer));
    return PSR_OK;
}

/* The sender has begun the stream's operation, so its values may come, however many others may. */
static psr_err show(psr_group *group, psr_stream *in, const psr_message *message)
{
    if (in->shown || in->arrived > 0)
        return psr_violation(message, "it has said before that this operation has begun");
    in->shown = true;
    if (in->state != PSR_STREAM_UNTOLD)
        return psr_matching_shown(group, in);
    take_out(&group->peers[in->peer].untold, in);
    return psr_request_grant(in->request, in, psr_request_first_credit(in->request));
}

static psr_err take_offer_of_operation(psr_group *group, uint32_t from, const psr_msg_offer *says,
                                       psr_message **message)
{
    psr_request *r = psr_request_index_find(&group->under_way, says->tag, from, false);
    if (r == NULL)
        return psr_group_keep(group, from, PSR_KEPT_OFFERS, PSR_OFFERS_KEPT, message);
    if (!psr_call_same(&says->call, &r->says))
        return psr_group_mismatch(group, says->tag, from, true, &says->call, &r->says);
    psr_stream *in = psr_request_in(r, from);
    if (in == NULL)
        return psr_violation(*message,
                             "rank %" PRIu32 " expects nothing from rank %" PRIu32 " in this %s",
                             psr_group_name(group, self_of(group)), psr_group_name(group, from),
                             psr_kind_name(r->call.kind));
    return show(group, in, *message);
}

/* ---- messages: a receive whose other end has become known ---- */

/* Sets the action and the stream of a receive to that many values of that rank. */
static void bind(psr_request *r, uint32_t peer, uint64_t count)
{
    psr_action *action = &r->schedule.actions[0];
    psr_stream *in = &r->in[0];
    const psr_group_options *o = &r->group->options;
    r->in_of[r->peer] = 0;
    r->in_of[peer] = 1;
    r->peer = action->peer = in->peer = peer;
    action->count = in->total_values = (size_t)count;
    r->slice_values = psr_slice_choose(r->call.kind, count * r->value_bytes, o->slice_bytes,
                                       o->largest_slice_bytes) /
                      r->value_bytes;
    in->total_slices = count > 0 ? (count - 1) / r->slice_values + 1 : 1;
}

static psr_err mismatch(const psr_group *group, uint32_t slot, uint32_t from, bool they_send,
                        const psr_msg_call *theirs, const psr_msg_call *ours)
{
    const psr_tag tag = {.slot = slot};
    return psr_group_mismatch(group, tag, from, they_send, theirs, ours);
}

psr_err psr_matching_count(psr_group *group, psr_request *r, const psr_msg_values *says)
{
    if (r->matched)
        return PSR_OK;
    if (!psr_call_fits(&r->says, &says->call))
        return mismatch(group, r->tag.slot, r->peer, true, &says->call, &r->says);
    r->matched = true;
    bind(r, r->peer, says->call.count);
    r->says = says->call;
    return PSR_OK;
}

/* The receiver has given this ticket to no other receive. */
static void give_ticket(psr_group *group, psr_request *r, uint64_t ticket)
{
    r->tag.round = ticket;
    psr_request_index_name(&group->under_way, r);
}

/* ---- offers ---- */

static void forget_offer(psr_group *group, psr_offer *offer)
{
    for (unsigned any = 0; any < KEYS; any++)
        psr_queues_remove(&group->offers, &offer->by[any]);
    *(offer->previous != NULL ? &offer->previous->next : &group->first_offer) = offer->next;
    if (offer->next != NULL)
        offer->next->previous = offer->previous;
    if (offer->own != NULL)
        offer->own->own_offer = NULL;
    else
        group->peers[offer->from].kept[PSR_KEPT_OFFERS]--;
    free(offer);
}

static psr_err keep_offer(psr_group *group, const psr_offer *given)
{
    psr_offer *offer = malloc(sizeof *offer);
    if (offer == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message that is announced");
    *offer = *given;
    offer->next = group->first_offer;
    if (offer->next != NULL)
        offer->next->previous = offer;
    group->first_offer = offer;
    if (offer->own != NULL)
        offer->own->own_offer = offer;
    else
        group->peers[offer->from].kept[PSR_KEPT_OFFERS]++;
    for (unsigned any = 0; any < KEYS; any++)
        psr_queues_add(&group->offers, &offer->by[any], key_of(offer->from, offer->slot, any));
    return PSR_OK;
}

/* Gives the offer to the receive, which is in no queue. */
static psr_err accept(psr_group *group, psr_request *r, const psr_offer *offer)
{
    if (!psr_call_fits(&r->says, &offer->call)) {
        group->failed = true;
        group->failed_of = offer->from;
        return mismatch(group, offer->slot, offer->from, true, &offer->call, &r->says);
    }
    bind(r, offer->from, offer->call.count);
    r->says = offer->call;
    r->matched = true;
    r->tag.slot = offer->slot;
    if (offer->own != NULL) {
        psr_request_pass(offer->own, r);
        psr_group_leave_when_done(group, offer->own);
        psr_group_leave_when_done(group, r);
        return PSR_OK;
    }
    give_ticket(group, r, ++group->tickets);
    r->in[0].allowed = group->options.window;
    psr_head head = psr_msg_credit_head(&(psr_msg_credit){
        .tag = r->tag, .call = r->says, .slices = group->options.window, .offer = offer->number});
    return say(group, offer->from, &head);
}

/* Of the receives that fit, the one that was posted first. NULL: none fits. */
static psr_request *posted_for(psr_group *group, const psr_offer *offer)
{
    psr_request *found = NULL;
    for (unsigned any = 0; any < KEYS; any++) {
        psr_request *r =
            PSR_QUEUED_OF(psr_queues_first(&group->posted, key_of(offer->from, offer->slot, any)),
                          psr_request, matching);
        if (r != NULL && (found == NULL || r->post < found->post))
            found = r;
    }
    return found;
}

static void leave_probes(psr_group *group, psr_request *probe)
{
    psr_request **at = &group->first_probe;
    while (*at != NULL && *at != probe)
        at = &(*at)->next_probe;
    if (*at == probe)
        *at = probe->next_probe;
}

static void see(psr_request *probe, const psr_offer *offer)
{
    probe->matched = true;
    probe->peer = offer->from;
    probe->tag.slot = offer->slot;
    probe->says = offer->call;
    probe->active = false;
}

/* Probes that wait take nothing: all that fit see the offer. */
static void show_probes(psr_group *group, const psr_offer *offer)
{
    for (psr_request *p = group->first_probe, *next; p != NULL; p = next) {
        next = p->next_probe;
        if ((p->asked_peer != PSR_RANK_ANY && p->asked_peer != offer->from) ||
            (p->tag.slot != ANY_SLOT && p->tag.slot != offer->slot))
            continue;
        leave_probes(group, p);
        see(p, offer);
        psr_group_leave_when_done(group, p);
    }
}

/* Gives the offer to the receive that it fits, or keeps it. */
static psr_err deal_out(psr_group *group, const psr_offer *offer)
{
    psr_request *r = posted_for(group, offer);
    if (r != NULL) {
        psr_queues_remove(&group->posted, &r->matching);
        return accept(group, r, offer);
    }
    PSR_TRY(keep_offer(group, offer));
    show_probes(group, offer);
    return PSR_OK;
}

psr_err psr_matching_take_offer(psr_group *group, uint32_t from, psr_message **message)
{
    psr_msg_offer says;
    PSR_TRY(psr_msg_offer_read(*message, &says));
    psr_group_peer *peer = &group->peers[from];
    if (!peer->listens)
        return psr_violation(*message, "this rank does not listen");
    if (says.tag.slot > 0 && says.tag.slot <= PSR_MESSAGE_TAG_MAX)
        return take_offer_of_operation(group, from, &says, message);
    if (says.tag.slot == 0 || (says.tag.round & OFFERED) == 0)
        return psr_violation(*message, "it offers no message and no persistent operation");
    if (peer->kept[PSR_KEPT_OFFERS] >= PSR_OFFERS_KEPT)
        return psr_violation(*message,
                             "%d messages for calls that have not begun here are kept already",
                             PSR_OFFERS_KEPT);
    return deal_out(group, &(psr_offer){.from = from,
                                        .slot = says.tag.slot,
                                        .number = says.tag.round & ~OFFERED,
                                        .call = says.call});
}

/* ---- beginning ---- */

static psr_err start_send(psr_group *group, psr_request *r)
{
    psr_group_peer *peer = &group->peers[r->peer];
    if (r->peer == self_of(group))
        return deal_out(
            group, &(psr_offer){.from = r->peer, .slot = r->tag.slot, .call = r->says, .own = r});
    put(&peer->uncredited, &r->out[0], PSR_STREAM_UNCREDITED);
    psr_queues_add(&group->sends, &r->matching, key_of(r->peer, r->tag.slot, 0));
    PSR_TRY(psr_group_take_kept_ticket(group, r));
    return offer_more(group, r->peer);
}

static psr_err listen_to_those(psr_group *group, const psr_request *r)
{
    if (r->asked_peer != PSR_RANK_ANY)
        return listen(group, r->asked_peer);
    for (uint32_t rank = 0; rank < group->options.ranks; rank++)
        PSR_TRY(listen(group, rank));
    return PSR_OK;
}

static psr_queue_key key_of_receive(const psr_request *r)
{
    return (psr_queue_key){r->asked_peer, r->tag.slot};
}

static psr_offer *offer_for(psr_group *group, const psr_request *r)
{
    /* An offer has one node for each of its keys; this is the node's number. */
    unsigned any =
        (r->asked_peer == PSR_RANK_ANY ? ANY_PEER : 0u) | (r->tag.slot == ANY_SLOT ? ANY_TAG : 0u);
    psr_queued *first = psr_queues_first(&group->offers, key_of_receive(r));
    return first != NULL ? (psr_offer *)(void *)(first - any) : NULL;
}

static psr_err start_receive(psr_group *group, psr_request *r)
{
    bool knows_sender = r->asked_peer != PSR_RANK_ANY && r->tag.slot != ANY_SLOT;
    if (knows_sender && r->peer != self_of(group) && !group->peers[r->peer].listens &&
        group->peers[r->peer].told < PSR_CREDITS_KEPT) {
        give_ticket(group, r, ++group->tickets);
        return tell(group, &r->in[0]);
    }
    PSR_TRY(listen_to_those(group, r));
    psr_offer *offer = offer_for(group, r);
    if (offer == NULL) {
        r->post = ++group->posts;
        psr_queues_add(&group->posted, &r->matching, key_of_receive(r));
        return PSR_OK;
    }
    psr_offer accepted = *offer;
    forget_offer(group, offer);
    return accept(group, r, &accepted);
}

static psr_err start_probe(psr_group *group, psr_request *r)
{
    PSR_TRY(listen_to_those(group, r));
    const psr_offer *offer = offer_for(group, r);
    if (offer != NULL) {
        see(r, offer);
    } else if (r->at_once) {
        r->active = false;
    } else {
        r->next_probe = group->first_probe;
        group->first_probe = r;
    }
    psr_group_leave_when_done(group, r);
    return PSR_OK;
}

/* As the caller asked: in its last round a receive may have been bound to another end. */
static void forget_last_time(psr_request *r)
{
    r->says = r->asked;
    r->matched = false;
    r->tag.round = 0;
    r->tag.slot =
        r->asked_tag == PSR_MESSAGE_TAG_ANY ? ANY_SLOT : PSR_MESSAGE_TAG_MAX + 1 + r->asked_tag;
}

psr_err psr_matching_start(psr_group *group, psr_request *r)
{
    forget_last_time(r);
    switch (r->call.kind) {
    case PSR_KIND_SEND:
        return start_send(group, r);
    case PSR_KIND_RECEIVE:
        return start_receive(group, r);
    default:
        return start_probe(group, r);
    }
}

psr_err psr_matching_ticket(psr_group *group, uint32_t from, const psr_msg_credit *says,
                            const psr_message *message, psr_request **ret_send)
{
    psr_request *r = NULL;
    if (says->offer > 0) {
        const psr_tag tag = {.slot = says->tag.slot, .round = OFFERED | says->offer};
        r = psr_request_index_find(&group->under_way, tag, from, true);
        if (r == NULL)
            return psr_violation(
                message, "message %" PRIu64 " was not offered to it, or was given to it before",
                says->offer);
    } else {
        r = PSR_QUEUED_OF(psr_queues_first(&group->sends, key_of(from, says->tag.slot, 0)),
                          psr_request, matching);
        *ret_send = r;
        if (r == NULL)
            return PSR_OK;
    }
    if (!psr_call_fits(&says->call, &r->says))
        return mismatch(group, says->tag.slot, from, false, &says->call, &r->says);
    psr_queues_remove(&group->sends, &r->matching);
    give_ticket(group, r, says->tag.round);
    r->matched = true;
    *ret_send = r;
    return PSR_OK;
}

/* ---- end ---- */

static void leave_stream(psr_group *group, psr_stream *s)
{
    psr_group_peer *peer = &group->peers[s->peer];
    if (s->state == PSR_STREAM_UNTOLD)
        take_out(&peer->untold, s);
    if (s->state == PSR_STREAM_UNCREDITED)
        take_out(&peer->uncredited, s);
    peer->told -= s->state == PSR_STREAM_TOLD;
    peer->offered -= s->state == PSR_STREAM_OFFERED;
    s->state = PSR_STREAM_GOES;
}

void psr_matching_leave(psr_request *r)
{
    psr_group *group = r->group;
    if (r->is_message)
        psr_queues_remove(r->call.kind == PSR_KIND_SEND ? &group->sends : &group->posted,
                          &r->matching);
    if (r->call.kind == PSR_KIND_PROBE)
        leave_probes(group, r);
    if (r->own_offer != NULL)
        forget_offer(group, r->own_offer);
    for (uint32_t i = 0; i < r->out_count; i++)
        leave_stream(group, &r->out[i]);
    for (uint32_t i = 0; i < r->in_count; i++)
        leave_stream(group, &r->in[i]);
}

void psr_matching_done(psr_group *group)
{
    while (group->first_offer != NULL)
        forget_offer(group, group->first_offer);
    psr_queues_done(&group->offers);
    psr_queues_done(&group->posted);
    psr_queues_done(&group->sends);
}
