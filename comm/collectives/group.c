/* Finds the operation that a message is of, keeps what comes too early, and numbers operations. */
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
    return a.role != b.role ? (a.role < b.role ? -1 : 1) : a.rank != b.rank ? (a.rank < b.rank ? -1 : 1) : 0;
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
    return psr_violation(message, "it is no other rank of group %" PRIu32, group->options.id);
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
        snprintf(text, size, "start %" PRIu64 " of persistent operation %" PRIu32 "%s", tag.round, tag.slot,
                 of);
    else
        snprintf(text, size, "message %" PRIu64 " with tag %" PRIu32 "%s", tag.round,
                 tag.slot - PSR_MESSAGE_TAG_MAX - 1, of);
}

static bool same_call(const psr_msg_call *a, const psr_msg_call *b)
{
    return a->word == b->word && a->root == b->root && a->count == b->count;
}

/* they_send: of the message between two ranks that this is about. */
static psr_err mismatch(const psr_group *group, psr_tag tag, uint32_t from, bool they_send,
                        const psr_msg_call *theirs, const psr_msg_call *ours)
{
    char where[224], they[128], we[128];
    bool counts = theirs->word == ours->word && theirs->root == ours->root;
    describe_tag(group, tag, where, sizeof where);
    psr_call_describe(theirs, !they_send, they, sizeof they);
    psr_call_describe(ours, they_send, we, sizeof we);
    return psr_fail(PSR_ERR_MISMATCH, "%s: rank %" PRIu32 " calls %s, rank %" PRIu32 " calls %s%s", where,
                    psr_group_name(group, from), they, psr_group_name(group, group->options.rank), we,
                    counts && psr_call_varies(ours) ? ": their arrays of counts differ" : "");
}

static const psr_msg_call *kept_call(const psr_group *group, uint64_t round)
{
    return &group->kept_calls[round % PSR_CALLS_KEPT];
}

/* It is one of the last in the order of calls. */
static bool is_kept(const psr_group *group, uint64_t round)
{
    return round > 0 && round <= group->calls && group->calls - round < PSR_CALLS_KEPT;
}

/* Both ranks are in one call of the order. Of barriers it is the calls before that differ: the last ones, or some that are no longer known. */
static psr_err mismatch_in_order(const psr_group *group, psr_tag tag, uint32_t from,
                                 const psr_msg_values *says, const psr_msg_call *ours)
{
    psr_tag last = tag;
    last.round--;
    if (!psr_call_is_barrier(&says->call) || !psr_call_is_barrier(ours))
        return mismatch(group, tag, from, true, &says->call,
                        ours); /* in the order of calls are no messages */
    if (is_kept(group, last.round) && !same_call(&says->before, kept_call(group, last.round)))
        return mismatch(group, last, from, true, &says->before, kept_call(group, last.round));
    char where[224];
    describe_tag(group, tag, where, sizeof where);
    return psr_fail(PSR_ERR_MISMATCH,
                    "%s: rank %" PRIu32 " and rank %" PRIu32
                    " call barrier, and some time before it they called different things",
                    where, psr_group_name(group, from), psr_group_name(group, group->options.rank));
}

/* ---- which operation ---- */

/* A message of the order of calls whose operation is not under way any more: another call was meant, or it came twice. */
static psr_err of_ended_call(const psr_group *group, uint32_t from, psr_tag tag, const psr_msg_values *says,
                             const psr_message *message)
{
    if (is_kept(group, tag.round) && !same_call(&says->call, kept_call(group, tag.round)))
        return mismatch_in_order(group, tag, from, says, kept_call(group, tag.round));
    return psr_violation(message, "of %" PRIu64 " calls that were begun here that one waits for nothing",
                         group->calls);
}

static psr_err keep(psr_group *group, uint32_t from, uint32_t key, uint32_t most, psr_message **message)
{
    if (group->peers[from].kept[key] >= most)
        return psr_violation(*message, "%" PRIu32 " such messages are kept already of what is not begun here",
                             most);
    group->peers[from].kept[key]++;
    group->early_count[key]++;
    psr_early_put(group->early, key, message);
    return PSR_OK;
}

/* ---- messages ---- */

static void leave_when_done(psr_group *group, psr_request *request)
{
    if (request->active)
        return;
    psr_request_index_remove(&group->under_way, request);
    if (request->ended)
        return;
    request->ended = true;
    request->next_ended = NULL;
    *(group->last_ended != NULL ? &group->last_ended->next_ended : &group->first_ended) = request;
    group->last_ended = request;
}

