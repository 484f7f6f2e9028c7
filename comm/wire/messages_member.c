/* Between a member and the scheduler, and the probes of psring doctor. */
#include "comm/wire/messages_private.h"

#include <stdlib.h>

/* ---- against what there is ---- */

static psr_err check_below(const psr_message *message, const char *name, uint64_t value,
                           uint64_t limit)
{
    if (value < limit)
        return PSR_OK;
    return psr_violation(message, "its %s is %" PRIu64 ", and there are %" PRIu64, name, value,
                         limit);
}

/* A process that exists. */
static psr_err check_peer(const psr_message *message, const psr_msg_limits *limits, uint64_t role,
                          uint64_t rank)
{
    const uint32_t counts[] = {[PSR_ROLE_SCHEDULER] = 1,
                               [PSR_ROLE_SHARD] = limits->shards,
                               [PSR_ROLE_WORKER] = limits->workers};
    PSR_TRY(at_most(message, "role", role, PSR_ROLE_WORKER));
    if (rank < counts[role])
        return PSR_OK;
    return psr_violation(message, "there is no %s %" PRIu64, psr_role_name((psr_role)role), rank);
}

/* A worker, or none. */
static psr_err check_rank(const psr_message *message, const psr_msg_limits *limits, uint64_t rank)
{
    return rank == PSR_RANK_ANY ? PSR_OK : check_peer(message, limits, PSR_ROLE_WORKER, rank);
}

static psr_err check_epoch(const psr_message *message, const psr_msg_limits *limits)
{
    return at_most(message, "epoch", message->head.tag.epoch, limits->epoch);
}

static uint64_t within(uint64_t within_ms)
{
    return within_ms < PSR_MSG_WITHIN_MS_MAX ? within_ms : PSR_MSG_WITHIN_MS_MAX;
}

/* ---- probes of psring doctor ---- */

psr_head psr_msg_probe_head(uint64_t number)
{
    return (psr_head){.type = PSR_MSG_PROBE, .fields = {number}};
}

psr_head psr_msg_probed_head(uint64_t number)
{
    return (psr_head){.type = PSR_MSG_PROBED, .fields = {number}};
}

uint64_t psr_msg_probe_number(const psr_message *message)
{
    return message->head.fields[0];
}

/* ---- member and scheduler ---- */

enum {
    PROGRESS_PHASE,
    PROGRESS_COUNTER,
    PROGRESS_WAITS,
    PROGRESS_ROLE,
    PROGRESS_RANK,
    PROGRESS_EVALUATES,
    PROGRESS_COUNTED
};

/* Its tag is that of its present bucket and step. */
psr_head psr_msg_progress_head(const psr_msg_progress *progress)
{
    psr_head head = {.type = PSR_MSG_PROGRESS, .tag = bucket_tag(progress->bucket, progress->step)};
    head.fields[PROGRESS_PHASE] = (uint64_t)progress->phase;
    head.fields[PROGRESS_COUNTER] = progress->counter;
    head.fields[PROGRESS_WAITS] = progress->waits;
    head.fields[PROGRESS_ROLE] = (uint64_t)progress->waits_for.role;
    head.fields[PROGRESS_RANK] = progress->waits_for.rank;
    head.fields[PROGRESS_EVALUATES] = progress->evaluates;
    head.fields[PROGRESS_COUNTED] = progress->counted;
    return head;
}

psr_err psr_msg_progress_read(const psr_message *message, const psr_msg_limits *limits,
                              psr_msg_progress *ret_progress)
{
    const psr_head *head = &message->head;
    uint32_t bucket = 0;
    PSR_TRY(read_bucket(message, &bucket));
    PSR_TRY(field_at_most(message, PROGRESS_PHASE, PSR_PHASE_HAND_OVER));
    PSR_TRY(field_at_most(message, PROGRESS_WAITS, 1));
    if (head->fields[PROGRESS_WAITS] == 1)
        PSR_TRY(
            check_peer(message, limits, head->fields[PROGRESS_ROLE], head->fields[PROGRESS_RANK]));
    PSR_TRY(field_at_most(message, PROGRESS_EVALUATES, 1));
    PSR_TRY(field_at_most(message, PROGRESS_COUNTED, limits->samples));
    PSR_TRY(at_most(message, "wire step", head->tag.round, limits->steps));
    if (bucket > 0)
        PSR_TRY(check_below(message, "bucket", bucket, limits->buckets));
    *ret_progress = (psr_msg_progress){.step = head->tag.round,
                                       .bucket = bucket,
                                       .phase = (psr_phase)head->fields[PROGRESS_PHASE],
                                       .counter = head->fields[PROGRESS_COUNTER],
                                       .waits = head->fields[PROGRESS_WAITS] == 1,
                                       .evaluates = head->fields[PROGRESS_EVALUATES] == 1,
                                       .counted = head->fields[PROGRESS_COUNTED]};
    if (ret_progress->waits)
        ret_progress->waits_for = (psr_peer){(psr_role)head->fields[PROGRESS_ROLE],
                                             (uint32_t)head->fields[PROGRESS_RANK]};
    return PSR_OK;
}

