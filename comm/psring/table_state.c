/* Reads and writes tables: their values, and what the update keeps beside them. All ranks of the
 * group take part, so what one rank reads contains what the others have pushed. The steps are:
 *
 * 1. Each rank tells the others what it calls (MISMATCH). From here on nobody pushes.
 * 2. Each rank waits until the shards have taken its pushes, and in BSP until it has the values of
 *    the last update.
 * 3. A barrier: now all pushes are taken. A read in BSP needs none, since the next update needs
 *    this rank's next push.
 * 4. Read: each rank that wants values asks the shards. Write: the first rank sends them.
 * 5. A barrier: only now may a rank push again. A read in BSP needs none. A write of values in BSP
 *    ends with a broadcast instead, because a pull takes the values from each rank's own copy. */
#include "comm/node/node_table.h"
#include "comm/psring/service.h"
#include "comm/psring/table_shared.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One call of either function. */
typedef struct whole {
    psring_table *table;
    bool writes;
    uint32_t state, part; /* part: or PSR_NODE_ALL_PARTS */
    size_t count;
    const void *values;
    void *ret_values;
    psring_call call;
} whole;

static const char *name_of(bool writes)
{
    return writes ? "psring_table_write" : "psring_table_read";
}

/* ---- checks ---- */

static psr_err check_state(const psring_table *t, const char *what, uint32_t state)
{
    if (state <= t->states)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "%s: there is no state %" PRIu32 " of table \"%s\": 0 is its values, and its "
                    "update has %" PRIu32 " states",
                    what, state, psr_node_table_name(psr_node_group_table(t->node_group)),
                    t->states);
}

static psr_err check_count(const psring_table *t, const char *what, uint32_t part, size_t expected,
                           size_t count)
{
    if (count == expected)
        return PSR_OK;
    const char *name = psr_node_table_name(psr_node_group_table(t->node_group));
    if (part == PSR_NODE_ALL_PARTS)
        return psr_fail(PSR_ERR_USAGE, "%s: %zu values for table \"%s\", which has %zu", what,
                        count, name, expected);
    return psr_fail(PSR_ERR_USAGE,
                    "%s: %zu values for part %" PRIu32 " of table \"%s\", which has %zu", what,
                    count, part, name, expected);
}

/* A request counts until its owner was told of its end: the result must not depend on timing. */
psr_err psr_table_check_idle(const psring_table *t, const char *what)
{
    for (const psring_request *r = t->group->requests; r != NULL; r = r->next)
        if (r->table == t && !r->told)
            return psr_fail(PSR_ERR_USAGE,
                            "%s: a push or pull of table \"%s\" is under way: wait for its request "
                            "first",
                            what, psr_node_table_name(psr_node_group_table(t->node_group)));
    return PSR_OK;
}

static psr_err check(whole *w, size_t part, const psring_call *given)
{
    psring_table *t = w->table;
    const char *what = name_of(w->writes);
    size_t expected = 0;
    PSR_TRY(psr_table_call_read(what, given, &w->call));
    PSR_TRY(check_state(t, what, w->state));
    PSR_TRY(psr_table_find_part(t, what, part, &w->part, &expected));
    PSR_TRY(check_count(t, what, w->part, expected, w->count));
    PSR_TRY(psr_comm_check(t->comm, t->node_group));
    if (t->group == NULL)
        return psr_fail(PSR_ERR_USAGE, "%s: the group that opened the table was freed", what);
    const bool gives = w->writes && psr_node_group_rank(t->group->group) == 0;
    if (gives || w->ret_values != NULL)
        PSR_TRY(
            psr_table_check_values(what, w->writes ? w->values : w->ret_values,
                                   t->type == PSR_TYPE_FLOAT64 ? sizeof(double) : sizeof(float)));
    return psr_table_check_idle(t, what);
}

/* ---- what each rank tells the others ---- */

typedef struct record {
    int64_t id, state, part, pushes;
    char name[PSR_OPENING_NAME_BYTES];
} record;

_Static_assert(sizeof(record) % sizeof(int64_t) == 0, "a record is words");

static void describe(const whole *w, const record *r, bool with_pushes, char line[192])
{
    char part[48] = "all parts", pushes[64] = "";
    if (r->part != PSR_NODE_ALL_PARTS)
        snprintf(part, sizeof part, "part %" PRId64, r->part);
    if (with_pushes)
        snprintf(pushes, sizeof pushes, ", after %" PRId64 " pushes", r->pushes);
    snprintf(line, 192, "%s state %" PRId64 " of %s of table \"%.63s\"%s",
             w->writes ? "writes" : "reads", r->state, part, r->name, pushes);
}

/* In BSP all must have pushed equally often: otherwise a rank would wait for a push that never
 * comes. */
static psr_err compare(const whole *w, record *all, uint64_t number)
{
    const psring_group *group = w->table->group;
    for (uint32_t r = 0; r < psr_node_group_size(group->group); r++)
        all[r].name[sizeof all[r].name - 1] = '\0';
    for (uint32_t r = 1; r < psr_node_group_size(group->group); r++) {
        const bool same =
            all[r].id == all[0].id && all[r].state == all[0].state && all[r].part == all[0].part;
        if (same && (!w->table->bsp || all[r].pushes == all[0].pushes))
            continue;
        char first[192], other[192];
        describe(w, &all[0], same, first);
        describe(w, &all[r], same, other);
        return psr_table_differ(group, r, number, first, other);
    }
    return PSR_OK;
}

