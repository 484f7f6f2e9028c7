/* --freeze: which tensors it marks, what it refuses, how buckets are cut, and that the backward
 * pass of either back end gives trained tensors the bits that it gives them without it, and ends
 * where nothing before is trained. */
#include "base/arrays/arena.h"
#include "model/backend.h"
#include "model/freeze.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/unit/expect.h"

enum { BATCH = 4 };

static psr_config config_of(const char *model, const char *freeze, bool freeze_bn)
{
    psr_config config;
    psr_config_defaults(&config);
    expect_ok(psr_config_set(&config, "model", model));
    expect_ok(psr_config_set(&config, "freeze", freeze));
    config.freeze_bn = freeze_bn;
    return config;
}

static psr_network *network_of(const psr_config *config)
{
    psr_network *net = NULL;
    const bool grey = strcmp(config->model, "convnet") == 0;
    const uint32_t side = grey ? 28 : strcmp(config->model, "resnet18") == 0 ? 48 : 16;
    expect_ok(psr_network_of(config, 10, grey ? 1 : 3, side, side, &net));
    return net;
}

static psr_network *frozen_network(const char *model, const char *freeze)
{
    const psr_config config = config_of(model, freeze, false);
    return network_of(&config);
}

/* ---- marks ---- */

static bool is_frozen(const psr_network *net, const char *tensor)
{
    const psr_tensor *found = psr_layout_find(&net->params, tensor);
    assert_non_null(found);
    return found->frozen;
}

static void layers_blocks_tensors_and_patterns_are_frozen(void **state)
{
    (void)state;
    psr_network *net = frozen_network("resnet20", "conv1,bn1,layer1,layer2.0.conv1.weight,*.bn2.*");
    assert_true(is_frozen(net, "conv1.weight") && is_frozen(net, "bn1.bias"));
    assert_true(is_frozen(net, "layer1.2.conv2.weight"));
    assert_true(is_frozen(net, "layer2.0.conv1.weight"));
    assert_true(is_frozen(net, "layer3.1.bn2.weight"));
    assert_false(is_frozen(net, "layer2.0.conv2.weight"));
    assert_false(is_frozen(net, "layer2.0.bn1.weight"));
    assert_false(is_frozen(net, "fc.weight"));
    psr_network_free(net);
}

static void all_but_trains_what_is_named(void **state)
{
    (void)state;
    psr_network *net = frozen_network("resnet20", "all-but:layer3.2,fc");
    for (size_t t = 0; t < net->params.tensor_count; t++) {
        const psr_tensor *tensor = &net->params.tensors[t];
        const bool named =
            strncmp(tensor->name, "layer3.2.", 9) == 0 || strncmp(tensor->name, "fc.", 3) == 0;
        assert_int_equal(tensor->frozen, !named);
    }
    size_t fixed = 0;
    for (uint32_t i = 0; i < net->node_count; i++)
        fixed += net->nodes[i].fixed;
    assert_true(fixed > 20 && net->nodes[0].fixed && !net->nodes[net->node_count - 1].fixed);
    psr_network_free(net);
}

