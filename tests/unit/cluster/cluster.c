#include "tests/unit/cluster/cluster_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "comm/wire/encoding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_MAX_US 50000 /* until a process says JOIN */
#define DISK_MAX_US 20000
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

uint32_t cluster_draw(cluster *c, uint32_t below)
{
    psr_rng_at at = {.seed = c->options.seed, .purpose = PSR_RNG_TEST, .layer = 9};
    return psr_rng_below(at, &c->drawn, below);
}

int64_t cluster_now_ms(const cluster *c)
{
    return psr_sim_now_us(c->sim) / 1000;
}

/* ---- the scheduler ---- */

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

static void on_joined(void *context, const psr_view_member *entry, uint32_t count, uint32_t total)
{
    cluster *c = context;
    (void)entry;
    if (count == total)
        c->joined_us = psr_sim_now_us(c->sim);
}

static psr_err on_begin(void *context, const psr_config *config, const psr_facts *facts,
                        const char *members_json, psr_beginning *ret_beginning)
{
    const cluster *c = context;
    (void)config, (void)facts, (void)members_json;
    ret_beginning->first_step = c->options.first_step;
    return psr_parts_plan(c->options.config, c->options.buckets, &ret_beginning->plan);
}

static psr_err restore_section(cluster *c, uint32_t section, const float *values)
{
    size_t length = c->options.layout->length, half = length / 2;
    for (size_t at = 0; at < length; at += half + 1) {
        size_t count = length - at < half + 1 ? length - at : half + 1;
        psr_head head = psr_msg_restore_head(
            &(psr_msg_piece){.steps = c->options.first_step, .section = section, .span = {at, count}});
        psr_payload payload = psr_encode(&head, PSR_ENCODING_FLOAT32, values + at, count);
        PSR_TRY(on_send(c, (psr_peer){PSR_ROLE_WORKER, 0}, &head, &payload));
    }
    return PSR_OK;
}

static psr_err on_restore(void *context)
{
    cluster *c = context;
    float *values = calloc(c->options.layout->length + 1, sizeof *values);
    cluster_initial_weights(c->options.layout, values);
    psr_err err = restore_section(c, PSR_SECTION_WEIGHTS, values);
    for (uint32_t slot = 0; slot < c->slot_count && err == PSR_OK; slot++) {
        cluster_initial_slot(c->options.layout, slot, values);
        err = restore_section(c, PSR_SECTION_SLOT(slot), values);
    }
    free(values);
    return err;
}

