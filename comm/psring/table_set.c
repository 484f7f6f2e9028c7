/* Gives a table's update new arguments. The steps are:
 *
 * 1. Each rank tells the others what it calls (MISMATCH). If no update was named to begin with, and
 *    in BSP all have pushed all parts equally often, the next update is the one.
 * 2. If there is none still: each rank waits until the shards have taken its pushes, and for the
 *    others. From here on nobody pushes.
 * 3. The first rank tells all shards at once, which answer when they have the arguments.
 * 4. It tells the others what they have answered. Only now may a rank push. */
#include "comm/node/node_table.h"
#include "comm/psring/service.h"
#include "comm/psring/table_shared.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const what = "psring_table_set";

typedef struct wanted {
    psring_table *table;
    const char *arguments;
    uint64_t from; /* 0: the pushes from now on; after agree too, if they have no one number */
    psring_call call;
} wanted;

/* ---- checks ---- */

/* The least and the most updates that this rank has begun of a part. */
static void begun_updates(const psring_table *t, uint64_t *ret_least, uint64_t *ret_most)
{
    const psr_node_table *table = psr_node_group_table(t->node_group);
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t p = 0; p < t->part_count; p++) {
        const uint64_t rounds = psr_node_table_rounds(table, p);
        least = rounds < least ? rounds : least;
        most = rounds > most ? rounds : most;
    }
    *ret_least = t->updates + least;
    *ret_most = t->updates + most;
}

static psr_err check_from(const wanted *w)
{
    const psring_table *t = w->table;
    uint64_t least = 0, most = 0;
    if (w->from == 0)
        return psr_table_check_idle(t, what);
    if (!t->bsp)
        return psr_fail(PSR_ERR_USAGE,
                        "%s: from is %" PRIu64 ": outside of bsp it is 0, since nobody knows which "
                        "push will be that update",
                        what, w->from);
    begun_updates(t, &least, &most);
    if (w->from > most)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "%s: from is %" PRIu64 ", and this rank has begun update %" PRIu64
                    " of a part already",
                    what, w->from, most);
}

static psr_err check(wanted *w, const psring_call *given)
{
    psring_table *t = w->table;
    PSR_TRY(psr_table_call_read(what, given, &w->call));
    if (w->arguments == NULL || strlen(w->arguments) >= PSR_OPENING_UPDATE_BYTES)
        return psr_fail(PSR_ERR_USAGE, "%s: arguments should have at most %d bytes", what,
                        PSR_OPENING_UPDATE_BYTES - 1);
    PSR_TRY(psr_comm_check(t->comm, t->node_group));
    if (t->group == NULL)
        return psr_fail(PSR_ERR_USAGE, "%s: the group that opened the table was freed", what);
    return check_from(w);
}

/* ---- what each rank tells the others ---- */

typedef struct record {
    int64_t id, from;
    int64_t next; /* in BSP the number of the next update of every part; 0: they differ */
    char arguments[PSR_OPENING_UPDATE_BYTES];
    char name[PSR_OPENING_NAME_BYTES];
} record;

_Static_assert(sizeof(record) % sizeof(int64_t) == 0, "a record is words");

static void describe(const record *r, char line[224])
{
    char from[48] = "now";
    if (r->from != 0)
        snprintf(from, sizeof from, "update %" PRId64, r->from);
    snprintf(line, 224, "sets \"%.100s\" of table \"%.60s\" from %s on", r->arguments, r->name,
             from);
}

static psr_err compare(const psring_group *group, record *all, uint64_t number)
{
    for (uint32_t r = 0; r < psr_node_group_size(group->group); r++)
        all[r].arguments[sizeof all[r].arguments - 1] = all[r].name[sizeof all[r].name - 1] = '\0';
    for (uint32_t r = 1; r < psr_node_group_size(group->group); r++) {
        if (all[r].id == all[0].id && all[r].from == all[0].from &&
            strcmp(all[r].arguments, all[0].arguments) == 0)
            continue;
        char first[224], other[224];
        describe(&all[0], first);
        describe(&all[r], other);
        return psr_table_differ(group, r, number, first, other);
    }
    return PSR_OK;
}

static int64_t next_update(const psring_table *t)
{
    uint64_t least = 0, most = 0;
    begun_updates(t, &least, &most);
    return t->bsp && least == most && most < INT64_MAX ? (int64_t)most + 1 : 0;
}

/* The same on all ranks. */
static uint64_t common_next(const psring_group *group, const record *all)
{
    for (uint32_t r = 1; r < psr_node_group_size(group->group); r++)
        if (all[r].next != all[0].next)
            return 0;
    return (uint64_t)all[0].next;
}

static psr_err agree(wanted *w)
{
    const psring_table *t = w->table;
    record own = {
        .id = psr_node_group_id(t->node_group), .from = (int64_t)w->from, .next = next_update(t)};
    uint64_t number = 0;
    snprintf(own.name, sizeof own.name, "%s",
             psr_node_table_name(psr_node_group_table(t->node_group)));
    snprintf(own.arguments, sizeof own.arguments, "%s", w->arguments);
    record *all = calloc(psr_node_group_size(t->group->group), sizeof *all);
    psr_err err = all != NULL ? psr_table_gather(PSR_KIND_TABLE_SET, t->group, &own, all,
                                                 sizeof own, &w->call, &number)
                              : psr_fail(PSR_ERR_NOMEM, "no memory to set a table's arguments");
    if (err == PSR_OK)
        err = compare(t->group, all, number);
    if (err == PSR_OK && w->from == 0)
        w->from = common_next(t->group, all);
    free(all);
    return err;
}

