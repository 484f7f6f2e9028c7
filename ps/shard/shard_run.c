#include "ps/shard/shard_run.h"

#include "base/fault.h"
#include "comm/members/memory/shared_memory.h"
#include "comm/view/epoch_gate.h"
#include "comm/view/handover.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "comm/tables/table_shard.h"
#include "comm/view/view.h"
#include "comm/view/view_queue.h"
#include "comm/wire/encoding.h"
#include "net/violation.h"

#include <stdlib.h>
#include <string.h>

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

struct psr_shard_run {
    psr_shard *shard;
    psr_table_shard *table; /* the shard's */
    const psr_plan *plan;   /* of the present view */
    const psr_view *view;   /* held; NULL: it is the first */
    psr_view_queue next;    /* the views that have come and have not begun */
    psr_epoch_gate *gate;
    psr_handover handover; /* from the view before to this one */
    psr_peer self;
    psr_outbox outbox;
    void *peers; /* the options'; so is reach */
    psr_err (*reach)(void *peers, psr_peer shard);
    bool *reached; /* [shards]; owned */
    uint64_t first_step;
    psr_blocks *pieces; /* borrowed; NULL: pieces of checkpoints are copied by who sends them */
    psr_tracer *tracer; /* the options'; NULL: there is none */
    bool trace_ended;   /* psr_tracer_end was called */
    psr_traffic traffic;
    bool ready, started, done, bye;
    bool moving;   /* part of the handover has not come yet */
    bool end_told; /* STOP_AT has come: there are no steps from `end` on */
    uint64_t end;
};

/* ---- what the shard sends ---- */

static psr_err send_to_worker(void *context, psr_peer to, const psr_head *head,
                              const psr_payload *payload)
{
    psr_shard_run *run = context;
    if (head->type == PSR_MSG_WEIGHTS)
        psr_fault_point("pull", psr_msg_step(head));
    const psr_head said = psr_msg_in_group(*head, psr_epoch_gate_epoch(run->gate), 0);
    return run->outbox.send(run->outbox.context, to, &said, payload);
}

static bool lends_to_worker(void *context, psr_peer to)
{
    const psr_outbox *outbox = &((psr_shard_run *)context)->outbox;
    return outbox->lends_to != NULL && outbox->lends_to(outbox->context, to);
}

static void tell_observer(void *context, const psr_observed *observed)
{
    const psr_outbox *outbox = &((const psr_shard_run *)context)->outbox;
    if (outbox->tell != NULL)
        outbox->tell(outbox->context, observed);
}

static psr_err tell(psr_shard_run *run, const psr_head *head, const psr_payload *payload)
{
    return run->outbox.send(run->outbox.context, scheduler, head, payload);
}

/* A large piece goes into memory that is kept from one checkpoint to the next, and that may be
 * shared. Without a block, it is copied where it is sent. */
static void keep_piece(psr_shard_run *run, psr_payload *payload)
{
    void *block = NULL;
    if (run->pieces == NULL || payload->bytes < PSR_KEPT_PIECE_BYTES_MIN ||
        psr_blocks_take(run->pieces, &block) != PSR_OK)
        return;
    memcpy(block, payload->data, payload->bytes);
    *payload = (psr_payload){block, payload->bytes, psr_blocks_give, block};
}

static psr_err send_checkpoint(void *context, uint64_t step, uint32_t section, const float *data,
                               size_t offset, size_t count)
{
    const size_t most = psr_encoding_values_max(PSR_ENCODING_FLOAT32);
    psr_fault_point("checkpoint", step);
    for (size_t at = 0; at < count; at += most) {
        size_t piece = count - at < most ? count - at : most;
        psr_head head =
            psr_msg_checkpoint_head(&(psr_msg_piece){step, section, {offset + at, piece}});
        psr_payload payload = psr_encode(&head, PSR_ENCODING_FLOAT32, data + at, piece);
        keep_piece(context, &payload);
        PSR_TRY(tell(context, &head, &payload));
    }
    return PSR_OK;
}

