#include "bench/predict/emulate.h"

#include "base/log.h"
#include "bench/emulation/emulation.h"
#include "bench/predict/one_link.h"

#include <stdio.h>
#include <stdlib.h>

#define STEPS_MAX 5 /* that are taken; of many workers fewer, since the first are like the others */
#define MANY_WORKERS 64
#define STACK_BYTES (256 << 10)
#define VALUES_MAX 1024 /* that one may stand for */

/* How long each kind had been busy at a moment. */
typedef struct busy {
    double *links_s;     /* [hosts], the busier direction */
    double *processes_s; /* [workers + shards] */
} busy;

typedef struct emulated {
    const psr_scenario *scenario;
    const psr_choice *choice;
    uint32_t values_each;
    uint32_t steps, timed;           /* the last ones */
    uint32_t workers, shards, hosts; /* hosts of shards alone included */
    psr_config config;
    psr_layout layout; /* a tensor for each bucket, of fewer values */
    psr_buckets buckets;
    uint32_t *first; /* of the hosts' ranks */
    psr_host_ranks ranks;
    double *bits_per_s;
    psr_sim *sim;
    psr_links *links;
    psr_emulation *emulation;
    float *weights, *gradients;
    int64_t *ended_us;         /* [steps], when the last worker had computed the step */
    uint32_t taken[STEPS_MAX]; /* workers that have computed the step */
    busy before;               /* the timed steps */
} emulated;

/* ---- sizes ---- */

/* So many that a bucket, a slice and a ring's chunk keep enough values to be cut as they would be:
 * tensors and slices are whole multiples of 16 values. */
static uint32_t values_each_of(const emulated *m)
{
    const psr_buckets *buckets = &m->scenario->buckets;
    const bool whole = psr_scenario_gradient_bytes(m->scenario, 1) == 1;
    size_t floats = 0;
    for (uint32_t b = 0; b < buckets->count; b++)
        floats += buckets->items[b].length;
    const size_t bucket = floats / buckets->count, slice = m->config.slice_bytes / sizeof(float),
                 chunk = bucket / m->workers;
    const size_t least_of_slice = whole ? 64 : 4096;
    uint32_t each = 1;
    while (2 * each <= VALUES_MAX && bucket / (2 * each) >= 512 &&
           slice / (2 * each) >= least_of_slice &&
           (m->choice->mode != PSR_MODE_RING || chunk / (2 * each) >= 16))
        each *= 2;
    return each;
}

static psr_err make_layout(emulated *m)
{
    const psr_buckets *real = &m->scenario->buckets;
    psr_span *spans = calloc(real->count, sizeof *spans);
    psr_err err = spans != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for buckets");
    for (uint32_t b = real->count; b-- > 0 && err == PSR_OK;) {
        char name[24];
        snprintf(name, sizeof name, "bucket%u", b);
        const size_t rounded =
            (real->items[b].length / m->values_each + PSR_TENSOR_ALIGN / 2) / PSR_TENSOR_ALIGN;
        const uint32_t count = (uint32_t)(rounded > 0 ? rounded : 1) * PSR_TENSOR_ALIGN;
        spans[b] = (psr_span){m->layout.length, count};
        err = psr_layout_add(&m->layout, name, 1, &count);
    }
    if (err == PSR_OK)
        err = psr_buckets_of(&m->layout, spans, real->count, &m->buckets);
    free(spans);
    return err;
}

static psr_err make_config(emulated *m)
{
    psr_config *c = &m->config;
    char workers[16], shards[16];
    snprintf(workers, sizeof workers, "%u", m->workers);
    snprintf(shards, sizeof shards, "%u", m->choice->shards);
    PSR_TRY(psr_config_set(c, "mode", m->choice->mode == PSR_MODE_RING ? "ring" : "ps"));
    PSR_TRY(psr_config_set(c, "workers", workers));
    if (m->choice->mode == PSR_MODE_PS)
        PSR_TRY(psr_config_set(c, "shards", shards));
    else
        PSR_TRY(psr_config_set(c, "compress-weights", "none"));
    PSR_TRY(psr_config_set(c, "optimizer", "sgd"));
    PSR_TRY(psr_config_set(c, "momentum", "0"));
    PSR_TRY(psr_config_set(c, "nesterov", "false"));
    PSR_TRY(psr_config_set(c, "deadline", "86400"));
    /* its tensors are the scenario's buckets, which are of what is trained */
    PSR_TRY(psr_config_set(c, "freeze", ""));
    PSR_TRY(psr_config_set(c, "tensorboard-norms", "0"));
    c->route[0] = '\0';
    c->steps = m->steps;
    c->epochs = 0;
    return PSR_OK;
}

