/* Adapts both ends of a table to a node: ranks for workers and shards, a group's number for a
 * table's, requests for operations. */
#include "comm/node/node_private.h"

#include "base/arrays/arena.h"
#include "comm/reduce.h"
#include "comm/tables/table.h"
#include "comm/tables/table_shard.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICE_BYTES = 256 << 10,
    WINDOW = 8, /* slices */
};

/* What is to be done with a part, one after another. */
typedef struct part_queue {
    psr_node_table_call *first, *last;
    uint64_t rounds; /* pushed */
} part_queue;

struct psr_node_table {
    psr_node_group *group;
    char name[PSR_NODE_NAME_BYTES];
    uint32_t workers;
    psr_consistency consistency;
    psr_type type;
    void *owned;
    void (*release)(void *owned);
    psr_plan plan;
    /* A worker's: */
    psr_table *worker;
    float *values;
    float *residual;    /* of its pushes; NULL: their encoding has none */
    part_queue *queues; /* [part] */
    uint32_t waiting;   /* calls in them */
    _Atomic uint64_t staleness;
    /* A shard's: */
    psr_table_shard *shard;
};

/* A plan's buckets count from the end of the table. Its own inverse. */
static uint32_t bucket_of(const psr_node_table *t, uint32_t part)
{
    return t->plan.bucket_count - 1 - part;
}

/* ---- names: workers and shards for the machines, ranks for the others ---- */

static psr_err send_to(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    const psr_node_table *t = context;
    const psr_node_group *g = t->group;
    const psr_outbox *outbox = &g->node->options.outbox;
    uint32_t rank = g->ranks[to.role == PSR_ROLE_SHARD ? t->workers + to.rank : to.rank];
    const psr_head tagged = psr_msg_in_group(*head, g->epoch, g->id);
    return outbox->send(outbox->context, (psr_peer){PSR_ROLE_WORKER, rank}, &tagged, payload);
}

/* The other way. */
static psr_err rename_sender(const psr_node_table *t, psr_message *message)
{
    const psr_node_group *g = t->group;
    for (uint32_t i = 0; i < g->count && message->from.role == PSR_ROLE_WORKER; i++) {
        if (g->ranks[i] != message->from.rank)
            continue;
        message->from = i < t->workers ? (psr_peer){PSR_ROLE_WORKER, i}
                                       : (psr_peer){PSR_ROLE_SHARD, i - t->workers};
        return psr_msg_out_of_group(message, g->epoch);
    }
    return psr_violation(message, "it is no rank of group %" PRIu32, g->id);
}

/* ---- what a worker has begun ---- */

static psr_err landed(void *context, uint64_t round, uint32_t bucket)
{
    (void)context; /* whoever handed the event in looks at all that wait */
    (void)round;
    (void)bucket;
    return PSR_OK;
}

static bool is_bsp(const psr_node_table *t)
{
    return t->consistency.kind == PSR_CONSISTENCY_BSP;
}

static psr_err begin_call(psr_node_table *t, psr_node_table_call *call)
{
    const psr_node_table_task *task = &call->task;
    const uint32_t bucket = bucket_of(t, task->part);
    part_queue *queue = &t->queues[task->part];
    const void *values = call->staged != NULL ? call->staged : task->values;
    const psr_buffer pushed = {.data = (void *)(uintptr_t)values, /* only read */
                               .count = t->plan.buckets[bucket].span.count,
                               .type = PSR_TYPE_FLOAT32};
    call->begun = true;
    switch (task->verb) {
    case PSR_NODE_PULL:
        return is_bsp(t) ? PSR_OK : psr_table_pull(t->worker, bucket, queue->rounds);
    case PSR_NODE_SETTLE:
        return psr_table_settle(t->worker, bucket, queue->rounds);
    case PSR_NODE_GET:
        return psr_table_get(t->worker, bucket, queue->rounds, task->section, task->ret_values);
    case PSR_NODE_PUT:
        return psr_table_put(t->worker, bucket, queue->rounds, task->section, task->values);
    case PSR_NODE_PUSH:
    case PSR_NODE_PUSH_PULL:
        break;
    }
    uint64_t round = queue->rounds++;
    if (task->verb == PSR_NODE_PUSH && !is_bsp(t))
        return psr_table_push(t->worker, bucket, round, &pushed);
    return psr_table_start(t->worker, bucket, round, &pushed);
}

