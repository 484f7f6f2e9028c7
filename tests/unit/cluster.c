#include "tests/unit/cluster.h"

#include "base/rng.h"
#include "comm/encoding.h"
#include "comm/messages.h"
#include "comm/slices.h"
#include "ps/shard/shard.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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

float cluster_gradient(uint32_t worker, uint64_t step, size_t i)
{
    uint32_t word = word_of(1, step, worker, i);
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

/* ---- messages and channels ---- */

typedef struct parcel {
    psr_message message; /* first: its release finds the parcel */
    psr_peer to;
    psr_payload lent; /* read when delivered */
    double *copy;
    struct parcel *next;
} parcel;

typedef struct channel {
    parcel *first, *last;
} channel;

typedef struct worker {
    cluster *in;
    uint32_t rank;
    psr_engine *engine;
    psr_optimizer *optimizer;
    float *weights, *gradients;
    uint64_t step; /* the next to begin, or that is under way */
    bool backward; /* it is under way */
    uint32_t next; /* bucket whose gradient comes next: order[next] */
    uint32_t *order;
    uint64_t *landed; /* [bucket] steps */
    float *history;   /* [step][arena] */
} worker;

typedef struct shard {
    cluster *in;
    psr_shard *state;
} shard;

struct cluster {
    cluster_options options;
    const psr_engine_ops *ops;
    uint32_t n, s, members; /* workers, shards; shards come after workers */
    worker *workers;
    shard *shards;
    channel *channels; /* [from * members + to] */
    uint64_t drawn, end;
    uint64_t staleness, gap;
    uint64_t messages[256], pushes_in_flight, *in_flight; /* [worker * s + shard] */
    float *slots;                                         /* [step][slot][arena] as checkpointed */
    size_t *slots_filled;                                 /* [step][slot] floats */
    bool stopped;
};

enum { SLOTS = 2 };

static uint32_t draw(cluster *c, uint32_t below)
{
    psr_rng_at at = {.seed = c->options.seed, .purpose = PSR_RNG_TEST, .layer = 9};
    return psr_rng_below(at, &c->drawn, below);
}

static uint32_t member_of(const cluster *c, psr_peer peer)
{
    return peer.role == PSR_ROLE_WORKER ? peer.rank : c->n + peer.rank;
}

static void release_parcel(psr_message *message)
{
    parcel *p = (parcel *)(void *)message;
    free(p->copy);
    free(p);
}

/* The bytes are taken from where they lie now, not from where they were when they were sent. */
static void deliver_bytes(parcel *p)
{
    if (p->lent.bytes > 0 && !p->copy) {
        p->copy = malloc(p->lent.bytes + sizeof(double));
        memcpy(p->copy, p->lent.data, p->lent.bytes);
    }
    p->message.payload = p->copy;
    p->message.payload_bytes = p->lent.bytes;
    if (p->lent.release)
        p->lent.release(p->lent.context);
}

static void post(cluster *c, psr_peer from, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    parcel *p = calloc(1, sizeof *p);
    p->message = (psr_message){.from = from, .head = *head, .release = release_parcel};
    p->to = to;
    if (payload) {
        p->lent = *payload;
        if (!payload->release && payload->bytes > 0) {
            p->copy = malloc(payload->bytes + sizeof(double));
            memcpy(p->copy, payload->data, payload->bytes);
        }
    }
    channel *ch = &c->channels[member_of(c, from) * c->members + member_of(c, to)];
    if (ch->last)
        ch->last->next = p;
    else
        ch->first = p;
    ch->last = p;
    c->messages[head->type]++;
    if (head->type == PSR_MSG_PUSH) {
        uint64_t count = ++c->in_flight[from.rank * c->s + to.rank];
        if (count > c->pushes_in_flight)
            c->pushes_in_flight = count;
    }
}

static psr_err worker_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    worker *w = context;
    post(w->in, (psr_peer){PSR_ROLE_WORKER, w->rank}, to, head, payload);
    return PSR_OK;
}

static psr_err shard_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    shard *s = context;
    post(s->in, (psr_peer){PSR_ROLE_SHARD, (uint32_t)(s - s->in->shards)}, to, head, payload);
    return PSR_OK;
}