/* ---- steps ---- */

static psr_err settle(const wanted *w)
{
    const psring_table *t = w->table;
    psr_node_request *request = NULL;
    const psr_node_table_task task = {.verb = PSR_NODE_SETTLE, .part = PSR_NODE_ALL_PARTS};
    PSR_TRY(psr_node_table_request_new(
        t->node_group, &task, w->call.deadline_ms > 0 ? w->call.deadline_ms : t->comm->deadline_ms,
        w->call.name, &request));
    return psr_comm_run(t->comm, request);
}

static psr_err operate(const wanted *w, psr_kind kind, psr_type type, void *receive, size_t count)
{
    const psring_group *group = w->table->group;
    psr_node_request *request = NULL;
    const psr_request_options options = {.kind = kind,
                                         .type = type,
                                         .receive = receive,
                                         .count = count,
                                         .within = what,
                                         .uncounted = true};
    PSR_TRY(psr_comm_start(group->comm, group->group, &options, &w->call, &request));
    return psr_comm_finish(group->comm, request);
}

static psr_err ask_shards(const wanted *w)
{
    const psring_table *t = w->table;
    psring_comm *comm = t->comm;
    uint64_t least = 0, most = 0;
    const int64_t notice[PSR_NOTICE_WORDS] = {
        [PSR_NOTICE_WHAT] = PSR_NOTICE_SET, [PSR_NOTICE_NUMBER] = psr_node_group_id(t->node_group)};
    psr_setting setting = {.from = (int64_t)w->from};
    begun_updates(t, &least, &most);
    /* A push begins when the values of the one before it have come, so the shards may still have
     * the last update to make. */
    setting.done = (int64_t)(least > t->updates ? least - 1 : least);
    snprintf(setting.arguments, sizeof setting.arguments, "%s", w->arguments);
    for (uint32_t s = 0; s < comm->shards; s++) {
        const uint32_t shard = comm->workers + s;
        PSR_TRY(
            psr_service_send(comm, shard, PSR_SERVICE_NOTICE, notice, PSR_NOTICE_WORDS, &w->call));
        PSR_TRY(psr_service_send(comm, shard, PSR_SERVICE_SETTING, &setting, PSR_SETTING_WORDS,
                                 &w->call));
    }
    return PSR_OK;
}

/* If all shards refuse, nothing has changed. If one refuses what another one has taken, they have
 * different updates, and the table fails. *ret_reply: that of all. */
static psr_err hear_shards(const wanted *w, psr_reply *ret_reply)
{
    psring_comm *comm = w->table->comm;
    uint32_t refused = 0;
    psr_reply refusal = {.err = PSR_OK};
    for (uint32_t s = 0; s < comm->shards; s++) {
        psr_reply reply;
        PSR_TRY(psr_service_receive(comm, comm->workers + s, PSR_SERVICE_REPLY, &reply,
                                    PSR_REPLY_WORDS, &w->call));
        reply.line[sizeof reply.line - 1] = '\0';
        if (reply.err != PSR_OK && refused++ == 0)
            refusal = reply;
    }
    if (refused > 0 && refused < comm->shards)
        return psr_fail(psr_opening_replied(refusal.err), "%s", refusal.line);
    *ret_reply = refusal;
    return PSR_OK;
}

/* *ret_reply: what the shards have answered. */
static psr_err set_on_all(wanted *w, psr_reply *ret_reply)
{
    PSR_TRY(agree(w));
    if (w->from == 0) {
        PSR_TRY(settle(w));
        PSR_TRY(operate(w, PSR_KIND_BARRIER, PSR_TYPE_UINT8, NULL, 0));
    }
    if (psr_node_group_rank(w->table->group->group) == 0) {
        PSR_TRY(ask_shards(w));
        PSR_TRY(hear_shards(w, ret_reply));
    }
    PSR_TRY(operate(w, PSR_KIND_BROADCAST, PSR_TYPE_INT64, ret_reply, PSR_REPLY_WORDS));
    ret_reply->line[sizeof ret_reply->line - 1] = '\0';
    return PSR_OK;
}

static psr_err set(wanted *w, const psring_call *given)
{
    psr_reply reply = {.err = PSR_OK};
    PSR_TRY(check(w, given));
    psr_err err = set_on_all(w, &reply);
    if (err != PSR_OK)
        return psr_comm_give_up(w->table->comm, w->table->node_group, err,
                                "sets a table's arguments");
    err = psr_opening_replied(reply.err);
    return err == PSR_OK ? PSR_OK : psr_fail(err, "%s", reply.line);
}

psring_err psring_table_set(psring_table *table, const char *arguments, uint64_t from,
                            const psring_call *call)
{
    wanted w = {.table = table, .arguments = arguments, .from = from};
    psr_err err = psr_comm_need(table, "psring_table_set: table");
    if (err == PSR_OK)
        err = psr_comm_enter(table->comm);
    if (err != PSR_OK)
        return (psring_err)err;
    psring_comm *comm = table->comm;
    err = set(&w, call);
    return psr_comm_leave(comm, psr_table_name_loss(table, err));
}
