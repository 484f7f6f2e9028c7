#include "bench/emulation/emulation_private.h"

#include <stdio.h>
#include <string.h>

/* ---- what is observed ---- */

void psr_emulated_see(void *context, const psr_observed *observed)
{
    const psr_emulated *p = context;
    const psr_emulation_options *o = &p->in->options;
    o->see(o->observing, p->self, observed);
}

int64_t psr_emulated_now_ns(void *context)
{
    return 1000 * psr_sim_now_us(((const psr_emulated *)context)->in->sim);
}

/* ---- shards ---- */

static psr_err shard_message(void *context, psr_message **message)
{
    psr_emulated_shard *s = context;
    return psr_shard_run_message(s->run, message);
}

static psr_err reach(void *context, psr_peer other)
{
    return psr_member_connect(((psr_emulated_shard *)context)->process.member, other);
}

static void needs_no_word(void *context)
{
    (void)context;
}

static psr_err shard_welcomed(psr_emulated_shard *s)
{
    const psr_emulation *e = s->process.in;
    s->waiter =
        (psr_loop_waiter){.context = s, .changed = needs_no_word, .now_ns = psr_emulated_now_ns};
    const psr_loop_options loop = {.transport = s->process.transport,
                                   .member = s->process.member,
                                   .context = s,
                                   .message = shard_message,
                                   .waiter = &s->waiter};
    PSR_TRY(psr_loop_new(&loop, &s->loop));
    if (e->options.see != NULL)
        psr_loop_observe(s->loop, &(psr_observer){.context = s, .see = psr_emulated_see});
    PSR_TRY(psr_shard_start_from_json(psr_member_agreed(s->process.member), &s->start));
    const psr_shard_options options = {
        .config = &s->config,
        .layout = &s->start.layout,
        .plan = &psr_member_view(s->process.member)->plan,
        .shard = s->process.self.rank,
        .total_steps = s->start.total_steps,
        .first_step = s->start.first_step,
        .outbox = psr_loop_outbox(s->loop),
        .peers = s,
        .reach = reach,
    };
    PSR_TRY(psr_shard_run_new(&options, &s->run));
    for (uint32_t r = 0; r < e->n; r++)
        PSR_TRY(psr_member_connect(s->process.member, (psr_peer){PSR_ROLE_WORKER, r}));
    return psr_shard_run_begin(s->run);
}

static void shard_report(void *context, psr_msg_progress *progress)
{
    const psr_emulated_shard *s = context;
    if (s->run != NULL)
        psr_shard_run_report(s->run, progress);
}

void psr_emulated_shard_done(psr_emulated_shard *s)
{
    psr_loop_free(s->loop);
    psr_shard_run_free(s->run);
    psr_shard_start_done(&s->start);
}

/* ---- any member ---- */

static psr_err configured(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                          size_t *ret_facts_size)
{
    psr_emulated *p = context;
    const psr_facts facts = {.identity = "played",
                             .data_name = "none",
                             .total_steps = p->in->options.first_step + p->in->options.steps};
    char *json = NULL;
    psr_config told,
        *config = p->self.role == PSR_ROLE_SHARD ? &((psr_emulated_shard *)p)->config : &told;
    psr_config_defaults(config);
    PSR_TRY(psr_config_from_json(config, given.data, given.size));
    if (place->ranks != p->in->n)
        return psr_fail(PSR_ERR_PROTOCOL, "%u workers rather than %u", place->ranks, p->in->n);
    if (p->self.role == PSR_ROLE_SHARD)
        return PSR_OK;
    PSR_TRY(psr_facts_to_json(&facts, &json));
    *ret_facts = json;
    *ret_facts_size = strlen(json);
    return PSR_OK;
}

void psr_emulated_fail(psr_emulated *p, psr_err status)
{
    p->status = status;
    p->state = PSR_EMULATED_FAILED;
    if (p->in->failed == NULL)
        p->in->failed = p;
    snprintf(p->line, sizeof p->line, "%s", psr_err_detail());
    if (p->member != NULL)
        psr_member_failed(p->member, status, p->line);
}

static psr_err welcomed(psr_emulated *p)
{
    return p->self.role == PSR_ROLE_WORKER ? psr_emulated_worker_welcomed((psr_emulated_worker *)p)
                                           : shard_welcomed((psr_emulated_shard *)p);
}

static psr_err join(psr_emulated *p, int64_t *ret_next_ms)
{
    int64_t now_ms = psr_emulation_now_ms(p->in);
    psr_message *message = NULL;
    while (!psr_member_joined(p->member) && psr_transport_recv(p->transport, 0, &message) == PSR_OK)
        PSR_TRY(psr_member_message(p->member, &message, now_ms));
    return psr_member_joined(p->member) ? welcomed(p)
                                        : psr_member_tick(p->member, now_ms, ret_next_ms);
}

static psr_err step(psr_emulated *p, int64_t *ret_next_ms)
{
    int64_t now_ms = psr_emulation_now_ms(p->in);
    if (!psr_member_joined(p->member))
        PSR_TRY(join(p, ret_next_ms));
    if (!psr_member_joined(p->member))
        return PSR_OK;
    return p->self.role == PSR_ROLE_WORKER
               ? psr_session_step(((psr_emulated_worker *)p)->session, now_ms, ret_next_ms)
               : psr_loop_step(((psr_emulated_shard *)p)->loop, now_ms, ret_next_ms);
}

static bool has_left(const psr_emulated *p)
{
    if (p->self.role == PSR_ROLE_WORKER)
        return ((const psr_emulated_worker *)p)->ended;
    return ((const psr_emulated_shard *)p)->run &&
           psr_shard_run_left(((const psr_emulated_shard *)p)->run);
}

void psr_emulated_member_turn(psr_emulated *p)
{
    int64_t next_ms = 0;
    psr_err err = step(p, &next_ms);
    p->tick_us = next_ms * 1000;
    if (err != PSR_OK)
        psr_emulated_fail(p, err);
    else if (has_left(p))
        p->state = PSR_EMULATED_LEFT;
}

void psr_emulated_start(psr_emulated *p)
{
    const psr_member_options options = {
        .transport = p->transport,
        .provision = &p->provision,
        .context = p,
        .configured = configured,
        .report = p->self.role == PSR_ROLE_WORKER ? psr_emulated_worker_report : shard_report,
    };
    p->state = PSR_EMULATED_RUNS;
    p->starts_us = PSR_EMULATION_NEVER;
    psr_err err = psr_member_open(&options, psr_emulation_now_ms(p->in), &p->member);
    if (err == PSR_OK)
        psr_emulated_member_turn(p);
    else
        psr_emulated_fail(p, err);
}
