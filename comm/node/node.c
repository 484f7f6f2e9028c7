#include "comm/node/node.h"

#include "base/clock.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICE_BYTES = 256 << 10,
    WINDOW = 8,    /* slices */
    EARLY_MAX = 8, /* of each rank: of a group that is not open here only its first barrier can have come */
    NAME_BYTES = 64,
    GRACE_MS = 1000, /* for the coordinator's words on what was found here */
};

static const psr_peer coordinator = {PSR_ROLE_SCHEDULER, 0};

typedef enum request_state { IDLE, UNDER_WAY, DONE, FAILED } request_state;

struct psr_node_request {
    psr_node_group *group;
    psr_node_request *next, *previous; /* of the group's */
    psr_request_options options;
    size_t *counts, *send_counts; /* owned, as the blocks: options points to them */
    psr_block *send_blocks, *receive_blocks;
    char name[NAME_BYTES];
    int64_t deadline_ms;
    /* The node's: */
    _Atomic(psr_request *) request; /* made once */
    bool under_way;
    int64_t since_ms; /* present time: its start, or when it was last said that whom it waits for moves */
    uint64_t number;
    /* Both threads': */
    _Atomic int state;    /* request_state; the owner makes it UNDER_WAY, the node ends it */
    psr_failure *failure; /* why it FAILED: own, or the node's; written before state */
    psr_failure own;
};

struct psr_node_group {
    psr_node *node;
    psr_node_group *next;
    uint32_t id, rank, count;
    uint32_t *ranks;   /* of all ranks */
    int64_t *heard_ms; /* [all ranks] present time: its last message of this group */
    psr_group *group;
    psr_node_request *first, *last; /* all that there are */
    uint64_t calls;                 /* of the order of calls, started */
};

typedef enum node_state {
    WHOLE,
    FOUND, /* something, and the coordinator is told */
    BROKEN
} node_state;

struct psr_node {
    psr_node_options options;
    uint32_t ranks;
    node_state state;
    psr_failure found;
    int64_t give_up_ms;      /* FOUND: no verdict will come */
    psr_node_request *asked; /* its deadline has passed, and the coordinator is asked */
    psr_node_group *groups;  /* open */
    uint32_t *closed;        /* ids of groups that were */
    size_t closed_count, closed_capacity;
    psr_early *early; /* of groups that are not open yet */
    psr_presence_clock presence;
    uint64_t moves;
    _Atomic uint64_t step, steps_told;
    psr_failure failure;
    _Atomic bool begun, broken; /* broken: failure is written */
};

/* ---- names ---- */

/* "rank 2 on host7" */
static void name_rank(const psr_node *node, uint32_t rank, char *text, size_t size)
{
    const psr_view_member *member = psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, rank});
    if (member != NULL)
        snprintf(text, size, "rank %" PRIu32 " on %s", rank, member->host);
    else
        snprintf(text, size, "rank %" PRIu32, rank);
}

/* "all_reduce 41", "barrier 2 of group 5", "send (name)" */
static void name_operation(const psr_node_request *r, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s", psr_kind_name(r->options.kind));
    if (r->number > 0 && used < size)
        used += (size_t)snprintf(text + used, size - used, " %" PRIu64, r->number);
    if (r->group->id > 0 && used < size)
        used += (size_t)snprintf(text + used, size - used, " of group %" PRIu32, r->group->id);
    if (r->name[0] != '\0' && used < size)
        snprintf(text + used, size - used, " (%s)", r->name);
}

/* ---- how requests end ---- */

static void end_request(psr_node_request *r, psr_failure *failure)
{
    r->under_way = false;
    r->failure = failure;
    if (r->group->node->asked == r)
        r->group->node->asked = NULL;
    atomic_store_explicit(&r->state, failure != NULL ? FAILED : DONE, memory_order_release);
}

/* Those of the group that an event may have ended. */
static void end_what_is_done(psr_node_group *g)
{
    bool any = false;
    for (psr_node_request *r = g->first; r != NULL; r = r->next) {
        if (!r->under_way || !psr_request_done(r->request))
            continue;
        end_request(r, NULL);
        any = true;
    }
    if (any)
        g->node->options.changed(g->node->options.context);
}

/* ---- how the node breaks ---- */

