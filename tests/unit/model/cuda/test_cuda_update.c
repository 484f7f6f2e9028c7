/* The back end cuda that updates its weights itself (--update-on device), on a GPU that this
 * processor plays, beside the host's optimizer: the same bits of weights and state after every
 * update, whatever pass makes it and in every order of the streams; and what it refuses. */
#include "model/backend.h"
#include "model/cuda/api.h"
#include "model/freeze.h"
#include "model/optimizers/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/cuda/emulator.h"
#include "tests/unit/expect.h"
#include "tests/unit/model/parity.h"

/* SKIPPED: of the updates before FIRST, steps that were left out */
enum { BATCH = 3, SLOTS_MAX = 2, FIRST = 5, SKIPPED = 2 };

static void use_streams(psr_emulator_streams streams, uint64_t seed)
{
    psr_emulator_settings settings = psr_emulator_default();
    settings.streams = streams;
    settings.seed = seed;
    psr_emulator_set(&settings);
}

static psr_config config_of(const char *const (*options)[2])
{
    psr_config config;
    psr_config_defaults(&config);
    for (; options[0][0] != NULL; options++)
        expect_ok(psr_config_set(&config, options[0][0], options[0][1]));
    return config;
}

static psr_err try_backend(const setting *s, psr_backend_kind kind, const psr_config *config,
                           psr_backend **ret_backend)
{
    const psr_backend_options options = {.kind = kind,
                                         .max_batch = s->max_batch,
                                         .buckets = &s->buckets,
                                         .algorithms = s->algorithms,
                                         .updates = config};
    return psr_backend_new(s->net, &options, ret_backend);
}

static psr_backend *keeping_backend(const setting *s, const psr_config *config)
{
    const psr_backend_options options = {.kind = PSR_BACKEND_CUDA,
                                         .max_batch = s->max_batch,
                                         .buckets = &s->buckets,
                                         .algorithms = s->algorithms,
                                         .updates = config,
                                         .keeps_gradients = true};
    psr_backend *backend = NULL;
    expect_ok(psr_backend_new(s->net, &options, &backend));
    return backend;
}

/* ---- beside the host's optimizer ---- */

typedef struct pair {
    setting s;
    const psr_config *config;
    psr_backend *backend;
    psr_optimizer *optimizer; /* the host's; its weights are the setting's */
    float *sums, *gradients, *weights, *logits, *expected;
    float *slots[SLOTS_MAX];
} pair;

/* The first state is not zeros: a run that goes on has one. The back end borrows from *p. */
static void open_pair(pair *p, const psr_config *config)
{
    psr_network *net = named("convnet", 1, 28, PSR_SHORTCUT_A);
    expect_ok(psr_freeze(config, net));
    *p = (pair){.s = setting_of(net, BATCH), .config = config};
    const size_t params = net->params.length, logits = (size_t)BATCH * net->classes;
    p->sums = floats(params);
    p->gradients = floats(params);
    p->weights = floats(params);
    p->logits = floats(logits);
    p->expected = floats(logits);
    expect_ok(psr_optimizer_new(config, &net->params, &p->optimizer));
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        p->slots[i] = floats(params);
    for (uint32_t i = 0; i < psr_optimizer_slot_count(p->optimizer); i++) {
        fill(psr_optimizer_slot(p->optimizer, i), params, 50 + i, 0, 0.1f);
        memcpy(p->slots[i], psr_optimizer_slot(p->optimizer, i), params * sizeof(float));
    }
    expect_ok(try_backend(&p->s, PSR_BACKEND_CUDA, config, &p->backend));
    expect_ok(psr_backend_hold(p->backend, p->s.weights, p->slots, FIRST));
}

static void pair_done(pair *p)
{
    psr_backend_free(p->backend);
    psr_optimizer_free(p->optimizer);
    setting_done(&p->s);
    free(p->sums);
    free(p->gradients);
    free(p->weights);
    free(p->logits);
    free(p->expected);
    for (int i = 0; i < SLOTS_MAX; i++)
        free(p->slots[i]);
}

