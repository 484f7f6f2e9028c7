#include "tests/unit/cluster/cluster_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_MAX_US 50000   /* until a process says JOIN */
#define SLICE_BYTES_MIN 4096 /* in a CONFIG; tests cut finer */
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

int64_t cluster_now_ms(const cluster *c)
{
    return psr_sim_now_us(c->sim) / 1000;
}

/* ---- all processes ---- */

static uint32_t member_count(const cluster *c)
{
    return c->n + c->s;
}

static process *member_at(const cluster *c, uint32_t i)
{
    return i < c->n ? &c->workers[i].process : &c->shards[i - c->n].process;
}

static process *process_of(cluster *c, psr_peer peer)
{
    if (peer.role == PSR_ROLE_SCHEDULER)
        return &c->scheduler_process;
    return peer.role == PSR_ROLE_WORKER ? &c->workers[peer.rank].process
                                        : &c->shards[peer.rank].process;
}

static bool is_over(const process *p)
{
    return p->state == PROCESS_LEFT || p->state == PROCESS_FAILED || p->state == PROCESS_KILLED;
}

static bool hangs(const cluster *c, const process *p)
{
    return p->self.role == PSR_ROLE_WORKER && c->workers[p->self.rank].hung &&
           c->workers[p->self.rank].computes;
}

/* Who hangs is ended by its agent when the scheduler says how the run ended. */
static bool all_over(const cluster *c)
{
    for (uint32_t i = 0; i < member_count(c); i++)
        if (!is_over(member_at(c, i)) && !hangs(c, member_at(c, i)))
            return false;
    return is_over(&c->scheduler_process);
}

static void turn(cluster *c, process *p)
{
    if (p->state == PROCESS_NOT_YET && p->self.role != PSR_ROLE_SCHEDULER)
        process_start(p);
    else if (p->self.role == PSR_ROLE_SCHEDULER)
        scheduler_turn(c);
    else
        process_turn(p);
}

static void worker_turn(worker *w)
{
    worker_resume(w);
    process_turn(&w->process);
}

/* ---- faults ---- */

static bool is_done(cluster *c, const process *p)
{
    if (p->self.role == PSR_ROLE_SCHEDULER)
        return is_over(p);
    if (p->self.role == PSR_ROLE_WORKER)
        return c->workers[p->self.rank].done;
    const psr_shard_run *run = c->shards[p->self.rank].run;
    return run != NULL && psr_shard_run_traffic(run) != NULL;
}

static void begin_fault(cluster *c)
{
    const cluster_fault *fault = &c->options.fault;
    process *p = process_of(c, fault->who);
    c->fault_us = NEVER;
    if (is_over(p))
        return;
    if (fault->kind != CLUSTER_HUNG && fault->kind != CLUSTER_DEVICE_STUCK && !is_done(c, p))
        c->struck_us = psr_sim_now_us(c->sim);
    if (fault->kind == CLUSTER_HUNG) {
        c->workers[fault->who.rank].hung = true;
    } else if (fault->kind == CLUSTER_DEVICE_STUCK) {
        c->workers[fault->who.rank].device_stuck = true;
    } else if (fault->kind == CLUSTER_STOPPED) {
        p->state = PROCESS_STOPPED;
        c->resume_us = psr_sim_now_us(c->sim) + fault->for_us;
    } else {
        p->state = PROCESS_KILLED;
        psr_sim_cut(c->sim, p->self);
        if (fault->kind == CLUSTER_LOST)
            psr_coordinator_lost(c->coordinator, p->self, p->provision.host, false,
                                 "killed by signal 9", cluster_now_ms(c));
    }
}

static void end_fault(cluster *c)
{
    process *p = process_of(c, c->options.fault.who);
    c->resume_us = NEVER;
    p->state = p->starts_us == NEVER ? PROCESS_RUNS : PROCESS_NOT_YET;
    turn(c, p);
}

/* ---- time ---- */

/* The earliest time so far, and what happens then. */
typedef struct moment {
    int64_t at_us;
    enum { A_DELIVERY, A_TURN, A_COMPUTATION, A_DEVICE, A_CHECKPOINT, A_FAULT, A_FAULTS_END } what;
    process *who;
    uint64_t steps;
} moment;

static void consider(moment *earliest, moment other)
{
    if (other.at_us < earliest->at_us)
        *earliest = other;
}

