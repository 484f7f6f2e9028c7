/* Members and a scheduler that may send a worker anything while it takes steps and views follow
 * each other: its session and its exchange as they are (gate of epochs, hand-over, binding, the
 * engines ps, ring and direct, operations of all workers), on a transport and a member that are
 * played here. Each record of the input is one message, near what would be due but for some of its
 * numbers, or a loan that comes back. The compute thread is the target's own: where it waits it
 * takes the next record, and so it does before it goes on where the record says so.
 *
 * The worker refuses with PROTOCOL (NUMERIC: a sum is not finite). It writes to existing members
 * and blames no other. The weights of a bucket land only when its gradient was reported, and stay
 * as they are while the compute thread may read them. Padding stays zero. The first bytes say what
 * the run is like. */
#include "tests/fuzz/records.h"
#include "tests/unit/ring_values.h"

#include "base/log.h"
#include "comm/collectives/call.h"
#include "comm/wire/messages.h"
#include "ps/parts.h"
#include "worker/exchange/exchange_private.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, SHARDS = 2, STEPS = 6, TENSORS = 3, FLOATS = 20, LOANS_MAX = 32, FIRST = 3 };
/* The first bytes. */
enum { MODE = 1, ME = 6, ONE_HOST = 8, TWO_HOSTS = 16, IN_PLACE = 32, BEGINS = 64, LENDS = 128 };
enum { OPTIMIZER = 3, COMPRESS = 28, SYNC = 96, SAVES = 128 };
enum { KEEPS = 1 /* loans, until a record gives one back */, PULLS = 6 };
/* What it is; who says it; its epoch behind the present one; its step behind the present one; of
 * which slice; which of its kind; how many values more; of which byte. */
enum { WHAT, WHO, EPOCH, STEP, PLACE, WHICH, COUNT, BYTE, TWIST };
enum { RECORD = TWIST + RECORDS_TWIST_BYTES, BEFORE_IT_WAITS = 128 /* of WHAT */ };
enum { ORDINARY = 208 /* of a byte below it: what is due */ };

RECORDS_MUTATOR(FIRST, RECORD);

typedef struct played {
    psr_config config;
    psr_layout layout;
    psr_buckets buckets;
    psr_view first;
    psr_session *session;
    psr_exchange *exchange;
    uint32_t me;
    bool lends, saves, keeps;
    const uint8_t *records;
    size_t left; /* bytes of records */
    psr_message *inbox;
    bool woken, changed;
    uint32_t epoch; /* of the last VIEW */
    psr_payload loans[LOANS_MAX];
    uint32_t loan_count;
    uint64_t pushes[PSR_ROLE_WORKER + 1][WORKERS]; /* that it sent there */
    uint64_t reported[TENSORS + 1];                /* steps of a bucket's gradient */
    bool reading[TENSORS + 1]; /* the compute thread may read the bucket's weights */
    float *seen;               /* the weights that it reads */
} played;

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* ---- the transport (net/transport.h) and the member (comm/members/member.h) ---- */

static bool there_is(const played *p, psr_peer peer)
{
    switch (peer.role) {
    case PSR_ROLE_SCHEDULER:
        return peer.rank == 0;
    case PSR_ROLE_SHARD:
        return peer.rank < SHARDS;
    case PSR_ROLE_WORKER:
        return peer.rank < WORKERS && peer.rank != p->me;
    }
    return false;
}

/* What is lent can be read until it comes back. */
static void read_payload(const psr_payload *payload)
{
    const volatile uint8_t *bytes = payload->data;
    for (size_t i = 0; i < payload->bytes; i++)
        (void)bytes[i];
}

static void give_back_one(played *p)
{
    if (p->loan_count == 0)
        return;
    const psr_payload loan = p->loans[0];
    memmove(p->loans, p->loans + 1, --p->loan_count * sizeof loan);
    read_payload(&loan);
    loan.release(loan.context);
}