enum { DONE_STEPS, DONE_LEFT_OUT };

psr_head psr_msg_done_head(const psr_msg_done *done)
{
    return (psr_head){.type = PSR_MSG_DONE,
                      .fields = {[DONE_STEPS] = done->steps, [DONE_LEFT_OUT] = done->left_out}};
}

psr_err psr_msg_done_read(const psr_message *message, const psr_msg_limits *limits,
                          psr_msg_done *ret_done)
{
    PSR_TRY(field_at_most(message, DONE_STEPS, limits->steps));
    PSR_TRY(field_at_most(message, DONE_LEFT_OUT, 1));
    *ret_done =
        (psr_msg_done){message->head.fields[DONE_STEPS], message->head.fields[DONE_LEFT_OUT] == 1};
    return PSR_OK;
}

enum { PIECE_STEPS = AFTER_SPAN, PIECE_SECTION };

static psr_head piece_head(psr_message_type type, const psr_msg_piece *piece)
{
    return (psr_head){.type = type,
                      .fields = {[OFFSET] = piece->span.offset,
                                 [COUNT] = piece->span.count,
                                 [PIECE_STEPS] = piece->steps,
                                 [PIECE_SECTION] = piece->section}};
}

psr_head psr_msg_checkpoint_head(const psr_msg_piece *piece)
{
    return piece_head(PSR_MSG_CHECKPOINT, piece);
}

psr_head psr_msg_restore_head(const psr_msg_piece *piece)
{
    return piece_head(PSR_MSG_RESTORE, piece);
}

psr_err psr_msg_piece_read(const psr_message *message, psr_msg_piece *ret_piece)
{
    const psr_head *head = &message->head;
    if (head->fields[COUNT] > SIZE_MAX - head->fields[OFFSET])
        return psr_violation(message, "no section is as long");
    PSR_TRY(field_at_most(message, PIECE_SECTION, UINT32_MAX));
    *ret_piece = (psr_msg_piece){head->fields[PIECE_STEPS], (uint32_t)head->fields[PIECE_SECTION],
                                 span_of(head)};
    return PSR_OK;
}

psr_head psr_msg_alive_head(bool report_wanted)
{
    return (psr_head){.type = PSR_MSG_ALIVE, .fields = {report_wanted}};
}

psr_err psr_msg_alive_read(const psr_message *message, bool *ret_report_wanted)
{
    PSR_TRY(field_at_most(message, 0, 1));
    *ret_report_wanted = message->head.fields[0] == 1;
    return PSR_OK;
}

psr_head psr_msg_held_head(uint64_t step)
{
    return (psr_head){.type = PSR_MSG_HELD, .fields = {step}};
}

psr_err psr_msg_held_read(const psr_message *message, const psr_msg_limits *limits,
                          uint64_t *ret_step)
{
    PSR_TRY(check_below(message, psr_head_field_name(PSR_MSG_HELD, 0), message->head.fields[0],
                        limits->steps));
    *ret_step = message->head.fields[0];
    return PSR_OK;
}

psr_head psr_msg_hold_head(bool change)
{
    return (psr_head){.type = PSR_MSG_HOLD, .fields = {change}};
}

psr_err psr_msg_hold_read(const psr_message *message, bool *ret_change)
{
    PSR_TRY(field_at_most(message, 0, 1));
    *ret_change = message->head.fields[0] == 1;
    return PSR_OK;
}

psr_head psr_msg_stop_at_head(uint64_t step)
{
    return (psr_head){.type = PSR_MSG_STOP_AT, .fields = {step}};
}

psr_err psr_msg_stop_at_read(const psr_message *message, uint64_t *ret_step)
{
    *ret_step = message->head.fields[0];
    return PSR_OK;
}

psr_head psr_msg_saved_head(uint64_t steps)
{
    return (psr_head){.type = PSR_MSG_SAVED, .fields = {steps}};
}

