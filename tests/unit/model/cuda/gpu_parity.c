/* The back end cuda beside those of the processor, on whatever GPU is linked: NVIDIA's, or one that
 * the processor plays. Operators in odd shapes and in sizes for tensor cores beside the reference
 * loops, networks beside oneDNN; float32, bf16 and fp16; one training pass and one inference, taken
 * twice with the same bits; of operators in float32, images as bytes give the bits of floats. fp16
 * comes behind the others: time may end before all are through.
 * bench/gpu_check runs it on machines with a GPU.
 *
 * usage: gpu_parity GROUP|NAME...
 *   GROUP  operators, networks, or large (ResNets of 224 px)
 *
 * TAP; a line before each result has the largest error, as a share of what is allowed: of float32
 * 2e-4 (operators) or 1e-3 (networks), relative, in the Euclidean norm of each tensor; of bf16 0.02
 * for values and 0.25 for gradients, and 0.05 and 0.5 in ResNets, where a rounding that turns a
 * ReLU over goes through dozens of layers: what is really wrong is off by about 1. fp16 has three
 * bits more: 0.004 and 0.12, and 0.01 and 0.25 in networks, with the loss scaled by 4096. */
#include "model/backend.h"
#include "model/cuda/linked.h"
#include "model/reference/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/expect.h"
#include "tests/unit/model/byte_batch.h"
#include "tests/unit/model/parity.h"

#define A PSR_SHORTCUT_A
#define B PSR_SHORTCUT_B

/* name, largest batch, network; in order of importance: time may end before all are through */
#define OPERATORS(CASE)                                                                            \
    CASE(everything, 4, everything())                                                              \
    CASE(conv_64_64, 8, convolutions(64, 64, 3, 1, 1))                                             \
    CASE(norm_add_relu, 3, norm_add(16, true))                                                     \
    CASE(two_norms_relu, 3, two_norms(5, true))                                                    \
    CASE(squeezed_projected, 3, squeezed(3, true))                                                 \
    CASE(gelu, 3, gelus(20))                                                                       \
    CASE(grouped_4_by_4, 3, grouped(4, 4, 6, 1))                                                   \
    CASE(pools, 3, pools(6))                                                                       \
    CASE(dropouts, 5, dropouts())                                                                  \
    CASE(conv_64_256_by_1, 8, convolutions(64, 256, 1, 1, 0))                                      \
    CASE(conv_128_128_stride_2, 8, convolutions(128, 128, 3, 2, 1))                                \
    CASE(conv_1_5, 3, convolutions(1, 5, 3, 1, 1))                                                 \
    CASE(conv_3_20_by_5, 3, convolutions(3, 20, 5, 2, 2))                                          \
    CASE(conv_17_32_by_1, 2, convolutions(17, 32, 1, 1, 0))                                        \
    CASE(conv_16_33, 2, convolutions(16, 33, 3, 2, 0))                                             \
    CASE(conv_of_low_images, 3, low_images(2, 7, 3, 2))                                            \
    CASE(conv_of_two_channels, 3, few_channels(2, 4, 5, 2))                                        \
    CASE(grouped_3_by_5, 2, grouped(3, 5, 3, 1))                                                   \
    CASE(norm, 4, norm_alone(5))                                                                   \
    CASE(norm_relu_20, 4, norm_relu(20))                                                           \
    CASE(norm_relu_64, 16, norm_relu(64))                                                          \
    CASE(norm_add, 3, norm_add(16, false))                                                         \
    CASE(two_norms, 3, two_norms(5, false))                                                        \
    CASE(squeezed, 3, squeezed(16, false))                                                         \
    CASE(added_behind_relu, 3, added_behind_relu(16))                                              \
    CASE(option_a, 3, option_a(4, 8))                                                              \
    CASE(plain_pools, 3, plain_pools(5, 3, 2, 1))

#define NETWORKS(CASE)                                                                             \
    CASE(mlp, 5, named("mlp", 1, 28, A))                                                           \
    CASE(convnet, 5, named("convnet", 1, 28, A))                                                   \
    CASE(resnet20, 8, named("resnet20", 3, 32, A))                                                 \
    CASE(resnet18, 8, named("resnet18", 3, 32, B))                                                 \
    CASE(airbench94, 8, named("airbench94", 3, 32, B))                                             \
    CASE(resnet9, 8, named("resnet9", 3, 32, B))                                                   \
    CASE(preresnet20, 8, named("preresnet20", 3, 32, A))                                           \
    CASE(resnet20_b, 8, named("resnet20", 3, 32, B))

#define LARGE(CASE)                                                                                \
    CASE(resnet18_224, 8, named("resnet18", 3, 224, B))                                            \
    CASE(resnet50_224, 8, named("resnet50", 3, 224, B))

#define MAKE(name, batch, network)                                                                 \
    static psr_network *make_##name(void)                                                          \
    {                                                                                              \
        return network;                                                                            \
    }
/* clang-format off */
OPERATORS(MAKE)
NETWORKS(MAKE)
LARGE(MAKE)
/* clang-format on */

typedef struct parity_case {
    const char *group, *name;
    uint32_t batch;
    psr_network *(*make)(void);
} parity_case;

#define OPERATOR(name, batch, network) {"operators", #name, batch, make_##name},
#define NETWORK(name, batch, network) {"networks", #name, batch, make_##name},
#define LARGE_ONE(name, batch, network) {"large", #name, batch, make_##name},
static const parity_case cases[] = {OPERATORS(OPERATOR) NETWORKS(NETWORK) LARGE(LARGE_ONE)};
enum { CASES = sizeof cases / sizeof cases[0], PRECISIONS = 3 };

