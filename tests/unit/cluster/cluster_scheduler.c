#include "tests/unit/cluster/cluster_private.h"

#include "comm/wire/encoding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISK_MAX_US 20000 /* until it has a checkpoint */

/* ---- checkpoints ---- */

static size_t sections_of(const cluster *c)
{
    return 2 + CLUSTER_SLOTS + c->n;
}

static size_t index_of(uint32_t section)
{
    if (section >= PSR_SECTION_RESIDUAL(0))
        return 2 + CLUSTER_SLOTS + section - PSR_SECTION_RESIDUAL(0);
    if (section >= PSR_SECTION_SLOT(0))
        return 2 + section - PSR_SECTION_SLOT(0);
    return section == PSR_SECTION_WEIGHTS ? 0 : 1;
}

void checkpoints_make(cluster *c)
{
    size_t cells = c->options.steps + 1;
    psr_compression compression, pulled;
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
    assert_int_equal(psr_compression_parse(c->config.compress_weights, &pulled), PSR_OK);
    c->owes = psr_compression_has_residual(compression);
    c->pulls_differences = psr_compression_has_residual(pulled);
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
    bool whole = is_filled(c, steps, PSR_SECTION_WEIGHTS) &&
                 (!c->pulls_differences || is_filled(c, steps, PSR_SECTION_PULLED));
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

const float *cluster_pulled(const cluster *c, uint64_t steps)
{
    return section(c, steps, PSR_SECTION_PULLED);
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

static void on_change_happened(void *context)
{
    cluster *c = context;
    c->changes++;
}

static void on_change_answered(void *context)
{
    cluster *c = context;
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
        PSR_TRY(psr_transport_send(c->emulation->scheduler_process.transport,
                                   (psr_peer){PSR_ROLE_WORKER, to}, &head, &payload));
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
    if (err == PSR_OK && c->pulls_differences) {
        cluster_initial_pulled(c->options.layout, values);
        err = restore_section(c, 0, PSR_SECTION_PULLED, values);
    }
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

/* A person asks for a mode, whatever the run does: it may be refused. */
static void ask(void *context)
{
    cluster *c = context;
    if (c->options.asks_permille == 0 || cluster_draw(c, 1000) >= c->options.asks_permille)
        return;
    const psr_mode mode = cluster_draw(c, 2) == 0 ? PSR_MODE_PS : PSR_MODE_RING;
    c->asked += psr_scheduler_change(c->emulation->scheduler, mode) == PSR_OK;
}

void scheduler_played(psr_emulation_play *play)
{
    play->checkpoint = on_checkpoint;
    play->last_checkpoint = on_last_checkpoint;
    play->restore = on_restore;
    play->change_happened = on_change_happened;
    play->change_answered = on_change_answered;
    play->scheduler_took = ask;
}

void cluster_stop(cluster *c)
{
    if (c->stop_told || c->emulation->scheduler_process.state != PSR_EMULATED_RUNS)
        return;
    c->stop_told = true;
    psr_scheduler_stop(c->emulation->scheduler);
}

void disk_turn(cluster *c, uint64_t steps)
{
    c->disk_us[cell_of(c, steps)] = NEVER;
    psr_scheduler_checkpointed(c->emulation->scheduler, steps);
}
