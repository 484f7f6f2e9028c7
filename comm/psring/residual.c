/* What encodings with error feedback keep on a rank: of persistent all-reduces, and of pushes to
 * tables. No message is sent. */
#include "comm/node/node_table.h"
#include "comm/psring/table_shared.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- one call of any of the four ---- */

typedef struct transfer {
    const char *what; /* the function's name */
    float *ret_values;
    const float *values; /* NULL: it reads */
    size_t count;
} transfer;

static psr_err check_count(const transfer *t, size_t expected)
{
    if (t->count == expected)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE, "%s: %zu values, where the residual has %zu", t->what, t->count,
                    expected);
}

/* What is not finite would fail the next push or start, whose values are not to blame. */
static psr_err check_finite(const transfer *t)
{
    for (size_t i = 0; t->values != NULL && i < t->count; i++)
        if (!isfinite(t->values[i]))
            return psr_fail(PSR_ERR_NUMERIC, "%s: value %zu is not finite", t->what, i);
    return PSR_OK;
}

static psr_err check_memory(const transfer *t)
{
    const void *values = t->values != NULL ? t->values : t->ret_values;
    return psr_table_check_values(t->what, values, sizeof(float));
}

static psr_err none_kept(const char *what)
{
    return psr_fail(PSR_ERR_NOT_FOUND,
                    "%s: there is no residual: int8, topk:R and 1bit keep one, in persistent "
                    "all-reduces and in tables",
                    what);
}

/* A run of the residual. */
static void move(transfer *t, float *residual, size_t count)
{
    if (t->values != NULL) {
        memcpy(residual, t->values, count * sizeof *residual);
        t->values += count;
    } else {
        memcpy(t->ret_values, residual, count * sizeof *residual);
        t->ret_values += count;
    }
}

/* ---- of a request ---- */

static psr_err of_request(transfer *t, const psring_request *r)
{
    float *residual = r->request != NULL ? psr_node_request_residual(r->request) : NULL;
    if (residual == NULL)
        return none_kept(t->what);
    PSR_TRY(check_count(t, psr_node_request_count(r->request)));
    if (t->count == 0)
        return PSR_OK;
    PSR_TRY(check_memory(t));
    PSR_TRY(check_finite(t));
    if (!psr_node_request_ended(r->request))
        return psr_fail(PSR_ERR_BUSY, "%s: the request is under way", t->what);
    move(t, residual, t->count);
    return PSR_OK;
}

static psring_err of_request_within(transfer t, psring_request *request)
{
    if (request == NULL)
        return (psring_err)psr_fail(PSR_ERR_USAGE, "%s: request is NULL", t.what);
    psr_err err = psr_comm_enter(request->comm);
    if (err != PSR_OK)
        return (psring_err)err;
    return psr_comm_leave(request->comm, of_request(&t, request));
}

psring_err psring_residual_read(psring_request *request, float *ret_residual, size_t count)
{
    return of_request_within(
        (transfer){.what = "psring_residual_read", .ret_values = ret_residual, .count = count},
        request);
}

psring_err psring_residual_write(psring_request *request, const float *residual, size_t count)
{
    return of_request_within(
        (transfer){.what = "psring_residual_write", .values = residual, .count = count}, request);
}

/* ---- of a table ---- */

static psr_err of_table(transfer *t, const psring_table *table, size_t part)
{
    psr_node_table *node_table = psr_node_group_table(table->node_group);
    float *residual = psr_node_table_residual(node_table);
    size_t expected = 0;
    uint32_t which = 0;
    if (residual == NULL)
        return none_kept(t->what);
    PSR_TRY(psr_table_find_part(table, t->what, part, &which, &expected));
    PSR_TRY(check_count(t, expected));
    PSR_TRY(check_memory(t));
    PSR_TRY(check_finite(t));
    if (table->group == NULL)
        return psr_fail(PSR_ERR_USAGE, "%s: the group that opened the table was freed", t->what);
    PSR_TRY(psr_table_check_idle(table, t->what));
    for (uint32_t p = 0; p < table->part_count; p++) {
        const psr_span span = psr_node_table_part(node_table, p);
        if (p == which || which == PSR_NODE_ALL_PARTS)
            move(t, residual + span.offset, span.count);
    }
    return PSR_OK;
}

static psring_err of_table_within(transfer t, psring_table *table, size_t part)
{
    if (table == NULL)
        return (psring_err)psr_fail(PSR_ERR_USAGE, "%s: table is NULL", t.what);
    psr_err err = psr_comm_enter(table->comm);
    if (err != PSR_OK)
        return (psring_err)err;
    return psr_comm_leave(table->comm, of_table(&t, table, part));
}

psring_err psring_table_residual_read(psring_table *table, size_t part, float *ret_residual,
                                      size_t count)
{
    return of_table_within((transfer){.what = "psring_table_residual_read",
                                      .ret_values = ret_residual,
                                      .count = count},
                           table, part);
}

psring_err psring_table_residual_write(psring_table *table, size_t part, const float *residual,
                                       size_t count)
{
    return of_table_within(
        (transfer){.what = "psring_table_residual_write", .values = residual, .count = count},
        table, part);
}