/* ---- a worker's training ---- */

static int64_t now_us(const emulated *m)
{
    return psr_sim_now_us(m->sim);
}

static psr_err compute(emulated *m, psr_emulated_worker *w, psr_phase phase, double share)
{
    const psr_scenario *k = m->scenario;
    const uint32_t host = w->process.self.rank / k->workers_per_host;
    const double slow = host < k->different_hosts ? k->slow_of[host] : 1;
    const int64_t for_us = (int64_t)(share * slow * k->compute_s * 1e6 + 0.5);
    return for_us > 0 ? psr_emulated_compute(w, phase, for_us) : PSR_OK;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double link_busy_s(const emulated *m, uint32_t host)
{
    return larger(psr_links_out_busy_s(m->links, host), psr_links_in_busy_s(m->links, host));
}

static double process_busy_s(const emulated *m, uint32_t i)
{
    return psr_links_process_busy_s(m->links, psr_emulation_at(m->emulation, i)->self);
}

static void see_busy(emulated *m)
{
    for (uint32_t h = 0; h < m->hosts; h++)
        m->before.links_s[h] = link_busy_s(m, h);
    for (uint32_t i = 0; i < m->workers + m->shards; i++)
        m->before.processes_s[i] = process_busy_s(m, i);
}

static psr_err take_step(emulated *m, psr_emulated_worker *w, uint64_t step)
{
    const psr_compute_profile *p = &m->scenario->profile;
    PSR_TRY(psr_exchange_begin_step(w->exchange,
                                    &(psr_step){step, w->process.self.rank, 1, m->workers}));
    PSR_TRY(compute(m, w, PSR_PHASE_FORWARD, p->before));
    for (uint32_t b = p->buckets; b-- > 0;) {
        PSR_TRY(psr_exchange_weights_wanted(w->exchange, b));
        PSR_TRY(compute(m, w, PSR_PHASE_FORWARD, p->forward[b]));
    }
    for (uint32_t b = 0; b < p->buckets; b++) {
        PSR_TRY(compute(m, w, PSR_PHASE_BACKWARD, p->backward[b]));
        PSR_TRY(psr_exchange_gradient_ready(w->exchange, b, NULL));
    }
    m->ended_us[step] = now_us(m);
    if (++m->taken[step] == m->workers && step == m->steps - 1 - m->timed)
        see_busy(m);
    return psr_exchange_end_step(w->exchange);
}

static psr_err train(void *context, psr_emulated_worker *w)
{
    emulated *m = context;
    PSR_TRY(psr_exchange_install(w->exchange, 0, psr_exchange_first_weights(w->exchange)));
    PSR_TRY(psr_session_ready(w->session, NULL));
    for (uint64_t step = 0; step < m->steps; step++)
        PSR_TRY(take_step(m, w, step));
    return psr_exchange_drain(w->exchange);
}

static void started(void *context)
{
    psr_links_open(((emulated *)context)->links);
}

/* ---- processors that all hosts share ---- */

/* Played passes sleep: they leave the processors to what handles messages. */
static bool computes_on_processors(const psr_scenario *k)
{
    return k->processors > 0 && k->config.backend != PSR_BACKEND_PLAYED;
}

static void compute_shared(void *context, psr_emulated_worker *w, double seconds)
{
    emulated *m = context;
    const uint32_t threads = m->scenario->config.threads;
    psr_links_compute(m->links, w->process.self.rank, seconds, threads > 0 ? threads : 1);
}

static void computed(void *context, uint32_t worker)
{
    emulated *m = context;
    psr_emulated_wake(&m->emulation->workers[worker]);
}

/* ---- the cluster ---- */

static uint32_t host_of(void *context, psr_peer peer)
{
    const emulated *m = context;
    if (peer.role == PSR_ROLE_WORKER)
        return peer.rank / m->scenario->workers_per_host;
    return m->choice->dedicated ? m->scenario->hosts + peer.rank : peer.rank % m->scenario->hosts;
}

/* text: a compression. */
static double extra_bytes(const char *text)
{
    psr_compression compression;
    if (psr_compression_parse(text, &compression) != PSR_OK)
        return 0;
    return compression.encoding == PSR_ENCODING_INT8   ? 4
           : compression.encoding == PSR_ENCODING_1BIT ? 8
                                                       : 0;
}

static psr_err make_links(emulated *m)
{
    const psr_scenario *k = m->scenario;
    m->bits_per_s = calloc(m->hosts, sizeof *m->bits_per_s);
    if (m->bits_per_s == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u hosts", m->hosts);
    for (uint32_t h = 0; h < m->hosts; h++)
        m->bits_per_s[h] = k->bits_per_s * (h < k->different_hosts ? k->link_of[h] : 1);
    const double slice = (double)k->config.slice_bytes;
    const psr_links_options options = {
        .sim = m->sim,
        .hosts = m->hosts,
        .bits_per_s = m->bits_per_s,
        .host_of = host_of,
        .context = m,
        .workers = m->workers,
        .shards = m->shards,
        .latency_s = k->latency_s,
        .loss = k->loss,
        .window_bytes = k->window_bytes,
        .quantum_bytes = m->workers > MANY_WORKERS ? slice : (slice < 65536 ? slice : 65536) / 4,
        .frame_bytes = k->frame_bytes,
        .stands_for = m->values_each,
        .extra_weight_bytes = extra_bytes(k->config.compress_weights),
        .extra_bytes = extra_bytes(k->config.compress),
        .costs = k->costs,
        .processors = k->processors,
        .computed = computed,
    };
    return psr_links_new(&options, &m->links);
}

static psr_err make_ranks(emulated *m)
{
    const psr_scenario *k = m->scenario;
    m->first = calloc(k->hosts + 1, sizeof *m->first);
    if (m->first == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u hosts", k->hosts);
    for (uint32_t h = 0; h <= k->hosts; h++)
        m->first[h] = h * k->workers_per_host;
    m->ranks = (psr_host_ranks){k->hosts, m->first};
    return PSR_OK;
}

/* All workers have the same arenas: nobody looks at the numbers, which are zero. */
static psr_err make(emulated *m)
{
    const psr_sim_faults none = {.seed = 1};
    PSR_TRY(make_config(m));
    m->values_each = m->values_each > 0 ? m->values_each : values_each_of(m);
    m->config.slice_bytes = m->scenario->config.slice_bytes / m->values_each;
    PSR_TRY(make_layout(m));
    PSR_TRY(make_ranks(m));
    m->weights = aligned_alloc(64, m->layout.length * sizeof(float));
    m->gradients = aligned_alloc(64, m->layout.length * sizeof(float));
    if (m->weights == NULL || m->gradients == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for arenas");
    for (size_t i = 0; i < m->layout.length; i++)
        m->weights[i] = m->gradients[i] = 0;
    m->before.links_s = calloc(m->hosts, sizeof(double));
    m->before.processes_s = calloc(m->workers + m->shards, sizeof(double));
    if (m->before.links_s == NULL || m->before.processes_s == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for figures");
    PSR_TRY(psr_sim_new(&none, &m->sim));
    psr_err err = make_links(m);
    if (err != PSR_OK) {
        psr_sim_free(m->sim);
        return err;
    }
    const psr_emulation_options options = {
        .config = &m->config,
        .layout = &m->layout,
        .buckets = &m->buckets,
        .steps = m->steps,
        .hosts = &m->ranks,
        .sim = m->sim,
        .weights = m->weights,
        .gradients = m->gradients,
        .stack_bytes = STACK_BYTES,
        .play = {.context = m, .train = train, .started = started},
        .computing = m,
        .compute = computes_on_processors(m->scenario) ? compute_shared : NULL,
    };
    return psr_emulation_new(&options, &m->emulation);
}

static void done(emulated *m)
{
    psr_emulation_free(m->emulation, NULL);
    psr_links_free(m->links);
    psr_buckets_done(&m->buckets);
    psr_layout_done(&m->layout);
    free(m->first);
    free(m->bits_per_s);
    free(m->weights);
    free(m->gradients);
    free(m->ended_us);
    free(m->before.links_s);
    free(m->before.processes_s);
}

/* ---- running it ---- */

static psr_err failure_of(const emulated *m)
{
    const psr_emulated *p = m->emulation->failed;
    if (p != NULL)
        return psr_fail(p->status, "%s %u: %s", psr_role_name(p->self.role), p->self.rank, p->line);
    if (m->emulation->decided_us != PSR_EMULATION_NEVER)
        return psr_fail(m->emulation->status, "%s", m->emulation->line);
    return PSR_OK;
}

/* Until every worker has taken its steps; what a run does at its end is not looked at. Links go on
 * by themselves until something comes to a process. */
static psr_err run(emulated *m)
{
    while (m->taken[m->steps - 1] < m->workers) {
        const int64_t machines_us = psr_emulation_next_us(m->emulation);
        int64_t links_us = psr_links_next_us(m->links);
        if (machines_us == PSR_EMULATION_NEVER && links_us == INT64_MAX)
            return psr_fail(PSR_ERR_BROKEN, "the emulated run stands still");
        if (links_us > machines_us) {
            psr_emulation_step(m->emulation);
            PSR_TRY(failure_of(m));
            continue;
        }
        do {
            if (links_us > now_us(m))
                psr_sim_pass(m->sim, links_us);
            PSR_TRY(psr_links_step(m->links));
            links_us = psr_links_next_us(m->links);
        } while (links_us < INT64_MAX && links_us <= psr_emulation_next_us(m->emulation));
    }
    return PSR_OK;
}

/* Of the busiest of each kind, for a step. */
static psr_demand busy_of(const emulated *m)
{
    psr_demand most = {0};
    for (uint32_t h = 0; h < m->hosts; h++) {
        const bool serves = m->choice->mode == PSR_MODE_PS &&
                            (m->choice->dedicated ? h >= m->scenario->hosts : h < m->shards);
        double *of = serves ? &most.shard_link_s : &most.worker_link_s;
        *of = larger(*of, (link_busy_s(m, h) - m->before.links_s[h]) / m->timed);
    }
    for (uint32_t i = 0; i < m->workers + m->shards; i++) {
        double *of = i < m->workers ? &most.worker_s : &most.shard_s;
        *of = larger(*of, (process_busy_s(m, i) - m->before.processes_s[i]) / m->timed);
    }
    return most;
}

/* What is busy for more than half of a step limits it; where nothing is, messages wait. */
static psr_limit limit_of(const psr_demand *b, double step_s, double compute_s)
{
    const double link = larger(b->worker_link_s, b->shard_link_s),
                 process = larger(b->worker_s, b->shard_s);
    if (step_s < compute_s * 1.02)
        return PSR_LIMIT_COMPUTE;
    if (larger(link, process) < (step_s - compute_s) / 2)
        return PSR_LIMIT_LATENCY;
    if (link >= process)
        return b->shard_link_s >= b->worker_link_s ? PSR_LIMIT_SHARD_LINK : PSR_LIMIT_WORKER_LINK;
    return b->shard_s >= b->worker_s ? PSR_LIMIT_SHARD : PSR_LIMIT_WORKER;
}

static psr_err figures_of(const emulated *m, psr_prediction *ret_prediction)
{
    psr_prediction p;
    PSR_TRY(psr_one_link_predict(m->scenario, m->choice, &p)); /* for its bracket */
    const psr_demand b = busy_of(m);
    const double step_s =
        (double)(m->ended_us[m->steps - 1] - m->ended_us[m->steps - 1 - m->timed]) / 1e6 / m->timed;
    p.step_s = step_s;
    p.images_per_s = (double)m->workers * psr_config_step_samples(&m->config) / step_s;
    p.efficiency = m->scenario->compute_s / step_s;
    p.link_busy = larger(b.worker_link_s, b.shard_link_s) / step_s;
    p.process_busy = larger(b.worker_s, b.shard_s) / step_s;
    p.limit = limit_of(&b, step_s, m->scenario->compute_s);
    p.emulated = true;
    *ret_prediction = p;
    return PSR_OK;
}

psr_err psr_emulate(const psr_scenario *scenario, const psr_choice *choice, uint32_t values_each,
                    psr_prediction *ret_prediction)
{
    emulated m = {.scenario = scenario,
                  .choice = choice,
                  .values_each = values_each,
                  .workers = scenario->hosts * scenario->workers_per_host,
                  .shards = choice->mode == PSR_MODE_PS ? choice->shards : 0,
                  .steps = STEPS_MAX,
                  .timed = 2,
                  .config = scenario->config};
    m.hosts = scenario->hosts + (choice->dedicated ? m.shards : 0);
    if (m.workers > MANY_WORKERS) {
        m.steps = 3;
        m.timed = 1;
    }
    m.ended_us = calloc(STEPS_MAX, sizeof *m.ended_us);
    psr_err err = m.ended_us != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for steps");
    if (err == PSR_OK)
        err = make(&m);
    if (err == PSR_OK)
        err = run(&m);
    if (err == PSR_OK)
        err = figures_of(&m, ret_prediction);
    done(&m);
    return err;
}
