#include "bench/emulation/emulation_private.h"

#include <stdio.h>

static psr_err on_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    psr_emulation *e = context;
    return psr_transport_send(e->scheduler_process.transport, to, head, payload);
}

static psr_err on_connect(void *context, psr_peer peer, const char *endpoint)
{
    psr_emulation *e = context;
    return psr_transport_connect(e->scheduler_process.transport, peer, endpoint, NULL);
}

static void on_refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    psr_emulation *e = context;
    psr_transport_refuse(e->scheduler_process.transport, join, status, line);
}

static void on_joined(void *context, const psr_view_member *entry, uint32_t count, uint32_t total)
{
    psr_emulation *e = context;
    (void)entry;
    if (count == total)
        e->joined_us = psr_sim_now_us(e->sim);
}

static psr_err on_plan(void *context, psr_mode mode, psr_plan *ret_plan)
{
    const psr_emulation_options *o = &((const psr_emulation *)context)->options;
    return psr_parts_plan(o->config, mode, o->layout, o->buckets, o->hosts, ret_plan);
}

static psr_err on_begin(void *context, const psr_config *config, const psr_facts *facts,
                        const psr_view *members, psr_beginning *ret_beginning)
{
    const psr_emulation *e = context;
    (void)config, (void)facts, (void)members;
    ret_beginning->first_step = e->options.first_step;
    ret_beginning->layout = e->options.layout;
    return on_plan(context, psr_config_mode_at(&e->config, e->options.first_step),
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
    const psr_emulation_play *play = &((const psr_emulation *)context)->options.play;
    (void)change;
    if (play->change_happened != NULL)
        play->change_happened(play->context);
}

static void on_change_answered(void *context, psr_err status, const char *line)
{
    const psr_emulation_play *play = &((const psr_emulation *)context)->options.play;
    (void)status, (void)line;
    if (play->change_answered != NULL)
        play->change_answered(play->context);
}

static psr_err on_restore(void *context)
{
    const psr_emulation_play *play = &((const psr_emulation *)context)->options.play;
    return play->restore != NULL ? play->restore(play->context) : PSR_OK;
}

static psr_err on_started(void *context, const psr_computing *computing)
{
    const psr_emulation_play *play = &((const psr_emulation *)context)->options.play;
    (void)computing;
    if (play->started != NULL)
        play->started(play->context);
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

static psr_err on_checkpoint(void *context, uint64_t step, uint32_t section, const float *data,
                             size_t offset, size_t count)
{
    const psr_emulation_play *play = &((const psr_emulation *)context)->options.play;
    return play->checkpoint != NULL
               ? play->checkpoint(play->context, step, section, data, offset, count)
               : PSR_OK;
}

static psr_err on_last_checkpoint(void *context, uint64_t step)
{
    psr_emulation *e = context;
    const psr_emulation_play *play = &e->options.play;
    return play->last_checkpoint != NULL ? play->last_checkpoint(play->context, step) : PSR_OK;
}

static void on_say(void *context, const char *line)
{
    (void)context, (void)line;
}

static void on_ended(void *context, psr_err status, const char *line)
{
    psr_emulation *e = context;
    e->status = status;
    snprintf(e->line, sizeof e->line, "%s", line);
    e->scheduler_process.state = PSR_EMULATED_LEFT;
    e->decided_us = psr_sim_now_us(e->sim);
}

psr_err psr_emulated_scheduler_make(psr_emulation *e)
{
    const psr_scheduler_events events = {
        .context = e,
        .ways = {.context = e, .send = on_send, .connect = on_connect, .refuse = on_refuse},
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
    PSR_TRY(psr_scheduler_new(&e->config, &events, "head", 0, &e->scheduler));
    e->coordinator = psr_scheduler_coordinator(e->scheduler);
    e->scheduler_process.state = PSR_EMULATED_RUNS;
    e->scheduler_process.tick_us = psr_coordinator_next_tick(e->coordinator) * 1000;
    return PSR_OK;
}

void psr_emulated_scheduler_turn(psr_emulation *e)
{
    psr_emulated *p = &e->scheduler_process;
    const psr_emulation_play *play = &e->options.play;
    psr_message *message = NULL;
    while (p->state == PSR_EMULATED_RUNS &&
           psr_transport_recv(p->transport, 0, &message) == PSR_OK) {
        psr_coordinator_message(e->coordinator, message, psr_emulation_now_ms(e));
        psr_message_free(&message);
        if (p->state == PSR_EMULATED_RUNS && play->scheduler_took != NULL)
            play->scheduler_took(play->context);
    }
    if (p->state == PSR_EMULATED_RUNS)
        psr_coordinator_tick(e->coordinator, psr_emulation_now_ms(e));
    p->tick_us = PSR_EMULATION_NEVER;
    if (p->state == PSR_EMULATED_RUNS)
        p->tick_us = psr_coordinator_next_tick(e->coordinator) * 1000;
}
