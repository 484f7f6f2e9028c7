/* How a group fails and what comes after: the failure, revoking a group, a new group of the living
 * ranks. */
#include "comm/psring/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

psring_err psring_group_failure(const psring_group *group, psring_failure *ret_failure)
{
    psr_err err = psr_comm_need(group, "psring_group_failure: group");
    if (err == PSR_OK)
        err = psr_comm_need(ret_failure, "psring_group_failure: ret_failure");
    if (err != PSR_OK)
        return (psring_err)err;
    const psr_failure *f = psr_node_group_failure(group->group);
    if (f == NULL)
        return (psring_err)psr_fail(PSR_ERR_NOT_FOUND, "the group is whole");
    psring_failure failure = {.err = (psring_err)f->err,
                              .rank = f->rank == PSR_RANK_ANY ? PSRING_NO_RANK : (int)f->rank,
                              .other = f->other == PSR_RANK_ANY ? PSRING_NO_RANK : (int)f->other,
                              .epoch = psring_epoch(group),
                              .number = f->number};
    memcpy(failure.line, f->line, sizeof failure.line);
    return (psring_err)psr_options_write("psring_failure", &failure, sizeof failure, ret_failure,
                                         sizeof failure);
}

/* ---- a group that a rank ends ---- */

static psr_failure ended_by(const psring_group *group, const char *how, const char *line)
{
    const psring_comm *comm = group->comm;
    psr_failure failure = {.err = PSR_ERR_CANCELLED,
                           .scope = PSR_SCOPE_GROUP,
                           .rank = comm->rank,
                           .other = PSR_RANK_ANY};
    snprintf(failure.line, sizeof failure.line, "rank %" PRIu32 " on %s %s%s%.400s", comm->rank,
             psring_host(&comm->world, (int)comm->rank), how, line[0] != '\0' ? ": " : "", line);
    return failure;
}

/* Does nothing if the group has failed already. */
static psr_err end_group(psring_group *group, const char *how, const char *line)
{
    const psr_failure failure = ended_by(group, how, line);
    psr_err err = psr_node_group_failure(group->group) == NULL
                      ? psr_comm_find(group->comm, group->group, &failure)
                      : PSR_OK;
    *psr_node_group_told(group->group) = true; /* the caller knows */
    return psr_node_group_failure(group->group) != NULL ? PSR_OK : err;
}

psring_err psring_revoke(psring_group *group, const char *line)
{
    psr_err err = psr_comm_need(group, "psring_revoke: group");
    if (err == PSR_OK)
        err = psr_comm_enter(group->comm);
    if (err != PSR_OK)
        return (psring_err)err;
    return psr_comm_leave(group->comm,
                          end_group(group, "revoked the group", line != NULL ? line : ""));
}

/* ---- the living ranks ---- */

static bool has_ended(void *context)
{
    return psr_node_shrink_ended(context);
}

static bool may_shrink(void *context)
{
    return !((const psring_comm *)context)->shrinking;
}

/* Orders the shrink and waits until it has ended. A node has one at a time. */
static psr_err await(psring_comm *comm, psr_node_shrink *wish, psr_node_group **ret_living)
{
    while (!may_shrink(comm))
        (void)psr_driver_wait(comm->driver, may_shrink, comm, INT64_MAX);
    comm->shrinking = true;
    psr_err err = psr_driver_order(comm->driver, PSR_NODE_SHRINK, wish);
    if (err == PSR_OK)
        (void)psr_driver_wait(comm->driver, has_ended, wish, INT64_MAX);
    comm->shrinking = false;
    psr_driver_changed_here(comm->driver);
    return err == PSR_OK ? psr_node_shrink_result(wish, ret_living) : err;
}

/* All memory is allocated before, so that this rank has the group if the others have it. */
static psr_err shrink(psring_group *group, int64_t deadline_ms, psring_group **ret_group)
{
    psring_comm *comm = group->comm;
    psr_node_shrink *wish = NULL;
    psr_node_group *living = NULL;
    PSR_TRY(end_group(group, "shrinks the group", ""));
    psring_group *made = calloc(1, sizeof *made);
    if (made == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group");
    psr_err err = psr_node_shrink_new(group->group, deadline_ms, &wish);
    if (err == PSR_OK)
        err = await(comm, wish, &living);
    psr_node_shrink_free(wish);
    if (err != PSR_OK) {
        free(made);
        return err;
    }
    psr_comm_add_group(comm, living, made);
    *ret_group = made;
    return PSR_OK;
}

static psr_err read_call(const psring_call *given, const psring_comm *comm,
                         int64_t *ret_deadline_ms)
{
    psring_call call;
    PSR_TRY(psr_options_read("psring_call", given, PSR_CALL_FIRST_BYTES, &call, sizeof call));
    if (call.algorithm != NULL || call.counts != NULL || call.persistent)
        return psr_fail(PSR_ERR_USAGE, "a group is made with a deadline and a name alone");
    if (call.deadline_ms < 0)
        return psr_fail(PSR_ERR_USAGE, "psring_shrink: deadline_ms is %lld",
                        (long long)call.deadline_ms);
    *ret_deadline_ms = call.deadline_ms > 0 ? call.deadline_ms : comm->deadline_ms;
    return PSR_OK;
}

psring_err psring_shrink(psring_group *group, const psring_call *call, psring_group **ret_group)
{
    int64_t deadline_ms = 0;
    psr_err err = psr_comm_need(group, "psring_shrink: group");
    if (err == PSR_OK)
        err = psr_comm_need(ret_group, "psring_shrink: ret_group");
    if (err == PSR_OK)
        err = psr_comm_enter(group->comm);
    if (err != PSR_OK)
        return (psring_err)err;
    err = read_call(call, group->comm, &deadline_ms);
    if (err == PSR_OK)
        err = shrink(group, deadline_ms, ret_group);
    return psr_comm_leave(group->comm, err);
}
