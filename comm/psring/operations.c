/* The operations: each one checks its arguments and makes one request. */
#include "comm/collectives/halo.h"
#include "comm/psring/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const psr_type types[] = {
    [PSRING_FLOAT32] = PSR_TYPE_FLOAT32,
    [PSRING_FLOAT64] = PSR_TYPE_FLOAT64,
    [PSRING_FLOAT16] = PSR_TYPE_FLOAT16,
    [PSRING_BFLOAT16] = PSR_TYPE_BFLOAT16,
    [PSRING_INT8] = PSR_TYPE_INT8,
    [PSRING_UINT8] = PSR_TYPE_UINT8,
    [PSRING_INT32] = PSR_TYPE_INT32,
    [PSRING_INT64] = PSR_TYPE_INT64,
    [PSRING_INT16] = PSR_TYPE_INT16,
    [PSRING_UINT16] = PSR_TYPE_UINT16,
    [PSRING_UINT32] = PSR_TYPE_UINT32,
    [PSRING_UINT64] = PSR_TYPE_UINT64,
    [PSRING_FLOAT32_INT32] = PSR_TYPE_FLOAT32_INT32,
    [PSRING_FLOAT64_INT32] = PSR_TYPE_FLOAT64_INT32,
    [PSRING_INT16_INT32] = PSR_TYPE_INT16_INT32,
    [PSRING_INT32_INT32] = PSR_TYPE_INT32_INT32,
    [PSRING_INT64_INT32] = PSR_TYPE_INT64_INT32,
};
enum { TYPES = sizeof types / sizeof types[0] };

_Static_assert((int)PSRING_SUM == PSR_REDUCTION_SUM &&
                   (int)PSRING_PRODUCT == PSR_REDUCTION_PRODUCT &&
                   (int)PSRING_MINIMUM == PSR_REDUCTION_MINIMUM &&
                   (int)PSRING_MAXIMUM == PSR_REDUCTION_MAXIMUM &&
                   (int)PSRING_MEAN == PSR_REDUCTION_MEAN &&
                   (int)PSRING_BITWISE_AND == PSR_REDUCTION_BITWISE_AND &&
                   (int)PSRING_LOGICAL_AND == PSR_REDUCTION_LOGICAL_AND &&
                   (int)PSRING_MINLOC == PSR_REDUCTION_MINLOC &&
                   (int)PSRING_MAXLOC == PSR_REDUCTION_MAXLOC,
               "the same operations");
/* The layout of pairs that comm/pair.h assumes. */
_Static_assert(sizeof(psring_float32_int32) == 8 && sizeof(psring_float64_int32) == 16 &&
                   sizeof(psring_int16_int32) == 8 && sizeof(psring_int32_int32) == 8 &&
                   sizeof(psring_int64_int32) == 16 && offsetof(psring_int16_int32, index) == 4,
               "the same pairs");

psring_type psr_comm_type(psr_type type)
{
    int found = PSRING_FLOAT32;
    while (found < TYPES && types[found] != type)
        found++;
    return (psring_type)found;
}

const char *psr_comm_type_name(psring_type type)
{
    return (int)type >= PSRING_FLOAT32 && (int)type < TYPES ? psr_type_name(types[type])
                                                            : "an unknown type";
}

/* The arguments of an operation, as the caller gave them. */
typedef struct arguments {
    psr_kind kind;
    const void *send;
    void *receive;
    size_t count;
    psring_type type;
    psring_op op;
    int root, peer;
    uint32_t tag;
    const size_t *send_counts, *receive_counts; /* for all_to_all_v */
    const psr_block *send_blocks, *receive_blocks;
    size_t send_block_count, receive_block_count;
} arguments;

/* ---- checks ---- */

static psr_err check_group(const psring_group *group, psr_kind kind)
{
    return group != NULL ? PSR_OK
                         : psr_fail(PSR_ERR_USAGE, "%s: group is NULL", psr_kind_name(kind));
}

