#include "bench/emulation/emulation_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_BYTES_MIN 4096 /* in a CONFIG; the plan may cut finer */

/* ---- processes ---- */

int64_t psr_emulation_now_us(const psr_emulation *e)
{
    return psr_sim_now_us(e->sim);
}

int64_t psr_emulation_now_ms(const psr_emulation *e)
{
    return psr_sim_now_us(e->sim) / 1000;
}

uint32_t psr_emulation_count(const psr_emulation *e)
{
    return e->n + e->s;
}

psr_emulated *psr_emulation_at(const psr_emulation *e, uint32_t i)
{
    return i < e->n ? &e->workers[i].process : &e->shards[i - e->n].process;
}

psr_emulated *psr_emulation_of(psr_emulation *e, psr_peer peer)
{
    if (peer.role == PSR_ROLE_SCHEDULER)
        return &e->scheduler_process;
    return peer.role == PSR_ROLE_WORKER ? &e->workers[peer.rank].process
                                        : &e->shards[peer.rank].process;
}

bool psr_emulated_is_over(const psr_emulated *p)
{
    return p->state == PSR_EMULATED_LEFT || p->state == PSR_EMULATED_FAILED ||
           p->state == PSR_EMULATED_KILLED;
}

bool psr_emulated_hangs(const psr_emulated *p)
{
    if (p->self.role != PSR_ROLE_WORKER)
        return false;
    const psr_emulated_worker *w = (const psr_emulated_worker *)p;
    return w->hung && w->computes;
}

bool psr_emulation_over(const psr_emulation *e)
{
    for (uint32_t i = 0; i < psr_emulation_count(e); i++)
        if (!psr_emulated_is_over(psr_emulation_at(e, i)) &&
            !psr_emulated_hangs(psr_emulation_at(e, i)))
            return false;
    return psr_emulated_is_over(&e->scheduler_process);
}

/* ---- time ---- */

/* The moments of a process: the scheduler's turn, then the turns of workers and shards, then what
 * the workers compute. */
static uint32_t turn_of(const psr_emulated *p)
{
    if (p->self.role == PSR_ROLE_SCHEDULER)
        return 0;
    return 1 + p->self.rank + (p->self.role == PSR_ROLE_SHARD ? p->in->n : 0);
}

static uint32_t computation_of(const psr_emulation *e, uint32_t rank)
{
    return 1 + psr_emulation_count(e) + rank;
}

static int64_t time_of(const psr_emulated *p)
{
    if (p->state == PSR_EMULATED_NOT_YET)
        return p->starts_us;
    return p->state == PSR_EMULATED_RUNS ? p->tick_us : PSR_EMULATION_NEVER;
}

void psr_emulated_changed(psr_emulated *p)
{
    psr_emulation *e = p->in;
    psr_moments_set(&e->moments, turn_of(p), time_of(p));
    if (p->self.role != PSR_ROLE_WORKER)
        return;
    const bool computes = p->state == PSR_EMULATED_RUNS && !psr_emulated_hangs(p);
    psr_moments_set(&e->moments, computation_of(e, p->self.rank),
                    computes ? e->workers[p->self.rank].wakes_us : PSR_EMULATION_NEVER);
}

void psr_emulated_turn(psr_emulated *p)
{
    if (p->self.role == PSR_ROLE_SCHEDULER)
        psr_emulated_scheduler_turn(p->in);
    else if (p->state == PSR_EMULATED_NOT_YET)
        psr_emulated_start(p);
    else
        psr_emulated_member_turn(p);
    psr_emulated_changed(p);
}

/* Processes have been made, and perhaps been told when they start. */
static void begin(psr_emulation *e)
{
    e->began = true;
    psr_emulated_changed(&e->scheduler_process);
    for (uint32_t i = 0; i < psr_emulation_count(e); i++)
        psr_emulated_changed(psr_emulation_at(e, i));
}

static psr_emulated *process_of(psr_emulation *e, uint32_t moment, bool *ret_computes)
{
    const uint32_t count = psr_emulation_count(e);
    *ret_computes = moment > count;
    if (moment == 0)
        return &e->scheduler_process;
    return psr_emulation_at(e, *ret_computes ? moment - 1 - count : moment - 1);
}

int64_t psr_emulation_next_us(psr_emulation *e)
{
    if (!e->began)
        begin(e);
    const uint32_t first = psr_moments_first(&e->moments);
    const int64_t delivery_us = psr_sim_next_us(e->sim), other_us = e->moments.at_us[first];
    e->next_who = NULL;
    if (other_us < delivery_us)
        e->next_who = process_of(e, first, &e->next_computes);
    e->next_us = other_us < delivery_us ? other_us : delivery_us;
    return e->next_us;
}