static void hand_over(cluster *c, psr_peer to, psr_message *message)
{
    psr_err err = to.role == PSR_ROLE_WORKER ? c->ops->message(c->workers[to.rank].engine, &message)
                                             : psr_shard_message(c->shards[to.rank].state, &message);
    if (err != PSR_OK)
        fail_msg("%s", psr_err_detail());
    assert_null(message);
}

static void deliver(cluster *c, channel *ch)
{
    parcel *p = ch->first;
    ch->first = p->next;
    if (!ch->first)
        ch->last = NULL;
    p->next = NULL;
    deliver_bytes(p);

    psr_message_type type = p->message.head.type;
    psr_peer to = p->to;
    if (type == PSR_MSG_PUSH)
        c->in_flight[p->message.from.rank * c->s + to.rank]--;
    bool twice =
        (type == PSR_MSG_PUSH || type == PSR_MSG_WEIGHTS) && draw(c, 1000) < c->options.duplicate_permille;
    parcel *again = NULL;
    if (twice) {
        again = calloc(1, sizeof *again);
        again->message = p->message;
        again->copy = malloc(p->lent.bytes + sizeof(double));
        memcpy(again->copy, p->copy, p->lent.bytes);
        again->message.payload = again->copy;
    }
    hand_over(c, to, &p->message);
    if (again)
        hand_over(c, to, &again->message);
}

/* ---- workers ---- */

static psr_err landed(void *context, uint64_t step, uint32_t bucket)
{
    worker *w = context;
    const psr_bucket *range = &w->in->options.buckets->items[bucket];
    assert_int_equal(w->landed[bucket], step);
    w->landed[bucket] = step + 1;
    memcpy(w->history + (step - w->in->options.first_step) * w->in->options.layout->length + range->offset,
           w->weights + range->offset, range->length * sizeof(float));
    return PSR_OK;
}

static bool weights_here(const worker *w)
{
    for (uint32_t b = 0; b < w->in->options.buckets->count; b++)
        if (w->landed[b] < w->step || w->in->ops->lent(w->engine, b) > 0)
            return false;
    return true;
}

static bool may_move(const worker *w)
{
    return w->backward || (w->step < w->in->end && weights_here(w));
}

static bool all_done(const cluster *c)
{
    for (uint32_t r = 0; r < c->n; r++)
        if (c->workers[r].step < c->end || c->workers[r].backward || !weights_here(&c->workers[r]))
            return false;
    return true;
}

static void begin_step(worker *w)
{
    cluster *c = w->in;
    uint64_t slowest = UINT64_MAX;
    for (uint32_t r = 0; r < c->n; r++)
        slowest = c->workers[r].step < slowest ? c->workers[r].step : slowest;
    if (w->step - slowest > c->gap)
        c->gap = w->step - slowest;
    if (c->ops->staleness) {
        uint64_t staleness = c->ops->staleness(w->engine);
        c->staleness = staleness > c->staleness ? staleness : c->staleness;
    }
    for (size_t i = 0; i < c->options.layout->length; i++)
        w->gradients[i] = NAN;
    /* A backward pass takes buckets in order, but a network with branches need not. */
    for (uint32_t b = 0; b < c->options.buckets->count; b++) {
        w->order[b] = b;
        if (b > 0 && draw(c, 4) == 0) {
            w->order[b] = w->order[b - 1];
            w->order[b - 1] = b;
        }
    }
    assert_int_equal(c->ops->begin_step(w->engine, w->step), PSR_OK);
    w->backward = true;
    w->next = 0;
}

static void gradient_ready(worker *w)
{
    cluster *c = w->in;
    uint32_t b = w->order[w->next++];
    const psr_bucket *range = &c->options.buckets->items[b];
    for (size_t i = range->offset; i < range->offset + range->length; i++)
        w->gradients[i] = cluster_gradient(w->rank, w->step, i);
    if (c->ops->ready(w->engine, w->step, b) != PSR_OK)
        fail_msg("%s", psr_err_detail());
    if (w->next == c->options.buckets->count) {
        w->backward = false;
        w->step++;
    }
}

static void move(worker *w)
{
    if (w->backward)
        gradient_ready(w);
    else
        begin_step(w);
}

/* ---- the run ---- */

static psr_err keep_checkpoint(void *context, uint64_t step, uint32_t slot, const float *data, size_t offset,
                               size_t count)
{
    shard *s = context;
    cluster *c = s->in;
    size_t cell = (step - c->options.first_step) * SLOTS + slot;
    memcpy(c->slots + cell * c->options.layout->length + offset, data, count * sizeof *data);
    c->slots_filled[cell] += count;
    return PSR_OK;
}

