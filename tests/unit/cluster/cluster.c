#include "tests/unit/cluster/cluster_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_MAX_US 50000 /* until a process says JOIN */
#define LONGEST_RUN_US (600 * (int64_t)1000000)

/* ---- numbers ---- */

static uint32_t word_of(uint64_t purpose, uint64_t a, uint64_t b, uint64_t i)
{
    psr_rng_at at = {.seed = 7,
                     .purpose = PSR_RNG_TEST,
                     .epoch = (uint32_t)a,
                     .sample = (uint32_t)b,
                     .layer = (uint32_t)purpose};
    return psr_rng_word(at, i);
}

float cluster_gradient(uint32_t rank, uint64_t step, size_t i)
{
    uint32_t word = word_of(1, step, rank, i);
    return ldexpf(psr_rng_unit(word) - 0.5f, (int)(word & 15) - 10);
}

void cluster_initial_weights(const psr_layout *layout, float *weights)
{
    for (size_t i = 0; i < layout->length; i++)
        weights[i] = psr_rng_unit(word_of(2, 0, 0, i)) - 0.5f;
}

void cluster_initial_slot(const psr_layout *layout, uint32_t slot, float *values)
{
    for (size_t i = 0; i < layout->length; i++)
        values[i] = psr_rng_unit(word_of(3, slot, 0, i));
}

void cluster_initial_pulled(const psr_layout *layout, float *values)
{
    for (size_t i = 0; i < layout->length; i++)
        values[i] = psr_rng_unit(word_of(5, 0, 0, i)) - 0.5f;
}

void cluster_initial_residual(const psr_layout *layout, uint32_t rank, float *values)
{
    for (size_t i = 0; i < layout->length; i++)
        values[i] = psr_rng_unit(word_of(4, rank, 0, i)) - 0.5f;
}

uint32_t cluster_draw(cluster *c, uint32_t below)
{
    psr_rng_at at = {.seed = c->options.seed, .purpose = PSR_RNG_TEST, .layer = 9};
    return psr_rng_below(at, &c->drawn, below);
}

static psr_emulated *process_of(cluster *c, psr_peer peer)
{
    return psr_emulation_of(c->emulation, peer);
}

/* ---- faults ---- */

static bool is_done(cluster *c, const psr_emulated *p)
{
    if (p->self.role == PSR_ROLE_SCHEDULER)
        return psr_emulated_is_over(p);
    if (p->self.role == PSR_ROLE_WORKER)
        return c->workers[p->self.rank].done;
    const psr_shard_run *run = c->emulation->shards[p->self.rank].run;
    return run != NULL && psr_shard_run_traffic(run) != NULL;
}

static void begin_fault(cluster *c)
{
    const cluster_fault *fault = &c->options.fault;
    psr_emulated *p = process_of(c, fault->who);
    c->fault_us = NEVER;
    if (psr_emulated_is_over(p))
        return;
    if (fault->kind != CLUSTER_HUNG && fault->kind != CLUSTER_DEVICE_STUCK && !is_done(c, p))
        c->struck_us = psr_sim_now_us(c->sim);
    if (fault->kind == CLUSTER_HUNG) {
        c->emulation->workers[fault->who.rank].hung = true;
    } else if (fault->kind == CLUSTER_DEVICE_STUCK) {
        c->workers[fault->who.rank].device_stuck = true;
    } else if (fault->kind == CLUSTER_STOPPED) {
        p->state = PSR_EMULATED_STOPPED;
        c->resume_us = psr_sim_now_us(c->sim) + fault->for_us;
    } else {
        p->state = PSR_EMULATED_KILLED;
        psr_sim_cut(c->sim, p->self);
        if (fault->kind == CLUSTER_LOST)
            psr_coordinator_lost(c->emulation->coordinator, p->self, p->provision.host, false,
                                 "killed by signal 9", psr_emulation_now_ms(c->emulation));
    }
    psr_emulated_changed(p);
}

static void end_fault(cluster *c)
{
    psr_emulated *p = process_of(c, c->options.fault.who);
    c->resume_us = NEVER;
    p->state = p->starts_us == NEVER ? PSR_EMULATED_RUNS : PSR_EMULATED_NOT_YET;
    psr_emulated_turn(p);
}

/* ---- time ---- */

/* What happens beside the processes. */
typedef struct moment {
    int64_t at_us;
    enum { A_DEVICE, A_CHECKPOINT, A_FAULT, A_FAULTS_END } what;
    worker *who;
    uint64_t steps;
} moment;

static void consider(moment *earliest, moment other)
{
    if (other.at_us < earliest->at_us)
        *earliest = other;
}

