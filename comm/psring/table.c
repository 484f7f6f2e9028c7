/* Tables, as workers use them: opening, pushing, pulling, closing. */
#include "comm/psring/service.h"
#include "comm/psring/table_shared.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of psring_table_options' first version. */
#define OPTIONS_FIRST_BYTES offsetof(psring_table_options, updates)

enum { STATES_MAX = 8 }; /* of an update */

/* ---- checks ---- */

psr_err psr_table_call_read(const char *what, const psring_call *given, psring_call *ret_call)
{
    psring_call call;
    PSR_TRY(psr_options_read("psring_call", given, PSR_CALL_FIRST_BYTES, &call, sizeof call));
    if (call.algorithm != NULL || call.counts != NULL || call.persistent || call.message != NULL ||
        call.buffered || call.encoding != NULL || call.priority != 0)
        return psr_fail(PSR_ERR_USAGE, "%s: of a call it takes a deadline and a name alone", what);
    if (call.deadline_ms < 0)
        return psr_fail(PSR_ERR_USAGE, "%s: deadline_ms is %" PRId64, what, call.deadline_ms);
    *ret_call = call;
    return PSR_OK;
}

static psr_type table_type(psring_type type)
{
    return type == PSRING_FLOAT16    ? PSR_TYPE_FLOAT16
           : type == PSRING_BFLOAT16 ? PSR_TYPE_BFLOAT16
           : type == PSRING_FLOAT64  ? PSR_TYPE_FLOAT64
                                     : PSR_TYPE_FLOAT32;
}

static psr_err read_options(const psring_table_options *given, psring_table_options *ret_options)
{
    psring_table_options o;
    if (given == NULL)
        return psr_fail(PSR_ERR_USAGE, "options is NULL: a table has parts");
    PSR_TRY(psr_options_read("psring_table_options", given, OPTIONS_FIRST_BYTES, &o, sizeof o));
    if (o.type == 0)
        o.type = PSRING_FLOAT32;
    if (o.type != PSRING_FLOAT32 && o.type != PSRING_FLOAT16 && o.type != PSRING_BFLOAT16 &&
        o.type != PSRING_FLOAT64)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "a table of %s: this version has float32, float64, float16 and bfloat16",
                        psr_comm_type_name(o.type));
    if (o.fold != PSRING_SUM && o.fold != PSRING_MEAN)
        return psr_fail(PSR_ERR_USAGE, "fold is %d: it should be PSRING_SUM or PSRING_MEAN",
                        (int)o.fold);
    o.update = o.update != NULL ? o.update : "sum";
    o.sync = o.sync != NULL ? o.sync : "bsp";
    if (o.updates > INT64_MAX)
        return psr_fail(PSR_ERR_USAGE, "updates is %" PRIu64 ": INT64_MAX is the most", o.updates);
    if (o.fold == PSRING_MEAN && strcmp(o.sync, "bsp") != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "fold is PSRING_MEAN, and sync is \"%.40s\": only in bsp an update has the "
                        "pushes of all workers",
                        o.sync);
    if (o.encoding != NULL && o.type != PSRING_FLOAT32)
        return psr_fail(PSR_ERR_USAGE, "encoding is of tables of float32, not of %s",
                        psr_comm_type_name(o.type));
    if ((uintptr_t)o.initial % psr_type_bytes(table_type(o.type)) != 0)
        return psr_fail(PSR_ERR_USAGE, "initial is not aligned for %s", psr_comm_type_name(o.type));
    *ret_options = o;
    return PSR_OK;
}

static psr_err check_group(const psring_group *group)
{
    const psring_comm *comm = group->comm;
    if (comm->shards == 0)
        return psr_fail(PSR_ERR_USAGE, "there are no shards: psring_options.shards, PSRING_SHARDS "
                                       "or psring run --shards says how many ranks hold tables");
    if (comm->rank >= comm->workers)
        return psr_fail(PSR_ERR_USAGE, "this rank is a shard, and calls psring_serve");
    return PSR_OK;
}

static psr_err read_encoding(const psring_table_options *o, psr_compression *ret_compression)
{
    psr_compression compression;
    psr_err err = psr_compression_parse(o->encoding, &compression);
    if (err != PSR_OK)
        return psr_fail_context(err, "encoding");
    for (size_t p = 0; p < o->part_count && !psr_compression_is_none(compression); p++)
        if (o->parts[p] > UINT32_MAX)
            return psr_fail(PSR_ERR_USAGE,
                            "part %zu has %zu values: with an encoding it has fewer than 2^32", p,
                            o->parts[p]);
    *ret_compression = compression;
    return PSR_OK;
}