static psr_err on_started(void *context, const char *algorithms)
{
    (void)context, (void)algorithms;
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

static size_t cell_of(const cluster *c, uint64_t steps)
{
    assert_in_range(steps, c->options.first_step, c->options.first_step + c->options.steps);
    return steps - c->options.first_step;
}

static bool is_whole(const cluster *c, uint64_t steps)
{
    for (uint32_t i = 0; i < 1 + c->slot_count; i++)
        if (c->filled[cell_of(c, steps) * (1 + CLUSTER_SLOTS) + i] != c->options.layout->length)
            return false;
    return true;
}

static psr_err on_checkpoint(void *context, uint64_t step, uint32_t section, const float *data, size_t offset,
                             size_t count)
{
    cluster *c = context;
    size_t cell = cell_of(c, step) * (1 + CLUSTER_SLOTS);
    if (section != PSR_SECTION_WEIGHTS)
        cell += 1 + section - PSR_SECTION_SLOT(0);
    memcpy(c->sections + cell * c->options.layout->length + offset, data, count * sizeof *data);
    c->filled[cell] += count;
    if (is_whole(c, step))
        c->disk_us[cell_of(c, step)] = psr_sim_now_us(c->sim) + cluster_draw(c, DISK_MAX_US);
    return PSR_OK;
}

static psr_err on_last_checkpoint(void *context, uint64_t step)
{
    const cluster *c = context;
    return is_whole(c, step) ? PSR_OK : psr_fail(PSR_ERR_PROTOCOL, "the last checkpoint is not whole");
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

static void make_scheduler(cluster *c)
{
    const psr_scheduler_events events = {
        .context = c,
        .send = on_send,
        .connect = on_connect,
        .joined = on_joined,
        .begin = on_begin,
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
    c->scheduler_process.state = PROCESS_RUNS;
    c->scheduler_process.tick_us = psr_scheduler_next_tick(c->scheduler) * 1000;
}

static void scheduler_turn(cluster *c)
{
    process *p = &c->scheduler_process;
    psr_message *message = NULL;
    while (p->state == PROCESS_RUNS && psr_transport_recv(p->transport, 0, &message) == PSR_OK) {
        psr_scheduler_message(c->scheduler, message, cluster_now_ms(c));
        psr_message_free(&message);
    }
    if (p->state == PROCESS_RUNS)
        psr_scheduler_tick(c->scheduler, cluster_now_ms(c));
    p->tick_us = NEVER;
    if (p->state == PROCESS_RUNS)
        p->tick_us = psr_scheduler_next_tick(c->scheduler) * 1000;
}

void cluster_stop(cluster *c)
{
    if (c->stop_told || c->scheduler_process.state != PROCESS_RUNS)
        return;
    c->stop_told = true;
    psr_scheduler_stop(c->scheduler, cluster_now_ms(c));
}

static void disk_turn(cluster *c, uint64_t steps)
{
    c->disk_us[cell_of(c, steps)] = NEVER;
    psr_scheduler_checkpointed(c->scheduler, steps, cluster_now_ms(c));
}

/* ---- shards ---- */

static psr_err shard_message(void *context, psr_message **message)
{
    shard *s = context;
    return psr_shard_run_message(s->run, message);
}

static psr_err shard_welcomed(shard *s)
{
    const cluster *c = s->process.in;
    const psr_loop_options loop = {.transport = s->process.transport,
                                   .member = s->process.member,
                                   .context = s,
                                   .message = shard_message};
    psr_shard_start start;
    PSR_TRY(psr_loop_new(&loop, &s->loop));
    PSR_TRY(psr_shard_start_from_json(psr_member_agreed(s->process.member), &start));
    const psr_shard_options options = {
        .config = c->options.config,
        .layout = c->options.layout,
        .plan = &psr_member_view(s->process.member)->plan,
        .shard = s->process.self.rank,
        .total_steps = start.facts.total_steps,
        .first_step = start.first_step,
        .outbox = psr_loop_outbox(s->loop),
    };
    PSR_TRY(psr_shard_run_new(&options, &s->run));
    for (uint32_t r = 0; r < c->n; r++)
        PSR_TRY(psr_member_connect(s->process.member, (psr_peer){PSR_ROLE_WORKER, r}));
    return psr_shard_run_begin(s->run);
}

static void shard_report(void *context, psr_msg_progress *progress)
{
    const shard *s = context;
    if (s->run)
        psr_shard_run_report(s->run, progress);
}

/* ---- any member ---- */

static psr_err configured(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                          size_t *ret_facts_size)
{
    const process *p = context;
    const psr_facts facts = {.identity = "played",
                             .data_name = "none",
                             .total_steps = p->in->options.first_step + p->in->options.steps};
    char *json = NULL;
    psr_config config;
    psr_config_defaults(&config);
    assert_int_equal(psr_config_from_json(&config, given.data, given.size), PSR_OK);
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
    if (p->member)
        psr_member_failed(p->member, status, p->line);
}

static psr_err welcomed(process *p)
{
    return p->self.role == PSR_ROLE_WORKER ? worker_welcomed((worker *)p) : shard_welcomed((shard *)p);
}

static psr_err join(process *p, int64_t *ret_next_ms)
{
    int64_t now_ms = cluster_now_ms(p->in);
    psr_message *message = NULL;
    while (!psr_member_joined(p->member) && psr_transport_recv(p->transport, 0, &message) == PSR_OK)
        PSR_TRY(psr_member_message(p->member, &message, now_ms));
    return psr_member_joined(p->member) ? welcomed(p) : psr_member_tick(p->member, now_ms, ret_next_ms);
}

static psr_err step(process *p, int64_t *ret_next_ms)
{
    int64_t now_ms = cluster_now_ms(p->in);
    if (!psr_member_joined(p->member))
        PSR_TRY(join(p, ret_next_ms));
    if (!psr_member_joined(p->member))
        return PSR_OK;
    return p->self.role == PSR_ROLE_WORKER ? psr_session_step(((worker *)p)->session, now_ms, ret_next_ms)
                                           : psr_loop_step(((shard *)p)->loop, now_ms, ret_next_ms);
}

static bool has_left(const process *p)
{
    if (p->self.role == PSR_ROLE_WORKER)
        return ((const worker *)p)->ended;
    return ((const shard *)p)->run && psr_shard_run_left(((const shard *)p)->run);
}

/* What lies in its inbox, what its compute thread has for it, and what the time asks for. */
static void process_turn(process *p)
{
    int64_t next_ms = 0;
    psr_err err = step(p, &next_ms);
    p->tick_us = next_ms * 1000;
    if (err != PSR_OK)
        process_fail(p, err);
    else if (has_left(p))
        p->state = PROCESS_LEFT;
}

static void process_start(process *p)
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

static void worker_turn(worker *w)
{
    worker_resume(w);
    process_turn(&w->process);
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
    return peer.role == PSR_ROLE_WORKER ? &c->workers[peer.rank].process : &c->shards[peer.rank].process;
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

/* ---- faults ---- */

static bool is_done(cluster *c, const process *p)
{
    if (p->self.role == PSR_ROLE_SCHEDULER)
        return is_over(p);
    if (p->self.role == PSR_ROLE_WORKER)
        return c->workers[p->self.rank].done;
    const psr_shard_run *run = c->shards[p->self.rank].run;
    return run && psr_shard_run_traffic(run) != NULL;
}

static void begin_fault(cluster *c)
{
    const cluster_fault *fault = &c->options.fault;
    process *p = process_of(c, fault->who);
    c->fault_us = NEVER;
    if (is_over(p))
        return;
    if (fault->kind != CLUSTER_HUNG && !is_done(c, p))
        c->struck_us = psr_sim_now_us(c->sim);
    if (fault->kind == CLUSTER_HUNG) {
        c->workers[fault->who.rank].hung = true;
    } else if (fault->kind == CLUSTER_STOPPED) {
        p->state = PROCESS_STOPPED;
        c->resume_us = psr_sim_now_us(c->sim) + fault->for_us;
    } else {
        p->state = PROCESS_KILLED;
        psr_sim_cut(c->sim, p->self);
        if (fault->kind == CLUSTER_LOST)
            psr_scheduler_lost(c->scheduler, p->self, p->provision.host, false, "killed by signal 9",
                               cluster_now_ms(c));
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
    enum { A_DELIVERY, A_TURN, A_COMPUTATION, A_CHECKPOINT, A_FAULT, A_FAULTS_END } what;
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

/* Of what happens at the same time deliveries come first: nobody is called silent whose words are there. */
static moment next_moment(cluster *c)
{
    moment next = {.at_us = psr_sim_next_us(c->sim), .what = A_DELIVERY};
    consider(&next, (moment){time_of(&c->scheduler_process), A_TURN, &c->scheduler_process, 0});
    for (uint32_t i = 0; i < member_count(c); i++)
        consider(&next, (moment){time_of(member_at(c, i)), A_TURN, member_at(c, i), 0});
    for (uint32_t r = 0; r < c->n; r++)
        if (c->workers[r].process.state == PROCESS_RUNS && !hangs(c, &c->workers[r].process))
            consider(&next, (moment){c->workers[r].wakes_us, A_COMPUTATION, &c->workers[r].process, 0});
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

/* One that hangs does so when it computes next. */
static void see_fault(cluster *c)
{
    if (c->struck_us != NEVER || c->options.fault.kind != CLUSTER_HUNG)
        return;
    const process *p = process_of(c, c->options.fault.who);
    if (p->state == PROCESS_RUNS && hangs(c, p))
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

static void make_checkpoints(cluster *c)
{
    size_t cells = c->options.steps + 1;
    c->sections = calloc(cells * (1 + CLUSTER_SLOTS) * c->options.layout->length + 1, sizeof *c->sections);
    c->filled = calloc(cells * (1 + CLUSTER_SLOTS), sizeof *c->filled);
    c->disk_us = calloc(cells, sizeof *c->disk_us);
    for (size_t k = 0; k < cells; k++)
        c->disk_us[k] = NEVER;
    psr_optimizer *optimizer;
    assert_int_equal(psr_optimizer_new(&c->config, c->options.layout, &optimizer), PSR_OK);
    c->slot_count = psr_optimizer_slot_count(optimizer);
    psr_optimizer_free(optimizer);
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
    c->s = c->config.mode == PSR_MODE_PS ? c->config.shards : 0;
    c->joined_us = c->decided_us = c->fault_us = c->resume_us = c->struck_us = NEVER;
    if (options->fault.kind != CLUSTER_FAULTLESS)
        c->fault_us = options->fault.at_us;
    c->compute_max_us = computes_us[options->seed % 3];
    const psr_sim_faults faults = {.seed = options->seed,
                                   .delay_max_us = delays_us[options->seed / 3 % 4],
                                   .duplicate_permille = options->duplicate_permille};
    assert_int_equal(psr_sim_new(&faults, &c->sim), PSR_OK);
    make_checkpoints(c);
    make_members(c);
    make_scheduler(c);
    return c;
}

/* Without a fault, or with one that the run survives. */
static void check_end(const cluster *c)
{
    for (uint32_t i = 0; i < member_count(c); i++)
        if (member_at(c, i)->state != PROCESS_LEFT)
            fail_msg("seed %llu: %s %u: %s; the scheduler: %s", (unsigned long long)c->options.seed,
                     psr_role_name(member_at(c, i)->self.role), (unsigned)member_at(c, i)->self.rank,
                     member_at(c, i)->line, c->line);
    if (c->status != (c->stop_told ? PSR_ERR_CANCELLED : PSR_OK))
        fail_msg("seed %llu: %s", (unsigned long long)c->options.seed, c->line);
    if (cluster_steps(c) > c->options.first_step)
        assert_true(is_whole(c, cluster_steps(c)));
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
    bool short_stop =
        fault->kind == CLUSTER_STOPPED && (double)fault->for_us * 1e-6 < options->config->deadline_s;
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

/* What is lent to a transport comes back when the network ends. */
void cluster_free(cluster *c)
{
    for (uint32_t i = 0; i < member_count(c); i++) {
        psr_member_free(member_at(c, i)->member);
        psr_transport_free(&member_at(c, i)->transport, 0);
    }
    psr_transport_free(&c->scheduler_process.transport, 0);
    psr_sim_free(c->sim);
    psr_scheduler_free(c->scheduler);
    for (uint32_t r = 0; r < c->n; r++)
        worker_done(&c->workers[r]);
    for (uint32_t s = 0; s < c->s; s++) {
        psr_loop_free(c->shards[s].loop);
        psr_shard_run_free(c->shards[s].run);
    }
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
    const process *p =
        peer.role == PSR_ROLE_WORKER ? &c->workers[peer.rank].process : &c->shards[peer.rank].process;
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

static const float *section(const cluster *c, uint64_t steps, uint32_t i)
{
    size_t cell = cell_of(c, steps) * (1 + CLUSTER_SLOTS) + i;
    return c->filled[cell] == c->options.layout->length ? c->sections + cell * c->options.layout->length
                                                        : NULL;
}

const float *cluster_checkpointed_weights(const cluster *c, uint64_t steps)
{
    return section(c, steps, 0);
}

const float *cluster_slot(const cluster *c, uint32_t slot, uint64_t steps)
{
    return section(c, steps, 1 + slot);
}

uint64_t cluster_steps(const cluster *c)
{
    return c->workers[0].step;
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
