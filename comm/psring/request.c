/* Requests: starting, waiting, ending. */
#include "comm/psring/internal.h"

#include "base/clock.h"
#include "comm/collectives/algorithm_choice.h"

#include <stdlib.h>

/* ---- one operation, within a call ---- */

static psr_err algorithm_of(const psr_request_options *options, const psring_call *call,
                            psr_algorithm *ret_algorithm)
{
    if (call->algorithm == NULL)
        return PSR_OK;
    return psr_algorithm_find(options->kind, call->algorithm, ret_algorithm);
}

static psr_err parse_encoding(const psr_request_options *options, const char *text,
                              psr_compression *ret_compression)
{
    psr_err err = psr_compression_parse(text, ret_compression);
    return err == PSR_OK ? PSR_OK
                         : psr_fail_context(err, "%s: encoding", psr_kind_name(options->kind));
}

psring_err psring_encoding_check(const char *encoding, bool *ret_keeps)
{
    psr_compression compression;
    psr_err err = psr_comm_need(encoding, "psring_encoding_check: encoding");
    if (err != PSR_OK)
        return (psring_err)err;
    err = psr_compression_parse(encoding, &compression);
    if (err != PSR_OK)
        return (psring_err)psr_fail_context(err, "encoding");
    if (ret_keeps != NULL)
        *ret_keeps = psr_compression_has_residual(compression);
    return PSRING_OK;
}

static psr_err make_request(const psring_comm *comm, psr_node_group *group,
                            const psr_request_options *options, const psring_call *call,
                            psr_node_request **ret_request)
{
    psr_request_options chosen = *options;
    psr_compression compression;
    if (call->deadline_ms < 0)
        return psr_fail(PSR_ERR_USAGE, "%s: deadline_ms is %lld", psr_kind_name(options->kind),
                        (long long)call->deadline_ms);
    PSR_TRY(algorithm_of(options, call, &chosen.algorithm));
    if (call->encoding != NULL) {
        PSR_TRY(parse_encoding(options, call->encoding, &compression));
        chosen.compression = &compression;
    }
    chosen.priority = call->priority;
    return psr_node_request_new(group, &chosen,
                                call->deadline_ms > 0 ? call->deadline_ms : comm->deadline_ms,
                                call->name, ret_request);
}

static bool has_ended(void *context)
{
    return psr_node_request_ended(context);
}

/* With many bytes the time goes into moving them, not into a hop between threads, and the progress
 * thread moved them faster than the caller (docs/measurements.md). */
static bool is_large(const psr_node_request *request)
{
    enum { LARGE_BYTES = 1 << 20 };
    return psr_node_request_bytes(request) > LARGE_BYTES;
}

static psr_err order_start(psring_comm *comm, psr_node_request *request)
{
    psr_node_request_begins(request);
    return is_large(request) ? psr_driver_order(comm->driver, PSR_NODE_START, request)
                             : psr_driver_order_later(comm->driver, PSR_NODE_START, request);
}

static bool await_end(psring_comm *comm, psr_node_request *request, int64_t timeout_ms)
{
    return is_large(request) ? psr_driver_wait_beside(comm->driver, has_ended, request, timeout_ms)
                             : psr_driver_wait(comm->driver, has_ended, request, timeout_ms);
}

psr_err psr_comm_start(psring_comm *comm, psr_node_group *group, const psr_request_options *options,
                       const psring_call *call, psr_node_request **ret_request)
{
    psr_node_request *request = NULL;
    PSR_TRY(make_request(comm, group, options, call, &request));
    psr_err err = order_start(comm, request);
    if (err != PSR_OK) {
        psr_node_request_free(request);
        return err;
    }
    *ret_request = request;
    return PSR_OK;
}

psr_err psr_comm_run(psring_comm *comm, psr_node_request *request)
{
    psr_err err = order_start(comm, request);
    if (err != PSR_OK) {
        psr_node_request_free(request);
        return err;
    }
    return psr_comm_finish(comm, request);
}

/* Without memory for the order it ends with its group. */
static void free_soon(psring_comm *comm, psr_node_request *request)
{
    psr_err err = psr_driver_order_later(comm->driver, PSR_NODE_FREE, request);
    (void)err;
}

void psr_comm_await(psring_comm *comm, psr_node_request *request)
{
    (void)await_end(comm, request, INT64_MAX);
}