psr_err psr_msg_saved_read(const psr_message *message, uint64_t *ret_steps)
{
    *ret_steps = message->head.fields[0];
    return PSR_OK;
}

psr_head psr_msg_failed_head(psr_err status)
{
    return (psr_head){.type = PSR_MSG_FAILED, .fields = {(uint64_t)status}};
}

psr_err psr_msg_failed_status(const psr_message *message)
{
    uint64_t status = message->head.fields[0];
    return status > 0 && status <= PSR_ERR_LAST ? (psr_err)status : PSR_ERR_PEER;
}

enum { VIEW_EPOCH, VIEW_FIRST_STEP };

psr_head psr_msg_view_head(const psr_msg_view *view)
{
    return (psr_head){.type = PSR_MSG_VIEW,
                      .fields = {[VIEW_EPOCH] = view->epoch, [VIEW_FIRST_STEP] = view->first_step}};
}

psr_err psr_msg_view_read(const psr_message *message, psr_msg_view *ret_view)
{
    PSR_TRY(field_at_most(message, VIEW_EPOCH, UINT32_MAX));
    *ret_view = (psr_msg_view){(uint32_t)message->head.fields[VIEW_EPOCH],
                               message->head.fields[VIEW_FIRST_STEP]};
    return PSR_OK;
}

enum { BOUND_EPOCH, BOUND_PAUSE };

psr_head psr_msg_bound_head(const psr_msg_bound *bound)
{
    return (psr_head){
        .type = PSR_MSG_BOUND,
        .fields = {[BOUND_EPOCH] = bound->epoch, [BOUND_PAUSE] = within(bound->pause_us)}};
}

psr_err psr_msg_bound_read(const psr_message *message, const psr_msg_limits *limits,
                           psr_msg_bound *ret_bound)
{
    PSR_TRY(field_at_most(message, BOUND_EPOCH, limits->epoch));
    PSR_TRY(field_at_most(message, BOUND_PAUSE, PSR_MSG_WITHIN_MS_MAX));
    *ret_bound = (psr_msg_bound){(uint32_t)message->head.fields[BOUND_EPOCH],
                                 message->head.fields[BOUND_PAUSE]};
    return PSR_OK;
}

enum { UNSEALED_ROLE, UNSEALED_RANK, UNSEALED_PORT, UNSEALED_WAITED };

psr_head psr_msg_unsealed_head(const psr_msg_unsealed *unsealed)
{
    return (psr_head){.type = PSR_MSG_UNSEALED,
                      .fields = {[UNSEALED_ROLE] = (uint64_t)unsealed->peer.role,
                                 [UNSEALED_RANK] = unsealed->peer.rank,
                                 [UNSEALED_PORT] = unsealed->port,
                                 [UNSEALED_WAITED] = within(unsealed->waited_ms)}};
}

psr_err psr_msg_unsealed_read(const psr_message *message, const psr_msg_limits *limits,
                              psr_msg_unsealed *ret_unsealed)
{
    const uint64_t *f = message->head.fields;
    PSR_TRY(check_peer(message, limits, f[UNSEALED_ROLE], f[UNSEALED_RANK]));
    PSR_TRY(field_at_most(message, UNSEALED_PORT, UINT16_MAX));
    PSR_TRY(field_at_most(message, UNSEALED_WAITED, PSR_MSG_WITHIN_MS_MAX));
    *ret_unsealed = (psr_msg_unsealed){{(psr_role)f[UNSEALED_ROLE], (uint32_t)f[UNSEALED_RANK]},
                                       (uint16_t)f[UNSEALED_PORT],
                                       f[UNSEALED_WAITED]};
    return PSR_OK;
}

/* ---- traces ---- */

enum { CLOCK_NUMBER, CLOCK_MACHINE };
enum { CLOCKED_NUMBER, CLOCKED_STAMP, CLOCKED_SAME, CLOCKED_SKIPPED };
enum { TRACE_LEFT, TRACE_DROPPED, TRACE_BEGIN, TRACE_END = TRACE_BEGIN + 3 };

psr_head psr_msg_clock_head(const psr_msg_clock *clock)
{
    return (psr_head){.type = PSR_MSG_CLOCK,
                      .fields = {[CLOCK_NUMBER] = clock->number, [CLOCK_MACHINE] = clock->machine}};
}

psr_err psr_msg_clock_read(const psr_message *message, psr_msg_clock *ret_clock)
{
    *ret_clock =
        (psr_msg_clock){message->head.fields[CLOCK_NUMBER], message->head.fields[CLOCK_MACHINE]};
    return PSR_OK;
}