static void break_with(psr_node *node, const psr_failure *failure)
{
    if (node->state == BROKEN)
        return;
    node->state = BROKEN;
    node->failure = *failure;
    atomic_store_explicit(&node->broken, true, memory_order_release);
    for (uint32_t r = 0; r < node->ranks; r++)
        if (r != node->options.rank)
            node->options.cut(node->options.context, (psr_peer){PSR_ROLE_WORKER, r});
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        for (psr_node_request *r = g->first; r != NULL; r = r->next)
            if (atomic_load(&r->state) == UNDER_WAY)
                end_request(r, &node->failure);
    node->options.changed(node->options.context);
}

static void tell(const psr_node *node, const psr_failure *f, int64_t within_ms)
{
    if (node->options.alone)
        return;
    psr_head head = psr_msg_finding_head(&(psr_msg_failure){.status = f->err,
                                                            .rank = f->rank,
                                                            .other = f->other,
                                                            .number = f->number,
                                                            .within_ms = (uint64_t)within_ms});
    const psr_payload line = {.data = f->line, .bytes = strlen(f->line)};
    const psr_outbox *outbox = &node->options.outbox;
    psr_err told = outbox->send(outbox->context, coordinator, &head, line.bytes > 0 ? &line : NULL);
    (void)told; /* who cannot be told will miss this rank */
}

/* One line for all: of what two ranks see, both tell, and the coordinator chooses. What only this rank sees is its own. */
static void find(psr_node *node, const psr_failure *failure, int64_t now_ms)
{
    if (node->state != WHOLE)
        return;
    tell(node, failure, 0);
    if (node->options.alone || failure->err != PSR_ERR_MISMATCH) {
        break_with(node, failure);
        return;
    }
    node->state = FOUND;
    node->found = *failure;
    int64_t grace_ms = node->options.deadline_ms / 4 < GRACE_MS ? node->options.deadline_ms / 4 : GRACE_MS;
    node->give_up_ms = now_ms + grace_ms;
}

static psr_failure failure_of_detail(psr_err err, uint32_t rank, uint32_t other, uint64_t number)
{
    psr_failure failure = {.err = err, .rank = rank, .other = other, .number = number};
    snprintf(failure.line, sizeof failure.line, "%s", psr_err_detail());
    return failure;
}

void psr_node_fail(psr_node *node, psr_err err, int64_t now_ms)
{
    const psr_failure failure = failure_of_detail(err, PSR_RANK_ANY, PSR_RANK_ANY, 0);
    (void)now_ms;
    break_with(node, &failure);
}

/* ---- requests ---- */

static void fail_alone(psr_node_request *r, psr_err err)
{
    r->own = failure_of_detail(err, PSR_RANK_ANY, PSR_RANK_ANY, 0);
    end_request(r, &r->own);
    r->group->node->options.changed(r->group->node->options.context);
}

/* What could not even be made is its own failure. */
static psr_err make(psr_node_request *r)
{
    psr_request *request = NULL;
    PSR_TRY(psr_request_new(r->group->group, &r->options, &request));
    r->request = request;
    return PSR_OK;
}

static bool in_order_of_calls(const psr_node_request *r)
{
    return !r->options.persistent && r->options.kind != PSR_KIND_SEND && r->options.kind != PSR_KIND_RECEIVE;
}

static void start(psr_node *node, psr_node_request *r, int64_t now_ms)
{
    if (node->state == BROKEN) {
        end_request(r, &node->failure);
        node->options.changed(node->options.context);
        return;
    }
    psr_err err = r->request == NULL ? make(r) : PSR_OK;
    if (err != PSR_OK) {
        fail_alone(r, err);
        return;
    }
    r->number = in_order_of_calls(r) ? ++r->group->calls : 0;
    r->since_ms = psr_presence_clock_ms(&node->presence, now_ms);
    r->under_way = true;
    if (node->state == FOUND)
        return; /* the verdict will end it */
    err = psr_request_start(r->request);
    if (err != PSR_OK) {
        psr_failure failure = failure_of_detail(err, node->options.rank, PSR_RANK_ANY, r->number);
        find(node, &failure, now_ms);
        return;
    }
    end_what_is_done(r->group);
}