psr_err psr_transport_send(psr_transport *transport, psr_peer to, const psr_head *head,
                           const psr_payload *payload)
{
    played *p = (played *)transport;
    must(there_is(p, to));
    if (head->type == PSR_MSG_PUSH)
        p->pushes[to.role][to.rank]++;
    if (payload == NULL)
        return PSR_OK;
    read_payload(payload);
    if (payload->release == NULL)
        return PSR_OK;
    if (p->loan_count == LOANS_MAX)
        give_back_one(p);
    p->loans[p->loan_count++] = *payload;
    if (!p->keeps)
        give_back_one(p);
    return PSR_OK;
}

psr_err psr_transport_recv(psr_transport *transport, int timeout_ms, psr_message **ret_message)
{
    played *p = (played *)transport;
    (void)timeout_ms;
    if (p->inbox != NULL) {
        *ret_message = p->inbox;
        p->inbox = NULL;
        return PSR_OK;
    }
    const bool woken = p->woken;
    p->woken = false;
    return woken ? PSR_ERR_CANCELLED : PSR_ERR_TIMEOUT;
}

void psr_transport_wake(psr_transport *transport)
{
    ((played *)transport)->woken = true;
}

bool psr_transport_lends_to(const psr_transport *transport, psr_peer peer)
{
    return ((const played *)transport)->lends && peer.role != PSR_ROLE_SCHEDULER;
}

size_t psr_transport_waiting(const psr_transport *transport, psr_peer peer)
{
    (void)transport, (void)peer;
    return 0;
}

void psr_transport_counts_get(const psr_transport *transport, psr_transport_counts *ret_counts)
{
    (void)transport;
    *ret_counts = (psr_transport_counts){0};
}

void psr_transport_watch(psr_transport *transport, const psr_transport_watcher *watcher)
{
    (void)transport, (void)watcher;
}

void psr_transport_give_back(psr_transport *transport)
{
    (void)transport;
}

void psr_transport_wait(psr_transport *transport, int timeout_ms)
{
    (void)transport, (void)timeout_ms;
    abort(); /* the loop is driven step by step */
}

bool psr_transport_look(psr_transport *transport)
{
    (void)transport;
    abort(); /* the same */
}

psr_err psr_member_message(psr_member *member, psr_message **message, int64_t now_ms)
{
    (void)member, (void)message, (void)now_ms;
    return PSR_OK;
}

psr_message *psr_member_early(psr_member *member)
{
    (void)member;
    return NULL;
}

psr_err psr_member_tick(psr_member *member, int64_t now_ms, int64_t *ret_next_ms)
{
    (void)member, (void)now_ms;
    *ret_next_ms = INT64_MAX;
    return PSR_OK;
}

psr_err psr_member_tell(psr_member *member, const psr_head *head, const void *payload, size_t bytes)
{
    (void)member, (void)head, (void)payload, (void)bytes;
    return PSR_OK;
}

void psr_member_failed(psr_member *member, psr_err status, const char *line)
{
    (void)member, (void)status, (void)line;
}

/* ---- what it is told of its buckets ---- */

static bool is_ordinary(uint8_t byte)
{
    return byte < ORDINARY;
}

static const psr_plan *plan_of(const played *p)
{
    return p->exchange->plan;
}

/* The sender: the one that is due, or anybody. */
static psr_peer sender(const uint8_t *record, psr_peer due)
{
    if (is_ordinary(record[WHO]))
        return due;
    return (psr_peer){(record[WHO] & 4) != 0 ? PSR_ROLE_SHARD : PSR_ROLE_WORKER, record[WHO] & 3};
}

static psr_slice slice_of(const played *p, const uint8_t *record)
{
    return plan_of(p)->slices[record[PLACE] % plan_of(p)->slice_count];
}

/* Who holds the bucket of a slice for this worker. */
static psr_peer holder_of(const played *p, uint32_t bucket)
{
    const psr_plan *plan = plan_of(p);
    if (plan->buckets[bucket].route != PSR_ROUTE_HOST)
        return psr_plan_home(plan, bucket);
    return (psr_peer){PSR_ROLE_WORKER,
                      psr_plan_holder(plan, bucket, psr_plan_host_of(plan, p->me))};
}