psr_head psr_msg_clocked_head(const psr_msg_clocked *clocked)
{
    return (psr_head){.type = PSR_MSG_CLOCKED,
                      .fields = {[CLOCKED_NUMBER] = clocked->number,
                                 [CLOCKED_STAMP] = (uint64_t)clocked->stamp_ns,
                                 [CLOCKED_SAME] = clocked->same_machine,
                                 [CLOCKED_SKIPPED] = (uint64_t)clocked->skipped_ns}};
}

psr_err psr_msg_clocked_read(const psr_message *message, psr_msg_clocked *ret_clocked)
{
    const uint64_t *fields = message->head.fields;
    PSR_TRY(field_at_most(message, CLOCKED_STAMP, PSR_TRACE_NS_MAX));
    PSR_TRY(field_at_most(message, CLOCKED_SAME, 1));
    PSR_TRY(field_at_most(message, CLOCKED_SKIPPED, PSR_TRACE_NS_MAX));
    *ret_clocked = (psr_msg_clocked){fields[CLOCKED_NUMBER], (int64_t)fields[CLOCKED_STAMP],
                                     fields[CLOCKED_SAME] == 1, (int64_t)fields[CLOCKED_SKIPPED]};
    return PSR_OK;
}

/* An offset may be below 0; it is sent as its distance from the least one. */
static void put_reading(uint64_t *fields, const psr_clock_reading *reading)
{
    fields[0] = (uint64_t)reading->at_ns;
    fields[1] = (uint64_t)(reading->offset_ns + PSR_TRACE_NS_MAX);
    fields[2] = reading->error_ns;
}

static psr_err get_reading(const psr_message *message, size_t field, psr_clock_reading *ret_reading)
{
    const uint64_t *fields = message->head.fields + field;
    PSR_TRY(field_at_most(message, field, PSR_TRACE_NS_MAX));
    PSR_TRY(field_at_most(message, field + 1, 2 * (uint64_t)PSR_TRACE_NS_MAX));
    PSR_TRY(field_at_most(message, field + 2, PSR_TRACE_NS_MAX));
    *ret_reading =
        (psr_clock_reading){(int64_t)fields[0], (int64_t)fields[1] - PSR_TRACE_NS_MAX, fields[2]};
    return PSR_OK;
}

psr_head psr_msg_trace_head(const psr_msg_trace *trace)
{
    psr_head head = {.type = PSR_MSG_TRACE,
                     .fields = {[TRACE_LEFT] = trace->left, [TRACE_DROPPED] = trace->dropped}};
    put_reading(head.fields + TRACE_BEGIN, &trace->begin);
    put_reading(head.fields + TRACE_END, &trace->end);
    return head;
}

psr_err psr_msg_trace_read(const psr_message *message, psr_msg_trace *ret_trace)
{
    psr_msg_trace trace = {.left = message->head.fields[TRACE_LEFT],
                           .dropped = message->head.fields[TRACE_DROPPED]};
    PSR_TRY(get_reading(message, TRACE_BEGIN, &trace.begin));
    PSR_TRY(get_reading(message, TRACE_END, &trace.end));
    *ret_trace = trace;
    return PSR_OK;
}

enum { FAILURE_STATUS, FAILURE_RANK, FAILURE_OTHER, FAILURE_NUMBER, FAILURE_WITHIN, FAILURE_SCOPE };

static psr_head failure_head(psr_message_type type, const psr_msg_failure *failure)
{
    return (psr_head){.type = type,
                      .tag = {.epoch = failure->epoch, .group = failure->group},
                      .fields = {[FAILURE_STATUS] = (uint64_t)failure->status,
                                 [FAILURE_RANK] = failure->rank,
                                 [FAILURE_OTHER] = failure->other,
                                 [FAILURE_NUMBER] = failure->number,
                                 [FAILURE_WITHIN] = within(failure->within_ms),
                                 [FAILURE_SCOPE] = (uint64_t)failure->scope}};
}

psr_head psr_msg_finding_head(const psr_msg_failure *failure)
{
    return failure_head(PSR_MSG_FINDING, failure);
}

psr_head psr_msg_verdict_head(const psr_msg_failure *failure)
{
    return failure_head(PSR_MSG_VERDICT, failure);
}