static void add_request(psr_node_request *r)
{
    psr_node_group *g = r->group;
    r->previous = g->last;
    *(g->last != NULL ? &g->last->next : &g->first) = r;
    g->last = r;
}

static void free_request(psr_node_request *r)
{
    psr_node_group *g = r->group;
    *(r->previous != NULL ? &r->previous->next : &g->first) = r->next;
    *(r->next != NULL ? &r->next->previous : &g->last) = r->previous;
    psr_node_request_free(r);
}

/* ---- groups ---- */

static psr_node_group *group_of(const psr_node *node, uint32_t id)
{
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        if (g->id == id)
            return g;
    return NULL;
}

static bool was_closed(const psr_node *node, uint32_t id)
{
    for (size_t i = 0; i < node->closed_count; i++)
        if (node->closed[i] == id)
            return true;
    return false;
}

static void take_values(psr_node *node, psr_node_group *g, psr_message **message, int64_t now_ms)
{
    uint32_t from = (*message)->from.rank;
    if ((*message)->from.role == PSR_ROLE_WORKER && from < node->ranks)
        g->heard_ms[from] = psr_presence_clock_ms(&node->presence, now_ms);
    node->moves++;
    psr_err err = psr_group_message(g->group, message);
    if (err != PSR_OK) {
        bool both = err == PSR_ERR_MISMATCH;
        psr_failure failure =
            failure_of_detail(err, from, both ? node->options.rank : PSR_RANK_ANY, both ? g->calls : 0);
        find(node, &failure, now_ms);
        return;
    }
    end_what_is_done(g);
}

static void open_group(psr_node *node, psr_node_group *g, int64_t now_ms)
{
    g->next = node->groups;
    node->groups = g;
    psr_early *before = NULL;
    psr_err err = psr_early_new(1, (size_t)EARLY_MAX * node->ranks, &before);
    if (err != PSR_OK) {
        psr_node_fail(node, err, now_ms);
        return;
    }
    psr_early *all = node->early;
    node->early = before;
    for (psr_message *m; (m = psr_early_take(all, 0)) != NULL;)
        if (psr_msg_group(m) == g->id && node->state == WHOLE)
            take_values(node, g, &m, now_ms);
        else
            psr_early_put(node->early, 0, &m);
    psr_early_free(all);
}

static void free_group(psr_node_group *g)
{
    while (g->first != NULL)
        free_request(g->first);
    psr_node_group_free(g);
}

static void close_group(psr_node *node, psr_node_group *g)
{
    psr_node_group **at = &node->groups;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    if (node->closed_count == node->closed_capacity) {
        size_t larger = node->closed_capacity > 0 ? 2 * node->closed_capacity : 16;
        uint32_t *grown = realloc(node->closed, larger * sizeof *grown);
        if (grown != NULL) {
            node->closed = grown;
            node->closed_capacity = larger;
        }
    }
    /* Without memory for it a late message of the group waits for it in vain. */
    if (node->closed_count < node->closed_capacity)
        node->closed[node->closed_count++] = g->id;
    free_group(g);
}

/* ---- orders ---- */

void psr_node_take(psr_node *node, psr_node_order order, void *object, int64_t now_ms)
{
    node->moves++;
    psr_node_request *r = object;
    switch (order) {
    case PSR_NODE_OPEN_GROUP:
        open_group(node, object, now_ms);
        return;
    case PSR_NODE_CLOSE_GROUP:
        close_group(node, object);
        return;
    case PSR_NODE_MAKE:
    case PSR_NODE_START:
        if (r->previous == NULL && r->group->first != r)
            add_request(r);
        if (order == PSR_NODE_START)
            start(node, r, now_ms);
        else if (node->state != BROKEN) {
            psr_err err = make(r);
            if (err != PSR_OK)
                fail_alone(r, err);
        }
        return;
    case PSR_NODE_FREE:
        if (r->previous == NULL && r->group->first != r)
            add_request(r);
        free_request(r);
        return;
    case PSR_NODE_FIND:
        find(node, object, now_ms);
        free(object);
        return;
    }
}

/* ---- messages ---- */

static psr_failure failure_in(const psr_message *message, const psr_msg_failure *says)
{
    psr_failure failure = {
        .err = says->status, .rank = says->rank, .other = says->other, .number = says->number};
    size_t bytes =
        message->payload_bytes < sizeof failure.line ? message->payload_bytes : sizeof failure.line - 1;
    if (bytes > 0)
        memcpy(failure.line, message->payload, bytes);
    return failure;
}

