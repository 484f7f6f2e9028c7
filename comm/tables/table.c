#include "comm/tables/table.h"

#include "base/arrays/fold.h"
#include "base/arrays/stream.h"
#include "comm/operations/lane.h"
#include "comm/operations/loan.h"
#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"
#include "net/sharing/landing.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Push and pull of one part, started again for each round. */
typedef struct part {
    psr_table *table;
    uint32_t index;
    const psr_plan_bucket *cut; /* the plan's */
    const float *pushed;        /* the buffer's */
    psr_encoder *encoder;       /* owned; NULL: pushes are sent as they are */
    uint64_t round;             /* the round under way if active, else the last one */
    bool active, pulls;         /* pulls: SSP, async: values were requested */
    bool gets, puts;            /* a section is read, or written, and nothing is pushed */
    uint32_t section;           /* then: 0 the values, 1 + i state i */
    float *to;                  /* where a section that is read goes; NULL: nowhere */
    uint64_t put_until;         /* messages that the lane had sent after the last slice of a put */
    uint64_t answer;            /* rounds of the values that are expected */
    /* slices of the round that were pushed, and those that have not landed yet */
    uint32_t sent, missing;
    psr_loan loan;
} part;

struct psr_table {
    psr_table_options options;
    const psr_plan *plan; /* the options' */
    psr_route route;      /* of its parts: SHARD or HOST */
    part *parts;          /* [bucket] */
    uint64_t *landed;     /* [slice] the values here contain the rounds below this number */
    bool *wanted;         /* [slice] values for `answer` are still to come */
    psr_lane *lanes;      /* [shard] the parts that have slices to push, by part_of_place */
    uint64_t *taken;      /* [shard] how many of its answers to PULL and ASK have landed */
    uint32_t *room;       /* the lanes' */
    bool encodes;         /* pushes of some part are encoded */
    uint32_t puts;        /* how many parts are being written */
    psr_landing *landing; /* a run for each slice; NULL: values are copied */
};

static bool is_bsp(const psr_table *table)
{
    return table->options.consistency.kind == PSR_CONSISTENCY_BSP;
}

static psr_err send_home(const part *p, const psr_head *head, const psr_payload *payload)
{
    const psr_outbox *outbox = &p->table->options.outbox;
    return outbox->send(outbox->context, psr_plan_home(p->table->plan, p->index), head, payload);
}

/* ---- the beginning of a table ---- */

psr_err psr_table_write(const psr_plan *plan, const psr_outbox *outbox, uint64_t first_step,
                        uint32_t state, const float *values)
{
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        const psr_plan_bucket *cut = &plan->buckets[b];
        for (uint32_t i = 0; cut->route == PSR_ROUTE_SHARD && i < cut->slice_count; i++) {
            psr_span span = plan->slices[cut->first_slice + i].span;
            psr_head head = psr_msg_init_head(
                &(psr_msg_init){.bucket = b, .step = first_step, .span = span, .section = state});
            psr_payload payload =
                psr_encode(&head, PSR_ENCODING_FLOAT32, values + span.offset, span.count);
            PSR_TRY(outbox->send(outbox->context, psr_plan_home(plan, b), &head, &payload));
        }
    }
    return PSR_OK;
}

/* ---- out ---- */

/* A slice of what part_start encoded, in memory that is freed when the payload comes back. */
static psr_err encoded(part *p, psr_span span, psr_head *head, psr_payload *ret_payload)
{
    void *memory;
    PSR_TRY(psr_loan_memory(&p->loan, psr_encoder_bytes(p->encoder, span), ret_payload, &memory));
    psr_encode_slice(p->encoder, head, span, memory);
    return PSR_OK;
}

static psr_err push_slice(part *p, const psr_slice *slice)
{
    psr_head head = psr_msg_push_head(&(psr_msg_push){
        .bucket = p->index, .step = p->round, .span = slice->span, .answer = is_bsp(p->table)});
    const psr_span span = {slice->span.offset - p->cut->span.offset, slice->span.count};
    /* The shard reads the push before it answers, in any consistency, because a worker's pushes
     * come before its pull. The loan says so for each. */
    psr_payload payload;
    if (p->encoder != NULL)
        PSR_TRY(encoded(p, span, &head, &payload));
    else
        payload = psr_loan_payload(
            &p->loan, psr_encode(&head, PSR_ENCODING_FLOAT32, p->pushed + span.offset, span.count));
    return send_home(p, &head, &payload);
}