/* A scope with a rank needs a rank. */
static psr_err check_blamed(const psr_message *message, const psr_msg_limits *limits)
{
    const uint64_t *fields = message->head.fields;
    bool of_rank =
        fields[FAILURE_SCOPE] == PSR_SCOPE_RANK || fields[FAILURE_SCOPE] == PSR_SCOPE_LOST;
    PSR_TRY(check_rank(message, limits, fields[FAILURE_OTHER]));
    return of_rank ? check_peer(message, limits, PSR_ROLE_WORKER, fields[FAILURE_RANK])
                   : check_rank(message, limits, fields[FAILURE_RANK]);
}

psr_err psr_msg_failure_read(const psr_message *message, const psr_msg_limits *limits,
                             psr_msg_failure *ret_failure)
{
    const uint64_t *fields = message->head.fields;
    PSR_TRY(check_epoch(message, limits));
    PSR_TRY(field_at_most(message, FAILURE_STATUS, PSR_ERR_LAST));
    PSR_TRY(field_at_most(message, FAILURE_WITHIN, PSR_MSG_WITHIN_MS_MAX));
    PSR_TRY(field_at_most(message, FAILURE_SCOPE, PSR_SCOPES - 1));
    PSR_TRY(check_blamed(message, limits));
    *ret_failure = (psr_msg_failure){.status = (psr_err)fields[FAILURE_STATUS],
                                     .scope = (psr_scope)fields[FAILURE_SCOPE],
                                     .epoch = message->head.tag.epoch,
                                     .group = message->head.tag.group,
                                     .rank = (uint32_t)fields[FAILURE_RANK],
                                     .other = (uint32_t)fields[FAILURE_OTHER],
                                     .number = fields[FAILURE_NUMBER],
                                     .within_ms = fields[FAILURE_WITHIN]};
    return PSR_OK;
}

psr_head psr_msg_shrink_head(const psr_msg_shrink *shrink)
{
    return (psr_head){.type = PSR_MSG_SHRINK,
                      .tag = {.epoch = shrink->epoch, .group = shrink->group},
                      .fields = {within(shrink->within_ms)}};
}

psr_err psr_msg_shrink_read(const psr_message *message, const psr_msg_limits *limits,
                            psr_msg_shrink *ret_shrink)
{
    const psr_head *head = &message->head;
    PSR_TRY(check_epoch(message, limits));
    PSR_TRY(field_at_most(message, 0, PSR_MSG_WITHIN_MS_MAX));
    *ret_shrink = (psr_msg_shrink){head->tag.epoch, head->tag.group, head->fields[0]};
    return PSR_OK;
}

enum { LEFT_RANK, LEFT_MESSAGES };

psr_head psr_msg_left_head(const psr_msg_left *left)
{
    return (psr_head){.type = PSR_MSG_LEFT,
                      .fields = {[LEFT_RANK] = left->rank, [LEFT_MESSAGES] = left->messages}};
}

psr_err psr_msg_left_read(const psr_message *message, const psr_msg_limits *limits,
                          psr_msg_left *ret_left)
{
    const uint64_t *fields = message->head.fields;
    PSR_TRY(check_peer(message, limits, PSR_ROLE_WORKER, fields[LEFT_RANK]));
    *ret_left = (psr_msg_left){(uint32_t)fields[LEFT_RANK], fields[LEFT_MESSAGES]};
    return PSR_OK;
}

enum { SHRUNK_STATUS, SHRUNK_RANK, SHRUNK_EPOCH };

psr_head psr_msg_shrunk_head(const psr_msg_shrunk *shrunk)
{
    return (psr_head){.type = PSR_MSG_SHRUNK,
                      .tag = {.epoch = shrunk->epoch, .group = shrunk->group},
                      .fields = {[SHRUNK_STATUS] = (uint64_t)shrunk->status,
                                 [SHRUNK_RANK] = shrunk->rank,
                                 [SHRUNK_EPOCH] = shrunk->new_epoch}};
}

psr_err psr_msg_shrunk_read(const psr_message *message, const psr_msg_limits *limits,
                            psr_msg_shrunk *ret_shrunk)
{
    const psr_head *head = &message->head;
    PSR_TRY(check_epoch(message, limits));
    PSR_TRY(field_at_most(message, SHRUNK_STATUS, PSR_ERR_LAST));
    PSR_TRY(check_rank(message, limits, head->fields[SHRUNK_RANK]));
    PSR_TRY(field_at_most(message, SHRUNK_EPOCH, UINT32_MAX));
    *ret_shrunk = (psr_msg_shrunk){.epoch = head->tag.epoch,
                                   .group = head->tag.group,
                                   .status = (psr_err)head->fields[SHRUNK_STATUS],
                                   .rank = (uint32_t)head->fields[SHRUNK_RANK],
                                   .new_epoch = (uint32_t)head->fields[SHRUNK_EPOCH]};
    return PSR_OK;
}

