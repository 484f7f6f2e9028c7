/* The contract of model/backend.h, held by every back end: what may happen to weights and gradients
 * around the hooks, and what a pass leaves alone. That the numbers are right is test_reference.c's
 * and the golden tests'. */
#include "model/backend.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/emulator/cuda/emulator.h"

enum { BATCH = 4, SIZE = 16, PIXELS = SIZE * SIZE, CLASSES = 5 };

/* A compiled network with everything that a pass works on. */
typedef struct fixture {
    psr_network *net;
    psr_buckets buckets;
    psr_backend *backend;
    float *weights, *gradients, *buffers;
    float *images;
    psr_batch batch;
    psr_exec_state state;
    /* for the hooks */
    float *weights_kept;       /* what weights_wanted copies in */
    float *gradients_at_ready; /* what gradient_ready saw */
    uint32_t *ready_count, *wanted_count;
    uint32_t nodes_done;
    psr_err refusal;
} fixture;

static float *floats(size_t count)
{
    float *x = aligned_alloc(64, (count * sizeof(*x) + 63) / 64 * 64);
    assert_non_null(x);
    memset(x, 0, count * sizeof(*x));
    return x;
}

static const uint32_t labels[BATCH] = {0, 4, 2, 2}, samples[BATCH] = {10, 3, 77, 4};

static void fixture_init(fixture *f, psr_backend_kind kind, const char *model, uint32_t count)
{
    *f = (fixture){0};
    assert_int_equal(psr_network_new(model, CLASSES, 1, SIZE, SIZE, PSR_SHORTCUT_A, &f->net),
                     PSR_OK);
    assert_int_equal(psr_buckets_plan(&f->net->params, 4096, &f->buckets), PSR_OK);
    const psr_backend_options options = {
        .kind = kind, .max_batch = BATCH, .threads = 1, .buckets = &f->buckets};
    assert_int_equal(psr_backend_new(f->net, &options, &f->backend), PSR_OK);
    f->weights = floats(f->net->params.length);
    f->gradients = floats(f->net->params.length);
    f->weights_kept = floats(f->net->params.length);
    f->gradients_at_ready = floats(f->net->params.length);
    f->buffers = floats(f->net->buffers.length + 1);
    f->images = floats(BATCH * PIXELS);
    f->ready_count = calloc(f->buckets.count, sizeof(uint32_t));
    f->wanted_count = calloc(f->buckets.count, sizeof(uint32_t));
    psr_network_init(f->net, 1, f->weights, f->buffers);
    memcpy(f->weights_kept, f->weights, f->net->params.length * sizeof(float));
    for (int i = 0; i < BATCH * PIXELS; i++)
        f->images[i] = (float)((i * 37) % 101) / 50 - 1;
    f->batch = (psr_batch){f->images, labels, samples, count, .epoch = 1, .seed = 9};
    f->state = (psr_exec_state){f->weights, f->gradients, f->buffers};
}

static void fixture_done(fixture *f)
{
    psr_backend_free(f->backend);
    psr_buckets_done(&f->buckets);
    psr_network_free(f->net);
    free(f->weights);
    free(f->gradients);
    free(f->weights_kept);
    free(f->gradients_at_ready);
    free(f->buffers);
    free(f->images);
    free(f->ready_count);
    free(f->wanted_count);
}

static psr_pass_result train(fixture *f, const psr_exec_hooks *hooks)
{
    psr_pass_result result;
    assert_int_equal(psr_backend_train(f->backend, &f->batch, &f->state, 0.25f, hooks, &result),
                     PSR_OK);
    return result;
}

/* ---- hooks ---- */

static psr_err bring_weights(void *context, uint32_t bucket)
{
    fixture *f = context;
    const psr_bucket *b = &f->buckets.items[bucket];
    f->wanted_count[bucket]++;
    memcpy(f->weights + b->offset, f->weights_kept + b->offset, b->length * sizeof(float));
    return PSR_OK;
}

typedef struct waiting {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool told;
} waiting;