static psr_err tell_done(psr_shard_run *run)
{
    psr_head head = psr_msg_done_head(&(psr_msg_done){.steps = psr_table_shard_clock(run->table)});
    char *json = NULL;
    PSR_TRY(psr_traffic_to_json(&run->traffic, &json));
    psr_payload payload = psr_encode(&head, PSR_ENCODING_BYTES, json, strlen(json));
    psr_err err = tell(run, &head, &payload);
    free(json);
    return err;
}

/* ---- from one view to the next ---- */

static float *array_of(void *context, uint32_t array)
{
    return psr_shard_array(((psr_shard_run *)context)->shard, array);
}

static psr_err take_due(psr_shard_run *run, psr_message **message);

/* Takes the messages that have waited for the view. */
static psr_err take_waiting(psr_shard_run *run)
{
    psr_err err = PSR_OK;
    for (psr_message *message; err == PSR_OK && (message = psr_epoch_gate_next(run->gate)) != NULL;)
        err = take_due(run, &message);
    return err;
}

static psr_err end_handover_when_complete(psr_shard_run *run)
{
    psr_peer from;
    uint32_t bucket;
    if (!run->moving || psr_handover_waits(&run->handover, run->self, run->plan, &from, &bucket))
        return PSR_OK;
    run->moving = false;
    psr_epoch_gate_open(run->gate);
    const psr_head head = psr_msg_bound_head(&(psr_msg_bound){.epoch = run->view->epoch});
    PSR_TRY(tell(run, &head, NULL));
    return take_waiting(run);
}

static psr_err take_state(psr_shard_run *run, const psr_message *message)
{
    const psr_handover_arrays arrays = {run, array_of};
    PSR_TRY(psr_handover_take(&run->handover, run->self, &arrays, message));
    return end_handover_when_complete(run);
}

/* Workers have other channels. */
static psr_err reach_shards(psr_shard_run *run)
{
    for (uint32_t i = 0; i < run->handover.count; i++) {
        const psr_handover_run *r = &run->handover.runs[i];
        if (!psr_peer_equal(r->from, run->self) || r->to.role != PSR_ROLE_SHARD ||
            run->reached[r->to.rank])
            continue;
        PSR_TRY(run->reach(run->peers, r->to));
        run->reached[r->to.rank] = true;
    }
    return PSR_OK;
}

static psr_err hand_over(psr_shard_run *run, const psr_plan *old, uint64_t step)
{
    const psr_handover_members members = {.workers = old->ranks, .shards = old->shards};
    const psr_handover_arrays arrays = {run, array_of};
    const psr_outbox outbox = {.context = run, .send = send_to_worker};
    psr_handover_done(&run->handover);
    PSR_TRY(psr_handover_make(old, run->plan, &members, psr_shard_slot_count(run->shard),
                              &run->handover));
    PSR_TRY(reach_shards(run));
    PSR_TRY(psr_handover_send(&run->handover, run->self, &arrays, step, run->plan->slice_floats,
                              &outbox));
    for (uint32_t b = 0; b < run->plan->bucket_count; b++)
        if (!psr_plan_holds(run->plan, b, run->self))
            psr_shard_drop_state(run->shard, b);
    return PSR_OK;
}

static size_t waiting_max(const psr_plan *plan)
{
    return psr_plan_waiting_max(plan) * ((size_t)plan->ranks + plan->shards);
}

static psr_err bind_next(psr_shard_run *run)
{
    const psr_view *before = run->view;
    const psr_plan *old = run->plan;
    run->view = psr_view_queue_take(&run->next);
    psr_fault_point("handover", run->view->first_step);
    run->plan = &run->view->plan;
    run->moving = true;
    psr_epoch_gate_move(run->gate, run->view->epoch, waiting_max(run->plan));
    psr_err err = psr_shard_rebind(run->shard, run->plan, run->view->first_step);
    run->table = err == PSR_OK ? psr_shard_table(run->shard) : NULL;
    if (err == PSR_OK)
        err = hand_over(run, old, run->view->first_step);
    psr_view_release(before); /* its plan is freed with it */
    PSR_TRY(err);
    PSR_TRY(take_waiting(run));
    return end_handover_when_complete(run);
}

