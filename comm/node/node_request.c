/* The requests of a node: how each is made, started and ended. */
#include "comm/node/node_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* " from any rank, tag 7" */
static size_t describe_ends(const psr_node_request *r, char *text, size_t size)
{
    const psr_request_options *o = &r->options;
    char peer[32] = "any rank", tag[32] = "any tag";
    if (o->peer != PSR_RANK_ANY)
        snprintf(peer, sizeof peer, "rank %" PRIu32, r->group->ranks[o->peer]);
    if (o->tag != PSR_MESSAGE_TAG_ANY)
        snprintf(tag, sizeof tag, "tag %" PRIu32, o->tag);
    return (size_t)snprintf(text, size, " %s %s, %s", o->kind == PSR_KIND_SEND ? "to" : "from",
                            peer, tag);
}

void psr_node_request_describe(const psr_node_request *r, char *text, size_t size)
{
    if (r->of_table) {
        psr_node_table_describe(r->group->table, &r->call, text, size);
        size_t used = strlen(text);
        if (r->name[0] != '\0')
            snprintf(text + used, size - used, " (%s)", r->name);
        return;
    }
    const psr_request_options *o = &r->options;
    char of[128];
    psr_group_describe(r->group->group, of, sizeof of);
    size_t used =
        (size_t)snprintf(text, size, "%s", o->within != NULL ? o->within : psr_kind_name(o->kind));
    if (r->number > 0 && used < size)
        used += (size_t)snprintf(text + used, size - used, " %" PRIu64, r->number);
    if (o->within == NULL && psr_kind_is_message(o->kind) && used < size)
        used += describe_ends(r, text + used, size - used);
    if (used < size)
        used += (size_t)snprintf(text + used, size - used, "%s", of);
    if (r->name[0] != '\0' && used < size)
        snprintf(text + used, size - used, " (%s)", r->name);
}

/* ---- how requests end ---- */

/* The coordinator forgets this rank's line about it. */
static void take_complaint_back(psr_node *node, const psr_node_request *r)
{
    if (node->complained_of != r)
        return;
    node->complained_of = NULL;
    psr_node_tell(node,
                  &(psr_failure){.err = PSR_OK,
                                 .scope = PSR_SCOPE_GROUP,
                                 .epoch = r->group->epoch,
                                 .group = r->group->id,
                                 .rank = PSR_RANK_ANY,
                                 .other = PSR_RANK_ANY,
                                 .number = r->number},
                  0);
}

/* Most requests never have a failure of their own, and it is as large as all the rest of a request.
 * If there is no memory for it, that is the failure. */
static const psr_failure *own_failure(psr_node_request *r, const psr_failure *failure)
{
    static const psr_failure no_memory = {.err = PSR_ERR_NOMEM,
                                          .scope = PSR_SCOPE_GROUP,
                                          .rank = PSR_RANK_ANY,
                                          .other = PSR_RANK_ANY,
                                          .line = "no memory to say how an operation failed"};
    if (r->own == NULL)
        r->own = malloc(sizeof *r->own);
    if (r->own == NULL)
        return &no_memory;
    *r->own = *failure;
    return r->own;
}

/* The request whose step this is ends as the step did. */
static void end_whole(psr_node_request *step, const psr_failure *failure)
{
    psr_node_request *whole = step->step_of;
    step->step_of = NULL;
    if (whole == NULL)
        return;
    whole->next_step = NULL;
    if (!whole->under_way)
        return;
    psr_node_request_end(whole, failure != NULL ? own_failure(whole, failure) : NULL);
}

void psr_node_request_end(psr_node_request *r, const psr_failure *failure)
{
    r->group->under_way -= r->under_way;
    r->group->node->under_way -= r->under_way;
    psr_node_due_remove(r->group->node, r);
    r->under_way = false;
    r->failure = failure;
    if (r->group->node->asked == r)
        r->group->node->asked = NULL;
    take_complaint_back(r->group->node, r);
    if (r->next_step != NULL)
        r->next_step->step_of = NULL;
    r->next_step = NULL;
    atomic_store_explicit(&r->state,
                          failure != NULL ? PSR_NODE_REQUEST_FAILED : PSR_NODE_REQUEST_DONE,
                          memory_order_release);
    end_whole(r, failure);
}

