/* Makes an operation of its options: checks them, describes it to the algorithm, and makes the
 * streams of the schedule that the algorithm wrote. */
#include "comm/collectives/group_private.h"

#include "base/arrays/fold.h"
#include "base/arrays/stream.h"
#include "comm/collectives/algorithm_choice.h"
#include "comm/collectives/algorithms/algorithms.h"
#include "comm/pair.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

static psr_err check_ranks(const psr_group *group, const psr_request_options *o)
{
    uint32_t n = group->options.ranks;
    if (psr_kind_has_root(o->kind) && o->root >= n)
        return psr_fail(PSR_ERR_USAGE, "%s: root %" PRIu32 " is none of %" PRIu32 " ranks",
                        psr_kind_name(o->kind), o->root, n);
    if (!psr_kind_is_message(o->kind))
        return PSR_OK;
    const bool may_be_any = o->kind != PSR_KIND_SEND;
    if (o->peer >= n && !(may_be_any && o->peer == PSR_RANK_ANY))
        return psr_fail(PSR_ERR_USAGE, "%s: rank %" PRIu32 " is none of %" PRIu32 " ranks",
                        psr_kind_name(o->kind), o->peer, n);
    if (o->tag > PSR_MESSAGE_TAG_MAX && !(may_be_any && o->tag == PSR_MESSAGE_TAG_ANY))
        return psr_fail(PSR_ERR_USAGE, "%s: tag %" PRIu32 " is above %" PRIu32,
                        psr_kind_name(o->kind), o->tag, PSR_MESSAGE_TAG_MAX);
    return PSR_OK;
}

/* The algorithm that folds in the order of ranks; two do so, and those of scans. */
static psr_algorithm algorithm_in_order(psr_kind kind)
{
    return kind == PSR_KIND_REDUCE ? PSR_ALGORITHM_BINOMIAL
           : psr_kind_scans(kind)  ? PSR_ALGORITHM_AUTO
                                   : PSR_ALGORITHM_DIRECT;
}

static psr_err check_own_fold(const psr_request_options *o)
{
    const psr_algorithm in_order = algorithm_in_order(o->kind);
    if (o->own.in_order && o->algorithm != PSR_ALGORITHM_AUTO && in_order != PSR_ALGORITHM_AUTO &&
        o->algorithm != in_order)
        return psr_fail(PSR_ERR_USAGE,
                        "%s: %s does not fold in order of ranks, which a fold that does not "
                        "commute needs: there is %s",
                        psr_kind_name(o->kind), psr_algorithm_name(o->algorithm),
                        psr_algorithm_name(in_order));
    return PSR_OK;
}

static psr_err check_kind(const psr_request_options *o)
{
    if ((unsigned)o->kind >= PSR_KINDS || (unsigned)o->type >= PSR_TYPES)
        return psr_fail(PSR_ERR_USAGE, "operation %d of type %d: there is none", (int)o->kind,
                        (int)o->type);
    if (o->algorithm != PSR_ALGORITHM_AUTO && !psr_algorithm_fits(o->algorithm, o->kind)) {
        char list[128];
        psr_algorithm_list(o->kind, list, sizeof list);
        return psr_fail(PSR_ERR_USAGE, "%s has no algorithm %s: there are %s",
                        psr_kind_name(o->kind), psr_algorithm_name(o->algorithm), list);
    }
    if (psr_kind_scans(o->kind) && o->reduction == PSR_REDUCTION_MEAN)
        return psr_fail(PSR_ERR_USAGE, "%s: there is no mean of a prefix", psr_kind_name(o->kind));
    if (psr_kind_folds(o->kind) && o->own.fold != NULL)
        return check_own_fold(o);
    if (psr_kind_folds(o->kind) &&
        ((unsigned)o->reduction >= PSR_REDUCTIONS || !psr_reduction_fits(o->reduction, o->type)))
        return psr_fail(PSR_ERR_USAGE, "%s: there is no %s of %s", psr_kind_name(o->kind),
                        psr_reduction_name(o->reduction), psr_type_name(o->type));
    if (o->kind == PSR_KIND_ALL_TO_ALL_V && (o->counts == NULL || o->send_counts == NULL))
        return psr_fail(
            PSR_ERR_USAGE,
            "all_to_all_v: it needs the counts of what goes to and comes from each rank");
    return PSR_OK;
}