/* Members begin a view one after another, and only when they have all weights of the step before
 * it, so that step is over here too. A message of a still later view says nothing about this one,
 * which may have been replaced: then either a message says that this one begins, or the VIEW that
 * replaces it comes. */
static psr_err bind_what_has_begun(psr_shard_run *run)
{
    for (const psr_view *next; !run->moving && (next = psr_view_queue_first(&run->next)) != NULL;) {
        const psr_message *begun = psr_epoch_gate_waiting(run->gate, next->epoch);
        if (begun == NULL)
            return PSR_OK;
        if (!psr_table_shard_initialised(run->table) ||
            psr_table_shard_clock(run->table) < next->first_step)
            return psr_violation(
                begun, "it has begun a view, and the last step before that view is not over");
        PSR_TRY(bind_next(run));
    }
    return PSR_OK;
}

/* The run's buckets, ranks and shards never change. */
static psr_err check_view(const psr_shard_run *run, const psr_view *view)
{
    const psr_plan *plan = &view->plan;
    bool same = plan->bucket_count == run->plan->bucket_count && plan->ranks == run->plan->ranks &&
                plan->shards == run->plan->shards && view->epoch > psr_epoch_gate_epoch(run->gate);
    for (uint32_t b = 0; same && b < plan->bucket_count; b++)
        same = psr_span_equal(plan->buckets[b].span, run->plan->buckets[b].span);
    return same ? PSR_OK
                : psr_fail(PSR_ERR_PROTOCOL,
                           "the scheduler's new view has other buckets or members than the run");
}

static psr_err take_view(psr_shard_run *run, const psr_message *message)
{
    const psr_view *view = NULL;
    PSR_TRY(psr_view_read(message, &view));
    psr_err err = check_view(run, view);
    if (err != PSR_OK) {
        psr_view_release(view);
        return err;
    }
    if (psr_view_queue_put(&run->next, view))
        return PSR_OK;
    psr_view_release(view);
    return psr_violation(message, "too many views wait to begin");
}

/* ---- messages ---- */

static psr_err take_stop_at(psr_shard_run *run, const psr_message *message)
{
    uint64_t step;
    PSR_TRY(psr_msg_stop_at_read(message, &step));
    run->end_told = true;
    run->end = step + 1;
    return psr_shard_stop_at(run->shard, step);
}

static psr_err take_scheduler_message(psr_shard_run *run, const psr_message *message)
{
    switch (message->head.type) {
    case PSR_MSG_START:
        run->started = true;
        return psr_table_shard_show(run->table);
    case PSR_MSG_VIEW:
        return take_view(run, message);
    case PSR_MSG_STOP_AT:
        return take_stop_at(run, message);
    case PSR_MSG_CLOCKED:
        return run->tracer != NULL ? psr_tracer_clocked(run->tracer, message, &run->outbox)
                                   : psr_violation(message, "this shard keeps no trace");
    case PSR_MSG_BYE:
        run->bye = true;
        return PSR_OK;
    default:
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the scheduler sent a message of type %d, which no shard takes",
                        (int)message->head.type);
    }
}

/* The message belongs to the present view. */
static psr_err take_due(psr_shard_run *run, psr_message **message)
{
    if ((*message)->head.type == PSR_MSG_STATE) {
        psr_err err = take_state(run, *message);
        psr_message_free(message);
        return err;
    }
    if ((*message)->head.type == PSR_MSG_PUSH)
        psr_fault_point("push", psr_msg_step(&(*message)->head));
    if ((*message)->head.type == PSR_MSG_NORM)
        PSR_TRY(psr_shard_norm(run->shard, message));
    else
        PSR_TRY(psr_table_shard_message(run->table, message));
    return psr_shard_settle(run->shard);
}

