#include "tests/unit/expect.h"

#include "model/networks/network.h"
#include "model/networks/network_list.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static psr_network *net_of(const char *model, uint32_t classes, uint32_t channels, uint32_t size,
                           psr_shortcut shortcut)
{
    psr_network *net = NULL;
    expect_ok(psr_network_new(model, classes, channels, size, size, shortcut, &net));
    return net;
}

/* ---- names, shapes and order: tests/golden/nets.txt, which make_nets.py wrote with torchvision
 * ---- */

typedef struct listing {
    char *text; /* "parameter conv1.weight 64x3x7x7\n" .. */
    size_t size;
} listing;

static void list_layout(FILE *out, const char *kind, const psr_layout *layout)
{
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const psr_tensor *tensor = &layout->tensors[i];
        fprintf(out, "%s %s ", kind, tensor->name);
        for (uint32_t d = 0; d < tensor->rank; d++)
            fprintf(out, "%s%" PRIu32, d ? "x" : "", tensor->shape[d]);
        fputc('\n', out);
    }
}

/* What make_nets.py would list of net. */
static listing list_net(const psr_network *net)
{
    listing list = {0};
    FILE *out = open_memstream(&list.text, &list.size);
    assert_non_null(out);
    list_layout(out, "parameter", &net->params);
    list_layout(out, "buffer", &net->buffers);
    assert_int_equal(fclose(out), 0);
    return list;
}

static uint64_t fnv1a(const char *text, size_t size)
{
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        value = (value ^ (unsigned char)text[i]) * 0x100000001b3u;
    return value;
}