static psr_batch batch_of(const setting *s)
{
    return (psr_batch){s->images, s->labels, s->samples, BATCH, .epoch = 1, .seed = 5};
}

static void train(pair *p)
{
    const psr_batch batch = batch_of(&p->s);
    const psr_exec_state state = {NULL, p->gradients, p->s.buffers};
    psr_pass_result result;
    expect_ok(psr_backend_train(p->backend, &batch, &state, 1.0f / BATCH, NULL, &result));
}

static void infer(pair *p)
{
    const psr_batch batch = batch_of(&p->s);
    const psr_exec_state state = {NULL, NULL, p->s.buffers};
    psr_pass_result result;
    expect_ok(psr_backend_infer(p->backend, &batch, &state, NULL, p->logits, &result));
}

static void update_host(const pair *p, float lr, uint64_t number)
{
    for (uint32_t b = 0; b < p->s.buckets.count; b++) {
        const psr_bucket *bucket = &p->s.buckets.items[b];
        if (!bucket->frozen)
            psr_optimizer_update(p->optimizer, p->s.weights, p->sums, bucket->offset,
                                 bucket->length, lr, number);
    }
}

/* What the host has, and what the device gives. */
static void expect_same(pair *p)
{
    const size_t bytes = p->s.net->params.length * sizeof(float);
    expect_ok(psr_backend_held(p->backend, p->weights, p->slots));
    assert_memory_equal(p->weights, p->s.weights, bytes);
    for (uint32_t i = 0; i < psr_optimizer_slot_count(p->optimizer); i++)
        assert_memory_equal(p->slots[i], psr_optimizer_slot(p->optimizer, i), bytes);
}

/* The weights that a pass reads are those behind the update: another back end, which is given the
 * host's, gives the same logits. */
static void expect_read(pair *p)
{
    const psr_batch batch = batch_of(&p->s);
    const psr_exec_state given = {p->s.weights, NULL, p->s.buffers};
    psr_backend *other = NULL;
    psr_pass_result result;
    infer(p);
    expect_ok(try_backend(&p->s, PSR_BACKEND_CUDA, NULL, &other));
    expect_ok(psr_backend_infer(other, &batch, &given, NULL, p->expected, &result));
    psr_backend_free(other);
    assert_memory_equal(p->logits, p->expected, (size_t)BATCH * p->s.net->classes * sizeof(float));
}

static void make_due(pair *p, uint64_t number)
{
    const float lr = 0.5f / (float)number;
    fill(p->sums, p->s.net->params.length, 70 + (uint32_t)number, -1, 1);
    update_host(p, lr, number - SKIPPED);
    const psr_due_update due = {.number = number, .skipped = SKIPPED, .lr = lr, .sums = p->sums};
    psr_backend_due(p->backend, &due);
}

/* Updates are made by passes of either kind, and by who asks for the weights. Of two passes, as
 * --mode local has them in a step, the first one makes it, and the sums are not read again. */
static void update_both(pair *p)
{
    make_due(p, FIRST + 1);
    train(p);
    memset(p->sums, 0x55, p->s.net->params.length * sizeof(float));
    train(p);
    expect_same(p);
    make_due(p, FIRST + 2);
    expect_read(p);
    make_due(p, FIRST + 3);
    train(p);
    make_due(p, FIRST + 4);
    expect_same(p);
    expect_read(p);
}

static const char *const optimizers[][6][2] = {
    {{"momentum", "0"}, {"weight-decay", "0.01"}},
    {{"momentum", "0.9"}, {"weight-decay", "0"}, {"freeze", "conv1"}},
    {{"momentum", "0.9"},
     {"nesterov", "true"},
     {"weight-decay", "0.01"},
     {"no-decay", "bn,bias"},
     {"lr-factor", "*.bias=3"}},
    {{"optimizer", "adam"}, {"weight-decay", "0.01"}, {"decay-factor", "fc*=0.5"}},
    {{"optimizer", "adamw"}, {"weight-decay", "0.1"}, {"lr-factor", "fc*=0"}, {"ema", "none"}},
};

