/* The MLP on MNIST as everybody trains it (SGD 1e-2, batch 32, shuffled, pixels normalised by the
 * set's mean and deviation, PyTorch's default initialisation): data, sampler, network, loss and
 * optimizer together, ten seeds, beside the curve that PyTorch gave over forty. Exits 77 without
 * MNIST in PSR_TEST_DATA. */
#include "data/loader.h"
#include "model/backend.h"
#include "model/optimizers/optimizer.h"

#include "tests/unit/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 10, POINTS = 10, EVERY = 20, BATCH = 32 };

/* Loss of the batch at step 20, 40, .. 200: mean and standard deviation over PYTORCH_SEEDS runs. */
enum { PYTORCH_SEEDS = 40 };
static const double mean[POINTS] = {2.228, 2.137, 2.023, 1.892, 1.741,
                                    1.551, 1.351, 1.204, 1.035, 0.937};
static const double deviation[POINTS] = {0.023, 0.030, 0.034, 0.056, 0.067,
                                         0.091, 0.094, 0.109, 0.094, 0.135};

static psr_dataset *mnist;

static float *floats(size_t count)
{
    float *x = aligned_alloc(64, (count * sizeof(*x) + 63) / 64 * 64);
    assert_non_null(x);
    memset(x, 0, count * sizeof(*x));
    return x;
}

static psr_loader *open_loader(uint64_t seed)
{
    psr_augment_plan plan;
    expect_ok(psr_augment_plan_parse("none", 0, &plan));
    const psr_loader_options options = {
        .plan = &plan,
        .sampler = {.seed = seed,
                    .count = mnist->count,
                    .workers = 1,
                    .batch_size = BATCH,
                    .shuffle = true},
        .threads = 1,
        .depth = 4,
        .last_epoch = 1,
    };
    psr_loader *loader = NULL;
    expect_ok(psr_loader_new(mnist, &options, &loader));
    return loader;
}

static void train(psr_backend *backend, const psr_network *net, uint64_t seed,
                  double points[POINTS])
{
    float *weights = floats(net->params.length), *gradients = floats(net->params.length),
          *buffers = floats(1);
    const psr_exec_state state = {weights, gradients, buffers};
    psr_config config;
    psr_config_defaults(&config);
    config.optimizer = PSR_OPTIMIZER_SGD;
    config.momentum = config.weight_decay = 0;
    config.nesterov = false;
    psr_optimizer *optimizer = NULL;
    expect_ok(psr_optimizer_new(&config, &net->params, &optimizer));
    psr_loader *loader = open_loader(seed);
    psr_network_init(net, seed, weights, buffers);
    for (uint32_t step = 1; step <= POINTS * EVERY; step++) {
        const psr_loader_batch *loaded = NULL;
        psr_pass_result result;
        expect_ok(psr_loader_next(loader, &loaded));
        assert_int_equal(loaded->count, BATCH);
        const psr_batch batch = {.images = loaded->images,
                                 .labels = loaded->labels,
                                 .samples = loaded->samples,
                                 .count = loaded->count,
                                 .seed = seed};
        expect_ok(psr_backend_train(backend, &batch, &state, 1.0f / BATCH, NULL, &result));
        psr_loader_return(loader, loaded);
        psr_optimizer_update(optimizer, weights, gradients, 0, net->params.length, 0.01f, step);
        if (step % EVERY == 0)
            points[step / EVERY - 1] += result.loss_sum / BATCH / SEEDS;
    }
    psr_loader_free(loader);
    psr_optimizer_free(optimizer);
    free(weights);
    free(gradients);
    free(buffers);
}

static void the_mean_curve_of_ten_seeds_is_pytorchs_within_three_standard_errors(void **state)
{
    (void)state;
    psr_network *net = NULL;
    psr_buckets buckets;
    psr_backend *backend = NULL;
    double points[POINTS] = {0};
    expect_ok(psr_network_new("mlp", 10, 1, 28, 28, PSR_SHORTCUT_A, &net));
    expect_ok(psr_buckets_plan(&net->params, 4 << 20, &buckets));
    const psr_backend_options options = {
        .kind = PSR_BACKEND_ONEDNN, .max_batch = BATCH, .threads = 1, .buckets = &buckets};
    expect_ok(psr_backend_new(net, &options, &backend));
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        train(backend, net, seed, points);

    uint32_t outside = 0;
    printf("# step   psring  PyTorch  apart, in standard errors\n");
    for (int i = 0; i < POINTS; i++) {
        /* Of the difference of two means: over 10 seeds here, over 40 there. */
        const double standard_error = deviation[i] * sqrt(1.0 / SEEDS + 1.0 / PYTORCH_SEEDS);
        const double apart = (points[i] - mean[i]) / standard_error;
        printf("# %4d   %.3f   %.3f    %+.1f\n", (i + 1) * EVERY, points[i], mean[i], apart);
        outside += !(fabs(apart) <= 3);
    }
    assert_int_equal(outside, 0);
    psr_backend_free(backend);
    psr_buckets_done(&buckets);
    psr_network_free(net);
}

int main(void)
{
    const char *root = getenv("PSR_TEST_DATA");
    char spec[4096];
    snprintf(spec, sizeof(spec), "%s/mnist", root != NULL ? root : ".");
    const psr_err err = psr_dataset_open(spec, PSR_SPLIT_TRAIN, &mnist);
    if (err != PSR_OK) {
        fprintf(stderr, "mnist_curve: %s\n", psr_err_detail());
        return err == PSR_ERR_NOT_FOUND ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_curve_of_ten_seeds_is_pytorchs_within_three_standard_errors),
    };
    const int failed = cmocka_run_group_tests_name("mnist_curve", tests, NULL, NULL);
    psr_dataset_free(mnist);
    return failed;
}
