/* Finds the operation to which a message belongs, keeps messages that come too early, and numbers
 * operations. */
#include "comm/collectives/group_private.h"

#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- members ---- */

static int compare_names(psr_peer a, psr_peer b)
{
    return a.role != b.role   ? (a.role < b.role ? -1 : 1)
           : a.rank != b.rank ? (a.rank < b.rank ? -1 : 1)
                              : 0;
}

static psr_err rank_of(const psr_group *group, const psr_message *message, uint32_t *ret_rank)
{
    uint32_t low = 0, high = group->options.ranks;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, rank = group->by_name[middle];
        int order = compare_names(message->from, group->peers[rank].name);
        if (order == 0 && rank != group->options.rank) {
            *ret_rank = rank;
            return PSR_OK;
        }
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return psr_violation(message, "it is not another rank of group %" PRIu32, group->options.id);
}

/* ---- words ---- */

void psr_group_describe(const psr_group *group, char *text, size_t size)
{
    const uint32_t most = 8, n = group->options.ranks;
    text[0] = '\0';
    if (group->options.id == 0 && group->options.epoch == 0)
        return;
    size_t used = (size_t)snprintf(text, size, " of the group of rank%s", n > 1 ? "s" : "");
    for (uint32_t r = 0; r < n && r < most && used < size; r++)
        used += (size_t)snprintf(text + used, size - used, "%s %" PRIu32, r > 0 ? "," : "",
                                 psr_group_name(group, r));
    if (n > most && used < size)
        snprintf(text + used, size - used, " and %" PRIu32 " more", n - most);
}

/* "call 7 of the group of ranks 0, 2" */
static void describe_tag(const psr_group *group, psr_tag tag, char *text, size_t size)
{
    char of[128];
    psr_group_describe(group, of, sizeof of);
    if (tag.slot == 0)
        snprintf(text, size, "call %" PRIu64 "%s", tag.round - group->uncounted, of);
    else if (tag.slot <= PSR_MESSAGE_TAG_MAX)
        snprintf(text, size, "start %" PRIu64 " of persistent operation %" PRIu32 "%s", tag.round,
                 tag.slot, of);
    else
        snprintf(text, size, "a message with tag %" PRIu32 "%s", tag.slot - PSR_MESSAGE_TAG_MAX - 1,
                 of);
}

psr_err psr_group_mismatch(const psr_group *group, psr_tag tag, uint32_t from, bool they_send,
                           const psr_msg_call *theirs, const psr_msg_call *ours)
{
    char where[224], they[128], we[128];
    bool counts =
        tag.slot <= PSR_MESSAGE_TAG_MAX && theirs->word == ours->word && theirs->root == ours->root;
    describe_tag(group, tag, where, sizeof where);
    psr_call_describe(theirs, !they_send, they, sizeof they);
    psr_call_describe(ours, they_send, we, sizeof we);
    return psr_fail(PSR_ERR_MISMATCH, "%s: rank %" PRIu32 " calls %s, rank %" PRIu32 " calls %s%s",
                    where, psr_group_name(group, from), they,
                    psr_group_name(group, group->options.rank), we,
                    counts && psr_call_varies(ours) ? ": their arrays of counts differ" : "");
}

static const psr_msg_call *kept_call(const psr_group *group, uint64_t round)
{
    return &group->kept_calls[round % PSR_CALLS_KEPT];
}

/* It is one of the last calls in the order. */
static bool is_kept(const psr_group *group, uint64_t round)
{
    return round > 0 && round <= group->calls && group->calls - round < PSR_CALLS_KEPT;
}

/* Both ranks are in the same call of the order. If it is a barrier, earlier calls differ: the last
 * ones, or some that are no longer known. */