static psr_err put_slice(part *p, const psr_slice *slice)
{
    psr_head head = psr_msg_init_head(&(psr_msg_init){
        .bucket = p->index, .step = p->answer, .span = slice->span, .section = p->section});
    psr_payload payload = psr_loan_payload(
        &p->loan,
        psr_encode(&head, PSR_ENCODING_FLOAT32,
                   p->pushed + (slice->span.offset - p->cut->span.offset), slice->span.count));
    return send_home(p, &head, &payload);
}

static psr_err ask_for_slice(part *p, const psr_slice *slice)
{
    psr_head head = psr_msg_ask_head(&(psr_msg_ask){.bucket = p->index,
                                                    .step = p->answer,
                                                    .span = slice->span,
                                                    .taken = p->table->taken[p->cut->home],
                                                    .section = p->section});
    return send_home(p, &head, NULL);
}

/* Requests the values for the next round. */
static psr_err pull_slice(part *p, const psr_slice *slice)
{
    psr_head head = psr_msg_pull_head(&(psr_msg_pull){.bucket = p->index,
                                                      .step = p->answer,
                                                      .span = slice->span,
                                                      .taken = p->table->taken[p->cut->home]});
    return send_home(p, &head, NULL);
}

/* The last part is the beginning of the table, so it has the first place in its lane. The function
 * is its own inverse. */
static uint32_t part_of_place(const psr_table *table, uint32_t place)
{
    return table->plan->bucket_count - 1 - place;
}

static void wait_to_push(part *p)
{
    if (p->sent < p->cut->slice_count)
        psr_lane_add(&p->table->lanes[p->cut->home], part_of_place(p->table, p->index));
}

/* A part may be started again before its owner is told that this round is done. */
static psr_err complete(part *p)
{
    const psr_table_options *o = &p->table->options;
    const bool got = p->gets && o->got != NULL;
    p->active = p->gets = p->puts = false;
    return got ? o->got(o->context, p->index) : o->landed(o->context, p->round, p->index);
}

/* The lane has room for one slice. */
static psr_err send_next(part *p)
{
    const psr_slice *slice = &p->table->plan->slices[p->cut->first_slice + p->sent++];
    wait_to_push(p);
    if (p->puts) {
        p->put_until = p->table->lanes[p->cut->home].sent;
        return put_slice(p, slice);
    }
    PSR_TRY(push_slice(p, slice));
    if (p->pulls)
        return pull_slice(p, slice);
    return is_bsp(p->table) || p->sent < p->cut->slice_count ? PSR_OK : complete(p);
}

/* A lent payload takes no room on the way. So a wider window delays a more urgent slice only by the
 * time that the holder needs to read it, and the holder finds more to do each time that it wakes.
 * Encoded payloads are sent from memory of their own, and so are not lent. */
static uint32_t window_to(const psr_table *table, uint32_t home)
{
    const psr_outbox *outbox = &table->options.outbox;
    const psr_peer to = {psr_plan_home_role(table->route), psr_plan_first_rank(table->plan) + home};
    bool lies =
        !table->encodes && outbox->lends_to != NULL && outbox->lends_to(outbox->context, to);
    return lies ? PSR_TABLE_WINDOW_LENT * table->plan->window : table->plan->window;
}

static psr_err push_what_may_go(psr_table *table, uint32_t home)
{
    psr_lane *lane = &table->lanes[home];
    psr_lane_open(lane, window_to(table, home));
    for (uint32_t place; psr_lane_next(lane, &place);)
        PSR_TRY(send_next(&table->parts[part_of_place(table, place)]));
    return PSR_OK;
}

/* ---- in ---- */

/* Which holder sent it; the number of shards or more: none. */
static uint32_t home_of(const psr_table *table, const psr_message *message)
{
    return message->from.rank - psr_plan_first_rank(table->plan);
}

/* Every message of a shard says how many pushes it has received. */
static psr_err check_credit(const psr_table *table, const psr_message *message, uint64_t received)
{
    const psr_lane *lane = &table->lanes[home_of(table, message)];
    if (received > lane->sent)
        return psr_violation(message, "it has received %" PRIu64 " pushes of %" PRIu64, received,
                             lane->sent);
    return PSR_OK;
}

