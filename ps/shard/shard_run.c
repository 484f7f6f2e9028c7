#include "ps/shard/shard_run.h"

#include "base/fault.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

struct psr_shard_run {
    psr_shard *shard;
    psr_table_shard *table; /* the shard's */
    psr_outbox outbox;
    uint64_t first_step;
    psr_traffic traffic;
    bool ready, started, done, bye;
};

/* ---- what the shard sends ---- */

static psr_err send_to_worker(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    psr_shard_run *run = context;
    if (head->type == PSR_MSG_WEIGHTS) {
        psr_fault_point("pull", psr_msg_step(head));
        run->traffic.weight_bytes += payload ? payload->bytes : 0;
    }
    return run->outbox.send(run->outbox.context, to, head, payload);
}

static bool lends_to_worker(void *context, psr_peer to)
{
    const psr_outbox *outbox = &((psr_shard_run *)context)->outbox;
    return outbox->lends_to != NULL && outbox->lends_to(outbox->context, to);
}

static psr_err tell(psr_shard_run *run, const psr_head *head, const psr_payload *payload)
{
    return run->outbox.send(run->outbox.context, scheduler, head, payload);
}

static psr_err send_checkpoint(void *context, uint64_t step, uint32_t section, const float *data,
                               size_t offset, size_t count)
{
    const size_t most = psr_encoding_values_max(PSR_ENCODING_FLOAT32);
    psr_fault_point("checkpoint", step);
    for (size_t at = 0; at < count; at += most) {
        size_t piece = count - at < most ? count - at : most;
        psr_head head = psr_msg_checkpoint_head(&(psr_msg_piece){step, section, {offset + at, piece}});
        psr_payload payload = psr_encode(&head, PSR_ENCODING_FLOAT32, data + at, piece);
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

/* ---- messages ---- */

static psr_err take_stop_at(psr_shard_run *run, const psr_message *message)
{
    uint64_t step;
    PSR_TRY(psr_msg_stop_at_read(message, &step));
    return psr_shard_stop_at(run->shard, step);
}

static psr_err take_scheduler_message(psr_shard_run *run, const psr_message *message)
{
    switch (message->head.type) {
    case PSR_MSG_START:
        run->started = true;
        return psr_table_shard_show(run->table);
    case PSR_MSG_STOP_AT:
        return take_stop_at(run, message);
    case PSR_MSG_BYE:
        run->bye = true;
        return PSR_OK;
    default:
        return psr_fail(PSR_ERR_PROTOCOL, "the scheduler sent a message of type %d, which no shard takes",
                        (int)message->head.type);
    }
}

static psr_err take_worker_message(psr_shard_run *run, psr_message **message)
{
    if ((*message)->head.type == PSR_MSG_PUSH) {
        psr_fault_point("push", psr_msg_step(&(*message)->head));
        run->traffic.gradient_bytes += (*message)->payload_bytes;
    }
    return psr_table_shard_message(run->table, message);
}

/* What is due after a message. */
static psr_err move_on(psr_shard_run *run)
{
    if (!run->ready && psr_table_shard_initialised(run->table)) {
        run->ready = true;
        psr_fault_point("start", run->first_step);
        PSR_TRY(tell(run, &(psr_head){.type = PSR_MSG_READY}, NULL));
    }
    if (run->started && !run->done && psr_table_shard_finished(run->table)) {
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
        err = take_worker_message(run, message);
    }
    return err == PSR_OK ? move_on(run) : err;
}

/* ---- what it tells of itself ---- */

bool psr_shard_run_left(const psr_shard_run *run)
{
    return run->bye;
}

const psr_traffic *psr_shard_run_traffic(const psr_shard_run *run)
{
    return run->done ? &run->traffic : NULL;
}

void psr_shard_run_report(const psr_shard_run *run, psr_msg_progress *progress)
{
    uint32_t rank = 0;
    progress->phase = PSR_PHASE_START;
    progress->step = psr_table_shard_clock(run->table);
    progress->counter = psr_table_shard_progress(run->table);
    progress->waits = true;
    if (!psr_table_shard_initialised(run->table)) {
        progress->waits_for = (psr_peer){PSR_ROLE_WORKER, 0};
    } else if (run->started && psr_table_shard_waits(run->table, &progress->step, &progress->bucket, &rank)) {
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
    if (!run)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a shard");
    run->outbox = options->outbox;
    run->first_step = options->first_step;
    psr_shard_options own = *options;
    own.outbox = (psr_outbox){.context = run, .send = send_to_worker, .lends_to = lends_to_worker};
    own.context = run;
    own.checkpoint = send_checkpoint;
    psr_err err = psr_shard_new(&own, &run->shard);
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
    if (!run)
        return;
    psr_shard_free(run->shard);
    free(run);
}

size_t psr_shard_run_waiting_max(const psr_shard_run *run)
{
    return psr_table_shard_waiting_max(run->table);
}