enum { RANK_BYTES = 4 };

static void write_low_first(uint64_t number, unsigned size, uint8_t *ret_bytes)
{
    for (unsigned b = 0; b < size; b++)
        ret_bytes[b] = (uint8_t)(number >> (8 * b));
}

static uint64_t read_low_first(const uint8_t *bytes, unsigned size)
{
    uint64_t number = 0;
    for (unsigned b = 0; b < size; b++)
        number |= (uint64_t)bytes[b] << (8 * b);
    return number;
}

void psr_msg_rank_list_write(const uint32_t *ranks, uint32_t count, uint8_t *ret_bytes)
{
    for (uint32_t i = 0; i < count; i++)
        write_low_first(ranks[i], RANK_BYTES, ret_bytes + RANK_BYTES * i);
}

static psr_err read_ranks(const psr_message *message, uint32_t limit, uint32_t count,
                          uint32_t *ranks, bool *seen)
{
    const uint8_t *bytes = message->payload;
    for (uint32_t i = 0; i < count; i++, bytes += RANK_BYTES) {
        ranks[i] = (uint32_t)read_low_first(bytes, RANK_BYTES);
        if (ranks[i] >= limit)
            return psr_violation(message, "there is no rank %" PRIu32, ranks[i]);
        if (seen[ranks[i]])
            return psr_violation(message, "rank %" PRIu32 " stands there twice", ranks[i]);
        seen[ranks[i]] = true;
    }
    return PSR_OK;
}

psr_err psr_msg_rank_list_read(const psr_message *message, uint32_t limit, uint32_t **ret_ranks,
                               uint32_t *ret_count)
{
    size_t count = message->payload_bytes / RANK_BYTES;
    if (count == 0 || count > limit || message->payload_bytes % RANK_BYTES != 0)
        return psr_violation(message, "%zu bytes are no list of at most %" PRIu32 " ranks",
                             message->payload_bytes, limit);
    uint32_t *ranks = calloc(count, sizeof *ranks);
    bool *seen = calloc(limit, sizeof *seen);
    psr_err err = ranks != NULL && seen != NULL
                      ? read_ranks(message, limit, (uint32_t)count, ranks, seen)
                      : psr_fail(PSR_ERR_NOMEM, "no memory for %zu ranks", count);
    free(seen);
    if (err != PSR_OK) {
        free(ranks);
        return err;
    }
    *ret_ranks = ranks;
    *ret_count = (uint32_t)count;
    return PSR_OK;
}

size_t psr_msg_sent_write(const uint64_t *sent, uint32_t ranks, uint8_t *ret_bytes)
{
    uint8_t *to = ret_bytes;
    for (uint32_t r = 0; r < ranks; r++) {
        if (sent[r] == 0)
            continue;
        write_low_first(r, RANK_BYTES, to);
        write_low_first(sent[r], PSR_MSG_SENT_BYTES - RANK_BYTES, to + RANK_BYTES);
        to += PSR_MSG_SENT_BYTES;
    }
    return (size_t)(to - ret_bytes);
}

psr_err psr_msg_sent_check(const psr_message *message, uint32_t ranks)
{
    const uint8_t *bytes = message->payload;
    const size_t size = message->payload_bytes;
    if (size % PSR_MSG_SENT_BYTES != 0 || size / PSR_MSG_SENT_BYTES > ranks)
        return psr_violation(message, "it is no list of at most %" PRIu32 " ranks", ranks);
    for (size_t at = 0; at < size; at += PSR_MSG_SENT_BYTES)
        if (read_low_first(bytes + at, RANK_BYTES) >= ranks)
            return psr_violation(message, "there is no rank %" PRIu64,
                                 read_low_first(bytes + at, RANK_BYTES));
    return PSR_OK;
}

uint64_t psr_msg_sent_to(const void *bytes, size_t size, uint32_t rank)
{
    const uint8_t *entries = bytes;
    for (size_t at = 0; at < size; at += PSR_MSG_SENT_BYTES)
        if (read_low_first(entries + at, RANK_BYTES) == rank)
            return read_low_first(entries + at + RANK_BYTES, PSR_MSG_SENT_BYTES - RANK_BYTES);
    return 0;
}