/* What is written is there when the shard has received its last slice. */
static psr_err complete_puts(psr_table *table, uint32_t home)
{
    for (uint32_t b = 0; b < table->plan->bucket_count && table->puts > 0; b++) {
        part *p = &table->parts[b];
        if (!p->puts || p->cut->home != home || p->sent < p->cut->slice_count ||
            table->lanes[home].returned < p->put_until)
            continue;
        table->puts--;
        PSR_TRY(complete(p));
    }
    return PSR_OK;
}

static psr_err take_credit(psr_table *table, uint32_t home, uint64_t received)
{
    psr_lane *lane = &table->lanes[home];
    if (received > lane->returned)
        psr_lane_credit(lane, received - lane->returned);
    PSR_TRY(complete_puts(table, home));
    return push_what_may_go(table, home);
}

/* The shard keeps SSP's bound; a worker checks that it did. */
static psr_err check_staleness(const psr_table *table, const psr_message *message,
                               uint64_t staleness)
{
    const psr_consistency *consistency = &table->options.consistency;
    if (consistency->kind == PSR_CONSISTENCY_SSP && staleness > consistency->bound)
        return psr_violation(message,
                             "its weights are %" PRIu64 " steps old, and the bound is %" PRIu32,
                             staleness, consistency->bound);
    return PSR_OK;
}

/* A decoded message of values. */
typedef struct arrival {
    psr_msg_weights says;
    uint32_t slice;  /* its number in the plan */
    uint64_t rounds; /* the values contain the rounds below this number */
    bool wanted;     /* false: a duplicate */
    const float *values;
} arrival;

/* Checks that the sender holds the bucket. */
static psr_err check_home(const psr_table *table, const psr_message *message, uint32_t bucket)
{
    if (bucket >= table->plan->bucket_count)
        return psr_violation(message, "there are %" PRIu32 " buckets", table->plan->bucket_count);
    const psr_plan_bucket *cut = table->parts[bucket].cut;
    if (cut->route != table->route)
        return psr_violation(message, "the bucket is no shard's");
    if (cut->home != home_of(table, message))
        return psr_violation(message, "the bucket is %s %" PRIu32 "'s",
                             psr_role_name(message->from.role),
                             psr_plan_home(table->plan, bucket).rank);
    return PSR_OK;
}

/* May replace *message by its decoded form. */
static psr_err check(const psr_table *table, psr_message **at, arrival *ret_arrival)
{
    const psr_compression pulled = table->plan->pulled;
    const psr_message *message = *at;
    arrival a = {0};
    PSR_TRY(psr_msg_weights_read(message, &a.says));
    PSR_TRY(check_home(table, message, a.says.bucket));
    PSR_TRY(psr_plan_find(table->plan, message, a.says.bucket, a.says.span, &a.slice));
    if (!psr_compression_is_none(pulled))
        PSR_TRY(psr_decode_message(at, pulled, a.says.span.count));
    message = *at;
    PSR_TRY(psr_decode_floats(message, PSR_ENCODING_FLOAT32, a.says.span.count, &a.values));
    PSR_TRY(check_credit(table, message, a.says.received));
    /* In BSP the values after that step, otherwise those for the next one. */
    a.rounds = a.says.step + (is_bsp(table) ? 1 : 0);
    const part *p = &table->parts[a.says.bucket];
    bool asked = p->active && !p->gets && !p->puts && a.slice - p->cut->first_slice < p->sent;
    a.wanted = asked && table->wanted[a.slice] && a.rounds == p->answer;
    if (!a.wanted && a.rounds > table->landed[a.slice])
        return psr_violation(message, "%" PRIu64 " steps of it were pushed",
                             asked ? p->answer : table->landed[a.slice]);
    if (a.wanted)
        PSR_TRY(check_staleness(table, message, a.says.staleness));
    *ret_arrival = a;
    return PSR_OK;
}

/* If the values are in place, the shard writes them again when all workers have pushed again, which
 * they do after they have read them. */
static psr_err land(const psr_table *table, const arrival *a, const psr_message *message)
{
    float *values = table->options.values + a->says.span.offset;
    if (values == a->values) /* this process holds the part too: the new values are there already */
        return PSR_OK;
    if (table->landing != NULL)
        return psr_landing_take(table->landing, a->slice, a->says.span, message);
    if (psr_plan_pulls_differences(table->plan))
        psr_fold_add(values, a->values, a->says.span.count);
    else if (table->options.past_caches)
        psr_stream_copy(values, a->values, a->says.span.count);
    else
        memcpy(values, a->values, a->says.span.count * sizeof *values);
    return PSR_OK;
}