/* Of what is due now, or near it. */
static uint64_t near(uint64_t due, const uint8_t *record)
{
    return is_ordinary(record[STEP]) ? due : due + (record[STEP] & 7) - 3;
}

/* The step whose weights the bucket gets next. */
static uint64_t step_of(const played *p, uint32_t bucket, const uint8_t *record)
{
    return near(atomic_load(&p->exchange->landed[bucket]), record);
}

static psr_message *with_epoch(const played *p, const uint8_t *record, psr_peer from, psr_head head,
                               psr_payload payload)
{
    const uint32_t now = psr_epoch_gate_epoch(p->exchange->gate);
    const uint32_t epoch = is_ordinary(record[EPOCH]) ? now
                           : (record[EPOCH] & 8) != 0 ? p->epoch
                                                      : now - 1;
    head = psr_msg_in_epoch(head, epoch);
    records_twist(&head, record + TWIST, 3);
    return records_message(from, head, payload.bytes, payload.data, payload.bytes + 1);
}

static size_t more_values(const uint8_t *record)
{
    return is_ordinary(record[COUNT]) ? 0 : (size_t)(record[COUNT] & 7) - 3;
}

/* Values of a slice: as many as it has, in its encoding; or more, fewer, and any bytes. */
static psr_message *with_values(const played *p, const uint8_t *record, psr_peer from,
                                psr_head head, psr_compression compression, size_t count)
{
    float values[256];
    uint8_t encoded[1024 + 64] = {0};
    count += more_values(record);
    count = count > FLOATS * TENSORS * 2 ? 0 : count;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((int)i - record[BYTE]) / 16;
    if (!is_ordinary(record[BYTE]))
        memset(values, record[BYTE], sizeof values); /* 255: not a number */
    psr_payload payload = {.data = values, .bytes = count * sizeof *values};
    head.encoding = head.type == PSR_MSG_VALUES ? PSR_ENCODING_BYTES : PSR_ENCODING_FLOAT32;
    psr_encoder *encoder = NULL;
    if (!psr_compression_is_none(compression) && count > 0) {
        must(psr_encoder_new(compression, count, &encoder) == PSR_OK);
        float residual[256] = {0};
        if (psr_encoder_prepare(encoder, values,
                                psr_compression_has_residual(compression) ? residual : NULL,
                                count) == PSR_OK)
            payload = psr_encode_slice(encoder, &head, (psr_span){0, count}, encoded);
        psr_encoder_free(&encoder);
        if ((record[BYTE] & 0xf0) == 0xd0)
            encoded[record[BYTE] & 15] ^= 0x80;
    }
    return with_epoch(p, record, from, head, payload);
}

static psr_message *tell_weights(const played *p, const uint8_t *record)
{
    const psr_slice slice = slice_of(p, record);
    const psr_peer from = sender(record, holder_of(p, slice.bucket));
    const bool bsp = p->config.sync == PSR_SYNC_BSP;
    const psr_msg_weights says = {.bucket = slice.bucket,
                                  .step = step_of(p, slice.bucket, record) + (bsp ? 0 : 1),
                                  .span = slice.span,
                                  .staleness = record[WHICH] & 3,
                                  .received =
                                      from.rank < WORKERS ? p->pushes[from.role][from.rank] : 0};
    return with_values(p, record, from, psr_msg_weights_head(&says), plan_of(p)->pulled,
                       slice.span.count);
}

static psr_message *tell_init(const played *p, const uint8_t *record)
{
    const psr_slice slice = slice_of(p, record);
    const psr_msg_init says = {.bucket = slice.bucket,
                               .step = step_of(p, slice.bucket, record),
                               .span = slice.span,
                               .section = record[WHICH] & 1};
    return with_values(p, record, sender(record, holder_of(p, slice.bucket)),
                       psr_msg_init_head(&says), PSR_COMPRESSION_NONE, slice.span.count);
}