static bool is_done(const psr_node_table *t, const psr_node_table_call *call)
{
    const uint32_t bucket = bucket_of(t, call->task.part);
    return call->task.verb == PSR_NODE_PUSH ? psr_table_pushed(t->worker, bucket)
                                            : psr_table_done(t->worker, bucket);
}

static void leave_queue(psr_node_table *t, psr_node_table_call *call)
{
    part_queue *queue = &t->queues[call->task.part];
    psr_node_table_call **at = &queue->first, *before = NULL;
    for (; *at != NULL && *at != call; at = &(*at)->next)
        before = *at;
    if (*at == NULL)
        return;
    *at = call->next;
    if (queue->last == call)
        queue->last = before;
    t->waiting--;
}

void psr_node_table_to_floats(psr_type type, float *out, const void *in, size_t count)
{
    if (type == PSR_TYPE_FLOAT16)
        psr_float16_to_floats(out, in, count);
    else if (type == PSR_TYPE_BFLOAT16)
        psr_bfloat16_to_floats(out, in, count);
    else
        memcpy(out, in, count * sizeof *out);
}

void psr_node_table_of_floats(psr_type type, void *out, const float *in, size_t count)
{
    if (type == PSR_TYPE_FLOAT16)
        psr_float16_of_floats(out, in, count);
    else if (type == PSR_TYPE_BFLOAT16)
        psr_bfloat16_of_floats(out, in, count);
    else
        memcpy(out, in, count * sizeof *in);
}

uint32_t psr_node_table_width(psr_type type)
{
    return type == PSR_TYPE_FLOAT64 ? 2 : 1;
}

/* In a worker's memory, of what is one float in the table. */
static size_t float_bytes(psr_type type)
{
    return psr_type_bytes(type) / psr_node_table_width(type);
}

static bool is_halves(psr_type type)
{
    return type == PSR_TYPE_FLOAT16 || type == PSR_TYPE_BFLOAT16;
}

static bool pulls(const psr_node_table_call *call)
{
    return call->task.verb == PSR_NODE_PULL || call->task.verb == PSR_NODE_PUSH_PULL;
}

static void end_call(psr_node_table *t, psr_node_table_call *call)
{
    const psr_span span = psr_node_table_part(t, call->task.part);
    if (pulls(call))
        psr_node_table_of_floats(t->type, call->task.ret_values, t->values + span.offset,
                                 span.count);
    call->done = true;
    if (call->whole != NULL && --call->whole->left == 0)
        call->whole->done = true;
    leave_queue(t, call);
}

/* In BSP the values of a push that was made alone are on their way when the next call begins. */
static psr_err advance_part(psr_node_table *t, uint32_t part)
{
    for (psr_node_table_call *call; (call = t->queues[part].first) != NULL;) {
        if (!call->begun && !psr_table_done(t->worker, bucket_of(t, part)))
            return PSR_OK;
        if (!call->begun)
            PSR_TRY(begin_call(t, call));
        if (!is_done(t, call))
            return PSR_OK;
        end_call(t, call);
    }
    return PSR_OK;
}

static psr_err advance(psr_node_table *t)
{
    for (uint32_t part = 0; part < t->plan.bucket_count && t->waiting > 0; part++)
        PSR_TRY(advance_part(t, part));
    return PSR_OK;
}

static psr_err start_part(psr_node_table *t, psr_node_table_call *call)
{
    part_queue *queue = &t->queues[call->task.part];
    call->begun = call->done = false;
    call->next = NULL;
    *(queue->last != NULL ? &queue->last->next : &queue->first) = call;
    queue->last = call;
    t->waiting++;
    return advance_part(t, call->task.part);
}

psr_err psr_node_table_start(psr_node_table *t, psr_node_table_call *call)
{
    call->done = false;
    call->left = call->count;
    for (uint32_t i = 0; i < call->count; i++)
        PSR_TRY(start_part(t, &call->each[i]));
    return call->each != NULL ? PSR_OK : start_part(t, call);
}

void psr_node_table_forget(psr_node_table *t, psr_node_table_call *call)
{
    for (uint32_t i = 0; i < call->count; i++)
        leave_queue(t, &call->each[i]);
    if (call->each == NULL)
        leave_queue(t, call);
}

