#include "tests/unit/cluster/cluster_private.h"

#include "comm/wire/encoding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISK_MAX_US 20000 /* until it has a checkpoint */

/* ---- checkpoints ---- */

static size_t sections_of(const cluster *c)
{
    return 1 + CLUSTER_SLOTS + c->n;
}

static size_t index_of(uint32_t section)
{
    if (section >= PSR_SECTION_RESIDUAL(0))
        return 1 + CLUSTER_SLOTS + section - PSR_SECTION_RESIDUAL(0);
    return section == PSR_SECTION_WEIGHTS ? 0 : 1 + section - PSR_SECTION_SLOT(0);
}

void checkpoints_make(cluster *c)
{
    size_t cells = c->options.steps + 1;
    psr_compression compression;
    c->sections =
        calloc(cells * sections_of(c) * c->options.layout->length + 1, sizeof *c->sections);
    c->filled = calloc(cells * sections_of(c), sizeof *c->filled);
    c->disk_us = calloc(cells, sizeof *c->disk_us);
    for (size_t k = 0; k < cells; k++)
        c->disk_us[k] = NEVER;
    psr_optimizer *optimizer;
    assert_int_equal(psr_optimizer_new(&c->config, c->options.layout, &optimizer), PSR_OK);
    c->slot_count = psr_optimizer_slot_count(optimizer);
    psr_optimizer_free(optimizer);
    assert_int_equal(psr_compression_parse(c->config.compress, &compression), PSR_OK);
    c->owes = psr_compression_has_residual(compression);
}

static size_t cell_of(const cluster *c, uint64_t steps)
{
    assert_in_range(steps, c->options.first_step, c->options.first_step + c->options.steps);
    return steps - c->options.first_step;
}

static bool is_filled(const cluster *c, uint64_t steps, uint32_t section)
{
    return c->filled[cell_of(c, steps) * sections_of(c) + index_of(section)] ==
           c->options.layout->length;
}

bool checkpoint_is_whole(const cluster *c, uint64_t steps)
{
    bool whole = is_filled(c, steps, PSR_SECTION_WEIGHTS);
    for (uint32_t i = 0; i < c->slot_count; i++)
        whole = whole && is_filled(c, steps, PSR_SECTION_SLOT(i));
    for (uint32_t r = 0; r < c->n && c->owes; r++)
        whole = whole && is_filled(c, steps, PSR_SECTION_RESIDUAL(r));
    return whole;
}

static psr_err on_checkpoint(void *context, uint64_t step, uint32_t section, const float *data,
                             size_t offset, size_t count)
{
    cluster *c = context;
    size_t cell = cell_of(c, step) * sections_of(c) + index_of(section);
    memcpy(c->sections + cell * c->options.layout->length + offset, data, count * sizeof *data);
    c->filled[cell] += count;
    if (checkpoint_is_whole(c, step))
        c->disk_us[cell_of(c, step)] = psr_sim_now_us(c->sim) + cluster_draw(c, DISK_MAX_US);
    return PSR_OK;
}

static psr_err on_last_checkpoint(void *context, uint64_t step)
{
    const cluster *c = context;
    return checkpoint_is_whole(c, step)
               ? PSR_OK
               : psr_fail(PSR_ERR_PROTOCOL, "the last checkpoint is not whole");
}

static const float *section(const cluster *c, uint64_t steps, uint32_t section)
{
    size_t cell = cell_of(c, steps) * sections_of(c) + index_of(section);
    return is_filled(c, steps, section) ? c->sections + cell * c->options.layout->length : NULL;
}

const float *cluster_checkpointed_weights(const cluster *c, uint64_t steps)
{
    return section(c, steps, PSR_SECTION_WEIGHTS);
}

const float *cluster_slot(const cluster *c, uint32_t slot, uint64_t steps)
{
    return section(c, steps, PSR_SECTION_SLOT(slot));
}