static psr_message *tell_ack(const played *p, const uint8_t *record)
{
    const psr_peer from = sender(record, holder_of(p, slice_of(p, record).bucket));
    const uint64_t pushes = from.rank < WORKERS ? p->pushes[from.role][from.rank] : 0;
    return with_epoch(p, record, from, psr_msg_ack_head(pushes), (psr_payload){.data = ""});
}

static psr_message *tell_push(const played *p, const uint8_t *record)
{
    const psr_slice slice = slice_of(p, record);
    const psr_msg_push says = {.bucket = slice.bucket,
                               .step = step_of(p, slice.bucket, record),
                               .span = slice.span,
                               .answer = (record[WHICH] & 7) != 7};
    const uint32_t other = (p->me + 1 + record[WHICH] % (WORKERS - 1)) % WORKERS;
    return with_values(p, record, sender(record, (psr_peer){PSR_ROLE_WORKER, other}),
                       psr_msg_push_head(&says), PSR_COMPRESSION_NONE, slice.span.count);
}

/* Of a ring: the slice that comes from the left at that hop. Between hosts: any. */
static psr_message *tell_ring(const played *p, const uint8_t *record)
{
    const psr_plan *plan = plan_of(p);
    const psr_ring_phase phase = (psr_ring_phase)(record[WHICH] & 1);
    const uint32_t hop = record[WHICH] >> 1 & 1, left = (p->me + WORKERS - 1) % WORKERS;
    psr_slice slice = slice_of(p, record);
    psr_peer from = {PSR_ROLE_WORKER, left};
    const psr_plan_bucket *bucket = &plan->buckets[slice.bucket];
    if (bucket->route == PSR_ROUTE_HOST) {
        const uint32_t host = psr_plan_host_of(plan, p->me);
        from.rank =
            psr_plan_holder(plan, slice.bucket, (host + plan->hosts.count - 1) % plan->hosts.count);
    } else if (bucket->route == PSR_ROUTE_RING) {
        const uint32_t chunk = (left + 2 * WORKERS - hop - (phase == PSR_RING_REDUCE)) % WORKERS;
        slice.chunk = chunk;
        slice.span = psr_plan_chunk(plan, slice.bucket, chunk);
    }
    const psr_msg_ring says = {.bucket = slice.bucket,
                               .step = step_of(p, slice.bucket, record),
                               .span = slice.span,
                               .phase = phase,
                               .chunk = slice.chunk,
                               .hop = hop};
    const ring_slice of_bucket = {says.bucket, says.step,  says.span,
                                  says.phase,  says.chunk, says.hop};
    return with_values(p, record, sender(record, from),
                       bucket->route == PSR_ROUTE_RING ? ring_head_of(plan, left, of_bucket)
                                                       : psr_msg_ring_head(&says),
                       bucket->compression, slice.span.count);
}

/* A run that is handed to this worker, or some other one. */
static psr_message *tell_state(const played *p, const uint8_t *record)
{
    const psr_slice slice = slice_of(p, record);
    psr_msg_state says = {near(p->exchange->step.step, record), slice.span, record[WHICH] & 3};
    psr_peer from = {PSR_ROLE_WORKER, (p->me + 1) % WORKERS};
    const psr_handover *handover = &p->exchange->handover;
    uint32_t due = 0;
    for (uint32_t i = 0; i < handover->count && is_ordinary(record[WHICH]); i++) {
        const psr_handover_run *run = &handover->runs[i];
        if (!psr_peer_equal(run->to, (psr_peer){PSR_ROLE_WORKER, p->me}) ||
            run->arrived == run->span.count || due++ > record[PLACE] % 4)
            continue;
        says.span = run->span;
        says.array = run->array;
        from = run->from;
    }
    const size_t count = says.span.count;
    if ((record[COUNT] & 8) != 0) /* the head says how many there are */
        says.span.count += more_values(record);
    return with_values(p, record, sender(record, from), psr_msg_state_head(&says),
                       PSR_COMPRESSION_NONE, count);
}

/* ---- what it is told of operations of all workers ---- */