static void start_shards(cluster *c)
{
    const cluster_options *o = &c->options;
    uint32_t *owner = calloc(o->buckets->count + 1, sizeof *owner);
    assert_int_equal(
        psr_buckets_assign(o->layout, o->buckets, c->s, o->config->optimizer == PSR_OPTIMIZER_LARS, owner),
        PSR_OK);
    float *values = calloc(o->layout->length + 1, sizeof *values);
    for (uint32_t s = 0; s < c->s; s++) {
        c->shards[s].in = c;
        psr_shard_options options = {
            .config = o->config,
            .layout = o->layout,
            .buckets = o->buckets,
            .owner = owner,
            .shard = s,
            .total_steps = o->first_step + o->steps,
            .first_step = o->first_step,
            .outbox = {.context = &c->shards[s], .send = shard_send},
            .context = &c->shards[s],
            .checkpoint = keep_checkpoint,
        };
        assert_int_equal(psr_shard_new(&options, &c->shards[s].state), PSR_OK);
    }
    uint32_t sections = 1;
    if (o->first_step > 0) {
        psr_optimizer *optimizer;
        assert_int_equal(psr_optimizer_new(o->config, o->layout, &optimizer), PSR_OK);
        sections += psr_optimizer_slot_count(optimizer);
        psr_optimizer_free(optimizer);
    }
    for (uint32_t section = 0; section < sections; section++) {
        if (section == 0)
            cluster_initial_weights(o->layout, values);
        else
            cluster_initial_slot(o->layout, section - 1, values);
        for (uint32_t b = 0; b < o->buckets->count; b++) {
            const psr_bucket *bucket = &o->buckets->items[b];
            size_t floats = psr_slice_floats(o->config);
            for (size_t at = 0; at < bucket->length; at += floats) {
                size_t count = bucket->length - at < floats ? bucket->length - at : floats;
                psr_span span = {bucket->offset + at, count};
                psr_head head =
                    psr_msg_init_head(&(psr_msg_init){.bucket = b, .span = span, .section = section});
                psr_payload payload = psr_encode(PSR_ENCODING_FLOAT32, values + span.offset, count);
                post(c, (psr_peer){PSR_ROLE_WORKER, 0}, (psr_peer){PSR_ROLE_SHARD, owner[b]}, &head,
                     &payload);
            }
        }
    }
    for (uint32_t s = 0; s < c->s; s++) {
        channel *ch = &c->channels[0 * c->members + c->n + s];
        while (ch->first)
            deliver(c, ch);
        assert_true(psr_shard_initialised(c->shards[s].state));
    }
    free(values);
    free(owner);
}

static void start_workers(cluster *c)
{
    const cluster_options *o = &c->options;
    for (uint32_t r = 0; r < c->n; r++) {
        worker *w = &c->workers[r];
        w->in = c;
        w->rank = r;
        w->step = o->first_step;
        w->weights = calloc(o->layout->length + 1, sizeof(float));
        w->gradients = calloc(o->layout->length + 1, sizeof(float));
        w->history = calloc(o->layout->length * (o->steps + 1) + 1, sizeof(float));
        w->order = calloc(o->buckets->count + 1, sizeof *w->order);
        w->landed = calloc(o->buckets->count + 1, sizeof *w->landed);
        for (uint32_t b = 0; b < o->buckets->count; b++)
            w->landed[b] = o->first_step;
        cluster_initial_weights(o->layout, w->weights);
        if (o->config->mode == PSR_MODE_RING) {
            assert_int_equal(psr_optimizer_new(o->config, o->layout, &w->optimizer), PSR_OK);
            for (uint32_t i = 0; i < psr_optimizer_slot_count(w->optimizer) && o->first_step > 0; i++)
                cluster_initial_slot(o->layout, i, psr_optimizer_slot(w->optimizer, i));
        }
        psr_engine_env env = {
            .config = o->config,
            .layout = o->layout,
            .buckets = o->buckets,
            .rank = r,
            .total_steps = o->first_step + o->steps,
            .weights = w->weights,
            .gradients = w->gradients,
            .optimizer = w->optimizer,
            .outbox = {.context = w, .send = worker_send},
            .context = w,
            .landed = landed,
        };
        assert_int_equal(c->ops->open(&env, &w->engine), PSR_OK);
    }
}