/* Begins the trace with its first step. It ends one step later than its last one, when all that
 * belongs to that is over here; or with the run. */
static psr_err trace_steps(psr_shard_run *run, bool run_ends)
{
    psr_tracer *tracer = run->tracer;
    if (tracer == NULL || !run->started || run->trace_ended)
        return PSR_OK;
    const bool holds = psr_table_shard_holds(run->table);
    const uint64_t clock = psr_table_shard_clock(run->table);
    if (holds && !psr_tracer_begun(tracer) && psr_tracer_has(tracer, clock))
        PSR_TRY(psr_tracer_begin(tracer, &run->outbox));
    const bool over = (holds && clock > psr_tracer_end_step(tracer)) ||
                      ((holds || run_ends) && psr_table_shard_finished(run->table));
    if (!over || !psr_tracer_begun(tracer))
        return PSR_OK;
    run->trace_ended = true;
    return psr_tracer_end(tracer, &run->outbox);
}

/* Nothing may follow DONE. */
static bool has_told_trace(const psr_shard_run *run)
{
    return run->tracer == NULL || !psr_tracer_begun(run->tracer) || psr_tracer_sent(run->tracer);
}

/* Does what is due after a message. */
static psr_err move_on(psr_shard_run *run)
{
    if (!run->ready && psr_table_shard_initialised(run->table)) {
        run->ready = true;
        psr_fault_point("start", run->first_step);
        PSR_TRY(tell(run, &(psr_head){.type = PSR_MSG_READY}, NULL));
    }
    /* A shard that holds nothing may get something by a later view. When no step is left, it is
     * told so. */
    const psr_view *next = psr_view_queue_first(&run->next);
    const bool ends = run->end_told && (next == NULL || next->first_step >= run->end);
    PSR_TRY(trace_steps(run, ends));
    if (run->started && !run->done && !run->moving && (ends || psr_table_shard_holds(run->table)) &&
        psr_table_shard_finished(run->table) && has_told_trace(run)) {
        run->done = true;
        psr_fault_point("shutdown", psr_table_shard_clock(run->table));
        PSR_TRY(tell_done(run));
    }
    return PSR_OK;
}

psr_err psr_shard_run_begin(psr_shard_run *run)
{
    return move_on(run);
}

psr_err psr_shard_run_message(psr_shard_run *run, psr_message **message)
{
    psr_err err = PSR_OK;
    if ((*message)->from.role == PSR_ROLE_SCHEDULER) {
        err = take_scheduler_message(run, *message);
        psr_message_free(message);
    } else {
        err = psr_epoch_gate_pass(run->gate, message);
        if (err == PSR_OK && *message != NULL)
            err = take_due(run, message);
    }
    if (err == PSR_OK)
        err = bind_what_has_begun(run);
    return err == PSR_OK ? move_on(run) : err;
}

/* ---- what it tells of itself ---- */

bool psr_shard_run_left(const psr_shard_run *run)
{
    return run->bye;
}

void psr_shard_run_see(void *context, const psr_observed *observed)
{
    psr_traffic *traffic = &((psr_shard_run *)context)->traffic;
    if (observed->kind == PSR_OBSERVED_IN && observed->type == PSR_MSG_PUSH)
        traffic->gradient_bytes += observed->bytes;
    else if (observed->kind == PSR_OBSERVED_OUT && observed->type == PSR_MSG_WEIGHTS)
        traffic->weight_bytes += observed->bytes;
    const psr_tracer *tracer = ((psr_shard_run *)context)->tracer;
    if (tracer != NULL) {
        const psr_observer *more = psr_tracer_observer(tracer);
        more->see(more->context, observed);
    }
}

const psr_traffic *psr_shard_run_traffic(const psr_shard_run *run)
{
    return run->done ? &run->traffic : NULL;
}

