/* Programs of networks for a GPU, played without one: every step finds in memory what an earlier
 * step has left there for it, and the gradient of every trained parameter is written, once. */
#include "model/cuda/program.h"

#include "model/freeze.h"
#include "model/networks/network_list.h"
#include "tests/unit/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE ((size_t)4096)
enum { BATCH = 3 };

/* Who wrote last: of each page of the rooms the buffer, of each tensor how often. */
typedef struct played {
    const psr_network *net;
    const psr_cuda_program *program;
    uint32_t *pages;
    uint32_t *gradients; /* [tensors of params] */
    uint32_t *after;     /* [tensors of buffers] */
} played;

static void write_place(played *p, const psr_cuda_place *place)
{
    const psr_layout *params = &p->net->params, *buffers = &p->net->buffers;
    switch (place->memory) {
    case PSR_CUDA_ROOM:
        assert_true(place->offset + place->bytes <= p->program->room_bytes);
        for (size_t at = place->offset; at < place->offset + place->bytes; at += PAGE)
            p->pages[at / PAGE] = place->buffer;
        break;
    case PSR_CUDA_GRADIENTS:
        for (size_t t = 0; t < params->tensor_count; t++)
            p->gradients[t] += params->tensors[t].offset * sizeof(float) == place->offset;
        break;
    case PSR_CUDA_BUFFERS_AFTER:
        for (size_t t = 0; t < buffers->tensor_count; t++)
            p->after[t] += buffers->tensors[t].offset * sizeof(float) == place->offset;
        break;
    default:
        assert_int_equal(place->memory, PSR_CUDA_RESULT);
    }
}

static void read_place(const played *p, const psr_cuda_place *place)
{
    if (place->memory != PSR_CUDA_ROOM)
        return;
    for (size_t at = place->offset; at < place->offset + place->bytes; at += PAGE)
        assert_int_equal(p->pages[at / PAGE], place->buffer);
}

static size_t bytes_of(const psr_cuda_tensor *t)
{
    size_t bytes = t->type == PSR_CUDA_FLOAT32 ? 4 : t->type == PSR_CUDA_INT8 ? 1 : 2;
    for (uint32_t i = 0; i < t->rank; i++)
        bytes *= (size_t)t->dims[i];
    return bytes;
}

/* Every tensor that is stored has its place, which is as large as it is. */
static void check_graph(const played *p, const psr_cuda_step *step)
{
    const psr_cuda_graph *graph = &p->program->graphs[step->graph];
    uint32_t stored = 0;
    expect_ok(psr_cuda_graph_check(graph));
    for (uint32_t i = 0; i < graph->tensor_count; i++)
        stored += !graph->tensors[i].inner && !graph->tensors[i].by_value;
    assert_int_equal(step->use_count, stored);
    for (uint32_t i = 0; i < step->use_count; i++)
        assert_int_equal(bytes_of(&graph->tensors[step->uses[i].at]),
                         p->program->places[step->uses[i].place].bytes);
}

static void play(played *p)
{
    const psr_cuda_program *program = p->program;
    bool backward = false;
    for (uint32_t i = 0; i < program->step_count; i++) {
        const psr_cuda_step *step = &program->steps[i];
        assert_true(step->backward || !backward);
        backward = step->backward;
        if (step->graph != PSR_NONE)
            check_graph(p, step);
        for (uint32_t k = 0; k < step->use_count; k++)
            if (!step->uses[k].written)
                read_place(p, &program->places[step->uses[k].place]);
        for (uint32_t k = 0; k < step->use_count; k++)
            if (step->uses[k].written)
                write_place(p, &program->places[step->uses[k].place]);
        for (uint32_t k = 0; k < step->use_count; k++) /* nothing it wrote lies on another */
            if (step->uses[k].written)
                read_place(p, &program->places[step->uses[k].place]);
    }
    read_place(p, &program->places[program->logits]);
}