static psr_message *tell_of_operation(const played *p, const uint8_t *record)
{
    const psr_request_options *o = &p->exchange->called;
    const psr_msg_call call = psr_call_message(&(psr_call){.kind = o->kind,
                                                           .algorithm = o->algorithm,
                                                           .type = o->type,
                                                           .reduction = o->reduction,
                                                           .count = o->count});
    const uint64_t round = p->exchange->operations_begun + (record[STEP] < ORDINARY ? 0 : 1);
    const psr_tag tag = {.round = round};
    const size_t bytes = o->count * psr_type_bytes(o->type), whole = FLOATS * sizeof(float);
    const size_t begin = (record[COUNT] & 7) * whole;
    size_t due = begin < bytes ? bytes - begin : 0;
    due = due < whole ? due : whole;
    const uint32_t other = p->me == 0 ? 1 + record[PLACE] % (WORKERS - 1) : 0;
    psr_head head;
    if (record[WHICH] < 192)
        head = psr_msg_values_head(&(psr_msg_values){
            .tag = tag, .call = call, .total = o->count, .slice = record[COUNT] & 7});
    else if (record[WHICH] < 224)
        head = psr_msg_credit_head(&(psr_msg_credit){tag, call, record[COUNT], 0});
    else
        head = psr_msg_ahead_head(&(psr_msg_ahead){.operations = record[COUNT]});
    records_twist(&head, record + TWIST, 3);
    const size_t size = is_ordinary(record[EPOCH]) ? due : record[EPOCH];
    return records_message(sender(record, (psr_peer){PSR_ROLE_WORKER, other}), head,
                           record[WHICH] < 192 ? size : 0, &record[BYTE], 1);
}

/* ---- what the scheduler says ---- */

static const psr_host_ranks one_host = {1, (uint32_t[]){0, WORKERS}},
                            two_hosts = {2, (uint32_t[]){0, 2, WORKERS}};

/* Modes follow one another only where --mode allows it. */
static void plan_view(const played *p, uint8_t which, psr_plan *ret_plan)
{
    psr_config config = p->config;
    const bool may_change = config.sync == PSR_SYNC_BSP && strcmp(config.compress, "none") == 0 &&
                            strcmp(config.compress_weights, "none") == 0;
    const psr_mode mode = may_change && (which & 1) != 0 ? PSR_MODE_RING : PSR_MODE_PS;
    if (may_change && (which & 6) == 6)
        strcpy(config.route, "a=ps,b=ring");
    must(psr_parts_plan(&config, may_change ? mode : config.mode, &p->layout, &p->buckets,
                        (which & 8) != 0    ? &one_host
                        : (which & 16) != 0 ? &two_hosts
                                            : NULL,
                        ret_plan) == PSR_OK);
}

static void members_of_view(psr_view *view)
{
    view->member_count = WORKERS + SHARDS;
    view->members = calloc(view->member_count, sizeof *view->members);
    must(view->members != NULL);
    for (uint32_t i = 0; i < view->member_count; i++)
        view->members[i] = (psr_view_member){
            .peer = {i < WORKERS ? PSR_ROLE_WORKER : PSR_ROLE_SHARD, i < WORKERS ? i : i - WORKERS},
            .host = "h",
            .endpoint = "e"};
}

static psr_message *tell_view(played *p, const uint8_t *record)
{
    psr_view view = {.epoch = p->epoch + (is_ordinary(record[EPOCH]) ? 1u : record[EPOCH] & 3u),
                     .first_step = near(p->session->begun, record) + 1};
    if ((record[WHO] & 7) == 7)
        view.next_step = view.first_step + 1;
    char *json = NULL;
    plan_view(p, record[WHICH], &view.plan);
    members_of_view(&view);
    must(psr_view_to_json(&view, &json) == PSR_OK);
    const size_t size = strlen(json);
    if (!is_ordinary(record[COUNT])) /* a letter of it is another one */
        json[((size_t)record[COUNT] << 8 | record[PLACE]) % size] = (char)record[BYTE];
    psr_head head = psr_msg_view_head(&(psr_msg_view){view.epoch, view.first_step});
    records_twist(&head, record + TWIST, p->epoch);
    psr_message *message =
        records_message((psr_peer){PSR_ROLE_SCHEDULER, 0}, head, size, json, size);
    p->epoch = p->epoch < view.epoch ? view.epoch : p->epoch;
    psr_view_done(&view);
    free(json);
    return message;
}

