/* test_golden reference|onednn|winograd FILE: a whole network from the weights and batches of a
 * golden file, beside PyTorch. The error of PyTorch's float32 runs against its float64 runs is the
 * measure: psring's gradient of the first step, tensor by tensor, and its losses of 10 steps may be
 * at most twice as far off.
 *
 * A gradient's error is in units of its norm; PyTorch's is the root mean square over the file's
 * seeds. Over the seeds on which a tensor is settled (make_golden.py says what that is) psring's is
 * that too, and so for the losses of settled steps and the one after them. What is settled on no
 * seed depends on which ReLUs go over to the other side, in psring's run and in PyTorch's: there
 * psring's error is the median over the seeds, which one unlucky seed does not move. One rounding
 * of each number of the result is free (a norm's 2^-24), or a tensor that PyTorch has right to the
 * last bit could only be equalled by luck. Convolutions are direct ones, not those that happened to
 * be fastest; `winograd` is oneDNN's back end with our own Winograd as far as picking by timing may
 * go. */
#include "golden.h"

#include "model/backend.h"
#include "model/optimizers/optimizer.h"
#include "model/onednn/kernels/winograd.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <cmocka.h>

#define FACTOR 2
#define ONE_ROUNDING 0x1p-24

static psr_backend_kind kind;
static bool winograd;
static golden g;
static psr_network *net;
static psr_buckets buckets;
static float *weights, *gradients, *buffers, *images;
static uint32_t *labels, *samples;
static double (*losses)[GOLDEN_STEPS]; /* [run] */
/* [tensor][run]: of the first gradient, in units of its norm */
static double (*errors)[GOLDEN_RUNS_MAX];

#define must(expr)                                                                                 \
    do {                                                                                           \
        if ((expr) != PSR_OK)                                                                      \
            fail_msg("%s: %s", #expr, psr_err_detail());                                           \
    } while (0)

static void *array(size_t count, size_t size)
{
    const size_t bytes = (count * size + 64) / 64 * 64;
    void *x = aligned_alloc(64, bytes);
    assert_non_null(x);
    memset(x, 0, bytes);
    return x;
}

static size_t image_floats(void)
{
    return (size_t)g.batch * g.channels * g.size * g.size;
}

/* The network as PyTorch's: a convnet without dropout. */
static int make_net(void **state)
{
    (void)state;
    must(psr_network_new(g.model, g.classes, g.channels, g.size, g.size, PSR_SHORTCUT_A, &net));
    for (uint32_t i = 0; i < net->node_count; i++)
        net->nodes[i].drop = 0;
    must(psr_buckets_plan(&net->params, 4 << 20, &buckets));
    weights = array(net->params.length, sizeof(float));
    gradients = array(net->params.length, sizeof(float));
    buffers = array(net->buffers.length, sizeof(float));
    images = array(image_floats(), sizeof(float));
    labels = array(g.batch, sizeof(uint32_t));
    samples = array(g.batch, sizeof(uint32_t));
    losses = array(g.run_count, sizeof(*losses));
    errors = array(net->params.tensor_count, sizeof(*errors));
    assert_true(g.run_count <= GOLDEN_RUNS_MAX);
    return 0;
}

static int free_net(void **state)
{
    (void)state;
    psr_buckets_done(&buckets);
    psr_network_free(net);
    free(weights);
    free(gradients);
    free(buffers);
    free(images);
    free(labels);
    free(samples);
    free(losses);
    free(errors);
    return 0;
}

static void weights_and_batches_are_those_of_pytorch(void **state)
{
    (void)state;
    /* Not before the group: TAP begins with its version, or Meson 1.7 refuses it. */
    printf("# %s, %u x %u x %u, batch %u, %s\n", g.model, g.channels, g.size, g.size, g.batch,
           psr_backend_identity(kind, 0));
    for (size_t r = 0; r < g.run_count; r++) {
        char hash[17], crc[9];
        psr_network_init(net, g.runs[r].seed, weights, buffers);
        snprintf(hash, sizeof(hash), "%016" PRIx64, psr_layout_hash(&net->params, weights));
        assert_string_equal(hash, g.runs[r].weights_hash);
        golden_batch(&g, g.runs[r].seed, images, labels);
        const unsigned long sum =
            crc32_z(0, (const unsigned char *)images, image_floats() * sizeof(float));
        snprintf(crc, sizeof(crc), "%08lx", sum & 0xFFFFFFFFul);
        assert_string_equal(crc, g.runs[r].images_crc32);
    }
}

static void tensors_are_those_of_pytorch(void **state)
{
    (void)state;
    for (size_t r = 0; r < g.run_count; r++) {
        assert_int_equal(net->params.tensor_count, g.runs[r].tensor_count);
        for (size_t t = 0; t < net->params.tensor_count; t++)
            assert_string_equal(net->params.tensors[t].name, g.runs[r].tensors[t].name);
    }
}

/* Estimates norm of the error / norm of each tensor's gradient: its square is the mean over k of
 * (s_k . error)^2. */
static void add_gradient_errors(const golden_run *run)
{
    for (uint32_t t = 0; t < net->params.tensor_count; t++) {
        const psr_tensor *tensor = &net->params.tensors[t];
        double found[GOLDEN_PROJECTIONS], sum = 0;
        golden_project(run->seed, t, gradients + tensor->offset, tensor->count, found);
        for (int k = 0; k < GOLDEN_PROJECTIONS; k++) {
            const double difference =
                (found[k] - run->tensors[t].projections[k]) / run->tensors[t].norm;
            sum += difference * difference;
        }
        errors[t][run - g.runs] = sqrt(sum / GOLDEN_PROJECTIONS);
    }
}

static void train(psr_backend *backend, psr_optimizer *optimizer, size_t r)
{
    const psr_batch batch = {
        .images = images, .labels = labels, .samples = samples, .count = g.batch};
    const psr_exec_state exec = {weights, gradients, buffers};
    psr_network_init(net, g.runs[r].seed, weights, buffers);
    golden_batch(&g, g.runs[r].seed, images, labels);
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        psr_pass_result result;
        must(psr_backend_train(backend, &batch, &exec, 1.0f / (float)g.batch, NULL, &result));
        losses[r][step] = result.loss_sum / g.batch;
        if (step == 0)
            add_gradient_errors(&g.runs[r]);
        psr_optimizer_update(optimizer, weights, gradients, 0, net->params.length, (float)g.lr,
                             (uint64_t)step + 1);
    }
}