static psr_err make_opening(const psring_group *group, const char *name,
                            const psring_table_options *o, psr_opening *ret_opening)
{
    psr_opening opening;
    PSR_TRY(psr_opening_make(name, o->parts, o->part_count, o->update, o->sync, &opening));
    opening.updates = o->updates;
    opening.type = table_type(o->type);
    opening.mean = o->fold == PSRING_MEAN;
    psr_err err = o->encoding != NULL ? read_encoding(o, &opening.compression) : PSR_OK;
    if (err != PSR_OK) {
        psr_opening_done(&opening);
        return err;
    }
    opening.worker_count = psr_node_group_size(group->group);
    opening.workers = malloc(opening.worker_count * sizeof *opening.workers);
    if (opening.workers == NULL) {
        psr_opening_done(&opening);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " workers", opening.worker_count);
    }
    memcpy(opening.workers, psr_node_group_ranks(group->group),
           opening.worker_count * sizeof *opening.workers);
    *ret_opening = opening;
    return PSR_OK;
}

/* ---- opening ---- */

/* Ranks of a program may have defined different updates by one name. */
static void check_states(uint32_t shard, int64_t states, psr_reply *reply)
{
    if (reply->err != PSR_OK || reply->states == states)
        return;
    reply->err = PSR_ERR_USAGE;
    snprintf(reply->line, sizeof reply->line,
             "rank %" PRIu32 ", a shard: its update has %" PRId64
             " states, the first shard's %" PRId64,
             shard, reply->states, states);
}

/* The group's first rank asks all shards. *ret_asked: how many were asked; these wait for GO. */
static psr_err ask_shards(psring_comm *comm, const psr_opening *opening, const psring_call *call,
                          uint32_t *ret_asked, psr_reply *ret_reply)
{
    int64_t *words = NULL;
    size_t count = 0;
    int64_t states = 0;
    psr_err err = psr_opening_to_words(opening, &words, &count);
    for (uint32_t s = 0; s < comm->shards && err == PSR_OK && ret_reply->err == PSR_OK; s++) {
        const uint32_t shard = comm->workers + s;
        const int64_t notice[PSR_NOTICE_WORDS] = {PSR_NOTICE_OPEN, (int64_t)count};
        err = psr_service_send(comm, shard, PSR_SERVICE_NOTICE, notice, PSR_NOTICE_WORDS, call);
        if (err == PSR_OK)
            err = psr_service_send(comm, shard, PSR_SERVICE_OPENING, words, count, call);
        if (err == PSR_OK)
            err = psr_service_receive(comm, shard, PSR_SERVICE_REPLY, ret_reply, PSR_REPLY_WORDS,
                                      call);
        ret_reply->err = psr_opening_replied(ret_reply->err);
        states = s == 0 ? ret_reply->states : states;
        check_states(shard, states, ret_reply);
        ++*ret_asked;
    }
    free(words);
    ret_reply->line[sizeof ret_reply->line - 1] = '\0';
    return err;
}

/* What each rank sends to the others of the group. */
typedef struct record {
    int64_t digest, id, initial;
    psr_reply reply; /* set by the first rank: the reply of the shards */
    char says[PSR_OPENING_LINE_BYTES];
} record;

_Static_assert(sizeof(record) % sizeof(int64_t) == 0, "a record is words");

psr_err psr_table_gather(psr_kind kind, const psring_group *group, const void *own, void *all,
                         size_t bytes, const psring_call *call, uint64_t *ret_number)
{
    psr_node_request *request = NULL;
    const psring_call unnamed = {.deadline_ms = call->deadline_ms};
    const psr_request_options options = {.kind = kind,
                                         .type = PSR_TYPE_INT64,
                                         .send = own,
                                         .receive = all,
                                         .count = bytes / sizeof(int64_t)};
    PSR_TRY(psr_comm_start(group->comm, group->group, &options, &unnamed, &request));
    psr_comm_await(group->comm, request);
    *ret_number = psr_node_request_number(request);
    return psr_comm_finish(group->comm, request);
}