/* The block with number `own` among those of this rank itself; NULL: there are fewer. */
static const psr_block *own_block(const psr_group *group, const psr_block *blocks, size_t count,
                                  size_t own)
{
    for (size_t i = 0; i < count; i++)
        if (blocks[i].rank == group->options.rank && own-- == 0)
            return &blocks[i];
    return NULL;
}

static psr_err check_blocks(const psr_group *group, const psr_request_options *o,
                            const psr_block *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t values;
        if (!psr_block_count(&blocks[i], &values) || values > PTRDIFF_MAX / psr_type_bytes(o->type))
            return psr_fail(PSR_ERR_USAGE, "%s: more values than memory can hold",
                            psr_kind_name(o->kind));
        if (blocks[i].adds &&
            ((unsigned)o->reduction >= PSR_REDUCTIONS || psr_reduction_finishes(o->reduction) ||
             !psr_reduction_fits(o->reduction, o->type)))
            return psr_fail(PSR_ERR_USAGE, "%s: blocks of %s are not added by %s",
                            psr_kind_name(o->kind), psr_type_name(o->type),
                            psr_reduction_name(o->reduction));
        if (blocks[i].rank >= group->options.ranks)
            return psr_fail(PSR_ERR_USAGE, "%s: rank %" PRIu32 " is none of %" PRIu32,
                            psr_kind_name(o->kind), blocks[i].rank, group->options.ranks);
    }
    return PSR_OK;
}

static bool same_count(const psr_block *a, const psr_block *b)
{
    size_t count, other;
    return psr_block_count(a, &count) && psr_block_count(b, &other) && count == other;
}

/* What a rank sends to itself must match what it expects from itself. */
static psr_err check_neighbors(const psr_group *group, const psr_request_options *o)
{
    PSR_TRY(check_blocks(group, o, o->send_blocks, o->send_block_count));
    PSR_TRY(check_blocks(group, o, o->receive_blocks, o->receive_block_count));
    for (size_t i = 0, count; i < o->receive_block_count; i++)
        if (psr_block_count(&o->receive_blocks[i], &count) && count > 0 &&
            o->receive_blocks[i].data == NULL)
            return psr_fail(PSR_ERR_USAGE, "%s: what is received has no memory",
                            psr_kind_name(o->kind));
    for (size_t own = 0;; own++) {
        const psr_block *from = own_block(group, o->send_blocks, o->send_block_count, own),
                        *to = own_block(group, o->receive_blocks, o->receive_block_count, own);
        if (from == NULL && to == NULL)
            return PSR_OK;
        if (from == NULL || to == NULL || !same_count(from, to))
            return psr_fail(PSR_ERR_USAGE,
                            "%s: rank %" PRIu32 " sends itself other values than it expects",
                            psr_kind_name(o->kind), group->options.rank);
    }
}

/* ---- counts ---- */

static bool is_whole(psr_kind kind)
{
    return kind == PSR_KIND_ALL_REDUCE || kind == PSR_KIND_REDUCE || kind == PSR_KIND_BROADCAST ||
           psr_kind_scans(kind) || psr_kind_is_message(kind);
}

static bool has_parts(psr_kind kind)
{
    return kind == PSR_KIND_REDUCE_SCATTER || kind == PSR_KIND_ALL_GATHER ||
           kind == PSR_KIND_GATHER || kind == PSR_KIND_SCATTER || kind == PSR_KIND_ALL_TO_ALL ||
           kind == PSR_KIND_ALL_TO_ALL_V || psr_kind_gathers_words(kind);
}

/* Whether the parts have at most `most` values together. counts: of each part; NULL: each has
 * count. */
static bool adds_up(uint32_t ranks, const size_t *counts, size_t count, size_t most)
{
    for (uint32_t c = 0; c < ranks; c++) {
        size_t part = counts != NULL ? counts[c] : count;
        if (part > most)
            return false;
        most -= part;
    }
    return true;
}

/* What a rank sends to itself must match what it expects from itself. In place each part that comes
 * must fit the place of the one that goes. */