static void buckets_end_where_frozen_tensors_begin(void **state)
{
    (void)state;
    psr_network *net = frozen_network("resnet20", "layer2");
    psr_buckets buckets, again;
    expect_ok(psr_buckets_plan(&net->params, 64 << 10, &buckets));
    assert_in_range(psr_buckets_trained(&buckets), 2, buckets.count - 1);
    psr_span *spans = calloc(buckets.count, sizeof *spans);
    size_t trained = 0;
    for (uint32_t b = 0; b < buckets.count; b++) {
        const psr_bucket *bucket = &buckets.items[b];
        for (uint32_t t = 0; t < bucket->tensor_count; t++)
            assert_int_equal(net->params.tensors[bucket->first_tensor + t].frozen, bucket->frozen);
        trained += bucket->frozen ? 0 : bucket->length;
        spans[b] = (psr_span){bucket->offset, bucket->length};
    }
    assert_int_equal(trained, psr_layout_trained_length(&net->params));
    expect_ok(psr_buckets_of(&net->params, spans, buckets.count, &again));
    for (uint32_t b = 0; b < buckets.count; b++)
        assert_int_equal(again.items[b].frozen, buckets.items[b].frozen);
    psr_buckets_done(&again);

    const psr_span all = {0, net->params.length};
    assert_int_equal(psr_buckets_of(&net->params, &all, 1, &again), PSR_ERR_FORMAT);
    free(spans);
    psr_buckets_done(&buckets);
    psr_network_free(net);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *freeze;
        bool bn;
        const char *says;
    } cases[] = {
        {"resnet20", "layer9", false,
         "--freeze: resnet20 has no layer or tensor 'layer9'; did you mean layer1?"},
        {"resnet20", "conv1,layer1.0.cnv2", false, "'layer1.0.cnv2'; did you mean layer1.0.conv2?"},
        {"resnet20", "all-but:fcc", false, "'fcc'; did you mean fc?"},
        {"resnet20", "encoder.block.7", false,
         "its first tensor is conv1.weight, its last fc.bias"},
        {"resnet20", "*", false, "--freeze * leaves nothing of resnet20 to train"},
        {"resnet20", "fc", true, "--freeze-bn: --freeze fc freezes no batch norm of resnet20"},
        {"resnet20", "*.bn1.weight", true, "freezes no batch norm of resnet20, weight and bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const psr_config config = config_of(cases[i].model, cases[i].freeze, cases[i].bn);
        psr_network *net = NULL;
        assert_int_equal(psr_network_of(&config, 10, 3, 16, 16, &net), PSR_ERR_USAGE);
        if (strstr(psr_err_detail(), cases[i].says) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", psr_err_detail(), cases[i].says);
    }
}

/* ---- passes ---- */

typedef struct pass {
    psr_network *net;
    psr_buckets buckets;
    psr_backend *backend;
    float *weights, *gradients, *buffers;
    uint32_t layers; /* whose backward was computed */
    uint32_t ready;  /* buckets */
    double loss;
} pass;

static void see_layer(void *context, const psr_exec_layer *layer, int64_t begin_ns, int64_t end_ns)
{
    assert_true(begin_ns > 0 && begin_ns <= end_ns);
    ((pass *)context)->layers += layer->backward ? layer->count : 0;
}

static psr_err see_ready(void *context, uint32_t bucket, psr_fence *fence)
{
    pass *p = context;
    (void)fence;
    assert_false(p->buckets.items[bucket].frozen);
    p->ready++;
    return PSR_OK;
}

static psr_err see_wanted(void *context, uint32_t bucket)
{
    assert_false(((pass *)context)->buckets.items[bucket].frozen);
    return PSR_OK;
}

/* Trains one batch of some noise, from the weights of seed 7. */
static pass run_pass(psr_backend_kind kind, const psr_config *config)
{
    static const uint32_t labels[BATCH] = {3, 9, 0, 3}, samples[BATCH] = {5, 6, 7, 8};
    pass p = {.net = network_of(config)};
    expect_ok(psr_buckets_plan(&p.net->params, 16 << 10, &p.buckets));
    const psr_backend_options options = {
        .kind = kind, .max_batch = BATCH, .threads = 1, .buckets = &p.buckets};
    expect_ok(psr_backend_new(p.net, &options, &p.backend));
    expect_ok(psr_arena_new(p.net->params.length, &p.weights));
    expect_ok(psr_arena_new(p.net->params.length, &p.gradients));
    expect_ok(psr_arena_new(p.net->buffers.length + 16, &p.buffers));
    psr_network_init(p.net, 7, p.weights, p.buffers);
    for (size_t i = 0; i < p.net->params.length; i++)
        p.gradients[i] = 123.0f;

    const size_t pixels = (size_t)BATCH * p.net->channels * p.net->height * p.net->width;
    float *images = NULL;
    expect_ok(psr_arena_new(pixels, &images));
    for (size_t i = 0; i < pixels; i++)
        images[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    const psr_batch batch = {
        .images = images, .labels = labels, .samples = samples, .count = BATCH};
    const psr_exec_state state = {p.weights, p.gradients, p.buffers};
    const psr_exec_hooks hooks = {.context = &p,
                                  .weights_wanted = see_wanted,
                                  .gradient_ready = see_ready,
                                  .layer = see_layer};
    psr_pass_result result;
    expect_ok(psr_backend_train(p.backend, &batch, &state, 1.0f / BATCH, &hooks, &result));
    p.loss = result.loss_sum;
    psr_arena_free(images, pixels);
    return p;
}

static void pass_done(pass *p)
{
    psr_backend_free(p->backend);
    psr_arena_free(p->weights, p->net->params.length);
    psr_arena_free(p->gradients, p->net->params.length);
    psr_arena_free(p->buffers, p->net->buffers.length + 16);
    psr_buckets_done(&p->buckets);
    psr_network_free(p->net);
}

static const struct {
    const char *model, *freeze;
    bool ends_early; /* the backward pass does not reach the images */
} frozen_cases[] = {
    {"resnet20", "all-but:fc", true},           {"resnet20", "conv1,bn1,layer1", true},
    {"resnet20", "layer2,*.bn1.weight", false}, {"convnet", "conv1", true},
    {"convnet", "fc1,conv2.bias", false},
};
enum { FROZEN_CASES = sizeof frozen_cases / sizeof frozen_cases[0] };

static void trained_tensors_have_the_gradients_of_a_pass_without(psr_backend_kind kind)
{
    for (size_t i = 0; i < FROZEN_CASES; i++) {
        const psr_config all = config_of(frozen_cases[i].model, "", false),
                         some = config_of(frozen_cases[i].model, frozen_cases[i].freeze, false);
        pass whole = run_pass(kind, &all), p = run_pass(kind, &some);
        assert_true(p.loss == whole.loss);
        assert_memory_equal(p.buffers, whole.buffers, p.net->buffers.length * sizeof(float));
        for (size_t t = 0; t < p.net->params.tensor_count; t++) {
            const psr_tensor *tensor = &p.net->params.tensors[t];
            if (!tensor->frozen)
                assert_memory_equal(p.gradients + tensor->offset, whole.gradients + tensor->offset,
                                    tensor->count * sizeof(float));
        }
        assert_int_equal(p.ready, psr_buckets_trained(&p.buckets));
        if (frozen_cases[i].ends_early) {
            assert_true(p.layers < whole.layers);
            assert_true(p.gradients[0] == 123.0f); /* the first layer's */
        } else {
            assert_int_equal(p.layers, whole.layers - 1); /* the images' has nothing to compute */
        }
        pass_done(&whole);
        pass_done(&p);
    }
}

static void the_reference_gives_trained_tensors_the_same_bits(void **state)
{
    (void)state;
    trained_tensors_have_the_gradients_of_a_pass_without(PSR_BACKEND_REFERENCE);
}

static void onednn_gives_trained_tensors_the_same_bits(void **state)
{
    (void)state;
    trained_tensors_have_the_gradients_of_a_pass_without(PSR_BACKEND_ONEDNN);
}

/* Only the linear layer at the end is computed backward. */
static void the_backward_pass_ends_at_the_last_trained_layer(void **state)
{
    (void)state;
    const psr_config config = config_of("resnet20", "all-but:fc", false);
    const psr_backend_kind kinds[] = {PSR_BACKEND_REFERENCE, PSR_BACKEND_ONEDNN};
    for (size_t i = 0; i < 2; i++) {
        pass p = run_pass(kinds[i], &config);
        assert_int_equal(p.layers, 1);
        pass_done(&p);
    }
}

static void held_norms_keep_their_statistics_in_both_back_ends(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "*bn*,*downsample.1*", "layer2", "bn1,layer3.0.bn2"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const psr_config held = config_of("resnet18", lists[i], true);
        pass reference = run_pass(PSR_BACKEND_REFERENCE, &held),
             onednn = run_pass(PSR_BACKEND_ONEDNN, &held);
        assert_true(fabs(reference.loss - onednn.loss) < 1e-3 * fabs(reference.loss));
        for (uint32_t n = 0; n < reference.net->node_count; n++) {
            const psr_network_node *node = &reference.net->nodes[n];
            if (node->op != PSR_OP_BATCHNORM)
                continue;
            const size_t mean = reference.net->buffers.tensors[node->mean].offset;
            assert_int_equal(node->held, reference.buffers[mean] == 0);
            assert_int_equal(node->held, onednn.buffers[mean] == 0);
        }
        for (size_t t = 0; t < reference.net->params.tensor_count; t++) {
            const psr_tensor *tensor = &reference.net->params.tensors[t];
            double squares = 0, apart = 0;
            for (size_t e = 0; e < tensor->count && !tensor->frozen; e++) {
                const double a = (double)reference.gradients[tensor->offset + e],
                             b = (double)onednn.gradients[tensor->offset + e];
                squares += a * a;
                apart += (a - b) * (a - b);
            }
            if (sqrt(apart) > 2e-2 * sqrt(squares)) /* float32, through twenty layers */
                fail_msg("--freeze %s: %s differs by %g of %g", lists[i], tensor->name, sqrt(apart),
                         sqrt(squares));
        }
        pass_done(&reference);
        pass_done(&onednn);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_blocks_tensors_and_patterns_are_frozen),
        cmocka_unit_test(all_but_trains_what_is_named),
        cmocka_unit_test(buckets_end_where_frozen_tensors_begin),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_reference_gives_trained_tensors_the_same_bits),
        cmocka_unit_test(onednn_gives_trained_tensors_the_same_bits),
        cmocka_unit_test(the_backward_pass_ends_at_the_last_trained_layer),
        cmocka_unit_test(held_norms_keep_their_statistics_in_both_back_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