psr_err psr_table_differ(const psring_group *group, uint32_t r, uint64_t number, const char *first,
                         const char *other)
{
    const uint32_t *ranks = psr_node_group_ranks(group->group);
    psr_failure failure = {
        .err = PSR_ERR_MISMATCH, .rank = ranks[0], .other = ranks[r], .number = number};
    snprintf(failure.line, sizeof failure.line, "rank %" PRIu32 " %s, rank %" PRIu32 " %s",
             ranks[0], first, ranks[r], other);
    return psr_comm_find(group->comm, group->group, &failure);
}

static psr_err other_table(const psring_group *group, const record *all, uint32_t other,
                           uint64_t number)
{
    char here[224], there[224];
    snprintf(here, sizeof here, "opens %.200s", all[0].says);
    snprintf(there, sizeof there, "opens %.200s", all[other].says);
    return psr_table_differ(group, other, number, here, there);
}

static psr_err compare(const psring_group *group, record *all, uint64_t number)
{
    for (uint32_t r = 0; r < psr_node_group_size(group->group); r++) {
        all[r].says[sizeof all[r].says - 1] = '\0';
        all[r].reply.line[sizeof all[r].reply.line - 1] = '\0';
    }
    for (uint32_t r = 1; r < psr_node_group_size(group->group); r++)
        if (all[r].digest != all[0].digest)
            return other_table(group, all, r, number);
    return PSR_OK;
}

/* Checks what the first rank says of the table. */
static psr_err check_first(const psring_group *group, record *first)
{
    const uint32_t rank = psr_node_group_ranks(group->group)[0];
    psr_failure failure = {.err = PSR_ERR_PROTOCOL, .rank = rank, .other = PSR_RANK_ANY};
    first->reply.err = psr_opening_replied(first->reply.err);
    if (first->reply.err != PSR_OK)
        return PSR_OK;
    const bool id_fits =
        psr_opening_id_is((uint64_t)first->id, rank, group->comm->view->member_count);
    if (id_fits && first->reply.states >= 0 && first->reply.states <= STATES_MAX)
        return PSR_OK;
    if (id_fits)
        snprintf(failure.line, sizeof failure.line,
                 "rank %" PRIu32 " says that a table's update has %" PRId64 " states", rank,
                 first->reply.states);
    else
        snprintf(failure.line, sizeof failure.line,
                 "rank %" PRIu32 " gives a table the group %" PRId64 ", which is not its to make",
                 rank, first->id);
    return psr_comm_find(group->comm, group->group, &failure);
}

static void set_initial(psr_node_table *table, uint32_t part_count, psr_type type,
                        const void *initial)
{
    const unsigned char *from = initial;
    float *values = psr_node_table_values(table);
    for (uint32_t p = 0; p < part_count; p++) {
        psr_span span = psr_node_table_part(table, p);
        psr_node_table_to_floats(type, values + span.offset, from, span.count);
        from += span.count / psr_node_table_width(type) * psr_type_bytes(type);
    }
}

static psr_err begin(psring_group *group, const psr_opening *opening, const void *initial,
                     uint32_t states, const psring_call *call, psring_table **ret_table)
{
    psring_comm *comm = group->comm;
    psring_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a table");
    *t = (psring_table){.comm = comm,
                        .group = group,
                        .part_count = opening->part_count,
                        .states = states,
                        .type = opening->type,
                        .updates = opening->updates,
                        .bsp = opening->consistency.kind == PSR_CONSISTENCY_BSP};
    psr_err err = psr_service_make_group(comm, opening, NULL, &t->node_group);
    if (err == PSR_OK && psr_node_group_rank(group->group) == 0 && opening->initial)
        set_initial(psr_node_group_table(t->node_group), opening->part_count, opening->type,
                    initial);
    if (err == PSR_OK) {
        psr_node_group_opened_by(t->node_group, group->group);
        err = psr_service_open_group(comm, t->node_group);
    }
    if (err == PSR_OK)
        err = psr_service_begin_table(comm, t->node_group, opening->initial, call);
    if (err != PSR_OK) { /* a group that was opened ends with comm */
        free(t);
        return err;
    }
    t->next = comm->tables;
    comm->tables = t;
    *ret_table = t;
    return PSR_OK;
}