/* Of the first at once, which psr_group_take_ended takes. */
static void tell_no_more(psr_group *group, psr_request *request)
{
    psr_request **at = &group->first_ended, *before = NULL;
    for (; *at != request; at = &(*at)->next_ended)
        before = *at;
    *at = request->next_ended;
    if (group->last_ended == request)
        group->last_ended = before;
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
    psr_request_index_remove(&request->group->under_way, request);
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

static psr_err take_values(psr_group *group, uint32_t from, psr_message **message)
{
    psr_msg_values says;
    PSR_TRY(psr_msg_values_read(*message, &says));
    PSR_TRY(of_group(group, *message, says.tag));
    psr_request *r = psr_request_index_find(&group->under_way, says.tag, from, false);
    if (r == NULL && says.tag.slot == 0 && says.tag.round > group->calls)
        return keep(group, from, PSR_KEPT_VALUES, PSR_AHEAD_OPERATIONS * group->options.window, message);
    if (r == NULL && says.tag.slot == 0)
        return of_ended_call(group, from, says.tag, &says, *message);
    if (r == NULL)
        return psr_violation(*message, "nothing such was asked for");
    if (!same_call(&says.call, &r->says))
        return says.tag.slot == 0 ? mismatch_in_order(group, says.tag, from, &says, &r->says)
                                  : mismatch(group, says.tag, from, true, &says.call, &r->says);
    psr_stream *in = psr_request_in(r, from);
    if (in == NULL)
        return psr_violation(*message, "rank %" PRIu32 " expects nothing of rank %" PRIu32 " in this %s",
                             psr_group_name(group, group->options.rank), psr_group_name(group, from),
                             psr_kind_name(r->call.kind));
    PSR_TRY(psr_request_values(r, in, &says, message));
    leave_when_done(group, r);
    return PSR_OK;
}

static psr_err take_credit(psr_group *group, uint32_t from, psr_message **message)
{
    psr_msg_credit says;
    PSR_TRY(psr_msg_credit_read(*message, &says));
    PSR_TRY(of_group(group, *message, says.tag));
    psr_request *r = psr_request_index_find(&group->under_way, says.tag, from, true);
    if (r == NULL && says.tag.slot > 0)
        return keep(group, from, PSR_KEPT_CREDITS, PSR_CREDITS_KEPT, message);
    if (r == NULL)
        return of_ended_call(group, from, says.tag, &(psr_msg_values){.call = says.call}, *message);
    if (!same_call(&says.call, &r->says))
        return mismatch(group, says.tag, from, false, &says.call, &r->says);
    psr_stream *out = psr_request_out(r, from);
    if (out == NULL)
        return psr_violation(*message, "rank %" PRIu32 " sends rank %" PRIu32 " nothing in this %s",
                             psr_group_name(group, group->options.rank), psr_group_name(group, from),
                             psr_kind_name(r->call.kind));
    PSR_TRY(psr_request_credit(r, out, &says, *message));
    leave_when_done(group, r);
    return PSR_OK;
}

static psr_err take_ahead(psr_group *group, uint32_t from, const psr_message *message)
{
    psr_msg_ahead says;
    PSR_TRY(psr_msg_ahead_read(message, &says));
    PSR_TRY(of_group(group, message, says.tag));
    psr_group_peer *peer = &group->peers[from];
    if (says.tag.slot != 0 || says.tag.round != 0 || says.operations <= peer->allowed_operations)
        return psr_violation(message, "%" PRIu64 " were allowed before", peer->allowed_operations);
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
        leave_when_done(group, r);
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
    default:
        return psr_violation(*message, "a group hears VALUES, CREDIT and AHEAD");
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
    psr_message_free(message); /* NULL when kept */
    return err;
}

/* ---- starting ---- */

static psr_err number(psr_group *group, psr_request *r)
{
    if (r->is_message)
        return psr_message_counts_next(&group->message_counts, r->peer, r->tag.slot,
                                       r->call.kind == PSR_KIND_RECEIVE, &r->tag.round);
    if (r->persistent) {
        r->tag.round++;
        return PSR_OK;
    }
    if (r->call.kind == PSR_KIND_BARRIER && group->calls > 0) {
        r->says.count = group->calls_digest;
        r->before = *kept_call(group, group->calls);
    }
    r->tag.round = ++group->calls;
    group->uncounted += r->uncounted;
    group->kept_calls[r->tag.round % PSR_CALLS_KEPT] = r->says;
    group->calls_digest = psr_call_digest_on(group->calls_digest, &r->says);
    return PSR_OK;
}

/* Whoever sends in every operation of the order, and hears nothing, is let on from time to time. */
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

/* Tells those who send that it is begun here. */
static psr_err greet(psr_group *group, psr_request *r)
{
    for (uint32_t i = 0; r->tag.slot == 0 && i < r->out_count; i++) {
        psr_group_peer *to = &group->peers[r->out[i].peer];
        r->out[i].ordinal = to->sent_operations++;
        if (to->held == NULL && r->out[i].ordinal >= to->allowed_operations)
            to->held = r;
    }
    for (uint32_t i = 0; i < r->in_count; i++)
        PSR_TRY(r->tag.slot == 0 ? hear_operation(group, r->in[i].peer)
                                 : psr_request_grant(r, &r->in[i], group->options.window));
    return PSR_OK;
}

static bool is_of(const psr_group *group, const psr_request *r, uint32_t key, const psr_message *message)
{
    uint32_t from = 0;
    return psr_msg_tag_is(message, r->tag) && rank_of(group, message, &from) == PSR_OK &&
           (!r->is_message ||
            (r->peer == from && (r->call.kind == PSR_KIND_SEND) == (key == PSR_KEPT_CREDITS)));
}

/* What came of it before. Each that is kept goes round once. */
static psr_err take_kept(psr_group *group, const psr_request *r, uint32_t key)
{
    for (size_t left = group->early_count[key]; left > 0; left--) {
        psr_message *message = psr_early_take(group->early, key);
        if (!is_of(group, r, key, message)) {
            psr_early_put(group->early, key, &message);
            continue;
        }
        uint32_t from = 0;
        group->early_count[key]--;
        psr_err err = rank_of(group, message, &from);
        if (err == PSR_OK) {
            group->peers[from].kept[key]--;
            err = take(group, from, &message);
        }
        psr_message_free(&message);
        if (err != PSR_OK)
            return err;
    }
    return PSR_OK;
}

/* A message to oneself crosses no wire: whichever end begins last finds the other one. */
static psr_err meet_oneself(psr_group *group, psr_request *r)
{
    bool sends = r->call.kind == PSR_KIND_SEND;
    psr_request *other = psr_request_index_find(&group->under_way, r->tag, r->peer, !sends);
    if (other == NULL)
        return PSR_OK;
    psr_request *from = sends ? r : other, *to = sends ? other : r;
    if (!same_call(&from->says, &to->says)) {
        group->failed = true;
        group->failed_of = r->peer;
        return mismatch(group, r->tag, r->peer, true, &from->says, &to->says);
    }
    psr_request_pass(from, to);
    leave_when_done(group, from);
    leave_when_done(group, to);
    return PSR_OK;
}

psr_err psr_request_start(psr_request *request)
{
    assert(!request->active);
    psr_group *group = request->group;
    PSR_TRY(number(group, request));
    psr_request_begin(request);
    psr_request_index_add(&group->under_way, request);
    if (request->is_message && request->peer == group->options.rank)
        return meet_oneself(group, request);
    PSR_TRY(greet(group, request));
    PSR_TRY(psr_request_advance(request));
    leave_when_done(group, request);
    return take_kept(group, request, request->tag.slot == 0 ? PSR_KEPT_VALUES : PSR_KEPT_CREDITS);
}

bool psr_group_waits(const psr_group *group, psr_waiting *ret_waiting, const psr_request **ret_request)
{
    if (group->under_way.first == NULL)
        return false;
    *ret_request = group->under_way.first;
    return psr_request_waits(group->under_way.first, ret_waiting);
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

/* By insertion: members stand mostly in order. USAGE: one stands there twice. */
static psr_err sort_names(psr_group *group)
{
    for (uint32_t i = 0; i < group->options.ranks; i++) {
        uint32_t at = i;
        for (; at > 0; at--) {
            int order = compare_names(group->peers[group->by_name[at - 1]].name, group->peers[i].name);
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
        group->peers[r] =
            (psr_group_peer){.name = group->options.members[r], .allowed_operations = PSR_AHEAD_OPERATIONS};
    group->options.members = NULL;
    PSR_TRY(sort_names(group));
    PSR_TRY(psr_request_index_init(&group->under_way));
    return psr_early_new(PSR_KEPT, SIZE_MAX, &group->early); /* peers[].kept bounds it */
}

psr_err psr_group_new(const psr_group_options *options, psr_group **ret_group)
{
    assert(options->rank < options->ranks && options->window > 0 && options->slice_bytes >= sizeof(double) &&
           options->slice_bytes % sizeof(double) == 0 && options->slice_bytes <= PSR_PAYLOAD_BYTES_MAX);
    psr_group *group = calloc(1, sizeof *group);
    if (group == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %" PRIu32 " ranks", options->ranks);
    group->options = *options;
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
    psr_early_free(group->early);
    psr_request_index_done(&group->under_way);
    free(group->peers);
    free(group->by_name);
    psr_message_counts_done(&group->message_counts);
    free(group);
}