static FILE *open_golden(void)
{
    char path[4096];
    const char *folder = getenv("PSR_GOLDEN");
    if (folder == NULL)
        fail_msg("PSR_GOLDEN must name tests/golden");
    snprintf(path, sizeof path, "%s/nets.txt", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s cannot be read", path);
    return file;
}

static void every_network_has_the_names_shapes_and_order_of_torchvision(void **state)
{
    (void)state;
    FILE *golden = open_golden();
    char line[512], name[32], shortcut;
    uint32_t classes, channels, size;
    size_t tensors, elements, buffers, nets = 0, listed = 0;
    uint64_t hash;
    listing list = {0};
    const char *at = NULL; /* in list.text: the next line that golden should have */
    while (fgets(line, sizeof line, golden) != NULL) {
        if (sscanf(line, "net %31s %" SCNu32 " %" SCNu32 " %" SCNu32 " %c %zu %zu %zu %" SCNx64,
                   name, &classes, &channels, &size, &shortcut, &tensors, &elements, &buffers,
                   &hash) == 9) {
            psr_network *net = net_of(name, classes, channels, size,
                                      shortcut == 'b' ? PSR_SHORTCUT_B : PSR_SHORTCUT_A);
            free(list.text);
            list = list_net(net);
            at = list.text;
            assert_int_equal(net->params.tensor_count, tensors);
            assert_int_equal(net->params.count, elements);
            assert_int_equal(net->buffers.tensor_count, buffers);
            assert_true(fnv1a(list.text, list.size) == hash);
            psr_network_free(net);
            nets++;
        } else {
            assert_non_null(at);
            const char *end = strchr(at, '\n');
            assert_non_null(end);
            char ours[512];
            snprintf(ours, sizeof ours, "%.*s\n", (int)(end - at), at);
            assert_string_equal(ours, line);
            at = end + 1;
            listed++;
        }
    }
    free(list.text);
    fclose(golden);
    assert_int_equal(nets, 35);
    assert_true(listed > 500);
}

/* ---- structure ---- */

static void nodes_read_earlier_nodes_and_end_in_the_logits(void **state)
{
    (void)state;
    for (const psr_listed_network *listed = psr_networks; listed->name != NULL; listed++) {
        psr_network *net = net_of(listed->name, 7, 3, 33, PSR_SHORTCUT_A);
        assert_int_equal(net->nodes[0].op, PSR_OP_INPUT);
        for (uint32_t i = 1; i < net->node_count; i++) {
            const psr_network_node *node = &net->nodes[i];
            assert_true(node->op != PSR_OP_INPUT);
            assert_true(node->input[0] < i);
            assert_true(node->height > 0 && node->width > 0 && node->channels > 0);
            assert_true(node->name[0] != '\0');
            if (node->op == PSR_OP_ADD) {
                assert_true(node->input[1] < i);
                for (int k = 0; k < 2; k++) {
                    const psr_network_node *from = &net->nodes[node->input[k]];
                    assert_int_equal(from->channels, node->channels);
                    assert_int_equal(from->height, node->height);
                    assert_int_equal(from->width, node->width);
                }
            } else {
                assert_int_equal(node->input[1], PSR_NONE);
            }
        }
        const psr_network_node *last = &net->nodes[net->node_count - 1];
        assert_int_equal(last->channels, 7);
        assert_int_equal(last->height * last->width, 1);
        psr_network_free(net);
    }
}

static void every_tensor_belongs_to_one_node_in_forward_order(void **state)
{
    (void)state;
    for (const psr_listed_network *listed = psr_networks; listed->name != NULL; listed++) {
        psr_network *net = net_of(listed->name, 10, 3, 32, PSR_SHORTCUT_B);
        uint32_t next_param = 0, next_buffer = 0;
        for (uint32_t i = 0; i < net->node_count; i++) {
            const psr_network_node *node = &net->nodes[i];
            if (node->weight != PSR_NONE)
                assert_int_equal(node->weight, next_param++);
            if (node->bias != PSR_NONE)
                assert_int_equal(node->bias, next_param++);
            if (node->op == PSR_OP_BATCHNORM) {
                assert_int_equal(node->mean, next_buffer++);
                assert_int_equal(node->variance, next_buffer++);
            }
        }
        assert_int_equal(next_param, net->params.tensor_count);
        assert_int_equal(next_buffer, net->buffers.tensor_count);
        psr_network_free(net);
    }
}

static const psr_network_node *node_named(const psr_network *net, const char *name)
{
    for (uint32_t i = 0; i < net->node_count; i++)
        if (strcmp(net->nodes[i].name, name) == 0)
            return &net->nodes[i];
    fail_msg("no node %s", name);
    return net->nodes;
}

static void a_block_is_conv_norm_relu_conv_norm_downsample_add_relu(void **state)
{
    (void)state;
    psr_network *net = net_of("resnet18", 1000, 3, 224, PSR_SHORTCUT_A);
    static const char *const names[] = {"conv1",        "bn1",          "relu1", "conv2", "bn2",
                                        "downsample.0", "downsample.1", "add",   "relu"};
    static const psr_op ops[] = {PSR_OP_CONV,      PSR_OP_BATCHNORM, PSR_OP_RELU,
                                 PSR_OP_CONV,      PSR_OP_BATCHNORM, PSR_OP_CONV,
                                 PSR_OP_BATCHNORM, PSR_OP_ADD,       PSR_OP_RELU};
    const psr_network_node *node = node_named(net, "layer2.0.conv1");
    const uint32_t block_input = node->input[0];
    for (int i = 0; i < 9; i++, node++) {
        char name[64];
        snprintf(name, sizeof name, "layer2.0.%s", names[i]);
        assert_string_equal(node->name, name);
        assert_int_equal(node->op, ops[i]);
        uint32_t before = (uint32_t)(node - net->nodes) - 1;
        if (i == 5)
            assert_int_equal(node->input[0], block_input);
        else if (i == 7) {
            assert_int_equal(node->input[0], before - 2); /* bn2: the path */
            assert_int_equal(node->input[1], before);     /* the projected identity */
        } else if (i > 0)
            assert_int_equal(node->input[0], before);
    }
    psr_network_free(net);
}

static void resnet50_strides_in_its_3x3_and_ends_at_7x7(void **state)
{
    (void)state;
    psr_network *net = net_of("resnet50", 1000, 3, 224, PSR_SHORTCUT_A);
    const psr_network_node *stem = node_named(net, "conv1");
    assert_int_equal(stem->kernel, 7);
    assert_int_equal(stem->stride, 2);
    assert_int_equal(stem->pad, 3);
    assert_int_equal(stem->height, 112);
    assert_int_equal(stem->bias, PSR_NONE);
    const psr_network_node *pool = node_named(net, "maxpool");
    assert_int_equal(pool->kernel, 3);
    assert_int_equal(pool->stride, 2);
    assert_int_equal(pool->pad, 1);
    assert_int_equal(pool->height, 56);
    assert_int_equal(node_named(net, "layer3.0.conv1")->stride, 1);
    assert_int_equal(node_named(net, "layer3.0.conv2")->stride, 2);
    assert_int_equal(node_named(net, "layer3.0.conv3")->channels, 1024);
    assert_int_equal(node_named(net, "layer4.2.relu")->height, 7);
    const psr_network_node *norm = node_named(net, "bn1");
    assert_true(norm->epsilon == 1e-5 && norm->momentum == 0.1);
    psr_network_free(net);
}

static void
option_a_shortcuts_have_no_parameters_and_halve_odd_images_as_convolutions_do(void **state)
{
    (void)state;
    psr_network *net = net_of("resnet20", 10, 3, 27, PSR_SHORTCUT_A);
    const psr_network_node *shortcut = node_named(net, "layer2.0.shortcut");
    assert_int_equal(shortcut->op, PSR_OP_SHORTCUT_A);
    assert_int_equal(shortcut->stride, 2);
    assert_int_equal(shortcut->weight, PSR_NONE);
    assert_int_equal(shortcut->channels, 32);
    assert_int_equal(shortcut->height, 14);
    assert_int_equal(node_named(net, "layer3.0.shortcut")->height, 7);
    psr_network_free(net);
}

static void the_convnet_flattens_320_values_of_28_px_and_more_of_larger_images(void **state)
{
    (void)state;
    psr_network *net = net_of("convnet", 10, 1, 28, PSR_SHORTCUT_A);
    assert_int_equal(node_named(net, "flatten")->channels, 320);
    assert_int_equal(node_named(net, "conv2_drop")->op, PSR_OP_DROPOUT2D);
    assert_int_equal(node_named(net, "fc1_drop")->op, PSR_OP_DROPOUT);
    assert_true(node_named(net, "fc1_drop")->drop == 0.5);
    psr_network_free(net);
    net = net_of("convnet", 10, 3, 32, PSR_SHORTCUT_A);
    assert_int_equal(node_named(net, "flatten")->channels, 500);
    psr_network_free(net);
    net = net_of("convnet", 10, 3, 16, PSR_SHORTCUT_A);
    assert_int_equal(node_named(net, "flatten")->channels, 20);
    psr_network_free(net);
}

/* ---- refusals ---- */

static void an_unknown_model_is_refused_with_the_names_of_all(void **state)
{
    (void)state;
    psr_network *net = NULL;
    expect_failure(
        psr_network_new("resnet19", 10, 3, 32, 32, PSR_SHORTCUT_A, &net), PSR_ERR_USAGE,
        "model \"resnet19\" is unknown: one of mlp, convnet, resnet20, resnet32, resnet44, "
        "resnet56, resnet110, preresnet20, preresnet32, preresnet44, preresnet56, preresnet110, "
        "preresnet164, resnet9, airbench94, resnet18, resnet34, resnet50, resnet101, resnet152, "
        "wide_resnet50_2, wide_resnet101_2, resnext50_32x4d, resnext101_32x8d, resnext101_64x4d");
    assert_null(net);
}

static void an_image_that_is_too_small_is_refused_with_the_least_size(void **state)
{
    (void)state;
    psr_network *net = NULL;
    expect_failure(
        psr_network_new("convnet", 10, 1, 28, 15, PSR_SHORTCUT_A, &net), PSR_ERR_USAGE,
        "model convnet: images of 28 x 15 pixels are too small: at least 16 x 16 are needed");
    expect_failure(
        psr_network_new("resnet50", 10, 3, 0, 32, PSR_SHORTCUT_A, &net), PSR_ERR_USAGE,
        "model resnet50: images of 0 x 32 pixels are too small: at least 1 x 1 are needed");
}

static void the_small_stem_keeps_the_size_and_zero_gamma_is_of_each_last_norm(void **state)
{
    (void)state;
    psr_network *net = NULL;
    psr_config config;
    psr_config_defaults(&config);
    strcpy(config.model, "resnet50");
    expect_ok(psr_config_set(&config, "stem", "small"));
    expect_ok(psr_config_set(&config, "zero-gamma", "true"));
    expect_ok(psr_config_set(&config, "se", "16"));
    expect_ok(psr_config_set(&config, "bn-momentum", "0.25"));
    expect_ok(psr_config_set(&config, "bn-epsilon", "0.001"));
    expect_ok(psr_network_of(&config, 10, 3, 32, 32, &net));
    const psr_network_node *stem = node_named(net, "conv1");
    assert_int_equal(stem->kernel, 3);
    assert_int_equal(stem->stride, 1);
    assert_int_equal(node_named(net, "layer1.0.conv1")->height, 32);
    assert_int_equal(node_named(net, "layer4.2.relu")->height, 4);
    assert_int_equal(node_named(net, "layer1.0.se.fc1")->channels, 16);
    assert_int_equal(node_named(net, "layer4.2.se.fc2")->channels, 2048);
    uint32_t zeros = 0;
    for (uint32_t i = 0; i < net->node_count; i++) {
        const psr_network_node *node = &net->nodes[i];
        assert_true(node->op != PSR_OP_MAXPOOL);
        if (node->op != PSR_OP_BATCHNORM)
            continue;
        assert_true(node->momentum == 0.25 && node->epsilon == 0.001);
        const bool last = strstr(node->name, ".bn3") != NULL;
        assert_int_equal(net->inits[node->weight].kind, last ? PSR_INIT_ZERO : PSR_INIT_ONE);
        zeros += last;
    }
    assert_int_equal(zeros, 16);
    psr_network_free(net);
}

static void impossible_inputs_are_refused(void **state)
{
    (void)state;
    psr_network *net = NULL;
    expect_failure(psr_network_new("mlp", 0, 1, 28, 28, PSR_SHORTCUT_A, &net), PSR_ERR_USAGE,
                   "model mlp: 0 classes: from 1 to 1000000 are possible");
    expect_failure(psr_network_new("mlp", 10, 0, 28, 28, PSR_SHORTCUT_A, &net), PSR_ERR_USAGE,
                   "model mlp: images of 0 channels: from 1 to 1024 are possible");
    expect_failure(psr_network_new("mlp", 10, 3, 8193, 28, PSR_SHORTCUT_A, &net), PSR_ERR_USAGE,
                   "model mlp: images of 3 x 8193 x 28 are too large: at most 8192 pixels a side "
                   "and 268435456 values");
    expect_failure(psr_network_new("mlp", 10, 1024, 8192, 8192, PSR_SHORTCUT_A, &net),
                   PSR_ERR_USAGE,
                   "model mlp: images of 1024 x 8192 x 8192 are too large: at most 8192 pixels a "
                   "side and 268435456 values");
}

/* ---- initial values ---- */

typedef struct initialised {
    psr_network *net;
    float *arena, *buffers;
} initialised;

static initialised initialise(const char *model, uint64_t seed)
{
    initialised made = {.net = net_of(model, 10, 3, 32, PSR_SHORTCUT_A)};
    made.arena = malloc(made.net->params.length * sizeof(float));
    made.buffers = malloc((made.net->buffers.length + 1) * sizeof(float));
    assert_non_null(made.arena);
    assert_non_null(made.buffers);
    /* What was there before must not show. */
    memset(made.arena, 0x55, made.net->params.length * sizeof(float));
    memset(made.buffers, 0x55, made.net->buffers.length * sizeof(float));
    psr_network_init(made.net, seed, made.arena, made.buffers);
    return made;
}

static void dispose(initialised *made)
{
    psr_network_free(made->net);
    free(made->arena);
    free(made->buffers);
}

typedef struct moments {
    double mean, std, least, most;
} moments;

static moments moments_of(const float *values, size_t count)
{
    moments m = {.least = values[0], .most = values[0]};
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        m.mean += values[i];
        squares += (double)values[i] * values[i];
        m.least = values[i] < m.least ? values[i] : m.least;
        m.most = values[i] > m.most ? values[i] : m.most;
    }
    m.mean /= (double)count;
    m.std = sqrt(squares / (double)count - m.mean * m.mean);
    return m;
}