static moment next_moment(cluster *c)
{
    const psr_emulation *e = c->emulation;
    moment next = {.at_us = NEVER};
    for (uint32_t r = 0; r < c->n; r++)
        if (e->workers[r].process.state == PSR_EMULATED_RUNS)
            consider(&next,
                     (moment){worker_device_us(&c->workers[r]), A_DEVICE, &c->workers[r], 0});
    for (uint64_t k = 0; k <= c->options.steps && e->scheduler_process.state == PSR_EMULATED_RUNS;
         k++)
        consider(&next, (moment){c->disk_us[k], A_CHECKPOINT, NULL, c->options.first_step + k});
    consider(&next, (moment){c->fault_us, A_FAULT, NULL, 0});
    consider(&next, (moment){c->resume_us, A_FAULTS_END, NULL, 0});
    return next;
}

static void happen(cluster *c, const moment *m)
{
    int64_t now_us =
        psr_sim_now_us(c->sim); /* what was due while its process was stopped is late */
    psr_sim_pass(c->sim, m->at_us > now_us ? m->at_us : now_us);
    switch (m->what) {
    case A_DEVICE:
        worker_device_turn(m->who);
        psr_emulated_turn(&m->who->real->process);
        break;
    case A_CHECKPOINT:
        disk_turn(c, m->steps);
        break;
    case A_FAULT:
        begin_fault(c);
        break;
    case A_FAULTS_END:
        end_fault(c);
        break;
    }
}

static bool device_is_stuck(const worker *w)
{
    for (uint32_t b = 0; w->device_stuck && b < w->in->options.buckets->count; b++)
        if (w->device != NULL && w->device[b].due_us != NEVER)
            return true;
    return false;
}

/* One that hangs does so when it computes next; a device that is stuck, when it has something to
 * do. */
static void see_fault(cluster *c)
{
    const cluster_fault_kind kind = c->options.fault.kind;
    if (c->struck_us != NEVER || (kind != CLUSTER_HUNG && kind != CLUSTER_DEVICE_STUCK))
        return;
    const psr_emulated *p = process_of(c, c->options.fault.who);
    const bool strikes =
        kind == CLUSTER_HUNG ? psr_emulated_hangs(p) : device_is_stuck(&c->workers[p->self.rank]);
    if (p->state == PSR_EMULATED_RUNS && strikes)
        c->struck_us = psr_sim_now_us(c->sim);
}

static void see_pushes(cluster *c)
{
    for (uint32_t i = 0; i < c->n * c->s && c->options.counts_pushes; i++) {
        size_t count = psr_sim_under_way(c->sim, (psr_peer){PSR_ROLE_WORKER, i / c->s},
                                         (psr_peer){PSR_ROLE_SHARD, i % c->s}, PSR_MSG_PUSH);
        c->pushes_in_flight = count > c->pushes_in_flight ? count : c->pushes_in_flight;
    }
}

static void run(cluster *c)
{
    while (!psr_emulation_over(c->emulation)) {
        const int64_t by_itself_us = psr_emulation_next_us(c->emulation);
        const moment next = next_moment(c);
        if ((by_itself_us == NEVER && next.at_us == NEVER) ||
            psr_sim_now_us(c->sim) > LONGEST_RUN_US)
            fail_msg("seed %llu: nothing happens any more and not all have ended: it hangs",
                     (unsigned long long)c->options.seed);
        if (by_itself_us <= next.at_us)
            psr_emulation_step(c->emulation);
        else
            happen(c, &next);
        see_fault(c);
        see_pushes(c);
    }
    c->ended_us = psr_sim_now_us(c->sim);
}

/* ---- making and checking ---- */

static void make_hosts(cluster *c)
{
    c->hosts.first = c->first;
    for (uint32_t rank = 0; rank < c->n; rank++)
        if (rank == 0 || (c->options.shares >> rank & 1) == 0)
            c->first[c->hosts.count++] = rank;
    c->first[c->hosts.count] = c->n;
}

static void make_emulation(cluster *c)
{
    const cluster_options *o = &c->options;
    psr_emulation_options options = {
        .config = o->config,
        .layout = o->layout,
        .buckets = o->buckets,
        .steps = o->steps,
        .first_step = o->first_step,
        .hosts = &c->hosts,
        .sim = c->sim,
        .weights_in_place = o->seed / 2 % 2 == 1,
        .stack_bytes = 256 << 10,
        .play = {.context = c, .train = worker_trains, .welcomed = worker_welcomed},
        .observing = o->observing,
        .see = o->see,
    };
    scheduler_played(&options.play);
    assert_int_equal(psr_emulation_new(&options, &c->emulation), PSR_OK);
    c->workers = calloc(c->n, sizeof *c->workers);
    for (uint32_t r = 0; r < c->n; r++) {
        c->workers[r] = (worker){.in = c, .real = &c->emulation->workers[r], .rank = r};
        c->emulation->workers[r].played = &c->workers[r];
    }
    for (uint32_t i = 0; i < c->n + c->s; i++)
        psr_emulation_at(c->emulation, i)->starts_us = cluster_draw(c, START_MAX_US);
}

