/* From what is called to an operation: checks, the shape that an algorithm is told, and the streams of what it wrote. */
#include "comm/collectives/group_private.h"

#include "base/fold.h"
#include "comm/collectives/algorithm_choice.h"
#include "comm/collectives/algorithms.h"
#include "comm/pair.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

static bool is_message(psr_kind kind)
{
    return kind == PSR_KIND_SEND || kind == PSR_KIND_RECEIVE;
}

static psr_err check_ranks(const psr_group *group, const psr_request_options *o)
{
    uint32_t n = group->options.ranks;
    if (psr_kind_has_root(o->kind) && o->root >= n)
        return psr_fail(PSR_ERR_USAGE, "%s: root %" PRIu32 " is none of %" PRIu32 " ranks",
                        psr_kind_name(o->kind), o->root, n);
    if (!is_message(o->kind))
        return PSR_OK;
    if (o->peer >= n)
        return psr_fail(PSR_ERR_USAGE, "%s: rank %" PRIu32 " is none of %" PRIu32 " ranks",
                        psr_kind_name(o->kind), o->peer, n);
    if (o->tag > PSR_MESSAGE_TAG_MAX)
        return psr_fail(PSR_ERR_USAGE, "%s: tag %" PRIu32 " is above %" PRIu32, psr_kind_name(o->kind),
                        o->tag, PSR_MESSAGE_TAG_MAX);
    return PSR_OK;
}

static psr_err check_kind(const psr_request_options *o)
{
    if ((unsigned)o->kind >= PSR_KINDS || (unsigned)o->type >= PSR_TYPES)
        return psr_fail(PSR_ERR_USAGE, "operation %d of type %d: there is none", (int)o->kind, (int)o->type);
    if (o->algorithm != PSR_ALGORITHM_AUTO && !psr_algorithm_fits(o->algorithm, o->kind)) {
        char list[128];
        psr_algorithm_list(o->kind, list, sizeof list);
        return psr_fail(PSR_ERR_USAGE, "%s has no algorithm %s: there are %s", psr_kind_name(o->kind),
                        psr_algorithm_name(o->algorithm), list);
    }
    if (psr_kind_scans(o->kind) && o->reduction == PSR_REDUCTION_MEAN)
        return psr_fail(PSR_ERR_USAGE, "%s: there is no mean of a prefix", psr_kind_name(o->kind));
    if (psr_kind_folds(o->kind) &&
        ((unsigned)o->reduction >= PSR_REDUCTIONS || !psr_reduction_fits(o->reduction, o->type)))
        return psr_fail(PSR_ERR_USAGE, "%s: there is no %s of %s", psr_kind_name(o->kind),
                        psr_reduction_name(o->reduction), psr_type_name(o->type));
    if (o->kind == PSR_KIND_ALL_TO_ALL_V && (o->counts == NULL || o->send_counts == NULL))
        return psr_fail(PSR_ERR_USAGE,
                        "all_to_all_v: it needs the counts of what goes to and comes from each rank");
    return PSR_OK;
}

/* The block with number own of those that are of this rank itself; NULL: there are not so many. */
static const psr_block *own_block(const psr_group *group, const psr_block *blocks, size_t count, size_t own)
{
    for (size_t i = 0; i < count; i++)
        if (blocks[i].rank == group->options.rank && own-- == 0)
            return &blocks[i];
    return NULL;
}

static psr_err check_blocks(const psr_group *group, const psr_request_options *o, const psr_block *blocks,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t values;
        if (!psr_block_count(&blocks[i], &values) || values > PTRDIFF_MAX / psr_type_bytes(o->type))
            return psr_fail(PSR_ERR_USAGE, "%s: more values than memory can have", psr_kind_name(o->kind));
        if (blocks[i].adds &&
            ((unsigned)o->reduction >= PSR_REDUCTIONS || psr_reduction_finishes(o->reduction) ||
             !psr_reduction_fits(o->reduction, o->type)))
            return psr_fail(PSR_ERR_USAGE, "%s: blocks of %s are not added by %s", psr_kind_name(o->kind),
                            psr_type_name(o->type), psr_reduction_name(o->reduction));
        if (blocks[i].rank >= group->options.ranks)
            return psr_fail(PSR_ERR_USAGE, "%s: rank %" PRIu32 " is none of %" PRIu32, psr_kind_name(o->kind),
                            blocks[i].rank, group->options.ranks);
    }
    return PSR_OK;
}