static psr_err mismatch_in_order(const psr_group *group, psr_tag tag, uint32_t from,
                                 const psr_msg_values *says, const psr_msg_call *ours)
{
    psr_tag last = tag;
    last.round--;
    if (!psr_call_is_barrier(&says->call) || !psr_call_is_barrier(ours))
        /* in the order of calls there are no messages */
        return psr_group_mismatch(group, tag, from, true, &says->call, ours);
    if (is_kept(group, last.round) && !psr_call_same(&says->before, kept_call(group, last.round)))
        return psr_group_mismatch(group, last, from, true, &says->before,
                                  kept_call(group, last.round));
    char where[224];
    describe_tag(group, tag, where, sizeof where);
    return psr_fail(PSR_ERR_MISMATCH,
                    "%s: rank %" PRIu32 " and rank %" PRIu32
                    " call barrier, and some time before it they called different things",
                    where, psr_group_name(group, from), psr_group_name(group, group->options.rank));
}

/* ---- which operation ---- */

/* A message in the order of calls whose operation has ended: the sender made another call, or sent
 * it twice. */
static psr_err of_ended_call(const psr_group *group, uint32_t from, psr_tag tag,
                             const psr_msg_values *says, const psr_message *message)
{
    if (is_kept(group, tag.round) && !psr_call_same(&says->call, kept_call(group, tag.round)))
        return mismatch_in_order(group, tag, from, says, kept_call(group, tag.round));
    return psr_violation(
        message, "it is for no call that is under way; %" PRIu64 " were begun here", group->calls);
}

/* ---- messages that come before their operation ---- */

struct psr_kept {
    psr_queued queued;
    psr_kept *next, *previous; /* of all */
    psr_message *message;      /* owned */
    uint32_t from, which;
};

/* In the order of calls the key is the round, for a persistent operation slot and round, for a
 * ticket of a message its receiver and tag. */
static psr_queue_key key_of_kept(psr_tag tag, uint32_t from)
{
    if (tag.slot > PSR_MESSAGE_TAG_MAX)
        return (psr_queue_key){(uint64_t)from << 32 | tag.slot, UINT64_MAX};
    return (psr_queue_key){tag.round, tag.slot};
}