static psr_message *tell_order(const played *p, const uint8_t *record)
{
    psr_head head;
    switch (record[WHICH] & 7) {
    case 0:
    case 1:
        head = (psr_head){.type = PSR_MSG_START};
        break;
    case 2:
        head = psr_msg_hold_head((record[PLACE] & 1) != 0);
        break;
    case 3:
        head = psr_msg_stop_at_head(near(p->exchange->step.step, record));
        break;
    case 4:
    case 5:
        head = psr_msg_saved_head(near(p->exchange->step.step, record) + 1);
        break;
    case 6:
        head = psr_msg_restore_head(&(psr_msg_piece){0, record[PLACE], {0, 1}});
        break;
    default:
        head = (psr_head){.type = PSR_MSG_BYE};
    }
    records_twist(&head, record + TWIST, STEPS);
    return records_message((psr_peer){PSR_ROLE_SCHEDULER, 0}, head, 0, "", 1);
}

static psr_message *tell_anything(const uint8_t *record)
{
    const psr_head head =
        records_head((psr_message_type)(record[WHICH] % 64),
                     (const uint8_t[RECORDS_HEAD_BYTES]){record[EPOCH], record[STEP], record[PLACE],
                                                         record[COUNT], record[BYTE]},
                     3);
    return records_message((psr_peer){(psr_role)(record[WHO] % 3), record[WHO] >> 6}, head, 0, "",
                           1);
}

static psr_message *make(played *p, const uint8_t *record)
{
    switch (record[WHAT] & 15) {
    case 0:
    case 1:
        return tell_weights(p, record);
    case 2:
        return tell_init(p, record);
    case 3:
        return tell_ack(p, record);
    case 4:
    case 5:
        return tell_push(p, record);
    case 6:
    case 7:
        return tell_ring(p, record);
    case 8:
    case 9:
        return tell_state(p, record);
    case 10:
        return tell_of_operation(p, record);
    case 11:
        return tell_view(p, record);
    case 12:
        return tell_order(p, record);
    case 13:
        return tell_anything(record);
    default: /* a loan comes back */
        give_back_one(p);
        return NULL;
    }
}

/* ---- what must hold ---- */

static void check_report(const played *p)
{
    psr_msg_progress told = {0};
    psr_session_report(p->session, &told);
    must(!told.waits || told.waits_for.role != PSR_ROLE_WORKER || told.waits_for.rank < WORKERS);
    must(!told.waits || told.waits_for.role != PSR_ROLE_SHARD || told.waits_for.rank < SHARDS);
    must(told.bucket < p->buckets.count);
}

static void check_values(const played *p)
{
    const psr_handover *handover = &p->exchange->handover;
    for (uint32_t i = 0; i < handover->count; i++)
        must(handover->runs[i].arrived <= handover->runs[i].span.count);
    const float *weights = psr_exchange_weights(p->exchange);
    for (uint32_t b = 0; b < p->buckets.count; b++) {
        const psr_bucket *range = &p->buckets.items[b];
        must(atomic_load(&p->exchange->landed[b]) <= p->reported[b]);
        must(!p->reading[b] || memcmp(weights + range->offset, p->seen + range->offset,
                                      range->length * sizeof *weights) == 0);
    }
}

/* An end that some message may bring about. */
static void check_end(psr_err err)
{
    must(err == PSR_OK || err == PSR_ERR_PROTOCOL || err == PSR_ERR_NUMERIC ||
         err == PSR_ERR_CANCELLED || err == PSR_ERR_FORMAT || err == PSR_ERR_UNSUPPORTED);
}

/* ---- the exchange thread's turn ---- */

static void step(played *p)
{
    int64_t next_ms;
    psr_err err = psr_session_step(p->session, 0, &next_ms);
    check_end(err);
    if (err != PSR_OK)
        psr_session_break(p->session, err, psr_err_detail());
}