/* By what the loss is scaled in fp16, so that small gradients keep their bits. */
#define SCALE 4096

/* One test: a case in a precision. */
typedef struct job {
    const parity_case *of;
    psr_precision precision;
    char name[64];
} job;

static bool is_operator(const parity_case *c)
{
    return strcmp(c->group, "operators") == 0;
}

/* Whether it has dozens of layers. */
static bool is_deep(const parity_case *c)
{
    return strstr(c->name, "resnet") != NULL || strstr(c->name, "airbench") != NULL;
}

static tolerance limit_of(const job *j)
{
    if (j->precision == PSR_PRECISION_FP32)
        return is_operator(j->of) ? (tolerance){2e-4, 2e-4} : (tolerance){1e-3, 1e-3};
    if (j->precision == PSR_PRECISION_FP16)
        return is_operator(j->of) ? (tolerance){4e-3, 0.12} : (tolerance){0.01, 0.25};
    return is_deep(j->of) ? (tolerance){0.05, 0.5} : (tolerance){2e-2, 0.25};
}

/* What the same back end makes of the same batch once more has the same bits. */
static void repeat(const setting *s, const outcome *found, uint32_t count)
{
    outcome again = {.backend = found->backend,
                     .gradients = floats(s->net->params.length),
                     .buffers = floats(s->net->buffers.length),
                     .logits = floats((size_t)s->max_batch * s->net->classes)};
    passes(s, &again, count);
    assert_same_bits(s, found, &again);
    again.backend = NULL; /* found's */
    outcome_done(&again);
}

/* Other images than those before, which are overwritten: as floats, and as bytes. */
static void repeat_as_bytes(const setting *s, outcome *found, uint32_t count)
{
    const uint32_t C = s->net->channels, H = s->net->height, W = s->net->width;
    byte_batch bytes = byte_batch_new(7, count, C, H, W);
    setting given = *s;
    given.bytes = &bytes.of;
    psr_ref_images_of_bytes(count, C, H, W, &bytes.of, s->images);
    passes(s, found, count);
    repeat(&given, found, count);
    byte_batch_spoil(&bytes, count, C);
}

static void a_case_agrees(void **state)
{
    const job *j = *state;
    const psr_backend_kind kind = is_operator(j->of) ? PSR_BACKEND_REFERENCE : PSR_BACKEND_ONEDNN;
    setting s = setting_of(j->of->make(), j->of->batch);
    outcome expected = outcome_of(&s, kind, PSR_PRECISION_FP32, 1, j->of->batch);
    s.gradient_scale = j->precision == PSR_PRECISION_FP16 ? SCALE : 0;
    outcome found = outcome_of(&s, PSR_BACKEND_CUDA, j->precision, 1, j->of->batch);
    const largest_error e = error_of(&s, &found, &expected, j->of->batch, limit_of(j));
    printf("# %s: %.3g of what is allowed (%s)\n", j->name, e.share, e.what);
    if (!(e.share <= 1))
        fail_msg("%s, %.3g times what is allowed", e.what, e.share);
    repeat(&s, &found, j->of->batch);
    if (is_operator(j->of) && j->precision == PSR_PRECISION_FP32)
        repeat_as_bytes(&s, &found, j->of->batch);
    outcome_done(&found);
    outcome_done(&expected);
    setting_done(&s);
}

static bool is_asked(const parity_case *c, char *const words[], int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], c->group) == 0 || strcmp(words[i], c->name) == 0)
            return true;
    return false;
}

/* Its tests, and room for them. */
typedef struct plan {
    job jobs[CASES * PRECISIONS];
    struct CMUnitTest tests[CASES * PRECISIONS];
    size_t count;
} plan;

static void add(plan *p, const parity_case *of, psr_precision precision)
{
    static const char *const names[] = {[PSR_PRECISION_FP32] = "fp32",
                                        [PSR_PRECISION_BF16] = "bf16",
                                        [PSR_PRECISION_FP16] = "fp16"};
    job *j = &p->jobs[p->count];
    *j = (job){.of = of, .precision = precision};
    snprintf(j->name, sizeof j->name, "%s %s", of->name, names[precision]);
    p->tests[p->count++] =
        (struct CMUnitTest){.name = j->name, .test_func = a_case_agrees, .initial_state = j};
}

int main(int argc, char **argv)
{
    static plan p;
    for (size_t i = 0; i < CASES; i++) {
        if (!is_asked(&cases[i], argv + 1, argc - 1))
            continue;
        add(&p, &cases[i], PSR_PRECISION_FP32);
        add(&p, &cases[i], PSR_PRECISION_BF16);
    }
    for (size_t i = 0; i < CASES; i++)
        if (is_asked(&cases[i], argv + 1, argc - 1))
            add(&p, &cases[i], PSR_PRECISION_FP16);
    if (p.count == 0) {
        fprintf(stderr, "gpu_parity: say what to compare: operators, networks, large, or a case\n");
        return 2;
    }
    /* each result as soon as it is there: whoever reads them may end this */
    setvbuf(stdout, NULL, _IOLBF, 0);
    psr_cuda_offer(psr_cuda_linked());
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests("gpu_parity", p.tests, p.count, NULL, NULL) != 0;
}