bool psr_node_table_call_waits(const psr_node_table *t, const psr_node_table_call *call,
                               psr_waiting *ret_waiting)
{
    if (call->done)
        return false;
    for (uint32_t i = 0; i < call->count; i++)
        if (psr_node_table_call_waits(t, &call->each[i], ret_waiting))
            return true;
    if (call->each != NULL)
        return false;
    uint32_t shard = t->plan.buckets[bucket_of(t, call->task.part)].home;
    *ret_waiting = (psr_waiting){.peer = {PSR_ROLE_WORKER, t->group->ranks[t->workers + shard]}};
    return true;
}

uint32_t psr_node_table_lent(const psr_node_table *t, const psr_node_table_call *call)
{
    uint32_t lent = 0;
    if (call->task.values == NULL)
        return 0;
    for (uint32_t i = 0; i < call->count; i++)
        lent += psr_node_table_lent(t, &call->each[i]);
    return call->each != NULL ? lent : psr_table_lent(t->worker, bucket_of(t, call->task.part));
}

bool psr_node_table_lent_to(const psr_node_table *t, const psr_node_table_call *call,
                            psr_peer *ret_peer)
{
    for (uint32_t i = 0; call->task.values != NULL && i < call->count; i++)
        if (psr_node_table_lent_to(t, &call->each[i], ret_peer))
            return true;
    if (call->each != NULL || psr_node_table_lent(t, call) == 0)
        return false;
    const psr_plan_bucket *bucket = &t->plan.buckets[bucket_of(t, call->task.part)];
    *ret_peer = (psr_peer){PSR_ROLE_WORKER, t->group->ranks[t->workers + bucket->home]};
    return true;
}

/* ---- what comes in ---- */

static psr_err take(psr_node_table *t, psr_message **message)
{
    PSR_TRY(rename_sender(t, *message));
    if (t->shard != NULL)
        return psr_table_shard_message(t->shard, message);
    PSR_TRY(psr_table_message(t->worker, message));
    return advance(t);
}

psr_err psr_node_table_message(psr_node_group *g, psr_message **message)
{
    if (g->table == NULL)
        return psr_violation(*message, "group %" PRIu32 " has no table", g->id);
    uint32_t from = (*message)->from.rank;
    psr_err err = take(g->table, message);
    if (err == PSR_OK)
        return PSR_OK;
    return psr_fail_context(err, "table \"%s\", hearing rank %" PRIu32, g->table->name, from);
}

bool psr_node_table_is_message(psr_message_type type)
{
    return type == PSR_MSG_PUSH || type == PSR_MSG_PULL || type == PSR_MSG_WEIGHTS ||
           type == PSR_MSG_ACK || type == PSR_MSG_INIT || type == PSR_MSG_ASK;
}

size_t psr_node_table_waiting_max(const psr_node_table *table)
{
    return table->shard != NULL
               ? psr_table_shard_waiting_max(table->shard)
               : 2 * (size_t)table->plan.slice_count + PSR_TABLE_WINDOW_LENT * table->plan.window;
}

bool psr_node_table_waits(const psr_node_table *t, psr_waiting *ret_waiting)
{
    uint64_t step = 0;
    uint32_t bucket = 0, worker = 0;
    if (t->shard == NULL || !psr_table_shard_holds_up(t->shard, &step, &bucket, &worker))
        return false;
    *ret_waiting = (psr_waiting){.peer = {PSR_ROLE_WORKER, t->group->ranks[worker]}, .round = step};
    return true;
}

void psr_node_table_break(psr_node_table *t)
{
    if (t->worker != NULL)
        psr_table_abandon(t->worker);
}

/* ---- [owner] ---- */

psr_node_table *psr_node_group_table(const psr_node_group *group)
{
    return group->table;
}

float *psr_node_table_values(psr_node_table *t)
{
    return t->shard != NULL ? psr_table_shard_values(t->shard) : t->values;
}

float *psr_node_table_residual(psr_node_table *t)
{
    return t->residual;
}

const char *psr_node_table_name(const psr_node_table *t)
{
    return t->name;
}

size_t psr_node_table_length(const psr_node_table *t)
{
    return psr_plan_length(&t->plan);
}

psr_span psr_node_table_part(const psr_node_table *t, uint32_t part)
{
    return t->plan.buckets[bucket_of(t, part)].span;
}

uint64_t psr_node_table_take_staleness(psr_node_table *t)
{
    return atomic_exchange(&t->staleness, 0);
}