static void hear(void *context)
{
    waiting *w = context;
    pthread_mutex_lock(&w->mutex);
    w->told = true;
    pthread_cond_signal(&w->condition);
    pthread_mutex_unlock(&w->mutex);
}

static void wait_for(psr_fence *fence)
{
    waiting w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    bool passed;
    psr_fence_tell(fence, hear, &w);
    pthread_mutex_lock(&w.mutex);
    while (!w.told)
        pthread_cond_wait(&w.condition, &w.mutex);
    pthread_mutex_unlock(&w.mutex);
    assert_int_equal(psr_fence_passed(fence, &passed), PSR_OK);
    assert_true(passed);
}

/* What an exchange may do, at once or once the fence has passed: read the gradient and overwrite
 * the weights. */
static psr_err take_gradient(void *context, uint32_t bucket, psr_fence *fence)
{
    fixture *f = context;
    if (fence != NULL)
        wait_for(fence);
    const psr_bucket *b = &f->buckets.items[bucket];
    f->ready_count[bucket]++;
    memcpy(f->gradients_at_ready + b->offset, f->gradients + b->offset, b->length * sizeof(float));
    for (size_t i = b->offset; i < b->offset + b->length; i++)
        f->weights[i] = NAN;
    return f->refusal;
}

static void count_node(void *context)
{
    ((fixture *)context)->nodes_done++;
}

/* ---- tests: *state is the kind ---- */

static void check_hooks(psr_backend_kind kind, const char *model)
{
    fixture f;
    fixture_init(&f, kind, model, BATCH);
    const size_t length = f.net->params.length;
    assert_true(f.buckets.count >= 3);
    float *expected = floats(length);
    const psr_pass_result undisturbed = train(&f, NULL);
    memcpy(expected, f.gradients, length * sizeof(float));

    const psr_exec_hooks hooks = {.context = &f,
                                  .weights_wanted = bring_weights,
                                  .gradient_ready = take_gradient,
                                  .progress = count_node};
    for (size_t i = 0; i < length; i++)
        f.weights[i] = NAN;
    memset(f.gradients, 0, length * sizeof(float));
    const psr_pass_result result = train(&f, &hooks);
    assert_true(result.loss_sum == undisturbed.loss_sum);
    for (uint32_t b = 0; b < f.buckets.count; b++) {
        assert_int_equal(f.wanted_count[b], 1);
        assert_int_equal(f.ready_count[b], 1);
    }
    assert_memory_equal(f.gradients_at_ready, expected, length * sizeof(float));
    assert_memory_equal(f.gradients, expected, length * sizeof(float));
    assert_int_equal(f.nodes_done, 2 * f.net->node_count);
    free(expected);
    fixture_done(&f);
}

static void a_bucket_may_be_read_and_its_weights_overwritten_once_it_is_ready(void **state)
{
    check_hooks(*(psr_backend_kind *)*state, "convnet");
    check_hooks(*(psr_backend_kind *)*state, "resnet20");
}

static void padding_of_the_gradient_arena_is_never_touched(void **state)
{
    fixture f;
    fixture_init(&f, *(psr_backend_kind *)*state, "resnet20", BATCH);
    const size_t length = f.net->params.length;
    for (size_t i = 0; i < length; i++)
        f.gradients[i] = 12345;
    train(&f, NULL);
    size_t untouched = 0, zero = 0;
    for (size_t t = 0; t < f.net->params.tensor_count; t++) {
        const psr_tensor *tensor = &f.net->params.tensors[t];
        const size_t end = t + 1 < f.net->params.tensor_count ? tensor[1].offset : length;
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++) {
            assert_true(f.gradients[i] != 12345);
            zero += f.gradients[i] == 0;
        }
        for (size_t i = tensor->offset + tensor->count; i < end; i++, untouched++)
            assert_true(f.gradients[i] == 12345);
    }
    assert_int_equal(untouched, length - f.net->params.count);
    assert_true(untouched > 0 && zero < f.net->params.count / 10);
    fixture_done(&f);
}