/* ---- what is lent when a request has ended ---- */

/* It has ended well. Its owner is told when all that it has lent is back, for which the others have
 * its deadline, as for every other wait. */
static void end_well(psr_node_request *r, int64_t now_ms)
{
    psr_node *node = r->group->node;
    psr_node_request_end(r, NULL);
    if (psr_node_request_lent(r) == 0)
        return;
    r->owed = true;
    r->since_ms = psr_presence_clock_ms(&node->presence, now_ms);
    r->due_ms = r->since_ms > INT64_MAX - r->deadline_ms ? INT64_MAX : r->since_ms + r->deadline_ms;
    r->wait_on_until_ms = r->since_ms;
    psr_node_due_add(node, r);
}

void psr_node_request_paid(psr_node_request *r)
{
    if (!r->owed)
        return;
    r->owed = false;
    psr_node_due_remove(r->group->node, r);
    if (r->group->node->asked == r)
        r->group->node->asked = NULL;
    take_complaint_back(r->group->node, r);
}

/* The request is done; its next step begins. */
static void go_on(psr_node_request *r, int64_t now_ms)
{
    psr_node *node = r->group->node;
    psr_node_request *next = NULL;
    psr_err err = r->then != NULL ? r->then(r->then_context, node, now_ms, &next) : PSR_OK;
    if (err != PSR_OK) {
        psr_node_request_fail_alone(r, err);
        return;
    }
    if (next == NULL) {
        end_well(r, now_ms);
        return;
    }
    r->next_step = next;
    next->step_of = r;
    psr_node_request_begins(next);
    psr_node_request_add(next);
    psr_node_request_start(node, next, now_ms);
}

bool psr_node_request_waits_for_any(const psr_node_request *r)
{
    return r->request != NULL && psr_request_waits_for_any(r->request);
}

bool psr_node_request_lent_to(const psr_node_request *r, psr_peer *ret_peer)
{
    if (r->of_table)
        return psr_node_table_lent_to(r->group->table, &r->call, ret_peer);
    return r->request != NULL && psr_request_lent_to(r->request, ret_peer);
}

bool psr_node_request_waits(const psr_node_request *r, psr_waiting *ret_waiting)
{
    if (r->owed)
        return psr_node_request_lent_to(r, &ret_waiting->peer);
    if (r->next_step != NULL)
        return psr_node_request_waits(r->next_step, ret_waiting);
    return r->of_table ? psr_node_table_call_waits(r->group->table, &r->call, ret_waiting)
                       : psr_request_waits(r->request, ret_waiting);
}

/* A table does not say which of its calls are done, and has few, so all are looked at. */
void psr_node_group_end_done(psr_node_group *g, int64_t now_ms)
{
    bool any = false;
    for (psr_node_request *r; (r = psr_group_take_ended(g->group)) != NULL; any = true)
        if (r->under_way)
            go_on(r, now_ms);
    for (psr_node_request *r = g->table != NULL ? g->first : NULL; r != NULL; r = r->next) {
        if (!r->under_way || !r->of_table || !r->call.done)
            continue;
        end_well(r, now_ms);
        any = true;
    }
    if (any)
        g->node->options.changed(g->node->options.context);
}

/* ---- how they begin ---- */

void psr_node_request_fail_alone(psr_node_request *r, psr_err err)
{
    const psr_failure failure =
        psr_node_failure_of_detail(r->group, err, PSR_RANK_ANY, PSR_RANK_ANY, 0);
    psr_node_request_end(r, own_failure(r, &failure));
    r->group->node->options.changed(r->group->node->options.context);
}

psr_err psr_node_request_make(psr_node_request *r)
{
    psr_request *request = NULL;
    if (r->of_table)
        return PSR_OK;
    PSR_TRY(psr_request_new(r->group->group, &r->options, &request));
    r->request = request;
    return PSR_OK;
}

static bool in_order_of_calls(const psr_node_request *r)
{
    return !r->of_table && !r->options.persistent && !psr_kind_is_message(r->options.kind);
}