static psr_err check_pairs(const psr_group *group, const psr_request_options *o)
{
    uint32_t self = group->options.rank;
    if (o->send_counts[self] != o->counts[self])
        return psr_fail(PSR_ERR_USAGE,
                        "all_to_all_v: rank %" PRIu32 " sends itself %zu values and expects %zu",
                        self, o->send_counts[self], o->counts[self]);
    for (uint32_t r = 0; o->send != NULL && o->send == o->receive && r < group->options.ranks; r++)
        if (o->send_counts[r] != o->counts[r])
            return psr_fail(
                PSR_ERR_USAGE,
                "all_to_all_v: in place send_counts are receive_counts, and of rank %" PRIu32
                " they are %zu and %zu",
                r, o->send_counts[r], o->counts[r]);
    return PSR_OK;
}

static psr_err check_counts(const psr_group *group, const psr_request_options *o)
{
    uint32_t n = group->options.ranks;
    /* No array has more bytes than a pointer difference can express; direct all-reduce has n of
     * them. */
    size_t most = PTRDIFF_MAX / psr_type_bytes(o->type) / n;
    bool two = o->kind == PSR_KIND_ALL_TO_ALL_V;
    if ((is_whole(o->kind) && o->count > most) ||
        (has_parts(o->kind) && !adds_up(n, o->counts, o->count, most)) ||
        (two && !adds_up(n, o->send_counts, 0, most)))
        return psr_fail(PSR_ERR_USAGE, "%s: more values than memory can hold",
                        psr_kind_name(o->kind));
    return two ? check_pairs(group, o) : PSR_OK;
}

static bool is_encoded(const psr_request_options *o)
{
    return o->compression != NULL && !psr_compression_is_none(*o->compression);
}

static psr_err check_encoding(const psr_request_options *o)
{
    if (!is_encoded(o))
        return PSR_OK;
    char name[PSR_COMPRESSION_TEXT_BYTES];
    psr_compression_print(*o->compression, name);
    if (o->kind != PSR_KIND_ALL_REDUCE)
        return psr_fail(PSR_ERR_USAGE, "%s: encoding %s is of all_reduce alone",
                        psr_kind_name(o->kind), name);
    if (o->type != PSR_TYPE_FLOAT32 || o->own.fold != NULL ||
        (o->reduction != PSR_REDUCTION_SUM && o->reduction != PSR_REDUCTION_MEAN))
        return psr_fail(PSR_ERR_USAGE,
                        "all_reduce: encoding %s is of sums and means of float32, not of %s of %s",
                        name, psr_reduction_name(o->reduction), psr_type_name(o->type));
    if (o->algorithm != PSR_ALGORITHM_AUTO && o->algorithm != PSR_ALGORITHM_RING)
        return psr_fail(PSR_ERR_USAGE, "all_reduce: encoding %s goes by ring, not by %s", name,
                        psr_algorithm_name(o->algorithm));
    if (psr_compression_has_residual(*o->compression) && !o->persistent)
        return psr_fail(
            PSR_ERR_USAGE,
            "all_reduce: encoding %s keeps a residual, so it is of persistent requests alone",
            name);
    if (o->count > UINT32_MAX - 1)
        return psr_fail(PSR_ERR_USAGE, "all_reduce: encoding %s is of fewer than 2^32 values",
                        name);
    return PSR_OK;
}

psr_err psr_request_check(const psr_group *group, const psr_request_options *options)
{
    PSR_TRY(check_kind(options));
    PSR_TRY(check_ranks(group, options));
    PSR_TRY(check_counts(group, options));
    PSR_TRY(check_encoding(options));
    return psr_kind_has_blocks(options->kind) ? check_neighbors(group, options) : PSR_OK;
}

/* ---- shape ---- */

typedef struct layout {
    size_t *begins, *send_begins; /* in one allocation */
    uint64_t bytes;               /* of all values; the algorithm is chosen by it */
    uint64_t count;               /* what all ranks must agree on */
    bool varying;
} layout;

/* Where the parts begin. counts: of each part; NULL: each has count. */
static void add_up(size_t *begins, uint32_t ranks, const size_t *counts, size_t count)
{
    begins[0] = 0;
    for (uint32_t c = 0; c < ranks; c++)
        begins[c + 1] = begins[c] + (counts != NULL ? counts[c] : count);
}