/* Mean 0 and this standard deviation, each within five standard errors (normal and uniform: the
 * standard error of a standard deviation is at most std / sqrt(2 count)). */
static void check_moments(const moments *m, double std, size_t count)
{
    double error = std / sqrt((double)count);
    assert_true(fabs(m->mean) < 5 * error);
    assert_true(fabs(m->std - std) < 5 * error / sqrt(2));
}

static void check_distribution(const psr_network *net, size_t t, const float *values)
{
    const psr_tensor *tensor = &net->params.tensors[t];
    moments m = moments_of(values, tensor->count);
    double fan_in = (double)tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
    double fan_out = (double)tensor->shape[0] * tensor->shape[2] * tensor->shape[3];
    switch (net->inits[t].kind) {
    case PSR_INIT_ZERO:
        assert_true(m.least == 0 && m.most == 0);
        break;
    case PSR_INIT_ONE:
        assert_true(m.least == 1 && m.most == 1);
        break;
    case PSR_INIT_KAIMING_NORMAL_FAN_OUT:
        check_moments(&m, sqrt(2 / fan_out), tensor->count);
        break;
    case PSR_INIT_KAIMING_NORMAL_FAN_IN:
        check_moments(&m, sqrt(2 / fan_in), tensor->count);
        /* Five per cent of a large normal sample lie beyond two standard deviations. */
        assert_true(tensor->count < 1000 || m.most > 2.5 * sqrt(2 / fan_in));
        break;
    case PSR_INIT_UNIFORM_DIRAC: /* test_whitening.c */
        break;
    case PSR_INIT_WHITENING:
    case PSR_INIT_UNIFORM_FAN_IN:
        if (tensor->rank == 1) /* a bias: its layer's fan_in is not in its shape */
            fan_in = net->inits[t].fan_in;
        assert_true(m.least >= -1 / sqrt(fan_in) && m.most <= 1 / sqrt(fan_in));
        check_moments(&m, 1 / sqrt(3 * fan_in), tensor->count);
        break;
    }
}