void psr_node_request_start(psr_node *node, psr_node_request *r, int64_t now_ms)
{
    psr_node_request_paid(r);
    if (r->group->state == PSR_NODE_BROKEN) {
        psr_node_request_end(r, &r->group->failure);
        node->options.changed(node->options.context);
        return;
    }
    psr_err err = r->request == NULL ? psr_node_request_make(r) : PSR_OK;
    if (err != PSR_OK) {
        psr_node_request_fail_alone(r, err);
        return;
    }
    r->since_ms = psr_presence_clock_ms(&node->presence, now_ms);
    r->due_ms = r->since_ms > INT64_MAX - r->deadline_ms ? INT64_MAX : r->since_ms + r->deadline_ms;
    psr_node_due_add(node, r);
    r->number = in_order_of_calls(r) && !r->options.uncounted ? ++r->group->calls : 0;
    r->wait_on_until_ms = r->since_ms;
    r->under_way = true;
    r->group->under_way++;
    node->under_way++;
    if (node->under_way > node->under_way_most)
        node->under_way_most = node->under_way;
    if (r->group->state == PSR_NODE_FOUND)
        return; /* the coordinator's verdict will end it */
    err = r->of_table ? psr_node_table_start(r->group->table, &r->call)
                      : psr_request_start(r->request);
    if (err != PSR_OK) {
        /* The failure is about a message that came before, or about this rank's own. */
        psr_peer of = {PSR_ROLE_WORKER, node->options.rank};
        bool both = psr_group_failed_of(r->group->group, &of) && err == PSR_ERR_MISMATCH;
        psr_failure failure = psr_node_failure_of_detail(
            r->group, err, of.rank, both ? node->options.rank : PSR_RANK_ANY, r->number);
        psr_node_find(node, &failure, now_ms);
        return;
    }
    psr_node_group_end_done(r->group, now_ms);
}

void psr_node_request_add(psr_node_request *r)
{
    psr_node_group *g = r->group;
    r->previous = g->last;
    *(g->last != NULL ? &g->last->next : &g->first) = r;
    g->last = r;
}

void psr_node_request_drop(psr_node_request *r)
{
    psr_node_group *g = r->group;
    psr_node_request_paid(r);
    psr_node_due_remove(g->node, r); /* at the end of its node it may be under way */
    if (r->of_table)
        psr_node_table_forget(g->table, &r->call);
    *(r->previous != NULL ? &r->previous->next : &g->first) = r->next;
    *(r->next != NULL ? &r->next->previous : &g->last) = r->previous;
    psr_node_request_free(r);
}

/* ---- [owner] ---- */

static void *copy(const void *from, size_t count, size_t each, bool *no_memory)
{
    if (from == NULL || count == 0)
        return NULL;
    void *to = calloc(count, each);
    if (to != NULL)
        memcpy(to, from, count * each);
    *no_memory = *no_memory || to == NULL;
    return to;
}

static psr_err copy_arrays(psr_node_request *r)
{
    psr_request_options *o = &r->options;
    bool no_memory = false;
    if (o->compression != NULL) {
        r->compression = *o->compression;
        o->compression = &r->compression;
    }
    if (o->compression != NULL && psr_compression_has_residual(r->compression)) {
        /* one value more, since there may be none */
        o->residual = r->residual = calloc(o->count + 1, sizeof *r->residual);
        no_memory = r->residual == NULL;
    }
    o->counts = r->counts = copy(o->counts, r->group->count, sizeof *r->counts, &no_memory);
    o->send_counts = r->send_counts =
        copy(o->send_counts, r->group->count, sizeof *r->counts, &no_memory);
    o->send_blocks = r->send_blocks =
        copy(o->send_blocks, o->send_block_count, sizeof *r->send_blocks, &no_memory);
    o->receive_blocks = r->receive_blocks =
        copy(o->receive_blocks, o->receive_block_count, sizeof *r->receive_blocks, &no_memory);
    return no_memory ? psr_fail(PSR_ERR_NOMEM, "no memory for %s", psr_kind_name(o->kind)) : PSR_OK;
}