static void lay_out(layout *l, const psr_group *group, const psr_request_options *o)
{
    uint32_t n = group->options.ranks;
    bool two = o->kind == PSR_KIND_ALL_TO_ALL_V, parts = has_parts(o->kind);
    add_up(l->begins, n, parts ? o->counts : NULL, parts ? o->count : 0);
    add_up(l->send_begins, n, two ? o->send_counts : NULL, parts ? o->count : 0);
    for (uint32_t c = 0; is_whole(o->kind) && c <= n; c++)
        l->begins[c] = psr_fold_chunk_begin(o->count, n, c);
    l->bytes = (uint64_t)l->begins[n] * psr_type_bytes(o->type);
    l->varying = parts && !two && o->counts != NULL;
    if (l->varying)
        l->count = psr_call_digest(o->counts, n);
    else if (is_whole(o->kind) || (parts && !two))
        l->count = o->count;
}

/* With one buffer for both, of the same number of values. */
static bool can_be_in_place(psr_kind kind)
{
    return kind == PSR_KIND_ALL_REDUCE || kind == PSR_KIND_REDUCE || psr_kind_scans(kind) ||
           kind == PSR_KIND_ALL_TO_ALL || kind == PSR_KIND_ALL_TO_ALL_V;
}

static psr_shape shape_of(const psr_request *r, const layout *l, const psr_request_options *o)
{
    return (psr_shape){
        .rank = r->group->options.rank,
        .ranks = r->group->options.ranks,
        .root = r->call.root,
        .peer = r->peer,
        .count = o->count,
        .begins = l->begins,
        .send_begins = l->send_begins,
        .in_place = o->send == o->receive && can_be_in_place(o->kind),
        .encoded = is_encoded(o),
        .gathered = r->group->options.shares_memory && !is_encoded(o),
        .finishes =
            psr_kind_folds(o->kind) && o->own.fold == NULL && psr_reduction_finishes(o->reduction),
        .in_order = o->own.in_order,
        .send_blocks = o->send_blocks,
        .receive_blocks = o->receive_blocks,
        .send_block_count = psr_kind_has_blocks(o->kind) ? o->send_block_count : 0,
        .receive_block_count = psr_kind_has_blocks(o->kind) ? o->receive_block_count : 0,
    };
}

static psr_algorithm algorithm_of(const psr_group_options *group, const psr_request_options *o,
                                  uint64_t bytes)
{
    const psr_rank_hosts at = {group->ranks, group->hosts, group->most_on_one, group->hops};
    const psr_algorithm in_order =
        o->own.in_order ? algorithm_in_order(o->kind) : PSR_ALGORITHM_AUTO;
    return o->algorithm != PSR_ALGORITHM_AUTO ? o->algorithm
           : in_order != PSR_ALGORITHM_AUTO   ? in_order
           : is_encoded(o)                    ? PSR_ALGORITHM_RING
                                              : psr_algorithm_choose(o->kind, bytes, &at);
}

static size_t slice_of(const psr_request *r, const psr_request_options *o, uint64_t bytes)
{
    const psr_group_options *group = &r->group->options;
    size_t slice = o->slice_values;
    if (slice == 0)
        slice = psr_slice_choose(o->kind, bytes, group->slice_bytes, group->largest_slice_bytes) /
                r->value_bytes;
    const size_t most = is_encoded(o) ? psr_compression_values_max(*o->compression) : SIZE_MAX;
    return slice < most ? slice : most;
}

static psr_err write_schedule(psr_request *r, const psr_request_options *o)
{
    const psr_group_options *group = &r->group->options;
    size_t *begins = calloc(2 * ((size_t)group->ranks + 1), sizeof *begins);
    if (begins == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an operation of %" PRIu32 " ranks",
                        group->ranks);
    layout l = {.begins = begins, .send_begins = begins + group->ranks + 1};
    lay_out(&l, r->group, o);
    r->call = (psr_call){
        .kind = o->kind,
        .algorithm = algorithm_of(group, o, l.bytes),
        .type = o->kind == PSR_KIND_BARRIER ? PSR_TYPE_UINT8 : o->type,
        .reduction = psr_kind_folds(o->kind) || psr_kind_has_blocks(o->kind) ? o->reduction
                                                                             : PSR_REDUCTION_SUM,
        .root = psr_kind_has_root(o->kind) ? o->root : 0,
        .varying = l.varying || (o->kind == PSR_KIND_RECEIVE && o->at_most),
        .count = l.count,
        .compression = is_encoded(o) ? *o->compression : (psr_compression){0},
    };
    r->slice_values = slice_of(r, o, l.bytes);
    r->asked = r->says = psr_call_message(&r->call);
    psr_shape shape = shape_of(r, &l, o);
    psr_algorithm_of(o->kind, r->call.algorithm)(&r->schedule, &shape);
    free(begins);
    r->past_caches = r->schedule.gathers && l.bytes >= PSR_STREAM_LEAST;
    return psr_schedule_check(&r->schedule);
}