static void every_tensor_starts_with_the_moments_of_its_distribution(void **state)
{
    (void)state;
    static const char *const models[] = {"mlp",      "convnet",  "resnet20",
                                         "resnet18", "resnet50", "airbench94"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        initialised made = initialise(models[i], 42);
        for (size_t t = 0; t < made.net->params.tensor_count; t++)
            check_distribution(made.net, t, made.arena + made.net->params.tensors[t].offset);
        dispose(&made);
    }
}

static psr_init_kind kind_of(const psr_network *net, const char *name)
{
    const psr_tensor *tensor = psr_layout_find(&net->params, name);
    assert_non_null(tensor);
    return net->inits[tensor - net->params.tensors].kind;
}

static void each_family_has_the_distributions_of_its_source(void **state)
{
    (void)state;
    psr_network *net = net_of("resnet50", 10, 3, 32, PSR_SHORTCUT_A);
    assert_int_equal(kind_of(net, "layer1.0.downsample.0.weight"), PSR_INIT_KAIMING_NORMAL_FAN_OUT);
    assert_int_equal(kind_of(net, "layer1.0.bn3.weight"), PSR_INIT_ONE);
    assert_int_equal(kind_of(net, "layer1.0.bn3.bias"), PSR_INIT_ZERO);
    assert_int_equal(kind_of(net, "fc.weight"), PSR_INIT_UNIFORM_FAN_IN);
    assert_int_equal(kind_of(net, "fc.bias"), PSR_INIT_UNIFORM_FAN_IN);
    psr_network_free(net);
    net = net_of("resnet20", 10, 3, 32, PSR_SHORTCUT_A);
    assert_int_equal(kind_of(net, "conv1.weight"), PSR_INIT_KAIMING_NORMAL_FAN_IN);
    assert_int_equal(kind_of(net, "fc.weight"), PSR_INIT_KAIMING_NORMAL_FAN_IN);
    assert_int_equal(kind_of(net, "fc.bias"), PSR_INIT_ZERO);
    psr_network_free(net);
    net = net_of("convnet", 10, 1, 28, PSR_SHORTCUT_A);
    assert_int_equal(kind_of(net, "conv2.bias"), PSR_INIT_UNIFORM_FAN_IN);
    psr_network_free(net);
}