psr_err psr_comm_finish(psring_comm *comm, psr_node_request *request)
{
    (void)await_end(comm, request, INT64_MAX);
    psr_err err = psr_comm_status(comm, request);
    free_soon(comm, request);
    return err;
}

/* ---- requests that the caller owns ---- */

static bool is_over(const psring_request *r)
{
    for (size_t i = 0; i < r->other_count; i++)
        if (!psr_node_request_ended(r->others[i]))
            return false;
    return r->request == NULL || psr_node_request_ended(r->request);
}

static bool whole_is_over(void *context)
{
    return is_over(context);
}

static bool await_over(psring_request *r, int64_t timeout_ms)
{
    return r->other_count == 0 ? await_end(r->comm, r->request, timeout_ms)
                               : psr_driver_wait(r->comm->driver, whole_is_over, r, timeout_ms);
}

/* The same, for the program: psring_wake ends it. */
static bool await_over_or_wake(psring_request *r, int64_t timeout_ms)
{
    const bool beside = r->other_count == 0 && is_large(r->request);
    return psr_driver_wait_wakeable(r->comm->driver, beside, whole_is_over, r, timeout_ms);
}

/* The failure of a table's request is always the communicator's. */
static psr_err status_of(psring_request *r)
{
    if (r->request != NULL) {
        PSR_TRY(psr_comm_status(r->comm, r->request));
        for (size_t i = 0; i < r->other_count; i++)
            PSR_TRY(psr_comm_status(r->comm, r->others[i]));
        return PSR_OK;
    }
    if (!r->failed)
        return PSR_OK;
    const psr_failure *failure = psr_node_failure(r->comm->node);
    r->comm->told = true;
    return psr_fail(failure->err, "%s", failure->line);
}

void psr_request_leave_table(psring_request *request)
{
    psring_comm *comm = request->comm;
    (void)await_end(comm, request->request, INT64_MAX);
    request->failed = psr_node_request_status(request->request) != PSR_OK;
    free_soon(comm, request->request);
    request->request = NULL;
    request->table = NULL;
}

void psr_request_end(psring_request *request)
{
    psring_comm *comm = request->comm;
    if (request->request != NULL) {
        (void)await_over(request, INT64_MAX);
        free_soon(comm, request->request);
    }
    for (size_t i = 0; i < request->other_count; i++)
        free_soon(comm, request->others[i]);
    free(request->others);
    if (request->fold != NULL)
        request->fold->users--;
    psr_making_free(request->making);
    *(request->previous != NULL ? &request->previous->next : &request->group->requests) =
        request->next;
    if (request->next != NULL)
        request->next->previous = request->previous;
    free(request);
}

static void link_first(psring_request *r)
{
    r->next = r->group->requests;
    if (r->next != NULL)
        r->next->previous = r;
    r->group->requests = r;
}

psr_err psr_request_open(psring_group *group, const psr_request_options *options,
                         const psring_call *call, psring_request **ret_request)
{
    psring_comm *comm = group->comm;
    psring_request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a request");
    *r = (psring_request){.comm = comm,
                          .group = group,
                          .message = options->kind == PSR_KIND_RECEIVE ? call->message : NULL,
                          .persistent = call->persistent,
                          .told = call->persistent};
    psr_err err = make_request(comm, group->group, options, call, &r->request);
    if (err == PSR_OK) {
        if (!call->persistent)
            psr_node_request_begins(r->request);
        err = psr_driver_order(comm->driver, call->persistent ? PSR_NODE_MAKE : PSR_NODE_START,
                               r->request);
        if (err != PSR_OK)
            psr_node_request_free(r->request);
    }
    if (err != PSR_OK) {
        free(r);
        return err;
    }
    link_first(r);
    *ret_request = r;
    return PSR_OK;
}

psr_err psr_request_keep(psring_comm *comm, psring_group *group, psr_node_request *made,
                         psring_request **ret_request)
{
    psring_request *r = calloc(1, sizeof *r);
    psr_err err = r != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a request");
    if (err == PSR_OK) {
        psr_node_request_begins(made);
        err = psr_driver_order(comm->driver, PSR_NODE_START, made);
    }
    if (err != PSR_OK) {
        psr_node_request_free(made);
        free(r);
        return err;
    }
    *r = (psring_request){.comm = comm, .group = group, .request = made};
    link_first(r);
    *ret_request = r;
    return PSR_OK;
}