/* ---- streams ---- */

static bool is_transfer(const psr_action *action, bool out)
{
    return out ? action->kind == PSR_ACTION_SEND
               : action->kind == PSR_ACTION_RECEIVE || action->kind == PSR_ACTION_RECEIVE_FOLD ||
                     action->kind == PSR_ACTION_HOLD;
}

/* Numbers the streams: one for each rank; or one for each transfer, and then `of` has the first of
 * each rank. */
static void count_streams(const psr_request *r, bool out, uint32_t *of, uint32_t *ret_count)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->schedule.count; i++) {
        const psr_action *action = &r->schedule.actions[i];
        if (!is_transfer(action, out) || (of[action->peer] > 0 && !r->schedule.overtaking))
            continue;
        count++;
        if (of[action->peer] == 0)
            of[action->peer] = count;
    }
    *ret_count = count;
}

static uint64_t slices_of(const psr_request *r, size_t count)
{
    return count > 0 ? (count - 1) / r->slice_values + 1 : 1;
}

/* The stream of an action. next: how many transfers of each direction were met, if each has its own
 * stream. */
static psr_stream *stream_of(psr_request *r, const psr_action *action, uint32_t next[2])
{
    const bool out = is_transfer(action, true);
    if (!out && !is_transfer(action, false))
        return &r->local;
    if (r->schedule.overtaking)
        return &(out ? r->out : r->in)[next[out]++];
    return out ? psr_request_out(r, action->peer) : psr_request_in(r, action->peer);
}

/* Each stream's actions are a run of stream_actions. They are counted first, then filled in. */
static void fill_streams(psr_request *r)
{
    uint32_t next[2] = {0, 0};
    for (uint32_t i = 0; i < r->schedule.count; i++) {
        const psr_action *action = &r->schedule.actions[i];
        psr_stream *stream = stream_of(r, action, next);
        stream->request = r;
        stream->peer = action->peer;
        stream->by_credit = true;
        stream->count++;
        stream->total_values += action->count;
        stream->total_slices += slices_of(r, action->count);
    }
    uint32_t *run = r->stream_actions;
    for (uint32_t i = 0; i < r->out_count + r->in_count + 1; i++) {
        psr_stream *stream = i < r->out_count                 ? &r->out[i]
                             : i < r->out_count + r->in_count ? &r->in[i - r->out_count]
                                                              : &r->local;
        stream->actions = run;
        run += stream->count;
    }
    next[0] = next[1] = 0;
    for (uint32_t i = 0; i < r->schedule.count; i++) {
        psr_stream *stream = stream_of(r, &r->schedule.actions[i], next);
        stream->actions[stream->head++] = i; /* psr_request_begin sets head back */
    }
}

/* The stream before that one which is the same peer's. NULL: it is its first. */
static psr_stream *before_of_peer(psr_stream *streams, uint32_t i)
{
    for (uint32_t k = i; k-- > 0;)
        if (streams[k].peer == streams[i].peer)
            return &streams[k];
    return NULL;
}

/* If each transfer has its own stream: which of the slices between the two ranks are its slices. */
static void number_slices(psr_stream *streams, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const psr_stream *before = before_of_peer(streams, i);
        if (before == NULL)
            continue;
        streams[i].first_slice = before->first_slice + before->total_slices;
        streams[i].total_values += before->total_values;
    }
    for (uint32_t i = count; i-- > 0;) {
        psr_stream *before = before_of_peer(streams, i);
        if (before != NULL)
            before->total_values = streams[i].total_values;
    }
}