static void the_same_seed_gives_the_same_bits_and_another_seed_others(void **state)
{
    (void)state;
    initialised a = initialise("resnet20", 7), b = initialise("resnet20", 7),
                c = initialise("resnet20", 8);
    assert_true(psr_layout_hash(&a.net->params, a.arena) ==
                psr_layout_hash(&b.net->params, b.arena));
    assert_true(psr_layout_hash(&a.net->params, a.arena) !=
                psr_layout_hash(&c.net->params, c.arena));
    dispose(&a);
    dispose(&b);
    dispose(&c);
}

static void padding_is_zero_and_statistics_start_at_zero_and_one(void **state)
{
    (void)state;
    initialised made = initialise("resnet20", 3);
    const psr_layout *layout = &made.net->params;
    size_t padding = 0;
    for (size_t t = 0; t < layout->tensor_count; t++) {
        size_t end = t + 1 < layout->tensor_count ? layout->tensors[t + 1].offset : layout->length;
        for (size_t i = layout->tensors[t].offset + layout->tensors[t].count; i < end;
             i++, padding++)
            assert_true(made.arena[i] == 0);
    }
    assert_int_equal(padding, layout->length - layout->count);
    assert_true(padding > 0);
    for (size_t t = 0; t < made.net->buffers.tensor_count; t++) {
        const psr_tensor *tensor = &made.net->buffers.tensors[t];
        float wanted = strstr(tensor->name, "running_var") != NULL ? 1.0f : 0.0f;
        for (size_t i = 0; i < tensor->count; i++)
            assert_true(made.buffers[tensor->offset + i] == wanted);
    }
    dispose(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_has_the_names_shapes_and_order_of_torchvision),
        cmocka_unit_test(nodes_read_earlier_nodes_and_end_in_the_logits),
        cmocka_unit_test(every_tensor_belongs_to_one_node_in_forward_order),
        cmocka_unit_test(a_block_is_conv_norm_relu_conv_norm_downsample_add_relu),
        cmocka_unit_test(resnet50_strides_in_its_3x3_and_ends_at_7x7),
        cmocka_unit_test(
            option_a_shortcuts_have_no_parameters_and_halve_odd_images_as_convolutions_do),
        cmocka_unit_test(the_convnet_flattens_320_values_of_28_px_and_more_of_larger_images),
        cmocka_unit_test(an_unknown_model_is_refused_with_the_names_of_all),
        cmocka_unit_test(an_image_that_is_too_small_is_refused_with_the_least_size),
        cmocka_unit_test(the_small_stem_keeps_the_size_and_zero_gamma_is_of_each_last_norm),
        cmocka_unit_test(impossible_inputs_are_refused),
        cmocka_unit_test(every_tensor_starts_with_the_moments_of_its_distribution),
        cmocka_unit_test(each_family_has_the_distributions_of_its_source),
        cmocka_unit_test(the_same_seed_gives_the_same_bits_and_another_seed_others),
        cmocka_unit_test(padding_is_zero_and_statistics_start_at_zero_and_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