static cluster *make(const cluster_options *options)
{
    static const uint32_t delays_us[] = {0, 100, 1000, 20000}, computes_us[] = {100, 1000, 5000};
    cluster *c = calloc(1, sizeof *c);
    c->options = *options;
    c->config = *options->config;
    c->n = c->config.workers;
    c->s = psr_config_shards(&c->config);
    c->fault_us = c->resume_us = c->struck_us = NEVER;
    if (options->fault.kind != CLUSTER_FAULTLESS)
        c->fault_us = options->fault.at_us;
    c->compute_max_us = computes_us[options->seed % 3];
    const psr_sim_faults faults = {.seed = options->seed,
                                   .delay_max_us = delays_us[options->seed / 3 % 4],
                                   .duplicate_permille = options->duplicate_permille,
                                   .by_reference = options->seed / 2 % 2 == 1};
    assert_int_equal(psr_sim_new(&faults, &c->sim), PSR_OK);
    checkpoints_make(c);
    make_hosts(c);
    make_emulation(c);
    return c;
}

/* Without a fault, or with one that the run survives. */
static void check_end(const cluster *c)
{
    const psr_emulation *e = c->emulation;
    for (uint32_t i = 0; i < psr_emulation_count(e); i++) {
        const psr_emulated *p = psr_emulation_at(e, i);
        if (p->state != PSR_EMULATED_LEFT)
            fail_msg("seed %llu: %s %u: %s; the scheduler: %s", (unsigned long long)c->options.seed,
                     psr_role_name(p->self.role), (unsigned)p->self.rank, p->line, e->line);
    }
    /* Who is told to stop in the last step has taken all. */
    const bool all = cluster_steps(c) == c->options.first_step + c->options.steps;
    if (e->status != (c->stop_told && !all ? PSR_ERR_CANCELLED : PSR_OK) &&
        !(all && c->stop_told && e->status == PSR_ERR_CANCELLED))
        fail_msg("seed %llu: %s", (unsigned long long)c->options.seed, e->line);
    assert_int_equal(c->answered, c->asked); /* nobody who asked waits for ever */
    if (cluster_steps(c) > c->options.first_step)
        assert_true(checkpoint_is_whole(c, cluster_steps(c)));
}

static uint64_t runs;

static double begin_s;

cluster *cluster_run(const cluster_options *options)
{
    if (runs++ == 0)
        begin_s = psr_clock_s();
    psr_log_init("cluster", PSR_LOG_WARN);
    cluster *c = make(options);
    run(c);
    const cluster_fault *fault = &options->fault;
    bool short_stop = fault->kind == CLUSTER_STOPPED &&
                      (double)fault->for_us * 1e-6 < options->config->deadline_s;
    if (fault->kind == CLUSTER_FAULTLESS || short_stop)
        check_end(c);
    return c;
}

int cluster_print_rate(void **state)
{
    double took_s = psr_clock_s() - begin_s;
    (void)state;
    printf("# %llu simulated runs in %.1f s: %.0f a minute\n", (unsigned long long)runs, took_s,
           (double)runs / took_s * 60);
    return 0;
}

void cluster_free(cluster *c)
{
    psr_emulation_free(c->emulation, worker_freed);
    free(c->workers);
    free(c->sections);
    free(c->filled);
    free(c->disk_us);
    free(c);
}

/* ---- what came of it ---- */

psr_err cluster_status(const cluster *c, const char **ret_line)
{
    *ret_line = c->emulation->line;
    return c->emulation->status;
}

psr_err cluster_status_of(const cluster *c, psr_peer peer, const char **ret_line)
{
    const psr_emulated *p = psr_emulation_of(c->emulation, peer);
    *ret_line = p->line;
    return p->status;
}

int64_t cluster_ended_us(const cluster *c)
{
    return c->ended_us;
}

int64_t cluster_decided_us(const cluster *c)
{
    return c->emulation->decided_us;
}

int64_t cluster_joined_us(const cluster *c)
{
    return c->emulation->joined_us;
}

int64_t cluster_struck_us(const cluster *c)
{
    return c->struck_us;
}

const float *cluster_weights(const cluster *c, uint32_t rank, uint64_t step)
{
    return c->workers[rank].history + (step - c->options.first_step) * c->options.layout->length;
}

uint64_t cluster_steps(const cluster *c)
{
    return c->workers[0].step;
}

uint32_t cluster_changes(const cluster *c)
{
    return c->changes;
}

uint32_t cluster_asked(const cluster *c)
{
    return c->asked;
}

uint64_t cluster_staleness(const cluster *c)
{
    return c->staleness;
}

uint64_t cluster_clock_gap(const cluster *c)
{
    return c->gap;
}

uint64_t cluster_pushes_in_flight(const cluster *c)
{
    return c->pushes_in_flight;
}