static bool same_count(const psr_block *a, const psr_block *b)
{
    size_t count, other;
    return psr_block_count(a, &count) && psr_block_count(b, &other) && count == other;
}

/* What a rank sends itself must be what it expects of itself. */
static psr_err check_neighbors(const psr_group *group, const psr_request_options *o)
{
    PSR_TRY(check_blocks(group, o, o->send_blocks, o->send_block_count));
    PSR_TRY(check_blocks(group, o, o->receive_blocks, o->receive_block_count));
    for (size_t i = 0, count; i < o->receive_block_count; i++)
        if (psr_block_count(&o->receive_blocks[i], &count) && count > 0 && o->receive_blocks[i].data == NULL)
            return psr_fail(PSR_ERR_USAGE, "%s: what is received has no memory", psr_kind_name(o->kind));
    for (size_t own = 0;; own++) {
        const psr_block *from = own_block(group, o->send_blocks, o->send_block_count, own),
                        *to = own_block(group, o->receive_blocks, o->receive_block_count, own);
        if (from == NULL && to == NULL)
            return PSR_OK;
        if (from == NULL || to == NULL || !same_count(from, to))
            return psr_fail(PSR_ERR_USAGE, "%s: rank %" PRIu32 " sends itself other values than it expects",
                            psr_kind_name(o->kind), group->options.rank);
    }
}

/* ---- counts ---- */

static bool is_whole(psr_kind kind)
{
    return kind == PSR_KIND_ALL_REDUCE || kind == PSR_KIND_REDUCE || kind == PSR_KIND_BROADCAST ||
           psr_kind_scans(kind) || is_message(kind);
}

static bool has_parts(psr_kind kind)
{
    return kind == PSR_KIND_REDUCE_SCATTER || kind == PSR_KIND_ALL_GATHER || kind == PSR_KIND_GATHER ||
           kind == PSR_KIND_SCATTER || kind == PSR_KIND_ALL_TO_ALL || kind == PSR_KIND_ALL_TO_ALL_V ||
           psr_kind_gathers_words(kind);
}

/* Parts of counts, or of count each, have at most so many values together. */
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

/* What a rank sends itself must be what it expects of itself; in place all that comes has the place of what goes. */
static psr_err check_pairs(const psr_group *group, const psr_request_options *o)
{
    uint32_t self = group->options.rank;
    if (o->send_counts[self] != o->counts[self])
        return psr_fail(PSR_ERR_USAGE,
                        "all_to_all_v: rank %" PRIu32 " sends itself %zu values and expects %zu", self,
                        o->send_counts[self], o->counts[self]);
    for (uint32_t r = 0; o->send != NULL && o->send == o->receive && r < group->options.ranks; r++)
        if (o->send_counts[r] != o->counts[r])
            return psr_fail(PSR_ERR_USAGE,
                            "all_to_all_v: in place send_counts are receive_counts, and of rank %" PRIu32
                            " they are %zu and %zu",
                            r, o->send_counts[r], o->counts[r]);
    return PSR_OK;
}

static psr_err check_counts(const psr_group *group, const psr_request_options *o)
{
    uint32_t n = group->options.ranks;
    /* No array has more bytes than a pointer difference can say; direct all-reduce has n of them. */
    size_t most = PTRDIFF_MAX / psr_type_bytes(o->type) / n;
    bool two = o->kind == PSR_KIND_ALL_TO_ALL_V;
    if ((is_whole(o->kind) && o->count > most) ||
        (has_parts(o->kind) && !adds_up(n, o->counts, o->count, most)) ||
        (two && !adds_up(n, o->send_counts, 0, most)))
        return psr_fail(PSR_ERR_USAGE, "%s: more values than memory can have", psr_kind_name(o->kind));
    return two ? check_pairs(group, o) : PSR_OK;
}