static psr_err take_weights(psr_table *table, psr_message **message)
{
    arrival a = {0};
    PSR_TRY(check(table, message, &a));
    PSR_TRY(take_credit(table, home_of(table, *message), a.says.received));
    if (!a.wanted)
        return PSR_OK;
    PSR_TRY(land(table, &a, *message));
    table->landed[a.slice] = a.rounds;
    table->wanted[a.slice] = false;
    table->taken[home_of(table, *message)] += !is_bsp(table); /* else it was not asked for */
    if (a.says.staleness > 0 && table->options.stale != NULL)
        table->options.stale(table->options.context, a.says.staleness);
    part *p = &table->parts[a.says.bucket];
    return --p->missing == 0 ? complete(p) : PSR_OK;
}

/* Takes the answer to ASK. */
static psr_err take_section(part *p, uint32_t slice, const psr_msg_init *says, const float *values)
{
    psr_table *table = p->table;
    if (p->to != NULL)
        memcpy(p->to + (says->span.offset - p->cut->span.offset), values,
               says->span.count * sizeof *values);
    table->wanted[slice] = false;
    table->taken[p->cut->home]++;
    return --p->missing == 0 ? complete(p) : PSR_OK;
}

/* Only before the slice's first WEIGHTS does this worker have the initial values. */
static psr_err take_first_values(const psr_table *table, const psr_message *message, uint32_t slice,
                                 const psr_msg_init *says)
{
    const uint64_t first = table->options.first_step;
    if (!is_bsp(table) || says->section != 0 || says->step != first || table->landed[slice] > first)
        return psr_violation(message, "these are not the values before the first step");
    return table->landing != NULL ? psr_landing_show(table->landing, slice, says->span, message)
                                  : PSR_OK;
}

static psr_err take_init(psr_table *table, const psr_message *message)
{
    psr_msg_init says;
    uint32_t slice;
    const float *values;
    PSR_TRY(psr_msg_init_read(message, &says));
    PSR_TRY(check_home(table, message, says.bucket));
    PSR_TRY(psr_plan_find(table->plan, message, says.bucket, says.span, &slice));
    PSR_TRY(psr_decode_floats(message, PSR_ENCODING_FLOAT32, says.span.count, &values));
    part *p = &table->parts[says.bucket];
    if (!p->active || !p->gets)
        return take_first_values(table, message, slice, &says);
    if (!table->wanted[slice] || says.section != p->section || says.step != p->answer)
        return psr_violation(message,
                             "section %" PRIu32 " after %" PRIu64 " steps of it was asked for",
                             p->section, p->answer);
    return take_section(p, slice, &says, values);
}

static psr_err take_ack(psr_table *table, const psr_message *message)
{
    uint64_t received;
    PSR_TRY(psr_msg_ack_read(message, &received));
    PSR_TRY(check_credit(table, message, received));
    return take_credit(table, home_of(table, message), received);
}

static psr_err take(psr_table *table, psr_message **message)
{
    if ((*message)->from.role != psr_plan_home_role(table->route) ||
        home_of(table, *message) >= psr_plan_homes(table->plan, table->route))
        return psr_violation(*message, "that is %s's to send",
                             table->route == PSR_ROUTE_HOST ? "a worker" : "a shard");
    switch ((*message)->head.type) {
    case PSR_MSG_WEIGHTS:
        return take_weights(table, message);
    case PSR_MSG_INIT:
        return take_init(table, *message);
    case PSR_MSG_ACK:
        return take_ack(table, *message);
    default:
        return psr_violation(*message, "that is not for a worker");
    }
}

psr_err psr_table_message(psr_table *table, psr_message **message)
{
    psr_err err = take(table, message);
    psr_message_free(message);
    return err;
}

/* ---- what a part begins ---- */

static float *residual_of(const part *p)
{
    return psr_compression_has_residual(p->cut->compression)
               ? p->table->options.residual + p->cut->span.offset
               : NULL;
}