static void take_record(played *p)
{
    step(p);
    p->inbox = make(p, p->records);
    p->records += RECORD;
    p->left -= RECORD;
    step(p);
    psr_message_free(&p->inbox); /* the loop had failed before */
    check_report(p);
    check_values(p);
}

/* What was handed over may be all that the compute thread waits for. */
static void pause_until_changed(void *context)
{
    played *p = context;
    p->changed = false;
    step(p);
    if (p->changed)
        return;
    if (p->left >= RECORD)
        take_record(p);
    else
        psr_session_break(p->session, PSR_ERR_CANCELLED, "the input ends");
}

static void go_on(void *context)
{
    ((played *)context)->changed = true;
}

static void pass_time(void *context, double seconds)
{
    (void)context, (void)seconds;
}

static int64_t now_ns(void *context)
{
    (void)context;
    return 0;
}

/* What comes before the compute thread goes on. */
static void before(played *p)
{
    while (p->left >= RECORD && (p->records[WHAT] & BEFORE_IT_WAITS) != 0)
        take_record(p);
}

/* ---- the compute thread ---- */

static psr_err read_weights(played *p)
{
    for (uint32_t b = p->buckets.count; b-- > 0;) {
        const psr_bucket *range = &p->buckets.items[b];
        PSR_TRY(psr_exchange_weights_wanted(p->exchange, b));
        memcpy(p->seen + range->offset, psr_exchange_weights(p->exchange) + range->offset,
               range->length * sizeof *p->seen);
        p->reading[b] = true;
        float *gradients = psr_exchange_gradients(p->exchange);
        for (size_t i = range->offset; i < range->offset + range->length; i++)
            gradients[i] = (float)i / 64;
        before(p);
    }
    return PSR_OK;
}

static psr_err give_gradients(played *p)
{
    for (uint32_t b = 0; b < p->buckets.count; b++) {
        p->reading[b] = false;
        p->reported[b]++;
        PSR_TRY(psr_exchange_gradient_ready(p->exchange, b, NULL));
        before(p);
    }
    return PSR_OK;
}

static psr_err take_steps(played *p)
{
    for (uint64_t s = 0; s < STEPS; s++) {
        psr_exchange_figures figures;
        PSR_TRY(psr_exchange_begin_step(p->exchange, &(psr_step){s, p->me, 1, WORKERS}));
        before(p);
        PSR_TRY(read_weights(p));
        PSR_TRY(give_gradients(p));
        PSR_TRY(psr_exchange_end_step(p->exchange));
        psr_exchange_take_figures(p->exchange, &figures);
        before(p);
        if (p->saves && s % 2 == 1) {
            PSR_TRY(psr_exchange_drain(p->exchange));
            PSR_TRY(psr_session_await_saved(p->session, s + 1));
        }
    }
    return PSR_OK;
}

static psr_err train(played *p, bool begins)
{
    if (begins) {
        PSR_TRY(psr_exchange_install(p->exchange, 0, psr_exchange_first_weights(p->exchange)));
        PSR_TRY(psr_session_ready(p->session, NULL));
    }
    PSR_TRY(take_steps(p));
    double row[2] = {1, 1};
    PSR_TRY(psr_exchange_drain_all(p->exchange));
    PSR_TRY(psr_exchange_average(p->exchange, row, 2));
    return psr_session_done(p->session, STEPS, false, NULL);
}

/* ---- the run ---- */