static void a_smaller_batch_gives_what_it_would_give_alone(void **state)
{
    const psr_backend_kind kind = *(psr_backend_kind *)*state;
    fixture f, g;
    fixture_init(&f, kind, "resnet20", BATCH);
    fixture_init(&g, kind, "resnet20", 3);
    train(&f, NULL); /* leaves its traces in the workspace */
    psr_network_init(f.net, 1, f.weights, f.buffers);
    f.batch.count = 3;
    const psr_pass_result after = train(&f, NULL), alone = train(&g, NULL);
    assert_true(after.loss_sum == alone.loss_sum);
    assert_memory_equal(f.gradients, g.gradients, f.net->params.length * sizeof(float));
    assert_memory_equal(f.buffers, g.buffers, f.net->buffers.length * sizeof(float));
    fixture_done(&f);
    fixture_done(&g);
}

static void training_moves_the_running_statistics_and_inference_does_not(void **state)
{
    fixture f;
    fixture_init(&f, *(psr_backend_kind *)*state, "resnet20", BATCH);
    const size_t size = f.net->buffers.length * sizeof(float);
    float *before = floats(f.net->buffers.length);
    memcpy(before, f.buffers, size);
    train(&f, NULL);
    assert_memory_not_equal(before, f.buffers, size);
    memcpy(before, f.buffers, size);
    psr_pass_result result;
    assert_int_equal(psr_backend_infer(f.backend, &f.batch, &f.state, NULL, NULL, &result), PSR_OK);
    assert_memory_equal(before, f.buffers, size);
    free(before);
    fixture_done(&f);
}

static void inference_knows_no_batch_and_no_dropout(void **state)
{
    fixture f;
    fixture_init(&f, *(psr_backend_kind *)*state, "convnet", BATCH);
    float together[BATCH * CLASSES], alone[CLASSES];
    psr_pass_result result, single;
    double loss_sum = 0;
    uint32_t correct = 0;
    assert_int_equal(psr_backend_infer(f.backend, &f.batch, &f.state, NULL, together, &result),
                     PSR_OK);
    for (uint32_t n = 0; n < BATCH; n++) {
        const psr_batch one = {
            f.images + (size_t)n * PIXELS, labels + n, samples + n, 1, .epoch = 8, .seed = 1234};
        assert_int_equal(psr_backend_infer(f.backend, &one, &f.state, NULL, alone, &single),
                         PSR_OK);
        for (int k = 0; k < CLASSES; k++)
            assert_true(fabsf(alone[k] - together[n * CLASSES + (uint32_t)k]) < 1e-5f);
        loss_sum += single.loss_sum;
        correct += single.correct;
    }
    assert_true(fabs(loss_sum - result.loss_sum) < 1e-5);
    assert_int_equal(correct, result.correct);
    fixture_done(&f);
}

static void inference_asks_for_every_bucket_and_reports_none(void **state)
{
    fixture f;
    fixture_init(&f, *(psr_backend_kind *)*state, "resnet20", BATCH);
    const psr_exec_hooks hooks = {
        .context = &f, .weights_wanted = bring_weights, .gradient_ready = take_gradient};
    psr_pass_result result;
    assert_int_equal(psr_backend_infer(f.backend, &f.batch, &f.state, &hooks, NULL, &result),
                     PSR_OK);
    for (uint32_t b = 0; b < f.buckets.count; b++) {
        assert_int_equal(f.wanted_count[b], 1);
        assert_int_equal(f.ready_count[b], 0);
    }
    fixture_done(&f);
}

static void dropout_follows_the_sample_not_its_place(void **state)
{
    fixture f;
    fixture_init(&f, *(psr_backend_kind *)*state, "convnet", 1);
    const double loss = train(&f, NULL).loss_sum;
    assert_true(train(&f, NULL).loss_sum == loss);
    f.batch.epoch = 2;
    assert_true(train(&f, NULL).loss_sum != loss);
    f.batch.epoch = 1;
    f.batch.samples = samples + 1;
    assert_true(train(&f, NULL).loss_sum != loss);
    fixture_done(&f);
}