psr_err psr_group_keep(psr_group *group, uint32_t from, uint32_t which, uint32_t most,
                       psr_message **message)
{
    if (group->peers[from].kept[which] >= most)
        return psr_violation(
            *message, "%" PRIu32 " messages for calls that have not begun here are kept already",
            most);
    psr_kept *kept = malloc(sizeof *kept);
    if (kept == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message that came early");
    *kept =
        (psr_kept){.next = group->first_kept, .message = *message, .from = from, .which = which};
    if (kept->next != NULL)
        kept->next->previous = kept;
    group->first_kept = kept;
    group->peers[from].kept[which]++;
    psr_queues_add(&group->kept, &kept->queued, key_of_kept(psr_msg_tag(*message), from));
    *message = NULL;
    return PSR_OK;
}

/* The message is the caller's. Frees kept. */
static psr_message *unkeep(psr_group *group, psr_kept *kept)
{
    psr_message *message = kept->message;
    psr_queues_remove(&group->kept, &kept->queued);
    *(kept->previous != NULL ? &kept->previous->next : &group->first_kept) = kept->next;
    if (kept->next != NULL)
        kept->next->previous = kept->previous;
    group->peers[kept->from].kept[kept->which]--;
    free(kept);
    return message;
}

/* ---- messages ---- */

void psr_group_leave_when_done(psr_group *group, psr_request *request)
{
    if (request->active)
        return;
    psr_request_index_remove(&group->under_way, request);
    if (request->ended)
        return;
    request->ended = true;
    request->next_ended = NULL;
    request->previous_ended = group->last_ended;
    *(group->last_ended != NULL ? &group->last_ended->next_ended : &group->first_ended) = request;
    group->last_ended = request;
}

static void tell_no_more(psr_group *group, psr_request *request)
{
    psr_request *next = request->next_ended, *previous = request->previous_ended;
    *(previous != NULL ? &previous->next_ended : &group->first_ended) = next;
    *(next != NULL ? &next->previous_ended : &group->last_ended) = previous;
    request->ended = false;
}

void *psr_group_take_ended(psr_group *group)
{
    psr_request *request = group->first_ended;
    if (request == NULL)
        return NULL;
    tell_no_more(group, request);
    return request->owner;
}

void psr_request_leave(psr_request *request)
{
    psr_request_lane_remove(&request->group->lane, request);
    psr_request_index_remove(&request->group->under_way, request);
    psr_matching_leave(request);
    if (request->ended)
        tell_no_more(request->group, request);
}

static psr_err of_group(const psr_group *group, const psr_message *message, psr_tag tag)
{
    if (tag.epoch == group->options.epoch && tag.group == group->options.id)
        return PSR_OK;
    return psr_violation(message, "this is group %" PRIu32 " of epoch %" PRIu32, group->options.id,
                         group->options.epoch);
}

/* Most slices of one rank, and of all others that come through it in rings: each rank has a window
 * on its way, or one slice of each operation. */
static uint32_t ahead_most(const psr_group *group)
{
    const uint32_t window = group->options.window, others = group->options.ranks - 1;
    return PSR_AHEAD_OPERATIONS * window + others * (window + PSR_AHEAD_OPERATIONS);
}

/* The same of persistent operations that every rank starts. Slices that go together pass the
 * window, by all but one. */
static uint32_t unasked_most(const psr_group *group)
{
    const size_t window = group->options.window, others = group->options.ranks - 1;
    const size_t most = others * (window - 1 + group->slices_together);
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

static psr_err take_values(psr_group *group, uint32_t from, psr_message **message)
{
    psr_msg_values says;
    PSR_TRY(psr_msg_values_read(*message, &says));
    PSR_TRY(of_group(group, *message, says.tag));
    psr_request *r = psr_request_index_find(&group->under_way, says.tag, from, false);
    if (r == NULL && says.tag.slot == 0 && says.tag.round > group->calls)
        return psr_group_keep(group, from, PSR_KEPT_VALUES, ahead_most(group), message);
    if (r == NULL && group->options.starts_all && says.tag.slot > 0)
        return psr_group_keep(group, from, PSR_KEPT_VALUES, unasked_most(group), message);
    if (r == NULL && says.tag.slot == 0)
        return of_ended_call(group, from, says.tag, &says, *message);
    if (r == NULL)
        return psr_violation(*message, "no call here waits for it");
    if (r->is_message)
        PSR_TRY(psr_matching_count(group, r, &says));
    if (!psr_call_same(&says.call, &r->says))
        return says.tag.slot == 0
                   ? mismatch_in_order(group, says.tag, from, &says, &r->says)
                   : psr_group_mismatch(group, says.tag, from, true, &says.call, &r->says);
    psr_stream *in = psr_request_in(r, from);
    if (in == NULL)
        return psr_violation(*message,
                             "rank %" PRIu32 " expects nothing from rank %" PRIu32 " in this %s",
                             psr_group_name(group, group->options.rank),
                             psr_group_name(group, from), psr_kind_name(r->call.kind));
    PSR_TRY(psr_matching_shown(group, in));
    PSR_TRY(psr_request_values(r, in, &says, message));
    psr_group_leave_when_done(group, r);
    return PSR_OK;
}

/* The first CREDIT of a message: it belongs to no send yet. */
static psr_err take_ticket(psr_group *group, uint32_t from, const psr_msg_credit *says,
                           psr_message **message, psr_request **ret_send)
{
    psr_request *r = NULL;
    PSR_TRY(psr_matching_ticket(group, from, says, *message, &r));
    if (r == NULL && group->peers[from].listened)
        return psr_violation(*message, "it said LISTEN, and this message was not offered to it");
    if (r == NULL)
        return psr_group_keep(group, from, PSR_KEPT_CREDITS, PSR_CREDITS_KEPT, message);
    *ret_send = r;
    return PSR_OK;
}

static psr_err credit(psr_group *group, psr_request *r, uint32_t from, const psr_msg_credit *says,
                      const psr_message *message)
{
    psr_stream *out = psr_request_out(r, from);
    if (out == NULL)
        return psr_violation(message, "rank %" PRIu32 " sends rank %" PRIu32 " nothing in this %s",
                             psr_group_name(group, group->options.rank),
                             psr_group_name(group, from), psr_kind_name(r->call.kind));
    PSR_TRY(psr_matching_credited(group, out));
    PSR_TRY(psr_request_credit(r, out, says, message));
    psr_group_leave_when_done(group, r);
    return PSR_OK;
}

static psr_err take_credit(psr_group *group, uint32_t from, psr_message **message)
{
    psr_msg_credit says;
    PSR_TRY(psr_msg_credit_read(*message, &says));
    PSR_TRY(of_group(group, *message, says.tag));
    psr_request *r = psr_request_index_find(&group->under_way, says.tag, from, true);
    if (r == NULL && says.tag.slot > PSR_MESSAGE_TAG_MAX) {
        PSR_TRY(take_ticket(group, from, &says, message, &r));
        return r != NULL ? credit(group, r, from, &says, *message) : PSR_OK;
    }
    if (r == NULL && says.tag.slot > 0)
        return psr_group_keep(group, from, PSR_KEPT_CREDITS, PSR_CREDITS_KEPT, message);
    if (r == NULL)
        return of_ended_call(group, from, says.tag, &(psr_msg_values){.call = says.call}, *message);
    if (r->is_message ? !psr_call_fits(&says.call, &r->says) : !psr_call_same(&says.call, &r->says))
        return psr_group_mismatch(group, says.tag, from, false, &says.call, &r->says);
    return credit(group, r, from, &says, *message);
}

static psr_err take_ahead(psr_group *group, uint32_t from, const psr_message *message)
{
    psr_msg_ahead says;
    PSR_TRY(psr_msg_ahead_read(message, &says));
    PSR_TRY(of_group(group, message, says.tag));
    psr_group_peer *peer = &group->peers[from];
    if (says.tag.slot != 0 || says.tag.round != 0 || says.operations <= peer->allowed_operations)
        return psr_violation(message, "%" PRIu64 " operations were allowed before",
                             peer->allowed_operations);
    peer->allowed_operations = says.operations;
    psr_request *r = peer->held;
    for (psr_request *next; r != NULL; r = next) {
        next = r->next;
        const psr_stream *out = r->tag.slot == 0 ? psr_request_out(r, from) : NULL;
        if (out == NULL)
            continue;
        if (out->ordinal >= says.operations)
            break;
        PSR_TRY(psr_request_advance(r));
        psr_group_leave_when_done(group, r);
    }
    peer->held = r;
    return PSR_OK;
}

static psr_err take_by_type(psr_group *group, uint32_t from, psr_message **message)
{
    switch ((*message)->head.type) {
    case PSR_MSG_VALUES:
        return take_values(group, from, message);
    case PSR_MSG_CREDIT:
        return take_credit(group, from, message);
    case PSR_MSG_AHEAD:
        return take_ahead(group, from, *message);
    case PSR_MSG_LISTEN:
        PSR_TRY(of_group(group, *message, psr_msg_tag(*message)));
        return psr_matching_take_listen(group, from, *message);
    case PSR_MSG_OFFER:
        PSR_TRY(of_group(group, *message, psr_msg_tag(*message)));
        return psr_matching_take_offer(group, from, message);
    default:
        return psr_violation(*message, "a group hears VALUES, CREDIT, AHEAD, LISTEN and OFFER");
    }
}

static psr_err take(psr_group *group, uint32_t from, psr_message **message)
{
    psr_err err = take_by_type(group, from, message);
    if (err == PSR_ERR_MISMATCH || err == PSR_ERR_PROTOCOL) {
        group->failed = true;
        group->failed_of = from;
    }
    return err;
}

bool psr_group_failed_of(const psr_group *group, psr_peer *ret_member)
{
    if (group->failed)
        *ret_member = group->peers[group->failed_of].name;
    return group->failed;
}

psr_err psr_group_message(psr_group *group, psr_message **message)
{
    uint32_t from = 0;
    psr_err err = rank_of(group, *message, &from);
    if (err == PSR_OK)
        err = take(group, from, message);
    psr_message_free(message); /* NULL if it is kept */
    return err;
}

/* ---- starting ---- */

static void number(psr_group *group, psr_request *r)
{
    if (r->persistent) {
        r->tag.round++;
        return;
    }
    if (r->call.kind == PSR_KIND_BARRIER && group->calls > 0) {
        r->says.count = group->calls_digest;
        r->before = *kept_call(group, group->calls);
    }
    r->tag.round = ++group->calls;
    group->uncounted += r->uncounted;
    group->kept_calls[r->tag.round % PSR_CALLS_KEPT] = r->says;
    group->calls_digest = psr_call_digest_on(group->calls_digest, &r->says);
}

/* A rank that only sends in the order of calls, and receives nothing, is allowed more from time to
 * time. */
static psr_err hear_operation(psr_group *group, uint32_t from)
{
    psr_group_peer *peer = &group->peers[from];
    if (++peer->heard_operations % (PSR_AHEAD_OPERATIONS / 2) != 0)
        return PSR_OK;
    psr_head head = psr_msg_ahead_head(
        &(psr_msg_ahead){.tag = {.epoch = group->options.epoch, .group = group->options.id},
                         .operations = peer->heard_operations + PSR_AHEAD_OPERATIONS});
    const psr_outbox *outbox = &group->options.outbox;
    return outbox->send(outbox->context, peer->name, &head, NULL);
}

/* Tells the ranks that send that the operation has begun here. */
static psr_err greet(psr_group *group, psr_request *r)
{
    for (uint32_t i = 0; i < r->out_count; i++) {
        psr_group_peer *to = &group->peers[r->out[i].peer];
        const psr_stream *first = psr_request_out(r, r->out[i].peer);
        r->out[i].ordinal = first == &r->out[i] ? to->sent_operations++ : first->ordinal;
        if (to->held == NULL && r->out[i].ordinal >= to->allowed_operations)
            to->held = r;
    }
    for (uint32_t i = 0; i < r->in_count; i++)
        if (psr_request_in(r, r->in[i].peer) == &r->in[i])
            PSR_TRY(hear_operation(group, r->in[i].peer));
    return PSR_OK;
}

/* Takes the messages that came before it began. */
static psr_err take_kept(psr_group *group, const psr_request *r)
{
    const psr_queue_key key = key_of_kept(r->tag, 0);
    for (psr_kept *k;
         (k = PSR_QUEUED_OF(psr_queues_first(&group->kept, key), psr_kept, queued)) != NULL;) {
        uint32_t from = k->from;
        psr_message *message = unkeep(group, k);
        psr_err err = take(group, from, &message);
        psr_message_free(&message);
        if (err != PSR_OK)
            return err;
    }
    return PSR_OK;
}

psr_err psr_group_take_kept_ticket(psr_group *group, psr_request *send)
{
    const psr_queue_key key = key_of_kept(send->tag, send->peer);
    psr_kept *k = PSR_QUEUED_OF(psr_queues_first(&group->kept, key), psr_kept, queued);
    if (k == NULL)
        return PSR_OK;
    psr_message *message = unkeep(group, k);
    psr_err err = take(group, send->peer, &message);
    psr_message_free(&message);
    return err;
}

/* A persistent operation, or one in the order of calls. */
static psr_err start_operation(psr_group *group, psr_request *r)
{
    psr_request_index_name(&group->under_way, r);
    PSR_TRY(r->tag.slot == 0 ? greet(group, r) : psr_matching_open(group, r));
    PSR_TRY(psr_request_advance(r));
    psr_group_leave_when_done(group, r);
    PSR_TRY(take_kept(group, r));
    return r->tag.slot > 0 ? psr_matching_opened(group, r) : PSR_OK;
}

psr_err psr_request_start(psr_request *request)
{
    assert(!request->active);
    psr_group *group = request->group;
    if (!request->is_message)
        number(group, request);
    psr_request_begin(request);
    psr_request_index_add(&group->under_way, request);
    return request->is_message ? psr_matching_start(group, request)
                               : start_operation(group, request);
}

psr_err psr_request_start_round(psr_request *request, uint64_t round, const void *send,
                                void *receive)
{
    assert(request->persistent && !request->active);
    request->areas[PSR_AREA_SEND].read = send;
    request->areas[PSR_AREA_RECEIVE] = (psr_request_area){.read = receive, .write = receive};
    request->tag.round = round - 1;
    return psr_request_start(request);
}

const psr_request *psr_group_next(const psr_group *group, const psr_request *before)
{
    return before != NULL ? before->next : group->under_way.first;
}

void *psr_request_owner(const psr_request *request)
{
    return request->owner;
}

/* ---- beginning and end ---- */

/* By insertion: members are mostly in order already. USAGE: one is listed twice. */
static psr_err sort_names(psr_group *group)
{
    for (uint32_t i = 0; i < group->options.ranks; i++) {
        uint32_t at = i;
        for (; at > 0; at--) {
            int order =
                compare_names(group->peers[group->by_name[at - 1]].name, group->peers[i].name);
            if (order == 0)
                return psr_fail(PSR_ERR_USAGE, "%s %" PRIu32 " is two ranks of group %" PRIu32,
                                psr_role_name(group->peers[i].name.role), group->peers[i].name.rank,
                                group->options.id);
            if (order < 0)
                break;
            group->by_name[at] = group->by_name[at - 1];
        }
        group->by_name[at] = i;
    }
    return PSR_OK;
}

static psr_err open_parts(psr_group *group)
{
    uint32_t n = group->options.ranks;
    group->peers = calloc(n, sizeof *group->peers);
    group->by_name = calloc(n, sizeof *group->by_name);
    if (group->peers == NULL || group->by_name == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %" PRIu32 " ranks", n);
    for (uint32_t r = 0; r < n; r++)
        group->peers[r] = (psr_group_peer){.name = group->options.members[r],
                                           .allowed_operations = PSR_AHEAD_OPERATIONS};
    group->options.members = NULL;
    return sort_names(group);
}

psr_err psr_group_new(const psr_group_options *options, psr_group **ret_group)
{
    assert(options->rank < options->ranks && options->window > 0 &&
           options->slice_bytes >= sizeof(double) && options->slice_bytes % sizeof(double) == 0 &&
           options->slice_bytes <= PSR_PAYLOAD_BYTES_MAX);
    psr_group *group = calloc(1, sizeof *group);
    if (group == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %" PRIu32 " ranks",
                        options->ranks);
    group->options = *options;
    group->slices_together = 1;
    psr_err err = open_parts(group);
    if (err != PSR_OK) {
        psr_group_free(group);
        return err;
    }
    *ret_group = group;
    return PSR_OK;
}

void psr_group_free(psr_group *group)
{
    if (group == NULL)
        return;
    while (group->first_kept != NULL) {
        psr_message *message = unkeep(group, group->first_kept);
        psr_message_free(&message);
    }
    psr_queues_done(&group->kept);
    psr_matching_done(group);
    for (psr_group_encoder *e; (e = group->encoders) != NULL; free(e)) {
        group->encoders = e->next;
        psr_encoder_free(&e->encoder);
    }
    psr_group_free_fold(&group->fold);
    free(group->decoded);
    psr_request_index_done(&group->under_way);
    free(group->peers);
    free(group->by_name);
    free(group);
}

psr_group_load psr_group_load_of(const psr_group *group)
{
    const psr_queues *all[] = {&group->kept, &group->posted, &group->sends, &group->offers,
                               &group->under_way.by_tag};
    psr_group_load load = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        load.keys += all[i]->count;
        load.visited += all[i]->visited;
    }
    for (const psr_request *r = group->under_way.first; r != NULL; r = r->next)
        load.requests++;
    for (const psr_kept *k = group->first_kept; k != NULL; k = k->next)
        load.kept++;
    for (uint32_t r = 0; r < group->options.ranks; r++)
        load.offers += group->peers[r].kept[PSR_KEPT_OFFERS];
    return load;
}