static void configure(played *p, const uint8_t *how)
{
    static const char *const compressions[] = {"none", "none", "none",      "none",
                                               "fp16", "int8", "topk:0.25", "1bit"};
    static const char *const pulled[] = {"none", "int8", "topk:0.25", "1bit"};
    const char *const names[TENSORS] = {"a", "b", "c"};
    const uint32_t compress = (how[1] & COMPRESS) >> 2, sync = (how[1] & SYNC) >> 5;
    psr_config *config = &p->config;
    psr_config_defaults(config);
    config->mode = (how[0] & MODE) != 0 ? PSR_MODE_RING : PSR_MODE_PS;
    config->workers = WORKERS;
    config->shards = SHARDS;
    config->slice_bytes = FLOATS * sizeof(float);
    config->momentum = (how[1] & OPTIMIZER) != 0 ? 0.5 : 0;
    config->optimizer = (how[1] & OPTIMIZER) == 2   ? PSR_OPTIMIZER_ADAM
                        : (how[1] & OPTIMIZER) == 3 ? PSR_OPTIMIZER_LARS
                                                    : PSR_OPTIMIZER_SGD;
    strcpy(config->compress, compressions[compress]);
    if (config->mode == PSR_MODE_PS && sync > 1) {
        config->sync = sync == 2 ? PSR_SYNC_SSP : PSR_SYNC_ASYNC;
        config->ssp_bound = 1;
    }
    if (config->mode == PSR_MODE_PS && config->sync == PSR_SYNC_BSP)
        strcpy(config->compress_weights, pulled[(how[2] & PULLS) >> 1]);
    if (config->mode == PSR_MODE_PS && compress == 3)
        strcpy(config->compress_weights, "fp16");
    for (size_t i = 0; i < TENSORS; i++) /* padding follows each */
        must(psr_layout_add(&p->layout, names[i], 1, (uint32_t[]){FLOATS}) == PSR_OK);
    must(psr_buckets_plan(&p->layout, 32 * sizeof(float), &p->buckets) == PSR_OK &&
         p->buckets.count <= TENSORS);
    plan_view(p, (uint8_t)(how[0] & (MODE | ONE_HOST | TWO_HOSTS)), &p->first.plan);
    members_of_view(&p->first);
}

static psr_err rebinding(void *context, const psr_plan *plan)
{
    played *p = context;
    must(p->first.plan.bucket_count == plan->bucket_count);
    memset(p->pushes, 0, sizeof p->pushes); /* shards count them in each view */
    return PSR_OK;
}

static void open_run(played *p, const uint8_t *how, const psr_loop_waiter *waiter)
{
    psr_ways ways;
    p->me = ((how[0] & ME) >> 1) % WORKERS;
    p->lends = (how[0] & LENDS) != 0;
    p->saves = (how[1] & SAVES) != 0;
    p->keeps = (how[2] & KEEPS) != 0;
    configure(p, how);
    must(psr_engine_choose(&p->config, &p->first.plan, &ways) == PSR_OK);
    p->seen = calloc(p->layout.length, sizeof *p->seen);
    must(p->seen != NULL);
    const psr_session_options session = {.total_steps = STEPS,
                                         .view = &p->first,
                                         .commands_max = psr_exchange_commands_max(&p->buckets),
                                         .transport = (psr_transport *)p,
                                         .waiter = waiter};
    must(psr_session_new(&session, &p->session) == PSR_OK);
    const psr_exchange_options exchange = {.session = p->session,
                                           .config = &p->config,
                                           .layout = &p->layout,
                                           .buckets = &p->buckets,
                                           .plan = &p->first.plan,
                                           .rank = p->me,
                                           .ways = &ways,
                                           .context = p,
                                           .rebinding = rebinding,
                                           .weights_in_place = (how[0] & IN_PLACE) != 0};
    must(psr_exchange_new(&exchange, &p->exchange) == PSR_OK);
}

static void close_run(played *p)
{
    psr_session_stop(p->session);
    while (p->loan_count > 0)
        give_back_one(p);
    psr_exchange_free(p->exchange);
    psr_session_free(p->session);
    psr_view_done(&p->first);
    psr_buckets_done(&p->buckets);
    psr_layout_done(&p->layout);
    free(p->seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < FIRST)
        return 0;
    played p = {.records = data + FIRST, .left = size - FIRST};
    const psr_loop_waiter waiter = {&p, pause_until_changed, pass_time, go_on, now_ns};
    psr_log_init("fuzz", PSR_LOG_ERROR);
    open_run(&p, data, &waiter);
    check_end(train(&p, (data[0] & BEGINS) != 0));
    check_values(&p);
    close_run(&p);
    return 0;
}