const float *cluster_residual(const cluster *c, uint32_t rank, uint64_t steps)
{
    return section(c, steps, PSR_SECTION_RESIDUAL(rank));
}

/* ---- the scheduler ---- */

#define DISK_MAX_US 20000 /* until it has a checkpoint */

static psr_err on_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    cluster *c = context;
    return psr_transport_send(c->scheduler_process.transport, to, head, payload);
}

static psr_err on_connect(void *context, psr_peer peer, const char *endpoint)
{
    cluster *c = context;
    return psr_transport_connect(c->scheduler_process.transport, peer, endpoint, NULL);
}

static void on_refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    cluster *c = context;
    psr_transport_refuse(c->scheduler_process.transport, join, status, line);
}

static void on_joined(void *context, const psr_view_member *entry, uint32_t count, uint32_t total)
{
    cluster *c = context;
    (void)entry;
    if (count == total)
        c->joined_us = psr_sim_now_us(c->sim);
}

static psr_err on_plan(void *context, psr_mode mode, psr_plan *ret_plan)
{
    const cluster *c = context;
    uint32_t first[CLUSTER_WORKERS_MAX + 1];
    psr_host_ranks hosts = {0, first};
    for (uint32_t rank = 0; rank < c->n; rank++)
        if (rank == 0 || (c->options.shares >> rank & 1) == 0)
            first[hosts.count++] = rank;
    first[hosts.count] = c->n;
    return psr_parts_plan(c->options.config, mode, c->options.layout, c->options.buckets, &hosts,
                          ret_plan);
}

static psr_err on_begin(void *context, const psr_config *config, const psr_facts *facts,
                        const psr_view *members, psr_beginning *ret_beginning)
{
    const cluster *c = context;
    (void)config, (void)facts, (void)members;
    ret_beginning->first_step = c->options.first_step;
    ret_beginning->layout = c->options.layout;
    return on_plan(context, psr_config_mode_at(&c->config, c->options.first_step),
                   &ret_beginning->plan);
}

static psr_err on_change_decided(void *context, const psr_mode_change *change,
                                 const psr_config *config)
{
    (void)context, (void)change, (void)config;
    return PSR_OK;
}

static void on_change_happened(void *context, const psr_mode_change *change)
{
    cluster *c = context;
    (void)change;
    c->changes++;
}

static void on_change_answered(void *context, psr_err status, const char *line)
{
    cluster *c = context;
    (void)status, (void)line;
    c->answered++;
}

static psr_err restore_section(cluster *c, uint32_t to, uint32_t section, const float *values)
{
    size_t length = c->options.layout->length, half = length / 2;
    for (size_t at = 0; at < length; at += half + 1) {
        size_t count = length - at < half + 1 ? length - at : half + 1;
        psr_head head = psr_msg_restore_head(&(psr_msg_piece){
            .steps = c->options.first_step, .section = section, .span = {at, count}});
        psr_payload payload = psr_encode(&head, PSR_ENCODING_FLOAT32, values + at, count);
        PSR_TRY(on_send(c, (psr_peer){PSR_ROLE_WORKER, to}, &head, &payload));
    }
    return PSR_OK;
}

static psr_err on_restore(void *context)
{
    cluster *c = context;
    const float *const weights = c->options.restored_weights;
    float *values = calloc(c->options.layout->length + 1, sizeof *values);
    cluster_initial_weights(c->options.layout, values);
    psr_err err = restore_section(c, 0, PSR_SECTION_WEIGHTS, weights != NULL ? weights : values);
    for (uint32_t slot = 0; slot < c->slot_count && err == PSR_OK; slot++) {
        cluster_initial_slot(c->options.layout, slot, values);
        err = restore_section(c, 0, PSR_SECTION_SLOT(slot),
                              weights != NULL ? c->options.restored_slots[slot] : values);
    }
    for (uint32_t r = 0; r < c->n && c->owes && err == PSR_OK; r++) {
        cluster_initial_residual(c->options.layout, r, values);
        err = restore_section(c, r, PSR_SECTION_RESIDUAL(r), values);
    }
    free(values);
    return err;
}