/* Tells each shard that was asked, even if one of them cannot be told. */
static psr_err go(psring_comm *comm, uint32_t asked, bool yes, const psring_call *call)
{
    const int64_t word = yes;
    psr_err err = PSR_OK;
    for (uint32_t s = 0; s < asked; s++) {
        psr_err told = psr_service_send(comm, comm->workers + s, PSR_SERVICE_GO, &word, 1, call);
        err = err == PSR_OK ? told : err;
    }
    return err;
}

static psr_err open_with(psring_group *group, psr_opening *opening, const void *initial,
                         record *all, const psring_call *call, psring_table **ret_table)
{
    psring_comm *comm = group->comm;
    const bool first = psr_node_group_rank(group->group) == 0;
    record own = {.digest = (int64_t)psr_opening_digest(opening)};
    uint32_t asked = 0;
    uint64_t number = 0;
    psr_opening_describe(opening, own.says);
    if (first) {
        opening->initial = initial != NULL;
        PSR_TRY(psr_comm_next_group(comm, &opening->id));
        /* all ranks learn why */
        if (ask_shards(comm, opening, call, &asked, &own.reply) != PSR_OK) {
            own.reply.err = PSR_ERR_PEER;
            snprintf(own.reply.line, sizeof own.reply.line, "%s", psr_err_detail());
        }
        own.id = opening->id;
        own.initial = opening->initial;
    }
    psr_err err =
        psr_table_gather(PSR_KIND_TABLE_OPEN, group, &own, all, sizeof own, call, &number);
    if (err == PSR_OK)
        err = compare(group, all, number);
    if (err == PSR_OK)
        err = check_first(group, &all[0]);
    if (err == PSR_OK && all[0].reply.err != PSR_OK)
        err = psr_fail((psr_err)all[0].reply.err, "%s", all[0].reply.line);
    if (err != PSR_OK) { /* the shards that wait are told, and serve others */
        char detail[PSR_ERR_DETAIL_BYTES];
        psr_err_detail_keep(detail);
        psr_err told = go(comm, asked, false, call);
        (void)told;
        return psr_fail(err, "%s", detail);
    }
    PSR_TRY(go(comm, asked, true, call));
    opening->id = (uint32_t)all[0].id;
    opening->initial = all[0].initial != 0;
    err = begin(group, opening, initial, (uint32_t)all[0].reply.states, call, ret_table);
    return err == PSR_OK ? PSR_OK : psr_comm_give_up(comm, group->group, err, "opens a table");
}

static psr_err open_table(psring_group *group, const char *name,
                          const psring_table_options *options, const psring_call *given,
                          psring_table **ret_table)
{
    psring_call call;
    psring_table_options o = {0};
    psr_opening opening;
    PSR_TRY(check_group(group));
    PSR_TRY(psr_table_call_read("psring_table_open", given, &call));
    PSR_TRY(read_options(options, &o));
    PSR_TRY(psr_comm_check(group->comm, group->group));
    PSR_TRY(make_opening(group, name, &o, &opening));
    call.name = "psring_table_open";
    /* memory for a worker's copy, and for what it owes */
    psr_err err =
        psr_opening_fits(&opening, 1, 1 + psr_compression_has_residual(opening.compression));
    record *all = err == PSR_OK ? calloc(psr_node_group_size(group->group), sizeof *all) : NULL;
    if (err == PSR_OK)
        err = all != NULL ? open_with(group, &opening, o.initial, all, &call, ret_table)
                          : psr_fail(PSR_ERR_NOMEM, "no memory to open a table");
    free(all);
    psr_opening_done(&opening);
    return err;
}

psring_err psring_table_open(psring_group *group, const char *name,
                             const psring_table_options *options, const psring_call *call,
                             psring_table **ret_table)
{
    psr_err err = psr_comm_need(group, "psring_table_open: group");
    if (err == PSR_OK)
        err = psr_comm_need(ret_table, "psring_table_open: ret_table");
    if (err == PSR_OK)
        err = psr_comm_enter(group->comm);
    if (err != PSR_OK)
        return (psring_err)err;
    return psr_comm_leave(group->comm, open_table(group, name, options, call, ret_table));
}

/* ---- pushing and pulling ---- */

psr_err psr_table_check_values(const char *what, const void *values, size_t value_bytes)
{
    if (values != NULL && (uintptr_t)values % value_bytes == 0)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE, "%s: its values are %s", what,
                    values == NULL     ? "NULL"
                    : value_bytes == 4 ? "not aligned for float32"
                    : value_bytes == 8 ? "not aligned for float64"
                                       : "not aligned for 16-bit values");
}

