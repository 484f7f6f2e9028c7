/* model/played/played.c, behind model/backend.h */
#include "tests/unit/folder.h"

#include "model/backend.h"
#include "model/played/profile.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define FORWARD_S 0.002
#define BACKWARD_S 0.003
#define REST_S 0.001

typedef struct fixture {
    psr_network *net;
    psr_buckets buckets;
    float *weights, *gradients, *buffers;
    double step_s; /* of the profile */
    char path[256];
} fixture;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A network, and a profile of it in which each tensor takes FORWARD_S and BACKWARD_S. */
static void make_fixture(fixture *f)
{
    psr_profile p = {.network = "mlp", .machine = "m", .batch = 4, .threads = 1, .rest_s = REST_S};
    *f = (fixture){.net = NULL};
    expect_ok(psr_network_new("mlp", 10, 1, 28, 28, PSR_SHORTCUT_A, &f->net));
    expect_ok(psr_buckets_plan(&f->net->params, 64 << 10, &f->buckets));
    f->weights = calloc(f->net->params.length, sizeof(float));
    f->gradients = calloc(f->net->params.length, sizeof(float));
    f->buffers = calloc(f->net->buffers.length + 1, sizeof(float));
    p.count = f->net->params.tensor_count;
    p.tensors = calloc(p.count, sizeof *p.tensors);
    assert_non_null(f->weights);
    assert_non_null(f->gradients);
    assert_non_null(f->buffers);
    assert_non_null(p.tensors);
    for (size_t i = 0; i < p.count; i++) {
        const psr_tensor *t = &f->net->params.tensors[i];
        p.tensors[i] = (psr_profile_tensor){
            .bytes = 4 * t->count, .forward_s = FORWARD_S, .backward_s = BACKWARD_S};
        memcpy(p.tensors[i].name, t->name, sizeof t->name);
    }
    snprintf(f->path, sizeof f->path, "%s", in_folder("profile.json"));
    expect_ok(psr_profile_write(f->path, &p));
    f->step_s = psr_profile_step_s(&p);
    free(p.tensors);
}

static void free_fixture(fixture *f)
{
    psr_buckets_done(&f->buckets);
    psr_network_free(f->net);
    free(f->weights);
    free(f->gradients);
    free(f->buffers);
}

static psr_err make_backend(const fixture *f, double dilate, bool seeded, psr_backend **ret_backend)
{
    const psr_backend_options options = {.kind = PSR_BACKEND_PLAYED,
                                         .max_batch = 4,
                                         .threads = 1,
                                         .buckets = &f->buckets,
                                         .profile = f->path,
                                         .dilate = dilate,
                                         .seeded_gradients = seeded};
    return psr_backend_new(f->net, &options, ret_backend);
}

/* When each bucket asked for its weights and was ready. */
typedef struct seen {
    double wanted_s[64], ready_s[64], begun_s;
    uint32_t count;
} seen;

static psr_err wanted(void *context, uint32_t bucket)
{
    seen *s = context;
    s->wanted_s[bucket] = now_s();
    return PSR_OK;
}

static psr_err ready(void *context, uint32_t bucket, psr_fence *fence)
{
    seen *s = context;
    assert_null(fence);
    s->ready_s[bucket] = now_s();
    s->count++;
    return PSR_OK;
}

static double train(fixture *f, psr_backend *backend, uint32_t count, seen *s)
{
    static const uint32_t labels[4], samples[4] = {7, 8, 9, 10};
    const psr_exec_hooks hooks = {.context = s, .weights_wanted = wanted, .gradient_ready = ready};
    const psr_exec_state state = {f->weights, f->gradients, f->buffers};
    const psr_batch batch = {
        .images = f->weights, .labels = labels, .samples = samples, .count = count, .seed = 5};
    psr_pass_result result;
    *s = (seen){.begun_s = now_s()};
    expect_ok(psr_backend_train(backend, &batch, &state, 0.25f, &hooks, &result));
    assert_true(fabs(result.loss_sum - count * log(10)) < 1e-9);
    assert_int_equal(result.correct, 0);
    return now_s() - s->begun_s;
}