static void link_transfers(psr_request *r)
{
    const psr_action *actions = r->schedule.actions;
    number_slices(r->out, r->out_count);
    number_slices(r->in, r->in_count);
    for (uint32_t i = 0; i < r->out_count; i++) {
        const psr_action *action = &actions[r->out[i].actions[0]];
        if (action->injects)
            r->injection = &r->out[i];
        for (uint32_t k = 0; action->onward && k < r->in_count; k++)
            if (r->in[k].actions[0] + 1 == r->out[i].actions[0])
                r->in[k].onward = &r->out[i];
    }
}

static psr_err no_memory(const psr_request *r)
{
    return psr_fail(PSR_ERR_NOMEM, "no memory for %s of %" PRIu32 " ranks",
                    psr_kind_name(r->call.kind), r->group->options.ranks);
}

/* The numbers of a request are in one allocation, and its streams and areas in another. Caches do
 * not hold 100,000 requests, so what counts is how many cache lines one of them touches. */
static psr_err make_numbers(psr_request *r)
{
    const size_t n = r->group->options.ranks, actions = r->schedule.count;
    r->done = calloc(1, actions * (sizeof *r->done + sizeof(uint32_t) + sizeof *r->complete) +
                            2 * n * sizeof(uint32_t));
    if (r->done == NULL)
        return no_memory(r);
    r->out_of = (uint32_t *)(void *)(r->done + actions);
    r->in_of = r->out_of + n;
    r->stream_actions = r->in_of + n;
    r->complete = (bool *)(void *)(r->stream_actions + actions);
    return PSR_OK;
}

static psr_err make_streams(psr_request *r, size_t area_count)
{
    uint32_t out_count = 0, in_count = 0;
    PSR_TRY(make_numbers(r));
    count_streams(r, true, r->out_of, &out_count);
    count_streams(r, false, r->in_of, &in_count);
    const size_t streams = (size_t)out_count + in_count;
    r->out = calloc(1, streams * sizeof *r->out + area_count * sizeof *r->areas);
    if (r->out == NULL)
        return no_memory(r);
    r->out_count = out_count;
    r->in_count = in_count;
    r->in = r->out + out_count;
    r->areas = (psr_request_area *)(void *)(r->in + r->in_count);
    for (uint32_t i = 0; i < out_count; i++)
        psr_loan_init(&r->out[i].loan, &r->group->options.outbox);
    fill_streams(r);
    if (r->schedule.overtaking)
        link_transfers(r);
    if (r->schedule.gathers) {
        psr_request_make_gathering(r);
        PSR_TRY(psr_group_make_fold(r->group));
    }
    return psr_early_new(r->in_count, 2 * (size_t)r->in_count * r->group->options.window,
                         &r->early);
}

/* ---- areas ---- */

static psr_request_area area_of(const psr_block *block)
{
    return (psr_request_area){.read = block->data,
                              .write = block->data,
                              .block = *block,
                              .scattered = block->data == NULL || !psr_block_is_dense(block)};
}

static size_t count_areas(const psr_request_options *o)
{
    return PSR_AREA_BLOCKS +
           (psr_kind_has_blocks(o->kind) ? o->send_block_count + o->receive_block_count : 0);
}

static psr_err make_areas(psr_request *r, const psr_request_options *o)
{
    const bool blocks = psr_kind_has_blocks(o->kind);
    const size_t sent = blocks ? o->send_block_count : 0,
                 received = blocks ? o->receive_block_count : 0;
    r->scratch = r->schedule.scratch > 0 ? malloc(r->schedule.scratch * r->value_bytes) : NULL;
    const int slices = blocks ? 2 : psr_type_has_gaps(o->type) ? 1 : 0;
    bool there = true;
    for (int i = 0; i < slices && there; i++)
        there = (r->slices[i] = malloc(r->slice_values * r->value_bytes)) != NULL;
    if ((r->schedule.scratch > 0 && r->scratch == NULL) || !there)
        return no_memory(r);
    r->areas[PSR_AREA_SEND].read = o->send;
    r->areas[PSR_AREA_RECEIVE] = (psr_request_area){.read = o->receive, .write = o->receive};
    r->areas[PSR_AREA_SCRATCH] = (psr_request_area){.read = r->scratch, .write = r->scratch};
    for (size_t i = 0; i < sent; i++)
        r->areas[PSR_AREA_BLOCKS + i] = area_of(&o->send_blocks[i]);
    for (size_t i = 0; i < received; i++)
        r->areas[PSR_AREA_BLOCKS + sent + i] = area_of(&o->receive_blocks[i]);
    return PSR_OK;
}