uint64_t psr_node_table_rounds(const psr_node_table *t, uint32_t part)
{
    uint64_t rounds = 0;
    for (uint32_t p = 0; p < t->plan.bucket_count; p++)
        if (p == part || part == PSR_NODE_ALL_PARTS)
            rounds += t->queues[p].rounds;
    return rounds;
}

static bool pushes(const psr_node_table_task *task)
{
    return task->verb == PSR_NODE_PUSH || task->verb == PSR_NODE_PUSH_PULL;
}

static size_t count_of(const psr_node_table *t, uint32_t part)
{
    size_t count = 0;
    for (uint32_t p = 0; p < t->plan.bucket_count; p++)
        if (p == part || part == PSR_NODE_ALL_PARTS)
            count += psr_node_table_part(t, p).count;
    return count;
}

/* Shards and encoders take FLOAT32. The conversion is exact, as is the encoding in which such
 * values are sent. */
static psr_err stage(const psr_node_table *t, psr_node_table_call *call)
{
    const size_t count = count_of(t, call->task.part);
    if (!pushes(&call->task) || !is_halves(t->type))
        return PSR_OK;
    call->staged = malloc(count * sizeof *call->staged);
    if (call->staged == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a push of %zu values", count);
    psr_node_table_to_floats(t->type, call->staged, call->task.values, count);
    return PSR_OK;
}

/* A call for each part, whose values lie behind those of the one before. */
static psr_err make_each(const psr_node_table *t, psr_node_table_call *call)
{
    const psr_node_table_task *task = &call->task;
    const uint32_t count = t->plan.bucket_count;
    const bool whole = task->verb == PSR_NODE_GET || task->verb == PSR_NODE_PUT;
    const size_t bytes = whole ? sizeof(float) : float_bytes(t->type);
    size_t at = 0;
    call->each = calloc(count, sizeof *call->each);
    if (call->each == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a request of %" PRIu32 " parts", count);
    call->count = count;
    for (uint32_t p = 0; p < count; p++) {
        call->each[p] = (psr_node_table_call){.task = *task, .whole = call};
        call->each[p].task.part = p;
        if (task->values != NULL)
            call->each[p].task.values = (const unsigned char *)task->values + at * bytes;
        if (task->ret_values != NULL)
            call->each[p].task.ret_values = (unsigned char *)task->ret_values + at * bytes;
        PSR_TRY(stage(t, &call->each[p]));
        at += psr_node_table_part(t, p).count;
    }
    return PSR_OK;
}

void psr_node_table_call_done(psr_node_table_call *call)
{
    for (uint32_t i = 0; i < call->count; i++)
        free(call->each[i].staged);
    free(call->each);
    free(call->staged);
}

psr_err psr_node_table_request_new(psr_node_group *group, const psr_node_table_task *task,
                                   int64_t deadline_ms, const char *name,
                                   psr_node_request **ret_request)
{
    psr_node_request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a request of a table");
    r->group = group;
    r->of_table = true;
    r->call = (psr_node_table_call){.task = *task};
    r->deadline_ms = deadline_ms;
    snprintf(r->name, sizeof r->name, "%s", name != NULL ? name : "");
    psr_err err = task->part == PSR_NODE_ALL_PARTS ? make_each(group->table, &r->call)
                                                   : stage(group->table, &r->call);
    if (err != PSR_OK) {
        psr_node_request_free(r);
        return err;
    }
    *ret_request = r;
    return PSR_OK;
}

static const char *part_text(uint32_t part, char text[32])
{
    if (part == PSR_NODE_ALL_PARTS)
        return "all parts";
    snprintf(text, 32, "part %" PRIu32, part);
    return text;
}

void psr_node_table_describe(const psr_node_table *t, const psr_node_table_call *call, char *text,
                             size_t size)
{
    static const char *const verbs[] = {
        [PSR_NODE_PUSH] = "push",     [PSR_NODE_PULL] = "pull", [PSR_NODE_PUSH_PULL] = "push_pull",
        [PSR_NODE_SETTLE] = "settle", [PSR_NODE_GET] = "read",  [PSR_NODE_PUT] = "write"};
    char part[32];
    snprintf(text, size, "%s of %s of table \"%s\"", verbs[call->task.verb],
             part_text(call->task.part, part), t->name);
}

/* ---- beginning and end ---- */

static psr_err make_plan(psr_node_table *t, const psr_node_table_options *o)
{
    const bool halves = is_halves(o->type);
    const uint32_t width = psr_node_table_width(o->type);
    const psr_compression half = {.encoding = o->type == PSR_TYPE_FLOAT16 ? PSR_ENCODING_FP16
                                                                          : PSR_ENCODING_BF16};
    const psr_plan_options options = {.route = PSR_ROUTE_SHARD,
                                      .ranks = o->workers,
                                      .shards = t->group->count - o->workers,
                                      .slice_floats = psr_plan_slice_floats(SLICE_BYTES),
                                      .window = WINDOW,
                                      .compression = halves ? &half : o->compression,
                                      .pulled = halves ? &half : NULL};
    psr_part *parts = calloc(o->part_count, sizeof *parts);
    if (parts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " parts", o->part_count);
    size_t offset = 0;
    for (uint32_t p = 0; p < o->part_count; p++) {
        const uint32_t bucket = o->part_count - 1 - p;
        const size_t count = o->parts[p] * width;
        parts[bucket].span = (psr_span){offset, count};
        parts[bucket].unit = bucket;
        offset += (count + PSR_NODE_TABLE_SPAN_ALIGN - 1) / PSR_NODE_TABLE_SPAN_ALIGN *
                  PSR_NODE_TABLE_SPAN_ALIGN;
    }
    psr_err err = psr_plan_make(&options, parts, o->part_count, &t->plan);
    free(parts);
    return err;
}

static psr_err make_shard(psr_node_table *t, const psr_node_table_options *o)
{
    const psr_table_shard_options options = {.plan = &t->plan,
                                             .shard = t->group->rank - t->workers,
                                             .consistency = o->consistency,
                                             .float64 = o->type == PSR_TYPE_FLOAT64,
                                             .update = o->update,
                                             .registered = o->registered,
                                             .registered_count = o->registered_count,
                                             .given = true,
                                             .open = true,
                                             .end = UINT64_MAX,
                                             .outbox = {.context = t, .send = send_to},
                                             .context = t};
    return psr_table_shard_new(&options, &t->shard);
}

static void keep_staleness(void *context, uint64_t steps)
{
    psr_node_table *t = context;
    if (steps > atomic_load(&t->staleness))
        atomic_store(&t->staleness, steps);
}

static psr_err make_worker(psr_node_table *t)
{
    PSR_TRY(psr_arena_new(psr_plan_length(&t->plan), &t->values));
    if (psr_plan_has_residual(&t->plan))
        PSR_TRY(psr_arena_new(psr_plan_length(&t->plan), &t->residual));
    t->queues = calloc(t->plan.bucket_count, sizeof *t->queues);
    if (t->queues == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " parts", t->plan.bucket_count);
    const psr_table_options options = {.plan = &t->plan,
                                       .consistency = t->consistency,
                                       .values = t->values,
                                       .residual = t->residual,
                                       .outbox = {.context = t, .send = send_to},
                                       .lender = &t->group->node->options.outbox,
                                       .context = t,
                                       .landed = landed,
                                       .stale = keep_staleness};
    return psr_table_new(&options, &t->worker);
}

psr_err psr_node_table_new(psr_node_group *group, const psr_node_table_options *options)
{
    psr_node_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a table");
    *t = (psr_node_table){.group = group,
                          .workers = options->workers,
                          .consistency = options->consistency,
                          .type = options->type};
    snprintf(t->name, sizeof t->name, "%s", options->name);
    psr_err err = make_plan(t, options);
    if (err == PSR_OK)
        err = group->rank < t->workers ? make_worker(t) : make_shard(t, options);
    if (err != PSR_OK) {
        psr_node_table_free(t);
        return err;
    }
    t->owned = options->owned;
    t->release = options->release;
    group->table = t;
    return PSR_OK;
}

void psr_node_table_free(psr_node_table *t)
{
    if (t == NULL)
        return;
    if (t->values != NULL)
        psr_arena_free(t->values, psr_plan_length(&t->plan));
    if (t->residual != NULL)
        psr_arena_free(t->residual, psr_plan_length(&t->plan));
    psr_table_free(t->worker);
    psr_table_shard_free(t->shard);
    if (t->release != NULL)
        t->release(t->owned);
    psr_plan_done(&t->plan);
    free(t->queues);
    free(t);
}