static void check_program(const psr_network *net, psr_cuda_type type, bool training)
{
    psr_cuda_program *program;
    expect_ok(psr_cuda_program_new(net, BATCH, type, training, &program));
    played p = {.net = net, .program = program};
    p.pages = malloc((program->room_bytes / PAGE + 1) * sizeof *p.pages);
    p.gradients = calloc(net->params.tensor_count, sizeof *p.gradients);
    p.after = calloc(net->buffers.tensor_count + 1, sizeof *p.after);
    assert_non_null(p.pages);
    assert_non_null(p.gradients);
    assert_non_null(p.after);
    memset(p.pages, 0xff, (program->room_bytes / PAGE + 1) * sizeof *p.pages);
    play(&p);
    for (size_t t = 0; t < net->params.tensor_count; t++)
        assert_int_equal(p.gradients[t], training && !net->params.tensors[t].frozen);
    for (uint32_t i = 0; i < net->node_count; i++) {
        const psr_network_node *n = &net->nodes[i];
        if (n->op != PSR_OP_BATCHNORM)
            continue;
        assert_int_equal(p.after[n->mean], training && !n->held);
        assert_int_equal(p.after[n->variance], training && !n->held);
    }
    free(p.pages);
    free(p.gradients);
    free(p.after);
    psr_cuda_program_free(program);
}

static void check_network(const psr_config *config, uint32_t channels, uint32_t size)
{
    static const psr_cuda_type types[] = {PSR_CUDA_FLOAT32, PSR_CUDA_BF16};
    psr_network *net = NULL;
    expect_ok(psr_network_of(config, 10, channels, size, size, &net));
    for (int t = 0; t < 2; t++)
        for (int training = 0; training < 2; training++)
            check_program(net, types[t], training != 0);
    psr_network_free(net);
}

static void test_every_network(void **state)
{
    psr_config config;
    (void)state;
    for (size_t i = 0; psr_networks[i].name != NULL; i++) {
        const psr_network_family family = psr_networks[i].family;
        const bool large = family == PSR_FAMILY_IMAGENET;
        const bool gray = family == PSR_FAMILY_MLP || family == PSR_FAMILY_CONVNET;
        psr_config_defaults(&config);
        snprintf(config.model, sizeof config.model, "%s", psr_networks[i].name);
        check_network(&config, gray ? 1 : 3, gray ? 28 : large ? 64 : 32);
        config.se_ratio = 4;
        if (psr_network_check(&config) == PSR_OK)
            check_network(&config, 3, large ? 64 : 32);
    }
}

/* What is frozen has no gradient; what lies before it has none either. */
static void test_frozen_networks(void **state)
{
    psr_config config;
    (void)state;
    psr_config_defaults(&config);
    strcpy(config.model, "resnet20");
    strcpy(config.freeze, "layer1.*,conv1*,bn1*");
    check_network(&config, 3, 32);
    config.freeze_bn = true;
    check_network(&config, 3, 32);
    strcpy(config.freeze, "layer2.*");
    check_network(&config, 3, 32);
}

static void test_images_that_something_else_reads_are_refused(void **state)
{
    psr_network *net = NULL;
    psr_cuda_program *program = NULL;
    (void)state;
    expect_ok(psr_network_new("convnet", 10, 1, 28, 28, PSR_SHORTCUT_A, &net));
    for (uint32_t i = 0; i < net->node_count; i++)
        if (net->nodes[i].op == PSR_OP_RELU) {
            net->nodes[i].input[0] = 0;
            break;
        }
    expect_failure(psr_cuda_program_new(net, BATCH, PSR_CUDA_FLOAT32, true, &program),
                   PSR_ERR_UNSUPPORTED,
                   "convnet: on a GPU, images are read by convolutions of one group and by linear "
                   "layers, and not by relu1");
    psr_network_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_network),
        cmocka_unit_test(test_frozen_networks),
        cmocka_unit_test(test_images_that_something_else_reads_are_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
