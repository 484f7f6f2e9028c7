#include "bench/emulation/emulation_private.h"

#include "comm/wire/messages.h"

#include <stdlib.h>

/* ---- giving way ---- */

static void give_way(psr_emulated_worker *w, int64_t wakes_us)
{
    w->wakes_us = wakes_us;
    swapcontext(&w->context, &w->process.in->events);
}

static void pause_until_changed(void *context)
{
    give_way(context, PSR_EMULATION_NEVER);
}

static void pass_time(void *context, double seconds)
{
    psr_emulated_worker *w = context;
    const psr_emulation_options *o = &w->process.in->options;
    if (o->compute != NULL) {
        o->compute(o->computing, w, seconds);
        give_way(w, PSR_EMULATION_NEVER);
        return;
    }
    give_way(w, psr_sim_now_us(w->process.in->sim) + (int64_t)(seconds * 1e6 + 0.5));
}

static void go_on(void *context)
{
    psr_emulated_worker *w = context;
    w->wakes_us = psr_sim_now_us(w->process.in->sim);
}

void psr_emulated_wake(psr_emulated_worker *w)
{
    go_on(w);
    psr_emulated_changed(&w->process);
}

psr_err psr_emulated_compute(psr_emulated_worker *w, psr_phase phase, int64_t for_us)
{
    psr_session_progress(w->session, (int)phase);
    w->computes = true;
    psr_err err = psr_session_pause(w->session, (double)for_us * 1e-6);
    w->computes = false;
    psr_session_progress(w->session, (int)phase);
    return err;
}

/* ---- the compute thread ---- */

/* makecontext passes integers alone: the pointer goes in two halves. */
static void enter(unsigned high, unsigned low)
{
    psr_emulated_worker *w = (psr_emulated_worker *)((uintptr_t)high << 32 | (uintptr_t)low);
    const psr_emulation_play *play = &w->process.in->options.play;
    w->result = play->train(play->context, w);
    if (w->result != PSR_OK)
        psr_session_fail(w->session, w->result);
    w->ended = true;
    give_way(w, PSR_EMULATION_NEVER);
}

void psr_emulated_worker_resume(psr_emulated_worker *w)
{
    w->wakes_us = PSR_EMULATION_NEVER;
    swapcontext(&w->process.in->events, &w->context);
}

static psr_err make_compute_thread(psr_emulated_worker *w)
{
    const size_t bytes = w->process.in->options.stack_bytes;
    const uintptr_t self = (uintptr_t)w;
    w->stack = malloc(bytes);
    if (w->stack == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a stack");
    getcontext(&w->context);
    w->context.uc_stack.ss_sp = w->stack;
    w->context.uc_stack.ss_size = bytes;
    w->context.uc_link = NULL;
    makecontext(&w->context, (void (*)(void))(uintptr_t)enter, 2, (unsigned)((uint64_t)self >> 32),
                (unsigned)self);
    w->wakes_us = psr_sim_now_us(w->process.in->sim);
    return PSR_OK;
}

/* ---- life ---- */

void psr_emulated_worker_report(void *context, psr_msg_progress *progress)
{
    const psr_emulated_worker *w = context;
    if (w->session != NULL)
        psr_session_report(w->session, progress);
}

static psr_err connect_peers(void *context, const psr_plan *plan)
{
    return psr_peers_connect(&((psr_emulated_worker *)context)->peers, plan);
}

psr_err psr_emulated_worker_welcomed(psr_emulated_worker *w)
{
    const psr_emulation_options *o = &w->process.in->options;
    w->waiter = (psr_loop_waiter){w, pause_until_changed, pass_time, go_on, psr_emulated_now_ns};
    w->observer = (psr_observer){.context = w, .see = psr_emulated_see};
    psr_worker_start start;
    PSR_TRY(psr_worker_start_from_json(psr_member_agreed(w->process.member), &start));
    w->first_step = start.first_step;
    const psr_plan *plan = &psr_member_view(w->process.member)->plan;
    psr_ways ways = {.count = 0};
    PSR_TRY(psr_engine_choose(o->config, plan, &ways));
    PSR_TRY(psr_peers_init(w->process.member, &w->peers));
    PSR_TRY(connect_peers(w, plan));
    const psr_session_options session = {.first_step = start.first_step,
                                         .total_steps = start.total_steps,
                                         .view = psr_member_view(w->process.member),
                                         .commands_max = psr_exchange_commands_max(o->buckets),
                                         .transport = w->process.transport,
                                         .member = w->process.member,
                                         .waiter = &w->waiter};
    PSR_TRY(psr_session_new(&session, &w->session));
    const psr_exchange_options exchange = {.session = w->session,
                                           .config = o->config,
                                           .layout = o->layout,
                                           .buckets = o->buckets,
                                           .plan = plan,
                                           .rank = w->process.self.rank,
                                           .ways = &ways,
                                           .weights = o->weights,
                                           .gradients = o->gradients,
                                           .context = w,
                                           .rebinding = connect_peers,
                                           .weights_in_place = o->weights_in_place,
                                           .observer = o->see != NULL ? &w->observer : NULL};
    PSR_TRY(psr_exchange_new(&exchange, &w->exchange));
    if (o->play.welcomed != NULL)
        PSR_TRY(o->play.welcomed(o->play.context, w));
    return make_compute_thread(w);
}

/* After its transport. */
void psr_emulated_worker_done(psr_emulated_worker *w)
{
    psr_exchange_free(w->exchange);
    psr_peers_done(&w->peers);
    psr_session_free(w->session);
    free(w->stack);
}