static void a_hook_that_fails_ends_the_pass_with_its_status(void **state)
{
    fixture f;
    fixture_init(&f, *(psr_backend_kind *)*state, "resnet20", BATCH);
    f.refusal = PSR_ERR_CANCELLED;
    const psr_exec_hooks hooks = {
        .context = &f, .weights_wanted = bring_weights, .gradient_ready = take_gradient};
    psr_pass_result result;
    assert_int_equal(psr_backend_train(f.backend, &f.batch, &f.state, 1, &hooks, &result),
                     PSR_ERR_CANCELLED);
    assert_int_equal(f.ready_count[0], 1);
    assert_int_equal(f.ready_count[1], 0);
    fixture_done(&f);
}

static void a_back_end_says_what_it_is_and_what_it_holds(void **state)
{
    const psr_backend_kind kind = *(psr_backend_kind *)*state;
    fixture f;
    fixture_init(&f, kind, "mlp", BATCH);
    assert_true(strlen(psr_backend_identity(kind, 0)) > 0);
    assert_non_null(psr_backend_algorithms(f.backend));
    const char *engines = psr_backend_engines(f.backend);
    assert_int_equal(strlen(engines) > 0, kind == PSR_BACKEND_CUDA);
    assert_int_equal(strspn(engines, "0123456789,"), strlen(engines));
    assert_true(psr_backend_bytes(f.backend) > BATCH * (PIXELS + 512 + 512) * sizeof(float));
    fixture_done(&f);
}

static void the_reference_refuses_bf16_by_name(void **state)
{
    (void)state;
    psr_network *net = NULL;
    psr_buckets buckets;
    psr_backend *backend = NULL;
    assert_int_equal(psr_network_new("mlp", 10, 1, 28, 28, PSR_SHORTCUT_A, &net), PSR_OK);
    assert_int_equal(psr_buckets_plan(&net->params, 1 << 20, &buckets), PSR_OK);
    const psr_backend_options options = {.kind = PSR_BACKEND_REFERENCE,
                                         .precision = PSR_PRECISION_BF16,
                                         .max_batch = 1,
                                         .buckets = &buckets};
    assert_int_equal(psr_backend_new(net, &options, &backend), PSR_ERR_UNSUPPORTED);
    assert_non_null(strstr(psr_err_detail(), "--precision fp32"));
    assert_null(backend);
    psr_buckets_done(&buckets);
    psr_network_free(net);
}

static psr_backend_kind reference = PSR_BACKEND_REFERENCE, onednn = PSR_BACKEND_ONEDNN,
                        cuda = PSR_BACKEND_CUDA;

#define FOR_ALL(test)                                                                              \
    {"reference: " #test, test, NULL, NULL, &reference},                                           \
        {"onednn: " #test, test, NULL, NULL, &onednn},                                             \
    {                                                                                              \
        "cuda: " #test, test, NULL, NULL, &cuda                                                    \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOR_ALL(a_bucket_may_be_read_and_its_weights_overwritten_once_it_is_ready),
        FOR_ALL(padding_of_the_gradient_arena_is_never_touched),
        FOR_ALL(a_smaller_batch_gives_what_it_would_give_alone),
        FOR_ALL(training_moves_the_running_statistics_and_inference_does_not),
        FOR_ALL(inference_knows_no_batch_and_no_dropout),
        FOR_ALL(inference_asks_for_every_bucket_and_reports_none),
        FOR_ALL(dropout_follows_the_sample_not_its_place),
        FOR_ALL(a_hook_that_fails_ends_the_pass_with_its_status),
        FOR_ALL(a_back_end_says_what_it_is_and_what_it_holds),
        cmocka_unit_test(the_reference_refuses_bf16_by_name),
    };
    psr_cuda_offer(psr_emulator()); /* a GPU that this processor plays */
    return cmocka_run_group_tests_name("backend", tests, NULL, NULL);
}