/* ---- encoding ---- */

/* The group's encoder for this compression and units of count values. */
static psr_err find_encoder(psr_group *group, psr_compression compression, size_t count,
                            psr_group_encoder **ret_encoder)
{
    psr_group_encoder *e = group->encoders;
    while (e != NULL && !psr_compression_equal(e->compression, compression))
        e = e->next;
    if (e == NULL) {
        e = calloc(1, sizeof *e);
        if (e == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for an encoder");
        e->compression = compression;
        e->next = group->encoders;
        group->encoders = e;
    }
    if (e->encoder == NULL || e->count_max < count) {
        psr_encoder *larger = NULL;
        PSR_TRY(psr_encoder_new(compression, count, &larger));
        psr_encoder_free(&e->encoder);
        e->encoder = larger;
        e->count_max = count;
    }
    *ret_encoder = e;
    return PSR_OK;
}

static psr_err make_room_to_decode(psr_group *group, size_t count)
{
    if (group->decoded_max >= count)
        return PSR_OK;
    float *larger = realloc(group->decoded, count * sizeof *larger);
    if (larger == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a slice of %zu values", count);
    group->decoded = larger;
    group->decoded_max = count;
    return PSR_OK;
}

static psr_err make_encoding(psr_request *r, const psr_request_options *o)
{
    r->compression = *o->compression;
    PSR_TRY(find_encoder(r->group, r->compression, o->count / r->group->options.ranks + 1,
                         &r->encoder));
    PSR_TRY(make_room_to_decode(r->group, r->slice_values));
    if (!psr_compression_has_residual(r->compression))
        return PSR_OK;
    const size_t longest = (o->count + r->group->options.ranks - 1) / r->group->options.ranks,
                 together = (longest + r->slice_values - 1) / r->slice_values;
    if (r->group->slices_together < together)
        r->group->slices_together = together;
    assert(o->residual != NULL);
    r->residual = o->residual;
    return PSR_OK;
}

/* ---- beginning and end ---- */

static psr_err make(psr_request *r, const psr_request_options *o)
{
    r->is_message = psr_kind_is_message(o->kind);
    r->persistent = o->persistent && !r->is_message;
    r->uncounted = o->uncounted;
    r->own = o->own;
    r->asked_peer = o->peer;
    r->asked_tag = o->tag;
    r->at_most = o->at_most;
    r->at_once = o->at_once;
    /* until the sender is known */
    r->peer = o->peer != PSR_RANK_ANY ? o->peer : r->group->options.rank;
    r->value_bytes = psr_type_bytes(o->type);
    r->priority = o->priority;
    r->not_finite = o->not_finite;
    PSR_TRY(write_schedule(r, o));
    PSR_TRY(make_streams(r, count_areas(o)));
    if (is_encoded(o))
        PSR_TRY(make_encoding(r, o));
    return make_areas(r, o);
}

psr_err psr_request_new(psr_group *group, const psr_request_options *options,
                        psr_request **ret_request)
{
    PSR_TRY(psr_request_check(group, options));
    psr_request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an operation");
    r->group = group;
    r->owner = options->owner;
    psr_err err = make(r, options);
    if (err != PSR_OK) {
        psr_request_free(r);
        return err;
    }
    r->tag = (psr_tag){.epoch = group->options.epoch, .group = group->options.id};
    if (r->persistent)
        r->tag.slot = options->slot > 0 ? options->slot : ++group->persistent;
    *ret_request = r;
    return PSR_OK;
}

void psr_request_free(psr_request *request)
{
    if (request == NULL)
        return;
    psr_request_leave(request);
    psr_schedule_done(&request->schedule);
    psr_early_free(request->early);
    free(request->scratch);
    free(request->slices[0]);
    free(request->slices[1]);
    free(request->done);
    free(request->out);
    free(request);
}