void psr_shard_run_report(const psr_shard_run *run, psr_msg_progress *progress)
{
    uint32_t rank = 0;
    psr_waiting norm;
    progress->phase = PSR_PHASE_START;
    progress->step = psr_table_shard_clock(run->table);
    progress->counter = psr_table_shard_progress(run->table);
    progress->waits = true;
    if (run->moving) {
        progress->phase = PSR_PHASE_HAND_OVER;
        (void)psr_handover_waits(&run->handover, run->self, run->plan, &progress->waits_for,
                                 &progress->bucket);
    } else if (!psr_table_shard_initialised(run->table)) {
        progress->waits_for = (psr_peer){PSR_ROLE_WORKER, 0};
    } else if (psr_shard_waits_for_norm(run->shard, &norm, &progress->bucket)) {
        progress->phase = PSR_PHASE_PUSH;
        progress->step = norm.round;
        progress->waits_for = norm.peer;
    } else if (run->started &&
               psr_table_shard_waits(run->table, &progress->step, &progress->bucket, &rank)) {
        progress->phase = PSR_PHASE_PUSH;
        progress->waits_for = (psr_peer){PSR_ROLE_WORKER, rank};
    } else {
        progress->phase = run->started ? PSR_PHASE_SHUTDOWN : PSR_PHASE_BARRIER;
        progress->waits_for = scheduler;
    }
}

/* ---- life ---- */

psr_err psr_shard_run_new(const psr_shard_options *options, psr_shard_run **ret_run)
{
    psr_shard_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a shard");
    run->outbox = options->outbox;
    run->first_step = options->first_step;
    run->tracer = options->tracer;
    run->plan = options->plan;
    run->peers = options->peers;
    run->reach = options->reach;
    run->reached = calloc((size_t)options->plan->shards + 1, sizeof *run->reached);
    run->self = (psr_peer){PSR_ROLE_SHARD, options->shard};
    psr_err err = run->reached != NULL ? psr_epoch_gate_new(waiting_max(options->plan), &run->gate)
                                       : psr_fail(PSR_ERR_NOMEM, "no memory for a shard");
    psr_shard_options own = *options;
    own.outbox = (psr_outbox){
        .context = run, .send = send_to_worker, .lends_to = lends_to_worker, .tell = tell_observer};
    own.context = run;
    own.checkpoint = send_checkpoint;
    if (err == PSR_OK)
        err = psr_shard_new(&own, &run->shard);
    if (err != PSR_OK) {
        psr_shard_run_free(run);
        return err;
    }
    run->table = psr_shard_table(run->shard);
    *ret_run = run;
    return PSR_OK;
}

void psr_shard_run_free(psr_shard_run *run)
{
    if (run == NULL)
        return;
    psr_shard_free(run->shard);
    psr_epoch_gate_free(run->gate);
    psr_handover_done(&run->handover);
    free(run->reached);
    psr_view_release(run->view);
    psr_view_queue_done(&run->next);
    free(run);
}

size_t psr_shard_run_kept_pieces(const psr_shard_run *run)
{
    const size_t sections =
        psr_shard_slot_count(run->shard) + (psr_compression_is_none(run->plan->pulled) ? 0 : 1);
    size_t pieces = 0;
    for (uint32_t b = 0; b < run->plan->bucket_count; b++)
        if (psr_peer_equal(psr_plan_home(run->plan, b), run->self))
            pieces += sections * psr_kept_pieces(run->plan->buckets[b].span.count);
    return pieces;
}

void psr_shard_run_copy_to(psr_shard_run *run, psr_blocks *blocks)
{
    run->pieces = blocks;
}

size_t psr_shard_run_waiting_max(const psr_shard_run *run)
{
    /* The bound covers any later view: at most all slices, and with a handover weights and states
     * of all of them. */
    const size_t now = psr_table_shard_waiting_max(run->table),
                 ever = psr_plan_waiting_max(run->plan);
    return now > ever ? now : ever;
}