static psr_err check_rank(const psring_group *group, psr_kind kind, const char *what, int rank)
{
    uint32_t size = psr_node_group_size(group->group);
    if (rank >= 0 && (uint32_t)rank < size)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE, "%s: %s %d is none of %" PRIu32 " ranks", psr_kind_name(kind),
                    what, rank, size);
}

static psr_err check_type(const arguments *a)
{
    if (a->type < PSRING_FLOAT32 || (unsigned)a->type >= TYPES)
        return psr_fail(PSR_ERR_USAGE, "%s: there is no type %d", psr_kind_name(a->kind),
                        (int)a->type);
    if (!psr_kind_folds(a->kind))
        return PSR_OK;
    if ((unsigned)a->op >= PSR_REDUCTION_OWN)
        return PSR_OK; /* psr_comm_own_fold checks it */
    if (a->op < PSRING_SUM || a->op > PSRING_MAXLOC)
        return psr_fail(PSR_ERR_USAGE, "%s: there is no operation %d", psr_kind_name(a->kind),
                        (int)a->op);
    if (!psr_reduction_fits((psr_reduction)a->op, types[a->type]))
        return psr_fail(PSR_ERR_USAGE, "%s: there is no %s of %s", psr_kind_name(a->kind),
                        psr_reduction_name((psr_reduction)a->op), psr_type_name(types[a->type]));
    return PSR_OK;
}

static psr_err check_memory(const arguments *a, const char *what, const void *data)
{
    if ((uintptr_t)data % psr_type_alignment(types[a->type]) == 0)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE, "%s: %s is not aligned for %s", psr_kind_name(a->kind), what,
                    psr_type_name(types[a->type]));
}

/* Whether this rank has values there. */
static psr_err check_there(const arguments *a, const char *what, const void *data, bool needed)
{
    if (needed && data == NULL)
        return psr_fail(PSR_ERR_USAGE, "%s: %s is NULL", psr_kind_name(a->kind), what);
    return check_memory(a, what, data);
}

/* Where this rank's part begins among all parts, and how many values all parts have. false: more
 * than can be counted. */
static bool parts_of(const psring_group *group, const arguments *a, const size_t *counts,
                     size_t *ret_begin, size_t *ret_own, size_t *ret_all)
{
    uint32_t size = psr_node_group_size(group->group), self = psr_node_group_rank(group->group);
    size_t all = 0;
    for (uint32_t r = 0; r < size; r++) {
        size_t part = counts != NULL ? counts[r] : a->count;
        if (r == self) {
            *ret_begin = all;
            *ret_own = part;
        }
        if (__builtin_add_overflow(all, part, &all))
            return false;
    }
    *ret_all = all;
    return all <= SIZE_MAX / psr_type_bytes(types[a->type]);
}

/* The sizes of this rank's buffers, and where its part begins in the larger one. */
typedef struct extents {
    size_t sent, received, begin; /* in values */
} extents;

/* false: more than can be counted; making the request refuses that. */
static bool measure(const psring_group *group, const arguments *a, const psring_call *call,
                    extents *ret_extents)
{
    size_t begin = 0, own = 0, all = 0, sent = 0;
    bool two = a->kind == PSR_KIND_ALL_TO_ALL_V;
    switch (a->kind) {
    case PSR_KIND_ALL_GATHER:
    case PSR_KIND_GATHER:
    case PSR_KIND_REDUCE_SCATTER:
    case PSR_KIND_SCATTER:
    case PSR_KIND_ALL_TO_ALL:
    case PSR_KIND_ALL_TO_ALL_V:
        if (!parts_of(group, a, two ? a->receive_counts : call->counts, &begin, &own, &all))
            return false;
        break;
    default:
        *ret_extents = (extents){.sent = a->count, .received = a->count};
        return a->count <= SIZE_MAX / psr_type_bytes(types[a->type]);
    }
    if (two && !parts_of(group, a, a->send_counts, &begin, &own, &sent))
        return false;
    if (a->kind == PSR_KIND_ALL_GATHER || a->kind == PSR_KIND_GATHER)
        *ret_extents = (extents){.sent = own, .received = all, .begin = begin};
    else if (a->kind == PSR_KIND_REDUCE_SCATTER || a->kind == PSR_KIND_SCATTER)
        *ret_extents = (extents){.sent = all, .received = own, .begin = begin};
    else
        *ret_extents = (extents){.sent = two ? sent : all, .received = all};
    return true;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

/* Checks that in place is the right place, or that send and receive do not overlap. */
static psr_err check_place(const arguments *a, const extents *e)
{
    size_t bytes = psr_type_bytes(types[a->type]);
    if (a->send == NULL || a->receive == NULL ||
        !overlap(a->send, e->sent * bytes, a->receive, e->received * bytes))
        return PSR_OK;
    const unsigned char *send = a->send, *receive = a->receive;
    bool in_place = e->sent < e->received ? send == receive + e->begin * bytes
                                          : receive == send + e->begin * bytes;
    if (in_place)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "%s: send and receive overlap, and this rank's values are not where they are "
                    "when it is done in place",
                    psr_kind_name(a->kind));
}