/* What users have by default; or our own Winograd wherever it may go. Static storage. */
static const char *algorithms(void)
{
    static char text[1024];
    if (!winograd)
        return "auto";
    text[0] = '\0';
    for (uint32_t i = 0; i < net->node_count; i++) {
        if (net->nodes[i].op != PSR_OP_CONV)
            continue;
        const uint32_t *shape = net->params.tensors[net->nodes[i].weight].shape;
        const uint32_t channels = shape[0] < shape[1] ? shape[0] : shape[1];
        strcat(text, text[0] == '\0' ? "" : ",");
        strcat(text, channels >= PSR_WINOGRAD_FORWARD_CHANNELS    ? "ooo"
                     : channels >= PSR_WINOGRAD_BACKWARD_CHANNELS ? "doo"
                                                                  : "ddd");
    }
    return text;
}

static void the_network_trains_for_ten_steps(void **state)
{
    (void)state;
    psr_backend *backend = NULL;
    psr_config config;
    psr_config_defaults(&config);
    config.optimizer = PSR_OPTIMIZER_SGD;
    config.nesterov = false;
    config.momentum = g.momentum;
    config.weight_decay = g.weight_decay;
    const psr_backend_options options = {.kind = kind,
                                         .max_batch = g.batch,
                                         .threads = 2,
                                         .buckets = &buckets,
                                         .algorithms = algorithms()};
    must(psr_backend_new(net, &options, &backend));
    for (size_t r = 0; r < g.run_count; r++) {
        psr_optimizer *optimizer = NULL;
        must(psr_optimizer_new(&config, &net->params, &optimizer));
        train(backend, optimizer, r);
        psr_optimizer_free(optimizer);
    }
    psr_backend_free(backend);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double root_mean_square(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum / (double)count);
}

static double median(double *x, size_t count)
{
    qsort(x, count, sizeof(*x), by_value);
    return (x[(count - 1) / 2] + x[count / 2]) / 2;
}

/* Of tensor t over the runs that count. */
static void gradient_errors(size_t t, double *ret_ours, double *ret_pytorchs)
{
    double ours[GOLDEN_RUNS_MAX], pytorchs[GOLDEN_RUNS_MAX];
    bool settled = false;
    size_t count = 0;
    for (size_t r = 0; r < g.run_count; r++)
        settled |= g.runs[r].tensors[t].settled;
    for (size_t r = 0; r < g.run_count; r++) {
        const golden_tensor *tensor = &g.runs[r].tensors[t];
        if (tensor->settled != settled)
            continue;
        ours[count] = errors[t][r];
        pytorchs[count++] = tensor->error / tensor->norm;
    }
    *ret_ours = settled ? root_mean_square(ours, count) : median(ours, count);
    *ret_pytorchs = root_mean_square(pytorchs, count);
}