psr_err psr_request_check(const psr_group *group, const psr_request_options *options)
{
    PSR_TRY(check_kind(options));
    PSR_TRY(check_ranks(group, options));
    PSR_TRY(check_counts(group, options));
    return psr_kind_has_blocks(options->kind) ? check_neighbors(group, options) : PSR_OK;
}

/* ---- shape ---- */

typedef struct layout {
    size_t *begins, *send_begins; /* one memory */
    uint64_t bytes;               /* of all values: what the choice goes by */
    uint64_t count;               /* that all ranks must say alike */
    bool varying;
} layout;

/* Begins of parts of counts, or of count each. */
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

/* By one buffer, of as many values. */
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
        .finishes = psr_kind_folds(o->kind) && psr_reduction_finishes(o->reduction),
        .send_blocks = o->send_blocks,
        .receive_blocks = o->receive_blocks,
        .send_block_count = psr_kind_has_blocks(o->kind) ? o->send_block_count : 0,
        .receive_block_count = psr_kind_has_blocks(o->kind) ? o->receive_block_count : 0,
    };
}

static psr_err write_schedule(psr_request *r, const psr_request_options *o)
{
    const psr_group_options *group = &r->group->options;
    size_t *begins = calloc(2 * ((size_t)group->ranks + 1), sizeof *begins);
    if (begins == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an operation of %" PRIu32 " ranks", group->ranks);
    layout l = {.begins = begins, .send_begins = begins + group->ranks + 1};
    lay_out(&l, r->group, o);
    r->call = (psr_call){
        .kind = o->kind,
        .algorithm = o->algorithm != PSR_ALGORITHM_AUTO
                         ? o->algorithm
                         : psr_algorithm_choose(o->kind, l.bytes, group->ranks, group->hosts),
        .type = o->kind == PSR_KIND_BARRIER ? PSR_TYPE_UINT8 : o->type,
        .reduction =
            psr_kind_folds(o->kind) || psr_kind_has_blocks(o->kind) ? o->reduction : PSR_REDUCTION_SUM,
        .root = psr_kind_has_root(o->kind) ? o->root : 0,
        .varying = l.varying,
        .count = l.count,
    };
    r->slice_values =
        psr_slice_choose(o->kind, l.bytes, group->slice_bytes, group->largest_slice_bytes) / r->value_bytes;
    r->says = psr_call_message(&r->call);
    psr_shape shape = shape_of(r, &l, o);
    psr_algorithm_of(o->kind, r->call.algorithm)(&r->schedule, &shape);
    free(begins);
    return psr_schedule_check(&r->schedule);
}

/* ---- streams ---- */

static psr_stream *stream_of(psr_request *r, const psr_action *action)
{
    switch (action->kind) {
    case PSR_ACTION_SEND:
        return psr_request_out(r, action->peer);
    case PSR_ACTION_RECEIVE:
    case PSR_ACTION_RECEIVE_FOLD:
        return psr_request_in(r, action->peer);
    default:
        return &r->local;
    }
}

/* Numbers the streams that there are. */
static void count_streams(psr_request *r)
{
    for (uint32_t i = 0; i < r->schedule.count; i++) {
        const psr_action *action = &r->schedule.actions[i];
        bool out = action->kind == PSR_ACTION_SEND,
             in = action->kind == PSR_ACTION_RECEIVE || action->kind == PSR_ACTION_RECEIVE_FOLD;
        if (out && r->out_of[action->peer] == 0)
            r->out_of[action->peer] = ++r->out_count;
        if (in && r->in_of[action->peer] == 0)
            r->in_of[action->peer] = ++r->in_count;
    }
}

static uint64_t slices_of(const psr_request *r, size_t count)
{
    return count > 0 ? (count - 1) / r->slice_values + 1 : 1;
}

/* Each stream's actions are a run of stream_actions: counted first, then filled in. */
static void fill_streams(psr_request *r)
{
    for (uint32_t i = 0; i < r->schedule.count; i++) {
        const psr_action *action = &r->schedule.actions[i];
        psr_stream *stream = stream_of(r, action);
        stream->peer = action->peer;
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
    for (uint32_t i = 0; i < r->schedule.count; i++) {
        psr_stream *stream = stream_of(r, &r->schedule.actions[i]);
        stream->actions[stream->head++] = i; /* begin sets head back */
    }
}

static psr_err no_memory(const psr_request *r)
{
    return psr_fail(PSR_ERR_NOMEM, "no memory for %s of %" PRIu32 " ranks", psr_kind_name(r->call.kind),
                    r->group->options.ranks);
}

static psr_err make_streams(psr_request *r)
{
    uint32_t n = r->group->options.ranks, actions = r->schedule.count;
    r->out_of = calloc(n, sizeof *r->out_of);
    r->in_of = calloc(n, sizeof *r->in_of);
    r->done = calloc((size_t)actions + 1, sizeof *r->done);
    r->complete = calloc((size_t)actions + 1, sizeof *r->complete);
    r->stream_actions = calloc((size_t)actions + 1, sizeof *r->stream_actions);
    if (r->out_of == NULL || r->in_of == NULL || r->done == NULL || r->complete == NULL ||
        r->stream_actions == NULL)
        return no_memory(r);
    count_streams(r);
    r->out = calloc((size_t)r->out_count + 1, sizeof *r->out);
    r->in = calloc((size_t)r->in_count + 1, sizeof *r->in);
    if (r->out == NULL || r->in == NULL)
        return no_memory(r);
    fill_streams(r);
    return psr_early_new(r->in_count, (size_t)r->in_count * r->group->options.window, &r->early);
}

/* ---- areas ---- */

static psr_request_area area_of(const psr_block *block)
{
    return (psr_request_area){.read = block->data,
                              .write = block->data,
                              .block = *block,
                              .scattered = block->data == NULL || !psr_block_is_dense(block)};
}

static psr_err make_areas(psr_request *r, const psr_request_options *o)
{
    bool blocks = psr_kind_has_blocks(o->kind);
    size_t sent = blocks ? o->send_block_count : 0, received = blocks ? o->receive_block_count : 0;
    r->areas = calloc(PSR_AREA_BLOCKS + sent + received, sizeof *r->areas);
    r->scratch = r->schedule.scratch > 0 ? malloc(r->schedule.scratch * r->value_bytes) : NULL;
    const int slices = blocks ? 2 : psr_type_has_gaps(o->type) ? 1 : 0;
    bool there = true;
    for (int i = 0; i < slices && there; i++)
        there = (r->slices[i] = malloc(r->slice_values * r->value_bytes)) != NULL;
    if (r->areas == NULL || (r->schedule.scratch > 0 && r->scratch == NULL) || !there)
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

/* ---- beginning and end ---- */

static psr_err make(psr_request *r, const psr_request_options *o)
{
    r->is_message = is_message(o->kind);
    r->persistent = o->persistent && !r->is_message;
    r->uncounted = o->uncounted;
    r->peer = o->peer;
    r->value_bytes = psr_type_bytes(o->type);
    psr_loan_init(&r->loan, &r->group->options.outbox);
    PSR_TRY(write_schedule(r, o));
    PSR_TRY(make_streams(r));
    return make_areas(r, o);
}

psr_err psr_request_new(psr_group *group, const psr_request_options *options, psr_request **ret_request)
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
    if (r->is_message)
        r->tag.slot = PSR_MESSAGE_TAG_MAX + 1 + options->tag;
    else if (r->persistent)
        r->tag.slot = ++group->persistent;
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
    free(request->areas);
    free(request->scratch);
    free(request->slices[0]);
    free(request->slices[1]);
    free(request->done);
    free(request->complete);
    free(request->out);
    free(request->in);
    free(request->out_of);
    free(request->in_of);
    free(request->stream_actions);
    free(request);
}