static psr_err push_part(part *p, uint64_t round, const psr_buffer *buffer, bool pulls)
{
    psr_table *table = p->table;
    assert(!p->active && p->cut->route == table->route && buffer->count == p->cut->span.count);
    const float *pushed = psr_buffer_data(buffer, PSR_TYPE_FLOAT32);
    if (p->encoder != NULL)
        PSR_TRY(psr_encoder_prepare(p->encoder, pushed, residual_of(p), p->cut->span.count));
    else
        psr_loan_begin(&p->loan, p->cut->slice_count);
    p->pushed = pushed;
    p->round = round;
    p->active = true;
    p->pulls = pulls;
    p->answer = round + 1;
    p->sent = 0;
    p->missing = p->cut->slice_count;
    for (uint32_t i = 0; i < p->cut->slice_count; i++) {
        table->landed[p->cut->first_slice + i] = round;
        table->wanted[p->cut->first_slice + i] = pulls || is_bsp(table);
    }
    wait_to_push(p);
    return push_what_may_go(table, p->cut->home);
}

psr_err psr_table_start(psr_table *table, uint32_t index, uint64_t round, const psr_buffer *buffer)
{
    return push_part(&table->parts[index], round, buffer, !is_bsp(table));
}

psr_err psr_table_push(psr_table *table, uint32_t index, uint64_t round, const psr_buffer *buffer)
{
    assert(!is_bsp(table));
    return push_part(&table->parts[index], round, buffer, false);
}

psr_err psr_table_pull(psr_table *table, uint32_t index, uint64_t next)
{
    part *p = &table->parts[index];
    assert(!is_bsp(table) && !p->active && p->cut->route == table->route);
    p->active = p->pulls = true;
    p->answer = next;
    p->sent = p->missing = p->cut->slice_count;
    for (uint32_t i = 0; i < p->cut->slice_count; i++) {
        table->wanted[p->cut->first_slice + i] = true;
        PSR_TRY(pull_slice(p, &table->plan->slices[p->cut->first_slice + i]));
    }
    return PSR_OK;
}

static part *begin(psr_table *table, uint32_t index, uint64_t next)
{
    part *p = &table->parts[index];
    assert(!p->active && p->cut->route == table->route);
    p->active = true;
    p->answer = next;
    return p;
}

/* The first count slices of it. */
static psr_err get_slices(part *p, uint32_t section, uint32_t count, float *to)
{
    p->gets = true;
    p->section = section;
    p->to = to;
    p->sent = p->cut->slice_count;
    p->missing = count;
    for (uint32_t i = 0; i < count; i++) {
        p->table->wanted[p->cut->first_slice + i] = true;
        PSR_TRY(ask_for_slice(p, &p->table->plan->slices[p->cut->first_slice + i]));
    }
    return PSR_OK;
}

psr_err psr_table_get(psr_table *table, uint32_t index, uint64_t next, uint32_t section,
                      float *ret_values)
{
    part *p = begin(table, index, next);
    return get_slices(p, section, p->cut->slice_count, ret_values);
}

/* In BSP the shard has taken what it has answered. Else it takes a worker's messages in their
 * order: it has the pushes when it answers what comes behind them. */
psr_err psr_table_settle(psr_table *table, uint32_t index, uint64_t next)
{
    if (is_bsp(table))
        return PSR_OK;
    return get_slices(begin(table, index, next), 0, 1, NULL);
}

psr_err psr_table_put(psr_table *table, uint32_t index, uint64_t next, uint32_t section,
                      const float *values)
{
    part *p = begin(table, index, next);
    p->puts = true;
    p->section = section;
    p->pushed = values;
    p->sent = 0;
    table->puts++;
    psr_loan_begin(&p->loan, p->cut->slice_count);
    wait_to_push(p);
    return push_what_may_go(table, p->cut->home);
}

bool psr_table_pushed(const psr_table *table, uint32_t index)
{
    return table->parts[index].sent == table->parts[index].cut->slice_count;
}

void psr_table_abandon(psr_table *table)
{
    for (uint32_t b = 0; b < table->plan->bucket_count; b++) {
        part *p = &table->parts[b];
        if (p->active && (p->encoder == NULL || p->puts) && p->sent < p->cut->slice_count)
            psr_loan_forgo(&p->loan, p->cut->slice_count - p->sent);
        p->sent = p->cut->slice_count;
        p->to = NULL;
    }
}

/* ---- what it tells ---- */

bool psr_table_done(const psr_table *table, uint32_t index)
{
    return !table->parts[index].active;
}

uint32_t psr_table_lent(const psr_table *table, uint32_t index)
{
    return psr_loan_lent(&table->parts[index].loan);
}