static psr_err check_buffers(const psring_group *group, const arguments *a, const psring_call *call)
{
    bool is_root = a->root == (int)psr_node_group_rank(group->group);
    bool sends = a->kind != PSR_KIND_BROADCAST && a->kind != PSR_KIND_RECEIVE &&
                 (a->kind != PSR_KIND_SCATTER || is_root);
    bool receives = a->kind != PSR_KIND_SEND &&
                    ((a->kind != PSR_KIND_REDUCE && a->kind != PSR_KIND_GATHER) || is_root) &&
                    (a->kind != PSR_KIND_EXSCAN || psr_node_group_rank(group->group) > 0);
    extents e = {0};
    bool counted = measure(group, a, call, &e);
    PSR_TRY(check_there(a, "send", a->send, sends && e.sent > 0));
    PSR_TRY(check_there(a, "receive", a->receive, receives && e.received > 0));
    return counted && sends && (receives || a->kind == PSR_KIND_REDUCE) ? check_place(a, &e)
                                                                        : PSR_OK;
}

static psr_err check_tag(const arguments *a)
{
    if (a->tag <= PSRING_TAG_MAX || (a->kind != PSR_KIND_SEND && a->tag == PSRING_ANY_TAG))
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE, "%s: tag %" PRIu32 " is above %u", psr_kind_name(a->kind),
                    a->tag, PSRING_TAG_MAX);
}

static psr_err check_peer(const psring_group *group, const arguments *a)
{
    if (a->kind == PSR_KIND_SEND || a->peer != PSRING_ANY_RANK)
        PSR_TRY(check_rank(group, a->kind, "rank", a->peer));
    return check_tag(a);
}

static psr_err check(const psring_group *group, const arguments *a, const psring_call *call)
{
    if (a->kind == PSR_KIND_BARRIER)
        return PSR_OK;
    PSR_TRY(check_type(a));
    if (psr_kind_has_root(a->kind))
        PSR_TRY(check_rank(group, a->kind, "root", a->root));
    if (psr_kind_is_message(a->kind))
        PSR_TRY(check_peer(group, a));
    if (psr_kind_has_blocks(a->kind))
        return PSR_OK;
    if (a->kind == PSR_KIND_ALL_TO_ALL_V && (a->send_counts == NULL || a->receive_counts == NULL))
        return psr_fail(PSR_ERR_USAGE, "all_to_all_v: send_counts or receive_counts is NULL");
    return check_buffers(group, a, call);
}

static psr_err read_call(const psring_call *given, psring_request **ret_request,
                         psring_call *ret_call)
{
    PSR_TRY(
        psr_options_read("psring_call", given, PSR_CALL_FIRST_BYTES, ret_call, sizeof *ret_call));
    if (ret_call->persistent && ret_request == NULL)
        return psr_fail(PSR_ERR_USAGE, "a persistent operation needs ret_request");
    if (ret_call->persistent && ret_call->buffered)
        return psr_fail(PSR_ERR_USAGE, "a send that is buffered is not persistent");
    if (ret_call->message != NULL && ret_call->message->size < sizeof *ret_call->message)
        return psr_fail(PSR_ERR_USAGE, "psring_message: its size says %zu bytes, and it has %zu",
                        ret_call->message->size, sizeof *ret_call->message);
    return PSR_OK;
}