static psr_err check_overlap(const void *values, const void *ret_values, size_t bytes)
{
    const uintptr_t a = (uintptr_t)values, b = (uintptr_t)ret_values;
    if (a == b || a >= b + bytes || b >= a + bytes)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE, "psring_push_pull: ret_values and values overlap in part");
}

static const char *const names[] = {[PSR_NODE_PUSH] = "psring_push",
                                    [PSR_NODE_PULL] = "psring_pull",
                                    [PSR_NODE_PUSH_PULL] = "psring_push_pull"};

psr_err psr_table_find_part(const psring_table *t, const char *what, size_t part,
                            uint32_t *ret_part, size_t *ret_count)
{
    const psr_node_table *table = psr_node_group_table(t->node_group);
    size_t count = 0;
    if (part != PSRING_ALL && part >= t->part_count)
        return psr_fail(PSR_ERR_USAGE, "%s: part %zu is none of %" PRIu32, what, part,
                        t->part_count);
    for (uint32_t p = 0; p < t->part_count && part == PSRING_ALL; p++)
        count += psr_node_table_part(table, p).count;
    *ret_part = part == PSRING_ALL ? PSR_NODE_ALL_PARTS : (uint32_t)part;
    if (part != PSRING_ALL)
        count = psr_node_table_part(table, *ret_part).count;
    *ret_count = count / psr_node_table_width(t->type);
    return PSR_OK;
}

static psr_err operate(psring_table *t, psr_node_table_verb verb, size_t part, const void *values,
                       void *ret_values, const psring_call *given, psring_request **ret_request)
{
    psring_comm *comm = t->comm;
    psring_call call;
    psr_node_request *request = NULL;
    psr_node_table_task task = {.verb = verb, .values = values, .ret_values = ret_values};
    const size_t value_bytes = psr_type_bytes(t->type);
    size_t count = 0;
    PSR_TRY(psr_table_call_read(names[verb], given, &call));
    PSR_TRY(psr_table_find_part(t, names[verb], part, &task.part, &count));
    if (verb != PSR_NODE_PULL)
        PSR_TRY(psr_table_check_values(names[verb], values, value_bytes));
    if (verb != PSR_NODE_PUSH)
        PSR_TRY(psr_table_check_values(names[verb], ret_values, value_bytes));
    if (verb == PSR_NODE_PUSH_PULL)
        PSR_TRY(check_overlap(values, ret_values, count * value_bytes));
    PSR_TRY(psr_comm_check(comm, t->node_group));
    if (t->group == NULL)
        return psr_fail(PSR_ERR_USAGE, "%s: the group that opened the table was freed",
                        names[verb]);
    PSR_TRY(psr_node_table_request_new(t->node_group, &task,
                                       call.deadline_ms > 0 ? call.deadline_ms : comm->deadline_ms,
                                       call.name, &request));
    if (ret_request == NULL)
        return psr_comm_run(comm, request);
    PSR_TRY(psr_request_keep(comm, t->group, request, ret_request));
    (*ret_request)->table = t;
    return PSR_OK;
}

psr_err psr_table_name_loss(const psring_table *t, psr_err err)
{
    const psr_failure *failure = psr_node_group_failure(t->node_group);
    if (err == PSR_OK || failure == NULL || failure->rank == PSR_RANK_ANY ||
        failure->rank < t->comm->workers)
        return err;
    return psr_fail_context(err, "table \"%s\" is lost",
                            psr_node_table_name(psr_node_group_table(t->node_group)));
}

static psring_err operate_within(psring_table *t, psr_node_table_verb verb, size_t part,
                                 const void *values, void *ret_values, const psring_call *call,
                                 psring_request **ret_request)
{
    if (t == NULL)
        return (psring_err)psr_fail(PSR_ERR_USAGE, "%s: table is NULL", names[verb]);
    psring_comm *comm = t->comm;
    psr_err err = psr_comm_enter(comm);
    if (err != PSR_OK)
        return (psring_err)err;
    err = operate(t, verb, part, values, ret_values, call, ret_request);
    return psr_comm_leave(comm, psr_table_name_loss(t, err));
}

psring_err psring_push(psring_table *table, size_t part, const void *values,
                       const psring_call *call, psring_request **ret_request)
{
    return operate_within(table, PSR_NODE_PUSH, part, values, NULL, call, ret_request);
}