psr_err psr_node_request_new(psr_node_group *group, const psr_request_options *options,
                             int64_t deadline_ms, const char *name, psr_node_request **ret_request)
{
    PSR_TRY(psr_request_check(group->group, options));
    psr_node_request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", psr_kind_name(options->kind));
    r->group = group;
    r->options = *options;
    r->options.owner = r;
    r->deadline_ms = deadline_ms;
    snprintf(r->name, sizeof r->name, "%s", name != NULL ? name : "");
    psr_err err = copy_arrays(r);
    if (err != PSR_OK) {
        psr_node_request_free(r);
        return err;
    }
    *ret_request = r;
    return PSR_OK;
}

void psr_node_request_free(psr_node_request *request)
{
    if (request == NULL)
        return;
    psr_request_free(request->request);
    psr_node_table_call_done(&request->call);
    free(request->counts);
    free(request->send_counts);
    free(request->send_blocks);
    free(request->receive_blocks);
    free(request->residual);
    free(request->own);
    free(request);
}

void psr_node_request_then(psr_node_request *request, psr_node_then *then, void *context)
{
    request->then = then;
    request->then_context = context;
}

bool psr_node_request_came(const psr_node_request *request, uint32_t *ret_from, uint32_t *ret_tag,
                           uint64_t *ret_count, psr_type *ret_type)
{
    const psr_request *made = atomic_load(&request->request);
    return made != NULL && psr_request_came(made, ret_from, ret_tag, ret_count, ret_type);
}

void psr_node_request_open_ended(psr_node_request *request)
{
    request->open_ended = true;
}

psr_node_group *psr_node_request_group(const psr_node_request *request)
{
    return request->group;
}

float *psr_node_request_residual(const psr_node_request *request)
{
    return request->residual;
}

size_t psr_node_request_count(const psr_node_request *request)
{
    return request->options.count;
}

size_t psr_node_request_bytes(const psr_node_request *request)
{
    return request->options.count * psr_type_bytes(request->options.type);
}

static bool lies_in(const void *memory, size_t bytes, const void *data)
{
    const uintptr_t begin = (uintptr_t)memory, at = (uintptr_t)data;
    return data != NULL && at >= begin && at - begin < bytes;
}

static bool any_lies_in(const void *memory, size_t bytes, const psr_block *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (lies_in(memory, bytes, blocks[i].data))
            return true;
    return false;
}

bool psr_node_request_uses(const psr_node_request *request, const void *memory, size_t bytes)
{
    const psr_request_options *o = &request->options;
    if (request->of_table)
        return lies_in(memory, bytes, request->call.task.values) ||
               lies_in(memory, bytes, request->call.task.ret_values);
    return lies_in(memory, bytes, o->send) || lies_in(memory, bytes, o->receive) ||
           any_lies_in(memory, bytes, o->send_blocks, o->send_block_count) ||
           any_lies_in(memory, bytes, o->receive_blocks, o->receive_block_count);
}

uint64_t psr_node_request_number(const psr_node_request *request)
{
    return request->number;
}

void psr_node_request_begins(psr_node_request *request)
{
    atomic_store(&request->state, PSR_NODE_REQUEST_UNDER_WAY);
}

uint32_t psr_node_request_lent(const psr_node_request *request)
{
    if (request->of_table)
        return psr_node_table_lent(request->group->table, &request->call);
    return request->request != NULL ? psr_request_lent(request->request) : 0;
}

bool psr_node_request_ended(const psr_node_request *request)
{
    int state = atomic_load_explicit(&request->state, memory_order_acquire);
    if (state == PSR_NODE_REQUEST_IDLE)
        return true;
    if (state == PSR_NODE_REQUEST_UNDER_WAY)
        return false;
    return psr_node_request_lent(request) == 0;
}

psr_err psr_node_request_status(const psr_node_request *request)
{
    if (atomic_load_explicit(&request->state, memory_order_acquire) != PSR_NODE_REQUEST_FAILED)
        return PSR_OK;
    return psr_fail(request->failure->err, "%s", request->failure->line);
}

const char *psr_node_request_algorithm(const psr_node_request *request)
{
    const psr_request *made = atomic_load(&request->request);
    return made != NULL ? psr_algorithm_name(psr_request_call(made)->algorithm) : NULL;
}