static void an_update_has_the_hosts_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
        const psr_config config = config_of(optimizers[i]);
        for (uint64_t seed = 0; seed < 3; seed++) {
            use_streams(seed == 0 ? PSR_EMULATOR_THREADS : PSR_EMULATOR_LAZY, seed);
            pair p;
            open_pair(&p, &config);
            update_both(&p);
            pair_done(&p);
        }
    }
    use_streams(PSR_EMULATOR_THREADS, 0);
}

/* --ema: an evaluation of other weights lies between two steps. */
static void weights_that_are_given_can_be_read_in_between(void **state)
{
    (void)state;
    const psr_config config = config_of(optimizers[3]);
    pair p;
    open_pair(&p, &config);
    const size_t params = p.s.net->params.length;
    const psr_batch batch = batch_of(&p.s);
    float *others = floats(params);
    fill(others, params, 99, -0.1f, 0.1f);
    const psr_exec_state given = {others, NULL, p.s.buffers};
    psr_pass_result result;
    psr_backend_due(p.backend, NULL);
    expect_ok(psr_backend_infer(p.backend, &batch, &given, NULL, p.logits, &result));
    expect_ok(psr_backend_hold(p.backend, p.s.weights, NULL, FIRST));
    expect_read(&p);
    update_both(&p);
    free(others);
    pair_done(&p);
}

/* ---- gradients that stay ---- */

/* The gradient of the host's weights, from a back end that gives it. */
static void find_gradient(pair *p)
{
    const psr_batch batch = batch_of(&p->s);
    const psr_exec_state state = {p->s.weights, p->sums, p->s.buffers};
    psr_backend *other = NULL;
    psr_pass_result result;
    expect_ok(try_backend(&p->s, PSR_BACKEND_CUDA, NULL, &other));
    expect_ok(psr_backend_train(other, &batch, &state, 1.0f / BATCH, NULL, &result));
    psr_backend_free(other);
}

/* Read by another stream, which waits for nothing, as one that sums does. */
static void expect_zeros(const pair *p)
{
    const psr_cuda_api *api = psr_emulator();
    const size_t params = p->s.net->params.length;
    psr_cuda_device *device = NULL;
    psr_cuda_stream *stream = NULL;
    float *read = NULL;
    expect_ok(api->device_open(0, &device));
    expect_ok(api->stream_new(device, &stream));
    expect_ok(api->pinned_new(device, params * sizeof *read, (void **)&read));
    expect_ok(api->copy(stream, read, psr_backend_gradients(p->backend), params * sizeof *read));
    expect_ok(api->stream_synchronize(stream));
    for (size_t i = 0; i < params; i++)
        assert_true(read[i] == 0);
    api->device_close(device);
}

/* As with one worker, whose gradient is the sum. The last step has no samples. */
static void gradients_that_stay_update_the_weights_where_they_are(void **state)
{
    (void)state;
    const psr_config config = config_of(optimizers[1]);
    for (uint64_t seed = 0; seed < 3; seed++) {
        use_streams(seed == 0 ? PSR_EMULATOR_THREADS : PSR_EMULATOR_LAZY, seed);
        pair p;
        open_pair(&p, &config);
        float *given = p.gradients;
        p.gradients = NULL; /* nobody writes them on the host */
        psr_backend_free(p.backend);
        p.backend = keeping_backend(&p.s, &config);
        expect_ok(psr_backend_hold(p.backend, p.s.weights, p.slots, FIRST));
        assert_non_null(psr_backend_gradients(p.backend));
        for (uint64_t number = FIRST; number < FIRST + 4; number++) {
            const psr_due_update due = {.number = number, .lr = 0.1f};
            psr_backend_due(p.backend, &due);
            if (number < FIRST + 3) {
                find_gradient(&p);
                train(&p);
            } else {
                expect_same(&p);
                memset(p.sums, 0, p.s.net->params.length * sizeof(float));
                expect_ok(psr_backend_zero_gradients(p.backend));
                expect_zeros(&p);
            }
            update_host(&p, 0.1f, number + 1);
        }
        const psr_due_update due = {.number = FIRST + 4, .lr = 0.1f};
        psr_backend_due(p.backend, &due);
        expect_same(&p);
        p.gradients = given;
        pair_done(&p);
    }
    use_streams(PSR_EMULATOR_THREADS, 0);
}