static void take_verdict(psr_node *node, const psr_message *message, int64_t now_ms)
{
    psr_msg_failure says;
    psr_err err = psr_msg_failure_read(message, &says);
    if (err != PSR_OK) {
        psr_node_fail(node, err, now_ms);
        return;
    }
    if (says.status == PSR_OK) {
        atomic_store(&node->begun, true);
        if (node->asked != NULL)
            node->asked->since_ms = psr_presence_clock_ms(&node->presence, now_ms);
        node->asked = NULL;
        node->options.changed(node->options.context);
        return;
    }
    psr_failure failure = failure_in(message, &says);
    break_with(node, &failure);
}

static psr_err keep_early(psr_node *node, psr_message **message)
{
    uint32_t id = psr_msg_group(*message);
    if (was_closed(node, id))
        return PSR_OK;
    if (psr_early_full(node->early) || (*message)->payload_bytes > 0)
        return psr_violation(*message, "this group is not open here");
    psr_early_put(node->early, 0, message);
    return PSR_OK;
}

static void take_of_rank(psr_node *node, psr_message **message, int64_t now_ms)
{
    psr_message_type type = (*message)->head.type;
    psr_err err = PSR_OK;
    if (node->state != WHOLE)
        return;
    if (type != PSR_MSG_VALUES && type != PSR_MSG_CREDIT && type != PSR_MSG_AHEAD) {
        err = psr_violation(*message, "a rank says VALUES, CREDIT and AHEAD to another");
    } else {
        psr_node_group *g = group_of(node, psr_msg_group(*message));
        if (g != NULL) {
            take_values(node, g, message, now_ms);
            return;
        }
        err = keep_early(node, message);
    }
    if (err != PSR_OK) {
        psr_failure failure = failure_of_detail(err, (*message)->from.rank, PSR_RANK_ANY, 0);
        find(node, &failure, now_ms);
    }
}

void psr_node_message(psr_node *node, psr_message **message, int64_t now_ms)
{
    if (!psr_peer_equal((*message)->from, coordinator))
        take_of_rank(node, message, now_ms);
    else if ((*message)->head.type == PSR_MSG_VERDICT)
        take_verdict(node, *message, now_ms);
    psr_message_free(message);
}

/* ---- time ---- */

/* How much present time a request has left. */
static int64_t left_ms(const psr_node_request *r, int64_t present_ms, psr_waiting *ret_waiting)
{
    int64_t last_ms = r->since_ms;
    if (psr_request_waits(r->request, ret_waiting)) {
        if (r->group->heard_ms[ret_waiting->peer.rank] > last_ms)
            last_ms = r->group->heard_ms[ret_waiting->peer.rank];
    } else {
        ret_waiting->peer.rank = r->group->node->options.rank;
    }
    return last_ms > INT64_MAX - r->deadline_ms ? INT64_MAX : last_ms + r->deadline_ms - present_ms;
}

static void pass_deadline(psr_node *node, psr_node_request *r, uint32_t awaited)
{
    char operation[2 * NAME_BYTES], self[PSR_HOST_MAX + 32], other[PSR_HOST_MAX + 32];
    name_operation(r, operation, sizeof operation);
    name_rank(node, node->options.rank, self, sizeof self);
    name_rank(node, awaited, other, sizeof other);
    psr_failure failure = {
        .err = PSR_ERR_TIMEOUT, .rank = awaited, .other = PSR_RANK_ANY, .number = r->number};
    snprintf(failure.line, sizeof failure.line, "%s has waited for %s for %.1f s in %s", self, other,
             (double)r->deadline_ms / 1000, operation);
    tell(node, &failure, r->deadline_ms);
    if (node->options.alone)
        break_with(node, &failure);
    else
        node->asked = r;
}

static int64_t check_deadlines(psr_node *node, int64_t present_ms)
{
    int64_t soonest_ms = INT64_MAX;
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        for (psr_node_request *r = g->first; r != NULL; r = r->next) {
            psr_waiting waiting = {0};
            if (!r->under_way)
                continue;
            int64_t left = left_ms(r, present_ms, &waiting);
            if (left <= 0) {
                pass_deadline(node, r, waiting.peer.rank);
                return INT64_MAX;
            }
            soonest_ms = left < soonest_ms ? left : soonest_ms;
        }
    return soonest_ms;
}