static void a_pass_takes_as_long_as_the_recorded_one_or_longer(void **state)
{
    (void)state;
    fixture f;
    psr_backend *backend = NULL;
    seen s;
    make_fixture(&f);
    expect_ok(make_backend(&f, 1, false, &backend));
    assert_true(train(&f, backend, 4, &s) >= f.step_s);
    assert_int_equal(s.count, f.buckets.count);
    /* half a batch has half of it to sleep */
    assert_true(train(&f, backend, 2, &s) >= f.step_s / 2);
    psr_backend_free(backend);
    expect_ok(make_backend(&f, 3, false, &backend));
    assert_true(train(&f, backend, 4, &s) >= 3 * f.step_s);
    psr_backend_free(backend);
    free_fixture(&f);
}

/* Bucket 0 is the arena's end, and is ready first. */
static void buckets_become_ready_one_after_another(void **state)
{
    (void)state;
    fixture f;
    psr_backend *backend = NULL;
    seen s;
    make_fixture(&f);
    expect_ok(make_backend(&f, 1, false, &backend));
    (void)train(&f, backend, 4, &s);
    const uint32_t last = f.buckets.count - 1;
    const double tensors = (double)f.net->params.tensor_count;
    assert_true(last > 2);
    for (uint32_t b = 0; b < last; b++) {
        assert_true(s.ready_s[b] <= s.ready_s[b + 1]);
        assert_true(s.wanted_s[b] >= s.wanted_s[b + 1]);
    }
    /* at least the whole forward pass and the last layer's backward pass (two tensors) are over */
    assert_true(s.ready_s[0] - s.begun_s >= tensors * FORWARD_S + 2 * BACKWARD_S);
    assert_true(s.ready_s[last] - s.begun_s >= tensors * (FORWARD_S + BACKWARD_S));
    psr_backend_free(backend);
    free_fixture(&f);
}

static void gradients_are_zeros_or_a_function_of_the_batch(void **state)
{
    (void)state;
    fixture f;
    psr_backend *backend = NULL;
    seen s;
    make_fixture(&f);
    const size_t count = f.net->params.length;
    f.gradients[3] = 7; /* of whoever had the memory before */
    expect_ok(make_backend(&f, 1, false, &backend));
    (void)train(&f, backend, 4, &s);
    for (size_t i = 0; i < count; i++)
        assert_true(f.gradients[i] == 0);
    psr_backend_free(backend);

    float *first = calloc(count, sizeof *first);
    assert_non_null(first);
    expect_ok(make_backend(&f, 1, true, &backend));
    (void)train(&f, backend, 4, &s);
    memcpy(first, f.gradients, count * sizeof *first);
    size_t zeros = 0;
    for (size_t t = 0; t < f.net->params.tensor_count; t++)
        for (size_t i = 0; i < f.net->params.tensors[t].count; i++)
            zeros += first[f.net->params.tensors[t].offset + i] == 0;
    assert_true(zeros < 10);
    memset(f.gradients, 0, count * sizeof *first);
    (void)train(&f, backend, 4, &s);
    assert_memory_equal(first, f.gradients, count * sizeof *first);
    psr_backend_free(backend);
    free(first);
    free_fixture(&f);
}

static void what_cannot_be_played_is_refused(void **state)
{
    (void)state;
    fixture f;
    psr_backend *backend = NULL;
    make_fixture(&f);
    snprintf(f.path, sizeof f.path, "/nowhere/profile.json");
    assert_int_equal(make_backend(&f, 1, false, &backend), PSR_ERR_NOT_FOUND);
    snprintf(f.path, sizeof f.path, "%s", in_folder("profile.json"));
    psr_network_free(f.net);
    expect_ok(psr_network_new("mlp", 12, 1, 28, 28, PSR_SHORTCUT_A, &f.net));
    assert_int_equal(make_backend(&f, 1, false, &backend), PSR_ERR_MISMATCH);
    assert_non_null(strstr(psr_err_detail(), "--model, --classes and the images"));
    free_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_pass_takes_as_long_as_the_recorded_one_or_longer),
        IN_A_FOLDER(buckets_become_ready_one_after_another),
        IN_A_FOLDER(gradients_are_zeros_or_a_function_of_the_batch),
        IN_A_FOLDER(what_cannot_be_played_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