static int64_t time_of(const process *p)
{
    if (p->state == PROCESS_NOT_YET)
        return p->starts_us;
    return p->state == PROCESS_RUNS ? p->tick_us : NEVER;
}

/* Of what happens at the same time deliveries come first: nobody is called silent whose words are
 * there. */
static moment next_moment(cluster *c)
{
    moment next = {.at_us = psr_sim_next_us(c->sim), .what = A_DELIVERY};
    consider(&next, (moment){time_of(&c->scheduler_process), A_TURN, &c->scheduler_process, 0});
    for (uint32_t i = 0; i < member_count(c); i++)
        consider(&next, (moment){time_of(member_at(c, i)), A_TURN, member_at(c, i), 0});
    for (uint32_t r = 0; r < c->n; r++)
        if (c->workers[r].process.state == PROCESS_RUNS && !hangs(c, &c->workers[r].process))
            consider(&next,
                     (moment){c->workers[r].wakes_us, A_COMPUTATION, &c->workers[r].process, 0});
    for (uint32_t r = 0; r < c->n; r++)
        if (c->workers[r].process.state == PROCESS_RUNS)
            consider(&next, (moment){worker_device_us(&c->workers[r]), A_DEVICE,
                                     &c->workers[r].process, 0});
    for (uint64_t k = 0; k <= c->options.steps && c->scheduler_process.state == PROCESS_RUNS; k++)
        consider(&next, (moment){c->disk_us[k], A_CHECKPOINT, NULL, c->options.first_step + k});
    consider(&next, (moment){c->fault_us, A_FAULT, NULL, 0});
    consider(&next, (moment){c->resume_us, A_FAULTS_END, NULL, 0});
    return next;
}

static void deliver(cluster *c)
{
    psr_peer to;
    if (psr_sim_step(c->sim, &to) && process_of(c, to)->state == PROCESS_RUNS)
        turn(c, process_of(c, to));
}