bool psr_table_waits(const psr_table *table, psr_waiting *ret_waiting, uint32_t *ret_part)
{
    const part *oldest = NULL, *lent = NULL;
    for (uint32_t b = table->plan->bucket_count; b-- > 0;) {
        const part *p = &table->parts[b];
        if (p->active && (oldest == NULL || p->round < oldest->round))
            oldest = p;
        if (lent == NULL && psr_loan_lent(&p->loan) > 0)
            lent = p;
    }
    const part *waits = oldest != NULL ? oldest : lent;
    if (waits == NULL)
        return false;
    *ret_part = waits->index;
    *ret_waiting = (psr_waiting){psr_plan_home(table->plan, waits->index), waits->round};
    return true;
}

/* ---- beginning and end ---- */

/* Each lane has room for all parts of its shard, since a part waits in it at most once. */
static void share_room(psr_table *table)
{
    const psr_plan *plan = table->plan;
    uint32_t *room = table->room;
    for (uint32_t s = 0; s < psr_plan_homes(plan, table->route); s++) {
        psr_lane_init(&table->lanes[s], room, plan->window);
        for (uint32_t b = 0; b < plan->bucket_count; b++)
            room += plan->buckets[b].route == table->route && plan->buckets[b].home == s;
    }
}

static psr_err make_encoders(psr_table *table)
{
    assert(!psr_plan_has_residual(table->plan) || table->options.residual != NULL);
    for (uint32_t b = 0; b < table->plan->bucket_count; b++) {
        part *p = &table->parts[b];
        if (p->cut->route == table->route && !psr_compression_is_none(p->cut->compression))
            PSR_TRY(psr_encoder_new(p->cut->compression, p->cut->span.count, &p->encoder));
        table->encodes = table->encodes || p->encoder != NULL;
    }
    return PSR_OK;
}

psr_err psr_table_new(const psr_table_options *options, psr_table **ret_table)
{
    const psr_plan *plan = options->plan;
    const psr_route route = options->by_host ? PSR_ROUTE_HOST : PSR_ROUTE_SHARD;
    const size_t homes = psr_plan_homes(plan, route);
    psr_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a table");
    *table = (psr_table){
        .options = *options,
        .plan = plan,
        .route = route,
        .parts = calloc((size_t)plan->bucket_count + 1, sizeof *table->parts),
        .landed = calloc((size_t)plan->slice_count + 1, sizeof *table->landed),
        .wanted = calloc((size_t)plan->slice_count + 1, sizeof *table->wanted),
        .lanes = calloc(homes + 1, sizeof *table->lanes),
        .taken = calloc(homes + 1, sizeof *table->taken),
        .room = calloc((size_t)plan->bucket_count + 1, sizeof *table->room),
    };
    if (table->parts == NULL || table->landed == NULL || table->wanted == NULL ||
        table->lanes == NULL || table->taken == NULL || table->room == NULL) {
        psr_table_free(table);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " slices", plan->slice_count);
    }
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        table->parts[b].table = table;
        table->parts[b].index = b;
        table->parts[b].cut = &plan->buckets[b];
        psr_loan_init(&table->parts[b].loan,
                      options->lender != NULL ? options->lender : &options->outbox);
    }
    share_room(table);
    psr_err err = make_encoders(table);
    if (err == PSR_OK && psr_plan_pulls_differences(plan) && !is_bsp(table))
        err = psr_fail(PSR_ERR_USAGE, "values come back as %s in BSP alone",
                       psr_encoding_name(plan->pulled.encoding));
    if (err == PSR_OK && options->in_place && is_bsp(table) &&
        psr_compression_is_none(plan->pulled))
        err = psr_landing_new(options->values, psr_plan_length(plan), plan->slice_count,
                              &table->landing);
    if (err != PSR_OK) {
        psr_table_free(table);
        return err;
    }
    *ret_table = table;
    return PSR_OK;
}

void psr_table_free(psr_table *table)
{
    if (table == NULL)
        return;
    for (uint32_t b = 0; table->parts != NULL && b < table->plan->bucket_count; b++)
        psr_encoder_free(&table->parts[b].encoder);
    psr_landing_free(table->landing);
    free(table->room);
    free(table->taken);
    free(table->lanes);
    free(table->wanted);
    free(table->landed);
    free(table->parts);
    free(table);
}