static void deliver(psr_emulation *e)
{
    psr_peer to;
    if (psr_sim_step(e->sim, &to) && psr_emulation_of(e, to)->state == PSR_EMULATED_RUNS)
        psr_emulated_turn(psr_emulation_of(e, to));
}

void psr_emulation_step(psr_emulation *e)
{
    if (e->next_who == NULL) {
        deliver(e);
        return;
    }
    const int64_t now_us = psr_sim_now_us(e->sim); /* what was due while it was stopped is late */
    psr_sim_pass(e->sim, e->next_us > now_us ? e->next_us : now_us);
    psr_emulated *who = e->next_who;
    if (e->next_computes)
        psr_emulated_worker_resume((psr_emulated_worker *)who);
    psr_emulated_turn(who);
}

/* ---- making ---- */

static psr_err make_process(psr_emulation *e, psr_emulated *p, psr_peer self)
{
    p->in = e;
    p->self = self;
    p->tick_us = PSR_EMULATION_NEVER;
    p->starts_us = self.role == PSR_ROLE_SCHEDULER ? PSR_EMULATION_NEVER : 0;
    p->provision.self = self;
    snprintf(p->provision.host, sizeof p->provision.host, "%c%u", psr_role_name(self.role)[0],
             (unsigned)self.rank);
    strcpy(p->provision.scheduler, "sim://scheduler/0");
    return psr_transport_sim_new(e->sim, self, &p->transport);
}

static psr_err make_members(psr_emulation *e)
{
    e->workers = calloc(e->n, sizeof *e->workers);
    e->shards = calloc(e->s + 1, sizeof *e->shards);
    if (e->workers == NULL || e->shards == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u processes", e->n + e->s);
    PSR_TRY(make_process(e, &e->scheduler_process, (psr_peer){PSR_ROLE_SCHEDULER, 0}));
    for (uint32_t r = 0; r < e->n; r++) {
        e->workers[r].wakes_us = PSR_EMULATION_NEVER;
        PSR_TRY(make_process(e, &e->workers[r].process, (psr_peer){PSR_ROLE_WORKER, r}));
    }
    for (uint32_t s = 0; s < e->s; s++)
        PSR_TRY(make_process(e, &e->shards[s].process, (psr_peer){PSR_ROLE_SHARD, s}));
    return PSR_OK;
}

psr_err psr_emulation_new(const psr_emulation_options *options, psr_emulation **ret_emulation)
{
    psr_emulation *e = calloc(1, sizeof *e);
    if (e == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an emulated run");
    e->options = *options;
    e->config = *options->config;
    if (e->config.slice_bytes < SLICE_BYTES_MIN)
        e->config.slice_bytes = SLICE_BYTES_MIN;
    e->n = e->config.workers;
    e->s = psr_config_shards(&e->config);
    e->sim = options->sim;
    e->joined_us = e->decided_us = PSR_EMULATION_NEVER;
    psr_err err = make_members(e);
    if (err == PSR_OK)
        err = psr_moments_init(&e->moments, 1 + psr_emulation_count(e) + e->n);
    if (err == PSR_OK)
        err = psr_emulated_scheduler_make(e);
    if (err == PSR_OK)
        *ret_emulation = e;
    else
        psr_emulation_free(e, NULL);
    return err;
}

/* What is lent to a transport comes back when the network ends; what borrows of a view goes before
 * the member, whose it is. */
void psr_emulation_free(psr_emulation *e, void (*freed)(void *context, psr_emulated_worker *worker))
{
    if (e == NULL)
        return;
    const bool made = e->workers != NULL && e->shards != NULL;
    const uint32_t count = made ? psr_emulation_count(e) : 0;
    for (uint32_t i = 0; i < count; i++)
        psr_transport_free(&psr_emulation_at(e, i)->transport, 0);
    psr_transport_free(&e->scheduler_process.transport, 0);
    psr_sim_free(e->sim);
    psr_scheduler_free(e->scheduler);
    for (uint32_t r = 0; made && r < e->n; r++) {
        psr_emulated_worker_done(&e->workers[r]);
        if (freed != NULL)
            freed(e->options.play.context, &e->workers[r]);
    }
    for (uint32_t s = 0; made && s < e->s; s++)
        psr_emulated_shard_done(&e->shards[s]);
    for (uint32_t i = 0; i < count; i++)
        psr_member_free(psr_emulation_at(e, i)->member);
    psr_moments_done(&e->moments);
    free(e->workers);
    free(e->shards);
    free(e);
}