/* ---- refusals ---- */

static void a_sum_that_is_not_finite_is_named_and_spoils_no_ones_weights(void **state)
{
    (void)state;
    const psr_config config = config_of(optimizers[1]);
    pair p;
    open_pair(&p, &config);
    const size_t params = p.s.net->params.length;
    const uint32_t bucket = 1;
    char line[160];
    float *before = floats(params);
    assert_false(p.s.buckets.items[bucket].frozen);
    fill(p.weights, params, 3, 1, 2);
    memcpy(before, p.weights, params * sizeof *before);
    snprintf(line, sizeof line,
             "step %d: the gradient of bucket %u is not finite; a lower --lr may help", FIRST + 1,
             bucket);
    for (int by_pass = 0; by_pass < 2; by_pass++) {
        const psr_due_update due = {.number = FIRST + 1, .lr = 0.1f, .sums = p.sums};
        const psr_batch batch = batch_of(&p.s);
        const psr_exec_state work = {NULL, p.gradients, p.s.buffers};
        psr_pass_result result;
        p.sums[p.s.buckets.items[bucket].offset + 3] = by_pass ? INFINITY : NAN;
        expect_ok(psr_backend_hold(p.backend, p.s.weights, NULL, FIRST));
        psr_backend_due(p.backend, &due);
        expect_failure(by_pass ? psr_backend_train(p.backend, &batch, &work, 1, NULL, &result)
                               : psr_backend_held(p.backend, p.weights, NULL),
                       PSR_ERR_NUMERIC, line);
        assert_memory_equal(p.weights, before, params * sizeof *before);
        /* what was not finite once ends the run */
        psr_backend_free(p.backend);
        expect_ok(try_backend(&p.s, PSR_BACKEND_CUDA, &config, &p.backend));
    }
    free(before);
    pair_done(&p);
}

static void what_cannot_update_on_a_device_is_refused(void **state)
{
    (void)state;
    static const char *const lars[][2] = {{"optimizer", "lars"}, {NULL, NULL}};
    const psr_config sgd = config_of(optimizers[0]), other = config_of(lars);
    setting s = setting_of(norm_alone(5), BATCH);
    psr_backend *backend = NULL;
    expect_failure(try_backend(&s, PSR_BACKEND_REFERENCE, &sgd, &backend), PSR_ERR_UNSUPPORTED,
                   "--update-on device: this back end has no device");
    expect_failure(try_backend(&s, PSR_BACKEND_CUDA, &other, &backend), PSR_ERR_UNSUPPORTED,
                   "--update-on device: a GPU updates by sgd, adam and adamw");
    setting_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_has_the_hosts_bits),
        cmocka_unit_test(weights_that_are_given_can_be_read_in_between),
        cmocka_unit_test(gradients_that_stay_update_the_weights_where_they_are),
        cmocka_unit_test(a_sum_that_is_not_finite_is_named_and_spoils_no_ones_weights),
        cmocka_unit_test(what_cannot_update_on_a_device_is_refused),
    };
    psr_cuda_offer(psr_emulator());
    use_streams(PSR_EMULATOR_THREADS, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
