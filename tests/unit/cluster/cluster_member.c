#include "tests/unit/cluster/cluster_private.h"

#include <stdio.h>
#include <string.h>

/* ---- what is observed ---- */

void process_see(void *context, const psr_observed *observed)
{
    const process *p = context;
    const cluster_options *o = &p->in->options;
    o->see(o->observing, p->self, observed);
}

int64_t process_now_ns(void *context)
{
    return 1000 * psr_sim_now_us(((const process *)context)->in->sim);
}

/* ---- shards ---- */

static psr_err shard_message(void *context, psr_message **message)
{
    shard *s = context;
    return psr_shard_run_message(s->run, message);
}

static psr_err reach(void *context, psr_peer other)
{
    return psr_member_connect(((shard *)context)->process.member, other);
}

static void needs_no_word(void *context)
{
    (void)context;
}

static psr_err shard_welcomed(shard *s)
{
    const cluster *c = s->process.in;
    s->waiter = (psr_loop_waiter){.context = s, .changed = needs_no_word, .now_ns = process_now_ns};
    const psr_loop_options loop = {.transport = s->process.transport,
                                   .member = s->process.member,
                                   .context = s,
                                   .message = shard_message,
                                   .waiter = &s->waiter};
    PSR_TRY(psr_loop_new(&loop, &s->loop));
    if (c->options.see != NULL)
        psr_loop_observe(s->loop, &(psr_observer){.context = s, .see = process_see});
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
    for (uint32_t r = 0; r < c->n; r++)
        PSR_TRY(psr_member_connect(s->process.member, (psr_peer){PSR_ROLE_WORKER, r}));
    return psr_shard_run_begin(s->run);
}

static void shard_report(void *context, psr_msg_progress *progress)
{
    const shard *s = context;
    if (s->run != NULL)
        psr_shard_run_report(s->run, progress);
}

void shard_done(shard *s)
{
    psr_loop_free(s->loop);
    psr_shard_run_free(s->run);
    psr_shard_start_done(&s->start);
}

/* ---- any member ---- */

static psr_err configured(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                          size_t *ret_facts_size)
{
    process *p = context;
    const psr_facts facts = {.identity = "played",
                             .data_name = "none",
                             .total_steps = p->in->options.first_step + p->in->options.steps};
    char *json = NULL;
    psr_config told, *config = p->self.role == PSR_ROLE_SHARD ? &((shard *)p)->config : &told;
    psr_config_defaults(config);
    assert_int_equal(psr_config_from_json(config, given.data, given.size), PSR_OK);
    assert_int_equal(place->ranks, p->in->n);
    if (p->self.role == PSR_ROLE_SHARD)
        return PSR_OK;
    PSR_TRY(psr_facts_to_json(&facts, &json));
    *ret_facts = json;
    *ret_facts_size = strlen(json);
    return PSR_OK;
}

void process_fail(process *p, psr_err status)
{
    p->status = status;
    p->state = PROCESS_FAILED;
    snprintf(p->line, sizeof p->line, "%s", psr_err_detail());
    if (p->member != NULL)
        psr_member_failed(p->member, status, p->line);
}

static psr_err welcomed(process *p)
{
    return p->self.role == PSR_ROLE_WORKER ? worker_welcomed((worker *)p)
                                           : shard_welcomed((shard *)p);
}

static psr_err join(process *p, int64_t *ret_next_ms)
{
    int64_t now_ms = cluster_now_ms(p->in);
    psr_message *message = NULL;
    while (!psr_member_joined(p->member) && psr_transport_recv(p->transport, 0, &message) == PSR_OK)
        PSR_TRY(psr_member_message(p->member, &message, now_ms));
    return psr_member_joined(p->member) ? welcomed(p)
                                        : psr_member_tick(p->member, now_ms, ret_next_ms);
}

static psr_err step(process *p, int64_t *ret_next_ms)
{
    int64_t now_ms = cluster_now_ms(p->in);
    if (!psr_member_joined(p->member))
        PSR_TRY(join(p, ret_next_ms));
    if (!psr_member_joined(p->member))
        return PSR_OK;
    return p->self.role == PSR_ROLE_WORKER
               ? psr_session_step(((worker *)p)->session, now_ms, ret_next_ms)
               : psr_loop_step(((shard *)p)->loop, now_ms, ret_next_ms);
}

static bool has_left(const process *p)
{
    if (p->self.role == PSR_ROLE_WORKER)
        return ((const worker *)p)->ended;
    return ((const shard *)p)->run && psr_shard_run_left(((const shard *)p)->run);
}

void process_turn(process *p)
{
    int64_t next_ms = 0;
    psr_err err = step(p, &next_ms);
    p->tick_us = next_ms * 1000;
    if (err != PSR_OK)
        process_fail(p, err);
    else if (has_left(p))
        p->state = PROCESS_LEFT;
}

void process_start(process *p)
{
    const psr_member_options options = {
        .transport = p->transport,
        .provision = &p->provision,
        .context = p,
        .configured = configured,
        .report = p->self.role == PSR_ROLE_WORKER ? worker_report : shard_report,
    };
    p->state = PROCESS_RUNS;
    p->starts_us = NEVER;
    assert_int_equal(psr_member_open(&options, cluster_now_ms(p->in), &p->member), PSR_OK);
    process_turn(p);
}