psring_err psring_pull(psring_table *table, size_t part, void *ret_values, const psring_call *call,
                       psring_request **ret_request)
{
    return operate_within(table, PSR_NODE_PULL, part, NULL, ret_values, call, ret_request);
}

psring_err psring_push_pull(psring_table *table, size_t part, const void *values, void *ret_values,
                            const psring_call *call, psring_request **ret_request)
{
    return operate_within(table, PSR_NODE_PUSH_PULL, part, values, ret_values, call, ret_request);
}

uint64_t psring_table_staleness(psring_table *table)
{
    return table != NULL ? psr_node_table_take_staleness(psr_node_group_table(table->node_group))
                         : 0;
}

/* ---- closing ---- */

/* What each rank sends; the names are for lines. */
typedef struct closing {
    int64_t id;
    char name[PSR_OPENING_NAME_BYTES];
} closing;

_Static_assert(sizeof(closing) % sizeof(int64_t) == 0, "a closing is words");

static psr_err compare_closings(const psring_group *group, closing *all, uint64_t number)
{
    for (uint32_t r = 1; r < psr_node_group_size(group->group); r++) {
        if (all[r].id == all[0].id)
            continue;
        char first[sizeof all[0].name + 32], other[sizeof all[0].name + 32];
        all[0].name[sizeof all[0].name - 1] = all[r].name[sizeof all[r].name - 1] = '\0';
        snprintf(first, sizeof first, "closes table \"%s\"", all[0].name);
        snprintf(other, sizeof other, "closes table \"%s\"", all[r].name);
        return psr_table_differ(group, r, number, first, other);
    }
    return PSR_OK;
}

static psr_err agree_to_close(const psring_table *t, const psring_call *call)
{
    closing own = {.id = psr_node_group_id(t->node_group)};
    uint64_t number = 0;
    snprintf(own.name, sizeof own.name, "%s",
             psr_node_table_name(psr_node_group_table(t->node_group)));
    closing *all = calloc(psr_node_group_size(t->group->group), sizeof *all);
    psr_err err = all != NULL ? psr_table_gather(PSR_KIND_TABLE_CLOSE, t->group, &own, all,
                                                 sizeof own, call, &number)
                              : psr_fail(PSR_ERR_NOMEM, "no memory to close a table");
    if (err == PSR_OK)
        err = compare_closings(t->group, all, number);
    free(all);
    return err;
}

/* When all workers have come here, none of them waits for a shard any more. */
static psr_err meet(psring_table *t, const psring_call *call)
{
    psring_comm *comm = t->comm;
    PSR_TRY(psr_comm_check(comm, t->node_group));
    if (t->group == NULL)
        return psr_fail(PSR_ERR_USAGE, "psring_table_close: its group was freed before");
    const uint32_t id = psr_node_group_id(t->node_group);
    PSR_TRY(agree_to_close(t, call));
    if (psr_node_group_rank(t->group->group) == 0)
        PSR_TRY(psr_service_notify(comm, PSR_NOTICE_CLOSE, id, call));
    return psr_driver_order(comm->driver, PSR_NODE_CLOSE_GROUP, t->node_group);
}

/* A request that uses the table. NULL: none does any more. */
static psring_request *request_of(const psring_table *t)
{
    psring_request *r = t->group != NULL ? t->group->requests : NULL;
    while (r != NULL && r->table != t)
        r = r->next;
    return r;
}

static psr_err close_table(psring_table *t, const psring_call *given)
{
    psring_comm *comm = t->comm;
    psring_call call;
    for (psring_request *r; (r = request_of(t)) != NULL;) /* each waits, and others get on */
        psr_request_leave_table(r);
    psr_err err = psr_table_call_read("psring_table_close", given, &call);
    call.name = "psring_table_close";
    if (err == PSR_OK)
        err = meet(t, &call); /* if it fails, the table's memory is freed with comm */
    psring_table **at = &comm->tables;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    free(t);
    return err;
}

psring_err psring_table_close(psring_table **table, const psring_call *call)
{
    if (table == NULL || *table == NULL)
        return PSRING_OK;
    psring_comm *comm = (*table)->comm;
    psr_err err = psr_comm_enter(comm);
    if (err != PSR_OK)
        return (psring_err)err;
    err = close_table(*table, call);
    *table = NULL;
    return psr_comm_leave(comm, err);
}