void psr_node_tick(psr_node *node, int64_t now_ms, int64_t *ret_next_ms)
{
    *ret_next_ms = INT64_MAX;
    if (node->state == FOUND && now_ms >= node->give_up_ms)
        break_with(node, &node->found);
    if (node->state == FOUND)
        *ret_next_ms = node->give_up_ms;
    if (node->state != WHOLE || node->asked != NULL)
        return;
    int64_t present_ms = psr_presence_clock_ms(&node->presence, now_ms);
    int64_t soonest_ms = check_deadlines(node, present_ms);
    if (soonest_ms == INT64_MAX)
        return;
    int64_t look_ms = psr_presence_clock_every_ms(&node->presence);
    *ret_next_ms = now_ms + (soonest_ms < look_ms ? soonest_ms : look_ms);
}

/* ---- what it reports ---- */

/* Of what is under way the oldest, of any group: whom this rank waits for. */
static bool waits(const psr_node *node, psr_waiting *ret_waiting)
{
    const psr_node_request *oldest = NULL;
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        for (psr_node_request *r = g->first; r != NULL; r = r->next)
            if (r->under_way && (oldest == NULL || r->since_ms < oldest->since_ms))
                oldest = r;
    return oldest != NULL && psr_request_waits(oldest->request, ret_waiting);
}

void psr_node_report(const psr_node *node, psr_msg_progress *progress)
{
    psr_waiting waiting = {0};
    progress->phase = PSR_PHASE_FORWARD;
    progress->step = atomic_load_explicit(&node->step, memory_order_relaxed);
    progress->counter = node->moves + atomic_load_explicit(&node->steps_told, memory_order_relaxed);
    progress->waits = node->state == WHOLE && waits(node, &waiting);
    progress->waits_for = waiting.peer;
}

void psr_node_progress(psr_node *node, uint64_t step)
{
    atomic_store_explicit(&node->step, step, memory_order_relaxed);
    atomic_fetch_add_explicit(&node->steps_told, 1, memory_order_relaxed);
}

/* ---- [owner] ---- */

bool psr_node_begun(const psr_node *node)
{
    return atomic_load(&node->begun);
}

const psr_failure *psr_node_failure(const psr_node *node)
{
    return atomic_load_explicit(&node->broken, memory_order_acquire) ? &node->failure : NULL;
}

static uint32_t hosts_of(const psr_node *node, const uint32_t *ranks, uint32_t count)
{
    uint32_t hosts = 0;
    for (uint32_t i = 0; i < count; i++) {
        const psr_view_member *a = psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, ranks[i]});
        bool seen = false;
        for (uint32_t k = 0; k < i && !seen; k++) {
            const psr_view_member *b =
                psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, ranks[k]});
            seen = strcmp(a->host, b->host) == 0;
        }
        hosts += !seen;
    }
    return hosts;
}

static psr_err make_group(psr_node_group *g, const uint32_t *ranks)
{
    psr_node *node = g->node;
    psr_peer *members = calloc(g->count, sizeof *members);
    g->ranks = calloc(g->count, sizeof *g->ranks);
    g->heard_ms = malloc(node->ranks * sizeof *g->heard_ms);
    if (members == NULL || g->ranks == NULL || g->heard_ms == NULL) {
        free(members);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %" PRIu32 " ranks", g->count);
    }
    for (uint32_t r = 0; r < node->ranks; r++)
        g->heard_ms[r] = INT64_MIN;
    for (uint32_t i = 0; i < g->count; i++) {
        g->ranks[i] = ranks[i];
        members[i] = (psr_peer){PSR_ROLE_WORKER, ranks[i]};
        if (ranks[i] == node->options.rank)
            g->rank = i;
    }
    const psr_group_options options = {.epoch = node->options.view->epoch,
                                       .id = g->id,
                                       .rank = g->rank,
                                       .ranks = g->count,
                                       .members = members,
                                       .hosts = hosts_of(node, ranks, g->count),
                                       .slice_bytes = SLICE_BYTES,
                                       .window = WINDOW,
                                       .outbox = node->options.outbox};
    psr_err err = psr_group_new(&options, &g->group);
    free(members);
    return err;
}