/* Those that are under way must end before the memory that they use is freed. */
static psr_err order_all(psring_comm *comm, psr_node_request **made, size_t count)
{
    psr_err err = PSR_OK;
    size_t ordered = 0;
    for (; ordered < count && err == PSR_OK; ordered += err == PSR_OK) {
        psr_node_request_begins(made[ordered]);
        err = psr_driver_order(comm->driver, PSR_NODE_START, made[ordered]);
    }
    for (size_t i = 0; i < count && err != PSR_OK; i++) {
        if (i >= ordered) {
            psr_node_request_free(made[i]);
            continue;
        }
        (void)await_end(comm, made[i], INT64_MAX);
        free_soon(comm, made[i]);
    }
    return err;
}

psr_err psr_request_keep_all(psring_comm *comm, psring_group *group, psr_node_request **made,
                             size_t count, psring_request **ret_request)
{
    psring_request *r = calloc(1, sizeof *r);
    psr_node_request **others = calloc(count, sizeof(psr_node_request *));
    psr_err err = PSR_OK;
    if (r == NULL || others == NULL) {
        for (size_t i = 0; i < count; i++)
            psr_node_request_free(made[i]);
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a request");
    } else {
        err = order_all(comm, made, count);
    }
    if (err != PSR_OK) {
        free(others);
        free(r);
        return err;
    }
    for (size_t i = 1; i < count; i++)
        others[i - 1] = made[i];
    *r = (psring_request){.comm = comm,
                          .group = group,
                          .request = made[0],
                          .others = others,
                          .other_count = count - 1};
    link_first(r);
    *ret_request = r;
    return PSR_OK;
}

psr_err psr_request_ended(psring_group *group, psring_request **ret_request)
{
    psring_request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a request");
    *r = (psring_request){.comm = group->comm, .group = group};
    link_first(r);
    *ret_request = r;
    return PSR_OK;
}

static psr_err start(psring_request *r)
{
    if (!r->persistent)
        return psr_fail(PSR_ERR_USAGE, "psring_start: the request is not persistent");
    PSR_TRY(psr_comm_check(r->comm, r->group->group));
    if (!psr_node_request_ended(r->request))
        return psr_fail(PSR_ERR_BUSY, "psring_start: the request is under way");
    psr_node_request_begins(r->request);
    r->told = false;
    return psr_driver_order(r->comm->driver, PSR_NODE_START, r->request);
}

psring_err psring_start(psring_request *request)
{
    psr_err err = psr_comm_need(request, "psring_start: request");
    if (err == PSR_OK)
        err = psr_comm_enter(request->comm);
    return err == PSR_OK ? psr_comm_leave(request->comm, start(request)) : (psring_err)err;
}

/* The result; psring_wait_any and psring_wait_some return it once. */
static psr_err tell(psring_request *r)
{
    psr_err err = status_of(r);
    if (err == PSR_OK && !r->told && r->message != NULL)
        err = psr_comm_tell_message(r->request, r->message);
    if (r->making != NULL)
        err = psr_making_end(r->making, err);
    r->told = true;
    return err;
}

static psr_err wait_for(psring_request *r, int64_t timeout_ms)
{
    if (timeout_ms < 0)
        return psr_fail(PSR_ERR_USAGE, "psring_wait: timeout_ms is %lld", (long long)timeout_ms);
    if (!is_over(r) && !await_over_or_wake(r, timeout_ms))
        return psr_fail(PSR_ERR_BUSY, "the request has not ended");
    return tell(r);
}

psr_err psr_request_finish(psring_request *request)
{
    (void)await_over(request, INT64_MAX);
    return tell(request);
}

psring_err psring_wait(psring_request *request, int64_t timeout_ms)
{
    psr_err err = psr_comm_need(request, "request");
    if (err == PSR_OK)
        err = psr_comm_enter(request->comm);
    return err == PSR_OK ? psr_comm_leave(request->comm, wait_for(request, timeout_ms))
                         : (psring_err)err;
}

psring_err psring_test(psring_request *request)
{
    return psring_wait(request, 0);
}

/* It was started, and its result was not returned yet. */
static bool is_awaited(const psring_request *r)
{
    return r != NULL && !r->told;
}

typedef struct any_of {
    psring_request *const *requests;
    size_t count, found; /* found == count: none */
} any_of;

static bool any_has_ended(void *context)
{
    any_of *any = context;
    for (any->found = 0; any->found < any->count; any->found++)
        if (is_awaited(any->requests[any->found]) && is_over(any->requests[any->found]))
            return true;
    return false;
}