/* The launcher's Ctrl-C, as the scheduler tells it: nobody has begun a step past stop_at. */
static void stop_when_due(cluster *c)
{
    if (c->stopped || c->options.stop_at == UINT64_MAX)
        return;
    for (uint32_t r = 0; r < c->n; r++)
        if (c->workers[r].step < c->options.stop_at)
            return;
    c->stopped = true;
    for (uint32_t s = 0; s < c->s; s++)
        assert_int_equal(psr_shard_stop_at(c->shards[s].state, c->options.stop_at), PSR_OK);
}

static bool move_one(cluster *c)
{
    uint32_t channels = c->members * c->members, choices = 0, chosen = 0;
    for (uint32_t i = 0; i < channels + c->n; i++) {
        bool can = i < channels ? c->channels[i].first != NULL : may_move(&c->workers[i - channels]);
        if (can && draw(c, ++choices) == 0)
            chosen = i;
    }
    if (choices == 0)
        return false;
    bool by_worker = chosen >= channels;
    /* A slow worker moves when it is drawn ten times as rarely, or when nobody else can. */
    if (by_worker && chosen - channels == c->options.slow_worker && choices > 1 && draw(c, 10) != 0)
        return true;
    if (by_worker)
        move(&c->workers[chosen - channels]);
    else
        deliver(c, &c->channels[chosen]);
    return true;
}

cluster *cluster_run(const cluster_options *options)
{
    cluster *c = calloc(1, sizeof *c);
    bool ps = options->config->mode == PSR_MODE_PS;
    c->options = *options;
    c->ops = ps ? &psr_engine_ps : &psr_engine_ring;
    c->n = options->config->workers;
    c->s = ps ? options->config->shards : 0;
    c->members = c->n + c->s;
    c->end = options->stop_at == UINT64_MAX ? options->first_step + options->steps : options->stop_at + 1;
    c->workers = calloc(c->n, sizeof *c->workers);
    c->shards = calloc(c->s + 1, sizeof *c->shards);
    c->channels = calloc((size_t)c->members * c->members, sizeof *c->channels);
    c->in_flight = calloc((size_t)c->n * c->s + 1, sizeof *c->in_flight);
    c->slots = calloc((options->steps + 1) * SLOTS * options->layout->length + 1, sizeof *c->slots);
    c->slots_filled = calloc((options->steps + 1) * SLOTS, sizeof *c->slots_filled);
    if (ps)
        start_shards(c);
    start_workers(c);
    while (move_one(c))
        stop_when_due(c);
    if (!all_done(c))
        fail_msg("nothing is under way and the run has not ended: it hangs");
    for (uint32_t s = 0; s < c->s; s++)
        assert_true(psr_shard_finished(c->shards[s].state));
    return c;
}

void cluster_free(cluster *c)
{
    for (uint32_t r = 0; r < c->n; r++) {
        worker *w = &c->workers[r];
        c->ops->close(w->engine);
        psr_optimizer_free(w->optimizer);
        free(w->weights);
        free(w->gradients);
        free(w->history);
        free(w->order);
        free(w->landed);
    }
    for (uint32_t s = 0; s < c->s; s++)
        psr_shard_free(c->shards[s].state);
    free(c->workers);
    free(c->shards);
    free(c->channels);
    free(c->in_flight);
    free(c->slots);
    free(c->slots_filled);
    free(c);
}

const float *cluster_weights(const cluster *c, uint32_t rank, uint64_t step)
{
    return c->workers[rank].history + (step - c->options.first_step) * c->options.layout->length;
}

const float *cluster_slot(const cluster *c, uint32_t slot, uint64_t steps)
{
    size_t cell = (steps - c->options.first_step) * SLOTS + slot;
    if (c->slots_filled[cell] != c->options.layout->length)
        return NULL;
    return c->slots + cell * c->options.layout->length;
}

uint64_t cluster_staleness(const cluster *c)
{
    return c->staleness;
}

uint64_t cluster_clock_gap(const cluster *c)
{
    return c->gap;
}

uint64_t cluster_messages(const cluster *c, psr_message_type type)
{
    return c->messages[type];
}

uint64_t cluster_pushes_in_flight(const cluster *c)
{
    return c->pushes_in_flight;
}