static void happen(cluster *c, const moment *m)
{
    int64_t now_us = psr_sim_now_us(c->sim);
    if (m->what != A_DELIVERY) /* what was due while its process was stopped is late */
        psr_sim_pass(c->sim, m->at_us > now_us ? m->at_us : now_us);
    switch (m->what) {
    case A_DELIVERY:
        deliver(c);
        break;
    case A_TURN:
        turn(c, m->who);
        break;
    case A_COMPUTATION:
        worker_turn((worker *)m->who);
        break;
    case A_DEVICE:
        worker_device_turn((worker *)m->who);
        process_turn(m->who);
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
    for (uint32_t b = 0; w->device_stuck && b < w->process.in->options.buckets->count; b++)
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
    const process *p = process_of(c, c->options.fault.who);
    const bool strikes =
        kind == CLUSTER_HUNG ? hangs(c, p) : device_is_stuck(&c->workers[p->self.rank]);
    if (p->state == PROCESS_RUNS && strikes)
        c->struck_us = psr_sim_now_us(c->sim);
}

static void see_pushes(cluster *c)
{
    for (uint32_t i = 0; i < c->n * c->s && c->options.counts_pushes; i++) {
        size_t count = psr_sim_under_way(c->sim, c->workers[i / c->s].process.self,
                                         c->shards[i % c->s].process.self, PSR_MSG_PUSH);
        c->pushes_in_flight = count > c->pushes_in_flight ? count : c->pushes_in_flight;
    }
}

static void run(cluster *c)
{
    while (!all_over(c)) {
        moment next = next_moment(c);
        if (next.at_us == NEVER || psr_sim_now_us(c->sim) > LONGEST_RUN_US)
            fail_msg("seed %llu: nothing happens any more and not all have ended: it hangs",
                     (unsigned long long)c->options.seed);
        happen(c, &next);
        see_fault(c);
        see_pushes(c);
    }
    c->ended_us = psr_sim_now_us(c->sim);
}

/* ---- making and checking ---- */

static void make_process(cluster *c, process *p, psr_peer self)
{
    p->in = c;
    p->self = self;
    p->tick_us = NEVER;
    p->starts_us = self.role == PSR_ROLE_SCHEDULER ? NEVER : cluster_draw(c, START_MAX_US);
    p->provision.self = self;
    snprintf(p->provision.host, sizeof p->provision.host, "%c%u", psr_role_name(self.role)[0],
             (unsigned)self.rank);
    strcpy(p->provision.scheduler, "sim://scheduler/0");
    assert_int_equal(psr_transport_sim_new(c->sim, self, &p->transport), PSR_OK);
}

static void make_members(cluster *c)
{
    c->workers = calloc(c->n, sizeof *c->workers);
    c->shards = calloc(c->s + 1, sizeof *c->shards);
    make_process(c, &c->scheduler_process, (psr_peer){PSR_ROLE_SCHEDULER, 0});
    for (uint32_t r = 0; r < c->n; r++) {
        make_process(c, &c->workers[r].process, (psr_peer){PSR_ROLE_WORKER, r});
        c->workers[r].wakes_us = NEVER;
    }
    for (uint32_t s = 0; s < c->s; s++)
        make_process(c, &c->shards[s].process, (psr_peer){PSR_ROLE_SHARD, s});
}

static cluster *make(const cluster_options *options)
{
    static const uint32_t delays_us[] = {0, 100, 1000, 20000}, computes_us[] = {100, 1000, 5000};
    cluster *c = calloc(1, sizeof *c);
    c->options = *options;
    c->config = *options->config;
    if (c->config.slice_bytes < SLICE_BYTES_MIN)
        c->config.slice_bytes = SLICE_BYTES_MIN;
    c->n = c->config.workers;
    c->s = psr_config_shards(&c->config);
    c->joined_us = c->decided_us = c->fault_us = c->resume_us = c->struck_us = NEVER;
    if (options->fault.kind != CLUSTER_FAULTLESS)
        c->fault_us = options->fault.at_us;
    c->compute_max_us = computes_us[options->seed % 3];
    const psr_sim_faults faults = {.seed = options->seed,
                                   .delay_max_us = delays_us[options->seed / 3 % 4],
                                   .duplicate_permille = options->duplicate_permille,
                                   .by_reference = options->seed / 2 % 2 == 1};
    assert_int_equal(psr_sim_new(&faults, &c->sim), PSR_OK);
    checkpoints_make(c);
    make_members(c);
    scheduler_make(c);
    return c;
}

/* Without a fault, or with one that the run survives. */
static void check_end(const cluster *c)
{
    for (uint32_t i = 0; i < member_count(c); i++)
        if (member_at(c, i)->state != PROCESS_LEFT)
            fail_msg("seed %llu: %s %u: %s; the scheduler: %s", (unsigned long long)c->options.seed,
                     psr_role_name(member_at(c, i)->self.role),
                     (unsigned)member_at(c, i)->self.rank, member_at(c, i)->line, c->line);
    /* Who is told to stop in the last step has taken all. */
    const bool all = cluster_steps(c) == c->options.first_step + c->options.steps;
    if (c->status != (c->stop_told && !all ? PSR_ERR_CANCELLED : PSR_OK) &&
        !(all && c->stop_told && c->status == PSR_ERR_CANCELLED))
        fail_msg("seed %llu: %s", (unsigned long long)c->options.seed, c->line);
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

/* What is lent to a transport comes back when the network ends; what borrows of a view goes before
 * the member, whose it is. */
void cluster_free(cluster *c)
{
    for (uint32_t i = 0; i < member_count(c); i++)
        psr_transport_free(&member_at(c, i)->transport, 0);
    psr_transport_free(&c->scheduler_process.transport, 0);
    psr_sim_free(c->sim);
    psr_scheduler_free(c->scheduler);
    for (uint32_t r = 0; r < c->n; r++)
        worker_done(&c->workers[r]);
    for (uint32_t s = 0; s < c->s; s++)
        shard_done(&c->shards[s]);
    for (uint32_t i = 0; i < member_count(c); i++)
        psr_member_free(member_at(c, i)->member);
    free(c->workers);
    free(c->shards);
    free(c->sections);
    free(c->filled);
    free(c->disk_us);
    free(c);
}

/* ---- what came of it ---- */

psr_err cluster_status(const cluster *c, const char **ret_line)
{
    *ret_line = c->line;
    return c->status;
}

psr_err cluster_status_of(const cluster *c, psr_peer peer, const char **ret_line)
{
    const process *p = peer.role == PSR_ROLE_WORKER ? &c->workers[peer.rank].process
                                                    : &c->shards[peer.rank].process;
    *ret_line = p->line;
    return p->status;
}

int64_t cluster_ended_us(const cluster *c)
{
    return c->ended_us;
}

int64_t cluster_decided_us(const cluster *c)
{
    return c->decided_us;
}

int64_t cluster_joined_us(const cluster *c)
{
    return c->joined_us;
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