/* Waits until one has ended. call: the function's name, for lines. */
static psr_err wait_for_any(psring_comm *comm, any_of *any, int64_t timeout_ms, const char *call)
{
    for (size_t i = 0; i < any->count; i++)
        if (any->requests[i] != NULL && any->requests[i]->comm != comm)
            return psr_fail(PSR_ERR_USAGE, "%s: requests of two communicators", call);
    bool any_awaited = false;
    for (size_t i = 0; i < any->count; i++)
        any_awaited = any_awaited || is_awaited(any->requests[i]);
    if (!any_awaited)
        return psr_fail(PSR_ERR_NOT_FOUND, "%s: none of the requests is started", call);
    if (timeout_ms < 0)
        return psr_fail(PSR_ERR_USAGE, "%s: timeout_ms is %lld", call, (long long)timeout_ms);
    if (!psr_driver_wait_wakeable(comm->driver, false, any_has_ended, any, timeout_ms))
        return psr_fail(PSR_ERR_BUSY, "none of the requests has ended");
    return PSR_OK;
}

/* Begins a call that waits for some of the requests. */
static psr_err enter(const any_of *any, const char *call, psring_comm **ret_comm)
{
    psring_comm *comm = NULL;
    for (size_t i = 0; i < any->count && comm == NULL; i++)
        comm = any->requests[i] != NULL ? any->requests[i]->comm : NULL;
    if (comm == NULL)
        return psr_fail(PSR_ERR_USAGE, "%s: no request", call);
    PSR_TRY(psr_comm_enter(comm));
    *ret_comm = comm;
    return PSR_OK;
}

psring_err psring_wait_any(psring_request *const *requests, size_t count, int64_t timeout_ms,
                           size_t *ret_index)
{
    static const char call[] = "psring_wait_any";
    any_of any = {requests, count, count};
    psring_comm *comm = NULL;
    if (requests == NULL || ret_index == NULL)
        return (psring_err)psr_fail(PSR_ERR_USAGE, "%s: requests or ret_index is NULL", call);
    psr_err err = enter(&any, call, &comm);
    if (err != PSR_OK)
        return (psring_err)err;
    err = wait_for_any(comm, &any, timeout_ms, call);
    if (err == PSR_OK) {
        *ret_index = any.found;
        err = tell(requests[any.found]);
    }
    return psr_comm_leave(comm, err);
}

/* The results of all that have ended by now: the first failure counts. At least one has ended. */
static psr_err tell_all(const any_of *any, size_t *ret_indices, size_t *ret_count)
{
    char line[PSR_ERR_DETAIL_BYTES];
    psr_err err = PSR_OK;
    size_t ended = 0;
    for (size_t i = any->found; i < any->count; i++) {
        if (!is_awaited(any->requests[i]) || !is_over(any->requests[i]))
            continue;
        ret_indices[ended++] = i;
        psr_err one = tell(any->requests[i]);
        if (one == PSR_OK || err != PSR_OK)
            continue;
        err = one;
        psr_err_detail_keep(line);
    }
    *ret_count = ended;
    if (err != PSR_OK)
        psr_err_detail_restore(line);
    return err;
}

psring_err psring_wait_some(psring_request *const *requests, size_t count, int64_t timeout_ms,
                            size_t *ret_indices, size_t *ret_count)
{
    static const char call[] = "psring_wait_some";
    any_of any = {requests, count, count};
    psring_comm *comm = NULL;
    if (requests == NULL || ret_indices == NULL || ret_count == NULL)
        return (psring_err)psr_fail(PSR_ERR_USAGE, "%s: requests, ret_indices or ret_count is NULL",
                                    call);
    psr_err err = enter(&any, call, &comm);
    if (err != PSR_OK)
        return (psring_err)err;
    err = wait_for_any(comm, &any, timeout_ms, call);
    if (err == PSR_OK)
        err = tell_all(&any, ret_indices, ret_count);
    return psr_comm_leave(comm, err);
}

void psring_request_free(psring_request **request)
{
    if (request == NULL || *request == NULL || psr_comm_enter((*request)->comm) != PSR_OK)
        return;
    psring_comm *comm = (*request)->comm;
    psr_request_end(*request);
    *request = NULL;
    (void)psr_comm_leave(comm, PSR_OK);
}

const char *psring_algorithm(const psring_request *request)
{
    return request != NULL && request->request != NULL
               ? psr_node_request_algorithm(request->request)
               : NULL;
}