static psr_err agree(const whole *w)
{
    const psring_table *t = w->table;
    const psr_node_table *table = psr_node_group_table(t->node_group);
    record own = {.id = psr_node_group_id(t->node_group),
                  .state = w->state,
                  .part = w->part,
                  .pushes = (int64_t)psr_node_table_rounds(table, w->part)};
    uint64_t number = 0;
    snprintf(own.name, sizeof own.name, "%s", psr_node_table_name(table));
    record *all = calloc(psr_node_group_size(t->group->group), sizeof *all);
    psr_err err = all != NULL
                      ? psr_table_gather(w->writes ? PSR_KIND_TABLE_WRITE : PSR_KIND_TABLE_READ,
                                         t->group, &own, all, sizeof own, &w->call, &number)
                      : psr_fail(PSR_ERR_NOMEM, "no memory to ask for a table");
    if (err == PSR_OK)
        err = compare(w, all, number);
    free(all);
    return err;
}

/* ---- steps ---- */

static psr_err do_task(const whole *w, psr_node_table_verb verb)
{
    const psring_table *t = w->table;
    psr_node_request *request = NULL;
    const psr_node_table_task task = {.verb = verb,
                                      .part = w->part,
                                      .section = w->state,
                                      .values = verb == PSR_NODE_PUT ? w->values : NULL,
                                      .ret_values = verb == PSR_NODE_GET ? w->ret_values : NULL};
    PSR_TRY(psr_node_table_request_new(
        t->node_group, &task, w->call.deadline_ms > 0 ? w->call.deadline_ms : t->comm->deadline_ms,
        w->call.name, &request));
    return psr_comm_run(t->comm, request);
}

static psr_err operate(const whole *w, const psr_request_options *options)
{
    const psring_group *group = w->table->group;
    psr_node_request *request = NULL;
    PSR_TRY(psr_comm_start(group->comm, group->group, options, &w->call, &request));
    return psr_comm_finish(group->comm, request);
}

static psr_err meet(const whole *w)
{
    const psr_request_options barrier = {.kind = PSR_KIND_BARRIER,
                                         .type = PSR_TYPE_UINT8,
                                         .within = name_of(w->writes),
                                         .uncounted = true};
    return operate(w, &barrier);
}

/* No request is under way, so the owner's thread alone uses the copy of the values. */
static void set_copy(const whole *w)
{
    psr_node_table *table = psr_node_group_table(w->table->node_group);
    const float *values = w->values;
    for (uint32_t p = 0; p < w->table->part_count; p++) {
        const psr_span span = psr_node_table_part(table, p);
        if (p != w->part && w->part != PSR_NODE_ALL_PARTS)
            continue;
        memcpy(psr_node_table_values(table) + span.offset, values, span.count * sizeof *values);
        values += span.count;
    }
}

static psr_err share_copy(const whole *w)
{
    psr_node_table *table = psr_node_group_table(w->table->node_group);
    psr_span span = {0, psr_node_table_length(table)};
    if (w->part != PSR_NODE_ALL_PARTS)
        span = psr_node_table_part(table, w->part);
    const psr_request_options broadcast = {.kind = PSR_KIND_BROADCAST,
                                           .type = PSR_TYPE_FLOAT32,
                                           .receive = psr_node_table_values(table) + span.offset,
                                           .count = span.count,
                                           .within = name_of(true),
                                           .uncounted = true};
    return operate(w, &broadcast);
}

static psr_err read_whole(const whole *w)
{
    if (!w->table->bsp)
        PSR_TRY(meet(w));
    if (w->ret_values != NULL)
        PSR_TRY(do_task(w, PSR_NODE_GET));
    return w->table->bsp ? PSR_OK : meet(w);
}

static psr_err write_whole(const whole *w)
{
    const bool first = psr_node_group_rank(w->table->group->group) == 0;
    const bool copies = w->table->bsp && w->state == 0;
    PSR_TRY(meet(w));
    if (first)
        PSR_TRY(do_task(w, PSR_NODE_PUT));
    if (first && copies)
        set_copy(w);
    return copies ? share_copy(w) : meet(w);
}

static psr_err transfer(whole *w, size_t part, const psring_call *given)
{
    PSR_TRY(check(w, part, given));
    psr_err err = agree(w);
    if (err == PSR_OK)
        err = do_task(w, PSR_NODE_SETTLE);
    if (err == PSR_OK)
        err = w->writes ? write_whole(w) : read_whole(w);
    return err == PSR_OK ? PSR_OK
                         : psr_comm_give_up(w->table->comm, w->table->node_group, err,
                                            w->writes ? "writes a table" : "reads a table");
}

/* ---- the public ones ---- */

static psring_err transfer_within(whole *w, size_t part, const psring_call *call)
{
    if (w->table == NULL)
        return (psring_err)psr_fail(PSR_ERR_USAGE, "%s: table is NULL", name_of(w->writes));
    psring_table *t = w->table;
    psr_err err = psr_comm_enter(t->comm);
    if (err != PSR_OK)
        return (psring_err)err;
    err = transfer(w, part, call);
    return psr_comm_leave(t->comm, psr_table_name_loss(t, err));
}

psring_err psring_table_read(psring_table *table, uint32_t state, size_t part, void *ret_values,
                             size_t count, const psring_call *call)
{
    whole w = {.table = table, .state = state, .ret_values = ret_values, .count = count};
    return transfer_within(&w, part, call);
}

psring_err psring_table_write(psring_table *table, uint32_t state, size_t part, const void *values,
                              size_t count, const psring_call *call)
{
    whole w = {.table = table, .writes = true, .state = state, .values = values, .count = count};
    return transfer_within(&w, part, call);
}

uint32_t psring_table_states(const psring_table *table)
{
    return table != NULL ? table->states : 0;
}