psr_err psr_node_group_new(psr_node *node, uint32_t id, const uint32_t *ranks, uint32_t count,
                           psr_node_group **ret_group)
{
    psr_node_group *g = calloc(1, sizeof *g);
    if (g == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group");
    *g = (psr_node_group){.node = node, .id = id, .count = count};
    psr_err err = make_group(g, ranks);
    if (err != PSR_OK) {
        psr_node_group_free(g);
        return err;
    }
    *ret_group = g;
    return PSR_OK;
}

void psr_node_group_free(psr_node_group *group)
{
    if (group == NULL)
        return;
    psr_group_free(group->group);
    free(group->ranks);
    free(group->heard_ms);
    free(group);
}

uint32_t psr_node_group_rank(const psr_node_group *group)
{
    return group->rank;
}

uint32_t psr_node_group_size(const psr_node_group *group)
{
    return group->count;
}

const uint32_t *psr_node_group_ranks(const psr_node_group *group)
{
    return group->ranks;
}

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
    o->counts = r->counts = copy(o->counts, r->group->count, sizeof *r->counts, &no_memory);
    o->send_counts = r->send_counts = copy(o->send_counts, r->group->count, sizeof *r->counts, &no_memory);
    o->send_blocks = r->send_blocks =
        copy(o->send_blocks, o->send_block_count, sizeof *r->send_blocks, &no_memory);
    o->receive_blocks = r->receive_blocks =
        copy(o->receive_blocks, o->receive_block_count, sizeof *r->receive_blocks, &no_memory);
    return no_memory ? psr_fail(PSR_ERR_NOMEM, "no memory for %s", psr_kind_name(o->kind)) : PSR_OK;
}

psr_err psr_node_request_new(psr_node_group *group, const psr_request_options *options, int64_t deadline_ms,
                             const char *name, psr_node_request **ret_request)
{
    psr_node_request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", psr_kind_name(options->kind));
    r->group = group;
    r->options = *options;
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
    free(request->counts);
    free(request->send_counts);
    free(request->send_blocks);
    free(request->receive_blocks);
    free(request);
}

psr_node_group *psr_node_request_group(const psr_node_request *request)
{
    return request->group;
}

bool psr_node_request_persistent(const psr_node_request *request)
{
    return request->options.persistent;
}

void psr_node_request_begins(psr_node_request *request)
{
    atomic_store(&request->state, UNDER_WAY);
}

bool psr_node_request_ended(const psr_node_request *request)
{
    int state = atomic_load_explicit(&request->state, memory_order_acquire);
    if (state == IDLE)
        return true;
    return state != UNDER_WAY && (request->request == NULL || psr_request_lent(request->request) == 0);
}

psr_err psr_node_request_status(const psr_node_request *request)
{
    if (atomic_load_explicit(&request->state, memory_order_acquire) != FAILED)
        return PSR_OK;
    return psr_fail(request->failure->err, "%s", request->failure->line);
}

const char *psr_node_request_algorithm(const psr_node_request *request)
{
    const psr_request *made = atomic_load(&request->request);
    return made != NULL ? psr_algorithm_name(psr_request_call(made)->algorithm) : NULL;
}

/* ---- life ---- */

psr_err psr_node_new(const psr_node_options *options, int64_t now_ms, psr_node **ret_node)
{
    psr_early *early = NULL;
    PSR_TRY(psr_early_new(1, (size_t)EARLY_MAX * options->view->member_count, &early));
    psr_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        psr_early_free(early);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a communicator");
    }
    node->options = *options;
    node->ranks = options->view->member_count;
    node->early = early;
    node->presence = psr_presence_clock_for(now_ms, options->deadline_ms);
    atomic_store(&node->begun, options->alone);
    *ret_node = node;
    return PSR_OK;
}

void psr_node_free(psr_node *node)
{
    if (node == NULL)
        return;
    while (node->groups != NULL) {
        psr_node_group *g = node->groups;
        node->groups = g->next;
        free_group(g);
    }
    psr_early_free(node->early);
    free(node->closed);
    free(node);
}