static void each_tensors_first_gradient_is_as_right_as_pytorchs(void **state)
{
    (void)state;
    const size_t count = net->params.tensor_count;
    double *ratios = array(count, sizeof(*ratios));
    uint32_t too_far = 0;
    for (size_t t = 0; t < count; t++) {
        double error, pytorchs;
        gradient_errors(t, &error, &pytorchs);
        ratios[t] = error / pytorchs;
        if (!(error <= FACTOR * pytorchs + ONE_ROUNDING)) {
            too_far++;
            printf("# %s: off by %.4g of its norm, PyTorch float32 by %.4g\n",
                   net->params.tensors[t].name, error, pytorchs);
        }
    }
    qsort(ratios, count, sizeof(*ratios), by_value);
    printf("# gradients of %zu tensors: error over PyTorch float32's: median %.2f, largest %.2f\n",
           count, ratios[count / 2], ratios[count - 1]);
    free(ratios);
    assert_int_equal(too_far, 0);
}

static void print_losses(void)
{
    printf("# step  psring         PyTorch        float64        psring off by  PyTorch off by  "
           "(seed %u)\n",
           g.runs[0].seed);
    for (int i = 0; i < GOLDEN_STEPS; i++) {
        const double truth = g.runs[0].losses64[i], single = g.runs[0].losses32[i];
        printf("# %4d  %-13.9g  %-13.9g  %-13.9g  %-13.2g  %.2g\n", i + 1, losses[0][i], single,
               truth, losses[0][i] - truth, single - truth);
    }
}

/* Norms over the first `steps` losses of each run. */
static void loss_norms(int steps, double ret_ours[], double ret_pytorchs[], double ret_losses[])
{
    for (size_t r = 0; r < g.run_count; r++) {
        double ours = 0, pytorchs = 0, whole = 0;
        for (int i = 0; i < steps; i++) {
            const double truth = g.runs[r].losses64[i];
            ours += pow(losses[r][i] - truth, 2);
            pytorchs += pow(g.runs[r].losses32[i] - truth, 2);
            whole += pow(truth, 2);
        }
        ret_ours[r] = sqrt(ours);
        ret_pytorchs[r] = sqrt(pytorchs);
        ret_losses[r] = sqrt(whole);
    }
}

static void compare_losses(int steps, bool settled)
{
    double ours[GOLDEN_RUNS_MAX], pytorchs[GOLDEN_RUNS_MAX], whole[GOLDEN_RUNS_MAX];
    loss_norms(steps, ours, pytorchs, whole);
    const double found = settled ? root_mean_square(ours, g.run_count) : median(ours, g.run_count);
    const double limit = root_mean_square(pytorchs, g.run_count);
    printf("# norm over %d steps, %zu seeds: psring is off by %.3g (%s), PyTorch float32 by %.3g\n",
           steps, g.run_count, found, settled ? "root mean square" : "median", limit);
    if (!(found <= FACTOR * limit + ONE_ROUNDING * root_mean_square(whole, g.run_count)))
        fail_msg("losses are off by %.1f times PyTorch float32's error", found / limit);
}

static void the_losses_are_as_right_as_pytorchs(void **state)
{
    (void)state;
    print_losses();
    const int settled = g.settled_steps < GOLDEN_STEPS ? (int)g.settled_steps + 1 : GOLDEN_STEPS;
    compare_losses(settled, true);
    if (settled < GOLDEN_STEPS)
        compare_losses(GOLDEN_STEPS, false);
}

static void the_loss_falls_by_a_tenth(void **state)
{
    (void)state;
    for (size_t r = 0; r < g.run_count; r++)
        assert_true(losses[r][GOLDEN_STEPS - 1] <= 0.9 * losses[r][0]);
}

int main(int argc, char **argv)
{
    winograd = argc == 3 && strcmp(argv[1], "winograd") == 0;
    if (argc != 3 ||
        (strcmp(argv[1], "reference") != 0 && strcmp(argv[1], "onednn") != 0 && !winograd)) {
        fprintf(stderr, "usage: test_golden reference|onednn|winograd FILE\n");
        return 2;
    }
    kind = strcmp(argv[1], "reference") == 0 ? PSR_BACKEND_REFERENCE : PSR_BACKEND_ONEDNN;
    if (golden_read(argv[2], &g) != PSR_OK) {
        fprintf(stderr, "test_golden: %s\n", psr_err_detail());
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_batches_are_those_of_pytorch),
        cmocka_unit_test(tensors_are_those_of_pytorch),
        cmocka_unit_test(the_network_trains_for_ten_steps),
        cmocka_unit_test(each_tensors_first_gradient_is_as_right_as_pytorchs),
        cmocka_unit_test(the_losses_are_as_right_as_pytorchs),
        cmocka_unit_test(the_loss_falls_by_a_tenth),
    };
    const int failed = cmocka_run_group_tests_name("golden", tests, make_net, free_net);
    golden_done(&g);
    return failed;
}