static psr_err on_started(void *context, const char *algorithms, const char *loops)
{
    (void)context, (void)algorithms, (void)loops;
    return PSR_OK;
}

static psr_err on_metrics(void *context, const psr_metrics_line *line)
{
    (void)context, (void)line;
    return PSR_OK;
}

static void on_evaluating(void *context, uint32_t rank, uint64_t step, uint64_t counted)
{
    (void)context, (void)rank, (void)step, (void)counted;
}

static void on_done(void *context, uint32_t rank, const char *json, size_t size)
{
    (void)context, (void)rank, (void)json, (void)size;
}

static void on_carried(void *context, uint32_t rank, const psr_traffic *traffic)
{
    (void)context, (void)rank, (void)traffic;
}

static void on_say(void *context, const char *line)
{
    (void)context, (void)line;
}

static void on_ended(void *context, psr_err status, const char *line)
{
    cluster *c = context;
    c->status = status;
    snprintf(c->line, sizeof c->line, "%s", line);
    c->scheduler_process.state = PROCESS_LEFT;
    c->decided_us = psr_sim_now_us(c->sim);
}

void scheduler_make(cluster *c)
{
    const psr_scheduler_events events = {
        .context = c,
        .ways = {.context = c, .send = on_send, .connect = on_connect, .refuse = on_refuse},
        .joined = on_joined,
        .begin = on_begin,
        .plan = on_plan,
        .change_decided = on_change_decided,
        .change_happened = on_change_happened,
        .change_answered = on_change_answered,
        .restore = on_restore,
        .started = on_started,
        .metrics = on_metrics,
        .evaluating = on_evaluating,
        .done = on_done,
        .carried = on_carried,
        .checkpoint = on_checkpoint,
        .last_checkpoint = on_last_checkpoint,
        .say = on_say,
        .ended = on_ended,
    };
    assert_int_equal(psr_scheduler_new(&c->config, &events, "head", 0, &c->scheduler), PSR_OK);
    c->coordinator = psr_scheduler_coordinator(c->scheduler);
    c->scheduler_process.state = PROCESS_RUNS;
    c->scheduler_process.tick_us = psr_coordinator_next_tick(c->coordinator) * 1000;
}

/* A person asks for a mode, whatever the run does: it may be refused. */
static void ask(cluster *c)
{
    if (cluster_draw(c, 1000) >= c->options.asks_permille)
        return;
    const psr_mode mode = cluster_draw(c, 2) == 0 ? PSR_MODE_PS : PSR_MODE_RING;
    c->asked += psr_scheduler_change(c->scheduler, mode) == PSR_OK;
}

void scheduler_turn(cluster *c)
{
    process *p = &c->scheduler_process;
    psr_message *message = NULL;
    while (p->state == PROCESS_RUNS && psr_transport_recv(p->transport, 0, &message) == PSR_OK) {
        psr_coordinator_message(c->coordinator, message, cluster_now_ms(c));
        psr_message_free(&message);
        if (p->state == PROCESS_RUNS && c->options.asks_permille > 0)
            ask(c);
    }
    if (p->state == PROCESS_RUNS)
        psr_coordinator_tick(c->coordinator, cluster_now_ms(c));
    p->tick_us = NEVER;
    if (p->state == PROCESS_RUNS)
        p->tick_us = psr_coordinator_next_tick(c->coordinator) * 1000;
}

void cluster_stop(cluster *c)
{
    if (c->stop_told || c->scheduler_process.state != PROCESS_RUNS)
        return;
    c->stop_told = true;
    psr_scheduler_stop(c->scheduler);
}

void disk_turn(cluster *c, uint64_t steps)
{
    c->disk_us[cell_of(c, steps)] = NEVER;
    psr_scheduler_checkpointed(c->scheduler, steps);
}