/* ---- starting ---- */

static psr_err begin(psring_group *group, const psr_request_options *options,
                     const psring_call *call, psring_request **ret_request)
{
    if (ret_request != NULL)
        return psr_request_open(group, options, call, ret_request);
    psr_node_request *request = NULL;
    psr_err err = PSR_OK;
    PSR_TRY(psr_comm_start(group->comm, group->group, options, call, &request));
    psr_comm_await(group->comm, request);
    if (options->kind == PSR_KIND_RECEIVE && call->message != NULL &&
        psr_comm_status(group->comm, request) == PSR_OK)
        err = psr_comm_tell_message(request, call->message);
    psr_err ended = psr_comm_finish(group->comm, request);
    return ended != PSR_OK ? ended : err;
}

/* It ends when the values are copied, if there is room for a copy. */
static psr_err begin_buffered(psring_group *group, const psr_request_options *options,
                              const psring_call *call, psring_request **ret_request)
{
    bool sent = false;
    PSR_TRY(psr_comm_send_buffered(group, options, call, &sent));
    if (!sent)
        return begin(group, options, call, ret_request);
    return ret_request != NULL ? psr_request_ended(group, ret_request) : PSR_OK;
}

static psr_err operate_checked(psring_group *group, const arguments *a, const psring_call *call,
                               psring_request **ret_request)
{
    const bool from_any = a->peer == PSRING_ANY_RANK || a->tag == PSRING_ANY_TAG;
    psr_defined_fold *fold = NULL;
    psr_request_options options = {
        .kind = a->kind,
        .type = a->kind == PSR_KIND_BARRIER ? PSR_TYPE_UINT8 : types[a->type],
        .reduction = (psr_reduction)a->op,
        .root = (uint32_t)a->root,
        .send = a->send,
        .receive = a->receive,
        .count = a->count,
        .counts = a->kind == PSR_KIND_ALL_TO_ALL_V ? a->receive_counts : call->counts,
        .send_counts = a->send_counts,
        .peer = a->peer == PSRING_ANY_RANK ? PSR_RANK_ANY : (uint32_t)a->peer,
        .tag = a->tag,
        .at_most = a->kind == PSR_KIND_RECEIVE && (from_any || call->message != NULL),
        .send_blocks = a->send_blocks,
        .send_block_count = a->send_block_count,
        .receive_blocks = a->receive_blocks,
        .receive_block_count = a->receive_block_count,
        /* Messages may be started again anyway. */
        .persistent = call->persistent && !psr_kind_is_message(a->kind),
    };
    if (psr_kind_folds(a->kind) && (unsigned)a->op >= PSR_REDUCTION_OWN)
        PSR_TRY(psr_comm_own_fold(group->comm, a->op, a->type, &options, &fold));
    if (a->kind == PSR_KIND_SEND && call->buffered)
        return begin_buffered(group, &options, call, ret_request);
    PSR_TRY(begin(group, &options, call, ret_request));
    if (ret_request != NULL && fold != NULL) {
        (*ret_request)->fold = fold;
        fold->users++;
    }
    return PSR_OK;
}

static psring_err operate(psring_group *group, const arguments *a, const psring_call *given,
                          psring_request **ret_request)
{
    psring_call call;
    psr_err err = check_group(group, a->kind);
    if (err == PSR_OK)
        err = psr_comm_enter(group->comm);
    if (err != PSR_OK)
        return (psring_err)err;
    err = read_call(given, ret_request, &call);
    if (err == PSR_OK)
        err = check(group, a, &call);
    if (err == PSR_OK)
        err = psr_comm_check(group->comm, group->group);
    if (err == PSR_OK)
        err = operate_checked(group, a, &call, ret_request);
    return psr_comm_leave(group->comm, err);
}

/* ---- collectives ---- */

psring_err psring_all_reduce(psring_group *group, const void *send, void *receive, size_t count,
                             psring_type type, psring_op op, const psring_call *call,
                             psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_ALL_REDUCE,
                         .send = send,
                         .receive = receive,
                         .count = count,
                         .type = type,
                         .op = op};
    return operate(group, &a, call, ret_request);
}

psring_err psring_reduce(psring_group *group, const void *send, void *receive, size_t count,
                         psring_type type, psring_op op, int root, const psring_call *call,
                         psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_REDUCE,
                         .send = send,
                         .receive = receive,
                         .count = count,
                         .type = type,
                         .op = op,
                         .root = root};
    return operate(group, &a, call, ret_request);
}

psring_err psring_reduce_scatter(psring_group *group, const void *send, void *receive, size_t count,
                                 psring_type type, psring_op op, const psring_call *call,
                                 psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_REDUCE_SCATTER,
                         .send = send,
                         .receive = receive,
                         .count = count,
                         .type = type,
                         .op = op};
    return operate(group, &a, call, ret_request);
}

psring_err psring_scan(psring_group *group, const void *send, void *receive, size_t count,
                       psring_type type, psring_op op, const psring_call *call,
                       psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_SCAN,
                         .send = send,
                         .receive = receive,
                         .count = count,
                         .type = type,
                         .op = op};
    return operate(group, &a, call, ret_request);
}

psring_err psring_exscan(psring_group *group, const void *send, void *receive, size_t count,
                         psring_type type, psring_op op, const psring_call *call,
                         psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_EXSCAN,
                         .send = send,
                         .receive = receive,
                         .count = count,
                         .type = type,
                         .op = op};
    return operate(group, &a, call, ret_request);
}

psring_err psring_all_gather(psring_group *group, const void *send, void *receive, size_t count,
                             psring_type type, const psring_call *call,
                             psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_ALL_GATHER,
                         .send = send,
                         .receive = receive,
                         .count = count,
                         .type = type};
    return operate(group, &a, call, ret_request);
}

psring_err psring_broadcast(psring_group *group, void *data, size_t count, psring_type type,
                            int root, const psring_call *call, psring_request **ret_request)
{
    const arguments a = {
        .kind = PSR_KIND_BROADCAST, .receive = data, .count = count, .type = type, .root = root};
    return operate(group, &a, call, ret_request);
}

psring_err psring_gather(psring_group *group, const void *send, void *receive, size_t count,
                         psring_type type, int root, const psring_call *call,
                         psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_GATHER,
                         .send = send,
                         .receive = receive,
                         .count = count,
                         .type = type,
                         .root = root};
    return operate(group, &a, call, ret_request);
}

psring_err psring_scatter(psring_group *group, const void *send, void *receive, size_t count,
                          psring_type type, int root, const psring_call *call,
                          psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_SCATTER,
                         .send = send,
                         .receive = receive,
                         .count = count,
                         .type = type,
                         .root = root};
    return operate(group, &a, call, ret_request);
}

psring_err psring_all_to_all(psring_group *group, const void *send, void *receive, size_t count,
                             psring_type type, const psring_call *call,
                             psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_ALL_TO_ALL,
                         .send = send,
                         .receive = receive,
                         .count = count,
                         .type = type};
    return operate(group, &a, call, ret_request);
}

psring_err psring_all_to_all_v(psring_group *group, const void *send, const size_t *send_counts,
                               void *receive, const size_t *receive_counts, psring_type type,
                               const psring_call *call, psring_request **ret_request)
{
    bool in_place = send != NULL && send == receive;
    const arguments a = {.kind = PSR_KIND_ALL_TO_ALL_V,
                         .send = send,
                         .receive = receive,
                         .type = type,
                         .send_counts =
                             in_place && send_counts == NULL ? receive_counts : send_counts,
                         .receive_counts = receive_counts};
    return operate(group, &a, call, ret_request);
}

psring_err psring_barrier(psring_group *group, const psring_call *call,
                          psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_BARRIER};
    return operate(group, &a, call, ret_request);
}

/* ---- messages and neighbours ---- */

psring_err psring_send(psring_group *group, const void *data, size_t count, psring_type type,
                       int to, uint32_t tag, const psring_call *call, psring_request **ret_request)
{
    const arguments a = {
        .kind = PSR_KIND_SEND, .send = data, .count = count, .type = type, .peer = to, .tag = tag};
    return operate(group, &a, call, ret_request);
}

psring_err psring_receive(psring_group *group, void *data, size_t count, psring_type type, int from,
                          uint32_t tag, const psring_call *call, psring_request **ret_request)
{
    const arguments a = {.kind = PSR_KIND_RECEIVE,
                         .receive = data,
                         .count = count,
                         .type = type,
                         .peer = from,
                         .tag = tag};
    return operate(group, &a, call, ret_request);
}

/* For the caller's type. The caller owns *ret_blocks: free(); NULL: there are none. */
static psr_err copy_blocks(const psring_group *group, const psring_block *from, size_t count,
                           psring_type type, psr_block **ret_blocks)
{
    const arguments a = {.kind = PSR_KIND_NEIGHBORS, .type = type};
    psr_err err = check_group(group, a.kind);
    if (err == PSR_OK)
        err = check_type(&a);
    if (err != PSR_OK || count == 0)
        return err;
    if (from == NULL)
        return psr_fail(PSR_ERR_USAGE, "%s: %zu blocks, and their array is NULL",
                        psr_kind_name(a.kind), count);
    psr_block *blocks = calloc(count, sizeof *blocks);
    if (blocks == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu blocks", count);
    for (size_t i = 0; i < count && err == PSR_OK; i++) {
        blocks[i] = (psr_block){.rank = (uint32_t)from[i].rank, .data = from[i].data};
        memcpy(blocks[i].shape, from[i].shape, sizeof blocks[i].shape);
        memcpy(blocks[i].stride, from[i].stride, sizeof blocks[i].stride);
        size_t values = 0;
        err = check_rank(group, a.kind, "rank", from[i].rank);
        if (err == PSR_OK)
            err = check_memory(&a, "a block", from[i].data);
        if (err == PSR_OK && from[i].data == NULL && psr_block_count(&blocks[i], &values) &&
            values > 0)
            err = psr_fail(PSR_ERR_USAGE, "%s: block %zu has no data", psr_kind_name(a.kind), i);
    }
    if (err != PSR_OK)
        free(blocks);
    else
        *ret_blocks = blocks;
    return err;
}

psring_err psring_neighbor_exchange(psring_group *group, const psring_block *send,
                                    size_t send_count, const psring_block *receive,
                                    size_t receive_count, psring_type type, const psring_call *call,
                                    psring_request **ret_request)
{
    psr_block *sent = NULL, *received = NULL;
    psr_err err = copy_blocks(group, send, send_count, type, &sent);
    if (err == PSR_OK)
        err = copy_blocks(group, receive, receive_count, type, &received);
    const arguments a = {.kind = PSR_KIND_NEIGHBORS,
                         .type = type,
                         .send_blocks = sent,
                         .receive_blocks = received,
                         .send_block_count = send_count,
                         .receive_block_count = receive_count};
    psring_err ended = err == PSR_OK ? operate(group, &a, call, ret_request) : (psring_err)err;
    free(sent);
    free(received);
    return ended;
}

/* ---- halo ---- */

_Static_assert((int)PSRING_TOP == PSR_TOP && (int)PSRING_TOP_LEFT == PSR_TOP_LEFT,
               "the same directions");

static psr_err read_ranks(const psring_group *group, const int *ranks,
                          uint32_t ret_ranks[PSR_DIRECTIONS])
{
    for (int d = 0; d < PSR_DIRECTIONS; d++) {
        if (ranks[d] != PSRING_NO_RANK)
            PSR_TRY(check_rank(group, PSR_KIND_HALO, "rank", ranks[d]));
        ret_ranks[d] = ranks[d] == PSRING_NO_RANK ? PSR_NO_NEIGHBOR : (uint32_t)ranks[d];
    }
    return PSR_OK;
}

static psr_halo_lengths lengths_of(const size_t lengths[4])
{
    return (psr_halo_lengths){lengths[PSRING_EDGE_TOP], lengths[PSRING_EDGE_BOTTOM],
                              lengths[PSRING_EDGE_LEFT], lengths[PSRING_EDGE_RIGHT]};
}

/* Whether the sizes of the halo and of its result can be computed. */
static bool can_be(const psring_halo *h)
{
    size_t most = (size_t)1 << 48, all = 1;
    for (int i = 0; i < 4; i++)
        if (h->send_lengths[i] > most || h->receive_lengths[i] > most || h->shape[i] > most)
            return false;
    const size_t shape[4] = {h->shape[0], h->shape[1],
                             h->shape[2] + h->receive_lengths[0] + h->receive_lengths[1],
                             h->shape[3] + h->receive_lengths[2] + h->receive_lengths[3]};
    for (int i = 0; i < 4; i++)
        if (__builtin_mul_overflow(all, shape[i], &all))
            return false;
    return all <= most;
}

/* The edge is longer than the tile. */
static psr_err no_such_edge(const psring_halo *h)
{
    static const char *const names[] = {"top", "bottom", "left", "right"};
    int i = 0;
    while (i < 3 && h->send_lengths[i] <= h->shape[i < 2 ? 2 : 3])
        i++;
    return psr_fail(PSR_ERR_USAGE,
                    "halo_exchange: the %s edge to send has %zu %s, and the tile %zu", names[i],
                    h->send_lengths[i], i < 2 ? "rows" : "columns", h->shape[i < 2 ? 2 : 3]);
}

static psr_err read_halo(const psring_group *group, const psring_halo *given, psring_type type,
                         const void *in, void *out, psr_halo_blocks *ret_blocks)
{
    psring_halo h;
    const arguments a = {.kind = PSR_KIND_HALO, .type = type};
    PSR_TRY(check_group(group, a.kind));
    if (given == NULL)
        return psr_fail(PSR_ERR_USAGE, "halo_exchange: halo is NULL");
    PSR_TRY(psr_options_read("psring_halo", given, sizeof *given, &h, sizeof h));
    PSR_TRY(check_type(&a));
    PSR_TRY(check_memory(&a, "in", in));
    PSR_TRY(check_memory(&a, "out", out));
    psr_halo halo = {.send = lengths_of(h.send_lengths), .receive = lengths_of(h.receive_lengths)};
    memcpy(halo.shape, h.shape, sizeof halo.shape);
    PSR_TRY(read_ranks(group, h.send_ranks, halo.send_ranks));
    PSR_TRY(read_ranks(group, h.receive_ranks, halo.receive_ranks));
    if (in == NULL || out == NULL || in == out)
        return psr_fail(PSR_ERR_USAGE, "halo_exchange: in and out must be two buffers");
    if (!can_be(&h))
        return psr_fail(PSR_ERR_USAGE, "halo_exchange: more values than memory can hold");
    if (!psr_halo_fits(&halo))
        return no_such_edge(&h);
    void *from = (void *)(uintptr_t)in; /* blocks that are sent are only read */
    uint32_t rank = psr_node_group_rank(group->group);
    size_t bytes = psr_type_bytes(types[type]);
    *ret_blocks = h.back ? psr_halo_back(&halo, rank, from, out, bytes)
                         : psr_halo_forward(&halo, rank, from, out, bytes);
    return PSR_OK;
}

psring_err psring_halo_exchange(psring_group *group, const psring_halo *halo, const void *in,
                                void *out, psring_type type, const psring_call *call,
                                psring_request **ret_request)
{
    psr_halo_blocks blocks;
    psr_err err = read_halo(group, halo, type, in, out, &blocks);
    const arguments a = {.kind = PSR_KIND_HALO,
                         .type = type,
                         .op = PSRING_SUM,
                         .send_blocks = blocks.send,
                         .receive_blocks = blocks.receive,
                         .send_block_count = err == PSR_OK ? blocks.send_count : 0,
                         .receive_block_count = err == PSR_OK ? blocks.receive_count : 0};
    return err == PSR_OK ? operate(group, &a, call, ret_request) : (psring_err)err;
}
